"""repartition_log: the events of a folder in other files, each with whole instances."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from influential_bandits.checks import optional_module
from influential_bandits.errors import InvalidInput
from influential_bandits.execution.base import Execution
from influential_bandits.execution.local import resolve_execution
from influential_bandits.execution.progress import Progress
from influential_bandits.logs.columns import arrow
from influential_bandits.logs.controls import PREFIX
from influential_bandits.logs.event_scan import Events
from influential_bandits.logs.items import ItemCodes
from influential_bandits.logs.label_codes import Codes, DistinctHashes, hash_labels
from influential_bandits.logs.log_builder import require_rows
from influential_bandits.logs.options import (
    CATEGORIES,
    ChunkSizes,
    ReadingOptions,
    show_options,
    take_options,
)
from influential_bandits.logs.partition_scan import FolderScan, GroupReader, scan_partitions
from influential_bandits.logs.remote_folder import JOB, MARKER, FileEntry, RemoteFolder
from influential_bandits.logs.shuffle import (
    ChunkWriter,
    Counts,
    ShuffledPartition,
    find_partitions,
    find_repeated_rows,
    read_partitions,
)
from influential_bandits.logs.tables import FileGroup
from influential_bandits.numerics.arrays import Ints

__all__ = ["repartition_log"]

CHUNKS = "_chunks"  # the folder for what is temporary, in one that is being written
VERSION = 1
HASH_RULE = "upper half of 64 bits of FNV-1a with avalanche of the label in UTF-8, modulo modulus"
INSTANCES = b"influential_bandits.instances"  # the key of their number in a file's metadata


@show_options("separator", "columns")
def repartition_log(
    address: str | Path,
    out: str | Path,
    *,
    execution: Execution | int | None = None,
    progress: bool | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Write the events of a folder of Parquet files anew, all events of an instance in one file.

    The files have the columns ``instance``, ``arm`` (or items, as they were), ``time`` in seconds
    (if there is any), ``loss`` and for each control one such as ``control:device``, and about a
    million events each, or as many as an instance has. Bad rows are found before anything is
    written. Files get their names when they are complete: after an interruption, the same call
    goes on where it was, and does nothing once all is done.

    Parameters
    ----------
    address : path or URL
        As for :func:`open_partitions`.
    out : path or URL
        Another folder, empty or new, which all workers reach. While the work is going on it takes
        up to twice the space of the result.
    execution : Execution or int, optional
        Where the work is done: so many threads of this computer, by default all cores.
        Changes nothing in the files. A worker holds a row group or some 500,000 rows at a time,
        however large files or instances are.
    progress, **options
        As for :func:`open_partitions`.

    Returns
    -------
    dict
        What the file ``_partitioned.json`` in the folder says: version, source, conversion of
        losses, dropped rows, numbers of events, instances and files, and the rule by which
        instances were assigned to files.

    Examples
    --------
    >>> import tempfile
    >>> import pandas as pd
    >>> import influential_bandits as ib
    >>> clicks = pd.DataFrame({"user": [1, 2, 1], "ad": ["a", "a", "b"], "click": [0, 1, 1]})
    >>> with tempfile.TemporaryDirectory() as home:
    ...     clicks.to_parquet(f"{home}/clicks.parquet")
    ...     options = {"instance": "user", "arm": "ad", "time": None, "reward": "click"}
    ...     made = ib.logs.repartition_log(f"{home}/clicks.parquet", f"{home}/by-user", **options)
    ...     with ib.logs.open_partitions(f"{home}/by-user", time=None, loss="loss") as log:
    ...         print(made["instances"], log)
    2 PartitionedLog(3 events, 2 instances, 2 arms, 1 partition)
    """
    plan = take_options("repartition_log", options, "separator", "columns")
    source, target = RemoteFolder.at(address), RemoteFolder.at(out)
    if f"{target.address}/".startswith(f"{source.address}/"):
        raise InvalidInput(f"{target.address} lies within {source.address}; choose another folder")
    job = job_digest(source, source.parquet_files().taken, plan)
    done = _begin(target, job)
    if done is not None:
        _tidy(target)
        return done
    where = resolve_execution(execution)
    scan = scan_partitions(source, plan, where, progress)
    repeated = find_repeated(scan, target.below(CHUNKS), where, progress)
    check_scan(scan, repeated)
    files = shuffle_events(scan, repeated, target, where, progress)
    made = {
        "version": VERSION,
        "job": job,
        **scan.describe(),
        "events": sum(events for _, events, _ in files),
        "instances": sum(instances for _, _, instances in files),
        "modulus": _number_of_partitions(sum(scan.events) - len(repeated), plan.sizes),
        "partitions": len(files),
        "hash": HASH_RULE,
    }
    target.write_json(MARKER, made)
    _tidy(target)
    return made


def _tidy(target: RemoteFolder) -> None:
    """Remove what a finished folder needs no more."""
    target.below(CHUNKS).remove()
    if target.exists(JOB):
        target.system.delete_file(target.path(JOB))


def _begin(target: RemoteFolder, job: str) -> dict[str, Any] | None:
    """Return what is known if all is done; else make the folder, if it is ours to write to."""
    done: dict[str, Any] | None = target.read_json(MARKER)
    going_on = target.read_json(JOB)
    found = (done or {}).get("job") or (going_on or {}).get("job")
    if found is None and target.exists() and not target.is_empty():
        raise InvalidInput(f"{target.address} is not empty; name a new folder")
    if found is not None and found != job:
        raise InvalidInput(
            f"{target.address} holds the partitions of another log, of other options or of files "
            "that changed since; remove it, or name a new folder"
        )
    if done is None:
        target.make()
        target.write_json(JOB, {"version": VERSION, "job": job})
    return done


def job_digest(source: RemoteFolder, files: Sequence[FileEntry], plan: ReadingOptions) -> str:
    """Return what tells one job from another: files, options, and how large partitions are."""
    columns = {name: getattr(plan, name) for name in ReadingOptions.__dataclass_fields__}
    columns["items"] = None if plan.items is None else [*map(_item, plan.items.items())]
    columns["arm_names"] = None if plan.arm_names is None else [*map(str, plan.arm_names)]
    columns["key"] = plan.keys
    inputs = [VERSION, source.address, files, columns]
    return hashlib.sha256(json.dumps(inputs, default=str).encode()).hexdigest()[:16]


def _item(item: tuple[Any, Any]) -> list[Any]:
    name, arms = item
    return [str(name), arms if isinstance(arms, str) else [str(arm) for arm in arms]]


def check_scan(scan: FolderScan, repeated: Ints) -> None:
    """Raise an error for bad rows, unless they are to be dropped, and for a log without events."""
    if len(repeated):
        scan.bad.add("duplicate key", repeated)
    scan.bad.check(scan.reader.plan.bad_rows)
    require_rows(scan.source, scan.bad, sum(scan.events) - len(repeated))


def find_repeated(
    scan: FolderScan, chunks: RemoteFolder, execution: Execution, progress: bool | None
) -> Ints:
    """Return the rows of the folder, in order, whose key an earlier row has.

    Keys of all files are brought together by their hashes: nobody holds more than a partition of
    them, and the client no more than the rows that repeat a key.
    """
    if not scan.reader.plan.keys:
        return np.zeros(0, np.int64)
    chunks.make()
    number = _number_of_partitions(sum(scan.events), scan.reader.plan.sizes)
    split = _Splitter(scan.reader, chunks, number, "keys")
    label = f"comparing keys of {scan.source.name}"
    written = _map(execution, split, _tasks(scan), label, progress)
    compare = partial(_find_repeated_rows, chunks)
    found = _map(execution, compare, find_partitions(written), label, progress)
    return np.sort(np.concatenate([np.zeros(0, np.int64), *found]))


def _find_repeated_rows(chunks: RemoteFolder, partition: ShuffledPartition) -> Ints:
    return find_repeated_rows(read_partitions(chunks, [partition]))


def shuffle_events(
    scan: FolderScan,
    repeated: Ints,
    out: RemoteFolder,
    execution: Execution,
    progress: bool | None,
) -> list[tuple[str, int, int]]:
    """Write the events of a log by instance; return names of files, events and instances of each.

    Parameters
    ----------
    repeated : array of int64
        Rows to leave out, because their key came before.
    """
    chunks, plan = out.below(CHUNKS), scan.reader.plan
    chunks.make()
    number = _number_of_partitions(sum(scan.events) - len(repeated), plan.sizes)
    split = _Splitter(scan.reader, chunks, number, "events")
    label = f"repartitioning {scan.source.name}"
    written = _map(execution, split, _tasks(scan, repeated), label, progress)
    join = _Joiner(chunks, out, event_schema(plan), plan.sizes)
    made: list[tuple[str, int, int]] = _map(
        execution, join, find_partitions(written), label, progress
    )
    return made


def _number_of_partitions(rows: int, sizes: ChunkSizes) -> int:
    """Return how many partitions so many rows need; workers have no say in it."""
    return max(1, -(-rows // sizes.partition))


def _map(
    execution: Execution, work: Any, tasks: Any, label: str, progress: bool | None
) -> list[Any]:
    tasks = list(tasks)
    return list(execution.map(work, tasks, Progress(label, len(tasks), progress)))


@dataclass(frozen=True)
class _SplitTask:
    number: int
    group: FileGroup
    start: int  # rows of the folder before this group
    repeated: Ints  # rows of the group to leave out


def _tasks(scan: FolderScan, repeated: Ints | None = None) -> Iterator[_SplitTask]:
    rows = np.zeros(0, np.int64) if repeated is None else repeated
    files = start = 0
    ends = [*(first for first, _, _ in scan.source.spans[1:]), scan.source.n_rows]
    for number, group in enumerate(scan.groups):
        files += len(group.files)
        end = ends[files - 1]
        mine = rows[np.searchsorted(rows, start) : np.searchsorted(rows, end)] - start
        yield _SplitTask(number, group, start, mine)
        start = end


@dataclass(frozen=True)
class _Splitter:
    """Cuts the keys or the events of a group of files into partitions."""

    reader: GroupReader
    folder: RemoteFolder
    partitions: int
    what: str  # "keys" or "events"

    def __call__(self, task: _SplitTask) -> tuple[str, Counts]:
        name = f"{self.what}-{task.number:06d}"
        held = self.reader.plan.sizes.held
        writer = ChunkWriter(self.folder, name, lambda: self.partitions, held)
        counts = writer.written()
        if counts is not None:
            return name, counts
        scan = self.reader.scan(task.group)
        for events in scan:
            if self.what == "events":
                kept = events
                if len(task.repeated):
                    kept = events.take(~np.isin(events.row, task.repeated))
                if len(kept.who):
                    columns = _event_columns(kept, scan.codes)
                    writer.add(hash_labels(kept.who), columns)
            elif events.key is not None:
                first, second = events.key[:, 0].copy(), events.key[:, 1].copy()
                columns = {"first": first, "second": second, "row": events.row + task.start}
                writer.add(first, columns)
        return name, writer.finish()


def _event_columns(events: Events, codes: ItemCodes) -> dict[str, Any]:
    """Return the columns to write."""
    arms = _decode(codes.known.labels, events.what)
    columns = {"instance": events.who, "arm": arms, "time": events.time, "loss": events.loss}
    labels = codes.controls.labels()
    for name, values in events.controls.items():
        written = _decode(labels[name], values) if name in labels else values
        columns[f"{PREFIX}{name}"] = written
    return {name: column for name, column in columns.items() if column is not None}


def _decode(labels: list[str], codes: Codes) -> Any:
    pa = arrow()
    return pa.array(labels, pa.string()).take(pa.array(codes))


def event_plan(plan: ReadingOptions) -> ReadingOptions:
    """Return how the files that were written are read."""
    outcome: dict[str, Any] = {"loss": "loss", "rating": None, "reward": None, "best": None}
    controls = tuple(each._replace(column=f"{PREFIX}{each.name}") for each in plan.control_columns)
    outcome |= {"item": None, "controls": controls}
    outcome |= {"time": plan.time and "time", "time_unit": "s", "time_format": None}
    return replace(plan, instance="instance", arm="arm", key=None, **outcome)


def event_schema(plan: ReadingOptions) -> Any:
    """Return the columns of the files that are written, as Arrow knows them."""
    pa = arrow()
    clock = [] if plan.time is None else [("time", pa.float64())]
    controls = [
        (f"{PREFIX}{each.name}", pa.string() if each.kind == CATEGORIES else pa.float64())
        for each in plan.control_columns
    ]
    columns = [("instance", pa.string()), ("arm", pa.string()), *clock, ("loss", pa.float64())]
    return pa.schema([*columns, *controls])


@dataclass(frozen=True)
class _Joiner:
    """Puts a partition together; holds some hundred thousand rows of it at a time."""

    chunks: RemoteFolder
    out: RemoteFolder
    schema: Any
    sizes: ChunkSizes

    def __call__(self, partition: ShuffledPartition) -> tuple[str, int, int]:
        parquet = optional_module("pyarrow.parquet")
        name = f"part-{partition.number:06d}.parquet"
        if self.out.exists(name):
            with self.out.system.open_input_file(self.out.path(name)) as file:
                return name, partition.rows, int(parquet.read_metadata(file).metadata[INSTANCES])
        met = DistinctHashes(self.sizes.hashes)
        with (
            self.out.writing(name, CHUNKS) as file,
            parquet.ParquetWriter(file, self.schema, compression="zstd") as writer,
        ):
            for table in self._tables(partition):
                met.add(hash_labels(table["instance"].combine_chunks()))
                writer.write_table(table)
            writer.add_key_value_metadata({INSTANCES: str(len(met.values()))})
        return name, partition.rows, len(met.values())

    def _tables(self, partition: ShuffledPartition) -> Iterator[Any]:
        """Yield the rows in larger tables, for each becomes a row group."""
        held: list[Any] = []
        for batch in read_partitions(self.chunks, [partition]):
            held.append(batch)
            if sum(map(len, held)) >= self.sizes.rows:
                yield arrow().Table.from_batches(held)
                held = []
        if held:
            yield arrow().Table.from_batches(held)
