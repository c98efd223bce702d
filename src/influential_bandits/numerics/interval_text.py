"""Numbers with intervals as text: as many digits as it takes to tell the ends from the number."""

from __future__ import annotations

__all__ = ["tell_apart"]

MOST = 12  # digits: numbers that differ by less do so by rounding alone


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
