"""x*(T) for every T: right, certified, continuous, and for every kind of interaction."""

import math
from fractions import Fraction
from itertools import pairwise

import forked
import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from python_process import run_python
from strategies import KINDS, interaction

import influential_bandits as ib
from influential_bandits.optima import path as path_module
from influential_bandits.optima.critical_line import ENDED
from influential_bandits.optima.path import OptimalPath, optimal_path, optimum

EPSILON = np.finfo(float).eps
FEW = settings(max_examples=8, deadline=None, derandomize=True, database=None)

horizons = st.one_of(
    st.integers(1, 20),
    st.floats(0, 12).map(lambda exponent: int(10**exponent)),
    st.sampled_from([10**6, 10**9, 10**12]),
)
arms = st.integers(1, 5)
seeds = st.integers(0, 2**32 - 1)


# The optimum is right.


@FEW
@given(arms=arms, seed=seeds, horizon=horizons)
def test_optimality_conditions_hold_in_rational_arithmetic(
    make_instance, rational_problem, unit, family, arms, seed, horizon
):
    instance = make_instance(family, arms, seed)
    problem = rational_problem(instance)
    best = optimum(instance, horizon)
    x = [Fraction(count) for count in best.counts.tolist()]
    gradient = problem.gradient(best.counts)
    # An entry of x is x*(T) rounded once (solved to 30 digits), so that it is off by u·x, its sum
    # by u·T, and the gradient by u·(|b| + |A|x); factor 8 for the errors of second order.
    size = max(
        abs(b) + sum(abs(a) * y for a, y in zip(row, x, strict=True))
        for b, row in zip(problem.b, problem.A, strict=True)
    )
    allowed = 8 * unit * size
    assert min(x) >= 0
    assert abs(sum(x) - horizon) <= 2 * unit * horizon
    assert all(
        abs(g - Fraction(best.multiplier)) <= allowed
        for g, y in zip(gradient, x, strict=True)
        if y > 8 * unit * horizon
    )
    assert min(gradient) >= Fraction(best.multiplier) - allowed


@FEW
@given(arms=arms, seed=seeds, horizon=horizons)
def test_loss_and_multiplier_equal_the_rational_optimum(
    make_instance, rational_problem, unit, family, arms, seed, horizon
):
    instance = make_instance(family, arms, seed)
    problem = rational_problem(instance)
    loss, x, multiplier = problem.optimum(horizon)
    best = optimum(instance, horizon)
    # Rounding x once changes each product by 2u; the loss is then a sum of arms + 1 products.
    size = max(problem.magnitude(x), problem.magnitude(best.counts))
    assert abs(problem.loss(best.counts) - loss) <= 4 * unit * size
    assert abs(Fraction(best.loss) - loss) <= (4 + 2 * arms) * unit * size
    assert abs(Fraction(best.multiplier) - multiplier) * horizon <= 4 * unit * size
    assert best.horizon == horizon


@pytest.mark.parametrize("spread", [1, 2, 3, 4, 6])
def test_loss_is_right_for_badly_scaled_arms(rational_problem, spread):
    """Arms whose influences differ by up to 10^(4·spread): rows scaled by 10^±spread."""
    for seed in range(12):
        random = np.random.default_rng([spread, seed])
        n = int(random.integers(2, 6))
        powers = np.round(math.log2(10) * random.uniform(-spread, spread, (n, 1)))
        factors = random.integers(-3, 4, (n, n)) * 2.0**powers
        instance = ib.Instance(factors @ factors.T, random.normal(size=n))
        problem = rational_problem(instance)
        for horizon in (1, 1000, 10**6, 10**9, 10**12):
            loss, x, _ = problem.optimum(horizon)
            found = problem.loss(optimum(instance, horizon).counts)
            # 10⁴ roundings of the loss's own terms: far more than any condition number here costs.
            assert abs(found - loss) <= 1e-12 * problem.magnitude(x), (seed, horizon)


def test_two_hundred_badly_scaled_arms_are_optimal():
    random = np.random.default_rng(3)
    factors = random.normal(size=(200, 200)) * 10.0 ** random.uniform(-3, 3, (200, 1))
    instance = ib.Instance(_symmetric(factors @ factors.T), random.normal(size=200))
    for horizon in (1, 10**3, 10**6, 10**7, 10**9):
        # The gap's own rounding is 200·u ≈ 2e-14 of its terms.
        assert _relative_gap(instance, optimum(instance, horizon).counts) < 1e-9, horizon


@pytest.mark.parametrize(
    ("influence", "height"), [(1.0, 2.0**20), (2.0**-20, 1.0), (2.0**-30, 2.0**10)]
)
def test_a_constant_added_to_all_losses_changes_no_counts(influence, height):
    for seed in range(20):
        random = np.random.default_rng(seed)
        factors = random.integers(-3, 4, (4, 4)).astype(float)
        matrix = influence * (factors @ factors.T + np.eye(4))
        losses = influence * random.integers(-8, 9, 4)
        low, high = ib.Instance(matrix, losses), ib.Instance(matrix, losses + height)
        assert np.array_equal(high.linear_term - height, low.linear_term)  # nothing was rounded
        for horizon in (1, 7, 1000, 10**6):
            # x* depends on differences of b only, and those are the same to the last bit.
            np.testing.assert_allclose(
                optimum(high, horizon).counts, optimum(low, horizon).counts, atol=1e-9 * horizon
            )


def test_nearly_equal_arms_have_an_optimum(rational_problem):
    """Two arms that differ in the eleventh digit: too different to be tied, regular equations."""
    tiny = 2.0**-31
    matrix = np.array([[13 + tiny, 5, 5], [5, 13, 13], [5, 13, 13 + tiny]])
    losses = [338.16666665913846, 1348.8333333333333, 1348.8333333386884]
    instance = ib.Instance(matrix, losses)
    problem = rational_problem(instance)
    best = optimum(instance, 300)
    # 300 rounds of losses near 1,000: 1e-6 is 3e-12 of the loss.
    assert best.loss == pytest.approx(float(problem.optimum(300)[0]), abs=1e-6)


def test_small_matrices_beside_a_large_loss_have_an_optimum(rational_problem):
    tiny = 2.0**-41
    matrix = np.diag([tiny, tiny, 1.0])
    instance = ib.Instance(matrix, matrix.diagonal() / 2 + [6.5 * tiny, 0.0, 22.0])
    for horizon in (1, 6, 7, 100):
        _, x, _ = rational_problem(instance).optimum(horizon)
        np.testing.assert_allclose(
            optimum(instance, horizon).counts, np.array(x, float), atol=1e-9 * horizon
        )


def test_water_filling_is_found_for_a_diagonal_interaction_of_two_hundred_arms():
    random = np.random.default_rng(0)
    influence, b = random.uniform(0.1, 2, 200), random.normal(size=200)
    instance = ib.Instance(np.diag(influence), b + influence / 2)
    for horizon in (1, 30, 1000, 10**6):
        low, high = b.min(), b.max() + horizon * influence.max()
        for _ in range(200):
            level = (low + high) / 2
            filled = np.maximum((level - b) / influence, 0.0)
            low, high = (low, level) if filled.sum() > horizon else (level, high)
        # Bisection ends within a few roundings of the level, which influence ≥ 0.1 divides.
        best = optimum(instance, horizon)
        assert best.multiplier == pytest.approx(low, rel=1e-13)
        np.testing.assert_allclose(best.counts, filled, atol=1e-12 * (1 + abs(level)) * 10)


# Many arms, by the gap that proves it.


def _symmetric(matrix):
    return (matrix + matrix.T) / 2


def _relative_gap(instance, x):
    """Return ∇·x − Σx·min ∇, which bounds the loss above the minimum, over |b|·x + xᵀ|A|x."""
    matrix, b = instance.interaction.to_dense(), instance.linear_term
    gradient = b + matrix @ x
    size = max(np.abs(b) @ x + x @ np.abs(matrix) @ x, 1e-300)
    return (gradient - gradient.min()) @ x / size


def _laplacian(n):
    """The cycle's Laplacian: singular, sparse, and every arm like every other."""
    step = np.roll(np.eye(n), 1, axis=0)
    return 2 * np.eye(n) - step - step.T


DEGENERATE = ("singular", "tied", "duplicated", "badly scaled", "ill-conditioned")
DEGENERATE += ("laplacian", "hilbert")


def _random_problem(kind, n):
    random = np.random.default_rng(n)
    factors = random.normal(size=(n, n))
    losses = random.normal(size=n)
    if kind == "singular":
        factors = factors[:, : max(1, n // 4)]
    elif kind == "tied":
        factors = random.integers(0, 2, (n, max(1, n // 4))).astype(float)
        losses = random.integers(0, 2, n).astype(float)
    elif kind == "duplicated":
        same = random.integers(0, max(1, n // 3), n)
        factors, losses = factors[same], losses[same]
    elif kind == "badly scaled":
        factors *= 10.0 ** random.uniform(-2, 2, (n, 1))
    elif kind == "ill-conditioned":
        factors = np.linalg.qr(factors)[0] * np.logspace(0, -6, n)
    elif kind == "laplacian":
        return _laplacian(n), random.integers(0, 2, n).astype(float)
    elif kind == "hilbert":
        return 1 / (1.0 + np.arange(n)[:, None] + np.arange(n)), losses
    return _symmetric(factors @ factors.T), losses


@pytest.mark.long
@pytest.mark.parametrize("n", [1, 2, 3, 10, 50, 200])
@pytest.mark.parametrize("kind", ["generic", *DEGENERATE])
def test_degenerate_and_ill_conditioned_problems_are_optimal(kind, n):
    instance = ib.Instance(*_random_problem(kind, n))
    for horizon in (1, 100, 10**6, 10**9):
        counts = optimum(instance, horizon).counts
        assert counts.min() >= 0.0
        assert counts.sum() == pytest.approx(horizon, rel=1e-13)
        assert _relative_gap(instance, counts) < 1e-12, horizon


# The path.


@pytest.mark.parametrize("n", [1, 2, 5, 20, 60])
def test_the_path_is_continuous_and_its_breakpoints_increase_from_zero(n):
    for seed in range(5):
        path = optimal_path(ib.random_instance(n, seed))
        breakpoints = path.breakpoints
        assert breakpoints[0] == 0.0
        assert (np.diff(breakpoints) > 0).all()
        # Between t(1 − h) and t(1 + h) a continuous path moves by at most 2ht times its speed.
        speed = max(
            np.abs(path.segment(t).p[:-1, 0]).sum() for t in [*breakpoints[1:].tolist(), 1e99]
        )
        step = 1e-9
        for t in breakpoints[1:]:
            before, after = path.counts([t * (1 - step), t * (1 + step)])
            assert np.abs(after - before).sum() <= 2.01 * step * t * speed


@pytest.mark.parametrize("n", [2, 5, 20])
def test_between_breakpoints_the_counts_move_on_a_line_and_the_support_stays(n):
    path = optimal_path(ib.random_instance(n, 1))
    ends = [*path.breakpoints.tolist(), 2 * path.breakpoints[-1] + 1]
    for start, end in pairwise(ends):
        first, middle, last = path.counts(
            [0.75 * start + 0.25 * end, (start + end) / 2, 0.25 * start + 0.75 * end]
        )
        np.testing.assert_allclose(middle, (first + last) / 2, atol=1e-13 * end)
        support = path.segment((start + end) / 2).support
        assert np.array_equal(np.flatnonzero(middle), support)


def test_the_support_changes_at_every_breakpoint_of_a_generic_instance():
    for seed in range(10):
        path = optimal_path(ib.random_instance(6, seed))
        supports = [tuple(path.segment(t).support) for t in path.breakpoints[1:]]
        previous = [tuple(path.segment(t * (1 - 1e-9)).support) for t in path.breakpoints[1:]]
        changes = [len(set(a) ^ set(b)) for a, b in zip(previous, supports, strict=True)]
        assert changes == [1] * len(changes)


def test_the_last_segment_is_a_ray_that_holds_for_all_large_horizons():
    instance = ib.random_instance(5, 3)
    path = optimal_path(instance)
    ray = path.last
    for horizon in (path.breakpoints[-1] * 1.001, 1e9, 1e12):
        expected = np.zeros(5)
        expected[ray.support] = (ray.q + horizon * ray.p)[:-1].sum(axis=1)
        np.testing.assert_allclose(path.counts(horizon), expected, rtol=1e-12, atol=1e-12)
    assert ray.p[:-1, 0].sum() == pytest.approx(1.0, abs=1e-15)
    assert ray.start == path.breakpoints[-1]


@FEW
@given(arms=arms, seed=seeds, horizon=horizons)
def test_gaps_are_what_a_pull_costs_to_first_order_and_zero_in_use(
    make_instance, rational_problem, unit, family, arms, seed, horizon
):
    instance = make_instance(family, arms, seed)
    path = optimal_path(instance)
    problem = rational_problem(instance)
    counts = path.counts(horizon)
    gaps = path.gaps(horizon)
    assert (gaps[path.segment(horizon).support] == 0).all()
    # x is rounded once here, in path.gaps not at all.
    size = max(
        abs(b) + sum(abs(a) * Fraction(x) for a, x in zip(row, counts.tolist(), strict=True))
        for b, row in zip(problem.b, problem.A, strict=True)
    )
    multiplier = problem.optimum(horizon)[2]
    for gap, slope in zip(gaps.tolist(), problem.gradient(counts), strict=True):
        assert abs(Fraction(gap) - (slope - multiplier)) <= 8 * unit * size
        assert gap >= -8 * unit * size


def test_counts_have_the_shape_of_the_horizons_and_those_of_the_optimum():
    instance = ib.random_instance(4, 0)
    path = optimal_path(instance)
    grid = [[1, 10, 100], [1000, 10**6, 10**12]]
    counts = path.counts(grid)
    assert counts.shape == (2, 3, 4)
    for row, column in np.ndindex(2, 3):
        assert np.array_equal(counts[row, column], optimum(instance, grid[row][column]).counts)
    assert path.counts(7).shape == (4,)
    assert path.counts([]).shape == (0, 4)


@FEW
@given(arms=arms, seed=seeds, times=st.lists(horizons, max_size=8))
def test_counts_of_many_horizons_are_those_of_each(make_instance, family, arms, seed, times):
    path = optimal_path(make_instance(family, arms, seed))
    for counts, horizon in zip(path.counts(times), times, strict=True):
        assert np.array_equal(counts, path.optimum(horizon).counts)


def test_the_path_is_worked_out_once_for_each_instance():
    instance = ib.random_instance(3, 0)
    assert optimal_path(instance) is optimal_path(instance)
    assert optimal_path(ib.random_instance(3, 0)) is not optimal_path(instance)


@pytest.mark.parametrize("horizon", [1e-9, 1e-3, 0.5, 0.9999])
def test_horizons_below_one_are_fine_for_the_path(horizon):
    instance = ib.random_instance(4, 2)
    x = optimal_path(instance).counts(horizon)
    assert x.sum() == pytest.approx(horizon, rel=1e-14)
    assert _relative_gap(instance, x) < 1e-14


# Every representation.


@pytest.mark.parametrize("horizon", [1, 50, 10**6, 10**12])
def test_dense_low_rank_and_sparse_interactions_have_the_same_optimum(rational_problem, horizon):
    for seed in range(8):
        random = np.random.default_rng(seed)
        n, rank = int(random.integers(1, 6)), int(random.integers(1, 6))
        factors = random.integers(-2, 3, (n, rank)).astype(float)
        losses = random.normal(size=n)
        exact, x, _ = rational_problem(ib.Instance(factors @ factors.T, losses)).optimum(horizon)
        for kind in KINDS:
            instance = ib.Instance(interaction(factors, kind), losses)
            problem = rational_problem(instance)
            found = problem.loss(optimum(instance, horizon).counts)
            assert abs(found - exact) <= 1e-15 * problem.magnitude(x)


@pytest.mark.parametrize("kind", ["normal", "whole", "duplicated", "scaled", "far"])
def test_two_thousand_arms_of_low_rank_are_optimal(kind):
    random = np.random.default_rng(0)
    factors = random.normal(size=(2000, 8))
    losses = random.normal(size=2000)
    if kind == "whole":
        factors, losses = np.round(factors), np.round(losses)
    elif kind == "duplicated":
        same = random.integers(0, 500, 2000)
        factors, losses = factors[same], losses[same]
    elif kind == "scaled":
        factors *= 10.0 ** random.uniform(-2, 2, (2000, 1))
    elif kind == "far":
        factors[:, 0] += 6.0  # the origin lies outside the convex hull: a hard instance
    instance = ib.Instance(ib.LowRankInteraction(factors), losses)
    for horizon in (1, 100, 10**6, 10**12):
        x = optimum(instance, horizon).counts
        gradient = instance.linear_term + factors @ (factors.T @ x)
        size = np.abs(instance.linear_term) @ x + np.square(np.abs(factors).T @ x).sum()
        # Bounds the relative excess; its own rounding is some 2000·u at worst.
        assert (gradient - gradient.min()) @ x <= 1e-13 * size
        assert x.sum() == pytest.approx(horizon, rel=1e-14)
        assert np.count_nonzero(x) <= 9  # a support of more than rank + 1 arms is never needed


@pytest.mark.long
@pytest.mark.parametrize("kind", ["tridiagonal", "blocks", "laplacian", "identity"])
def test_sparse_interactions_of_three_hundred_arms_agree_with_dense_ones(kind):
    n = 300
    matrix = {
        "tridiagonal": 2 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1),
        "blocks": np.kron(np.eye(n // 2), [[1.0, 1.0], [1.0, 2.0]]),
        "laplacian": _laplacian(n),
        "identity": np.eye(n),
    }[kind]
    losses = np.random.default_rng(1).integers(0, 3, n) / 2.0
    sparse = ib.Instance(ib.SparseInteraction(scipy.sparse.csr_array(matrix), vouched=True), losses)
    for horizon in (3, 1000, 10**9):
        best = optimum(sparse, horizon)
        assert _relative_gap(sparse, best.counts) < 1e-13
        assert best.loss == pytest.approx(
            optimum(ib.Instance(matrix, losses), horizon).loss, rel=1e-12
        )


# Refusals.


@pytest.mark.parametrize("horizon", [0, -1, 0.0, -0.5, math.nan, math.inf, -math.inf])
def test_the_path_refuses_horizons_that_are_not_positive_and_finite(horizon):
    path = optimal_path(ib.counterexample())
    for ask in (path.counts, path.optimum, path.segment, path.gaps):
        with pytest.raises(ib.errors.InvalidInput, match="horizon must be positive and finite"):
            ask(horizon)
    with pytest.raises(ib.errors.InvalidInput, match="horizon must be positive and finite"):
        path.counts([1, horizon])


@pytest.mark.parametrize("horizon", [0, -3, 2.5, math.nan, math.inf, True, "10", None, 2**53])
def test_the_optimum_refuses_horizons_that_are_no_whole_number_of_rounds(horizon):
    with pytest.raises(ib.errors.InvalidInput, match="horizon must be"):
        optimum(ib.counterexample(), horizon)


def test_fading_memory_is_refused_because_the_order_matters():
    fading = ib.Instance(np.eye(2), [1, 1], memory=0.9)
    for ask, what in ((optimal_path, "optimal path"), (lambda i: optimum(i, 10), "optimum")):
        with pytest.raises(ib.errors.NotApplicable, match=rf"the {what} needs memory = 1.* 0\.9"):
            ask(fading)


def test_the_path_of_an_indefinite_interaction_is_refused_and_says_what_to_ask_instead():
    indefinite = ib.Instance([[1, 2], [2, 1]], [0, 0], definite=False)
    with pytest.raises(ib.errors.NotApplicable, match=r"positive semi-definite.*optimum\(\)"):
        optimal_path(indefinite)


def test_a_sparse_support_beyond_the_limit_is_refused_with_a_sentence():
    instance = ib.Instance(ib.SparseInteraction(scipy.sparse.eye_array(10)), np.zeros(10))
    with pytest.raises(ib.errors.NotApplicable, match="uses more than 4 arms"):
        OptimalPath(instance, largest_support=4).optimum(10)


@pytest.mark.parametrize("given", [0, 2.5, "many"])
def test_a_largest_support_that_is_no_number_of_arms_is_refused(refused, given):
    with refused(ib.errors.InvalidInput, "largest_support"):
        OptimalPath(ib.counterexample(), largest_support=given)


def test_a_sparse_path_is_followed_no_further_than_asked():
    losses = np.arange(100_000.0)  # one more arm comes into use about every √(2T) rounds
    many = scipy.sparse.eye_array(100_000)
    instance = ib.Instance(ib.SparseInteraction(many, vouched=True), losses)
    few = ib.Instance(np.eye(4), losses[:4])
    path = OptimalPath(instance, largest_support=4)
    assert np.array_equal(path.counts(5)[:4], optimum(few, 5).counts)
    assert path.counts(5)[4:].max() == 0
    with pytest.raises(ib.errors.NotApplicable, match="uses more than 4 arms"):
        path.optimum(100)


TIED = """
import sys
import numpy as np
import influential_bandits as ib
arms = int(sys.argv[1])
failed = []
for seed in range(int(sys.argv[2])):
    random = np.random.default_rng([arms, seed])
    rank = max(1, arms // int(random.integers(1, 5)))
    factors = random.integers(0, 2, (arms, rank)).astype(float)
    instance = ib.Instance(factors @ factors.T, random.integers(0, 2, arms))
    path = ib.optimal_path(instance)
    for horizon in (1, 2, 10, 1000, 10**6):
        try:
            path.optimum(horizon)
        except ib.errors.NotCertified as error:
            failed.append((seed, horizon, str(error)))
            break
print(*failed, sep=chr(10))
"""


@pytest.mark.long
@pytest.mark.parametrize(("arms", "seeds"), [(20, 300), (50, 200), (120, 30), (200, 20)])
def test_arms_described_by_the_same_few_labels_have_an_optimum(arms, seeds):
    """Zero-one features and losses: most arms tie, most pivots are degenerate.

    In a process of its own: a failure here has ended the process.
    """
    assert run_python(TIED, arms, seeds, start=forked.run).strip() == ""


@pytest.mark.parametrize("error", [1e-6, -1e-6, 1.0])
@pytest.mark.parametrize("what", ["p", "q"])
def test_an_answer_that_fails_its_certificate_is_not_returned(monkeypatch, what, error):
    real = path_module.solve_support

    def slightly_wrong(world, b, support):
        p, q, rates, offsets, sound = real(world, b, support)
        changed = p if what == "p" else q
        changed[0, 0] += error
        return p, q, rates, offsets, sound

    monkeypatch.setattr(path_module, "solve_support", slightly_wrong)
    instance = ib.random_instance(3, 0)
    with pytest.raises(ib.errors.NotCertified, match="no optimum could be proved for T = 1000"):
        optimum(instance, 1000)


def test_the_right_equations_of_a_wrong_support_are_not_returned(monkeypatch):
    # Only arm 2 is ever let in; its equations are solved without error.
    monkeypatch.setattr(
        path_module, "follow_path", lambda *_: (np.array([2]), np.array([0.0]), ENDED)
    )
    with pytest.raises(ib.errors.NotCertified, match="no optimum could be proved"):
        optimum(ib.random_instance(3, 0), 1000)
    with pytest.raises(ib.errors.NotCertified, match=r"no optimum could be proved for T = 1000"):
        optimal_path(ib.random_instance(3, 0)).counts([1000, 2000])


def test_equations_that_could_not_be_solved_are_not_used(monkeypatch):
    real = path_module.solve_support
    monkeypatch.setattr(
        path_module, "solve_support", lambda *arguments: (*real(*arguments)[:2], False)
    )
    with pytest.raises(ib.errors.NotCertified, match="too ill-conditioned to solve"):
        optimum(ib.random_instance(3, 0), 1000)


def separable_optimum(own, initial, horizon):
    """The smallest total loss of arms that do not meet, in rational numbers."""
    a = [Fraction(x) for x in own]
    b = [Fraction(x) - y / 2 for x, y in zip(initial, a, strict=True)]
    order = sorted(range(len(a)), key=lambda arm: b[arm])
    for size in range(1, len(a) + 1):
        used = order[:size]
        level = (horizon + sum(b[i] / a[i] for i in used)) / sum(1 / a[i] for i in used)
        if level >= b[used[-1]] and (size == len(a) or b[order[size]] >= level):
            x = {i: (level - b[i]) / a[i] for i in used}
            return sum(x[i] * b[i] + a[i] * x[i] ** 2 / 2 for i in used)
    raise AssertionError


@pytest.mark.parametrize("order", ["rising", "falling", "mixed"])
def test_arms_of_very_different_scales_have_a_certified_optimum(order):
    """What one more round costs falls by 24 orders of magnitude along this path."""
    rng = np.random.default_rng(0)
    own = 10 ** np.linspace(-12, 12, 60)
    own = {"rising": own, "falling": own[::-1], "mixed": rng.permutation(own)}[order]
    for initial in (np.zeros(60), rng.uniform(0, 1, 60)):
        instance = ib.Instance(np.diag(own), initial)
        for horizon in (1, 1000, 10**6, 10**12):
            best = ib.optimum(instance, horizon)
            assert best.certificate.is_optimal()
            exact = separable_optimum(own.tolist(), initial.tolist(), horizon)
            assert abs(Fraction(best.loss) - exact) <= abs(exact) * Fraction(1, 10**14)
