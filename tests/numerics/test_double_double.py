"""Double-double arithmetic, against rational numbers."""

import math
from fractions import Fraction

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from influential_bandits.numerics.double_double import (
    add,
    add_product,
    scale,
    two_product,
    two_sum,
)

U = Fraction(1, 2**53)

# Error bounds of Joldes, Muller and Popescu, "Tight and rigorous error bounds for basic building
# blocks of double-word arithmetic" (2017), for normalised arguments.
ADD_ERROR = 3 * U**2 + 13 * U**3  # their AccurateDWPlusDW
SCALE_ERROR = 3 * U**2  # their DWTimesFP2

doubles = st.floats(-(2.0**400), 2.0**400)
# The error of a product is exact unless it falls below the smallest double.
product_doubles = st.floats(2.0**-400, 2.0**400).flatmap(lambda x: st.sampled_from([x, -x]))


@st.composite
def pairs(draw, high=doubles):
    """Normalised pairs: the low part is what rounding to the high part left over."""
    return two_sum(draw(high), draw(high) * draw(st.sampled_from([0.0, 2.0**-53, 2.0**-60, 1.0])))


@st.composite
def nearly_opposite_pairs(draw):
    """Two pairs whose high parts cancel but for a few units in the last place."""
    high = draw(st.floats(1.0, 2.0, exclude_max=True))
    half_unit = math.ulp(high) / 2
    low, other_low = (draw(st.floats(-0.999, 0.999)) * half_unit for _ in range(2))
    return two_sum(high, low), two_sum(-high + draw(st.integers(-2, 2)) * half_unit * 2, other_low)


def exact(pair):
    return Fraction(pair[0]) + Fraction(pair[1])


def nearest(x):
    """The double nearest to a rational number (Python rounds correctly)."""
    return x.numerator / x.denominator


@given(doubles, doubles)
@example(1.0, 2.0**-53)
@example(1.0, -(2.0**-54))
@example(2.0**53, 1.0)
@example(1e300, -1e-300)
@example(5e-324, 2.0**-1022)
def test_two_sum_loses_nothing(a, b):
    total = Fraction(a) + Fraction(b)
    result = two_sum(a, b)
    assert result[0] == nearest(total)
    assert exact(result) == total


@given(product_doubles, product_doubles)
@example(1.0 + 2.0**-52, 1.0 + 2.0**-52)
@example(134217729.0, 134217727.0)
@example(2.0**995, 1.0 - 2.0**-53)
@example(0.0, 1.0)
def test_two_product_loses_nothing(a, b):
    product = Fraction(a) * Fraction(b)
    result = two_product(a, b)
    assert result[0] == nearest(product)
    assert exact(result) == product


@given(pairs(), pairs())
@example((1.0, 2.0**-54), (-1.0, 2.0**-54))
@example((1.0, 2.0**-54), (-1.0, -(2.0**-54)))
@example((1.0, 2.0**-53), (2.0**-53, 2.0**-107))
def test_add_errs_by_at_most_three_parts_in_two_to_the_106(x, y):
    total = exact(x) + exact(y)
    assert abs(exact(add(x, y)) - total) <= ADD_ERROR * abs(total)


@given(nearly_opposite_pairs())
def test_add_errs_no_more_when_almost_everything_cancels(opposites):
    x, y = opposites
    total = exact(x) + exact(y)
    assert abs(exact(add(x, y)) - total) <= ADD_ERROR * abs(total)


@given(pairs(product_doubles), product_doubles)
def test_scale_errs_by_at_most_three_parts_in_two_to_the_106(x, factor):
    assume(x[1] == 0.0 or abs(x[1]) > 2.0**-500)  # keep the products' own errors representable
    product = exact(x) * Fraction(factor)
    assert abs(exact(scale(x, factor)) - product) <= SCALE_ERROR * abs(product)


@given(pairs(product_doubles), product_doubles, product_doubles)
def test_add_product_errs_like_add(total, a, b):
    expected = exact(total) + Fraction(a) * Fraction(b)
    assert abs(exact(add_product(total, a, b)) - expected) <= ADD_ERROR * abs(expected)


@given(pairs(), pairs())
def test_sums_come_out_normalised(x, y):
    high, low = add(x, y)
    assert high + low == high


@pytest.mark.parametrize("function", [two_sum, two_product])
@given(a=product_doubles, b=product_doubles)
def test_compiled_code_has_the_bits_of_interpreted_python(function, a, b):
    # Python neither fuses nor reorders, so this fails if the compiler does.
    assert function(a, b) == function.py_func(a, b)
