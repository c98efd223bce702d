"""Slopes on log-log scales."""

import numpy as np
import pytest

import influential_bandits as ib
from influential_bandits.numerics.resampling import bootstrap_interval
from influential_bandits.numerics.slopes import local_slopes, log_log_slopes


@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0, 1.735])
def test_the_slope_of_a_power_is_its_exponent(exponent):
    horizons = 10.0 ** np.arange(1, 8)
    assert ib.log_log_slope(horizons, 3 * horizons**exponent, 10, 10**7) == pytest.approx(exponent)


def test_only_the_stated_range_counts():
    horizons = [1, 10, 100, 1000, 10_000]
    values = [7, 1, 10, 100, 7]
    assert ib.log_log_slope(horizons, values, 10, 1000) == pytest.approx(1.0)
    assert ib.log_log_slope(horizons, values, 9.5, 1000.5) == pytest.approx(1.0)


def test_the_slope_is_that_of_least_squares():
    # log10 values 0, 0, 3 at 0, 1, 2: slope Σ(x − 1)·y / 2.
    assert ib.log_log_slope([1, 10, 100], [1, 1, 1000], 1, 100) == pytest.approx(1.5)


@pytest.mark.parametrize(
    ("values", "low", "high"),
    [([1, 2, 3], 10, 10), ([1, 2, 3], 1000, 2000), ([1, 0, 3], 1, 100), ([1, -2, 3], 1, 100)],
    ids=["one horizon", "no horizon", "zero", "negative"],
)
def test_a_slope_that_does_not_exist_is_refused(values, low, high):
    with pytest.raises(
        ib.errors.InvalidInput, match="needs two horizons there, and positive values"
    ):
        ib.log_log_slope([1, 10, 100], values, low, high)


def test_values_outside_the_range_may_be_zero():
    assert ib.log_log_slope([1, 10, 100], [0, 10, 100], 10, 100) == pytest.approx(1.0)


def test_horizons_and_values_of_different_lengths_are_refused():
    with pytest.raises(ib.errors.InvalidInput):
        ib.log_log_slope([1, 10, 100], [1, 2], 1, 100)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_values_that_are_not_finite_are_refused(value):
    with pytest.raises(ib.errors.InvalidInput):
        ib.log_log_slope([1, 10, 100], [1, value, 3], 1, 100)


def test_many_slopes_are_those_of_every_row():
    horizons = np.array([10, 20, 50, 100, 1000])
    values = np.random.default_rng(0).uniform(0.1, 10.0, (7, 5))
    expected = [np.polyfit(np.log(horizons[1:]), np.log(row[1:]), 1)[0] for row in values]
    assert log_log_slopes(horizons, values, 20, 1000) == pytest.approx(np.array(expected))
    single = [ib.log_log_slope(horizons, row, 20, 1000) for row in values]
    assert log_log_slopes(horizons, values, 20, 1000) == pytest.approx(single, rel=1e-12)


@pytest.mark.parametrize("shape", [(2, 4), (2, 2), (3, 2, 3)])
def test_rows_of_other_lengths_than_the_horizons_are_refused(shape):
    with pytest.raises(ib.errors.InvalidInput, match="equally long"):
        log_log_slopes([1, 10, 100], np.ones(shape), 1, 100)


def test_one_bad_row_among_many_is_refused():
    with pytest.raises(ib.errors.InvalidInput, match="positive values"):
        log_log_slopes([1, 10, 100], np.array([[1.0, 2.0, 3.0], [1.0, 0.0, 3.0]]), 1, 100)


@pytest.mark.parametrize("exponent", [-1.0, 0.0, 1.735])
def test_the_local_slopes_of_a_power_are_its_exponent(exponent):
    horizons = np.array([1, 2, 5, 10, 20, 1000])
    places, slopes = local_slopes(horizons, 3.0 * horizons**exponent)
    assert slopes == pytest.approx([exponent] * 5)
    assert places == pytest.approx([2**0.5, 10**0.5, 50**0.5, 200**0.5, 20_000**0.5])


def test_local_slopes_are_those_between_neighbours():
    _, slopes = local_slopes([1, 10, 100], [1, 10, 100_000])
    assert slopes == pytest.approx([1.0, 4.0])
    assert [array.size for array in local_slopes([10], [5])] == [0, 0]


def mean(rows):
    return float(rows.mean())


def test_a_bootstrap_interval_repeats_to_the_bit_and_depends_on_the_seed():
    values = np.random.default_rng(1).normal(size=40)
    assert bootstrap_interval(values, mean) == bootstrap_interval(values, mean)
    assert bootstrap_interval(values, mean) != bootstrap_interval(values, mean, seed=1)


def test_without_spread_the_bootstrap_interval_is_a_point():
    assert bootstrap_interval([3.0] * 9, mean) == (3.0, 3.0)
    assert bootstrap_interval([3.0], mean) == (3.0, 3.0)


def test_rows_are_drawn_as_a_whole():
    """Both columns of a row are the same, so that their difference never varies."""
    rows = np.repeat(np.random.default_rng(2).normal(size=(20, 1)), 2, axis=1)
    assert bootstrap_interval(rows, lambda r: mean(r[:, 0]) - mean(r[:, 1])) == (0.0, 0.0)


def test_every_row_is_drawn_equally_often():
    """Of 4000 · 10 draws each row has 4000 ± 60; six standard deviations fail once in 10⁸."""
    seen = np.zeros(10)

    def count(rows):
        seen[:] += np.bincount(rows.astype(int), minlength=10)
        return 0.0

    bootstrap_interval(np.arange(10.0), count, resamples=4000)
    assert seen.sum() == 40_000
    assert np.abs(seen - 4000).max() < 360


def test_a_bootstrap_interval_of_a_mean_is_that_of_theory():
    """±1.96·s/√n; the quantiles of 4000 resamples are right within about 3 %, so 15 % is safe."""
    values = np.random.default_rng(3).normal(5.0, 2.0, 400)
    low, high = bootstrap_interval(values, mean, resamples=4000)
    half = 1.96 * values.std() / 20
    assert low == pytest.approx(values.mean() - half, abs=0.15 * half)
    assert high == pytest.approx(values.mean() + half, abs=0.15 * half)


def test_a_bootstrap_interval_covers_the_truth_nearly_as_often_as_it_says():
    """With 50 rows about 94 %: fewer than 170 of 200 have a probability below 10⁻⁵."""
    draws = np.random.default_rng(4).normal(size=(200, 50))
    covered = sum(low <= 0.0 <= high for low, high in (bootstrap_interval(d, mean) for d in draws))
    assert 170 <= covered < 200
