"""find_columns: which columns hold instance, arm, time and outcome, if they were not named.

Times are looked for by their names, and by what columns hold.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from influential_bandits.errors import InvalidLog
from influential_bandits.logs.column_names import guess_column, has_usual_name
from influential_bandits.logs.columns import (
    arrow,
    is_text,
    label_texts,
    looks_numeric,
    numbers,
    valid_texts,
)
from influential_bandits.logs.controls import PREFIX
from influential_bandits.logs.options import (
    AUTO,
    NONE,
    OUTCOMES,
    ROLES,
    ControlColumn,
    ReadingOptions,
)
from influential_bandits.logs.sources import check_columns
from influential_bandits.logs.tables import Source
from influential_bandits.logs.times import SINCE_1970, UNITS, Clock
from influential_bandits.numerics.arrays import Floats

ARMS = "arms"  # the column of frames of logs that lists the arms of items
OF_FRAMES = {"instance", "arm", "item", ARMS, "time", "loss"}
ROWS = 1000  # that are looked at
EPOCH = 946_684_800.0, 2_145_916_800.0  # the years 2000 to 2037, in seconds since 1970
WORDS = {"timestamp", "tstamp", "stamp", "datetime", "ts", "epoch"}  # of names of times


def find_columns(options: ReadingOptions, source: Source, *, items: bool = True) -> ReadingOptions:
    """Return options in which every column is known: as it was named, or by its usual name.

    With ``items``, a column that says which item of its arm an event was is looked for, too.
    """
    check_columns(source, options.named)
    columns = source.columns
    named = {role: getattr(options, role) for role in ROLES}
    named |= {role: None for role, name in named.items() if name == NONE and NONE not in columns}
    if not items and named["item"] == AUTO:
        named["item"] = None
    value_named = any(named[role] is not None for role in OUTCOMES)
    known = {name for name in named.values() if name is not None and name != AUTO}
    outcomes = OUTCOMES if options.best is None else ("rating",)
    for role in ("instance", "arm", *outcomes, "item"):
        if named[role] == AUTO or (role in OUTCOMES and not value_named):
            guess = guess_column([name for name in columns if name not in known], role)
            named[role] = guess
            value_named |= role in OUTCOMES and guess is not None
            known |= set() if guess is None else {guess}
    _require_columns(source, named, options.best, value_named)
    if named["time"] == AUTO:
        named["time"] = _find_time(source, known)
    columns_of: dict[str, Any] = dict(named)
    if not options.controls:
        columns_of["controls"] = tuple(
            ControlColumn(name.removeprefix(PREFIX), name)
            for name in columns
            if name.startswith(PREFIX)
        )
    if ARMS in columns and named["arm"] != ARMS and not (options.items or options.categories):
        columns_of["items"] = _list_members(source, named["arm"])
        columns_of["item"] = None if options.item == AUTO else named["item"]
    settled = replace(options, **columns_of)
    check_columns(source, settled.wanted)
    return settled


def _require_columns(
    source: Source, named: dict[str, str | None], best: float | None, value_named: bool
) -> None:
    """Raise an error for a role that no column has."""
    there = f"there are {', '.join(source.columns)}"
    for role in ("instance", "arm"):
        if named[role] is None:
            raise InvalidLog(
                f"which column of {source.name} is the {role}? Name it with {role}= (--{role}); "
                f"{there}"
            )
    if not value_named:
        raise InvalidLog(
            f"which column of {source.name} says how good an event was? Name it with loss=, "
            f"reward= or rating= with best= (--loss, --reward, --rating, --best); {there}"
        )
    if named["rating"] is not None and best is None:
        raise InvalidLog(
            f"{named['rating']!r} holds ratings: say what the best one is, as in best=5 "
            "(--best 5), so that loss = best − rating"
        )


def _find_time(source: Source, known: Collection[str]) -> str | None:
    """Return the column of times, if one has a usual name; ask if several have, or look like it."""
    others = find_time_columns(source, known)
    if len(others) == 1 and guess_column(others, "time") is not None:
        return others[0]
    if others:
        which = " and ".join(map(repr, others))
        raise InvalidLog(
            f"which column of {source.name} is the time? {which} may be: name it with time= "
            "(--time), or pass time=None (--time none) if the order of rows is the order of time"
        )
    return None


def _list_members(source: Source, arm: str | None) -> dict[str, list[str]] | None:
    """Return the arms of each item, if a frame of a log lists them."""
    members: dict[str, list[str]] = {}
    for chunk in source.chunks([arm or "", ARMS], lambda *_: None):
        if not arrow().types.is_nested(chunk.column(1).type):
            return None
        for item, arms in zip(*map(list, chunk.columns), strict=True):
            if str(item) not in members:
                members[str(item)] = arms.as_py()
    return members


def is_own_frame(columns: Sequence[str]) -> bool:
    """Tell whether columns are those of :meth:`EventLog.to_frame` for a log that was not read."""
    return all(name in OF_FRAMES or name.startswith(PREFIX) for name in columns)


def describe_columns(options: ReadingOptions) -> str:
    """Say which column was taken for what.

    Examples
    --------
    >>> describe_columns(ReadingOptions("user", "ad", None, reward="click", item=None))
    'instance = user, arm = ad, reward = click, NO TIME: the order of rows is taken for ...'
    """
    roles = [f"{role} = {getattr(options, role)}" for role in ROLES if getattr(options, role)]
    if options.time is None:
        roles.append("NO TIME: the order of rows is taken for the order of time (--time names one)")
    return ", ".join(roles)


def find_time_columns(source: Source, taken: Collection[str]) -> list[str]:
    """Return the columns that may hold times, except for those that are taken for something else.

    By their names, or because their first rows hold dates, or numbers of seconds since 1970.

    Examples
    --------
    >>> from influential_bandits.logs.options import ReadingOptions
    >>> from influential_bandits.logs.sources import open_source
    >>> clicks = {"user": [1, 2], "shown": ["2024-05-01", "2024-05-02"], "bid": [3, 4]}
    >>> find_time_columns(open_source(clicks, ReadingOptions()), ["user"])
    ['shown']
    """
    others = [name for name in dict.fromkeys(source.columns) if name not in taken]
    others = [name for name in others if source.columns.count(name) == 1]
    named = [name for name in others if has_usual_name(name, "time")]
    if named or not others:
        return named
    for chunk in source.chunks(others, lambda *_: None):
        if chunk.num_rows:
            columns = chunk.slice(0, ROWS).columns
            return [
                name
                for name, column in zip(others, columns, strict=True)
                if _looks_like_times(name, column)
            ]
    return []


def _looks_like_times(name: str, column: Any) -> bool:
    pa = arrow()
    kinds = pa.types
    if kinds.is_timestamp(column.type) or kinds.is_date(column.type):
        return True
    try:
        column, _ = valid_texts(column)
        if is_text(column.type) and not looks_numeric(column):
            dates = Clock(numeric=False).seconds(label_texts(column).values)
            return bool(2 * np.count_nonzero(~dates.wrong & ~dates.missing) > len(column))
        parsed = numbers(column)
    except pa.ArrowException:
        return False
    values = parsed.values[~parsed.missing & ~parsed.wrong]
    values = values[np.isfinite(values)]
    if not len(values):
        return False
    words = re.split(r"[^a-z0-9]+", name.strip().lower())
    return bool(WORDS & set(words)) or _counts_from_1970(values)


def _counts_from_1970(values: Floats) -> bool:
    first, last = EPOCH
    counts = (values / UNITS[unit] for unit in SINCE_1970)
    return any(bool(((first <= seconds) & (seconds <= last)).all()) for seconds in counts)
