"""Rows of many sources brought together by a hash, without anybody who holds them all.

Each source is written chunk by chunk. A chunk is one Arrow file with a record batch for each
partition, so that the number of files does not grow with the number of partitions, and a reader of
one partition reads nothing of the others. Rows of a partition stay in the order in which they came.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from influential_bandits.checks import optional_module
from influential_bandits.logs.columns import arrow
from influential_bandits.logs.label_codes import Hashes64, find_repeated_keys
from influential_bandits.logs.remote_folder import RemoteFolder
from influential_bandits.numerics.arrays import Ints

__all__ = [
    "ChunkWriter",
    "ShuffledPartition",
    "find_partitions",
    "find_repeated_rows",
    "read_partitions",
]

Counts = list[list[int]]  # (chunks, partitions): rows


class ShuffledPartition(NamedTuple):
    """Where the rows of a partition are."""

    number: int
    files: tuple[str, ...]  # those that have rows of it, in order
    rows: int


class ChunkWriter:
    """Writes the rows of one source, cut into partitions.

    Parameters
    ----------
    folder : RemoteFolder
    name : str
        Files begin so.
    partitions : function
        Says how many there are, when the first chunk is written.
    held : int
        How many rows wait in memory until they are written.
    lasting : bool
        Whether files are to outlive this process: packed, and on disk before they get their names.
    """

    def __init__(
        self,
        folder: RemoteFolder,
        name: str,
        partitions: Callable[[], int],
        held: int,
        *,
        lasting: bool = True,
    ) -> None:
        self.folder, self.name, self.partitions, self.held = folder, name, partitions, held
        self.lasting = lasting
        self.counts: Counts = []
        self._number = 0
        self._batches: list[Any] = []
        self._hashes: list[Hashes64] = []
        self._waiting = 0

    def written(self) -> Counts | None:
        """Return what an earlier attempt that came to its end has counted."""
        counts: Counts | None = self.folder.read_json(f"{self.name}.json")
        return counts

    def add(self, hashes: Hashes64, columns: dict[str, Any]) -> None:
        """Add rows, each to the partition of its hash."""
        self._batches.append(arrow().RecordBatch.from_pydict(columns))
        self._hashes.append(hashes)
        self._waiting += len(hashes)
        if self._waiting >= self.held:
            self._write()

    def finish(self) -> Counts:
        """Write what is left, and last of all the counts."""
        if self._waiting:
            self._write()
        self.folder.write_json(f"{self.name}.json", self.counts)
        return self.counts

    def _write(self) -> None:
        pa, ipc = arrow(), optional_module("pyarrow.ipc")
        self._number = self._number or self.partitions()
        # The upper bits: the lower ones are left to the tables in which labels are looked up.
        upper = np.concatenate(self._hashes) >> np.uint64(32)
        partition = (upper % np.uint64(self._number)).astype(np.int64)
        order = np.argsort(partition, kind="stable")
        table = pa.Table.from_batches(self._batches).take(pa.array(order)).combine_chunks()
        self._batches, self._hashes, self._waiting = [], [], 0
        counts = np.bincount(partition, minlength=self._number).tolist()
        (batch,) = table.to_batches()
        start, name = 0, _chunk_name(self.name, len(self.counts))
        codec = "lz4" if self.lasting and pa.Codec.is_available("lz4") else None
        with (
            self.folder.writing(name, synced=self.lasting) as file,
            ipc.new_file(
                file, table.schema, options=ipc.IpcWriteOptions(compression=codec)
            ) as writer,
        ):
            for count in counts:
                writer.write_batch(batch.slice(start, count))
                start += count
        self.counts.append(counts)


def _chunk_name(name: str, chunk: int) -> str:
    return f"{name}-{chunk}.arrow"


def find_partitions(written: Iterable[tuple[str, Counts]]) -> list[ShuffledPartition]:
    """Return the partitions that have rows, from the names and counts of all writers, in order."""
    chunks = [
        (_chunk_name(name, chunk), rows)
        for name, counts in written
        for chunk, rows in enumerate(counts)
    ]
    rows: Ints = np.array([rows for _, rows in chunks], np.int64)
    return [
        ShuffledPartition(
            number, tuple(chunks[chunk][0] for chunk in np.flatnonzero(column)), int(column.sum())
        )
        for number, column in enumerate(rows.T)
        if column.any()
    ]


def read_partitions(folder: RemoteFolder, partitions: Sequence[ShuffledPartition]) -> Iterator[Any]:
    """Yield the rows of some partitions as record batches, those of each in order."""
    ipc = optional_module("pyarrow.ipc")
    wanted: dict[str, list[int]] = {}
    for partition in partitions:
        for name in partition.files:
            wanted.setdefault(name, []).append(partition.number)
    for name in sorted(wanted, key=_chunk_number):
        with folder.system.open_input_file(folder.path(name)) as file:
            chunk = ipc.open_file(file)
            for number in wanted[name]:
                yield chunk.get_batch(number)


def _chunk_number(name: str) -> tuple[str, int]:
    writer, _, chunk = name.removesuffix(".arrow").rpartition("-")
    return writer, int(chunk)


def find_repeated_rows(batches: Iterable[Any]) -> Ints:
    """Return the rows of a shuffle of keys whose key an earlier row has."""
    table = arrow().Table.from_batches(list(batches))
    first, second, row = (table[name].to_numpy() for name in ("first", "second", "row"))
    by_row = np.argsort(row, kind="stable")
    repeated: Ints = row[by_row][find_repeated_keys(np.stack([first, second], axis=1)[by_row])]
    return repeated
