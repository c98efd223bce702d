"""Rows sorted into buckets on disk, so that each bucket can be read without the others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from influential_bandits.checks import optional_module
from influential_bandits.logs.columns import arrow
from influential_bandits.numerics.arrays import Ints

__all__ = ["Spill"]

FINER = 8  # buckets for each part, so that parts can be filled up well
MOST_BUCKETS = 1 << 14


class Spill:
    """A table on disk in buckets; rows of a bucket stay in the order in which they came.

    Rows are collected up to a run, sorted by bucket, and written to one file with a record batch
    for each bucket: however many buckets there are, one file is open at a time.

    Parameters
    ----------
    folder : Path
    name : str
        Files begin so.
    rows_per_run : int
        How many rows are held in memory.
    """

    def __init__(self, folder: Path, name: str, rows_per_run: int) -> None:
        self.folder, self.name, self.rows_per_run = folder, name, rows_per_run
        self.counts: Ints = np.zeros(0, np.int64)  # (buckets,): rows
        self.files: list[Path] = []
        self._batches: list[Any] = []
        self._hashes: list[npt.NDArray[np.uint64]] = []
        self._held = 0

    def add(self, hashes: npt.NDArray[np.uint64], columns: dict[str, Any]) -> bool:
        """Add rows, each to the bucket of its hash; tell whether a run is full."""
        self._batches.append(arrow().RecordBatch.from_pydict(columns))
        self._hashes.append(hashes)
        self._held += len(hashes)
        return self._held >= self.rows_per_run

    def flush(self, expected_parts: float) -> None:
        """Write the rows held; the first time, decide how many buckets there are."""
        pa = arrow()
        if not self._held:
            return
        if not len(self.counts):
            buckets = min(max(1, int(np.ceil(FINER * expected_parts))), MOST_BUCKETS)
            self.counts = np.zeros(buckets, np.int64)
        bucket = (np.concatenate(self._hashes) % np.uint64(len(self.counts))).astype(np.int64)
        table = pa.Table.from_batches(self._batches).take(
            pa.array(np.argsort(bucket, kind="stable"))
        )
        self._batches, self._hashes, self._held = [], [], 0
        counts = np.bincount(bucket, minlength=len(self.counts))
        self._write(table.combine_chunks(), counts)
        self.counts += counts

    def _write(self, table: Any, counts: Ints) -> None:
        ipc = optional_module("pyarrow.ipc")
        path = self.folder / f"{self.name}-{len(self.files)}.arrow"
        self.files.append(path)
        (batch,) = table.to_batches()
        with ipc.new_file(str(path), table.schema) as file:
            start = 0
            for count in counts.tolist():
                file.write_batch(batch.slice(start, count))
                start += count

    def parts(self, rows: int) -> Iterator[range]:
        """Yield ranges of buckets that have about so many rows together, none of them empty."""
        start = held = 0
        for bucket, count in enumerate(self.counts.tolist()):
            if held and held + count > rows:
                yield range(start, bucket)
                start, held = bucket, 0
            held += count
        if held:
            yield range(start, len(self.counts))

    def read(self, buckets: Iterable[int]) -> Iterator[Any]:
        """Yield the rows of some buckets as Arrow record batches, bucket by bucket."""
        ipc = optional_module("pyarrow.ipc")
        wanted = [bucket for bucket in buckets if self.counts[bucket]]
        for path in self.files:
            with arrow().OSFile(str(path)) as raw:
                file = ipc.open_file(raw)
                for bucket in wanted:
                    batch = file.get_batch(bucket)
                    if batch.num_rows:
                        yield batch
