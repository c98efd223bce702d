"""stream_log: a file or table that is larger than memory, in partitions of whole instances."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from influential_bandits.logs.event_scan import EventScan
from influential_bandits.logs.find_columns import find_columns
from influential_bandits.logs.items import ItemCodes
from influential_bandits.logs.log_builder import describe_source
from influential_bandits.logs.options import show_options, take_options
from influential_bandits.logs.partition_scan import GroupReader
from influential_bandits.logs.partitions import CommonParts, PartitionedLog
from influential_bandits.logs.remote_folder import RemoteFolder
from influential_bandits.logs.shuffle import (
    ChunkWriter,
    find_partitions,
    write_events,
)
from influential_bandits.logs.sources import open_source
from influential_bandits.logs.temporary import TemporaryFolder

FINER = 8  # parts on disk for each partition, as their number is estimated while a file is read


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
