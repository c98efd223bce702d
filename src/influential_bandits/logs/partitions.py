"""open_partitions: a folder of Parquet files as parts of whole instances, read anywhere."""

from __future__ import annotations

import uuid
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from influential_bandits.errors import InvalidInput, InvalidLog, MissingFile
from influential_bandits.execution.base import Execution
from influential_bandits.execution.local import resolve_execution
from influential_bandits.logs.log import EventLog
from influential_bandits.logs.log_builder import collect_events
from influential_bandits.logs.membership import Membership
from influential_bandits.logs.options import show_options, take_options
from influential_bandits.logs.partition_scan import (
    FolderScan,
    GroupReader,
    scan_partitions,
)
from influential_bandits.logs.remote_folder import MARKER, RemoteFolder, join_names
from influential_bandits.logs.repartition import (
    CHUNKS,
    check_scan,
    event_plan,
    event_schema,
    find_repeated,
    job_digest,
    shuffle_events,
)
from influential_bandits.logs.streaming import LogInParts
from influential_bandits.logs.tables import FileGroup
from influential_bandits.logs.temporary import PREFIX, TemporaryFolder
from influential_bandits.numerics.arrays import Ints

__all__ = ["Partition", "PartitionedLog", "open_partitions"]


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
        that puts files there on this computer. :func:`repartition_log` writes files that stay.
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
    temporary = _Temporary(source, None if folder is None else RemoteFolder.at(folder))
    try:
        repeated = np.zeros(0, np.int64)
        if plan.keys:
            chunks = temporary.made("to compare keys").below(CHUNKS)
            repeated = find_repeated(scan, chunks, where, progress)
        check_scan(scan, repeated)
        if _is_usable(scan, repeated):
            temporary.remove()
            return PartitionedLog(_take_files(scan), scan.instances)
        home = temporary.made("to bring the events of each instance together")
        files = shuffle_events(scan, repeated, home, where, progress)
        home.below(CHUNKS).remove()
    except BaseException:
        temporary.remove()
        raise
    instances = sum(instances for _, _, instances in files)
    return PartitionedLog(_take_shuffled(scan, files, temporary), instances)


def _is_usable(scan: FolderScan, repeated: Ints) -> bool:
    """Tell whether files can be the partitions: whole, not too large, and nothing to leave out."""
    large = max(scan.events) > scan.reader.plan.sizes.largest_partition
    large = large and not scan.source.folder.exists(MARKER)
    return scan.whole and not large and len(repeated) == 0


class _Temporary:
    """A folder for temporary files, made when it is needed and removed when nobody uses it."""

    def __init__(self, source: RemoteFolder, parent: RemoteFolder | None) -> None:
        self.source, self.parent = source, parent
        self._folder: RemoteFolder | None = None
        self._finalizer: Any = None

    def made(self, why: str) -> RemoteFolder:
        """Return the folder."""
        if self._folder is None:
            self._folder, remove = self._new(why)
            self._finalizer = weakref.finalize(self, remove)
        return self._folder

    def _new(self, why: str) -> tuple[RemoteFolder, Callable[[], None]]:
        """Return a new folder, and how to remove it."""
        if self.parent is None and not self.source.local:
            raise InvalidInput(
                f"{self.source.address} is not on this computer: temporary files are needed "
                f"{why}; name a folder for them that all workers reach, with folder= "
                "(--temporary on the command line)"
            )
        if self.parent is not None and not self.parent.exists():
            raise MissingFile(f"there is no folder {self.parent.address} for temporary files")
        if self.parent is None or self.parent.local:
            made = TemporaryFolder(None if self.parent is None else self.parent.address)
            return RemoteFolder(str(made.path)), made.remove
        folder = self.parent.below(f"{PREFIX}{uuid.uuid4().hex}")
        folder.make()
        return folder, partial(_remove_elsewhere, folder)

    def remove(self) -> None:
        """Remove the folder, if there is one."""
        if self._finalizer is not None:
            self._finalizer()

    @property
    def removed(self) -> bool:
        """Whether files that were there are gone."""
        return self._finalizer is not None and not self._finalizer.alive


def _remove_elsewhere(folder: RemoteFolder) -> None:
    with suppress(OSError, InvalidInput):  # nobody can do anything about it any more
        folder.remove()


@dataclass(frozen=True)
class _Common:
    """What all partitions of a log share."""

    reader: GroupReader
    membership: Membership
    about: dict[str, Any]
    categories: dict[str, tuple[str, ...]]  # of controls
    job: str  # tells one reading of one state of the files from another; "" if nothing does
    temporary: _Temporary | None = None  # so that files stay as long as a partition is in use

    def __getstate__(self) -> dict[str, Any]:
        """Leave the files to the process that made them."""
        return self.__dict__ | {"temporary": None}


@dataclass(frozen=True, repr=False)
class Partition:
    """Some whole instances of a log: where they are, not the events themselves.

    Partitions can be sent to other processes, which read the files themselves.

    Attributes
    ----------
    group : FileGroup
        The files.
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

    group: FileGroup
    n_events: int
    common: _Common

    def __repr__(self) -> str:
        """Say how many events there are, and in which files."""
        names = [name or self.group.folder.name for name in self.group.files]
        return f"Partition({self.n_events:,} events of {join_names(names)})"

    @property
    def identity(self) -> str:
        """What tells its events from any others without reading them; "" if nothing does."""
        group = self.group
        return self.common.job and f"{self.common.job} {group.files} {group.row_groups}"

    def load(self) -> EventLog:
        """Read the events; arms and items have the same numbers in all partitions."""
        if self.common.temporary is not None and self.common.temporary.removed:
            raise InvalidInput("the log is closed; open it anew with open_partitions")
        scan = self.common.reader.scan(self.group)
        instances, builder = collect_events(replace(events, key=None) for events in scan)
        membership = self.common.membership
        places = scan.codes.places(membership)
        good = [n for n in range(len(places)) if n not in scan.codes.unusable]
        categories = scan.codes.controls.final(self.common.categories)
        unknown = any((each.places < 0).any() for each in categories.values())
        if builder.size != self.n_events or (places[good] < 0).any() or unknown:
            raise InvalidLog(
                f"{', '.join(self.group.files[:3])} of {self.group.folder.name} changed since the "
                f"log was opened: {builder.size:,} good rows, not {self.n_events:,}; open it anew"
            )
        about = dict(self.common.about)
        return builder.build(instances.labels, membership, places, about, categories)


def _take_files(scan: FolderScan) -> list[Partition]:
    """Return the files themselves as partitions."""
    common = _Common(scan.reader, *_describe(scan), _job(scan))
    return [
        Partition(group, events, common)
        for group, events in zip(scan.groups, scan.events, strict=True)
        if events
    ]


def _take_shuffled(
    scan: FolderScan, files: Sequence[tuple[str, int, int]], temporary: _Temporary
) -> list[Partition]:
    """Return the files that were written as partitions."""
    folder, plan = temporary.made(""), scan.reader.plan
    written = event_plan(plan)
    reader = GroupReader(written, written.clock)
    common = _Common(reader, *_describe(scan), _job(scan), temporary)
    schema = event_schema(plan)
    return [
        Partition(FileGroup(folder, (name,), schema), events, common) for name, events, _ in files
    ]


def _describe(
    scan: FolderScan,
) -> tuple[Membership, dict[str, Any], dict[str, tuple[str, ...]]]:
    membership, _ = scan.codes.membership()
    return membership, scan.describe(), scan.codes.controls.categories()


def _job(scan: FolderScan) -> str:
    """Return a digest of files, by size and time, and options; "" if files do not tell the time."""
    files = scan.source.listing.taken if scan.source.listing else []
    if not all(file.changed for file in files):
        return ""
    return job_digest(scan.source.folder, files, scan.reader.plan)


class PartitionedLog(LogInParts):
    """A log in partitions of whole instances; made by :func:`open_partitions`.

    Attributes
    ----------
    partitions : tuple of Partition
        The same ones in the same order, wherever they were made.
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

    def _parts(self) -> Iterator[EventLog]:
        return (partition.load() for partition in self.partitions)

    def close(self) -> None:
        """Remove temporary files, if there are any; the partitions are gone then."""
        if self._common.temporary is not None:
            self._common.temporary.remove()

    def __repr__(self) -> str:
        """Say the size."""
        parts = len(self.partitions)
        return f"PartitionedLog({self._sizes()}, {parts} partition{'' if parts == 1 else 's'})"
