"""Logs larger than memory, in partitions of whole instances.

open_partitions takes a folder of Parquet files, read anywhere; stream_log any file or table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from influential_bandits.bases import Closing
from influential_bandits.errors import InvalidInput, InvalidLog
from influential_bandits.execution.base import Execution
from influential_bandits.execution.local import resolve_execution
from influential_bandits.execution.progress import Progress
from influential_bandits.logs.event_scan import Events, EventScan
from influential_bandits.logs.find_columns import find_columns
from influential_bandits.logs.items import ItemCodes
from influential_bandits.logs.log import EventLog
from influential_bandits.logs.log_builder import collect_events, describe_source
from influential_bandits.logs.membership import Membership
from influential_bandits.logs.options import show_options, take_options
from influential_bandits.logs.partition_scan import FolderScan, GroupReader, scan_partitions
from influential_bandits.logs.remote_folder import RemoteFolder, join_names
from influential_bandits.logs.shuffle import (
    Chunks,
    ChunkWriter,
    DistinctHashes,
    Hashes,
    ShuffledPartition,
    find_partitions,
    read_events,
    write_events,
)
from influential_bandits.logs.sources import open_source
from influential_bandits.logs.tables import FileGroup
from influential_bandits.logs.temporary import TemporaryFolder

FINER = 8  # parts on disk for each partition, as their number is estimated while a file is read


@show_options("separator", "columns")
def open_partitions(
    address: str | Path,
    *,
    execution: Execution | int | None = None,
    folder: str | Path | None = None,
    progress: bool | None = None,
    **options: Any,
) -> PartitionedLog:
    """Open a folder of Parquet files as partitions: parts of whole instances, for any worker.

    All files are read once, where ``execution`` says, and every check of :func:`read_log` is made,
    over all of them. If each instance is in one file (or in small files that follow one another),
    the files are the partitions. If not, or if a file has more than four million events, events
    are sorted by instance into temporary files of about a million each, by the same workers.

    Workers hold a row group of a file or some 500,000 rows at a time, whichever is more, and one
    partition when they load it: about 100 bytes an event. This process holds 8 bytes for each
    instance and the names of items, never a row.

    Parameters
    ----------
    address : path or URL
        A folder with files that end in ``.parquet``, ``.parq`` or ``.pq``, at any depth, or one
        such file; folders of the form ``user=17`` are columns of text, and names that begin with
        ``_`` or ``.`` are left out, as ``about`` says. Any address that fsspec knows:
        ``s3://bucket/folder``, ``gs://…``. Storage options and credentials are those of fsspec's
        own configuration, on every worker.
    execution : Execution or int, optional
        Where the work is done: so many threads of this computer, by default all cores.
        Changes no event and no order.
    folder : path or URL, optional
        Where temporary files go: a folder that exists and that all workers reach. By default
        where the system puts them, if the log is on this computer; logs elsewhere need it if they
        have to be repartitioned. They are removed when the log is closed or no
        longer used, or if it cannot be opened; those of a process that was killed, by the next
        that puts files there on this computer.
    progress : bool, optional
        Whether to show progress bars; by default on terminals, if it takes long.
    **options
        Everything else that :func:`read_log` takes, except ``separator`` and ``columns``; items
        are read if ``item`` names them.

    Returns
    -------
    PartitionedLog

    Raises
    ------
    InvalidLog
        If files cannot be read, lack columns, or have bad rows, which are named by file.

    Examples
    --------
    >>> import tempfile
    >>> import pandas as pd
    >>> home = tempfile.TemporaryDirectory()
    >>> for day, users in enumerate((["ann", "bob"], ["bob", "cleo"])):
    ...     clicks = pd.DataFrame({"user": users, "ad": ["a", "b"], "click": [0, 1]})
    ...     clicks.to_parquet(f"{home.name}/{day}.parquet")
    >>> log = open_partitions(home.name, instance="user", arm="ad", time=None, reward="click")
    >>> log
    PartitionedLog(4 events, 3 instances, 2 arms, 1 partition)
    >>> for part in log:
    ...     print(part, part.history("bob").loss)
    EventLog(4 events, 3 instances, 2 arms) [-1.  0.]
    >>> home.cleanup()
    """
    plan = take_options("open_partitions", options, "separator", "columns")
    where = resolve_execution(execution)
    source = RemoteFolder.at(address)
    scan = scan_partitions(source, plan, where, progress)
    scan.bad.check(plan.bad_rows, sum(scan.events))
    membership, _ = scan.codes.membership()
    categories = scan.codes.controls.categories()
    common = CommonParts(scan.reader, membership, scan.describe(), categories)
    if scan.whole and max(scan.events) <= plan.sizes.largest_partition:
        parts = zip(scan.groups, scan.events, strict=True)
        return PartitionedLog(
            [Partition(*part, common) for part in parts if part[1]], scan.instances
        )
    temporary = _make_temporary(scan, None if folder is None else RemoteFolder.at(folder))
    partitions, instances = _shuffle(scan, temporary, where, progress)
    return PartitionedLog.of_shuffled(partitions, replace(common, temporary=temporary), instances)


def _make_temporary(scan: FolderScan, parent: RemoteFolder | None) -> TemporaryFolder:
    """Make a folder for the events of a log, where all workers reach it."""
    source = scan.source.group.folder
    if parent is None and not source.local:
        raise InvalidInput(
            f"{source.address} is not on this computer: temporary files are needed to bring the "
            "events of each instance together; name a folder for them that all workers reach, with "
            "folder= (--temporary on the command line)"
        )
    return TemporaryFolder(parent)


def _shuffle(
    scan: FolderScan, temporary: TemporaryFolder, execution: Execution, progress: bool | None
) -> tuple[list[ShuffledPartition], int]:
    """Sort all events by instance into files; return where they are, and how many instances."""
    number = scan.reader.plan.sizes.count_partitions(sum(scan.events))
    write = partial(_write_group, scan.reader, temporary.folder, number)
    bar = Progress(f"sorting {scan.source.name} by instance", len(scan.groups), progress)
    try:
        written = list(execution.map(write, scan.groups, bar))
    except BaseException:
        temporary.remove()
        raise
    instances = DistinctHashes(scan.reader.plan.sizes.hashes)
    for _, some in written:
        instances.add(some)
    partitions = find_partitions(temporary.folder, (chunks for chunks, _ in written))
    return partitions, len(instances.values())


def _write_group(
    reader: GroupReader, folder: RemoteFolder, partitions: int, group: FileGroup
) -> tuple[Chunks, Hashes]:
    """Cut the events of a group of files into partitions, wherever this is called."""
    writer = ChunkWriter(folder, lambda: partitions, reader.plan.sizes.held)
    return write_events(reader.scan(group), writer)


@dataclass(frozen=True)
class CommonParts:
    """What all partitions of a log share."""

    reader: GroupReader
    membership: Membership
    about: dict[str, Any]
    categories: dict[str, tuple[str, ...]]  # of controls
    temporary: TemporaryFolder | None = None  # so that it stays as long as a partition is in use

    def __getstate__(self) -> dict[str, Any]:
        """Leave the files to the process that made them."""
        return self.__dict__ | {"temporary": None}


@dataclass(frozen=True, repr=False)
class Partition:
    """Some whole instances of a log: where they are, not the events themselves.

    Partitions can be sent to other processes, which read the files themselves.

    Attributes
    ----------
    group : FileGroup or ShuffledPartition
        The files, or where its events are in temporary ones.
    n_events : int

    Examples
    --------
    >>> import pickle, tempfile
    >>> import pandas as pd
    >>> import influential_bandits as ib
    >>> clicks = pd.DataFrame({"instance": ["ann"], "arm": ["a"], "loss": [0.5]})
    >>> with tempfile.TemporaryDirectory() as home:
    ...     clicks.to_parquet(f"{home}/clicks.parquet")
    ...     (part,) = ib.logs.open_partitions(home, time=None, loss="loss").partitions
    ...     print(part, pickle.loads(pickle.dumps(part)).load())
    Partition(1 events of clicks.parquet) EventLog(1 events, 1 instances, 1 arms)
    """

    group: FileGroup | ShuffledPartition
    n_events: int
    common: CommonParts

    def __repr__(self) -> str:
        if isinstance(self.group, ShuffledPartition):
            return f"Partition({self.n_events:,} events of {self.common.about['source']})"
        names = [name or self.group.folder.name for name in self.group.files]
        return f"Partition({self.n_events:,} events of {join_names(names)})"

    def load(self) -> EventLog:
        """Read the events; arms and items have the same numbers in all partitions."""
        common, group = self.common, self.group
        if common.temporary is not None and common.temporary.removed:
            raise InvalidInput("the log is closed; open it anew")
        events: Iterator[Events]
        if isinstance(group, ShuffledPartition):
            codes = ItemCodes(common.reader.plan)
            events = read_events(group, codes)
        else:
            scan = common.reader.scan(group)
            codes, events = scan.codes, iter(scan)
        builder = collect_events(events)
        places = codes.places(common.membership)
        good = [n for n in range(len(places)) if n not in codes.unusable]
        categories = codes.controls.final(common.categories)
        unknown = any((each.places < 0).any() for each in categories.values())
        if builder.size != self.n_events or (places[good] < 0).any() or unknown:
            raise InvalidLog(
                f"{self!r} changed since the log was opened: {builder.size:,} good rows, not "
                f"{self.n_events:,}; open it anew"
            )
        about = dict(common.about)
        return builder.build(common.membership, places, about, categories)


class PartitionedLog(Closing):
    """A log in partitions of whole instances: from :func:`open_partitions`, :func:`stream_log`.

    Attributes
    ----------
    partitions : tuple of Partition
        Of a folder the same ones in the same order, wherever they were made.
    membership : Membership
        The same for all partitions.
    arm_names : tuple of str
    n_arms, n_events, n_instances : int
    about : dict
        As of :class:`EventLog`, for the whole log; "repeated" is known after a full iteration.

    Examples
    --------
    >>> import tempfile
    >>> import pandas as pd
    >>> import influential_bandits as ib
    >>> clicks = pd.DataFrame({"instance": ["ann", "bob"], "arm": ["b", "a"], "loss": [0, 1]})
    >>> with tempfile.TemporaryDirectory() as home:
    ...     clicks.to_parquet(f"{home}/clicks.parquet")
    ...     with ib.logs.open_partitions(home, time=None, loss="loss") as log:
    ...         print(log.arm_names, log.n_events, [part.instances for part in log])
    ('a', 'b') 2 [('ann', 'bob')]
    """

    def __init__(self, partitions: Sequence[Partition], instances: int) -> None:
        self.partitions = tuple(partitions)
        self._common = self.partitions[0].common
        self.membership = self._common.membership
        self.about = dict(self._common.about)
        self.n_events = sum(part.n_events for part in self.partitions)
        self.n_instances = instances

    @classmethod
    def of_shuffled(
        cls, partitions: Sequence[ShuffledPartition], common: CommonParts, instances: int
    ) -> PartitionedLog:
        """Return the log of events that were sorted by instance into temporary files."""
        return cls([Partition(each, each.rows, common) for each in partitions], instances)

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
        repeated = 0
        for partition in self.partitions:
            part = partition.load()
            repeated += part.about["repeated"]
            yield part
        self.about["repeated"] = repeated

    def close(self) -> None:
        """Remove temporary files, if there are any; the partitions are gone then."""
        if self._common.temporary is not None:
            self._common.temporary.remove()

    def __repr__(self) -> str:
        parts = len(self.partitions)
        return (
            f"PartitionedLog({self.n_events:,} events, {self.n_instances:,} instances, "
            f"{self.n_arms} arms, {parts} partition{'' if parts == 1 else 's'})"
        )


@show_options()
def stream_log(
    source: Any,
    *,
    folder: str | Path | None = None,
    progress: bool | None = None,
    **options: Any,
) -> PartitionedLog:
    """Read a log that is larger than memory, in partitions of whole instances.

    Rows are checked and sorted by instance into temporary files first, so that nothing is yielded
    before the whole log is known to be good. A partition has about a million events, or
    ``sizes=ChunkSizes(partition=…)``, and more if an instance alone has more.

    Parameters
    ----------
    source : path, data frame, Arrow table, or mapping of names to columns
        As for :func:`read_log`; for a folder of Parquet files :func:`open_partitions` is faster.
    folder : path, optional
        Where to put temporary files, about 40 bytes an event; by default where the system puts
        them. They are removed when the log is closed, is no longer used, or cannot be read; those
        of a process that was killed, by the next that puts files there.
    progress : bool, optional
        As for :func:`read_log`.
    **options
        Everything else that :func:`read_log` takes; items are read if ``item`` names them.

    Returns
    -------
    PartitionedLog
        Can be iterated several times; yields :class:`EventLog`.

    Examples
    --------
    >>> events = {
    ...     "user": ["ann", "bob", "ann", "cleo"],
    ...     "theme": ["news", "news", "sport", "news"],
    ...     "clicked": [1, 0, 0, 1],
    ... }
    >>> options = {"instance": "user", "arm": "theme", "time": None, "reward": "clicked"}
    >>> with stream_log(events, **options) as log:
    ...     print(log.arm_names, log.n_events, sum(len(part) for part in log))
    ('news', 'sport') 4 4
    """
    plan = take_options("stream_log", options)
    opened = open_source(source, plan)
    plan = find_columns(plan, opened, items=False)
    parent = None if folder is None else RemoteFolder.at(folder)
    temporary, codes = TemporaryFolder(parent), ItemCodes(plan)
    try:
        scan = EventScan(opened, plan, codes, progress)
        writer = ChunkWriter(temporary.folder, _count_partitions(scan), plan.sizes.held)
        written, instances = write_events(scan, writer)
        partitions = find_partitions(temporary.folder, [written], plan.sizes.partition)
        scan.bad.check(plan.bad_rows, sum(each.rows for each in partitions))
    except BaseException:
        temporary.remove()
        raise
    about = describe_source(opened, plan, scan.bad, scan.control_kinds, scan.clock, scan.span)
    membership, _ = codes.membership()
    common = CommonParts(
        GroupReader(plan, scan.clock),
        membership,
        about,
        codes.controls.categories(),
        temporary=temporary,
    )
    return PartitionedLog.of_shuffled(partitions, common, len(instances))


def _count_partitions(scan: EventScan) -> Callable[[], int]:
    """Return what extrapolates from the rows read so far, and the share of the source they took.

    As files are read ahead, that share may be said to be twice or three times what it is.
    """

    def count() -> int:
        source = scan.source
        share = min(max(source.done, 1) / max(source.total, 1), 1.0)
        return scan.plan.sizes.count_partitions(int(np.ceil(FINER * scan.rows / share)))

    return count
