"""Rows of data frames, Arrow tables and Parquet files, chunk by chunk, as of every source."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from influential_bandits.checks import make_printable
from influential_bandits.errors import InvalidLog
from influential_bandits.logs.columns import arrow
from influential_bandits.logs.options import ChunkSizes
from influential_bandits.logs.remote_folder import FileListing, RemoteFolder
from influential_bandits.numerics.arrays import Ints
from influential_bandits.packages import optional_module


class Source(ABC):
    """Rows that can be read several times, in chunks.

    Attributes
    ----------
    name : str
        The file, or the kind of table, for messages.
    columns : list of str
    separator : str or None
        Of CSV.
    place : str
        What rows are called in messages: lines of a file count from 1, rows of a table from 0.
    listing : FileListing or None
        The files of a folder.
    total, done : int
        How much there is to read, and how much was read: bytes or rows.
    """

    name: str
    columns: list[str]
    separator: str | None = None
    listing: FileListing | None = None
    place: str = "row"
    total: int
    done: int = 0

    @abstractmethod
    def chunks(self, columns: Sequence[str], skipped: Callable[[int, str], None]) -> Iterator[Any]:
        """Yield Arrow record batches of these columns.

        ``skipped`` is told the place and the text of rows that have the wrong number of fields.
        """

    def places(self, rows: Ints) -> list[int]:
        """Return the places of rows, given by their number among those that chunks yielded."""
        return [int(row) for row in rows]

    def lines(self, places: Sequence[int]) -> Sequence[int | str]:
        """Return the numbers that a user can look up for places."""
        return list(places)


def trim_names(columns: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """Return names of columns without blanks around them, unless they are asked for with these.

    Examples
    --------
    >>> trim_names(["user", " tstamp ", " user"], ["user"])
    ['user', 'tstamp', ' user']
    """
    bare = [column.strip() for column in columns]
    times = Counter(bare)
    return [
        column if column in wanted or not name or times[name] > 1 else name
        for column, name in zip(columns, bare, strict=True)
    ]


class TableSource(Source):
    """A frame, a table, or a mapping of names to columns."""

    def __init__(self, table: Any, name: str, wanted: Sequence[str], sizes: ChunkSizes) -> None:
        self.columns = trim_names(table.column_names, wanted)
        self.table, self.name, self.sizes = table.rename_columns(self.columns), name, sizes
        self.total = table.num_rows

    def chunks(self, columns: Sequence[str], skipped: Callable[[int, str], None]) -> Iterator[Any]:
        """Yield slices of the table."""
        self.done = 0
        for batch in self.table.select(list(columns)).to_batches(max_chunksize=self.sizes.rows):
            self.done += batch.num_rows
            yield batch


@dataclass(frozen=True)
class FileGroup:
    """Some Parquet files of a folder, which are read as one."""

    folder: RemoteFolder
    files: tuple[str, ...]
    schema: Any = field(repr=False)


class ParquetFiles(Source):
    """Rows of Parquet or Arrow files, file by file, row group by row group."""

    def __init__(self, group: FileGroup, sizes: ChunkSizes, kind: str = "parquet") -> None:
        self.group, self.sizes, self.kind = group, sizes, kind
        self.name, self.columns = group.folder.name, list(group.schema.names)
        self.total = 1
        self.rows: list[int] = []  # of each file that was read through

    @classmethod
    def at(
        cls, folder: RemoteFolder, sizes: ChunkSizes, kind: str = "parquet", *, counted: bool
    ) -> Self:
        """Open all files of a folder, or the file that it is; count their rows if need be."""
        listing = folder.parquet_files()
        names = tuple(file.name for file in listing.taken)
        try:
            data = as_dataset(folder, names, kind=kind)
            source = cls(FileGroup(folder, names, data.schema), sizes, kind)
            source.listing = listing
            source.total = data.count_rows() if counted else 1
        except (arrow().ArrowException, OSError, UnicodeError) as error:
            raise make_read_error(names[0] or folder.name, error) from None
        return source

    def chunks(self, columns: Sequence[str], skipped: Callable[[int, str], None]) -> Iterator[Any]:
        """Yield rows in the order of the files."""
        self.done, self.rows = 0, []
        for name in self.group.files:
            before = self.done
            try:
                for chunk in self._chunks(name, columns):
                    self.done += chunk.num_rows
                    yield chunk
            except (arrow().ArrowException, OSError) as error:
                raise make_read_error(name or self.name, error) from None
            self.rows.append(self.done - before)

    def _chunks(self, name: str, columns: Sequence[str]) -> Iterator[Any]:
        group = self.group
        data = as_dataset(group.folder, [name], group.schema, self.kind)
        for file in data.get_fragments():
            # One row group at a time: Arrow keeps all bytes of what it reads in one go.
            parts = file.split_by_row_group() if self.kind == "parquet" else [file]
            for part in parts:
                yield from part.to_batches(
                    schema=data.schema,
                    columns=list(columns),
                    batch_size=self.sizes.rows,
                    batch_readahead=1,
                    fragment_readahead=1,
                )

    def lines(self, places: Sequence[int]) -> Sequence[int | str]:
        """Return rows as they are counted in each file, with its name where there are several."""
        if len(self.group.files) == 1:
            return list(places)
        starts = np.cumsum([0, *self.rows])
        files = np.searchsorted(starts, places, "right") - 1
        return [
            f"{place - starts[n]} of {self.group.files[n]}"
            for place, n in zip(places, files.tolist(), strict=True)
        ]


def as_dataset(
    folder: RemoteFolder, files: Sequence[str], schema: Any = None, kind: str = "parquet"
) -> Any:
    """Return files as Arrow's dataset: folders of the form name=value are columns, too.

    Their values are text, as they stand there: as numbers, users 01 and 1 would be the same.
    """
    pa, dataset = arrow(), optional_module("pyarrow.dataset")
    paths = [folder.path(file) for file in files]
    folders = dict.fromkeys(part for path in paths for part in path.split("/")[:-1])
    names = dict.fromkeys(part.partition("=")[0] for part in folders if "=" in part)
    columns = pa.schema([(name, pa.string()) for name in names])
    return dataset.dataset(
        paths,
        schema=schema,
        format=kind,
        partitioning=dataset.partitioning(columns, flavor="hive"),
        filesystem=folder.system,
    )


def make_read_error(name: str, error: BaseException) -> InvalidLog:
    """Return the error for a file or table that Arrow or the system cannot read."""
    if isinstance(error, UnicodeError):
        why = f"it holds text that is no UTF-8: {error}"
    elif isinstance(error, OverflowError):
        why = "it holds whole numbers beyond 64 bits; turn them into floats, as by astype(float)"
    else:
        texts = [str(part) for part in error.args if isinstance(part, str)]
        why = "; ".join(texts).strip().partition("\n")[0] or type(error).__name__
    return InvalidLog(make_printable(f"{name} cannot be read: {why:.150}"))
