"""stream_log: a log larger than memory, in parts of whole instances."""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from influential_bandits.checks import Closing, whole_number
from influential_bandits.errors import InvalidInput, InvalidLog
from influential_bandits.logs.columns import Mask, arrow
from influential_bandits.logs.controls import PREFIX
from influential_bandits.logs.event_scan import Events, EventScan
from influential_bandits.logs.find_columns import find_columns
from influential_bandits.logs.items import ItemCodes
from influential_bandits.logs.label_codes import Codes, LabelCodes, hash_labels
from influential_bandits.logs.log import EventLog
from influential_bandits.logs.log_builder import (
    LogBuilder,
    collect_events,
    describe_source,
    require_rows,
)
from influential_bandits.logs.membership import Membership
from influential_bandits.logs.options import ReadingOptions, show_options, take_options
from influential_bandits.logs.remote_folder import RemoteFolder
from influential_bandits.logs.shuffle import (
    ChunkWriter,
    ShuffledPartition,
    find_partitions,
    find_repeated_rows,
    read_partitions,
)
from influential_bandits.logs.sources import check_columns, open_source
from influential_bandits.logs.tables import Source
from influential_bandits.logs.temporary import TemporaryFolder
from influential_bandits.numerics.arrays import Ints

__all__ = ["LogInParts", "LogStream", "stream_log"]

FINER = 8  # partitions on disk for each part, so that parts can be filled up well
MOST_PARTITIONS = 1 << 14


@show_options()
def stream_log(
    source: Any,
    *,
    events_per_part: int = 5_000_000,
    grouped: bool = False,
    folder: str | Path | None = None,
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
        later, that is an error, whatever ``bad_rows``. If ``arm_names`` or ``items`` are given,
        and no controls, bad rows are an error only when the first part with one is due, and
        ``about["dropped"]`` counts those met so far; otherwise they are known beforehand. The
        labels of all instances are kept in memory.
    folder : path, optional
        Where to put temporary files, about 40 bytes an event; by default where the system puts
        them. They are removed when the stream is closed, is no longer used, or fails; those of a
        process that was killed, by the next that puts files there.
    progress : bool, optional
        As for :func:`read_log`.
    **options
        Everything else that :func:`read_log` takes; items are read if ``item`` names them. With
        ``grouped``, ``key`` must contain the column of instances.

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
    plan = take_options("stream_log", options)
    opened = open_source(source, plan.named, plan.form, plan.sizes)
    plan = find_columns(plan, opened, items=False)
    check_columns(opened, plan.wanted)
    if grouped and plan.keys and plan.instance not in plan.keys:
        raise InvalidInput(
            f"with grouped=True, key must contain the column of instances {plan.instance!r}, got "
            f"{', '.join(plan.keys)}; use grouped=False for keys across instances"
        )
    kind = _GroupedStream if grouped else _SortedStream
    return kind(opened, plan, ItemCodes(plan), size, progress, folder)


class LogInParts(Closing, ABC):
    """A log that is read part by part; each part is an EventLog of whole instances."""

    membership: Membership
    n_events: int | None = None
    n_instances: int | None = None
    about: dict[str, Any]

    @abstractmethod
    def _parts(self) -> Iterator[EventLog]:
        """Yield the parts."""

    @property
    def arm_names(self) -> tuple[str, ...]:
        """Names of the arms."""
        return self.membership.arm_names

    @property
    def n_arms(self) -> int:
        """Number of arms K."""
        return len(self.membership.arm_names)

    def __iter__(self) -> Iterator[EventLog]:
        """Yield logs of whole instances, one at a time; each instance is in one of them."""
        events = instances = repeated = 0
        for part in self._parts():
            events += part.n_events
            instances += part.n_instances
            repeated += part.about["repeated"]
            yield part
        self.n_events, self.n_instances = events, instances
        self.about["repeated"] = repeated

    def _sizes(self) -> str:
        sizes = ((self.n_events, "events"), (self.n_instances, "instances"), (self.n_arms, "arms"))
        return ", ".join(f"{number:,} {what}" for number, what in sizes if number is not None)


class LogStream(LogInParts):
    """Parts of a log, one after the other; made by :func:`stream_log`.

    Attributes
    ----------
    arm_names : tuple of str
    n_arms : int
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
        self.about = {}
        self._prepare()
        self._final: Codes
        self.membership, self._final = self._codes.membership()
        self._categories = self._codes.controls.final()

    @abstractmethod
    def _prepare(self) -> None:
        """Do what has to be done before the first part is known."""

    def _scan(self) -> EventScan:
        return EventScan(self._source, self._plan, self._codes, self._progress)

    def _check(self, scan: EventScan, events: int) -> None:
        """Raise an error for bad rows, unless they are to be dropped, and for no rows at all."""
        scan.bad.check(self._plan.bad_rows)
        require_rows(self._source, scan.bad, events)
        kinds, clock = scan.control_kinds, scan.clock
        self.about |= describe_source(self._source, self._plan, scan.bad, kinds, clock, scan.span)

    def _build(self, builder: LogBuilder, labels: list[str]) -> EventLog:
        about = dict(self.about)
        return builder.build(labels, self.membership, self._final, about, self._categories)

    def __repr__(self) -> str:
        """Say the size, as far as it is known."""
        return f"LogStream({self._sizes()})"


class _SortedStream(LogStream):
    """Parts of rows in any order, brought together by instance beforehand."""

    def _prepare(self) -> None:
        folder = TemporaryFolder(self._folder)
        self._home = RemoteFolder(str(folder.path))
        self._finalizer = weakref.finalize(self, folder.remove)
        try:
            self._shuffle()
        except BaseException:
            self.close()
            raise

    def _shuffle(self) -> None:
        """Check all rows and write them by instance."""
        seen = 0

        def partitions() -> int:
            """Extrapolate from the rows seen, and the share of the source that they took."""
            share = min(max(self._source.done, 1) / max(self._source.total, 1), 1.0)
            parts = seen / share / self.events_per_part
            return min(max(1, int(np.ceil(FINER * parts))), MOST_PARTITIONS)

        held = min(max(self.events_per_part, 100_000), self._plan.sizes.held)
        rows, keys = (
            ChunkWriter(self._home, name, partitions, held, lasting=False)
            for name in ("events", "keys")
        )
        scan = self._scan()
        for events in scan:
            seen += len(events.who)
            columns = {"who": events.who, "what": events.what, "loss": events.loss}
            if events.time is not None:
                columns["time"] = events.time
            columns |= {f"{PREFIX}{name}": each for name, each in events.controls.items()}
            if events.key is not None:
                columns["row"] = events.row
                first, second = events.key[:, 0].copy(), events.key[:, 1].copy()
                keys.add(first, {"first": first, "second": second, "row": events.row})
            rows.add(hash_labels(events.who), columns)
        self._partitions = find_partitions([(rows.name, rows.finish())])
        self._repeated = self._repeated_rows(find_partitions([(keys.name, keys.finish())]))
        if len(self._repeated):
            scan.bad.add("duplicate key", self._repeated)
        self.n_events = seen - len(self._repeated)
        self._check(scan, self.n_events)

    def _repeated_rows(self, keys: Sequence[ShuffledPartition]) -> Ints:
        """Return rows, in order, whose key an earlier row has; a key is in one partition only."""
        found = [
            find_repeated_rows(read_partitions(self._home, some))
            for some in _fill(keys, self._plan.sizes.held)
        ]
        for name in {name for key in keys for name in key.files}:
            Path(self._home.path(name)).unlink()
        return np.sort(np.concatenate([np.zeros(0, np.int64), *found]))

    def _parts(self) -> Iterator[EventLog]:
        if not self._finalizer.alive:
            raise InvalidInput("the stream is closed; make a new one with stream_log")
        for some in _fill(self._partitions, self.events_per_part):
            batches = read_partitions(self._home, some)
            instances, builder = collect_events(map(self._events, batches))
            if builder.size:
                yield self._build(builder, instances.labels)

    def _events(self, batch: Any) -> Events:
        if len(self._repeated):
            repeated = np.isin(batch["row"].to_numpy(), self._repeated)
            batch = batch.filter(arrow().array(~repeated))
        return Events(
            batch["who"],
            batch["what"].to_numpy(),
            batch["loss"].to_numpy(),
            batch["time"].to_numpy() if "time" in batch.schema.names else None,
            np.zeros(0, np.int64),
            None,
            {
                name.removeprefix(PREFIX): batch[name].to_numpy()
                for name in batch.schema.names
                if name.startswith(PREFIX)
            },
        )

    def close(self) -> None:
        """Remove temporary files; there are no more parts afterwards."""
        self._finalizer()


def _fill(partitions: Sequence[ShuffledPartition], rows: int) -> Iterator[list[ShuffledPartition]]:
    """Yield neighbours that have about so many rows together."""
    some: list[ShuffledPartition] = []
    for partition in partitions:
        if some and sum(one.rows for one in some) + partition.rows > rows:
            yield some
            some = []
        some.append(partition)
    if some:
        yield some


class _GroupedStream(LogStream):
    """Parts of a source in which the rows of an instance follow one another."""

    def _prepare(self) -> None:
        # Whether the arms, categories and all bad rows are known when the first part is due.
        self._known = not self._codes.fixed or bool(self._plan.control_columns)
        if self._known:
            scan = self._scan()
            self.n_events = self.n_instances = 0
            for labels, builder in self._walk(scan):
                self.n_events += builder.size
                self.n_instances += len(labels)
            self._check(scan, self.n_events)

    def _parts(self) -> Iterator[EventLog]:
        scan = self._scan()
        events = 0
        for labels, builder in self._walk(scan):
            events += builder.size
            if not self._known:
                self._check(scan, events)
            yield self._build(builder, labels)
        self._check(scan, events)

    def _walk(self, scan: EventScan) -> Iterator[tuple[list[str], LogBuilder]]:
        """Yield whole instances and their labels, cut where a part is full."""
        seen, builder = LabelCodes(), LogBuilder()
        first, last = 0, -1  # codes of the first instance of this part, and of the latest
        for events in scan:
            codes = seen.encode(events.who)
            before = np.concatenate([[last], codes[:-1]])
            self._check_grouped(codes < before, events)
            starts = np.flatnonzero(codes != before)
            done, last = 0, int(codes[-1])
            while True:
                full = done + self.events_per_part - builder.size
                place = int(np.searchsorted(starts, full))
                stop = int(starts[place]) if place < len(starts) else len(codes)
                builder.append(codes[done:stop] - first, events.take(slice(done, stop)))
                done = stop
                if place == len(starts):
                    break
                builder.drop_repeated_keys(scan.bad)
                yield seen.labels[first : codes[stop]], builder
                builder, first = LogBuilder(), int(codes[stop])
        if builder.size:
            builder.drop_repeated_keys(scan.bad)
            yield seen.labels[first:], builder
        elif last < 0:
            self._check(scan, 0)

    def _check_grouped(self, back: Mask, events: Events) -> None:
        """Raise an error if an instance comes back: codes are given at first appearance."""
        rows = np.flatnonzero(back)
        if len(rows):
            (line,) = self._source.lines(self._source.places(events.row[rows[:1]]))
            who = events.who[int(rows[0])].as_py()
            raise InvalidLog(
                f"{self._source.name} is not grouped: instance {who!r} comes back in "
                f"{self._source.place} {line} after others; use grouped=False"
            )
