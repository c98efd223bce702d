"""Rows of many files brought together by a hash, without anybody who holds them all.

First each group of files is cut into buckets, one task a group; then each bucket is put together,
one task a bucket. Tasks hold no state: they read files, and leave files that get their names when
they are complete. Rows of a bucket stay in the order in which they came.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from influential_bandits.checks import optional_module
from influential_bandits.logs.addresses import Folder
from influential_bandits.logs.columns import arrow
from influential_bandits.numerics.arrays import Ints

__all__ = ["Bucket", "Pieces", "buckets_of", "number_of_buckets", "rows_of"]

EVENTS_PER_PARTITION = 1_000_000  # about; decides how many buckets there are, and nothing else does
MOST_EVENTS = 4_000_000  # of files that are taken as they are; larger ones are repartitioned
ROWS_PER_RUN = 1 << 19  # rows that a task holds before it writes them


class Bucket(NamedTuple):
    """Where the rows of a bucket are."""

    number: int
    files: tuple[str, ...]  # those that have rows of it, in order
    rows: int


class Pieces:
    """Rows of one group of files, cut into buckets and written run by run.

    A run is one Arrow file with a record batch for each bucket, so that the number of files does
    not grow with the number of buckets, and a reader of one bucket reads nothing of the others.
    """

    def __init__(self, folder: Folder, name: str, buckets: int) -> None:
        self.folder, self.name, self.buckets = folder, name, buckets
        self.counts: list[list[int]] = []  # (runs, buckets): rows
        self._batches: list[Any] = []
        self._hashes: list[npt.NDArray[np.uint64]] = []
        self._held = 0

    def written(self) -> list[list[int]] | None:
        """Return what an earlier attempt that came to its end has counted."""
        counts: list[list[int]] | None = self.folder.read_json(f"{self.name}.json")
        return counts

    def add(self, hashes: npt.NDArray[np.uint64], columns: dict[str, Any]) -> None:
        """Add rows, each to the bucket of its hash."""
        self._batches.append(arrow().RecordBatch.from_pydict(columns))
        self._hashes.append(hashes)
        self._held += len(hashes)
        if self._held >= ROWS_PER_RUN:
            self._flush()

    def finish(self) -> list[list[int]]:
        """Write what is left, and last of all the counts: (runs, buckets)."""
        if self._held:
            self._flush()
        self.folder.write_json(f"{self.name}.json", self.counts)
        return self.counts

    def _flush(self) -> None:
        pa = arrow()
        # The upper bits: the lower ones are left to the tables in which labels are looked up.
        upper = np.concatenate(self._hashes) >> np.uint64(32)
        bucket = (upper % np.uint64(self.buckets)).astype(np.int64)
        order = np.argsort(bucket, kind="stable")
        table = pa.Table.from_batches(self._batches).take(pa.array(order)).combine_chunks()
        self._batches, self._hashes, self._held = [], [], 0
        counts = np.bincount(bucket, minlength=self.buckets).tolist()
        ipc = optional_module("pyarrow.ipc")
        (batch,) = table.to_batches()
        start = 0
        with (
            self.folder.writing(run_name(self.name, len(self.counts))) as file,
            ipc.new_file(file, table.schema, options=_compressed(ipc)) as writer,
        ):
            for count in counts:
                writer.write_batch(batch.slice(start, count))
                start += count
        self.counts.append(counts)


def run_name(name: str, run: int) -> str:
    """Return the name of the file of a run."""
    return f"{name}-{run}.arrow"


def _compressed(ipc: Any) -> Any:
    return ipc.IpcWriteOptions(compression="lz4" if arrow().Codec.is_available("lz4") else None)


def number_of_buckets(rows: int) -> int:
    """Return how many buckets so many rows need; workers have no say in it."""
    return max(1, -(-rows // EVENTS_PER_PARTITION))


def buckets_of(counts: Sequence[tuple[str, list[list[int]]]]) -> list[Bucket]:
    """Return the buckets that have rows, from the counts of all groups, by name and in order."""
    names = [run_name(name, run) for name, runs in counts for run in range(len(runs))]
    rows: Ints = np.array([run for _, runs in counts for run in runs], np.int64)
    return [
        Bucket(number, tuple(names[run] for run in np.flatnonzero(column)), int(column.sum()))
        for number, column in enumerate(rows.T)
        if column.any()
    ]


def rows_of(folder: Folder, bucket: Bucket) -> Iterator[Any]:
    """Yield the rows of a bucket as record batches, in order."""
    ipc = optional_module("pyarrow.ipc")
    for name in bucket.files:
        with folder.system.open_input_file(folder.path(name)) as file:
            yield ipc.open_file(file).get_batch(bucket.number)
