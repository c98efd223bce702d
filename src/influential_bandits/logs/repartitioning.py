"""repartition_log: the events of a folder in other files, each with whole instances."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from influential_bandits.checks import optional_module
from influential_bandits.errors import InvalidInput
from influential_bandits.execution.base import Execution
from influential_bandits.execution.local import LocalExecution
from influential_bandits.execution.progress import Progress
from influential_bandits.logs import shuffling, sources
from influential_bandits.logs.addresses import JOB, MARKER, FileEntry, Folder
from influential_bandits.logs.columns import arrow
from influential_bandits.logs.gathering import about_source, require_rows
from influential_bandits.logs.numbering import hashes, repeated_keys
from influential_bandits.logs.options import ReadingOptions, reading_options
from influential_bandits.logs.pipeline import Events
from influential_bandits.logs.shuffling import Bucket, Pieces, buckets_of, rows_of
from influential_bandits.logs.surveying import (
    Distinct,
    FileGroup,
    Reading,
    Survey,
    surveyed,
)
from influential_bandits.numerics.arrays import Ints

__all__ = ["repartition_log"]

PIECES = "_pieces"  # the folder for what is temporary, in one that is being written
VERSION = 1
HASH_RULE = "upper half of 64 bits of FNV-1a with avalanche of the label in UTF-8, modulo buckets"
INSTANCES = b"influential_bandits.instances"  # the key of their number in a file's metadata


def repartition_log(
    address: str | Path,
    out: str | Path,
    *,
    execution: Execution | None = None,
    progress: bool | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Write the events of a folder of Parquet files anew, all events of an instance in one file.

    The files have the columns ``instance``, ``arm`` (or items, as they were), ``time`` in seconds
    (if there is any) and ``loss``, and about a million events each, or as many as an instance has.
    Bad rows are found before anything is written. Files get their names when they are complete:
    after an interruption, the same call goes on where it was, and does nothing once all is done.

    Parameters
    ----------
    address : path or URL
        As for :func:`open_partitions`.
    out : path or URL
        Another folder, empty or new, which all workers reach. While the work is going on it takes
        up to twice the space of the result.
    execution : Execution, optional
        Where the work is done; by default on all cores of this computer. Changes nothing in the
        files. A worker holds a row group or some 500,000 rows at a time, however large files or
        instances are.
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
    plan = reading_options("repartition_log", options)
    source, target = Folder.at(address), Folder.at(out)
    if f"{target.address}/".startswith(f"{source.address}/"):
        raise InvalidInput(f"{target.address} lies within {source.address}; choose another folder")
    job = job_digest(source, source.parquet_files().taken, plan)
    done = _begin(target, job)
    if done is not None:
        _tidy(target)
        return done
    where = LocalExecution() if execution is None else execution
    survey = surveyed(source, plan, where, progress)
    repeated = repeated_rows(survey, target.below(PIECES), where, progress)
    check(survey, repeated)
    buckets = shuffled(survey, repeated, target, where, progress)
    made = {
        "version": VERSION,
        "job": job,
        **about_source(survey.source, plan, survey.bad),
        "events": sum(events for _, events, _ in buckets),
        "instances": sum(instances for _, _, instances in buckets),
        "buckets": shuffling.number_of_buckets(sum(survey.events) - len(repeated)),
        "partitions": len(buckets),
        "hash": HASH_RULE,
    }
    target.write_json(MARKER, made)
    _tidy(target)
    return made


def _tidy(target: Folder) -> None:
    """Remove what a finished folder needs no more."""
    target.below(PIECES).remove()
    if target.exists(JOB):
        target.system.delete_file(target.path(JOB))


def _begin(target: Folder, job: str) -> dict[str, Any] | None:
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


def job_digest(source: Folder, files: Sequence[FileEntry], plan: ReadingOptions) -> str:
    """Return what tells one job from another: files, options, and how many rows a bucket gets."""
    columns = {name: getattr(plan, name) for name in ReadingOptions.__dataclass_fields__}
    columns["items"] = None if plan.items is None else [*map(_item, plan.items.items())]
    columns["arms"] = None if plan.arms is None else [str(arm) for arm in plan.arms]
    columns["key"] = plan.keys
    told = [VERSION, shuffling.EVENTS_PER_PARTITION, source.address, files, columns]
    return hashlib.sha256(json.dumps(told, default=str).encode()).hexdigest()[:16]


def _item(item: tuple[Any, Any]) -> list[Any]:
    name, arms = item
    return [str(name), arms if isinstance(arms, str) else [str(arm) for arm in arms]]


def check(survey: Survey, repeated: Ints) -> None:
    """Raise an error for bad rows, unless they are to be dropped, and for a log without events."""
    if len(repeated):
        survey.bad.add("duplicate key", repeated)
    survey.bad.check(survey.reading.plan.bad_rows)
    require_rows(survey.source, survey.bad, sum(survey.events) - len(repeated))


def repeated_rows(
    survey: Survey, pieces: Folder, execution: Execution, progress: bool | None
) -> Ints:
    """Return the rows of the folder, in order, whose key an earlier row has.

    Keys of all files are brought together by their hashes: nobody holds more than a bucket of
    them, and the client no more than the rows that repeat a key.
    """
    if not survey.reading.plan.keys:
        return np.zeros(0, np.int64)
    pieces.make()
    number = shuffling.number_of_buckets(sum(survey.events))
    split = _KeySplitter(survey.reading, pieces, number)
    label = f"comparing keys of {survey.source.name}"
    counts = _mapped(execution, split, _tasks(survey), label, progress)
    names = [split.name(task.number) for task in _tasks(survey)]
    buckets = buckets_of(list(zip(names, counts, strict=True)))
    found = _mapped(execution, _KeyComparison(pieces), buckets, label, progress)
    return np.sort(np.concatenate([np.zeros(0, np.int64), *found]))


def shuffled(
    survey: Survey, repeated: Ints, out: Folder, execution: Execution, progress: bool | None
) -> list[tuple[str, int, int]]:
    """Write the events of a log by instance; return names of files, events and instances of each.

    Parameters
    ----------
    repeated : array of int64
        Rows to leave out, because their key came before.
    """
    pieces = out.below(PIECES)
    pieces.make()
    number = shuffling.number_of_buckets(sum(survey.events) - len(repeated))
    split = _EventSplitter(survey.reading, pieces, number)
    tasks = list(_tasks(survey, repeated))
    label = f"repartitioning {survey.source.name}"
    counts = _mapped(execution, split, tasks, label, progress)
    named = [(split.name(task.number), found) for task, found in zip(tasks, counts, strict=True)]
    join = _Joiner(pieces, out, event_schema(survey.reading.plan))
    made: list[tuple[str, int, int]] = _mapped(execution, join, buckets_of(named), label, progress)
    return made


def _mapped(
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


def _tasks(survey: Survey, repeated: Ints | None = None) -> Iterator[_SplitTask]:
    rows = np.zeros(0, np.int64) if repeated is None else repeated
    files = start = 0
    for number, group in enumerate(survey.groups):
        files += len(group.files)
        end = survey.source.ends[files - 1]
        mine = rows[np.searchsorted(rows, start) : np.searchsorted(rows, end)] - start
        yield _SplitTask(number, group, start, mine)
        start = end


@dataclass(frozen=True)
class _KeySplitter:
    reading: Reading
    folder: Folder
    buckets: int

    @staticmethod
    def name(number: int) -> str:
        return f"keys-{number:06d}"

    def __call__(self, task: _SplitTask) -> list[list[int]]:
        pieces = Pieces(self.folder, self.name(task.number), self.buckets)
        counts = pieces.written()
        if counts is not None:
            return counts
        for events in self.reading.pipeline(task.group):
            if events.key is not None:
                first, second = events.key[:, 0].copy(), events.key[:, 1].copy()
                columns = {"first": first, "second": second, "row": events.row + task.start}
                pieces.add(first, columns)
        return pieces.finish()


@dataclass(frozen=True)
class _KeyComparison:
    folder: Folder

    def __call__(self, bucket: Bucket) -> Ints:
        table = arrow().Table.from_batches(list(rows_of(self.folder, bucket)))
        first, second, row = (table[name].to_numpy() for name in ("first", "second", "row"))
        again: Ints = row[repeated_keys(np.stack([first, second], axis=1))]
        return again


@dataclass(frozen=True)
class _EventSplitter:
    reading: Reading
    folder: Folder
    buckets: int

    @staticmethod
    def name(number: int) -> str:
        return f"events-{number:06d}"

    def __call__(self, task: _SplitTask) -> list[list[int]]:
        pieces = Pieces(self.folder, self.name(task.number), self.buckets)
        counts = pieces.written()
        if counts is not None:
            return counts
        pipeline = self.reading.pipeline(task.group)
        for events in pipeline:
            kept = _without(events, task.repeated)
            if len(kept.who):
                pieces.add(*_columns(kept, pipeline.codes.numbering.labels))
        return pieces.finish()


def _without(events: Events, repeated: Ints) -> Events:
    return events.kept(~np.isin(events.row, repeated)) if len(repeated) else events


def _columns(events: Events, items: list[str]) -> tuple[Any, dict[str, Any]]:
    """Return the hashes of instances, and the columns to write."""
    pa = arrow()
    arms = pa.array(items, pa.string()).take(pa.array(events.what))
    columns = {"instance": events.who, "arm": arms, "time": events.time, "loss": events.loss}
    kept = {name: column for name, column in columns.items() if column is not None}
    return hashes([events.who])[:, 0], kept


def event_plan(plan: ReadingOptions) -> ReadingOptions:
    """Return how the files that were written are read."""
    clock = None if plan.time is None else "time"
    outcome: dict[str, Any] = {"loss": "loss", "rating": None, "reward": None, "best": None}
    return replace(plan, instance="instance", arm="arm", time=clock, key=None, **outcome)


def event_schema(plan: ReadingOptions) -> Any:
    """Return the columns of the files that are written, as Arrow knows them."""
    pa = arrow()
    clock = [] if plan.time is None else [("time", pa.float64())]
    return pa.schema(
        [("instance", pa.string()), ("arm", pa.string()), *clock, ("loss", pa.float64())]
    )


@dataclass(frozen=True)
class _Joiner:
    """Puts a bucket together; holds some hundred thousand rows of it at a time."""

    pieces: Folder
    out: Folder
    schema: Any

    def __call__(self, bucket: Bucket) -> tuple[str, int, int]:
        parquet = optional_module("pyarrow.parquet")
        name = f"part-{bucket.number:06d}.parquet"
        if self.out.exists(name):
            with self.out.system.open_input_file(self.out.path(name)) as file:
                return name, bucket.rows, int(parquet.read_metadata(file).metadata[INSTANCES])
        met = Distinct()
        with (
            self.out.writing(name, PIECES) as file,
            parquet.ParquetWriter(file, self.schema, compression="zstd") as writer,
        ):
            for table in self._tables(bucket):
                met.add(hashes([table["instance"].combine_chunks()])[:, 0])
                writer.write_table(table)
            writer.add_key_value_metadata({INSTANCES: str(len(met.values()))})
        return name, bucket.rows, len(met.values())

    def _tables(self, bucket: Bucket) -> Iterator[Any]:
        """Yield the rows in larger tables, for each becomes a row group."""
        held: list[Any] = []
        for batch in rows_of(self.pieces, bucket):
            held.append(batch)
            if sum(map(len, held)) >= sources.ROWS:
                yield arrow().Table.from_batches(held)
                held = []
        if held:
            yield arrow().Table.from_batches(held)
