"""Portable logarithm, exponential, quantile and powers, against exact or 50-digit arithmetic."""

import decimal
import math
import struct
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from influential_bandits.numerics.portable import (
    exp,
    halve,
    log,
    normal_quantile,
    power_of_two,
    whole_power,
)

DIGITS = decimal.Context(prec=50)
ROUNDING = 2.0**-53
SMALLEST_NORMAL = 2.0**-1022
LARGEST = math.nextafter(math.inf, 0.0)
ROOT_TWO = math.sqrt(2.0)
NEAREST_TO_HALF = 0.5 - 2.0**-54

positive_normals = st.floats(SMALLEST_NORMAL, LARGEST, allow_subnormal=False)
quantile_arguments = st.one_of(
    st.floats(-NEAREST_TO_HALF, NEAREST_TO_HALF),
    st.floats(1.0, 54.0).map(lambda bits: 0.5 - 2.0**-bits),  # evenly over the tail's magnitudes
)


def bits(x):
    return struct.pack("<d", x)


def units_in_the_last_place(x):
    """How far log(x) is from the logarithm, whose 50 digits are exact for this purpose."""
    computed = log(x)
    exact = Decimal(x).ln(DIGITS)
    return abs(Decimal(computed) - exact) / Decimal(math.ulp(computed))


@given(positive_normals)
@example(SMALLEST_NORMAL)
@example(LARGEST)
@example(ROOT_TWO)
@example(math.nextafter(ROOT_TWO, 0.0))
@example(math.nextafter(1.0, 0.0))
@example(math.nextafter(1.0, 2.0))
def test_log_is_within_one_unit_in_the_last_place(x):
    assert units_in_the_last_place(x) < 1


@given(positive_normals)
def test_compiled_log_has_the_bits_of_interpreted_python(x):
    # Python neither fuses nor reorders, so this fails if the compiler does.
    assert bits(log(x)) == bits(log.py_func(x))


def exp_error(x):
    """How far exp(x) is from the exponential, in units in the last place."""
    computed = exp(x)
    return abs(Decimal(computed) - Decimal(x).exp(DIGITS)) / Decimal(math.ulp(computed))


@given(st.floats(-708.0, 709.0))
@example(-708.0)
@example(709.0)
@example(5e-324)
@example(0.5 * math.log(2.0))
@example(-0.5 * math.log(2.0))
def test_exp_is_within_one_unit_in_the_last_place(x):
    assert exp_error(x) < 1


def test_exp_of_zero_is_one_and_of_very_little_is_zero():
    assert bits(exp(0.0)) == bits(exp(-0.0)) == bits(1.0)
    assert bits(exp(-708.1)) == bits(exp(-1e300)) == bits(0.0)


@given(st.floats(-708.0, 709.0))
def test_compiled_exp_has_the_bits_of_interpreted_python(x):
    assert bits(exp(x)) == bits(exp.py_func(x))


# The centre is a quotient of polynomials of degree 7 in r ≥ 0 with positive coefficients, so that
# Horner's scheme errs by at most 14 roundings in each, and 3 are left for r, product and quotient.
# In the tails r carries the logarithm's error too, which its square root and the function's slope
# do not enlarge beyond 3. The approximation's own error is below one rounding (Wichura: 1e-16).
WORST = 34 * ROUNDING
# Roundings are independent for all that is known, and then add up like the square root.
TYPICAL = math.sqrt(34) * ROUNDING


def normal_centred_distribution_over_density(z):
    """(Φ(z) − ½)/φ(z) = z + z³/3 + z⁵/(3·5) + …, all terms of one sign, to 45 digits."""
    term = total = z
    odd = 1
    while abs(term) > abs(total) * Decimal("1e-46"):
        odd += 2
        term = DIGITS.divide(DIGITS.multiply(DIGITS.multiply(term, z), z), odd)
        total = DIGITS.add(total, term)
    return total


def arcus_cotangent(n):
    term = total = DIGITS.divide(1, n)
    odd = 1
    while abs(term) > Decimal("1e-52"):
        odd += 2
        term = DIGITS.divide(-term, n * n)
        total = DIGITS.add(total, DIGITS.divide(term, odd))
    return total


PI = 4 * (4 * arcus_cotangent(5) - arcus_cotangent(239))  # Machin
ROOT_TWO_PI = (2 * PI).sqrt(DIGITS)


def relative_error(q):
    """Relative error of normal_quantile(q), by one step of Newton's method from its value."""
    with decimal.localcontext(DIGITS):
        z = Decimal(normal_quantile(q))
        over_density = Decimal(q) * ROOT_TWO_PI * (z * z / 2).exp()
        return float((over_density - normal_centred_distribution_over_density(z)) / z)


REGIONS = {
    "centre": np.linspace(-0.425, 0.425, 1000)[1:-1],
    "next to zero": np.geomspace(1e-300, 1e-3, 100),
    "tail": 0.5 - np.geomspace(math.exp(-25), 0.075, 600),
    "far tail": 0.5 - np.geomspace(2.0**-53, math.exp(-25), 400),
}


@pytest.mark.parametrize("region", REGIONS)
def test_normal_quantile_is_right_up_to_rounding(region):
    errors = np.array([relative_error(q) for q in REGIONS[region].tolist()])
    assert np.abs(errors).max() <= WORST
    assert math.sqrt(np.mean(errors**2)) <= TYPICAL


@given(quantile_arguments)
@example(0.0)
@example(0.425)
@example(NEAREST_TO_HALF)
@example(5e-324)
def test_normal_quantile_is_odd_to_the_last_bit(q):
    assert bits(normal_quantile(-q)) == bits(-normal_quantile(q))


def test_normal_quantile_of_extreme_arguments_is_finite():
    # Φ⁻¹(1 − 2⁻⁵³) and Φ⁻¹(1 − 2⁻⁵⁴), the largest that a draw and a double can ask for.
    assert normal_quantile(0.5 - 2.0**-53) == pytest.approx(8.209536151601387, rel=WORST)
    assert normal_quantile(NEAREST_TO_HALF) == pytest.approx(8.292361075813595, rel=WORST)
    assert bits(normal_quantile(0.0)) == bits(0.0)
    assert bits(normal_quantile(-0.0)) == bits(-0.0)
    # Next to zero the quantile is √(2π)·q; 5e-324 is the smallest step there is.
    assert normal_quantile(5e-324) in (1e-323, 1.5e-323)


@given(quantile_arguments)
def test_compiled_normal_quantile_has_the_bits_of_interpreted_python(q):
    assert bits(normal_quantile(q)) == bits(normal_quantile.py_func(q))


@given(st.floats(0.5, 1.0), st.integers(0, 1000))
def test_a_power_errs_by_less_than_one_rounding_for_each_factor(rounding, base, exponent):
    # A product of n rounded factors has n − 1 roundings, in whatever order; squares double theirs.
    exact = Fraction(base) ** exponent
    error = abs(Fraction(whole_power(base, exponent)) - exact)
    assert error <= exponent * rounding * exact * Fraction(101, 100)  # second order


def test_powers_have_no_rounding_where_there_is_nothing_to_round():
    assert whole_power(0.5, 1000) == 2.0**-1000
    assert whole_power(1.0, 2**60) == 1.0
    assert whole_power(0.3, 0) == 1.0
    assert whole_power(0.3, 1) == 0.3


@pytest.mark.parametrize("exponent", [-1022, -40, -1, 0, 1, 20, 1023])
def test_powers_of_two_are_exact(exponent):
    assert power_of_two(exponent) == 2.0**exponent


@given(st.floats(0.0, 1022.0))
@example(0.5)
@example(math.nextafter(0.5, 0.0))
@example(1021.9999)
def test_halving_is_within_two_units_in_the_last_place(x):
    exact = DIGITS.power(Decimal(2), -Decimal(x))
    assert abs(Decimal(halve(x)) - exact) <= 2 * Decimal(math.ulp(halve(x)))
    assert bits(halve(x)) == bits(halve.py_func(x))


def test_whole_half_lives_are_exact_and_many_leave_nothing():
    assert all(halve(float(n)) == 2.0**-n for n in range(1023))
    assert halve(1022.5) == halve(1e300) == halve(math.inf) == 0.0
    assert bits(halve(0.0)) == bits(1.0)
