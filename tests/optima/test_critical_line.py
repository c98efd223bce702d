"""The parts of the path: bordered inverses, solutions of thirty digits, supports from events."""

from fractions import Fraction

import forked
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from python_process import run_python
from strategies import KINDS, interaction

import influential_bandits as ib
from influential_bandits.optima.critical_line import (
    enter,
    leave,
    line_at,
    replay,
    solve_support,
)


def bordered(matrix, support):
    """Return [0 1ᵀ; 1 A_SS]."""
    size = len(support)
    out = np.zeros((size + 1, size + 1))
    out[0, 1:] = out[1:, 0] = 1.0
    out[1:, 1:] = matrix[np.ix_(support, support)]
    return out


@settings(max_examples=40, deadline=None, derandomize=True, database=None)
@given(
    arms=st.integers(1, 8),
    seed=st.integers(0, 2**32 - 1),
    kind=st.sampled_from(KINDS),
)
def test_arms_that_enter_and_leave_keep_the_inverse(arms, seed, kind):
    random = np.random.default_rng(seed)
    factors = random.normal(size=(arms, arms)) + 2 * np.eye(arms)
    matrix = interaction(factors, "dense").to_dense()
    world = ib.Instance(interaction(factors, kind), np.zeros(arms)).world
    inverse = np.zeros((arms + 1, arms + 1))
    support = np.empty(arms, np.int64)
    size = 0
    for arm in random.permutation(arms):
        assert enter(world, inverse, support, size, int(arm))
        size += 1
    while True:
        expected = bordered(matrix, support[:size])
        # Each step multiplies errors by about the condition number once more.
        error = np.abs(inverse[: size + 1, : size + 1] @ expected - np.eye(size + 1)).max()
        assert error <= 1e-15 * (arms + 1) * np.linalg.cond(bordered(matrix, np.arange(arms))) ** 2
        if size == 1:
            break
        position = int(random.integers(size))
        leaving, moved = support[position], support[size - 1]
        leave(inverse, support, size, position)
        size -= 1
        assert leaving not in support[:size]
        assert position == size or support[position] == moved


def test_a_dependent_arm_is_turned_away_and_changes_nothing():
    factors = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.5, 0.5]])
    world = ib.Instance(factors @ factors.T, np.zeros(4)).world
    inverse, support = np.zeros((5, 5)), np.full(4, -1)
    for size, arm in enumerate([0, 1, 2]):
        assert enter(world, inverse, support, size, arm)
    before = inverse.copy()
    # (arm 0 + arm 1)/2 = arm 3 in every respect
    assert not enter(world, inverse, support, 3, 3)
    assert np.array_equal(inverse, before)
    assert support.tolist() == [0, 1, 2, -1]


@pytest.mark.parametrize("kind", KINDS)
def test_a_support_is_solved_to_thirty_digits(rational_problem, kind):
    for seed in range(6):
        random = np.random.default_rng(seed)
        factors = random.integers(-9, 10, (4, 4)) / 8 + np.eye(4)
        instance = ib.Instance(interaction(factors, kind), random.normal(size=4))
        lines = dict(rational_problem(instance).lines())
        for support in [(2,), (0, 3), (1, 2, 3), (0, 1, 2, 3)]:
            p, q, _, _, sound = solve_support(
                instance.world, instance.linear_term, np.array(support)
            )
            assert sound
            minus_multiplier, *used = lines[support]
            exact = [*used, [-part for part in minus_multiplier]]
            for which, found in enumerate((p, q)):
                size = max(abs(row[which]) for row in exact)
                for row, (high, low) in zip(exact, found.tolist(), strict=True):
                    assert abs(Fraction(high) + Fraction(low) - row[which]) <= 1e-29 * size


def test_a_dependent_support_is_called_unsound():
    """In a process of its own: reading what was never written may end it."""
    program = """
import numpy as np
import influential_bandits as ib
from influential_bandits.optima.critical_line import solve_support
junk = [np.full(n, 2**40) for n in range(1, 80) for _ in range(20)]
del junk  # what a fresh array may find in its memory
world = ib.Instance(np.ones((60, 60)), np.zeros(60)).world
for size in range(2, 60):
    assert not solve_support(world, np.zeros(60), np.arange(size))[-1]
"""
    run_python(program, start=forked.run)


def test_events_are_replayed_into_supports():
    events = np.array([4, 1, -5, 0, 4, -2])
    expected = [[4], [1, 4], [1], [0, 1], [0, 1, 4], [0, 4]]
    assert [replay(events, n).tolist() for n in range(6)] == expected


def test_a_point_is_exact_where_doubles_are_not(unit):
    # A third as a sum of two doubles is off by less than 2⁻¹⁰⁶ of it.
    third = 1 / 3
    rest = float(Fraction(1, 3) - Fraction(third))
    point = line_at(np.array([[third, rest]]), np.array([[0.1, 0.0]]), 1e12)
    exact = Fraction(10**12, 3) + Fraction(0.1)
    found = Fraction(point[0, 0]) + Fraction(point[0, 1])
    assert abs(found - exact) <= 8 * unit**2 * exact
    assert abs(Fraction(point[0, 0]) - exact) > 0


def test_gaps_are_exactly_zero_on_the_support_and_signed_outside():
    instance = ib.Instance(np.diag([1.0, 2.0, 4.0]), [0.5, 1.0, 12.0])  # b = 0, 0, 10
    support = np.array([0, 1])
    _, _, rates, offsets, _ = solve_support(instance.world, instance.linear_term, support)
    # λ = 2T/3, so that the gap of arm 2 is 10 − 2T/3.
    assert offsets[:, 0].tolist() == [0.0, 0.0, 10.0]
    assert rates[:, 0].tolist() == [0.0, 0.0, -2 / 3]
