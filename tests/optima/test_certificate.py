"""A certificate says what it claims, and nothing else counts as proof."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import influential_bandits as ib
from influential_bandits.optima.faces import best_face
from influential_bandits.optima.path import TOLERANCE, Certificate, optimal_path, optimum


@pytest.mark.parametrize("residual", ["primal", "dual", "gap"])
def test_every_residual_alone_can_fail_the_certificate(residual):
    fields = {"primal": 0.0, "dual": 0.0, "gap": 0.0}
    assert Certificate(**fields).is_optimal(0.0)
    assert Certificate(**fields | {residual: TOLERANCE}).is_optimal()
    assert not Certificate(**fields | {residual: 1.001 * TOLERANCE}).is_optimal()
    assert Certificate(**fields | {residual: 0.5}).is_optimal(0.5)
    assert not Certificate(**fields | {residual: float("nan")}).is_optimal()


def recomputed(problem, support, point, horizon):
    """Return primal, dual and gap of a double-double point in rational arithmetic."""
    *used, multiplier = (Fraction(high) + Fraction(low) for high, low in point.tolist())
    x = [Fraction(0)] * len(problem.b)
    for arm, count in zip(support.tolist(), used, strict=True):
        x[arm] = count
    gradient, terms = [], []
    for row, b in zip(problem.A, problem.b, strict=True):
        gradient.append(b + sum(a * y for a, y in zip(row, x, strict=True)))
        terms.append(abs(b) + sum(abs(a) * y for a, y in zip(row, x, strict=True)))
    scale = sum(t * y for t, y in zip(terms, x, strict=True))
    primal = max(-min(x), abs(sum(x) - horizon)) / horizon
    below = [(multiplier - g, t + scale / horizon) for g, t in zip(gradient, terms, strict=True)]
    dual = max([size / full for size, full in below if size > 0], default=0)
    lowest = min(gradient)
    along = sum((g - lowest) * y for g, y in zip(gradient, x, strict=True))
    return float(primal), float(dual), float(along / scale if along else 0)


@settings(max_examples=8, deadline=None, derandomize=True, database=None)
@given(
    arms=st.integers(1, 5),
    seed=st.integers(0, 2**32 - 1),
    horizon=st.sampled_from([1, 7, 1000, 10**6, 10**9, 10**12]),
)
def test_residuals_are_those_of_the_answer(
    make_instance, rational_problem, family, arms, seed, horizon
):
    instance = make_instance(family, arms, seed)
    best = optimum(instance, horizon)
    segment = optimal_path(instance).segment(horizon)
    point = segment.point(horizon)
    residuals = recomputed(rational_problem(instance), segment.support, point, horizon)
    certificate = best.certificate
    # Sums of at most 6 terms of relative size up to 1, in twice the precision: a few u².
    found = (certificate.primal, certificate.dual, certificate.gap)
    assert found == pytest.approx(residuals, abs=1e-30)
    assert certificate.is_optimal()
    assert certificate.is_optimal(1e-14)
    assert certificate.method == "optimality conditions"


@pytest.mark.parametrize("horizon", [1, 10, 1000, 10**6, 10**9])
def test_residuals_of_an_indefinite_instance_are_those_of_the_answer(rational_problem, horizon):
    for seed in range(20):
        random = np.random.default_rng(seed)
        matrix = random.integers(-4, 5, (3, 3)) / 4.0
        instance = ib.Instance(matrix + matrix.T, random.integers(-2, 3, 3), definite=False)
        if instance.definite:
            continue
        best = optimum(instance, horizon)
        residuals = recomputed(rational_problem(instance), *best_face(instance, horizon), horizon)
        certificate = best.certificate
        found = (certificate.primal, certificate.dual, certificate.gap)
        assert found == pytest.approx(residuals, abs=1e-30)
        assert best.certificate.method == "all faces"


def test_a_gap_within_the_tolerance_bounds_the_loss_above_the_minimum(rational_problem):
    """The reason for certifying by it: for any feasible x, loss(x) − minimum ≤ ∇·x − T·min ∇."""
    random = np.random.default_rng(0)
    for _ in range(20):
        factors = random.integers(-3, 4, (3, 2)).astype(float)
        instance = ib.Instance(factors @ factors.T, random.normal(size=3))
        problem = rational_problem(instance)
        x = random.multinomial(50, [0.2, 0.3, 0.5])
        gradient = problem.gradient(x)
        gap = sum(g * int(n) for g, n in zip(gradient, x, strict=True)) - 50 * min(gradient)
        assert 0 <= problem.loss(x) - problem.optimum(50)[0] <= gap


def test_the_largest_numbers_of_an_instance_do_not_overflow():
    instance = ib.Instance([[1e100, 5e99], [5e99, 1e100]], [1e100, -1e100])
    for horizon in (10, 2**53 - 1):
        assert optimum(instance, horizon).certificate.is_optimal()
