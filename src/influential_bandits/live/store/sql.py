"""What both stores share: the tables, and the questions asked of them."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import resources
from importlib.resources.abc import Traversable
from itertools import chain
from typing import Any, NamedTuple

from influential_bandits.bases import Closing
from influential_bandits.errors import InfluentialBanditsError, InvalidInput
from influential_bandits.live.events import DELETED, Decision, Event, encode
from influential_bandits.live.keys import Key

MOST_AT_ONCE = 500  # values in one question
CHUNK = 10_000  # rows fetched at a time
THERE = "WHERE events >= 0"  # of experiments that were not deleted
ROWS_AT_ONCE = (64, 16, 4, 1)  # of an insert; a few sizes, so that statements are prepared once


class StoreError(InfluentialBanditsError, RuntimeError):
    """The store cannot be reached or written.

    Nothing was acknowledged. If the connection broke during the commit, it may have happened all
    the same, so that a repeat must have the same identifiers.
    """


class ExperimentRow(NamedTuple):
    """An experiment in the store."""

    id: int
    name: str
    events: int  # number of the latest event
    instances: int  # number of the latest instance


class InstanceRow(NamedTuple):
    """An instance in the store."""

    experiment: int
    number: int
    label: str
    group: str
    since: float
    share: float  # of the control group, when the group was drawn


class Snapshot(NamedTuple):
    """A state in the store."""

    experiment: int
    instance: int
    number: int  # of the latest event that is in it
    fingerprint: str
    state: bytes


@dataclass
class Changes:
    """What a batch writes, in one transaction."""

    events: list[Event] = field(default_factory=list)
    instances: list[InstanceRow] = field(default_factory=list)
    decisions: dict[tuple[int, str], Decision] = field(default_factory=dict)  # new ones
    settled: dict[tuple[int, str], Decision] = field(default_factory=dict)  # known ones that moved
    snapshots: dict[tuple[int, int], Snapshot] = field(default_factory=dict)
    counts: dict[int, tuple[int, int]] = field(default_factory=dict)  # of events and instances
    written: dict[tuple[int, str], Decision] = field(default_factory=dict)  # in this transaction
    noted: list[tuple[str, str, float]] = field(default_factory=list)  # kind, experiment, its age

    def keep(self, decision: Decision) -> None:
        """Write a decision that is new, or has moved."""
        key = decision.experiment, decision.id
        (self.decisions if key in self.decisions else self.settled)[key] = decision

    def find(self, experiment: int, decision: str) -> Decision | None:
        """Return a decision that this batch writes."""
        key = experiment, decision
        return self.settled.get(key) or self.decisions.get(key) or self.written.get(key)


class Connection(Closing):
    """A connection, and the questions that can be asked over it."""

    @abstractmethod
    def run(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows."""

    @abstractmethod
    def stream(self, sql: str, values: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        """Run a question whose answer may not fit memory."""

    def migrate(self) -> None:
        """Bring the tables to the present version, step by step."""
        self.run("CREATE TABLE IF NOT EXISTS migrations (number BIGINT PRIMARY KEY, name TEXT)")
        done = {row[0] for row in self.run("SELECT number FROM migrations")}
        steps = {
            int(file.name.split("_")[0]): file
            for file in resources.files(__package__).joinpath("migrations").iterdir()
            if is_step(file)
        }
        if done - set(steps):
            raise StoreError(
                "the store was written by a newer version of influential-bandits; install that one"
            )
        for number in sorted(set(steps) - done):
            for statement in _statements(steps[number].read_text("utf-8")):
                self.run(statement)
            self.run("INSERT INTO migrations VALUES (?, ?)", (number, steps[number].name))

    def experiments(self) -> list[ExperimentRow]:
        """Return all experiments."""
        sql = f"SELECT id, name, events, instances FROM experiments {THERE} ORDER BY id"
        return [ExperimentRow(*row) for row in self.run(sql)]

    def experiment(self, number: int) -> ExperimentRow:
        """Return one of them."""
        sql = f"SELECT id, name, events, instances FROM experiments {THERE} AND id = ?"
        for row in self.run(sql, (number,)):
            return ExperimentRow(*row)
        raise InvalidInput("the experiment has just been deleted")

    def instances(self, experiment: int, after: int, most: int) -> list[InstanceRow]:
        """Return the instances after one of them, by their numbers."""
        sql = "SELECT * FROM instances WHERE experiment = ? AND number > ? ORDER BY number LIMIT ?"
        return [InstanceRow(*row) for row in self.run(sql, (experiment, after, most))]

    def events_of_experiment(self, experiment: int) -> list[Event]:
        """Return the events that concern all its instances."""
        sql = "SELECT * FROM events WHERE experiment = ? AND instance = 0 ORDER BY number"
        return [Event(*row) for row in self.run(sql, (experiment,))]

    def events_after(self, experiment: int, number: int) -> Iterator[Event]:
        """Yield all events of an experiment after one of them."""
        sql = "SELECT * FROM events WHERE experiment = ? AND number > ? ORDER BY number"
        return (Event(*row) for row in self.stream(sql, (experiment, number)))

    def events_of_instance(
        self, experiment: int, instance: int, after: int = 0, until: int = 2**62
    ) -> list[Event]:
        """Return the events of an instance."""
        sql = (
            "SELECT * FROM events WHERE experiment = ? AND instance = ? AND number > ? AND "
            "number <= ? ORDER BY number"
        )
        rows = self.run(sql, (experiment, instance, after, until))
        return [Event(*row) for row in rows]

    def meetings_of_instance(
        self, experiment: int, instance: int, before: int, most: int
    ) -> list[Event]:
        """Return the latest events before one by which an instance met an arm, in their order."""
        sql = (
            "SELECT * FROM events WHERE experiment = ? AND instance = ? AND number < ? AND "
            "kind IN ('decided', 'exposed') ORDER BY number DESC LIMIT ?"
        )
        rows = self.run(sql, (experiment, instance, before, most))
        return [Event(*row) for row in reversed(rows)]

    def instances_by(
        self, column: str, experiment: int, values: Iterable[str] | Iterable[int]
    ) -> list[InstanceRow]:
        """Return the instances with these labels or numbers, as far as they are known."""
        return [InstanceRow(*row) for row in self.in_parts("instances", column, experiment, values)]

    def decisions(self, experiment: int, ids: Iterable[str]) -> list[Decision]:
        """Return the decisions of these names, as far as they are known."""
        return [Decision(*row) for row in self.in_parts("decisions", "id", experiment, ids)]

    def late_decisions(self, now: float, most: int) -> list[Decision]:
        """Return decisions whose window has ended."""
        sql = "SELECT * FROM decisions WHERE deadline <= ? ORDER BY deadline LIMIT ?"
        return [Decision(*row) for row in self.run(sql, (now, most))]

    def oldest_decisions(self, experiment: int, most: int) -> list[Decision]:
        """Return decisions that wait for a loss, those whose window ends first."""
        sql = (
            "SELECT * FROM decisions WHERE deadline IS NOT NULL AND experiment = ? "
            "ORDER BY deadline LIMIT ?"
        )
        return [Decision(*row) for row in self.run(sql, (experiment, most))]

    def oldest_decisions_of(self, experiment: int, instance: int, most: int) -> list[Decision]:
        """Return decisions of an instance that were shown and wait, the first ones first."""
        sql = (
            "SELECT d.* FROM events AS e JOIN decisions AS d ON d.experiment = e.experiment AND "
            "d.id = e.decision WHERE e.experiment = ? AND e.instance = ? AND e.kind = 'decided' "
            "AND d.deadline IS NOT NULL AND d.ticket IS NOT NULL ORDER BY e.number LIMIT ?"
        )
        return [Decision(*row) for row in self.run(sql, (experiment, instance, most))]

    def snapshots(self, experiment: int, instances: Iterable[int]) -> list[Snapshot]:
        """Return snapshots of these instances, as far as there are any."""
        return [
            _read_snapshot(row)
            for row in self.in_parts("snapshots", "instance", experiment, instances)
        ]

    def states_of_users(self, experiment: int, fingerprint: str) -> Iterator[tuple[int, bytes]]:
        """Yield the instances of a fleet and their states, of which there may be a million."""
        sql = (
            "SELECT instance, state FROM snapshots WHERE experiment = ? AND instance > 0 AND "
            "fingerprint = ?"
        )
        return self.stream(sql, (experiment, fingerprint))

    def keys(self) -> list[Key]:
        """Return all keys."""
        return [Key(*row) for row in self.run("SELECT * FROM keys ORDER BY since, digest")]

    def in_parts(
        self, table: str, column: str, experiment: int, values: Iterable[Any]
    ) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of an experiment in which a column has one of these values."""
        wanted = list(values)
        for start in range(0, len(wanted), MOST_AT_ONCE):
            part = wanted[start : start + MOST_AT_ONCE]
            places = ",".join("?" * len(part))
            sql = f"SELECT * FROM {table} WHERE experiment = ? AND {column} IN ({places})"
            yield from self.run(sql, (experiment, *part))


class Store(Connection):
    """The connection that writes; transactions are whole or nothing."""

    has_erased = False  # since the last commit that was tidied up

    @abstractmethod
    def open_reader(self) -> Connection:
        """Return a connection for reading alone, for the thread that asks."""

    @abstractmethod
    def begin(self) -> None:
        """Start a transaction."""

    @abstractmethod
    def lock(self, experiments: Sequence[int]) -> dict[int, ExperimentRow]:
        """Let nobody else write to these experiments in this transaction; return how they stand."""

    @abstractmethod
    def commit(self) -> None:
        """Make the transaction durable."""

    @abstractmethod
    def roll_back(self) -> None:
        """Undo the transaction."""

    def tidy(self) -> None:
        """Do what is due after a commit."""

    @abstractmethod
    def run_many(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run a statement for each row."""

    def add_experiment(self, name: str) -> ExperimentRow:
        """Make room for an experiment."""
        latest = self.run("SELECT COALESCE(MAX(id), 0) FROM experiments")[0][0]
        row = ExperimentRow(latest + 1, name, 0, 0)
        self.run("INSERT INTO experiments VALUES (?, ?, ?, ?)", row)
        return row

    def write(self, changes: Changes) -> None:
        """Write what a batch has changed; the transaction may go on."""
        self._insert("instances", changes.instances)
        self._insert("events", changes.events)
        self._insert("decisions", list(changes.decisions.values()))
        if changes.settled:
            self.run_many(
                "UPDATE decisions SET ticket = ?, status = ?, loss = ?, deadline = ? "
                "WHERE experiment = ? AND id = ?",
                [
                    (d.ticket, d.status, d.loss, d.deadline, d.experiment, d.id)
                    for d in changes.settled.values()
                ],
            )
        if changes.snapshots:
            self.run_many(
                "INSERT INTO snapshots VALUES (?, ?, ?, ?, ?) ON CONFLICT (experiment, instance) "
                "DO UPDATE SET number = excluded.number, fingerprint = excluded.fingerprint, "
                "state = excluded.state",
                list(changes.snapshots.values()),
            )
        if changes.counts:
            self.run_many(
                "UPDATE experiments SET events = ?, instances = ? WHERE id = ?",
                [(*counts, experiment) for experiment, counts in changes.counts.items()],
            )
        changes.written.update(changes.decisions | changes.settled)
        for part in (changes.instances, changes.events):
            part.clear()
        for parts in (changes.decisions, changes.settled, changes.snapshots):
            parts.clear()

    def _insert(self, table: str, rows: Sequence[Sequence[Any]]) -> None:
        """Insert rows, many with one statement: each gives up the interpreter once."""
        start = 0
        for size in ROWS_AT_ONCE:
            while len(rows) - start >= size:
                row = f"({', '.join('?' * len(rows[0]))})"
                sql = f"INSERT INTO {table} VALUES {', '.join([row] * size)}"
                self.run(sql, list(chain.from_iterable(rows[start : start + size])))
                start += size

    def add_key(self, key: Key) -> None:
        """Keep a key."""
        self.run("INSERT INTO keys VALUES (?, ?, ?, ?, ?, ?)", key)

    def drop_key(self, digest: str) -> None:
        """Forget a key."""
        self.run("DELETE FROM keys WHERE digest = ?", (digest,))

    def delete_experiment(self, row: ExperimentRow, at: float) -> None:
        """Delete all that there is of an experiment, but that it was: its number stays taken."""
        self.has_erased = True
        for table in ("decisions", "events", "snapshots", "instances", "keys"):
            self.run(f"DELETE FROM {table} WHERE experiment = ?", (row.id,))
        data = encode({"name": row.name}).decode()
        self._insert("events", [Event(row.id, row.events + 1, 0, DELETED, at, data=data)])
        sql = "UPDATE experiments SET name = ?, events = -1 WHERE id = ?"
        self.run(sql, (f"{row.id}/{row.name}", row.id))  # no other is named so

    def erase(self, experiment: int, instance: int) -> None:
        """Delete all that there is of an instance."""
        self.has_erased = True
        for table, column in (
            ("decisions", "instance"),
            ("events", "instance"),
            ("snapshots", "instance"),
            ("instances", "number"),
        ):
            self.run(
                f"DELETE FROM {table} WHERE experiment = ? AND {column} = ?", (experiment, instance)
            )

    def unlink(self, experiment: int, instance: int, label: str) -> None:
        """Take from an instance all that tells who it was: its label, and names of decisions."""
        self.has_erased = True
        self.run(
            "UPDATE instances SET label = ? WHERE experiment = ? AND number = ?",
            (label, experiment, instance),
        )
        where = "WHERE experiment = ? AND instance = ?"
        self.run(f"DELETE FROM decisions {where}", (experiment, instance))
        self.run(f"UPDATE events SET decision = NULL {where}", (experiment, instance))


def is_step(file: Traversable) -> bool:
    """Tell whether a file is a step of the migration of a store."""
    return file.name.endswith(".sql")


def _read_snapshot(row: tuple[Any, ...]) -> Snapshot:
    experiment, instance, number, fingerprint, state = row
    return Snapshot(experiment, instance, number, fingerprint, bytes(state))


def _statements(text: str) -> list[str]:
    """Return the statements of a file, without comments."""
    plain = re.sub(r"--.*", "", text)
    return [part.strip() for part in plain.split(";") if part.strip()]
