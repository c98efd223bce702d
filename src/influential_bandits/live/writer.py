"""The writer: one thread that takes requests in batches, commits, and then answers.

An answer is given after its events are on disk. If the commit fails, nothing of the batch has
happened: the states that it touched are dropped and computed again from the store.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from influential_bandits.bases import Closing
from influential_bandits.errors import InfluentialBanditsError
from influential_bandits.live.events import Decision
from influential_bandits.live.experiment import Experiment
from influential_bandits.live.loading import Loader, catch_up
from influential_bandits.live.requests import Refused
from influential_bandits.live.states import AgentState
from influential_bandits.live.store.sql import Changes, ExperimentRow, Store, StoreError
from influential_bandits.live.transactions.of_store import StoreTransaction
from influential_bandits.live.transactions.transaction import Transaction

log = logging.getLogger("influential_bandits.live")

MOST_IN_BATCH = 512
BYTES_PER_EVENT = 500  # that snapshots may add to what is written
SWEEP_SECONDS = 1.0  # between two looks for losses that are overdue
MOST_OVERDUE = 200  # given up at a time
GATHER_SECONDS = 0.002  # at most, for those who were answered together to come again
PAUSE_SECONDS = 0.0003

Act = Callable[[Any, float], Any]  # of a Transaction, or of a StoreTransaction, and the time


@dataclass(slots=True)
class Job:
    """A request on its way: what to do, and whom to tell."""

    experiment: str  # its name; empty: the store itself
    act: Act
    reply: Callable[[Any], None]  # called by the writer's thread, with the answer or an exception
    decision: str | None = None  # that it names
    label: str | None = None  # of the instance that it names
    at: float = 0.0


@dataclass(frozen=True)
class Limits:
    """How much a writer holds in memory, and how often it writes states."""

    most_waiting: int = 8192  # requests; more are told to come later
    members_held: int = 100_000  # instances without a state of their own in memory
    state_bytes: int = 1 << 29  # of states in memory
    most_pending: int = 200_000  # decisions of a fleet that wait for a loss: half a gigabyte
    most_pending_each: int = 10_000  # of an instance with a state of its own: 3 MB
    events_per_snapshot: int = 64  # of an instance, at least
    events_per_shared_snapshot: int = 5000  # of a fleet, at least


class Writer(Closing):
    """The one who writes to a store.

    Parameters
    ----------
    store : Store
    clock : callable
        Seconds since 1970; the only clock of the service.
    limits
        Those of :class:`Limits`.
    """

    def __init__(
        self, store: Store, *, clock: Callable[[], float] = time.time, **limits: int
    ) -> None:
        self.store, self._limits = store, Limits(**limits)
        self._clock = clock
        self._loaded: dict[str, Experiment] = {}
        self._loader = Loader(store)
        self._waiting: deque[Job] = deque()
        self._wake = threading.Condition()
        self._closing = False
        self._memory = threading.Lock()  # held while a batch moves what is in memory
        self._next_sweep = 0.0
        self._latest = 0  # requests in the latest batch
        self._numbers: dict[str, int] = {}  # of experiments
        self.after_batch: Callable[[], None] = lambda: None  # when all of a batch have their reply
        # Told what was done: a kind of event or a step, the experiment, and seconds.
        self.note: Callable[[str, str, float], None] = lambda name, experiment, seconds: None
        self.batches = 0
        self.failures = 0
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """How many requests wait."""
        return len(self._waiting)

    @property
    def is_loading(self) -> bool:
        """Whether an experiment is being computed from its events, and cannot be asked yet."""
        return self._loader.is_busy

    def now(self) -> float:
        """Return the time, in seconds since 1970."""
        return self._clock()

    def sweep_soon(self) -> None:
        """Look for losses that are overdue after the next batch."""
        self._next_sweep = 0.0

    def submit(self, job: Job) -> None:
        """Put a request into the queue; its reply comes after the commit."""
        job.at = self._clock()
        with self._wake:
            if self._closing:
                raise Refused(503, "stopping", "the service is stopping")
            if len(self._waiting) >= self._limits.most_waiting:
                raise Refused(503, "busy", "too many requests wait; try again in a second")
            self._waiting.append(job)
            if len(self._waiting) == 1:
                self._wake.notify()

    def ask(self, experiment: str, act: Act, **names: Any) -> Any:
        """Put a request into the queue and wait for its answer."""
        done, answers = threading.Event(), []

        def reply(answer: Any) -> None:
            answers.append(answer)
            done.set()

        self.submit(Job(experiment, act, reply, **names))
        done.wait()
        if isinstance(answers[0], BaseException):
            raise answers[0]
        return answers[0]

    def look(self, experiment: str, events: int, question: Callable[[Experiment], Any]) -> Any:
        """Ask what is in memory between two batches, as soon as so many events are known there.

        A state that the question computes is kept. Nothing is written.
        """
        while True:
            with self._memory:
                loaded = self._loaded.get(experiment)
                if loaded is not None and loaded.applied >= events:
                    return question(loaded)
            self.ask(experiment, lambda work, at: None)  # another service has written the rest

    def close(self) -> None:
        """Finish what was accepted, and stop."""
        with self._wake:
            self._closing = True
            self._wake.notify()
        self._thread.join()
        self.store.close()

    def _run(self) -> None:
        while True:
            with self._wake:
                if not self._waiting and not self._closing:
                    self._wake.wait(SWEEP_SECONDS)
            self._gather()
            with self._wake:
                jobs = [
                    self._waiting.popleft() for _ in range(min(len(self._waiting), MOST_IN_BATCH))
                ]
                if not jobs and self._closing:
                    break
            if jobs:
                self._latest = len(jobs)
                self._serve(jobs)
            if time.monotonic() >= self._next_sweep:  # clocks are set forth and back
                self._next_sweep = time.monotonic() + SWEEP_SECONDS
                self._expire()
        self._keep_fleets()

    def _gather(self) -> None:
        """Let those come who were answered together, so that they share a commit again."""
        until, before = time.monotonic() + GATHER_SECONDS, 0
        while before < len(self._waiting) < self._latest and time.monotonic() < until:
            before = len(self._waiting)
            time.sleep(PAUSE_SECONDS)

    def _serve(self, jobs: Sequence[Job]) -> None:
        """Work on a batch; if it fails for a reason nobody foresaw, on each job by itself."""
        try:
            with self._memory:
                answers = self._commit(jobs)
        except StoreError as error:
            self.failures += 1
            log.warning("%s", error)
            answers = [Refused(503, "store", str(error))] * len(jobs)
        except Exception as error:
            self.failures += 1
            if len(jobs) > 1:
                for job in jobs:
                    self._serve([job])
                return
            log.exception("a request failed")
            answers = [error]
        for job, answer in zip(jobs, answers, strict=True):
            job.reply(answer)
        self.after_batch()

    def _commit(self, jobs: Sequence[Job]) -> list[Any]:
        """Work on a batch in one transaction; return the answers."""
        names = dict.fromkeys(job.experiment for job in jobs)
        changes, start = Changes(), time.perf_counter()
        try:
            self.store.begin()
            works = self._open(names, changes)
            for name, work in works.items():
                mine = [job for job in jobs if job.experiment == name]
                work.look_up(
                    {job.decision for job in mine if job.decision is not None},
                    {job.label for job in mine if job.label is not None},
                )

            def forget(name: str) -> None:
                for entries in (works, self._loaded, self._numbers):
                    entries.pop(name, None)

            store_work = StoreTransaction(self.store, changes, forget)
            answers = [
                self._act(works.get(job.experiment) if job.experiment else store_work, job)
                for job in jobs
            ]
            for name, work in works.items():
                self._keep_snapshots(self._loaded[name], work)
            self.store.write(changes)
            self.store.commit()
        except BaseException:
            for name in names:
                self._loaded.pop(name, None)
            self._roll_back()
            raise
        self.batches += 1
        self.note("commit", "", time.perf_counter() - start)
        for noted in changes.noted:
            self.note(*noted)
        self.store.tidy()
        return answers

    def _roll_back(self) -> None:
        try:
            self.store.roll_back()
        except StoreError as error:
            log.warning("%s", error)

    def _act(self, work: Transaction | StoreTransaction | None, job: Job) -> Any:
        if work is None and job.experiment in self._numbers:
            return Refused(503, "loading", f"{job.experiment!r:.80} is computed from its events")
        if work is None:
            return Refused(
                404, "unknown_experiment", f"there is no experiment {job.experiment!r:.80}"
            )
        try:
            return job.act(work, job.at)
        except Refused as refused:
            return refused
        except InfluentialBanditsError as error:
            if isinstance(error, StoreError):
                raise
            return Refused(422, "invalid", str(error))

    # Experiments.

    def _open(self, names: Iterable[str], changes: Changes) -> dict[str, Transaction]:
        """Lock experiments and bring them up to date with the store."""
        rows: dict[int, ExperimentRow] = {}
        for _ in range(2):
            if any(name and name not in self._numbers for name in names):
                self._numbers = {row.name: row.id for row in self.store.experiments()}
            numbers = [self._numbers[name] for name in names if name in self._numbers]
            rows = self.store.lock(numbers) if numbers else {}
            there = {row.name: row.id for row in rows.values()}
            gone = [name for name in names if there.get(name) != self._numbers.get(name)]
            if not gone:
                break
            for name in gone:  # another service has deleted it
                self._numbers.pop(name, None)
                self._loaded.pop(name, None)
        works: dict[str, Transaction] = {}
        for row in rows.values():
            loaded = self._loaded.get(row.name) or self._loader.load(row)
            if loaded is not None:
                self._loaded[row.name] = loaded
                catch_up(self.store, loaded, row)
                works[row.name] = Transaction(self.store, loaded, changes)
        return works

    # Snapshots and memory.

    def _keep_snapshots(self, experiment: Experiment, work: Transaction) -> None:
        """Write the states that are due, and let go of those not used for longest."""
        start, before = time.perf_counter(), work.count_snapshots()
        for member in experiment.touched.values():
            if member.since_snapshot >= self._count_due(member.snapshot_bytes):
                work.keep_snapshot(member)
            if isinstance(member.state, AgentState):
                many = member.state.count_pending() - self._limits.most_pending_each
                if many > 0:
                    experiment.crowded[member.number] = many
            if member.label in experiment.by_label:
                experiment.by_label.move_to_end(member.label)
        experiment.since_snapshot += experiment.noted
        experiment.touched.clear()
        experiment.noted = 0
        if experiment.shared is not None:
            rarest = experiment.snapshot_bytes // BYTES_PER_EVENT
            due = max(self._limits.events_per_shared_snapshot, rarest)
            if experiment.since_snapshot >= due:
                experiment.snapshot_bytes = work.keep_shared_snapshot()
                experiment.since_snapshot = 0
        if work.count_snapshots() > before:
            self.note("snapshot", experiment.name, time.perf_counter() - start)
        self._evict(experiment)

    def _count_due(self, snapshot_bytes: int) -> int:
        """Return after how many events of an instance its state is written again."""
        return max(self._limits.events_per_snapshot, snapshot_bytes // BYTES_PER_EVENT)

    def _evict(self, experiment: Experiment) -> None:
        """Let go of instances; the events since their snapshots are few enough to be read again."""
        if not experiment.by_label:
            return
        sample = next(reversed(experiment.by_label.values())).state
        each = sample.size if isinstance(sample, AgentState) else 400
        most = min(self._limits.members_held, max(self._limits.state_bytes // each, MOST_IN_BATCH))
        while len(experiment.by_label) > most:
            experiment.dismiss(next(iter(experiment.by_label.values())))

    def _keep_fleets(self) -> None:
        """Write the states of fleets before the end, so that the next start is quick."""
        for name in list(self._loaded):
            try:
                with self._memory:
                    self._commit([Job(name, _keep_fleet, lambda _: None)])
            except Exception:  # noqa: BLE001 - a snapshot is a convenience; the events are there
                log.warning("the states of %s were not kept", name)

    def _expire(self) -> None:
        """Give up losses whose window has ended."""
        try:
            late = self.store.late_decisions(self._clock(), MOST_OVERDUE)
            late += self._find_excess()
            names = {row.id: row.name for row in self.store.experiments()} if late else {}
        except StoreError as error:
            log.warning("%s", error)
            return
        jobs = [
            Job(
                names[decision.experiment],
                partial(_expire_one, decision),
                lambda _: None,
                decision=decision.id,
                at=self._clock(),
            )
            for decision in late
        ]
        if jobs:
            self._serve(jobs)
            if len(jobs) >= MOST_OVERDUE:
                self._next_sweep = 0.0

    def _find_excess(self) -> list[Decision]:
        """Return the oldest decisions where more wait for losses than memory is for."""
        excess = []
        for loaded in self._loaded.values():
            number, fleet = loaded.number, loaded.shared
            many = 0 if fleet is None else fleet.count_pending() - self._limits.most_pending
            if many > 0:
                excess += self.store.oldest_decisions(number, min(many, MOST_OVERDUE))
            for instance, many in loaded.crowded.items():
                excess += self.store.oldest_decisions_of(number, instance, min(many, MOST_OVERDUE))
            loaded.crowded.clear()
        return excess


def _expire_one(decision: Decision, work: Transaction, at: float) -> None:
    work.expire(decision, at)


def _keep_fleet(work: Transaction, at: float) -> None:
    work.keep_shared_snapshot()
