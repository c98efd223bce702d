"""EventScan: from chunks of raw columns to checked events, for every reader of logs."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from influential_bandits.checks import LARGEST_LOSS
from influential_bandits.execution.progress import Progress
from influential_bandits.logs.bad_rows import SHOWN, BadRows
from influential_bandits.logs.columns import (
    Cast,
    Codes,
    Mask,
    arrow,
    contains,
    label_texts,
    looks_numeric,
    make_column_error,
    numbers,
    valid_texts,
)
from influential_bandits.logs.controls import kind_of_type
from influential_bandits.logs.csv_files import MARK, CsvFile
from influential_bandits.logs.items import ItemCodes
from influential_bandits.logs.options import (
    CATEGORIES,
    NUMBERS,
    ControlColumn,
    ReadingOptions,
)
from influential_bandits.logs.tables import Source
from influential_bandits.logs.times import LATEST, Clock, require_fitting
from influential_bandits.numerics.arrays import Floats, Ints

AHEAD = 2  # chunks that are parsed while the one before is checked


@dataclass
class Events:
    """Checked events of one chunk, in file order."""

    instance: Any  # Arrow text, (events,): labels of instances
    item: Codes  # (events,): numbers of ItemCodes
    loss: Floats
    time: Floats | None
    controls: dict[str, Any] = field(default_factory=dict)  # (events,): numbers, or codes

    def take(self, wanted: Mask) -> Events:
        """Return the events for which this is true."""
        return Events(
            _filter(self.instance, wanted),
            self.item[wanted],
            self.loss[wanted],
            None if self.time is None else self.time[wanted],
            {name: values[wanted] for name, values in self.controls.items()},
        )


class EventScan:
    """Reads a source by a plan: yields checked events and keeps count of bad rows."""

    def __init__(
        self,
        source: Source,
        plan: ReadingOptions,
        codes: ItemCodes,
        progress: bool | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.source, self.plan, self.codes = source, plan, codes
        self.progress = progress
        self.bad = BadRows(source)
        self.rows = 0  # that were read so far
        self.clock = clock or plan.clock
        # First and last time of good rows, in seconds.
        self.span: tuple[float, float] = (np.inf, -np.inf)
        self._controls = plan.control_columns
        self._kinds = {control.name: control.kind for control in self._controls}
        self._blank = (
            _Blank()
        )  # lines at the end of what was read, which is no fault at the end of the file

    def __iter__(self) -> Iterator[Events]:
        """Yield the good rows chunk by chunk."""
        bar = Progress(f"reading {self.source.name}", max(self.source.total, 1), self.progress)
        self.rows = 0
        try:
            for chunk in _read_ahead(self.source.chunks(self.plan.wanted, self._wrong_fields)):
                numbers = np.arange(self.rows, self.rows + chunk.num_rows)
                self.rows += chunk.num_rows
                events = self._events(chunk, numbers)
                if events is not None and len(events.instance):
                    if events.time is not None:
                        first, last = self.span
                        self.span = (
                            min(first, float(events.time.min())),
                            max(last, float(events.time.max())),
                        )
                    yield events
                bar.done = self.source.done
                bar.show()
        finally:
            bar.close()

    def _wrong_fields(self, place: int, text: str) -> None:
        self.bad.add_places("wrong number of fields", [place], 1, "text", text)

    def _events(self, chunk: Any, rows: Ints) -> Events | None:
        plan = self.plan
        if isinstance(self.source, CsvFile):
            chunk, rows = self._without_blanks(chunk, rows)
        if chunk.num_rows == 0:
            return None
        check = _Check(self.bad, rows)
        columns = dict(zip(plan.wanted, chunk.columns, strict=True))
        self._check_texts(check, columns)
        texts = {
            name: self._cast(check, name, columns[name], "labels", label_texts)
            for name in plan.labels
        }
        read = partial(numbers, truths=True)
        outcome = self._cast(check, plan.outcome, columns[plan.outcome], "numbers", read)
        check.finite(plan.outcome, outcome)
        check.fail("too large for a loss", np.abs(outcome) > LARGEST_LOSS, plan.outcome, outcome)
        time = None
        if plan.time is not None:
            time = self._times(check, plan.time, columns[plan.time])
        beside = {
            control.name: self._control(check, control, columns[control.column])
            for control in self._controls
        }
        items = self._item_numbers(check, texts[plan.arm])
        good = check.good
        for name, values in beside.items():
            if self._kinds[name] == CATEGORIES:
                beside[name] = _encode_good(self.codes.controls.encoder(name), values, good)
        events = Events(texts[plan.instance], items, plan.losses(outcome), time, beside)
        return events if good.all() else events.take(good)

    def _without_blanks(self, chunk: Any, rows: Ints) -> tuple[Any, Ints]:
        """Leave out blank lines; those at the end of the file are no fault."""
        pc = arrow().compute
        blank = np.ones(len(rows), bool)
        for column in chunk.columns:
            if blank.any():
                blank &= pc.equal(pc.binary_length(column), 0).to_numpy(zero_copy_only=False)
        if not blank.any() and not self._blank.count:
            return chunk, rows
        filled = np.flatnonzero(~blank)
        if len(filled):
            inside = blank.copy()
            inside[filled[-1] :] = False
            self._blank.add(rows[inside])
            if self._blank.count:
                places = self.source.places(self._blank.first)
                self.bad.add_places("blank line", places, self._blank.count)
            self._blank = _Blank()
            blank_at_end = rows[filled[-1] + 1 :]
        else:
            blank_at_end = rows
        self._blank.add(blank_at_end)
        return chunk.filter(arrow().array(~blank)), rows[~blank]

    def _cast(self, check: _Check, name: str, column: Any, expected: str, cast: Any) -> Any:
        pa = arrow()
        try:
            done: Cast = cast(column)
        except pa.ArrowException as error:
            raise make_column_error(name, error, expected) from None
        check.fail("missing value", done.missing, name, column)
        check.fail("not a number", done.wrong, name, column)
        return done.values

    def _check_texts(self, check: _Check, columns: dict[str, Any]) -> None:
        """Note rows with bytes that are not UTF-8; in CSV, marks stand in their place."""
        if not isinstance(self.source, CsvFile):
            for name, column in list(columns.items()):
                valid, broken = valid_texts(column)
                check.fail("invalid UTF-8", broken, name, valid)
                columns[name] = valid
        elif self.source.marked and self.source.marked.replaced:
            for name, column in columns.items():
                check.fail("invalid UTF-8", contains(column, MARK.decode()), name, column)

    def _times(self, check: _Check, name: str, column: Any) -> Floats:
        try:
            if not self.clock.settled:
                self.clock = self.clock.settle(column, name)
            times = self.clock.seconds(column)
        except arrow().ArrowException as error:
            raise make_column_error(name, error, "times") from None
        check.fail("missing value", times.missing, name, column)
        check.fail("unreadable time", times.wrong, name, column)
        values: Floats = times.values
        check.finite(name, values)
        misfits = self.clock.misfits(values)
        if self.clock.dated:
            check.fail(self.clock.describe_misfit(), misfits, name, column)
        else:
            require_fitting(name, values, misfits)
        check.fail("time beyond 2^53 seconds", np.abs(values) > LATEST, name, values)
        return values

    def _control(self, check: _Check, control: ControlColumn, column: Any) -> Any:
        """Return the numbers of a control, or its labels as text."""
        kind = self._kinds[control.name]
        if kind is None:  # the first chunk decides for all
            kind = kind_of_type(column.type)
            if isinstance(self.source, CsvFile):
                kind = NUMBERS if looks_numeric(column) else CATEGORIES
            self._kinds[control.name] = kind
        if kind == CATEGORIES:
            return self._cast(check, control.column, column, "labels", label_texts)
        values = self._cast(check, control.column, column, "numbers", numbers)
        check.finite(control.column, values)
        check.fail("too large for a control", np.abs(values) > LARGEST_LOSS, control.column, values)
        return values

    @property
    def control_kinds(self) -> dict[str, str]:
        """Whether each control holds numbers or categories, as far as that is known."""
        return {name: kind for name, kind in self._kinds.items() if kind is not None}

    def _item_numbers(self, check: _Check, items: Any) -> Codes:
        """Return numbers of the items of good rows; what bad rows alone name gets none."""
        numbers = _encode_good(self.codes.encode, items, check.good)
        for reason in sorted(set(self.codes.unusable.values())):
            bad = [n for n, why in self.codes.unusable.items() if why == reason]
            check.fail(reason, np.isin(numbers, bad), self.plan.arm, items)
        return numbers


class _Blank:
    """How many blank lines followed one another, and the first: there may be millions of them."""

    def __init__(self) -> None:
        self.count = 0
        self.first: Ints = np.zeros(0, np.int64)

    def add(self, rows: Ints) -> None:
        """Note blank lines by their number among the rows of the source."""
        self.count += len(rows)
        self.first = np.concatenate([self.first, rows[: SHOWN - len(self.first)]])


class _Check:
    """Which rows of a chunk are good so far; each bad row is counted for one reason."""

    def __init__(self, bad: BadRows, rows: Ints) -> None:
        self.bad, self.rows = bad, rows
        self.good: Mask = np.ones(len(rows), bool)

    def fail(self, reason: str, mask: Mask, column: str, values: Any) -> None:
        """Note rows that are bad for a reason, unless they were so before."""
        if not mask.any():
            return
        places = np.flatnonzero(mask & self.good)
        if len(places):
            self.good[places] = False
            value = values[int(places[0])]
            example: Any = value.as_py() if hasattr(value, "as_py") else float(value)
            if reason == "invalid UTF-8":
                example = example.replace(MARK.decode(), "\N{REPLACEMENT CHARACTER}")
            self.bad.add(reason, self.rows[places], column, example)

    def finite(self, column: str, values: Floats) -> None:
        """Note rows whose number is infinite or none."""
        self.fail("not finite", ~np.isfinite(values), column, values)


def _encode_good(encode: Callable[[Any], Codes], texts: Any, good: Mask) -> Codes:
    """Return the codes of texts of good rows, (rows,), and −1 elsewhere."""
    if good.all():
        return encode(texts)
    codes: Codes = np.full(len(texts), -1, np.int32)
    codes[good] = encode(_filter(texts, good))
    return codes


def _filter(column: Any, wanted: Mask) -> Any:
    return column.filter(arrow().array(wanted))


def _read_ahead(chunks: Iterator[Any]) -> Iterator[Any]:
    """Yield chunks that another thread reads meanwhile, one after the other."""
    with ThreadPoolExecutor(1, "influential-bandits-reader") as reader:
        waiting = deque(reader.submit(next, chunks, None) for _ in range(AHEAD))
        try:
            while (chunk := waiting.popleft().result()) is not None:
                waiting.append(reader.submit(next, chunks, None))
                yield chunk
        finally:
            for future in waiting:
                future.cancel()
            reader.shutdown()
            if isinstance(chunks, Generator):
                chunks.close()
