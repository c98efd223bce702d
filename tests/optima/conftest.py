"""Slow, obviously right versions of the benchmark, and problems made to break the fast one.

Everything is a session fixture that returns a function or a class.
"""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from rational import rational, solved

import influential_bandits as ib

UNIT = Fraction(1, 2**53)  # the largest relative error of one rounding


class RationalProblem:
    """min b·x + ½·xᵀAx over x ≥ 0, Σx = T by solving every support in rational arithmetic.

    Some minimiser has a support whose equations are regular: along a direction in which they are
    not, the loss is constant at a minimum, and an entry of x can be taken to 0. That holds for
    indefinite A too. Low-rank interactions are taken as the exact product FFᵀ.
    """

    def __init__(self, instance):
        matrix = instance.interaction
        if matrix.name == "low-rank":
            factors = [rational(row) for row in matrix.values]
            self.A = [
                [sum(a * b for a, b in zip(f, g, strict=True)) for g in factors] for f in factors
            ]
        else:
            self.A = [rational(row) for row in matrix.to_dense()]
        self.b = rational(instance.linear_term)
        self.arms = range(instance.n_arms)
        self.supports = None

    def loss(self, counts):
        """Return b·x + ½·xᵀAx, exactly."""
        x = [Fraction(count) for count in np.asarray(counts).tolist()]
        return sum(self.b[i] * x[i] for i in self.arms) + self._form(self.A, x) / 2

    def magnitude(self, counts):
        """Return |b|·x + xᵀ|A|x: what the rounding errors of a loss are relative to."""
        x = [Fraction(count) for count in np.asarray(counts).tolist()]
        size = [[abs(a) for a in row] for row in self.A]
        return sum(abs(self.b[i]) * x[i] for i in self.arms) + self._form(size, x)

    def gradient(self, counts):
        """Return b + A·x, exactly."""
        x = [Fraction(count) for count in np.asarray(counts).tolist()]
        return [self.b[i] + sum(self.A[i][j] * x[j] for j in self.arms) for i in self.arms]

    def lines(self):
        """Return every regular support with its x and −λ as (slope, offset) pairs in T."""
        if self.supports is None:
            self.supports = []
            for size in range(1, len(self.arms) + 1):
                for support in combinations(self.arms, size):
                    rows = [
                        [0, *[1] * size],
                        *([1, *(self.A[i][j] for j in support)] for i in support),
                    ]
                    columns = [[1, 0], *([0, -self.b[i]] for i in support)]
                    solution = solved(rows, columns)
                    if solution is not None:
                        self.supports.append((support, solution))
        return self.supports

    def optimum(self, horizon):
        """Return the smallest loss, where it is reached, and the multiplier λ there."""
        horizon = Fraction(horizon)
        best = None
        for support, solution in self.lines():
            minus_multiplier, *used = [p * horizon + q for p, q in solution]
            if min(used) < 0:
                continue
            along = sum(self.b[i] * x for i, x in zip(support, used, strict=True))
            loss = (along - minus_multiplier * horizon) / 2
            if best is None or loss < best[0]:
                x = [Fraction(0)] * len(self.arms)
                for i, value in zip(support, used, strict=True):
                    x[i] = value
                best = loss, x, -minus_multiplier
        return best

    def regret(self, counts):
        """Return the loss of whole counts above the smallest, exactly."""
        horizon = sum(int(count) for count in counts)
        return self.loss([int(count) for count in counts]) - self.optimum(horizon)[0]

    def _form(self, matrix, x):
        return sum(x[i] * matrix[i][j] * x[j] for i in self.arms for j in self.arms)


def compositions(horizon, arms):
    """Return all whole counts with a sum, (ways, arms)."""
    if arms == 1:
        return np.array([[horizon]])
    return np.vstack(
        [
            np.hstack([np.full((len(rest), 1), first), rest])
            for first in range(horizon + 1)
            for rest in [compositions(horizon - first, arms - 1)]
        ]
    )


FAMILIES = (
    "regular",
    "whole numbers",
    "low rank",
    "rank one",
    "duplicated",
    "all ones",
    "zero",
    "diagonal",
    "equal losses",
    "nearly singular",
    "scaled",
    "huge losses",
    "far from zero",
)


def family_member(family, arms, seed):
    """Return A and l1 of a random problem.

    A is exactly positive semi-definite, also in rational arithmetic: it is FFᵀ (plus a diagonal)
    with entries that are small whole numbers times powers of two, so that nothing is rounded.
    """
    random = np.random.default_rng([FAMILIES.index(family), arms, seed])
    factors = random.integers(-3, 4, (arms, arms)).astype(float)
    losses = random.integers(-3, 4, arms).astype(float)
    if family == "low rank":
        factors = factors[:, : max(1, arms - 2)]
    elif family == "rank one":
        factors = factors[:, :1]
    elif family == "duplicated":
        same = random.integers(0, arms, arms)
        factors, losses = factors[same, :2], losses[same]
    elif family == "all ones":
        factors = np.full((arms, 1), 2.0 ** random.integers(-3, 4))
    elif family == "zero":
        factors = np.zeros((arms, 1))
    elif family == "diagonal":
        factors = np.diag(random.integers(0, 4, arms) / 2.0)
    elif family == "scaled":
        factors *= 2.0 ** random.integers(-6, 7, (arms, 1))
    elif family == "huge losses":
        losses = 2.0**40 * random.normal(size=arms)
    elif family == "far from zero":
        losses += 2.0**30
    elif family == "regular":
        losses = random.normal(size=arms)
    matrix = factors @ factors.T
    if family == "equal losses":
        losses = 1.0 + matrix.diagonal() / 2  # so that b = 1
    elif family == "nearly singular":
        thin = factors[:, : max(1, arms - 1)]
        matrix = thin @ thin.T + np.diag(random.integers(0, 3, arms) * 2.0**-34)
        losses = random.normal(size=arms)
    return matrix, losses


def pytest_generate_tests(metafunc):
    """Run a test with the argument ``family`` once for each family."""
    if "family" in metafunc.fixturenames:
        metafunc.parametrize("family", FAMILIES)


@pytest.fixture(scope="session")
def rational_problem():
    return RationalProblem


@pytest.fixture(scope="session")
def all_compositions():
    return compositions


@pytest.fixture(scope="session")
def make_instance():
    """make_instance(family, arms, seed)."""
    return lambda family, arms, seed: ib.Instance(*family_member(family, arms, seed))


@pytest.fixture(scope="session")
def unit():
    return UNIT
