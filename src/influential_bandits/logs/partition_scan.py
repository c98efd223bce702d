"""What the files of a folder hold, scanned group by group wherever the work is done.

The client never sees a row. Of each group of files it gets the number of rows, the items, what is
wrong with bad rows, and 64 bits for each instance: enough to tell whether a group holds its
instances whole.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from influential_bandits.execution.base import Execution
from influential_bandits.execution.progress import Progress
from influential_bandits.logs.bad_rows import BadRows, Fault
from influential_bandits.logs.columns import arrow, make_column_error
from influential_bandits.logs.controls import kind_of_type
from influential_bandits.logs.event_scan import EventScan
from influential_bandits.logs.find_columns import find_columns
from influential_bandits.logs.items import ItemCodes
from influential_bandits.logs.log_builder import describe_source
from influential_bandits.logs.options import ReadingOptions
from influential_bandits.logs.remote_folder import RemoteFolder
from influential_bandits.logs.shuffle import DistinctHashes, Hashes, hash_labels
from influential_bandits.logs.tables import FileGroup, ParquetFiles
from influential_bandits.logs.times import Clock


def _group_files(source: ParquetFiles) -> list[FileGroup]:
    """Return the files of a folder, small neighbours together."""
    groups: list[list[str]] = [[]]
    size = 0
    for file in source.listing.taken if source.listing else ():
        size += file.size
        if size > source.sizes.group and groups[-1]:
            groups.append([])
            size = file.size
        groups[-1].append(file.name)
    folder, schema = source.group.folder, source.group.schema
    return [FileGroup(folder, tuple(names), schema) for names in groups]


@dataclass(frozen=True)
class GroupReader:
    """How files are read: the same for each of them, whoever reads it."""

    plan: ReadingOptions
    clock: Clock  # how times are read: the first rows decide

    def scan(self, group: FileGroup) -> EventScan:
        """Return the checked events of a group of files."""
        source = ParquetFiles(group, self.plan.sizes)
        return EventScan(source, self.plan, ItemCodes(self.plan), False, self.clock)

    def __call__(self, group: FileGroup) -> GroupSummary:
        """Read a group of files through; hold one chunk of rows, and 8 bytes an instance."""
        scan = self.scan(group)
        met, events = DistinctHashes(self.plan.sizes.hashes), 0
        for chunk in scan:
            events += len(chunk.instance)
            met.add(hash_labels(chunk.instance))
        rows = scan.source.rows if isinstance(scan.source, ParquetFiles) else []
        items = [] if scan.codes.fixed else list(scan.codes.members)
        categories = scan.codes.controls.labels()
        bad, span = scan.bad.faults, scan.span
        return GroupSummary(rows, events, items, categories, bad, met.values(), span)


@dataclass
class GroupSummary:
    """What a group of files holds."""

    rows: list[int]  # of each file
    events: int  # good rows
    items: list[str]
    categories: dict[str, list[str]]  # of controls
    bad: dict[str, Fault]
    instances: Hashes  # ascending
    span: tuple[float, float]  # first and last time of good rows


@dataclass
class FolderScan:
    """What a folder holds."""

    source: ParquetFiles
    reader: GroupReader
    groups: list[FileGroup]
    events: list[int]  # good rows of each group
    codes: ItemCodes
    bad: BadRows
    instances: int
    whole: bool  # whether no instance is in two groups
    span: tuple[float, float]  # first and last time of good rows

    def describe(self) -> dict[str, Any]:
        """Return where the events come from and what was done to them."""
        plan = self.reader.plan
        return describe_source(
            self.source, plan, self.bad, plan.control_kinds, self.reader.clock, self.span
        )


def scan_partitions(
    folder: RemoteFolder, plan: ReadingOptions, execution: Execution, progress: bool | None
) -> FolderScan:
    """Read all files of a folder through, group by group."""
    source = ParquetFiles.at(folder, plan.sizes, counted=False)
    plan = settle_controls(find_columns(plan, source, items=False), source.group.schema)
    codes = ItemCodes(plan)
    groups = _group_files(source)
    reader = GroupReader(plan, _settle_clock(source, plan))
    bar = Progress(f"scanning {source.name}", len(groups), progress)
    bad, events, met = BadRows(source), [], 0
    instances, span = DistinctHashes(plan.sizes.hashes), (np.inf, -np.inf)
    source.rows = []
    for summary in execution.map(reader, groups, bar):
        _count_bad_rows(bad, summary.bad, sum(source.rows))
        source.rows += summary.rows
        events.append(summary.events)
        if not codes.fixed:
            codes.encode(arrow().array(summary.items, arrow().string()))
        codes.controls.add(summary.categories)
        instances.add(summary.instances)
        met += len(summary.instances)
        span = min(span[0], summary.span[0]), max(span[1], summary.span[1])
    # Two instances of the same hash are taken for one that is in two groups: among 100 million
    # that happens in one of 4,000 logs, and costs no more than sorting what need not be sorted.
    distinct = len(instances.values())
    whole = distinct == met
    return FolderScan(source, reader, groups, events, codes, bad, distinct, whole, span)


def settle_controls(plan: ReadingOptions, schema: Any) -> ReadingOptions:
    """Return options that say of each control whether it is numbers or categories."""
    controls = tuple(
        each._replace(kind=each.kind or kind_of_type(schema.field(each.column).type))
        for each in plan.control_columns
    )
    return replace(plan, item=None, controls=controls) if controls else plan


def _count_bad_rows(bad: BadRows, more: dict[str, Fault], start: int) -> None:
    for reason, fault in more.items():
        bad.add_places(reason, [start + place for place in fault.places], fault.count)
        if bad.faults[reason].count == fault.count:
            bad.faults[reason].example = fault.example


def _settle_clock(source: ParquetFiles, plan: ReadingOptions) -> Clock:
    """Look at the first rows that have times, as reading them all at once would."""
    clock = plan.clock
    if plan.time is None:
        return clock
    try:
        for chunk in source.chunks([plan.time], lambda *_: None):
            if chunk.num_rows and not clock.settled:
                clock = clock.settle(chunk.column(0), plan.time)
            if clock.settled:
                break
    except arrow().ArrowException as error:
        raise make_column_error(plan.time, error, "times") from None
    return clock
