"""Which columns of a source look like times, by their names and by what they hold."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

import numpy as np

from influential_bandits.logs.column_names import has_usual_name
from influential_bandits.logs.columns import (
    arrow,
    is_text,
    label_texts,
    looks_numeric,
    numbers,
    valid_texts,
)
from influential_bandits.logs.tables import Source
from influential_bandits.logs.times import SINCE_1970, UNITS, Clock
from influential_bandits.numerics.arrays import Floats

ROWS = 1000  # that are looked at
EPOCH = 946_684_800.0, 2_145_916_800.0  # the years 2000 to 2037, in seconds since 1970
WORDS = {"timestamp", "tstamp", "stamp", "datetime", "ts", "epoch"}  # of names of times


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
