"""Checks of arguments that several rooms share: what was given, what was expected."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from influential_bandits.errors import InvalidInput, MissingExtra

__all__ = ["LARGEST_HORIZON", "checked_horizon", "optional_module", "whole_number"]

LARGEST_HORIZON = 2**53  # counts are exact in double precision up to here


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


def checked_horizon(horizon: object) -> int:
    """Return a horizon as a whole number of at least 1, or say why it is none."""
    return whole_number("horizon", horizon, 1, LARGEST_HORIZON)


def optional_module(module: str, extra: str) -> Any:
    """Import a module of an optional dependency, or say which extra brings it."""
    try:
        return import_module(module)
    except ImportError:
        raise MissingExtra(
            f'{module} is not installed; try: pip install "influential-bandits[{extra}]"'
        ) from None
