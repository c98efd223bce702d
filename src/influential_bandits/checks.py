"""Checks of arguments that several rooms share: what was given, what was expected."""

from __future__ import annotations

import numbers
from importlib import import_module
from types import TracebackType
from typing import Any, Self

import numpy as np

from influential_bandits.errors import InvalidInput, MissingExtra

__all__ = [
    "LARGEST_HORIZON",
    "Closing",
    "Frozen",
    "checked_horizon",
    "is_real",
    "optional_module",
    "printable",
    "whole_number",
]

LARGEST_HORIZON = 2**53  # counts are exact in double precision up to here


class Closing:
    """Base of what is closed in the end: a context manager that calls ``close``."""

    def close(self) -> None:
        """Let go of what is held; by default nothing is."""

    def __enter__(self) -> Self:
        """Return the object, which is closed in the end."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()


class Frozen:
    """Base of objects that never change: attributes are set once, by ``_set`` in ``__init__``."""

    def _set(self, **values: Any) -> None:
        self.__dict__.update(values)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} cannot be changed; make a new one")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} cannot be changed; make a new one")


def is_real(value: object) -> bool:
    """Tell whether a value is a real number, and not a truth value."""
    return isinstance(value, numbers.Real) and not isinstance(value, (bool, np.bool_))


def printable(text: str) -> str:
    """Return a text that can be written: what is no character, as in odd file names, is escaped."""
    return text.encode("utf-8", "backslashreplace").decode()


def whole_number(what: str, value: object, least: int = 0, below: int = 2**64) -> int:
    """Return a whole number in [least, below), or say why it is none; 1e6 counts as whole."""
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        value = int(value)
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise InvalidInput(f"{what} must be a whole number, got {value!r}")
    if value < least:
        raise InvalidInput(f"{what} must be at least {least}, got {value}")
    if value >= below:
        raise InvalidInput(f"{what} must be below {below:.4g}, got {value}")
    return int(value)


def arm_number(arm: object, arms: int) -> int:
    """Return the number of an arm, or say which there are."""
    try:
        return whole_number("arm", arm, 0, arms)
    except InvalidInput:
        raise InvalidInput(f"arm must be one of 0 … {arms - 1}, got {arm!r}") from None


def checked_horizon(horizon: object) -> int:
    """Return a horizon as a whole number of at least 1, or say why it is none."""
    return whole_number("horizon", horizon, 1, LARGEST_HORIZON)


def optional_module(module: str, extra: str) -> Any:
    """Import a module of an optional dependency, or say which extra brings it; "" for none."""
    try:
        return import_module(module)
    except ImportError:
        wanted = f'"influential-bandits[{extra}]"' if extra else module
        raise MissingExtra(f"{module} is not installed; try: pip install {wanted}") from None
