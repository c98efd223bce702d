"""Numbers with intervals as text: an end reads like the number only where it is the number."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from influential_bandits.summaries.interval_text import round_to_interval, tell_apart

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


@pytest.mark.parametrize(
    ("value", "word"),
    [(1.125, "1.125"), (45.125, "45.12"), (5000.5, "5,000"), (35020.0, "35,020"), (3e8, "3e+08")],
)
@given(below=st.floats(0.0, 1e-14), above=st.floats(0.0, 1e-14))
def test_an_interval_of_rounding_alone_adds_no_digits(value, word, below, above):
    """As of runs without noise, whose regrets are the same but for the order of additions."""
    words = round_to_interval(value, value * (1.0 - below), value * (1.0 + above))
    assert words == (word, word, word)
