"""open_partitions: a folder of Parquet files as parts of whole instances, read anywhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from influential_bandits.errors import InvalidInput, InvalidLog
from influential_bandits.logs.addresses import Folder
from influential_bandits.logs.gathering import Gathering, about_source, require_rows
from influential_bandits.logs.log import EventLog
from influential_bandits.logs.membership import Membership
from influential_bandits.logs.numbering import Numbering
from influential_bandits.logs.options import ReadingOptions
from influential_bandits.logs.surveying import FileGroup, Reading, Survey, surveyed
from influential_bandits.simulation.execution import Execution, LocalExecution

__all__ = ["Partition", "PartitionedLog", "open_partitions"]


def open_partitions(
    address: str | Path,
    *,
    execution: Execution | None = None,
    folder: str | Path | None = None,
    progress: bool | None = None,
    **options: Any,
) -> PartitionedLog:
    """Open a folder of Parquet files as parts of whole instances."""
    plan = reading_options("open_partitions", options)
    where = LocalExecution() if execution is None else execution
    survey = surveyed(Folder.at(address), plan, where, progress)
    survey.bad.check(plan.bad_rows)
    require_rows(survey.source, survey.bad, sum(survey.events))
    if not survey.whole:
        raise InvalidLog(f"{survey.source.name} is not partitioned by instance")
    return PartitionedLog(_partitions(survey), survey.instances)


def reading_options(function: str, options: dict[str, Any]) -> ReadingOptions:
    """Return options of read_log that were passed on, or say which of them there are not."""
    unknown = sorted(set(options) - set(ReadingOptions.__dataclass_fields__))
    if unknown:
        raise InvalidInput(f"{function} has no option {', '.join(unknown)}")
    return ReadingOptions(**options)


@dataclass(frozen=True)
class _Common:
    """What all partitions of a log share."""

    reading: Reading
    membership: Membership
    about: dict[str, Any]


@dataclass(frozen=True)
class Partition:
    """Some whole instances of a log; small, and can be sent to other processes."""

    group: FileGroup
    n_events: int
    common: _Common = field(repr=False)

    def load(self) -> EventLog:
        """Read the events."""
        pipeline = self.common.reading.pipeline(self.group)
        instances, gathering = Numbering(), Gathering()
        for events in pipeline:
            gathering.append(instances.numbers(events.who), replace(events, key=None))
        membership = self.common.membership
        places = pipeline.codes.places(membership)
        if gathering.size != self.n_events or places.min() < 0:
            raise InvalidLog(
                f"{', '.join(self.group.files[:3])} of {self.group.folder.name} changed since the "
                f"log was opened: {gathering.size:,} good rows, not {self.n_events:,}; open it anew"
            )
        return gathering.log(instances.labels, membership, places, dict(self.common.about))


def _partitions(survey: Survey) -> tuple[Partition, ...]:
    membership, _ = survey.codes.membership()
    about = about_source(survey.source, survey.reading.plan, survey.bad)
    common = _Common(survey.reading, membership, about)
    return tuple(
        Partition(group, events, common)
        for group, events in zip(survey.groups, survey.events, strict=True)
        if events
    )


class PartitionedLog:
    """A log in parts of whole instances; made by :func:`open_partitions`."""

    def __init__(self, partitions: Sequence[Partition], instances: int) -> None:
        self.partitions = tuple(partitions)
        self.membership = self.partitions[0].common.membership
        self.about = dict(self.partitions[0].common.about)
        self.n_events = sum(part.n_events for part in self.partitions)
        self.n_instances = instances

    @property
    def arms(self) -> tuple[str, ...]:
        """Names of the arms."""
        return self.membership.arms

    def __iter__(self) -> Iterator[EventLog]:
        """Yield the logs of all partitions, one at a time."""
        repeated = 0
        for partition in self.partitions:
            log = partition.load()
            repeated += log.about["repeated"]
            yield log
        self.about["repeated"] = repeated

    def close(self) -> None:
        """Remove temporary files."""

    def __enter__(self) -> Self:
        """Return the log, which is closed in the end."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the log."""
        self.close()

    def __repr__(self) -> str:
        """Say the size."""
        return (
            f"PartitionedLog({self.n_events:,} events, {self.n_instances:,} instances, "
            f"{len(self.arms)} arms, {len(self.partitions)} partitions)"
        )
