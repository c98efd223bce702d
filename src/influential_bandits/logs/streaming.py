"""stream_log: a log larger than memory, in parts of whole instances."""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from influential_bandits.checks import Closing, whole_number
from influential_bandits.errors import InvalidInput, InvalidLog
from influential_bandits.logs.columns import Mask, arrow
from influential_bandits.logs.gathering import Gathering, about_source, require_rows
from influential_bandits.logs.items import ItemCodes
from influential_bandits.logs.log import EventLog
from influential_bandits.logs.membership import Membership
from influential_bandits.logs.numbering import Codes, Numbering, hashes, repeated_keys
from influential_bandits.logs.options import ReadingOptions, reading_options
from influential_bandits.logs.pipeline import Events, Pipeline
from influential_bandits.logs.sources import Source, open_source
from influential_bandits.logs.spilling import Spill
from influential_bandits.logs.temporary import TemporaryFolder
from influential_bandits.numerics.arrays import Ints

__all__ = ["LogStream", "stream_log"]

FEWEST_HELD, MOST_HELD = 100_000, 1_000_000  # rows that are held before they go to disk


def stream_log(
    source: Any,
    *,
    events_per_part: int = 5_000_000,
    grouped: bool = False,
    folder: str | Path | None = None,
    separator: str | None = None,
    progress: bool | None = None,
    **options: Any,
) -> LogStream:
    """Read a log that is larger than memory, in parts of whole instances.

    Rows are checked and sorted by instance into temporary files when the stream is made, so that
    nothing is yielded before the whole log is known to be good. With ``grouped`` nothing is
    written: the log is read straight through, once more if the arms are not known beforehand.

    Parameters
    ----------
    source : path, data frame, Arrow table, or mapping of names to columns
        As for :func:`read_log`.
    events_per_part : int
        About how many events a part has; more if an instance alone has more.
    grouped : bool
        Whether the rows of an instance follow one another in the file. If an instance comes back
        later, that is an error, whatever ``bad_rows``. If ``arms`` or ``items`` are given, bad
        rows are an error only when the first part with one is due, and ``about["dropped"]``
        counts those met so far; otherwise they are known beforehand. The labels of all instances
        are kept in memory.
    folder : path, optional
        Where to put temporary files, about 40 bytes an event; by default where the system puts
        them. They are removed when the stream is closed, is no longer used, or fails; those of a
        process that was killed, by the next that puts files there.
    separator, progress
        As for :func:`read_log`.
    **options
        Everything else that :func:`read_log` takes. With ``grouped``, ``key`` must contain the
        column of instances.

    Returns
    -------
    LogStream
        Can be iterated several times; yields :class:`EventLog`.

    Examples
    --------
    >>> events = {
    ...     "user": ["ann", "bob", "ann", "cleo"],
    ...     "theme": ["news", "news", "sport", "news"],
    ...     "clicked": [1, 0, 0, 1],
    ... }
    >>> options = {"instance": "user", "arm": "theme", "time": None, "reward": "clicked"}
    >>> with stream_log(events, events_per_part=2, **options) as stream:
    ...     print(stream.arm_names, stream.n_events, sum(len(log) for log in stream))
    ('news', 'sport') 4 4
    """
    size = whole_number("events_per_part", events_per_part, 1)
    plan = reading_options("stream_log", options)
    if grouped and plan.keys and plan.instance not in plan.keys:
        raise InvalidInput(
            f"with grouped=True, key must contain the column of instances {plan.instance!r}, got "
            f"{', '.join(plan.keys)}; use grouped=False for keys across instances"
        )
    kind = _GroupedStream if grouped else _SortedStream
    codes = ItemCodes(plan)
    opened = open_source(source, plan.columns, separator)
    return kind(opened, plan, codes, size, progress, folder)


class LogStream(Closing, ABC):
    """Parts of a log, one after the other; made by :func:`stream_log`.

    Attributes
    ----------
    arm_names : tuple of str
        The same for all parts.
    n_events, n_instances : int or None
        None until they are known: after the first full iteration at the latest.
    about : dict
        As of :class:`EventLog`, for the whole log; "repeated" is known after a full iteration.

    Examples
    --------
    >>> stream = stream_log(
    ...     {"instance": [1, 1, 2], "arm": ["a", "b", "a"], "loss": [0, 1, 2]},
    ...     time=None,
    ...     loss="loss",
    ...     grouped=True,
    ...     events_per_part=2,
    ... )
    >>> [part.instances for part in stream]
    [('1',), ('2',)]
    >>> stream
    LogStream(3 events, 2 instances, 2 arms)
    """

    membership: Membership

    def __init__(
        self,
        source: Source,
        plan: ReadingOptions,
        codes: ItemCodes,
        events_per_part: int,
        progress: bool | None,
        folder: str | Path | None,
    ) -> None:
        self._source, self._plan, self._codes = source, plan, codes
        self._progress, self._folder = progress, folder
        self.events_per_part = events_per_part
        self.n_events: int | None = None
        self.n_instances: int | None = None
        self.about: dict[str, Any] = {}
        self._final: Codes = np.zeros(0, np.int32)
        self._prepare()

    @abstractmethod
    def _prepare(self) -> None:
        """Do what has to be done before the first part is known."""

    @abstractmethod
    def _parts(self) -> Iterator[EventLog]:
        """Yield the parts."""

    @property
    def arm_names(self) -> tuple[str, ...]:
        """Names of the arms."""
        return self.membership.arm_names

    def __iter__(self) -> Iterator[EventLog]:
        """Yield logs of whole instances; each instance is in one of them."""
        events = instances = repeated = 0
        for part in self._parts():
            events += part.n_events
            instances += part.n_instances
            repeated += part.about["repeated"]
            yield part
        self.n_events, self.n_instances = events, instances
        self.about["repeated"] = repeated

    def _set_arms(self) -> None:
        self.membership, self._final = self._codes.membership()

    def __repr__(self) -> str:
        """Say the size, as far as it is known."""
        sizes = ((self.n_events, "events"), (self.n_instances, "instances"))
        known = [f"{number:,} {what}" for number, what in sizes if number is not None]
        return f"LogStream({', '.join([*known, f'{len(self.arm_names)} arms'])})"


class _SortedStream(LogStream):
    """Parts of rows in any order, sorted into buckets by instance beforehand."""

    def _prepare(self) -> None:
        folder = TemporaryFolder(self._folder)
        self._home = folder.path
        self._finalizer = weakref.finalize(self, folder.remove)
        try:
            self._sort()
        except BaseException:
            self.close()
            raise

    def _sort(self) -> None:
        """Check all rows and put them into buckets."""
        held = min(max(self.events_per_part, FEWEST_HELD), MOST_HELD)
        self._events = Spill(self._home, "events", held)
        keys = Spill(self._home, "keys", held)
        pipeline = Pipeline(self._source, self._plan, self._codes, self._progress)
        seen = 0
        for events in pipeline:
            seen += len(events.who)
            if self._spill(events, keys):
                for spill in (self._events, keys):
                    spill.flush(self._expected_parts(seen))
        for spill in (self._events, keys):
            spill.flush(seen / self.events_per_part)
        self._repeated_rows = self._rows_of_repeated_keys(keys)
        if len(self._repeated_rows):
            pipeline.bad.add("duplicate key", self._repeated_rows)
        pipeline.bad.check(self._plan.bad_rows)
        self.n_events = seen - len(self._repeated_rows)
        require_rows(self._source, pipeline.bad, self.n_events)
        self.about = about_source(self._source, self._plan, pipeline.bad)
        self._set_arms()

    def _spill(self, events: Events, keys: Spill) -> bool:
        columns = {"who": events.who, "what": events.what, "loss": events.loss}
        if events.time is not None:
            columns["time"] = events.time
        if events.key is not None:
            columns["row"] = events.row
            first, second = events.key[:, 0].copy(), events.key[:, 1].copy()
            keys.add(first, {"first": first, "second": second, "row": events.row})
        return self._events.add(hashes([events.who])[:, 0], columns)

    def _expected_parts(self, seen: int) -> float:
        """Extrapolate from the rows seen, and the share of the source that they took."""
        share = max(self._source.done, 1) / max(self._source.total, 1)
        return seen / min(share, 1.0) / self.events_per_part

    def _rows_of_repeated_keys(self, keys: Spill) -> Ints:
        """Return rows, in order, whose key an earlier row has; a key is in one bucket only."""
        found = [np.zeros(0, np.int64)]
        for buckets in keys.parts(MOST_HELD):
            table = arrow().Table.from_batches(keys.read(buckets))
            first, second, row = (table[name].to_numpy() for name in ("first", "second", "row"))
            by_row = np.argsort(row)
            again = repeated_keys(np.stack([first, second], axis=1)[by_row])
            found.append(row[by_row][again])
        for path in keys.files:
            path.unlink()
        return np.sort(np.concatenate(found))

    def _parts(self) -> Iterator[EventLog]:
        if not self._finalizer.alive:
            raise InvalidInput("the stream is closed; make a new one with stream_log")
        for buckets in self._events.parts(self.events_per_part):
            instances, gathering = Numbering(), Gathering()
            for batch in self._events.read(buckets):
                events = self._read_back(batch)
                gathering.append(instances.numbers(events.who), events)
            if gathering.size:
                yield gathering.log(
                    instances.labels, self.membership, self._final, dict(self.about)
                )

    def _read_back(self, batch: Any) -> Events:
        if len(self._repeated_rows):
            repeated = np.isin(batch["row"].to_numpy(), self._repeated_rows)
            batch = batch.filter(arrow().array(~repeated))
        return Events(
            batch["who"],
            batch["what"].to_numpy(),
            batch["loss"].to_numpy(),
            batch["time"].to_numpy() if "time" in batch.schema.names else None,
            np.zeros(0, np.int64),
            None,
        )

    def close(self) -> None:
        """Remove temporary files; there are no more parts afterwards."""
        self._finalizer()


class _GroupedStream(LogStream):
    """Parts of a source in which the rows of an instance follow one another."""

    def _prepare(self) -> None:
        self._surveyed = not self._codes.fixed
        if self._surveyed:
            self._survey()
        self._set_arms()

    def _survey(self) -> None:
        """Read everything once for the arms, and for all errors there may be."""
        pipeline = Pipeline(self._source, self._plan, self._codes, self._progress)
        self.n_events = self.n_instances = 0
        for labels, gathering in self._walk(pipeline):
            self.n_events += gathering.size
            self.n_instances += len(labels)
        self._check(pipeline, self.n_events)

    def _check(self, pipeline: Pipeline, events: int) -> None:
        pipeline.bad.check(self._plan.bad_rows)
        require_rows(self._source, pipeline.bad, events)
        self.about |= about_source(self._source, self._plan, pipeline.bad)

    def _parts(self) -> Iterator[EventLog]:
        pipeline = Pipeline(self._source, self._plan, self._codes, self._progress)
        events = 0
        for labels, gathering in self._walk(pipeline):
            events += gathering.size
            if not self._surveyed:
                self._check(pipeline, events)
            yield gathering.log(labels, self.membership, self._final, dict(self.about))
        self._check(pipeline, events)

    def _walk(self, pipeline: Pipeline) -> Iterator[tuple[list[str], Gathering]]:
        """Yield whole instances and their labels, cut where a part is full."""
        seen, gathering = Numbering(), Gathering()
        first, last = 0, -1  # numbers of the first instance of this part, and of the latest
        for events in pipeline:
            numbers = seen.numbers(events.who)
            before = np.concatenate([[last], numbers[:-1]])
            self._check_grouped(numbers < before, events)
            starts = np.flatnonzero(numbers != before)
            done, last = 0, int(numbers[-1])
            while True:
                full = done + self.events_per_part - gathering.size
                place = int(np.searchsorted(starts, full))
                stop = int(starts[place]) if place < len(starts) else len(numbers)
                gathering.append(numbers[done:stop] - first, events.part(done, stop))
                done = stop
                if place == len(starts):
                    break
                gathering.drop_repeated_keys(pipeline.bad)
                yield seen.labels[first : numbers[stop]], gathering
                gathering, first = Gathering(), int(numbers[stop])
        if gathering.size:
            gathering.drop_repeated_keys(pipeline.bad)
            yield seen.labels[first:], gathering
        elif last < 0:
            self._check(pipeline, 0)

    def _check_grouped(self, back: Mask, events: Events) -> None:
        """Raise an error if an instance comes back: numbers are given at first appearance."""
        rows = np.flatnonzero(back)
        if len(rows):
            (line,) = self._source.lines(self._source.places(events.row[rows[:1]]))
            who = events.who[int(rows[0])].as_py()
            raise InvalidLog(
                f"{self._source.name} is not grouped: instance {who!r} comes back in "
                f"{self._source.place} {line} after others; use grouped=False"
            )
