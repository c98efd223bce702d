"""Times of a log in seconds: dates as they are written, and numbers by the unit they must have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from influential_bandits.errors import InvalidLog
from influential_bandits.logs.columns import (
    Cast,
    Mask,
    arrow,
    is_text,
    looks_numeric,
    missing_texts,
    null_values,
    numbers,
    real_values,
    valid_texts,
)
from influential_bandits.numerics.arrays import Floats

UNITS = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9, "min": 1 / 60, "h": 1 / 3600, "d": 1 / 86_400}
SINCE_1970 = ("s", "ms", "us", "ns")  # units in which computers count dates
DATES = 631_152_000.0, 4_102_444_800.0  # 1990 to 2100: in each unit another range of numbers
LATEST = 2.0**53  # seconds; beyond, doubles skip some, and no calendar is meant
HELP = "time_unit= or time_format= (--time-unit, --time-format)"


@dataclass(frozen=True)
class Clock:
    """How a column of times is read; the first rows that have times settle it for all.

    Numbers are dates if most of them lie in 1990 to 2100 when counted in s, ms, µs or ns since
    1970: only one of these fits. Smaller ones count seconds, or rounds, from a start of their own.

    Attributes
    ----------
    unit : str or None
        Of times that are numbers: one of ``UNITS``.
    text_format : str or None
        Of times that are written in another way than ISO 8601, for ``strptime``.
    numeric : bool or None
        Whether texts are numbers; None until rows were seen.
    dated : bool or None
        Whether times are dates; None until rows were seen.
    given : bool
        Whether the unit was given, so that whatever has it is right.
    """

    unit: str | None = None
    text_format: str | None = None
    numeric: bool | None = None
    dated: bool | None = None
    given: bool = False

    @property
    def settled(self) -> bool:
        """Whether enough rows were seen to read all others alike."""
        return self.dated is not None

    def settle(self, column: Any, name: str) -> Clock:
        """Return what is known after the first rows of the column of this name."""
        kinds = arrow().types
        if kinds.is_dictionary(column.type):
            column = column.dictionary_decode()
        column = valid_texts(column)[0]
        if self.text_format is not None or kinds.is_timestamp(column.type):
            return replace(self, dated=True)
        numeric = looks_numeric(column) if is_text(column.type) else True
        if kinds.is_date(column.type) or not numeric:
            return replace(self, numeric=numeric, dated=True)
        counts = numbers(column).values
        counts = counts[np.isfinite(counts)]
        clock = replace(self, numeric=True)
        if not len(counts):
            return clock
        unit = self.unit or _recognise_unit(counts, name)
        dated = np.mean(are_dates(counts / UNITS[unit])) > 0.5
        return replace(clock, unit=unit, dated=bool(dated))

    def misfits(self, seconds: Floats) -> Mask:
        """Tell which times do not fit the first rows, (rows,)."""
        if self.given or self.unit is None:
            return np.zeros(len(seconds), bool)
        if self.dated:
            return np.isfinite(seconds) & ~are_dates(seconds)
        return (np.abs(seconds) >= DATES[0]) & (np.abs(seconds) <= LATEST)

    def describe_misfit(self) -> str:
        """Say what is wrong with times that do not fit."""
        return f"time that is no date in {self.unit}, unlike most of the first rows"

    def seconds(self, column: Any) -> Cast:
        """Return times in seconds, of dates since 1970 (UTC); wrong are those that are no times."""
        kinds = arrow().types
        if kinds.is_dictionary(column.type):
            column = column.dictionary_decode()
        if kinds.is_timestamp(column.type) or kinds.is_date(column.type):
            return Cast(_instants(column), null_values(column), np.zeros(len(column), bool))
        if self.text_format is not None:
            return _parse_texts(_write_whole(column), self._parse)
        if is_text(column.type) and not self.numeric:
            return _parse_iso(column)
        counts = numbers(column)
        if self.unit == "ns":  # to whole microseconds, as timestamps are read
            return counts._replace(values=np.round(counts.values / 1e3) / 1e6)
        return counts._replace(values=counts.values / UNITS[self.unit or "s"])

    def _parse(self, text: str) -> datetime:
        return datetime.strptime(text.strip(), self.text_format or "")


def _recognise_unit(counts: Floats, name: str) -> str:
    """Return the unit in which most numbers are dates, or "s" if most are too small for any."""
    fits = {unit: int(np.count_nonzero(are_dates(counts / UNITS[unit]))) for unit in SINCE_1970}
    small = np.abs(counts) < DATES[0]
    few = int(np.count_nonzero(small))
    best = max(fits, key=lambda unit: fits[unit])
    if 2 * max(fits[best], few) <= len(counts):
        raise InvalidLog(
            f"times of the column {name!r} fit no unit: most of the first rows, from "
            f"{counts.min():.15g} to {counts.max():.15g}, are no dates (1990 to 2100) in s, ms, µs "
            f"or ns, nor less than 20 years of seconds; pass {HELP}, such as '%Y%m%d%H%M%S'"
        )
    if fits[best] >= few:
        return best
    if bool((small & _are_written_dates(counts)).sum() * 2 > len(counts)):
        raise InvalidLog(
            f"times of the column {name!r} look like dates written as numbers, such as "
            f"{counts[0]:.15g}: pass time_format='%Y%m%d' (--time-format), or time_unit='s' "
            "(--time-unit) if they are seconds"
        )
    return "s"


def are_dates(seconds: Floats) -> Mask:
    """Tell which times are dates of logs, from 1990 to 2100, if they count from 1970, (rows,)."""
    return (seconds >= DATES[0]) & (seconds < DATES[1])


def _are_written_dates(counts: Floats) -> Mask:
    """Tell which numbers read as year, month and day, such as 20240501."""
    year, month, day = counts // 10_000, counts // 100 % 100, counts % 100
    calendar = (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)
    return np.asarray((counts % 1 == 0) & (year >= 1990) & (year < 2100) & calendar)


def require_fitting(name: str, seconds: Floats, misfit: Mask) -> None:
    """Raise an error for times that are no dates at first, and too large for seconds later."""
    if misfit.any():
        raise InvalidLog(
            f"times of the column {name!r} fit no unit: most of the first rows are no dates, but "
            f"{seconds[misfit][0]:.15g} follows, more than 20 years if these are seconds; say what "
            f"they are by {HELP}"
        )


def format_time(seconds: float, dated: bool) -> str:
    """Return a time for people.

    Examples
    --------
    >>> format_time(1714588200.0, True), format_time(7.0, False)
    ('2024-05-01 18:30:00', '7')
    """
    if not dated:
        return f"{seconds:.15g}"
    try:
        return f"{datetime.fromtimestamp(round(seconds), UTC):%Y-%m-%d %H:%M:%S}"
    except (OverflowError, ValueError, OSError):
        return f"{seconds:.15g} s since 1970"


def describe_times(first: float, last: float, dated: bool, unit: str | None = None) -> str:
    """Say when the first and the last event were.

    Examples
    --------
    >>> describe_times(1714588200.0, 1714674600.0, True, "ms")
    '2024-05-01 18:30:00 to 2024-05-02 18:30:00 (UTC), from numbers of ms'
    >>> describe_times(0.0, 99.0, False, "s")
    '0 to 99, which are no dates: taken for seconds from a start of their own'
    """
    if not dated:
        factor = UNITS[unit or "s"]
        span = f"{format_time(first * factor, False)} to {format_time(last * factor, False)}"
        counted = "seconds" if unit in {None, "s"} else unit
        return f"{span}, which are no dates: taken for {counted} from a start of their own"
    source = "" if unit is None else f", from numbers of {unit}"
    return f"{format_time(first, True)} to {format_time(last, True)} (UTC){source}"


def _instants(column: Any) -> Floats:
    """Return dates and timestamps in seconds; in doubles, since products of integers may wrap."""
    pa = arrow()
    if pa.types.is_date32(column.type):
        return 86400.0 * real_values(column.cast(pa.int32()).cast(pa.float64()))
    unit = "ms" if pa.types.is_date(column.type) else column.type.unit
    whole = column.cast(pa.int64())
    if unit == "ns":  # to whole microseconds, as text is read
        rounded = whole.fill_null(0).to_numpy(zero_copy_only=False) // 1000
        return np.asarray(rounded / 1e6)
    return real_values(whole.cast(pa.float64(), safe=False)) / UNITS[unit]


def _write_whole(column: Any) -> Any:
    """Return whole numbers as text, for dates are written as 20240501, too."""
    pa = arrow()
    if is_text(column.type):
        return column
    if pa.types.is_floating(column.type):  # as pandas has whole numbers of which some are missing
        column = column.cast(pa.int64())
    return column.cast(pa.string())


def _parse_iso(texts: Any) -> Cast:
    pa = arrow()
    for kind in (pa.timestamp("us"), pa.timestamp("us", "UTC")):
        try:
            instants = _instants(texts.cast(kind))
        except pa.ArrowInvalid:
            continue
        return Cast(instants, null_values(texts), np.zeros(len(texts), bool))
    # Some are empty, wrong, or have a zone where others have none.
    return _parse_texts(texts, lambda text: datetime.fromisoformat(text.strip()))


def _parse_texts(texts: Any, parse: Callable[[str], datetime]) -> Cast:
    """Return texts as seconds one by one, each text once."""
    coded = texts.dictionary_encode()
    each = np.array([_moment(text, parse) for text in coded.dictionary.to_pylist()] + [np.nan])
    values = each[coded.indices.fill_null(len(each) - 1).to_numpy(zero_copy_only=False)]
    missing = missing_texts(arrow().compute.utf8_trim_whitespace(texts))
    return Cast(values, missing, ~missing & np.isnan(values))


def _moment(text: str, parse: Callable[[str], datetime]) -> float:
    try:
        moment = parse(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return np.nan
