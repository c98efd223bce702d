"""The plan for the rounds ahead against the certified optimum, and schedules where memory fades."""

import numpy as np
import pytest

import influential_bandits as ib
from influential_bandits.optima.schedules import best_schedule, schedule_loss
from influential_bandits.policies.model_lcb.lookahead import (
    TOLERANCE,
    add_later_costs,
    plan_ahead,
)


def planned(losses, interaction, rounds, allowed=None):
    arms = len(losses)
    plan, slope = np.full(arms, np.nan), np.full(arms, np.nan)
    mask = np.ones(arms) if allowed is None else np.asarray(allowed, float)
    plan_ahead(np.asarray(losses, float), interaction, float(rounds), mask, plan, slope)
    return plan


def random_world(arms, seed):
    draw = np.random.default_rng(seed)
    half = draw.normal(size=(arms, arms))
    return draw.normal(size=arms) * 10.0 ** draw.integers(-1, 3), half @ half.T


def assert_a_mix(plan, rounds, allowed=None):
    assert (plan >= 0.0).all()
    assert plan.sum() == pytest.approx(rounds, rel=1e-9)
    if allowed is not None:
        assert (plan[~np.asarray(allowed)] == 0.0).all()


@pytest.mark.parametrize("arms", range(1, 7))
def test_the_plan_is_the_optimum(arms):
    """Marginal losses agree to TOLERANCE: so the loss is within TOLERANCE·|slope|·T, by convexity.

    After MOST_STEPS the plan is what there is: how often that leaves more, and how much, is stated.
    """
    far = 0
    for seed in range(50):
        losses, interaction = random_world(arms, seed)
        rounds = [1, 10, 1000, 10**5][seed % 4]
        instance = ib.Instance(interaction, losses)
        plan = planned(losses, instance.interaction.to_dense(), rounds)
        assert_a_mix(plan, rounds)
        best, slope = ib.optimum(instance, rounds), losses + interaction @ plan
        slope -= 0.5 * np.diag(interaction)
        excess = instance.total_loss(plan) - best.loss
        scale = rounds * np.abs(slope).max()
        assert -1e-9 * scale <= excess <= 0.02 * scale
        far += excess > 2.0 * TOLERANCE * scale
    assert far <= 2


@pytest.mark.parametrize("arms", range(2, 7))
def test_only_arms_that_are_allowed_are_planned(arms):
    for seed in range(30):
        losses, interaction = random_world(arms, seed)
        allowed = np.random.default_rng(seed).random(arms) < 0.5
        allowed[seed % arms] = True
        plan = planned(losses, interaction, 1000, allowed)
        assert_a_mix(plan, 1000, allowed)
        alone = planned(losses[allowed], interaction[np.ix_(allowed, allowed)].copy(), 1000)
        np.testing.assert_allclose(plan[allowed], alone, rtol=1e-9)


@pytest.mark.parametrize("arms", range(1, 7))
def test_an_indefinite_interaction_ends_in_some_mix(arms):
    """There the loss need not be convex; the plan is a mix, no worse than the best arm alone."""
    for seed in range(30):
        draw = np.random.default_rng(seed)
        half = draw.normal(size=(arms, arms))
        losses, interaction = draw.normal(size=arms), half + half.T
        plan = planned(losses, interaction, 500)
        assert_a_mix(plan, 500)
        alone = np.zeros(arms)
        alone[np.argmin(losses)] = 500.0
        instance = ib.Instance(interaction, losses, definite=False)
        assert instance.total_loss(plan) <= instance.total_loss(alone) + 1e-6


@pytest.mark.parametrize("arms", [1, 3])
def test_without_influence_everything_goes_to_the_smallest_loss(arms):
    losses = np.arange(arms, 0, -1.0)
    plan = planned(losses, np.zeros((arms, arms)), 100)
    assert plan.tolist() == [0.0] * (arms - 1) + [100.0]


def test_equal_arms_that_tire_alone_share():
    plan = planned(np.ones(4), np.eye(4), 1000)
    np.testing.assert_allclose(plan, 250.0, rtol=2 * TOLERANCE)


def test_all_zeros_end_at_once():
    assert planned(np.zeros(3), np.zeros((3, 3)), 7).tolist() == [7.0, 0.0, 0.0]


def later_costs(losses, initial, interaction, memory, rounds):
    arms, costs = len(losses), np.full(len(losses), np.nan)
    given = np.asarray(losses, float), np.asarray(initial, float), interaction
    add_later_costs(*given, memory, float(rounds), np.ones(arms), costs)
    return costs


def play_cheapest(instance, horizon):
    """The loss of always pulling the arm with the smallest cost, with (l1, A) known."""
    matrix, x, total = instance.interaction.to_dense(), np.zeros(instance.n_arms), 0.0
    for t in range(horizon):
        losses = instance.initial_loss + matrix @ x
        costs = later_costs(losses, instance.initial_loss, matrix, instance.memory, horizon - t)
        arm = int(np.argmin(costs))
        total += losses[arm]
        x *= instance.memory
        x[arm] += 1.0
    return total


@pytest.mark.parametrize("memory", [0.2, 0.5, 0.9, 0.97])
def test_the_cheapest_pulls_play_nearly_the_best_schedule_found(memory):
    """Over 10 worlds, less than a quarter of what the smallest loss of each round pays too much."""
    excess, greedy = [], []
    for seed in range(10):
        paper = ib.random_instance(3, seed)
        world = ib.Instance(paper.interaction, paper.initial_loss, memory=memory)
        bound = 300 * ib.fading_lower_bound(world, 300)
        best = schedule_loss(world, best_schedule(world, 60), 300) - bound
        excess.append(play_cheapest(world, 300) - bound - best)
        run = ib.simulate(world, ib.FrankWolfeOracle(), 300, ib.NoNoise())
        greedy.append(run.loss()[0, 0, -1] - bound - best)
        assert excess[-1] + best >= -1e-6 * abs(bound)
    assert np.mean(excess) < 0.25 * np.mean(greedy)


def test_in_the_last_round_only_the_loss_counts():
    losses, matrix = np.array([1.0, 0.5]), np.array([[0.1, 0.0], [0.0, 5.0]])
    assert later_costs(losses, np.zeros(2), matrix, 0.8, 1).tolist() == losses.tolist()
    dear = later_costs(losses, np.zeros(2), matrix, 0.8, 1000)
    assert dear[1] > dear[0]


def test_without_influence_costs_are_losses():
    costs = later_costs([0.3, 0.1, 0.2], [0.3, 0.1, 0.2], np.zeros((3, 3)), 0.5, 100)
    assert costs.tolist() == [0.3, 0.1, 0.2]
