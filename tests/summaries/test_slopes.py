"""Slopes on log-log scales."""

import numpy as np
import pytest

import influential_bandits as ib
from influential_bandits.summaries.resampling import bootstrap_interval
from influential_bandits.summaries.slopes import local_slopes, log_log_slopes


@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0, 1.735])
def test_the_slope_of_a_power_is_its_exponent(exponent):
    horizons = 10.0 ** np.arange(1, 8)
    assert ib.log_log_slope(horizons, 3 * horizons**exponent, 10, 10**7) == pytest.approx(exponent)


def test_only_the_stated_range_counts():
    horizons = [1, 10, 100, 1000, 10_000]
    values = [7, 1, 10, 100, 7]
    assert ib.log_log_slope(horizons, values, 10, 1000) == pytest.approx(1.0)
    assert ib.log_log_slope(horizons, values, 9.5, 1000.5) == pytest.approx(1.0)


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


@pytest.mark.parametrize("exponent", [-1.0, 0.0, 1.735])
def test_the_local_slopes_of_a_power_are_its_exponent(exponent):
    horizons = np.array([1, 2, 5, 10, 20, 1000])
    places, slopes = local_slopes(horizons, 3.0 * horizons**exponent)
    assert slopes == pytest.approx([exponent] * 5)
    assert places == pytest.approx([2**0.5, 10**0.5, 50**0.5, 200**0.5, 20_000**0.5])


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


def test_a_bootstrap_interval_of_a_mean_is_that_of_theory():
    """±1.96·s/√n; the quantiles of 4000 resamples are right within about 3 %, so 15 % is safe."""
    values = np.random.default_rng(3).normal(5.0, 2.0, 400)
    low, high = bootstrap_interval(values, mean, resamples=4000)
    half = 1.96 * values.std() / 20
    assert low == pytest.approx(values.mean() - half, abs=0.15 * half)
    assert high == pytest.approx(values.mean() + half, abs=0.15 * half)
