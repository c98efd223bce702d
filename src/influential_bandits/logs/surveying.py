"""What a folder of files holds, found out file by file wherever the work is done.

The client never sees a row. Of each group of files it gets the number of rows, the items, what is
wrong with bad rows, and 64 bits for each instance: enough to tell whether a group holds its
instances whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from influential_bandits.errors import InvalidLog
from influential_bandits.execution.base import Execution
from influential_bandits.execution.progress import Progress
from influential_bandits.logs import shuffling, sources
from influential_bandits.logs.addresses import MARKER, Folder
from influential_bandits.logs.bad_rows import BadRows, Found
from influential_bandits.logs.columns import arrow
from influential_bandits.logs.items import ItemCodes
from influential_bandits.logs.numbering import hashes
from influential_bandits.logs.options import ReadingOptions
from influential_bandits.logs.pipeline import Events, Pipeline, numeric_times
from influential_bandits.logs.sources import Source, as_dataset, check_columns, unreadable

__all__ = ["FileGroup", "FolderSource", "Reading", "Survey", "surveyed"]

Labels = npt.NDArray[np.uint64]  # hashes of labels, ascending

GROUP_BYTES = 8 << 20  # small files are looked at together, up to so many bytes
SPLIT_BYTES = 32 << 20  # files of more may be looked at by several workers
FEWEST_MERGED = 1 << 20  # hashes that wait until they are sorted into the others


class GroupSource(Source):
    """Rows of some Parquet files of a folder, file by file, row group by row group."""

    def __init__(
        self, folder: Folder, files: Sequence[str], schema: Any, row_groups: Sequence[int] | None
    ) -> None:
        self.folder, self.files, self.schema = folder, files, schema
        self.row_groups = row_groups
        self.name, self.columns = folder.name, list(schema.names)
        self.total = 1
        self.rows: list[int] = []  # of each file that was read through

    def batches(self, columns: Sequence[str], skipped: Callable[[int, str], None]) -> Iterator[Any]:
        """Yield batches in the order of the files."""
        self.rows = []
        for name in self.files:
            rows = 0
            try:
                for batch in self._batches(name, columns):
                    rows += batch.num_rows
                    yield batch
            except (arrow().ArrowException, OSError) as error:
                raise unreadable(name or self.name, error) from None
            self.rows.append(rows)

    def _batches(self, name: str, columns: Sequence[str]) -> Iterator[Any]:
        data = as_dataset(self.folder, [name], self.schema)
        for file in data.get_fragments():
            # One row group at a time: Arrow keeps all bytes of what it reads in one go.
            parts = file.split_by_row_group()
            for number in range(len(parts)) if self.row_groups is None else self.row_groups:
                yield from parts[number].to_batches(
                    schema=data.schema,
                    columns=list(columns),
                    batch_size=sources.ROWS,
                    batch_readahead=1,
                    fragment_readahead=1,
                )


class FolderSource(Source):
    """All files of a folder, for messages: what is said about rows names their files."""

    def __init__(self, folder: Folder) -> None:
        self.folder, self.name = folder, folder.name
        self.listing = folder.parquet_files()
        self.files = self.listing.taken
        names = [file.name for file in self.files]
        try:
            self.schema = as_dataset(folder, names).schema
        except (arrow().ArrowException, OSError) as error:
            raise unreadable(names[0] or self.name, error) from None
        self.columns = list(self.schema.names)
        self.total = len(self.files)
        self.pieces: list[tuple[str, int]] = []  # files, or parts of files: the name, the first row
        self.ends: list[int] = []  # of the rows of each piece among all, once they were counted

    def batches(self, columns: Sequence[str], skipped: Callable[[int, str], None]) -> Iterator[Any]:
        """Yield all rows."""
        for group in self.groups():
            yield from group.source().batches(columns, skipped)

    def lines(self, places: Sequence[int]) -> list[str]:
        """Return rows, counted in each file, with the names of the files."""
        return [self._line(place) for place in places]

    def _line(self, place: int) -> str:
        number = int(np.searchsorted(self.ends, place, "right"))
        start = self.ends[number - 1] if number else 0
        name, first = self.pieces[number]
        return f"{place - start + first} of {name or self.name}"

    def count(self, group: FileGroup, rows: Sequence[int]) -> None:
        """Take note of the rows of each file of the next group."""
        for name, number in zip(group.files, rows, strict=True):
            here, before = self.pieces[-1] if self.pieces else (None, 0)
            first = before + self._last() if here == name else 0
            self.pieces.append((name, first))
            self.ends.append((self.ends[-1] if self.ends else 0) + number)

    def _last(self) -> int:
        """Return how many rows the latest piece has."""
        return self.ends[-1] - (self.ends[-2] if len(self.ends) > 1 else 0)

    def groups(self) -> list[FileGroup]:
        """Return small neighbouring files together, and large ones in parts."""
        splitting = not self.folder.exists(MARKER)
        groups: list[FileGroup] = []
        names: list[str] = []
        size = 0
        for file in self.files:
            size += file.size
            if size > GROUP_BYTES and names:
                groups.append(FileGroup(self.folder, tuple(names), self.schema))
                names, size = [], file.size
            if splitting and file.size > SPLIT_BYTES:
                groups += self._parts(file.name)
                size = 0
            else:
                names.append(file.name)
        if names:
            groups.append(FileGroup(self.folder, tuple(names), self.schema))
        return groups

    def _parts(self, name: str) -> list[FileGroup]:
        """Return a file in parts, if it has too many rows for a partition."""
        try:
            (file,) = as_dataset(self.folder, [name], self.schema).get_fragments()
            rows = [group.num_rows for group in file.row_groups]
        except (arrow().ArrowException, OSError) as error:
            raise unreadable(name or self.name, error) from None
        if sum(rows) <= shuffling.MOST_EVENTS:
            return [FileGroup(self.folder, (name,), self.schema)]
        starts = np.cumsum([0, *rows[:-1]]) // shuffling.EVENTS_PER_PARTITION
        return [
            FileGroup(
                self.folder, (name,), self.schema, tuple(np.flatnonzero(starts == n).tolist())
            )
            for n in np.unique(starts)
        ]


@dataclass(frozen=True)
class FileGroup:
    """Some files of a folder, which are read as one."""

    folder: Folder
    files: tuple[str, ...]
    schema: Any = field(repr=False)
    row_groups: tuple[int, ...] | None = None  # of a file that is read in parts

    def source(self) -> GroupSource:
        """Open the files."""
        return GroupSource(self.folder, self.files, self.schema, self.row_groups)


@dataclass(frozen=True)
class Reading:
    """How files are read: the same for each of them, whoever reads it."""

    plan: ReadingOptions
    numeric_time: bool | None  # whether times that are text are numbers: the first rows decide

    def pipeline(self, group: FileGroup) -> Pipeline:
        """Return the way from the files of a group to checked events."""
        codes = ItemCodes(self.plan)
        return Pipeline(group.source(), self.plan, codes, False, self.numeric_time)


@dataclass
class GroupSurvey:
    """What a group of files holds."""

    rows: list[int]  # of each file
    events: int  # good rows
    items: list[str]
    bad: dict[str, Found]
    instances: Labels


@dataclass(frozen=True)
class Surveyor:
    """Looks at a group of files; the work that is sent away."""

    reading: Reading

    def __call__(self, group: FileGroup) -> GroupSurvey:
        """Read a group of files through; hold one batch of rows, and 8 bytes an instance."""
        pipeline = self.reading.pipeline(group)
        met, events = Distinct(), 0
        for batch in pipeline:
            events += len(batch.who)
            met.add(instance_hashes(batch))
        rows = pipeline.source.rows if isinstance(pipeline.source, GroupSource) else []
        items = [] if pipeline.codes.fixed else list(pipeline.codes.members)
        return GroupSurvey(rows, events, items, pipeline.bad.found, met.values())


def instance_hashes(events: Events) -> Labels:
    """Return 64 bits for the instance of each event, (events,)."""
    return hashes([events.who])[:, 0]


class Distinct:
    """Different hashes of many; sorted now and then, when there are twice as many."""

    def __init__(self) -> None:
        self._sorted: Labels = np.zeros(0, np.uint64)
        self._waiting: list[Labels] = []
        self._size = 0

    def add(self, values: Labels) -> bool:
        """Add hashes, in any order; tell whether all are sorted now."""
        self._waiting.append(_different(values.copy()))
        self._size += len(self._waiting[-1])
        if self._size > max(FEWEST_MERGED, len(self._sorted)):
            self.values()
        return not self._waiting

    def values(self) -> Labels:
        """Return those met so far, ascending."""
        if self._waiting:
            self._sorted = _different(np.concatenate([self._sorted, *self._waiting]))
            self._waiting, self._size = [], 0
        return self._sorted


def _different(values: Labels) -> Labels:
    """Sort values where they are, and return each once; NumPy's own way is many times slower."""
    values.sort()
    new = np.ones(len(values), bool)
    np.not_equal(values[1:], values[:-1], out=new[1:])
    return values[new]


class Apart:
    """Whether sets of hashes have none in common; forgets them as soon as two of them have.

    Two instances of the same 64 bits would be taken for one that is in two files. Among 100 million
    that happens once in 4,000 logs, and costs no more than a needless repartitioning.
    """

    def __init__(self) -> None:
        self.so_far = True
        self._all = Distinct()
        self._added = 0

    def add(self, values: Labels) -> None:
        """Add a set."""
        if self.so_far:
            self._added += len(values)
            if self._all.add(values):
                self.check()

    def check(self) -> int:
        """Return how many there are, or 0 if two sets overlap."""
        if self.so_far and len(self._all.values()) < self._added:
            self.so_far, self._all = False, Distinct()
        return self._added if self.so_far else 0


@dataclass
class Survey:
    """What a folder holds."""

    source: FolderSource
    reading: Reading
    groups: list[FileGroup]
    events: list[int]  # good rows of each group
    codes: ItemCodes
    bad: BadRows
    whole: bool  # whether no instance is in two groups
    instances: int  # how many there are, if so


def surveyed(
    folder: Folder, plan: ReadingOptions, execution: Execution, progress: bool | None
) -> Survey:
    """Look at all files of a folder."""
    codes = ItemCodes(plan)
    source = FolderSource(folder)
    check_columns(source, plan.columns)
    groups = source.groups()
    reading = Reading(plan, _numeric_time(source, plan))
    bar = Progress(f"surveying {source.name}", len(groups), progress)
    bad, apart, events = BadRows(source), Apart(), []
    for group, found in zip(groups, execution.map(Surveyor(reading), groups, bar), strict=True):
        _count_bad_rows(bad, found.bad, source.ends[-1] if source.ends else 0)
        source.count(group, found.rows)
        events.append(found.events)
        if not codes.fixed:
            codes.numbers(arrow().array(found.items, arrow().string()))
        apart.add(found.instances)
    instances = apart.check()
    return Survey(source, reading, groups, events, codes, bad, apart.so_far, instances)


def _count_bad_rows(bad: BadRows, more: dict[str, Found], start: int) -> None:
    for reason, found in more.items():
        bad.add_places(reason, [start + place for place in found.places], found.count)
        if bad.found[reason].count == found.count:
            bad.found[reason].example = found.example


def _numeric_time(source: FolderSource, plan: ReadingOptions) -> bool | None:
    """Look at the first rows if times are text, as reading them all at once would."""
    if plan.time is None:
        return None
    try:
        for batch in source.batches([plan.time], lambda *_: None):
            if batch.num_rows:
                return numeric_times(batch.column(0))
    except InvalidLog:  # the survey says what is wrong, and with which file
        return None
    return None
