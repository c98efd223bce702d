"""The compiled dynamics, function by function; whole worlds are played in test_environment.py."""

from fractions import Fraction

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import KINDS, instances, interaction, memories, pulls

import influential_bandits as ib
from influential_bandits.world.dynamics import (
    add_row,
    advance,
    deviation,
    ordered_dot,
    start_progress,
)


@given(st.integers(0, 13), st.integers(0, 2**32 - 1))
def test_a_dot_product_is_summed_in_the_stated_order(size, seed):
    a, b = np.random.default_rng(seed).normal(size=(2, size))
    whole = size // 4 * 4
    sums = [0.0] * 4
    for i in range(whole):
        sums[i % 4] += float(a[i] * b[i])
    total = (sums[0] + sums[1]) + (sums[2] + sums[3])
    for i in range(whole, size):
        total += float(a[i] * b[i])
    assert ordered_dot(a, b) == total


@given(instances(memory=memories()), st.data())
@settings(max_examples=100)
def test_rows_add_up_to_the_deviation_of_all_arms(exact_world, rounding, instance, data):
    exact = exact_world(instance)
    sequence = data.draw(pulls(instance.n_arms))
    high, low = np.zeros((2, instance.n_arms))
    for arm in sequence:
        add_row(instance.world, arm, high, low)
        exact.pull(arm)
    if instance.memory == 1.0 and instance.interaction.name != "low-rank":
        # The sum is carried in two doubles: each pull rounds a part that is below u already.
        bound = 3 * len(sequence) * rounding**2
    else:
        # Entries of FFᵀ are rounded, and with γ < 1 so are both parts in each round.
        bound = (3 * len(sequence) + instance.n_arms + 2) * rounding
    for j in range(instance.n_arms):
        error = abs(Fraction(high[j]) + Fraction(low[j]) - exact.deviation[j])
        assert error <= bound * exact.deviation_size[j]


def rested(kind):
    """A world in which two arms were pulled, and then one without influence, a hundred times.

    0.1 + 0.2 is no double, so that there is a low part that has to fade as well.
    """
    instance = ib.Instance(
        interaction(np.array([[1.0], [0.1], [0.2], [0.0]]), kind), np.zeros(4), memory=0.5
    )
    return instance, [1, 2] + [3] * 100


@pytest.mark.parametrize("kind", KINDS)
def test_what_has_faded_leaves_nothing_behind(kind, exact_world, rounding):
    instance, sequence = rested(kind)
    progress, exact = start_progress(instance.world), exact_world(instance)
    high, low = np.zeros((2, 4))
    for t, arm in enumerate(sequence, start=1):
        advance(instance.world, progress, arm, t)
        add_row(instance.world, arm, high, low)
        exact.pull(arm)
    # Halving is exact: what rounds are the entries, their sum and one product.
    computed = Fraction(deviation(instance.world, progress, 0, len(sequence) + 1))
    assert abs(computed - exact.deviation[0]) <= 4 * rounding * exact.deviation[0]
    added = Fraction(high[0]) + Fraction(low[0])
    assert abs(added - exact.deviation[0]) <= 4 * rounding * exact.deviation[0]


def test_low_rank_losses_keep_what_a_double_cannot_hold():
    # The factors' sums are 0.1 + 0.2 and 0.3; their difference is half a unit in the last place of
    # either, and would be a whole one if the sum was rounded.
    instance = ib.Instance(
        ib.LowRankInteraction([[1.0, -1.0], [0.1, 0.3], [0.2, 0.0]]), np.zeros(3)
    )
    exact = float(Fraction(0.1) + Fraction(0.2) - Fraction(0.3))
    assert exact == 2.0**-55
    progress = start_progress(instance.world)
    for t, arm in enumerate((1, 2), start=1):
        advance(instance.world, progress, arm, t)
    assert deviation(instance.world, progress, 0, 3) == exact
    assert instance.losses([0, 1, 1])[0] == exact


PULLS = 1_000_000


@numba.njit
def deviations_after(world, progress, arms, out):
    """Pull arms one after the other, then write the deviations of all arms."""
    for t in range(arms.size):
        advance(world, progress, arms[t], t + 1)
    for arm in range(out.size):
        out[arm] = deviation(world, progress, arm, arms.size + 1)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_losses_do_not_drift_in_a_million_pulls(kind, exact_world, rounding):
    random = np.random.default_rng(1)
    instance = ib.Instance(interaction(random.normal(size=(5, 3)), kind), np.zeros(5))
    arms = random.choice(5, PULLS, p=[0.4, 0.3, 0.2, 0.09, 0.01])
    progress = start_progress(instance.world)
    computed = np.empty(5)
    deviations_after(instance.world, progress, arms, computed)
    counts = np.bincount(arms, minlength=5)
    assert np.array_equal(progress.counts, counts)
    exact = exact_world(instance)
    # The same as for counts given at once: rounding in a dot product of at most 5 terms (and one
    # of the low parts), none from the pulls. Adding rows one by one would err by up to 10⁶ of them.
    for value, expected, magnitude in zip(
        computed, exact.losses_after(counts), exact.magnitudes_after(counts), strict=True
    ):
        assert abs(Fraction(value) - expected) <= 12 * rounding * magnitude
