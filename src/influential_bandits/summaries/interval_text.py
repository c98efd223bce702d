"""Numbers with intervals as text: as many digits as the interval supports, and tells apart."""

from __future__ import annotations

import math

MOST = 12  # digits: numbers that differ by less do so by rounding alone


LARGE, SMALL = 1e7, 1e-4  # beyond these, numbers are written with powers of ten


def round_to_interval(value: float, low: float, high: float) -> tuple[str, str, str]:
    """Return a number and the ends of its interval, rounded to what the interval supports.

    All three have the same last place: that of the second digit of the interval's width. What is
    left out is less than a tenth of the width. An end reads like the number only if it is.

    Examples
    --------
    >>> round_to_interval(1.64218, 1.56811, 1.69203)
    ('1.64', '1.57', '1.69')
    >>> round_to_interval(182911.7, 171002.0, 196551.0)
    ('183,000', '171,000', '197,000')
    >>> round_to_interval(0.5, 0.5, 0.5)
    ('0.5', '0.5', '0.5')
    >>> round_to_interval(45.125, 45.125 - 1e-14, 45.125 + 1e-14)
    ('45.12', '45.12', '45.12')
    """
    parts = (value, low, high)
    size, width = max(map(abs, parts)), high - low
    if not math.isfinite(width) or not math.isfinite(value):
        return _write_exact(value), _write_exact(low), _write_exact(high)
    if width <= size * 10.0**-MOST:  # by rounding alone
        return (_write_exact(value),) * 3
    place = math.floor(math.log10(width)) - 1
    while True:
        words = [_round(part, place, size) for part in parts]
        alike = [
            words[0] == word and part != value for word, part in zip(words, parts, strict=True)
        ]
        if not any(alike) or place <= math.floor(math.log10(size)) - MOST:
            return words[0], words[1], words[2]
        place -= 1


def _write_exact(value: float) -> str:
    """Return a number that has no interval to go by, to four digits or the next whole number."""
    return f"{value:,.0f}" if 1e3 <= abs(value) < LARGE else f"{value:,.4g}"


def _round(value: float, place: int, size: float) -> str:
    """Return a number to a power of ten, written as suits the largest beside it."""
    if SMALL <= size < LARGE:
        text = f"{round(value, -place):,.{max(-place, 0)}f}"
    else:
        digits = math.floor(math.log10(abs(value))) - place if value else 0
        text = f"{value:.{max(digits, 0)}e}"
    return text.removeprefix("-") if float(text.replace(",", "")) == 0.0 else text


def tell_apart(value: float, low: float, high: float, form: str = ".3g") -> tuple[str, str, str]:
    """Return a number and the ends of its interval; an end reads like the number only if it is.

    ``form`` says how numbers are printed, with at least so many digits.

    Examples
    --------
    >>> tell_apart(0.0312, 0.021, 0.0414)
    ('0.0312', '0.021', '0.0414')
    >>> tell_apart(0.1341, 0.1339, 0.21, ".2g")
    ('0.1341', '0.1339', '0.21')
    >>> tell_apart(0.004, 0.001, 0.02, "+.2f")
    ('+0.004', '+0.001', '+0.020')
    >>> tell_apart(0.5, 0.5, 0.7)
    ('0.5', '0.5', '0.7')
    """
    start, kind = form.split(".")
    for digits in range(int(kind[:-1]), MOST + 1):
        words = [f"{each:{start}.{digits}{kind[-1]}}" for each in (value, low, high)]
        first, *ends = map(float, words)  # "+0.00" and "-0.00" are the same number
        if all(first != end or value == true for end, true in zip(ends, (low, high), strict=True)):
            break
    return words[0], words[1], words[2]
