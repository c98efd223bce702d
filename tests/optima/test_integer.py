"""The best whole counts, against brute force, and what is said when the search gives up."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import influential_bandits as ib
from influential_bandits.optima.integer import integer_optimum


@settings(max_examples=12, deadline=None, derandomize=True, database=None)
@given(arms=st.integers(1, 4), seed=st.integers(0, 2**32 - 1), horizon=st.integers(1, 12))
def test_no_whole_counts_are_better(
    make_instance, rational_problem, all_compositions, family, arms, seed, horizon
):
    instance = make_instance(family, arms, seed)
    problem = rational_problem(instance)
    best = integer_optimum(instance, horizon)
    every = all_compositions(horizon, arms)
    smallest = min(problem.loss(counts) for counts in every)
    found = problem.loss(best.counts)
    # The search calls excesses that differ by 1e-12 of themselves, or of rounding, a tie.
    excess = smallest - problem.optimum(horizon)[0]
    assert found - smallest <= 1e-11 * excess + 1e-15 * problem.magnitude(best.counts)
    assert best.counts.sum() == horizon
    assert best.counts.min() >= 0
    assert best.counts.dtype == np.int64
    assert best.horizon == horizon
    assert (best.exact, best.gap) == (True, 0.0)
    # Products of whole numbers and their sums: a few roundings.
    assert best.loss == pytest.approx(
        float(found), abs=1e-14 * float(problem.magnitude(best.counts))
    )
    assert best.excess == pytest.approx(
        float(found - problem.optimum(horizon)[0]),
        rel=1e-9,
        abs=1e-14 * float(problem.magnitude(best.counts)),
    )


@pytest.mark.parametrize("rank", [1, 2, 5])
@pytest.mark.parametrize(("arms", "horizon"), [(5, 12), (6, 10), (7, 8)])
def test_low_rank_interactions_with_more_arms_are_searched_completely(
    all_compositions, rank, arms, horizon
):
    every = all_compositions(horizon, arms)
    for seed in range(6):
        random = np.random.default_rng([rank, arms, seed])
        factors = random.normal(size=(arms, rank))
        instance = ib.Instance(ib.LowRankInteraction(factors), random.normal(size=arms))
        best = integer_optimum(instance, horizon)
        rounding = 1e-14 * horizon * (3 + horizon * instance.interaction.max_abs)
        assert best.exact
        assert best.loss <= instance.total_loss(every).min() + rounding


@pytest.mark.parametrize("horizon", [10**3, 10**6, 10**9])
def test_an_exhaustive_search_around_the_relaxation_finds_nothing_better(rational_problem, horizon):
    box = np.stack(np.meshgrid(*[np.arange(-3, 5)] * 2, indexing="ij"), -1).reshape(-1, 2)
    for seed in range(12):
        instance = ib.random_instance(3, seed)
        problem = rational_problem(instance)
        loss, x, _ = problem.optimum(horizon)
        best = integer_optimum(instance, horizon)
        assert best.exact
        centre = [int(value) for value in x]
        excesses = []
        for first, second in box.tolist():
            counts = [centre[0] + first, centre[1] + second]
            counts.append(horizon - sum(counts))
            if min(counts) >= 0:
                excesses.append(problem.loss(counts) - loss)
        found = problem.loss(best.counts) - loss
        # x* is known to 30 digits, so that excesses are right to some digits of a double each.
        assert found <= min(excesses) * (1 + 1e-9)
        assert best.excess == pytest.approx(float(found), rel=1e-6)
        assert best.counts.sum() == horizon


@pytest.mark.parametrize("horizon", [10**4, 10**6, 10**9])
@pytest.mark.parametrize("arms", [4, 5])
def test_excess_is_right_for_singular_interactions(rational_problem, arms, horizon):
    """The search may go far along directions in which nothing changes: xᵀAx cancels there."""
    for seed in range(6):
        random = np.random.default_rng([arms, seed])
        factors = random.integers(-1000, 1000, (arms, 2)) / 1024
        matrix = factors @ factors.T
        instance = ib.Instance(matrix, matrix.diagonal() / 2)
        problem = rational_problem(instance)
        best = integer_optimum(instance, horizon)
        true = float(problem.regret(best.counts))
        # ½·Σ(Fᵀd)² for |d| ≤ 2·10⁶, as far as the search goes, is off by less than 1e-9·√excess.
        assert best.excess == pytest.approx(true, rel=1e-6, abs=1e-8), (seed, best)


@pytest.mark.parametrize("nodes", [0, 1, 2, 5, 20])
def test_a_search_that_gives_up_says_how_far_it_may_be_off(all_compositions, nodes):
    given_up = 0
    for seed in range(30):
        instance = ib.random_instance(4, seed)
        horizon = 5 + seed % 8
        best = integer_optimum(instance, horizon, nodes=nodes)
        smallest = instance.total_loss(all_compositions(horizon, 4)).min()
        rounding = 1e-14 * horizon**2
        assert best.loss - best.gap - rounding <= smallest <= best.loss + rounding
        assert best.counts.sum() == horizon
        assert best.exact == (best.gap == 0.0)
        given_up += not best.exact
    assert given_up > 0 or nodes > 5


@pytest.mark.long
def test_more_arms_than_can_be_searched_leave_a_gap():
    instance = ib.Instance(np.eye(302), np.full(302, 0.5))  # b = 0: x* = T/302
    best = integer_optimum(instance, 304)
    # The best has two arms twice, 300 once: ½·(4 + 4 + 300).
    assert (best.exact, best.gap, best.loss) == (False, best.excess, 154.0)
    assert best.gap == pytest.approx(154.0 - 304**2 / 302 / 2, rel=1e-9)


def test_the_whole_optimum_of_the_counterexample_is_all_arm_one():
    for horizon in (1, 100, 10**6, 10**12):
        best = integer_optimum(ib.counterexample(), horizon)
        assert best.counts.tolist() == [horizon, 0]
        assert best.exact
        assert best.excess == 0.125


def test_horizons_and_nodes_that_are_no_whole_numbers_are_refused():
    for horizon in (0, -1, 2.5, math.nan, "10", None, True):
        with pytest.raises(ib.errors.InvalidInput, match="horizon must be"):
            integer_optimum(ib.counterexample(), horizon)
    for nodes in (-1, 1.5, "many"):
        with pytest.raises(ib.errors.InvalidInput, match="nodes must be"):
            integer_optimum(ib.counterexample(), 10, nodes=nodes)


def test_fading_memory_and_indefinite_interactions_are_refused():
    with pytest.raises(ib.errors.NotApplicable, match="whole numbers needs memory = 1"):
        integer_optimum(ib.Instance(np.eye(2), [0, 0], memory=0.5), 10)
    with pytest.raises(ib.errors.NotApplicable, match="whole counts need a positive semi-definite"):
        integer_optimum(ib.Instance([[0, 1], [1, 0]], [0, 0], definite=False), 10)
