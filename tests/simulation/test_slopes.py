"""Slopes on log-log scales."""

import numpy as np
import pytest

import influential_bandits as ib


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
    with pytest.raises(ib.InvalidInput, match="needs two horizons there, and positive values"):
        ib.log_log_slope([1, 10, 100], values, low, high)


def test_values_outside_the_range_may_be_zero():
    assert ib.log_log_slope([1, 10, 100], [0, 10, 100], 10, 100) == pytest.approx(1.0)


def test_horizons_and_values_of_different_lengths_are_refused():
    with pytest.raises(ib.InvalidInput):
        ib.log_log_slope([1, 10, 100], [1, 2], 1, 100)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_values_that_are_not_finite_are_refused(value):
    with pytest.raises(ib.InvalidInput):
        ib.log_log_slope([1, 10, 100], [1, value, 3], 1, 100)
