"""Which columns a log is read from, and what they mean."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from influential_bandits.checks import abbreviate, is_real, whole_number
from influential_bandits.errors import InvalidInput
from influential_bandits.logs.controls import ControlColumn, make_control_columns
from influential_bandits.numerics.arrays import Floats

__all__ = ["ChunkSizes", "CsvFormat", "ReadingOptions", "reading_options"]


@dataclass(frozen=True)
class ChunkSizes:
    """How much is read, held and written at a time, and how large partitions are.

    Only ``partition`` and what is below it change how a log is cut; nothing changes its events.

    Examples
    --------
    >>> import influential_bandits as ib
    >>> sizes = ChunkSizes(text=64)
    >>> events = {"instance": [1, 1], "arm": ["a", "b"], "loss": [0.5, 1.0]}
    >>> ib.read_log(events, time=None, loss="loss", sizes=sizes)
    EventLog(2 events, 1 instances, 2 arms)
    """

    text: int = 1 << 20  # bytes of CSV that are parsed at once; no line may be longer
    rows: int = 1 << 18  # of a table that are read at once
    held: int = 1 << 19  # rows that wait in memory until they are written
    hashes: int = 1 << 20  # that wait until they are sorted into the others
    group: int = 8 << 20  # bytes up to which small files are read as one
    split: int = 32 << 20  # bytes beyond which a file may be read by several workers
    partition: int = 1_000_000  # events, about
    largest_partition: int = 4_000_000  # events; larger files are repartitioned

    def __post_init__(self) -> None:
        """Check that all sizes are whole numbers."""
        for size in fields(self):
            whole_number(f"{size.name} of ChunkSizes", getattr(self, size.name), 1)


@dataclass(frozen=True)
class CsvFormat:
    """What separates the values of CSV, if that is known, and its columns, if it has no header."""

    separator: str | None = None
    columns: Sequence[str] | None = None

    def __post_init__(self) -> None:
        """Check both."""
        given, names = self.separator, self.columns
        if given is not None and (not isinstance(given, str) or not given):
            raise InvalidInput(f"separator must be a text such as ',' or '::', got {given!r}")
        if given is not None and set(given) & {'"', "\r", "\n", "\0"}:
            raise InvalidInput(
                f"separator must hold neither quotes, line ends nor bytes of zero, got {given!r}"
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


@dataclass(frozen=True)
class ReadingOptions:
    """Which columns to read, and what they mean; checked when it is made."""

    instance: str = "instance"
    arm: str = "arm"
    time: str | None = "time"
    loss: str | None = None
    rating: str | None = None
    reward: str | None = None
    best: float | None = None
    arm_names: Sequence[str] | None = None
    items: Mapping[Any, Sequence[str] | str] | None = None
    categories: str | None = None
    choose: str = "fractional"
    seed: int = 0
    key: str | Sequence[str] | None = None
    item: str | None = None
    controls: Sequence[Any] | Mapping[str, str | None] = ()
    bad_rows: str = "error"
    sizes: ChunkSizes = ChunkSizes()

    def __post_init__(self) -> None:
        """Check the options that need no look at the data."""
        self._check_outcome()
        self._check_choices()
        self._check_names()
        make_control_columns(self.item, self.controls)

    def _check_outcome(self) -> None:
        given = [name for name in ("loss", "rating", "reward") if getattr(self, name) is not None]
        if len(given) != 1:
            raise InvalidInput(
                "name exactly one column of outcomes: loss=, rating= (with best=) or reward=, got "
                + (" and ".join(given) or "none")
            )
        if (self.rating is None) != (self.best is None):
            raise InvalidInput(
                "best= is the best rating there is: pass it with rating=, and with nothing else"
            )
        if self.best is not None and not (is_real(self.best) and math.isfinite(self.best)):
            raise InvalidInput(f"best must be a finite number, got {abbreviate(self.best)}")

    def _check_choices(self) -> None:
        if self.bad_rows not in {"error", "drop"}:
            raise InvalidInput(
                f"bad_rows must be 'error' or 'drop', got {abbreviate(self.bad_rows)}"
            )
        if not isinstance(self.sizes, ChunkSizes):
            raise InvalidInput(f"sizes must be ChunkSizes, got {abbreviate(self.sizes)}")
        if self.choose not in {"fractional", "random"}:
            raise InvalidInput(f"choose must be 'fractional' or 'random', got {self.choose!r}")
        if self.categories is not None and not (
            isinstance(self.categories, str) and self.categories
        ):
            raise InvalidInput(f"categories must be a text such as '|', got {self.categories!r}")

    def _check_names(self) -> None:
        if not isinstance(self.items, Mapping | None):
            raise InvalidInput(f"items must map each item to its arms, got {self.items!r:.60}")
        for name, names in (("arm_names", self.arm_names), ("key", self.key)):
            listed = isinstance(names, Sequence | np.ndarray | None)
            if not listed or (isinstance(names, str) and name == "arm_names"):
                raise InvalidInput(f"{name} must be a list of names, got {names!r:.60}")
        for name in ("instance", "arm", "time", "loss", "rating", "reward"):
            column = getattr(self, name)
            optional = name not in {"instance", "arm"}
            if not isinstance(column, str) and not (optional and column is None):
                raise InvalidInput(f"{name} must be the name of a column, got {column!r}")

    @property
    def outcome(self) -> str:
        """The column of losses, ratings or rewards."""
        return self.loss or self.rating or self.reward or ""

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns whose combination must be unique."""
        return (self.key,) if isinstance(self.key, str) else tuple(self.key or ())

    @property
    def control_columns(self) -> tuple[ControlColumn, ...]:
        """The controls, the item before all others."""
        return make_control_columns(self.item, self.controls)

    @property
    def control_kinds(self) -> dict[str, str]:
        """Whether controls are numbers or categories, of those of which it is known."""
        return {each.name: each.kind for each in self.control_columns if each.kind is not None}

    @property
    def labels(self) -> list[str]:
        """The columns that are read as text, each once."""
        return list(dict.fromkeys((self.instance, self.arm, *self.keys)))

    @property
    def columns(self) -> list[str]:
        """All columns to read, each once."""
        clock = () if self.time is None else (self.time,)
        more = (*self.keys, *(control.column for control in self.control_columns))
        return list(dict.fromkeys((self.instance, self.arm, *clock, self.outcome, *more)))

    @property
    def conversion(self) -> str:
        """How losses come from the outcomes."""
        if self.rating is not None:
            return f"loss = {self.best:g} − {self.rating}"
        return f"loss = −{self.reward}" if self.reward is not None else f"loss = {self.loss}"

    def losses(self, outcomes: Floats) -> Floats:
        """Return the losses of outcomes."""
        if self.rating is not None and self.best is not None:
            return float(self.best) - outcomes
        return 0.0 - outcomes if self.reward is not None else outcomes  # not −0.0


def reading_options(function: str, options: Mapping[str, Any]) -> ReadingOptions:
    """Return options that a function passes on, or say which of them do not exist."""
    unknown = sorted(set(options) - set(ReadingOptions.__dataclass_fields__))
    if unknown:
        raise InvalidInput(f"{function} has no option {', '.join(unknown)}")
    return ReadingOptions(**options)
