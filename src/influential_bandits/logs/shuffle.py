"""Events of many readers brought together by instance, without anybody who holds them all.

Every reader writes its events chunk by chunk. A chunk is one Arrow file with a record batch for
each partition, so that the number of files does not grow with the number of partitions, and whoever
loads one partition reads nothing of the others. Its rows stay in the order in which they were read.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from influential_bandits.logs.columns import Codes, arrow
from influential_bandits.logs.controls import PREFIX
from influential_bandits.logs.event_scan import Events, EventScan
from influential_bandits.logs.items import ItemCodes
from influential_bandits.logs.remote_folder import RemoteFolder
from influential_bandits.logs.tables import make_read_error
from influential_bandits.numerics.arrays import Ints
from influential_bandits.numerics.compiling import kernel
from influential_bandits.packages import optional_module

Chunks = dict[str, list[int]]  # the files that a reader wrote, with the rows of each partition
Hashes = npt.NDArray[np.uint64]  # (rows,)

FNV_OFFSET = np.uint64(0xCBF29CE484222325)
FNV_PRIME = np.uint64(0x100000001B3)


@dataclass(frozen=True)
class ShuffledPartition:
    """Where the rows of a partition are."""

    folder: RemoteFolder
    chunks: tuple[str, ...]  # files that have rows of it, in the order of the source
    numbers: tuple[int, ...]  # of its batches in each file
    rows: int

    def batches(self) -> Iterator[Any]:
        """Yield the rows, in the order of the source."""
        ipc = optional_module("pyarrow.ipc")
        for name in self.chunks:
            try:
                with self.folder.system.open_input_file(self.folder.path(name)) as file:
                    chunk = ipc.open_file(file)
                    yield from map(chunk.get_batch, self.numbers)
            except (arrow().ArrowException, OSError) as error:
                raise make_read_error(f"a temporary file, {name}", error) from None


class ChunkWriter:
    """Writes the rows of one reader, cut into partitions.

    Parameters
    ----------
    folder : RemoteFolder
    count : function
        Says how many partitions there are, when the first chunk is written.
    held : int
        How many rows wait in memory until they are written.
    """

    def __init__(self, folder: RemoteFolder, count: Callable[[], int], held: int) -> None:
        self.folder, self.count, self.held = folder, count, held
        self._partitions = 0
        self._chunks: Chunks = {}
        self._batches: list[Any] = []
        self._hashes: list[Hashes] = []
        self._waiting = 0

    def add(self, hashes: Hashes, columns: dict[str, Any]) -> None:
        """Add rows, each to the partition of its hash."""
        self._batches.append(arrow().RecordBatch.from_pydict(columns))
        self._hashes.append(hashes)
        self._waiting += len(hashes)
        if self._waiting >= self.held:
            self._write()

    def finish(self) -> Chunks:
        """Write what is left; return all that was written."""
        if self._waiting:
            self._write()
        return self._chunks

    def _write(self) -> None:
        pa, ipc = arrow(), optional_module("pyarrow.ipc")
        self._partitions = self._partitions or self.count()
        upper = np.concatenate(self._hashes) >> np.uint64(32)
        partition = (upper % np.uint64(self._partitions)).astype(np.int64)
        order = np.argsort(partition, kind="stable")
        table = pa.Table.from_batches(self._batches).take(pa.array(order)).combine_chunks()
        self._batches, self._hashes, self._waiting = [], [], 0
        rows = np.bincount(partition, minlength=self._partitions).tolist()
        (batch,) = table.to_batches()
        # A name of its own: a cluster may run a task a second time while the first still writes.
        start, name = 0, f"{uuid.uuid4().hex}.arrow"
        codec = "lz4" if pa.Codec.is_available("lz4") else None
        options = ipc.IpcWriteOptions(compression=codec)
        with (
            self.folder.system.open_output_stream(self.folder.path(name)) as file,
            ipc.new_file(file, table.schema, options=options) as writer,
        ):
            for count in rows:
                writer.write_batch(batch.slice(start, count))
                start += count
        self._chunks[name] = rows


def find_partitions(
    folder: RemoteFolder, written: Iterable[Chunks], most: int = 0
) -> list[ShuffledPartition]:
    """Return the partitions that have rows, from what readers wrote, in the order of the source.

    Neighbours that have at most so many rows together are one partition.
    """
    chunks = {name: rows for reader in written for name, rows in reader.items()}
    counts = np.array(list(chunks.values()), np.int64)  # (chunks, partitions)
    groups: list[tuple[list[int], Ints]] = []  # numbers, and their rows in each chunk
    for number, rows in enumerate(counts.T):  # none if nothing was written
        if groups and (groups[-1][1] + rows).sum() <= most:
            groups[-1] = ([*groups[-1][0], number], groups[-1][1] + rows)
        elif rows.any():
            groups.append(([number], rows))
    return [
        ShuffledPartition(
            folder,
            tuple(name for name, some in zip(chunks, rows, strict=True) if some),
            tuple(numbers),
            int(rows.sum()),
        )
        for numbers, rows in groups
    ]


def write_events(scan: EventScan, writer: ChunkWriter) -> tuple[Chunks, Hashes]:
    """Write checked events by instance; return what was written, and hashes of all instances."""
    instances = DistinctHashes(scan.plan.sizes.hashes)
    for events in scan:
        hashes = hash_labels(events.instance)
        instances.add(hashes)
        writer.add(hashes, _as_columns(events, scan.codes))
    return writer.finish(), instances.values()


def _as_columns(events: Events, codes: ItemCodes) -> dict[str, Any]:
    """Return columns without codes, since every reader numbers items and categories by itself."""
    columns = {
        "instance": events.instance,
        "item": _decode(codes.known.labels, events.item),
        "loss": events.loss,
    }
    columns |= {} if events.time is None else {"time": events.time}
    labels = codes.controls.labels()
    for name, values in events.controls.items():
        columns[f"{PREFIX}{name}"] = _decode(labels[name], values) if name in labels else values
    return columns


def _decode(labels: list[str], codes: Codes) -> Any:
    pa = arrow()
    coded = pa.array(codes).dictionary_encode()  # there may be many more labels than rows
    used = [labels[code] for code in coded.dictionary.to_pylist()]
    return pa.array(used, pa.string()).take(coded.indices)


def read_events(partition: ShuffledPartition, codes: ItemCodes) -> Iterator[Events]:
    """Yield the events of a partition, chunk by chunk."""
    kinds = arrow().types
    for batch in partition.batches():
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        controls = {}
        for column, values in columns.items():
            name = column.removeprefix(PREFIX)
            if name != column and kinds.is_string(values.type):
                controls[name] = codes.controls.encoder(name)(values)
            elif name != column:
                controls[name] = values.to_numpy()
        yield Events(
            columns["instance"],
            codes.encode(columns["item"]),
            columns["loss"].to_numpy(),
            columns["time"].to_numpy() if "time" in columns else None,
            controls,
        )


def hash_labels(texts: Any) -> Hashes:
    """Return 64 bits that stand for each text of an Arrow column, (rows,)."""
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    return _hash_texts(ends, np.frombuffer(data or b"\0", np.uint8))


@kernel
def _hash_texts(ends: npt.NDArray[np.int32], data: npt.NDArray[np.uint8]) -> Hashes:
    """Hash the text of each row by FNV-1a, then avalanche."""
    out = np.empty(ends.size - 1, np.uint64)
    for n in range(ends.size - 1):
        state = FNV_OFFSET
        for place in range(ends[n], ends[n + 1]):
            state = (state ^ np.uint64(data[place])) * FNV_PRIME
        state = (state ^ np.uint64(255)) * FNV_PRIME
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        out[n] = state ^ (state >> np.uint64(31))
    return out


class DistinctHashes:
    """Different hashes of many; sorted now and then, when there are twice as many.

    Parameters
    ----------
    waiting : int
        How many wait at least until they are sorted into the others.
    """

    def __init__(self, waiting: int) -> None:
        self.waiting = waiting
        self._sorted: Hashes = np.zeros(0, np.uint64)
        self._added: list[Hashes] = []
        self._size = 0

    def add(self, values: Hashes) -> None:
        """Add hashes, in any order."""
        self._added.append(_sort_different(values.copy()))
        self._size += len(self._added[-1])
        if self._size > max(self.waiting, len(self._sorted)):
            self.values()

    def values(self) -> Hashes:
        """Return those met so far, ascending."""
        if self._added:
            self._sorted = _sort_different(np.concatenate([self._sorted, *self._added]))
            self._added, self._size = [], 0
        return self._sorted


def _sort_different(values: Hashes) -> Hashes:
    """Sort values where they are, and return each once; NumPy's own way is many times slower."""
    values.sort()
    new = np.ones(len(values), bool)
    np.not_equal(values[1:], values[:-1], out=new[1:])
    return values[new]
