"""Regret: exact, never negative, and right where plain doubles are not."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import KINDS, interaction

import influential_bandits as ib
from influential_bandits.optima import path as path_module
from influential_bandits.optima.critical_line import ENDED
from influential_bandits.optima.path import optimal_path, optimum
from influential_bandits.optima.regret import regret

counts_up_to = {
    largest: st.lists(st.one_of(st.integers(0, 3), st.integers(0, largest)), min_size=5, max_size=5)
    for largest in (1000, 10**9)
}
seeds = st.integers(0, 2**32 - 1)


# Accuracy.


def well_conditioned(verdict, arms, seed):
    """Return an easy or hard random instance of moderate condition."""
    instances = (
        ib.instance_with_support(arms, arms if verdict == "easy" else 1 + n % (arms - 1), 97 * n)
        for n in range(seed, 10**6)
    )
    return next(i for i in instances if np.linalg.cond(i.interaction.to_dense()) < 1000)


def whole_near(point, horizon, moves=0, seed=0):
    """Return whole counts next to a rational point, and then some pulls moved at random."""
    counts = [int(x) for x in point]
    counts[int(np.argmax(counts))] += horizon - sum(counts)
    random = np.random.default_rng(seed)
    for _ in range(moves):
        source, target = random.integers(len(counts), size=2)
        if counts[source] > 0:
            counts[source] -= 1
            counts[target] += 1
    return counts


@pytest.mark.long
@pytest.mark.parametrize(("horizon", "tolerance"), [(10**6, 1e-9), (10**9, 1e-6), (10**12, 1e-3)])
@pytest.mark.parametrize("verdict", ["easy", "hard"])
@pytest.mark.parametrize("arms", [2, 3, 4, 5])
def test_regret_equals_rational_arithmetic(rational_problem, arms, verdict, horizon, tolerance):
    for seed in range(4):
        instance = well_conditioned(verdict, arms, 10 * seed)
        problem = rational_problem(instance)
        _, x, _ = problem.optimum(horizon)
        random = np.random.default_rng(seed)
        for counts in (
            whole_near(x, horizon),
            whole_near(x, horizon, moves=1, seed=seed),
            whole_near(x, horizon, moves=40, seed=seed),
            random.multinomial(horizon, np.full(arms, 1 / arms)),
            random.multinomial(horizon, random.dirichlet(np.ones(arms))),
            np.eye(arms, dtype=int)[seed % arms] * horizon,
        ):
            exact = problem.regret(counts)
            assert regret(instance, counts) == pytest.approx(float(exact), rel=tolerance)


@pytest.mark.parametrize("horizon", [10, 10**6, 10**9, 10**12])
def test_every_representation_of_a_matrix_gives_the_exact_regret(rational_problem, horizon):
    for seed in range(6):
        random = np.random.default_rng(seed)
        factors = random.integers(-3, 4, (5, int(random.integers(1, 6)))).astype(float)
        losses = random.integers(-3, 4, 5) / 2.0
        problem = rational_problem(ib.Instance(factors @ factors.T, losses))
        _, x, _ = problem.optimum(horizon)
        for counts in (whole_near(x, horizon), random.multinomial(horizon, np.full(5, 0.2))):
            exact = float(problem.regret(counts))
            for kind in KINDS:
                found = regret(ib.Instance(interaction(factors, kind), losses), counts)
                # d = x − x* is rounded once: 1e-9 of a pull at T = 10¹², which costs 1e-9·T·u.
                assert found == pytest.approx(exact, rel=1e-9, abs=1e-9)


@settings(max_examples=12, deadline=None, derandomize=True, database=None)
@given(arms=st.integers(1, 5), seed=seeds, counts=counts_up_to[1000])
def test_regret_is_the_loss_above_the_rational_optimum(
    make_instance, rational_problem, unit, family, arms, seed, counts
):
    counts = counts[:arms]
    instance = make_instance(family, arms, seed)
    if not sum(counts):
        assert regret(instance, counts) == 0.0
        return
    problem = rational_problem(instance)
    exact = problem.regret(counts)
    # Every term is non-negative and rounded a few times; a gap is a difference of two terms.
    sizes = problem.magnitude(counts) + problem.magnitude(problem.optimum(sum(counts))[1])
    assert abs(Fraction(regret(instance, counts)) - exact) <= 16 * unit * (exact + sizes)


def test_regret_is_right_for_badly_scaled_arms(rational_problem):
    """Arms of little influence count too, beside one of much: rows scaled by 10⁻³ … 10⁴."""
    for seed in range(10):
        random = np.random.default_rng(seed)
        factors = random.integers(-3, 4, (4, 4)) * np.array(
            [[2.0**13], [2.0**-10], [2.0**-10], [1]]
        )
        instance = ib.Instance(factors @ factors.T, random.normal(size=4))
        problem = rational_problem(instance)
        for horizon in (1000, 10**6):
            for share in ([0, 0.5, 0.5, 0], [0, 0.3, 0.6, 0.1]):
                counts = [int(horizon * part) for part in share]
                exact = float(problem.regret(counts))
                assert regret(instance, counts) == pytest.approx(exact, rel=1e-6, abs=1e-6)


# Never negative.


@settings(max_examples=15, deadline=None, derandomize=True, database=None)
@given(arms=st.integers(1, 5), seed=seeds, counts=counts_up_to[10**9])
def test_regret_is_never_negative(make_instance, family, arms, seed, counts):
    assert regret(make_instance(family, arms, seed), counts[:arms]) >= 0.0


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(
    arms=st.integers(1, 30),
    rank=st.integers(1, 30),
    seed=seeds,
    kind=st.sampled_from(KINDS),
)
def test_regret_is_never_negative_for_rounded_singular_matrices(arms, rank, seed, kind):
    random = np.random.default_rng(seed)
    factors = random.normal(size=(arms, rank))
    instance = ib.Instance(interaction(factors, kind), random.normal(size=arms))
    counts = random.multinomial(10**9, random.dirichlet(np.ones(arms), size=4))
    assert (regret(instance, counts) >= 0.0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_pulls_that_change_nothing_cost_nothing_at_a_billion_rounds(rational_problem, kind):
    """A trap: ½·dᵀAd in plain doubles gave −102 and +165 where 0 is right."""
    naive = []
    for seed in range(10):
        g, h, k = np.random.default_rng(seed).integers(2**13, 2**14, 3) * 2.0**-13
        # Arms 0 and 1 balance at 2 : 3, and arm 2 is a quarter of arm 0 and three of arm 1.
        factors = np.array([[3 * g, h, k], [-2 * g, h, k], [-0.75 * g, h, k]])
        matrix = factors @ factors.T  # exact: 30 bits
        instance = ib.Instance(interaction(factors, kind), matrix.diagonal() / 2)  # b = 0
        problem = rational_problem(instance)
        for moved in (1, 9_999_999, 123_456_789):
            counts = np.array([4 * 10**8, 6 * 10**8, 0]) + np.array([-1, -3, 4]) * moved
            assert problem.regret(counts) == 0
            # Rounding d = x − x* and Lᵀd gives (u·10⁹)² ≈ 1e-14.
            assert 0.0 <= regret(instance, counts) <= 1e-12
            d = counts - np.array([4e8, 6e8, 0.0])
            naive.append(abs(sum(d[i] * matrix[i, j] * d[j] for i in range(3) for j in range(3))))
    assert max(naive) > 1.0  # the trap is there


def test_the_optimum_has_no_regret():
    for seed in range(20):
        instance = ib.random_instance(4, seed)
        path = optimal_path(instance)
        for horizon in (1.0, 1000.0, 1e6, 1e9):
            # Rounding x* moves it by u·T ≤ 1e-7 pulls, which costs ½·(1e-7)² or gap·0.
            assert regret(instance, path.counts(horizon)) <= 1e-12 + 1e-15 * horizon


# The paper's numbers.


@pytest.mark.parametrize(
    ("horizon", "pulls"),
    [(10**2, 21), (10**2, 18), (10**4, 897), (10**4, 198), (10**6, 53_237), (10**6, 1_998)],
)
def test_the_counterexample_costs_the_known_numberss_numbers_and_an_eighth(horizon, pulls):
    counts = [horizon - pulls, pulls]
    instance = ib.counterexample()
    assert regret(instance, counts) == pulls * (pulls - 1) / 2 + 1 / 8
    assert regret(instance, counts, against="integer") == pulls * (pulls - 1) / 2
    assert regret(instance, counts, against=[horizon, 0]) == pulls * (pulls - 1) / 2
    optimum_counts = [horizon - 0.5, 0.5]
    assert optimum(instance, horizon).counts.tolist() == optimum_counts
    assert regret(instance, counts, against=optimum_counts) == pulls * (pulls - 1) / 2 + 1 / 8


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("horizon", [1, 2, 10, 10**3, 10**6, 10**9])
def test_a_first_pull_of_the_wrong_arm_costs_a_quarter_of_t_and_an_eighth(first, horizon):
    instance = ib.linear_lower_bound(first)
    counts = [horizon - 1, horizon - 1]
    counts[first] = 1
    assert regret(instance, counts) == horizon / 4 + 1 / 8
    for more in (1, horizon // 2, horizon - 1):
        worse = [horizon - 1 - more, horizon - 1 - more]
        worse[first] = 1 + more
        if min(worse) >= 0:
            assert regret(instance, worse) >= horizon / 4 + 1 / 8
    free = [0, 0]
    free[1 - first] = horizon
    assert regret(instance, free) == 0.0


# Other benchmarks.


@settings(max_examples=6, deadline=None, derandomize=True, database=None)
@given(arms=st.integers(1, 4), seed=seeds, horizon=st.integers(1, 10))
def test_regret_against_whole_counts_equals_brute_force(
    make_instance, rational_problem, all_compositions, unit, family, arms, seed, horizon
):
    instance = make_instance(family, arms, seed)
    problem = rational_problem(instance)
    every = all_compositions(horizon, arms)
    losses = [problem.loss(counts) for counts in every]
    found = regret(instance, every, against="integer")
    assert found.shape == (len(every),)
    assert found.min() == 0.0
    # One rounding of an exact difference; ties of 1e-12 of the best's excess over the relaxation.
    ties = Fraction(1, 10**11) * (min(losses) - problem.optimum(horizon)[0])
    for value, loss in zip(found.tolist(), losses, strict=True):
        exact = loss - min(losses)
        assert abs(Fraction(value) - exact) <= 2 * unit * exact + ties


@settings(max_examples=12, deadline=None, derandomize=True, database=None)
@given(arms=st.integers(1, 5), seed=seeds, counts=counts_up_to[10**9], turn=st.integers(0, 4))
def test_regret_against_own_counts_is_the_difference_of_losses(
    make_instance, rational_problem, unit, family, arms, seed, counts, turn
):
    x = counts[:arms]
    y = x[turn % arms :] + x[: turn % arms]
    instance = make_instance(family, arms, seed)
    problem = rational_problem(instance)
    exact = problem.loss(x) - problem.loss(y)
    found = regret(instance, x, against=y)
    # Double-double throughout, rounded once.
    assert abs(Fraction(found) - exact) <= unit * abs(exact) + unit**2 * 100 * problem.magnitude(x)
    assert regret(instance, y, against=x) == -found


def test_own_counts_are_broadcast_over_a_batch():
    instance = ib.random_instance(3, 0)
    batch = np.array([[[5, 3, 2], [0, 0, 10]], [[1, 1, 8], [4, 4, 2]]])
    rival = [3, 3, 4]
    found = regret(instance, batch, against=rival)
    assert found.shape == (2, 2)
    for index in np.ndindex(2, 2):
        assert found[index] == regret(instance, batch[index], against=rival)


# Shapes and refusals.


def test_a_batch_gives_what_its_rows_give():
    instance = ib.random_instance(4, 1)
    random = np.random.default_rng(0)
    batch = np.stack([random.multinomial(t, np.full(4, 0.25), size=3) for t in (0, 7, 10**6)])
    found = regret(instance, batch)
    assert found.shape == (3, 3)
    assert (found[0] == 0.0).all()
    for index in np.ndindex(3, 3):
        assert found[index] == regret(instance, batch[index])
    assert isinstance(regret(instance, batch[1, 1]), float)
    assert regret(instance, np.zeros((0, 4))).shape == (0,)


@pytest.mark.parametrize("against", ["relaxation", "integer", [0, 0]])
def test_no_pulls_have_no_regret(against):
    assert regret(ib.counterexample(), [0, 0], against=against) == 0.0


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ([1, 2, 3], "one number for each of the 2 arms"),
        (5, "one number for each of the 2 arms"),
        ([], "one number for each of the 2 arms"),
        ([-1, 2], "finite and not negative"),
        ([np.nan, 2], "finite and not negative"),
        ([np.inf, 2], "finite and not negative"),
        (["a", "b"], "must be numbers"),
    ],
)
def test_bad_counts_are_refused(counts, message):
    with pytest.raises(ib.errors.InvalidInput, match=message):
        regret(ib.counterexample(), counts)
    with pytest.raises(ib.errors.InvalidInput, match=message):
        regret(ib.counterexample(), [1, 2], against=counts)


def test_an_unknown_benchmark_is_refused_and_the_known_ones_are_named():
    with pytest.raises(
        ib.errors.InvalidInput, match=r'"relaxation", "integer" or an array.*\'best\''
    ):
        regret(ib.counterexample(), [1, 2], against="best")


@pytest.mark.parametrize(
    ("counts", "against", "message"),
    [
        ([1, 2], [2, 2], "the same sums"),
        ([[1, 2], [2, 2]], [1, 2], "the same sums"),
        ([3, 4], [[3, 4], [4, 3]], "shape"),
        ([[3, 4]] * 2, [[3, 4]] * 3, "shape"),
    ],
)
def test_own_counts_with_other_sums_or_of_another_shape_are_refused(counts, against, message):
    with pytest.raises(ib.errors.InvalidInput, match=message):
        regret(ib.counterexample(), counts, against=against)


def test_parts_of_pulls_are_refused_against_whole_counts_only():
    assert regret(ib.counterexample(), [99.5, 0.5]) == 0.0
    with pytest.raises(ib.errors.InvalidInput, match="whole numbers"):
        regret(ib.counterexample(), [99.5, 0.5], against="integer")


def test_an_unproved_whole_optimum_is_no_benchmark():
    """With b = 0 and A = 1 the best is ½·3, the relaxation ½·3²/400: 400 arms are not searched."""
    instance = ib.Instance(np.eye(400), np.full(400, 0.5))
    with pytest.raises(
        ib.errors.NotCertified, match=r'T = 3 are proved only up to 1\.49.*"relaxation"'
    ):
        regret(instance, [1, 2] + [0] * 398, against="integer")


def test_an_uncertified_optimum_gives_no_regret(monkeypatch):
    monkeypatch.setattr(
        path_module, "follow_path", lambda *_: (np.array([2]), np.array([0.0]), ENDED)
    )
    with pytest.raises(ib.errors.NotCertified):
        regret(ib.random_instance(3, 0), [100, 200, 300])
