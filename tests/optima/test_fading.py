"""fading_lower_bound: no schedule beats it, and some reach it."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import fading_memories, instances

import influential_bandits as ib

ROUNDING = 1e-9
FAMILY = [
    (arms, memory, seed) for arms in (2, 3) for memory in (0.2, 0.5, 0.9) for seed in range(4)
]


def total_loss(instance, schedule):
    """Round by round, as the model is stated."""
    matrix, deviation, total = instance.interaction.to_dense(), np.zeros(instance.n_arms), 0.0
    for arm in schedule:
        total += instance.initial_loss[arm] + deviation[arm]
        deviation = instance.memory * deviation + matrix[arm]
    return total


def least_periodic_loss(instance, periods):
    """The smallest loss per round, in the long run, of all schedules that repeat."""
    memory, matrix = instance.memory, instance.interaction.to_dense()
    best = np.inf
    for period in periods:
        schedules = np.array(list(itertools.product(range(instance.n_arms), repeat=period)))
        losses = instance.initial_loss[schedules].sum(axis=1)
        for lag in range(1, period + 1):  # and lag + period, lag + 2·period, …
            weight = memory ** (lag - 1) / (1.0 - memory**period)
            losses += weight * matrix[np.roll(schedules, lag, axis=1), schedules].sum(axis=1)
        best = min(best, losses.min() / period)
    return best


def random_fading(arms, memory, seed):
    lasting = ib.random_instance(n_arms=arms, seed=seed)
    return ib.Instance(lasting.interaction, 0.3 * lasting.initial_loss, memory=memory)


@pytest.mark.parametrize(("arms", "memory", "seed"), FAMILY)
def test_no_periodic_schedule_beats_the_bound(arms, memory, seed):
    instance = random_fading(arms, memory, seed)
    bound = ib.fading_lower_bound(instance)
    assert least_periodic_loss(instance, range(1, 9)) >= bound - ROUNDING


def test_the_bound_is_close_to_the_best_periodic_schedule():
    gaps = []
    for settings_ in FAMILY:
        instance = random_fading(*settings_)
        best = least_periodic_loss(instance, range(1, 9))
        gaps.append((best - ib.fading_lower_bound(instance)) / instance.interaction.max_abs)
    assert np.mean(gaps) < 0.1


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(st.data())
def test_no_finite_schedule_beats_the_bound_of_its_horizon(data):
    instance = data.draw(instances(memory=fading_memories(), max_arms=5))
    horizon = data.draw(st.integers(1, 40))
    random = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    scale = 1.0 + np.abs(instance.initial_loss).max() + horizon * instance.interaction.max_abs
    bound = horizon * ib.fading_lower_bound(instance, horizon)
    cycle = np.tile(random.permutation(instance.n_arms), horizon)[:horizon]
    shares = random.dirichlet(np.ones(instance.n_arms))
    for schedule in (cycle, random.choice(instance.n_arms, horizon, p=shares)):
        assert total_loss(instance, schedule) >= bound - 1e-9 * horizon * scale


@pytest.mark.parametrize("horizon", [1, 2, 3, 8, 9, 30])
@pytest.mark.parametrize("memory", [0.1, 0.5, 0.97])
def test_the_effective_rounds_are_those_of_the_linear_system(horizon, memory):
    """1/h with h = 1ᵀN⁻¹1, N_st = γ^|s−t| − m·[s = t], by solving it."""
    places = np.arange(horizon)
    kernel = memory ** np.abs(places[:, None] - places) - (1 - memory) / (1 + memory) * np.eye(
        horizon
    )
    h = np.linalg.solve(kernel, np.ones(horizon)).sum()
    instance = ib.Instance([[1.0]], [0.0], memory=memory)
    expected = horizon**2 / (2 * memory * h) - horizon / (1 + memory)
    assert horizon * ib.fading_lower_bound(instance, horizon) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("memory", [0.01, 0.5, 0.99])
def test_one_arm_reaches_the_bound(memory):
    instance = ib.Instance([[2.0]], [0.5], memory=memory)
    assert ib.fading_lower_bound(instance) == pytest.approx(0.5 + 2.0 / (1.0 - memory), rel=1e-12)
    for horizon in (1, 2):
        exact = total_loss(instance, [0] * horizon)
        assert horizon * ib.fading_lower_bound(instance, horizon) == pytest.approx(exact)


@pytest.mark.parametrize("memory", [0.01, 0.5, 0.99])
def test_two_equal_arms_in_turn_reach_the_bound(memory):
    instance = ib.Instance([[1.0, -0.5], [-0.5, 1.0]], [0.25, 0.25], memory=memory)
    reached = least_periodic_loss(instance, [2])
    assert ib.fading_lower_bound(instance) == pytest.approx(reached, rel=1e-12)


def test_without_memory_only_the_last_pull_counts():
    """γ → 0: l1·p + 2·pᵀAp − diag(A)·p, whose minimum for A = I on two arms is at (½, ½)."""
    instance = ib.Instance(np.eye(2), [0.0, 0.0], memory=1e-9)
    assert ib.fading_lower_bound(instance) == pytest.approx(0.0, abs=1e-8)
    zero = ib.Instance(np.zeros((3, 3)), [3.0, 1.0, 2.0], memory=0.5)
    assert ib.fading_lower_bound(zero) == ib.fading_lower_bound(zero, 17) == 1.0


def test_as_memory_lasts_the_bound_becomes_the_optimum_without_fading():
    lasting = ib.random_instance(n_arms=4, seed=3)
    nearly = ib.Instance(lasting.interaction, lasting.initial_loss, memory=1 - 1e-12)
    for horizon in (1, 2, 9, 100):
        bound = horizon * ib.fading_lower_bound(nearly, horizon)
        assert bound == pytest.approx(ib.optimum(lasting, horizon).loss, rel=1e-8, abs=1e-8)


@pytest.mark.parametrize("memory", [0.3, 0.9, 0.999])
def test_the_bound_of_a_horizon_rises_to_that_of_the_long_run(memory):
    instance = random_fading(3, memory, 1)
    limit = ib.fading_lower_bound(instance)
    bounds = [ib.fading_lower_bound(instance, 10**e) for e in range(9)]
    assert (np.diff(bounds) >= 0.0).all()
    loosest = 2 * instance.interaction.diagonal.max() / (1 - memory) ** 2
    for e, bound in enumerate(bounds):
        assert limit - loosest / 10**e - ROUNDING <= bound <= limit + ROUNDING


def test_a_policy_that_knows_the_losses_does_not_beat_it():
    instance = random_fading(3, 0.9, 0)
    run = ib.simulate(instance, ib.FrankWolfeOracle(), 2000)  # greedy with the true losses
    for mark, loss in zip(run.checkpoints, run.loss()[0, 0], strict=True):
        assert loss >= mark * ib.fading_lower_bound(instance, mark) - ROUNDING


def test_where_it_does_not_apply_it_says_why(refused):
    with refused(ib.errors.NotApplicable, "memory < 1", "optimum"):
        ib.fading_lower_bound(ib.counterexample())
    indefinite = ib.Instance([[0, 1], [1, 0]], [0, 0], memory=0.5, definite=False)
    with refused(ib.errors.NotApplicable, "positive semi-definite"):
        ib.fading_lower_bound(indefinite)
    fading = ib.Instance(np.eye(2), [0, 0], memory=0.5)
    with refused(ib.errors.InvalidInput, "horizon must be at least 1, got 0"):
        ib.fading_lower_bound(fading, 0)
    with refused(ib.errors.InvalidInput, "expected an Instance"):
        ib.fading_lower_bound(None)
