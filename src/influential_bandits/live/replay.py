"""An audit: apply the events of a store again, and compare every decision with the one served."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from influential_bandits.live.events import DECIDED, Event
from influential_bandits.live.experiment import Difference, Experiment
from influential_bandits.live.store.opening import open_to_read
from influential_bandits.live.store.sql import Connection, ExperimentRow, InstanceRow

INSTANCES_AT_A_TIME = 2000  # with a state of their own


@dataclass(frozen=True)
class Audit:
    """What came out when an experiment was played again."""

    experiment: str
    events: int
    decisions: int
    differences: int
    first: Difference | None  # the first one

    def __str__(self) -> str:
        """Say it in a line."""
        counts = f"{self.experiment}: {self.decisions:,} decisions of {self.events:,} events"
        if self.first is None:
            return f"{counts}, all as served"
        return f"{counts}, {self.differences:,} differ; the first is {self.first}"


def replay_experiment(store: Connection, row: ExperimentRow) -> Audit:
    """Compute every decision of an experiment again from its events."""
    first_event = next(iter(store.events_of_experiment(row.id)), None)
    shared = first_event is not None and first_event.read().get("state") == "shared"
    events = decisions = differences = 0
    first: Difference | None = None
    for at, rows in enumerate(_gather_instances(store, row.id, all_at_once=shared)):
        experiment = Experiment(row.id, row.name, store, reads_snapshots=False)
        numbers = min(rows, default=1), max(rows, default=0)
        for event in _read_events(store, row.id, *numbers):
            if event.instance or at == 0:
                events += 1
            decisions += event.kind == DECIDED
            if event.instance in rows and event.instance not in experiment.members:
                new = rows.pop(event.instance)
                experiment.admit(new.number, new.label, new.group, new=True)
            difference = experiment.apply(experiment.members.get(event.instance), event)
            if difference is not None:
                differences += 1
                if first is None or event.number < first.event.number:
                    first = difference
    return Audit(row.name, events, decisions, differences, first)


def _gather_instances(
    store: Connection, experiment: int, *, all_at_once: bool
) -> Iterator[dict[int, InstanceRow]]:
    """Yield instances by number, so many as are to be in memory at a time; an empty one at last."""
    rows: dict[int, InstanceRow] = {}
    sql = "SELECT * FROM instances WHERE experiment = ? ORDER BY number"
    for values in store.run(sql, (experiment,)):
        rows[values[1]] = InstanceRow(*values)
        if len(rows) == INSTANCES_AT_A_TIME and not all_at_once:
            yield rows
            rows = {}
    yield rows


def _read_events(store: Connection, experiment: int, first: int, last: int) -> Iterator[Event]:
    """Yield the events of the experiment itself, and of some of its instances, in order."""
    sql = (
        "SELECT * FROM events WHERE experiment = ? AND (instance = 0 OR (instance >= ? AND "
        "instance <= ?)) ORDER BY number"
    )
    return (Event(*values) for values in store.stream(sql, (experiment, first, last)))


def replay_store(address: str) -> Iterator[Audit]:
    """Yield the audit of each experiment of a store, which is only read."""
    with open_to_read(address) as store:
        for row in store.experiments():
            yield replay_experiment(store, row)
