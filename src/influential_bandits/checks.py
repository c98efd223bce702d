"""Checks of arguments that several packages share: what was given, what was expected."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Set
from typing import Any

import numpy as np
import numpy.typing as npt

from influential_bandits.errors import InvalidInput

HOUR = 3600.0  # seconds
LARGEST_HORIZON = 2**53  # counts are exact in double precision up to here
LARGEST_ARMS = 2**31  # their numbers fit 32 bits, and products of two numbers of arms 64

# The size of a loss, of an entry of an interaction and of a noise, at most. Within a horizon an
# arm's loss then stays below 1e117, and what policies and models keep of losses (sums over all
# rounds, times counts, squared) below 1e270: nothing overflows, so that every index can be
# compared and every state saved.
LARGEST_LOSS = 1e100


def is_real(value: object) -> bool:
    """Tell whether a value is a real number that ``float`` takes, and not a truth value."""
    if not isinstance(value, numbers.Real) or isinstance(value, (bool, np.bool_)):
        return False
    try:
        float(value)
    except (OverflowError, ValueError):  # a whole number or a fraction beyond all doubles
        return False
    return True


def abbreviate(value: object) -> str:
    """Return a value as a message shows it: shortened, in one line, and without fail.

    Examples
    --------
    >>> abbreviate("abc"), abbreviate(10**5000)
    ("'abc'", 'a whole number of 16610 bits')
    """
    if isinstance(value, int) and value.bit_length() > 1024:
        return f"a whole number of {value.bit_length()} bits"
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # as of whole numbers of more than 4,300 digits in a list
        return f"an unprintable {type(value).__name__}"
    if "\n" in text:  # as of arrays of two axes
        text = " ".join(text.split())
    return text if len(text) <= 80 else f"{text[:79]}…"


def require_losses(what: str, values: npt.NDArray[np.float64], error: type[InvalidInput]) -> None:
    """Raise unless all numbers are finite, and none is larger than a loss may be."""
    wrong = ~(np.abs(values) <= LARGEST_LOSS)
    if wrong.any():
        where = tuple(int(i) for i in np.argwhere(wrong)[0])
        bound = "" if np.isfinite(values[where]) else "finite, and "
        raise error(
            f"{what} must be {bound}at most {LARGEST_LOSS:g} in size, but entry "
            f"{where} is {values[where]}; measure losses in a larger unit"
        )


def real_array(what: str, values: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return numbers as an array of float64, or say why they are none."""
    try:
        return np.asarray(values, np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(f"{what} must be numbers, got {abbreviate(values)}") from None


def real_number(
    what: str,
    value: object,
    low: float,
    high: float,
    *,
    above: bool = False,
    below: bool = False,
    error: type[InvalidInput] = InvalidInput,
) -> float:
    """Return a number in [low, high] as a float, or say why it is none.

    With ``above`` it must be larger than ``low``, with ``below`` smaller than ``high``.
    """
    if is_real(value):
        number = float(value)  # type: ignore[arg-type]
        if low <= number <= high and not ((above and number == low) or (below and number == high)):
            return number
    expected = f"{'above' if above else 'of at least'} {low:g}"
    if high < LARGEST_LOSS or (is_real(value) and float(value) > high):  # type: ignore[arg-type]
        expected += f" and {'below' if below else 'at most'} {high:g}"
    raise error(f"{what} must be a number {expected}, got {abbreviate(value)}")


def make_printable(text: str) -> str:
    """Return a text that can be written: what is no character, as in odd file names, is escaped."""
    return text.encode("utf-8", "backslashreplace").decode()


def whole_number(what: str, value: object, least: int = 0, below: int = 2**64) -> int:
    """Return a whole number in [least, below), or say why it is none; 1e6 counts as whole."""
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        value = int(value)
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise InvalidInput(f"{what} must be a whole number, got {abbreviate(value)}")
    if value < least:
        raise InvalidInput(f"{what} must be at least {least}, got {abbreviate(value)}")
    if value >= below:
        raise InvalidInput(f"{what} must be below {below:.4g}, got {abbreviate(value)}")
    return int(value)


def arm_number(arm: object, n_arms: int) -> int:
    """Return the number of an arm, or say which there are."""
    try:
        return whole_number("arm", arm, 0, n_arms)
    except InvalidInput:
        raise InvalidInput(f"arm must be one of 0 … {n_arms - 1}, got {abbreviate(arm)}") from None


def require_names(
    what: str, names: object, error: type[InvalidInput] = InvalidInput
) -> tuple[str, ...]:
    """Return names as a tuple, or say why they are none: they must be texts that differ."""
    several = isinstance(names, Iterable) and not isinstance(names, (str, Set))
    texts: tuple[Any, ...] = tuple(names) if several else ()  # type: ignore[arg-type]
    if not several or not all(isinstance(name, str) for name in texts):
        raise error(f"{what} must be a sequence of strings, got {abbreviate(names)}")
    for name in texts:
        if any("\ud800" <= character <= "\udfff" for character in name):
            raise error(
                f"arm names must be text, but {name!r:.60} holds half a character (a lone "
                "surrogate)"
            )
    if len(set(texts)) != len(texts):
        twice = next(name for name in texts if texts.count(name) > 1)
        raise error(f"arm names must be unique, but {twice!r} occurs twice")
    return tuple(str(name) for name in texts)


def require_horizon(horizon: object) -> int:
    """Return a horizon as a whole number of at least 1, or say why it is none."""
    return whole_number("horizon", horizon, 1, LARGEST_HORIZON)


def require_half_life(half_life: object, error: type[InvalidInput] = InvalidInput) -> float | None:
    """Return a half-life in hours; None if influence does not fade by the clock, or never ends.

    Examples
    --------
    >>> require_half_life(12), require_half_life(float("inf"))
    (12.0, None)
    """
    if half_life is None:
        return None
    if not is_real(half_life) or not float(half_life) > 0.0:  # type: ignore[arg-type]
        raise error(
            f"half_life must be hours above 0, or None where nothing fades by the clock, got "
            f"{abbreviate(half_life)}"
        )
    hours = float(half_life)  # type: ignore[arg-type]
    return None if math.isinf(hours) else hours


def require_time(at: object) -> float:
    """Return a time in seconds, or say why it is none."""
    if not is_real(at) or not math.isfinite(float(at)):  # type: ignore[arg-type]
        raise InvalidInput(f"at must be a time in seconds, got {abbreviate(at)}")
    return float(at)  # type: ignore[arg-type]


def count_hours(before: float | None, at: float) -> float:
    """Return the hours from one time in seconds to a later one; an earlier one is no time at all.

    Examples
    --------
    >>> count_hours(0.0, 7200.0), count_hours(7200.0, 0.0), count_hours(None, 7200.0)
    (2.0, 0.0, 0.0)
    """
    return 0.0 if before is None or at <= before else (at - before) / HOUR
