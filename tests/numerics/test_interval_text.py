"""Numbers with intervals as text: an end reads like the number only where it is the number."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from influential_bandits.numerics.interval_text import tell_apart

FORMS = [".2g", ".3g", "+.4g", "+.2f", ".0f", ".3e"]


@pytest.mark.parametrize("form", FORMS)
@given(value=st.floats(-1e3, 1e3), below=st.floats(1e-7, 10), above=st.floats(1e-7, 10))
def test_ends_that_differ_read_differently(form, value, below, above):
    """Steps of 1e-7 beside 1e3 differ in the tenth digit; twelve are printed if need be."""
    words = tell_apart(value, value - below, value + above, form)
    first, low, high = map(float, words)
    assert low < first < high


@pytest.mark.parametrize("form", FORMS)
@given(value=st.floats(-1e3, 1e3), above=st.floats(1e-7, 10))
def test_an_end_that_is_the_number_reads_like_it(form, value, above):
    first, low, high = tell_apart(value, value, value + above, form)
    assert first == low != high


def test_no_more_digits_than_needed():
    assert tell_apart(0.123456, 0.1, 0.15) == ("0.123", "0.1", "0.15")
    assert tell_apart(0.0001, -0.0004, 0.0006, "+.2f") == ("+0.0001", "-0.0004", "+0.0006")
