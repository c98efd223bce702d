"""open_partitions: a folder of Parquet files as parts of whole instances, read anywhere."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from influential_bandits.checks import Closing
from influential_bandits.errors import InvalidInput, InvalidLog
from influential_bandits.execution.base import Execution
from influential_bandits.execution.local import resolve_execution
from influential_bandits.execution.progress import Progress
from influential_bandits.logs.event_scan import Events
from influential_bandits.logs.items import ItemCodes
from influential_bandits.logs.label_codes import DistinctHashes
from influential_bandits.logs.log import EventLog
from influential_bandits.logs.log_builder import collect_events
from influential_bandits.logs.membership import Membership
from influential_bandits.logs.options import show_options, take_options
from influential_bandits.logs.partition_scan import FolderScan, GroupReader, scan_partitions
from influential_bandits.logs.remote_folder import RemoteFolder, join_names
from influential_bandits.logs.shuffle import (
    ChunkWriter,
    ShuffledPartition,
    find_partitions,
    find_repeated_rows,
    read_events,
    write_events,
    write_keys,
)
from influential_bandits.logs.tables import FileGroup
from influential_bandits.logs.temporary import TemporaryFolder
from influential_bandits.numerics.arrays import Ints

__all__ = ["Partition", "PartitionedLog", "open_partitions"]

NOTHING = np.zeros(0, np.int64)  # no rows


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
        have to be repartitioned, or with ``key``. They are removed when the log is closed or no
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
    work = _FolderWork(scan, None if folder is None else RemoteFolder.at(folder), where, progress)
    repeated = work.find_repeated() if plan.keys else NOTHING
    if len(repeated):
        scan.bad.add("duplicate key", repeated)
    scan.bad.check(plan.bad_rows, sum(scan.events) - len(repeated))
    membership, _ = scan.codes.membership()
    categories = scan.codes.controls.categories()
    common = CommonParts(scan.reader, membership, scan.describe(), categories, _identify(scan))
    if scan.whole and max(scan.events) <= plan.sizes.largest_partition and not len(repeated):
        parts = zip(scan.groups, scan.events, strict=True)
        return PartitionedLog(
            [Partition(*part, common) for part in parts if part[1]], scan.instances
        )
    temporary, partitions, instances = work.shuffle(repeated)
    return PartitionedLog.of_shuffled(partitions, replace(common, temporary=temporary), instances)


@dataclass(frozen=True)
class _FolderWork:
    """What is done where the execution says, group of files by group of files."""

    scan: FolderScan
    parent: RemoteFolder | None  # where temporary files go
    execution: Execution
    progress: bool | None

    def find_repeated(self) -> Ints:
        """Return the rows of the folder, in order, whose key an earlier row has.

        Keys of all files are brought together by their hashes: nobody holds more than a partition
        of them, and this process no more than the rows that repeat a key.
        """
        temporary = self._make_temporary("to compare keys")
        try:
            label = f"comparing keys of {self.scan.source.name}"
            write = _GroupWriter(self.scan.reader, temporary.folder, self._count(), keys=True)
            written = self._map(write, list(self._tasks(NOTHING)), label)
            partitions = find_partitions(temporary.folder, written)
            repeated = self._map(find_repeated_rows, partitions, label)
        finally:
            temporary.remove()
        return np.sort(np.concatenate([NOTHING, *repeated]))

    def shuffle(self, repeated: Ints) -> tuple[TemporaryFolder, list[ShuffledPartition], int]:
        """Sort all events but repeated ones by instance; return where they are."""
        temporary = self._make_temporary("to bring the events of each instance together")
        try:
            label = f"sorting {self.scan.source.name} by instance"
            count = self._count(len(repeated))
            write = _GroupWriter(self.scan.reader, temporary.folder, count, keys=False)
            written = self._map(write, list(self._tasks(repeated)), label)
        except BaseException:
            temporary.remove()
            raise
        instances = DistinctHashes(self.scan.reader.plan.sizes.hashes)
        for _, some in written:
            instances.add(some)
        partitions = find_partitions(temporary.folder, (chunks for chunks, _ in written))
        return temporary, partitions, len(instances.values())

    def _make_temporary(self, purpose: str) -> TemporaryFolder:
        source = self.scan.source.folder
        if self.parent is None and not source.local:
            raise InvalidInput(
                f"{source.address} is not on this computer: temporary files are needed {purpose}; "
                "name a folder for them that all workers reach, with folder= (--temporary on the "
                "command line)"
            )
        return TemporaryFolder(self.parent)

    def _count(self, without: int = 0) -> int:
        return self.scan.reader.plan.sizes.count_partitions(sum(self.scan.events) - without)

    def _map(self, work: Any, tasks: Sequence[Any], label: str) -> list[Any]:
        bar = Progress(label, len(tasks), self.progress)
        return list(self.execution.map(work, tasks, bar))

    def _tasks(self, repeated: Ints) -> Iterator[_GroupTask]:
        """Yield each group with its first row in the folder, and its rows that are left out."""
        starts = self.scan.starts
        bounds = np.searchsorted(repeated, [*starts, self.scan.source.n_rows])
        for n, group in enumerate(self.scan.groups):
            rows = repeated[bounds[n] : bounds[n + 1]]
            yield _GroupTask(group, starts[n], rows - starts[n])


class _GroupTask(NamedTuple):
    group: FileGroup
    start: int  # rows of the folder before this group
    repeated: Ints  # rows of the group to leave out


@dataclass(frozen=True)
class _GroupWriter:
    """Cuts the keys, or the events, of a group of files into partitions, wherever it is called."""

    reader: GroupReader
    folder: RemoteFolder
    partitions: int
    keys: bool

    def __call__(self, task: _GroupTask) -> Any:
        held = self.reader.plan.sizes.held
        writer = ChunkWriter(self.folder, lambda: self.partitions, held)
        scan = self.reader.scan(task.group)
        if self.keys:
            return write_keys(scan, writer, task.start)
        return write_events(scan, writer, task.repeated)


def _identify(scan: FolderScan) -> str:
    """Return a digest of files, by size and time, and options; "" if files do not tell the time."""
    files = scan.source.listing.taken if scan.source.listing else []
    if not all(file.changed for file in files):
        return ""
    plan = scan.reader.plan
    arms = None if plan.arm_names is None else list(plan.arm_names)
    inputs = (scan.source.folder.address, files, replace(plan, arm_names=arms, key=plan.keys))
    return hashlib.sha256(repr(inputs).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class CommonParts:
    """What all partitions of a log share."""

    reader: GroupReader
    membership: Membership
    about: dict[str, Any]
    categories: dict[str, tuple[str, ...]]  # of controls
    job: str = ""  # tells one reading of one state of the files from another, if anything does
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

    @property
    def identity(self) -> str:
        """What tells its events from any others without reading them; "" if nothing does."""
        group = self.group
        if isinstance(group, ShuffledPartition):
            return self.common.job and f"{self.common.job} {group.numbers}"
        return self.common.job and f"{self.common.job} {group.files} {group.row_groups}"

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
            codes, events = scan.codes, (replace(some, key=None) for some in scan)
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
