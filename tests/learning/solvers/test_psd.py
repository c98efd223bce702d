"""Least squares over the cone: optimal, certified, and the same in other coordinates.

With f(A) − min f ≤ gap, everything else follows, since f is quadratic. For any B ⪰ 0,
½·‖b − a*‖² ≤ f(B) − f(A*) in the norm of S; and a step along a ray that stays in the cone gains
slope²/(2·curvature), which cannot be more than the gap.
"""

import math
from typing import NamedTuple

import clarabel
import numpy as np
import pytest
import scipy.linalg
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from influential_bandits.learning.solvers.psd import smat, solve_psd, svec

UNIT = 2.0**-53
TOLERANCE = 1e-9
SIZES = [1, 2, 3, 8]
LARGE = 20  # few of these: threads of BLAS take seconds for one where other work keeps cores busy

seeds = st.integers(0, 2**32 - 1)


# Problems


class Problem(NamedTuple):
    S: np.ndarray
    h: np.ndarray
    size: int
    optimum: np.ndarray | None = None  # svec, where it was planted

    def value(self, a):
        """½·aᵀSa − h·a, with more digits where the machine has them."""
        a = np.asarray(a, np.longdouble)
        return float(a @ (self.S.astype(np.longdouble) @ a) / 2 - self.h @ a)

    def rounding(self, a):
        """Bound the rounding errors of the objective and of the dual bound near a.

        Cholesky and two triangular solves find x = (S + E)⁻¹(h + z), which is a at the optimum,
        with |E_ij| ≤ 3(m + 1)·u·√(S_ii·S_jj), so that the dual bound is off by xᵀEx. Eigenvalues of
        A and Z are off by K·u of the largest, and trace(AZ) by that times the other's trace.
        """
        root = np.sqrt(np.diag(self.S))
        terms = (np.abs(a) @ root) ** 2 + np.abs(self.h) @ np.abs(a)
        r = self.factors()
        A = smat(a / r, self.size)
        Z = smat((self.S @ a - self.h) * r, self.size)
        traces = self.size * np.linalg.norm(A, 2) * np.linalg.norm(Z, 2)
        return 4 * (len(a) + 3) * UNIT * (terms + self.size * traces)

    def factors(self):
        """Svec of rrᵀ without √2, where A = diag(r)·B·diag(r) gives B's diagonal curvature 1."""
        rows = np.arange(self.size)
        r = np.diag(self.S)[rows * (rows + 3) // 2] ** -0.25
        return np.concatenate([r[i] * r[: i + 1] for i in range(self.size)])

    def rescaled(self, factors):
        return Problem(self.S * np.outer(factors, factors), self.h * factors, self.size)


def random_matrix(random, size, decades=0.0):
    """A symmetric matrix with eigenvalues from 1 to 10^−decades."""
    basis = np.linalg.qr(random.normal(size=(size, size)))[0]
    matrix = (basis * 10.0 ** -np.linspace(0, decades, size)) @ basis.T
    return (matrix + matrix.T) / 2


def planted(random, size, primal, dual, decades=2.0):
    """A problem whose optimum has rank ``primal``, and whose dual optimum has rank ``dual``."""
    S = random_matrix(random, size * (size + 1) // 2, decades)
    basis = np.linalg.qr(random.normal(size=(size, size)))[0]
    A = basis[:, :primal] @ np.diag(random.uniform(0.5, 2, primal)) @ basis[:, :primal].T
    Z = basis[:, size - dual :] @ np.diag(random.uniform(0.5, 2, dual)) @ basis[:, size - dual :].T
    a = svec(A)
    return Problem(S, S @ a - svec(Z), size, a)


def scaling(random, size):
    """Rows and columns of A times 10⁻⁴ … 10⁴, in the coordinates of svec."""
    r = 10.0 ** random.uniform(-4, 4, size)
    return np.concatenate([r[i] * r[: i + 1] for i in range(size)])


def make(family, size, seed):
    random = np.random.default_rng([size, seed])
    m = size * (size + 1) // 2
    if family == "interior":
        return planted(random, size, size, 0)
    if family == "barely outside":  # without the cone, one eigenvalue would be −1e-6
        problem = planted(random, size, size, 0)
        values, vectors = np.linalg.eigh(smat(problem.optimum, size))
        values[0] = -1e-6
        return problem._replace(h=problem.S @ svec((vectors * values) @ vectors.T))
    if family == "zero":
        return planted(random, size, 0, size)
    if family == "low rank":
        return planted(random, size, (size + 2) // 3, size - (size + 2) // 3)
    if family == "degenerate":  # A and Z are singular in the same direction
        return planted(random, size, size // 2, (size - 1) // 2)
    S = random_matrix(random, m, 8.0 if family == "near singular" else 1.0)
    problem = Problem(S, random.normal(size=m), size)
    return problem.rescaled(scaling(random, size)) if family == "badly scaled" else problem


FAMILIES = [
    "random",
    "badly scaled",
    "near singular",
    "interior",
    "barely outside",
    "zero",
    "low rank",
    "degenerate",
]
every_problem = pytest.mark.parametrize(
    ("family", "size"),
    [
        *((family, size) for family in FAMILIES for size in SIZES),
        *((family, LARGE) for family in ("badly scaled", "low rank")),
    ],
)


def solved(problem, tolerance=TOLERANCE):
    return solve_psd(problem.S, problem.h, problem.size, tolerance)


def bottom(problem):
    """The minimum without the cone."""
    return -problem.h @ np.linalg.solve(problem.S, problem.h) / 2


# Coordinates


@given(st.integers(1, 6), seeds)
def test_svec_and_smat(size, seed):
    random = np.random.default_rng(seed)
    A, B = (m + m.T for m in random.normal(size=(2, size, size)) * 10.0 ** random.integers(-9, 9))
    a, b = svec(A), svec(B)
    rows, columns = np.tril_indices(size)
    assert (a == A[rows, columns] * np.where(rows == columns, 1.0, math.sqrt(2.0))).all()
    back = smat(a, size)
    assert (back == back.T).all()
    # √2 is rounded alike there and back; the product and the quotient are rounded once each.
    assert (np.abs(back - A) <= 3 * UNIT * np.abs(A)).all()
    assert (np.diag(back) == np.diag(A)).all()
    # A product of two rounded √2 has relative error 2u, and its entries one more each.
    terms = np.abs(A * B).sum()
    assert abs(a @ b - np.trace(A @ B)) <= (4 + 2 * size**2) * UNIT * terms


# Optimality


class Reference(NamedTuple):
    """Bounds of the minimum from feasible points that another solver found."""

    low: float
    high: float


def positive_part(vector, size):
    values, vectors = np.linalg.eigh(smat(np.asarray(vector, float), size))
    # Lifted by what rounding may have left below zero, so that it is feasible.
    values = np.maximum(values, 0.0) + 2 * size * UNIT * np.abs(values).max()
    return svec((vectors * values) @ vectors.T)


def by_clarabel(problem):
    """Bound the minimum by clarabel's A and Z, projected to the cone."""
    m, size = len(problem.h), problem.size
    options = clarabel.DefaultSettings()
    options.verbose = False
    options.max_threads = 1
    options.tol_gap_abs = options.tol_gap_rel = options.tol_feas = 1e-11
    solution = clarabel.DefaultSolver(
        scipy.sparse.csc_matrix(np.triu(problem.S)),
        -problem.h,
        scipy.sparse.csc_matrix(-np.eye(m)),
        np.zeros(m),
        [clarabel.PSDTriangleConeT(size)],
        options,
    ).solve()
    a, z = positive_part(solution.x, size), positive_part(solution.z, size)
    # min ½·xᵀSx − (h + z)·x is taken at x near its minimiser, and is lower by ½·rᵀS⁻¹r there.
    dual = problem._replace(h=problem.h + z)
    factor = scipy.linalg.cho_factor(problem.S)
    x = scipy.linalg.cho_solve(factor, dual.h)
    residual = dual.h - problem.S @ x
    low = dual.value(x) - residual @ scipy.linalg.cho_solve(factor, residual)
    return Reference(low, problem.value(a))


@every_problem
def test_optimum_agrees_with_another_solver(family, size):
    problem = make(family, size, 1)
    solution = solved(problem)
    a = svec(solution.matrix)
    # Clarabel is given the same problem with unit curvatures, since it scales otherwise.
    reference = by_clarabel(problem.rescaled(problem.factors()))
    width = reference.high - reference.low
    assert width <= 1e-6 * abs(reference.low) + 1e-10, "clarabel failed: nothing was compared"
    assert_within_tolerance(problem, solution)
    rounding = problem.rounding(a)
    assert abs(solution.objective - problem.value(a)) <= rounding
    assert solution.objective >= reference.low - rounding
    assert solution.objective - solution.gap <= reference.high + rounding


@pytest.mark.parametrize("tolerance", [1e-3, 1e-6, 1e-10])
@pytest.mark.parametrize("family", FAMILIES)
def test_gap_is_within_tolerance(family, tolerance):
    for size in SIZES:
        problem = make(family, size, 0)
        assert_within_tolerance(problem, solved(problem, tolerance), tolerance)


def assert_within_tolerance(problem, solution, tolerance=TOLERANCE):
    lower = solution.objective - solution.gap
    allowed = tolerance * max(abs(solution.objective), abs(lower))
    # Where the optimum is 0, the gap can be small only in comparison with the minimum without the
    # cone, which is rounded too.
    rounding = problem.rounding(svec(solution.matrix))
    assert 0.0 <= solution.gap <= allowed + 1.1e-15 * abs(bottom(problem)) + 2 * rounding
    assert solution.iterations <= 40


@pytest.mark.parametrize(
    ("size", "decades"),
    [*((size, decades) for size in SIZES for decades in (0.0, 3.0, 6.0)), (LARGE, 3.0)],
)
def test_planted_optimum_is_found(size, decades):
    """½·‖a − a*‖² ≤ f(A) − f(A*) ≤ gap."""
    random = np.random.default_rng(size)
    for primal in {0, 1, size - 1, size} if size < LARGE else {3}:
        problem = planted(random, size, primal, size - primal, decades)
        solution = solved(problem)
        a = svec(solution.matrix)
        # The planted problem itself has an h that is rounded, by 2m·u·|S||a| + u·|h|; its optimum
        # is off by no more than S⁻¹ of that.
        m = len(a)
        error = UNIT * np.linalg.norm(
            (m + 2) * np.abs(problem.S) @ np.abs(problem.optimum) + 2 * np.abs(problem.h)
        )
        moved = error / math.sqrt(np.linalg.eigvalsh(problem.S)[0])
        difference = a - problem.optimum
        distance = math.sqrt(difference @ problem.S @ difference)
        allowed = math.sqrt(2 * (solution.gap + problem.rounding(a)))
        assert distance <= allowed + moved
        if primal == size:
            assert (solution.gap, solution.iterations) == (0.0, 0)


@every_problem
def test_optimality_conditions(family, size):
    """A ⪰ 0, Z = mat(Sa − h) ⪰ −√(2·gap·curvature) and trace(AZ) near 0.

    The ray from A through 0 ends at 0: a slope of more than the curvature gains at least half.
    """
    for seed in range(3 if size < LARGE else 1):
        problem = make(family, size, seed)
        solution = solved(problem)
        assert (solution.matrix == solution.matrix.T).all()
        a = svec(solution.matrix)
        r = problem.factors()
        even = problem.rescaled(r)  # a congruence: A = RBR, so that arms are comparable
        values = np.linalg.eigvalsh(smat(a / r, size))
        assert values[0] >= -4 * size * UNIT * np.abs(values).max()
        gap = solution.gap + problem.rounding(a)
        slack = even.S @ (a / r) - even.h
        values, vectors = np.linalg.eigh(smat(slack, size))
        ray = svec(np.outer(vectors[:, 0], vectors[:, 0]))
        rounding = 4 * len(a) * UNIT * (np.abs(even.S) @ np.abs(a / r) + np.abs(even.h))
        assert values[0] >= -math.sqrt(2 * gap * (ray @ even.S @ ray)) - np.linalg.norm(rounding)
        allowed = max(math.sqrt(2 * gap * (a @ problem.S @ a)), 2 * gap)
        assert abs(slack @ (a / r)) <= allowed + rounding @ np.abs(a / r)


@given(
    st.floats(-8, 8).map(lambda x: 10.0**x),
    st.floats(-1e8, 1e8).filter(lambda h: h == 0.0 or abs(h) > 1e-8),
)
def test_one_arm(curvature, slope):
    """The minimum of ½sa² − ha over a ≥ 0 is at max(h/s, 0)."""
    problem = Problem(np.array([[curvature]]), np.array([slope]), 1)
    solution = solved(problem)
    best = max(slope / curvature, 0.0)
    if slope >= 0.0:
        assert (solution.gap, solution.iterations) == (0.0, 0)
        # Scaled by s^−½ there and back: some ten operations.
        assert abs(solution.matrix[0, 0] - best) <= 20 * UNIT * best
        assert abs(solution.objective + slope * best / 2) <= 20 * UNIT * slope * best
    else:
        assert 0.0 <= solution.matrix[0, 0] <= math.sqrt(2 * solution.gap / curvature)
        assert 0.0 <= solution.objective <= solution.gap <= 1.1e-15 * slope**2 / curvature / 2


# Symmetries


def permuted(problem, order):
    """The same problem with arm order[k] in place k; and the new coordinates of the old vector."""
    number = np.zeros((problem.size, problem.size), int)
    rows, columns = np.tril_indices(problem.size)
    number[rows, columns] = number[columns, rows] = np.arange(len(problem.h))
    new = number[np.ix_(order, order)][rows, columns]
    return Problem(problem.S[np.ix_(new, new)], problem.h[new], problem.size), new


@pytest.mark.parametrize("family", FAMILIES)
def test_order_of_arms_does_not_matter(family):
    """Both are within √(2·gap) of the one optimum."""
    problem = make(family, 5, 2)
    other, new = permuted(problem, [3, 0, 4, 1, 2])
    one, two = solved(problem), solved(other)
    a = svec(one.matrix)
    difference = svec(two.matrix) - a[new]
    allowed = sum(math.sqrt(2 * (s.gap + problem.rounding(a))) for s in (one, two))
    assert math.sqrt(difference @ other.S @ difference) <= allowed


@pytest.mark.parametrize("family", FAMILIES)
def test_units_of_arms_do_not_matter(family):
    """Arms in units of 10⁻⁴ … 10⁴: both are within √(2·gap) of the one optimum."""
    problem = make(family, 4, 3)
    factors = scaling(np.random.default_rng(0), 4)
    one, two = solved(problem), solved(problem.rescaled(factors))
    a = svec(one.matrix)
    difference = svec(two.matrix) * factors - a
    allowed = sum(math.sqrt(2 * (s.gap + problem.rounding(a))) for s in (one, two))
    assert math.sqrt(difference @ problem.S @ difference) <= allowed


def test_inputs_are_left_alone():
    problem = make("random", 3, 0)
    S, h = problem.S.copy(), problem.h.copy()
    assert solved(problem).iterations > 0
    assert (problem.S == S).all()
    assert (problem.h == h).all()


# Nearly singular statistics, where rounding ends the search


def nearly_singular(seed):
    random = np.random.default_rng(seed)
    return Problem(random_matrix(random, 6, 13.0), random.normal(size=6), 3)


def test_search_ends_with_the_best_point_found_and_no_negative_gap():
    for seed in range(100):
        solution = solved(nearly_singular(seed))
        assert np.isfinite(solution.objective)
        assert solution.gap >= 0.0


def test_gap_holds_up_to_rounding():
    """The gap is an upper bound of the true one, that to the best point of all tolerances."""
    for seed in range(100):
        problem = nearly_singular(seed)
        points = [solved(problem, tolerance) for tolerance in (1e-2, 1e-5, 1e-7)]
        best = min(problem.value(svec(point.matrix)) for point in points)
        for point in points:
            rounding = problem.rounding(svec(point.matrix))
            assert point.objective - point.gap <= best + rounding
