"""Checks of how a log is read, as far as they need no look at the data."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime

import numpy as np

from influential_bandits.checks import abbreviate, is_real, whole_number
from influential_bandits.errors import InvalidInput
from influential_bandits.logs.controls import make_control_columns
from influential_bandits.logs.options import OUTCOMES, ROLES, ChunkSizes, ReadingOptions
from influential_bandits.logs.times import UNITS


def check_sizes(sizes: ChunkSizes) -> None:
    """Check that all sizes are whole numbers."""
    for size in fields(sizes):
        whole_number(f"{size.name} of ChunkSizes", getattr(sizes, size.name), 1)


def check_options(options: ReadingOptions) -> None:
    """Check options as they were given; which columns there are is not known yet."""
    _check_outcome(options)
    _check_times(options)
    _check_choices(options)
    _check_names(options)
    _check_format(options)
    make_control_columns(options.item, options.controls)


def _check_format(options: ReadingOptions) -> None:
    """Check what separates the values of CSV, and the names of its columns."""
    given, names = options.separator, options.columns
    if given is not None and (not isinstance(given, str) or len(given.encode()) != 1):
        raise InvalidInput(f"separator must be one ASCII character such as ';', got {given!r}")
    if given in {'"', "\r", "\n", "\0"}:
        raise InvalidInput(
            f"separator must be neither a quote, a line end nor a byte of zero, got {given!r}"
        )
    if names is not None and (
        isinstance(names, str)
        or not isinstance(names, Sequence)
        or not names
        or not all(isinstance(name, str) for name in names)
    ):
        raise InvalidInput(
            f"columns must be a list of names, one for each column, got {abbreviate(names)}"
        )


def _check_outcome(options: ReadingOptions) -> None:
    given = [name for name in OUTCOMES if getattr(options, name) is not None]
    if len(given) > 1:
        raise InvalidInput(
            "name exactly one column of outcomes: loss=, rating= (with best=) or reward=, got "
            + " and ".join(given)
        )
    if options.best is not None and (options.loss or options.reward):
        raise InvalidInput(
            "best= is the best rating there is: pass it with rating=, and with nothing else"
        )
    if options.best is not None and not (is_real(options.best) and math.isfinite(options.best)):
        raise InvalidInput(f"best must be a finite number, got {abbreviate(options.best)}")


def _check_times(options: ReadingOptions) -> None:
    unit, form = options.time_unit, options.time_format
    if unit is not None and unit not in UNITS:
        raise InvalidInput(f"time_unit must be one of {', '.join(UNITS)}, got {abbreviate(unit)}")
    if form is None:
        return
    if unit is not None:
        raise InvalidInput("pass time_unit= for numbers or time_format= for text, not both")
    moment = datetime(2024, 5, 1, 18, 30, tzinfo=UTC)
    try:
        datetime.strptime(moment.strftime(form), form)
        known = "%" in form
    except (TypeError, ValueError):
        known = False
    if not known:
        raise InvalidInput(
            "time_format must be a format of Python's strptime, such as '%d/%m/%Y %H:%M', got "
            f"{abbreviate(form)}"
        )


def _check_choices(options: ReadingOptions) -> None:
    if options.bad_rows not in {"error", "drop"}:
        raise InvalidInput(
            f"bad_rows must be 'error' or 'drop', got {abbreviate(options.bad_rows)}"
        )
    if not isinstance(options.sizes, ChunkSizes):
        raise InvalidInput(f"sizes must be ChunkSizes, got {abbreviate(options.sizes)}")
    if options.choose not in {"fractional", "random"}:
        raise InvalidInput(f"choose must be 'fractional' or 'random', got {options.choose!r}")
    if options.categories is not None and not (
        isinstance(options.categories, str) and options.categories
    ):
        raise InvalidInput(f"categories must be a text such as '|', got {options.categories!r}")


def _check_names(options: ReadingOptions) -> None:
    if not isinstance(options.items, Mapping | None):
        raise InvalidInput(f"items must map each item to its arms, got {options.items!r:.60}")
    names = options.arm_names
    if isinstance(names, str) or not isinstance(names, Sequence | np.ndarray | None):
        raise InvalidInput(f"arm_names must be a list of names, got {names!r:.60}")
    for name in ROLES:
        column = getattr(options, name)
        optional = name not in {"instance", "arm"}
        if not isinstance(column, str) and not (optional and column is None):
            raise InvalidInput(f"{name} must be the name of a column, got {column!r}")
