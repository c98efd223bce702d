"""A fleet that starts from a fitted log, on users whose truth is known."""

import numpy as np
import pytest

import influential_bandits as ib
from influential_bandits.world.environment import Environment

ROUNDS, LOGGED, SERVED = 40, 80, 40


def logged(population, seed):
    """The log of users who were shown arms at random."""
    rng = np.random.default_rng(seed)
    fleet = ib.Fleet(arms=population.n_arms, history=True)
    for user, world in enumerate(population.draw(LOGGED, seed).instances()):
        environment = Environment(world, ib.GaussianNoise(1.0), seed, user)
        for _ in range(ROUNDS):
            ticket = fleet.pull(str(user), arm=int(rng.integers(population.n_arms)))
            fleet.observe(ticket, environment.pull(ticket.arm))
    return fleet.to_log()


def make_population(seed, **settings):
    typical = ib.random_instance(4, seed)
    matrix = 0.3 * typical.interaction.to_dense()
    return ib.Population(matrix, 0.5 * typical.initial_loss, 0.49, stay=ROUNDS, **settings)


def test_the_first_choice_of_a_fleet_from_a_log_is_the_arm_that_costs_least():
    """And the second is another one where the first has tired: both are far from the others."""
    matrix = np.diag([2.0, 0.1, 0.1])
    population = ib.Population(matrix, [0.0, 1.0, 3.0], 0.01, stay=ROUNDS)
    fleet = ib.InfluenceModel(pooling="full").fit(logged(population, 0)).fleet()
    numbers = [fleet.arm_names.index(str(arm)) for arm in range(3)]  # as the log met them
    assert fleet.policy.prior.taste == pytest.approx(0.1, abs=0.1)
    first = fleet.pull("ann")
    assert first.arm == numbers[0]
    assert fleet.pull("ann").arm == numbers[1]
    fleet.observe(first, 0.1)
    assert fleet.pull("bob").arm == numbers[0]
    expected, _ = fleet.expected_losses("ann")
    np.testing.assert_allclose(expected[numbers], [2.0, 1.1, 3.0], atol=0.5)


@pytest.mark.long
def test_the_first_users_of_a_fleet_from_a_log_fare_better_than_of_a_cold_one():
    """Of six populations, 40 users each; cold fleets learn A on these users."""
    warm, cold, errors = [], [], []
    for seed in range(6):
        population = make_population(seed)
        model = ib.InfluenceModel(pooling="full").fit(logged(population, seed))
        fleet = model.fleet()
        errors.append(np.abs(fleet.estimate().interaction - population.interaction).max())
        for policy, found in ((fleet.policy, warm), (ib.Foresight(), cold)):
            run = ib.simulate_fleet(population, policy, SERVED, seed=100 + seed)
            found.append(run.regret().mean())
    # 3,200 losses, of which each arm has 800 at some ten pulls of every other: an entry of A has a
    # standard error near 1/(√800·10) = 0.004 at the best, and some times that for being correlated.
    assert max(errors) < 0.05
    assert np.mean(warm) < np.mean(cold), (warm, cold)  # 0.77 and 0.86 of it were seen
