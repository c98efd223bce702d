"""The oracles: what each of them is the best at."""

import itertools

import numpy as np
import pytest
from strategies import KINDS, interaction

import influential_bandits as ib


def integer_instance(arms, seed, memory=1.0, kind="dense"):
    """Whole losses: no sum is rounded, and ties are frequent."""
    draw = np.random.default_rng(seed)
    factors = draw.integers(-1, 2, (arms, 2)).astype(float)
    return ib.Instance(interaction(factors, kind), draw.integers(-3, 4, arms), memory=memory)


def compositions(total, arms, least=0):
    """All whole counts of at least ``least`` with the given sum."""
    return np.array(
        [
            counts
            for counts in itertools.product(range(least, total + 1), repeat=arms)
            if sum(counts) == total
        ]
    )


@pytest.mark.parametrize("memory", [1.0, 0.5])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("arms", [1, 2, 7])
def test_frank_wolfe_pulls_the_arm_with_the_smallest_true_loss(arms, kind, memory):
    for seed in range(3):
        instance = integer_instance(arms, seed, memory, kind)
        noise = ib.GaussianNoise(2.0)  # an oracle does not care
        run = ib.simulate(
            instance, ib.FrankWolfeOracle(), 60, noise, seeds=[seed], record="choices"
        )
        environment = ib.Environment(instance, noise, seed)
        for arm in run.choices[0, 0]:
            losses = environment.expected_losses()
            if memory == 1.0:
                assert arm == losses.argmin()  # ties to the smallest
            assert losses[arm] <= losses.min() + 1e-12
            environment.pull(arm)


@pytest.mark.parametrize("horizon", [1, 2, 3, 6])
def test_the_optimal_oracle_is_best_among_all_sequences(horizon):
    for seed in range(10):
        instance = ib.random_instance(n_arms=3, seed=seed)
        best = instance.total_loss(compositions(horizon, 3)).min()
        loss = ib.simulate(instance, ib.OptimalOracle(), horizon).loss()[0, 0, -1]
        assert loss == pytest.approx(best, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("horizon", [3, 4, 7])
def test_the_each_arm_once_oracle_is_best_among_all_completions(horizon):
    for seed in range(10):
        instance = ib.random_instance(n_arms=3, seed=seed)
        best = instance.total_loss(compositions(horizon, 3, least=1)).min()
        run = ib.simulate(instance, ib.EachArmOnceOracle(), horizon)
        assert (run.counts[0, 0, -1] >= 1).all()
        assert run.loss()[0, 0, -1] == pytest.approx(best, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("horizon", [5, 6, 50])
def test_the_each_arm_once_oracle_looks_at_every_arm_before_it_completes(horizon):
    instance = ib.random_instance(n_arms=5, seed=2)
    run = ib.simulate(instance, ib.EachArmOnceOracle(), horizon, record="choices")
    assert sorted(run.choices[0, 0, :5].tolist()) == [0, 1, 2, 3, 4]


def test_looking_at_every_arm_costs_what_the_lower_bound_says():
    """Prop. 2.3 is attained: one pull of the bad arm costs exactly T/4 + 1/8."""
    for first in (0, 1):
        instance = ib.linear_lower_bound(first)
        run = ib.simulate(instance, ib.EachArmOnceOracle(), 1000, checkpoints=[1000])
        assert run.counts[0, 0, 0].tolist() == [[1, 999], [999, 1]][first]
        assert run.regret()[0, 0, 0] == 1000 / 4 + 1 / 8


def test_an_oracle_goes_on_beyond_its_horizon():
    instance = ib.random_instance(n_arms=3, seed=0)
    for policy in (ib.OptimalOracle(), ib.EachArmOnceOracle()):
        agent = ib.Agent(policy, 3, instance=instance, horizon=10)
        pulls = [agent.pull().arm for _ in range(25)]
        plan = ib.simulate(instance, policy, 10).counts[0, 0, -1]
        assert np.bincount(pulls[:10], minlength=3).tolist() == plan.tolist()
        assert set(pulls[10:]) == {int(plan.argmax())}


@pytest.mark.parametrize("policy", [ib.OptimalOracle(), ib.EachArmOnceOracle()], ids=repr)
def test_planning_by_counts_needs_lasting_influence_and_a_definite_interaction(policy):
    fading = ib.Instance([[1, 1], [1, 2]], [1, 1], memory=0.9)
    indefinite = ib.Instance([[0, 1], [1, 0]], [1, 1], definite=False)
    for instance, need in ((fading, "memory = 1"), (indefinite, "positive semi-definite")):
        with pytest.raises(ib.errors.NotApplicable, match=need):
            ib.simulate(instance, policy, 10)
