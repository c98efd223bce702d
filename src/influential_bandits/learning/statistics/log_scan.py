"""One pass over a log: what every fit has to know beforehand, and a sample of whole histories.

The sample holds the instances of the smallest ranks, a rank being a seeded hash of the label. So a
sample of parts is made of samples of each, in any order, and an instance is drawn or not whatever
the parts are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from influential_bandits.errors import ClusterError, Unfinished
from influential_bandits.execution.base import Execution, Outcome
from influential_bandits.execution.local import LocalExecution
from influential_bandits.learning.statistics import pooled_sums as pooling
from influential_bandits.learning.statistics.pooled_sums import Sums, arm_sums
from influential_bandits.learning.statistics.reduction import (
    leaves,
    loaded,
    name_of,
    require_events,
    summed,
    tree_sum,
)
from influential_bandits.logs.log import EventLog, joined
from influential_bandits.numerics.arrays import Ints

__all__ = [
    "KeptSurveys",
    "PartSurvey",
    "Sampling",
    "Survey",
    "log_digest",
    "lowest",
    "ranks_of",
    "sample",
    "surveyed",
]

Ranks = npt.NDArray[np.uint64]

INSTANCES = 20_000  # of the sample, at most
EVENTS = 4_000_000  # of the sample, at most, as long as it has the fewest instances
FEWEST = 300


PartSurvey: TypeAlias = "tuple[Sums, Ranks, EventLog, str]"


class KeptSurveys(Protocol):
    """What an earlier attempt has found out about single parts, for a survey that goes on."""

    def find(self, number: int, part: Any) -> PartSurvey | None:
        """Return what is known of a part, if anything is."""

    def keep(self, number: int, part: Any, found: PartSurvey) -> None:
        """Keep it for the next attempt."""


class Survey(NamedTuple):
    """What one pass over a log has found."""

    parts: Any  # what can be worked on, again and again
    sums: Sums
    sample: EventLog  # of all instances, if they are few enough
    digests: dict[int, str]  # of the contents of parts, by number; of a log in memory none
    failed: dict[int, str]  # numbers of parts that cannot be used, their names and why


def ranks_of(labels: Iterable[str], seed: int) -> Ranks:
    """Return a number for each label, as good as random, (labels,)."""
    key = hashlib.blake2b(str(seed).encode(), digest_size=16).digest()
    data = b"".join(
        hashlib.blake2b(label.encode("utf-8", "surrogatepass"), digest_size=8, key=key).digest()
        for label in labels
    )
    return np.frombuffer(data, "<u8").astype(np.uint64)


def lowest(
    ranks: Ranks, lengths: Ints, instances: int | None = None, events: int | None = None
) -> Ints:
    """Return the numbers, in order, of the instances that a sample of all of these holds."""
    order = np.argsort(ranks, kind="stable")[: INSTANCES if instances is None else instances]
    within = np.cumsum(lengths[order]) <= (EVENTS if events is None else events)
    within[:FEWEST] = True
    return np.sort(order[within])


def sample(parts: Iterable[EventLog], seed: int, instances: int = FEWEST) -> EventLog:
    """Return the log of some instances, those of the smallest ranks, of logs in memory."""
    drawn = Sampling(instances)
    for number, log in enumerate(parts):
        met = log.take(np.flatnonzero(log.lengths))
        drawn.add(number, ranks_of(met.instances, seed), met)
    return drawn.log()


class Sampling:
    """A sample that grows part by part, in any order, and is cut back when it is too large."""

    def __init__(self, instances: int | None = None) -> None:
        self._instances = INSTANCES if instances is None else instances
        self._held: list[tuple[int, Ranks, EventLog]] = []
        self._size = self._events = 0

    def add(self, number: int, ranks: Ranks, log: EventLog) -> None:
        """Take candidates of part ``number``."""
        self._held.append((number, ranks, log))
        self._size += log.n_instances
        self._events += len(log)
        if self._size > 2 * self._instances or self._events > 2 * EVENTS:
            self._cut()

    def log(self) -> EventLog:
        """Return the sample, instances in the order of the parts."""
        self._cut()
        logs = [log for _, _, log in self._held]
        return logs[0] if len(logs) == 1 else joined(logs)

    def _cut(self) -> None:
        held = sorted(self._held, key=lambda each: each[0])
        ranks = np.concatenate([ranks for _, ranks, _ in held])
        lengths = np.concatenate([log.lengths for _, _, log in held])
        kept = np.zeros(len(ranks), bool)
        kept[lowest(ranks, lengths, self._instances)] = True
        self._held, start = [], 0
        for number, mine, log in held:
            chosen = np.flatnonzero(kept[start : start + len(mine)])
            start += len(mine)
            if len(chosen) or not self._held:
                left = log if len(chosen) == len(mine) else log.take(chosen)
                self._held.append((number, mine[chosen], left))
        self._size = sum(log.n_instances for _, _, log in self._held)
        self._events = sum(len(log) for _, _, log in self._held)


def surveyed(log: Any, seed: int, execution: Execution, kept: KeptSurveys | None = None) -> Survey:
    """Survey a log: in memory, a stream, or partitions, of which some may be known already."""
    if isinstance(log, EventLog):
        return _surveyed_memory(log, seed, execution)
    parts: Any = getattr(log, "partitions", log)
    threshold = _threshold(getattr(log, "n_instances", None))
    work = partial(_survey_part, arms=len(log.arm_names), seed=seed, threshold=threshold)
    tasks = enumerate(leaves(parts, pooling.CHUNK))
    digests: dict[int, str] = {}
    failed: dict[int, str] = {}
    drawn = Sampling()

    def in_order() -> Iterator[Sums]:
        early: dict[int, Sums | None] = {}  # of parts that were finished before their turn
        turn = 0
        for outcome in _outcomes(work, tasks, execution, kept):
            number, part = outcome.task
            if outcome.error is not None:
                if isinstance(part, EventLog) or isinstance(outcome.error, ClusterError):
                    raise outcome.error
                failed[number] = f"{name_of(part, number)}: {outcome.error}"
                early[number] = None
            else:
                early[number], ranks, histories, digests[number] = outcome.result
                drawn.add(number, ranks, histories)
            while turn in early:
                sums = early.pop(turn)
                turn += 1
                if sums is not None:
                    yield sums

    sums = tree_sum(in_order())
    if sums is None and failed:
        raise Unfinished(f"no partition can be used: {next(iter(failed.values()))}")
    require_events(0 if sums is None else sums.events)
    if failed:
        parts = [part for number, part in enumerate(parts) if number not in failed]
    return Survey(parts, sums, drawn.log(), digests, failed)


def _outcomes(
    work: Any, tasks: Iterable[tuple[int, Any]], execution: Execution, kept: KeptSurveys | None
) -> Iterator[Outcome]:
    """Yield what is known first, then what has to be found out, which is kept as it comes."""
    if kept is None:
        yield from execution.outcomes(work, tasks)
        return
    missing = []
    for task in tasks:
        found = kept.find(*task)
        if found is None:
            missing.append(task)
        else:
            yield Outcome(task, found)
    for outcome in execution.outcomes(work, missing):
        if outcome.error is None:
            number, part = outcome.task
            kept.keep(number, part, outcome.result)
        yield outcome


def _surveyed_memory(log: EventLog, seed: int, execution: Execution) -> Survey:
    """Survey a log that is here already, whatever the execution: sending it would take longer."""
    threads = execution.threads if isinstance(execution, LocalExecution) else None
    work = partial(arm_sums, arms=log.n_arms)
    sums: Any = summed(work, [log], pooling.CHUNK, LocalExecution(threads))
    drawn = log
    if log.n_instances > INSTANCES or len(log) > EVENTS:
        drawn = log.take(lowest(ranks_of(log.instances, seed), log.lengths))
    return Survey([log], sums, drawn, {}, {})


def _threshold(instances: int | None) -> np.uint64:
    """Return the rank above which no instance is drawn, so that parts need not send more.

    The sample of so many instances is short of its size with a probability below 1e-8.
    """
    most = INSTANCES + 6.0 * np.sqrt(INSTANCES) + 20.0
    if instances is None or instances <= most:
        return np.uint64(2**64 - 1)
    return np.uint64(int(most / instances * 2**64))


def _survey_part(
    task: tuple[int, Any], threads: int | None, arms: int, seed: int, threshold: np.uint64
) -> PartSurvey:
    """Return the sums of a part, its candidates for the sample, and a digest of its contents."""
    log = loaded(task[1])
    sums = tree_sum(arm_sums(chunk, arms) for chunk in log.parts(pooling.CHUNK))
    ranks = ranks_of(log.instances, seed)
    low = np.flatnonzero(ranks <= threshold)
    chosen = low[lowest(ranks[low], log.lengths[low])]
    sums = arm_sums(log, arms) if sums is None else sums
    return sums, ranks[chosen], log.take(chosen), log_digest(log)


def log_digest(log: EventLog) -> str:
    """Return a number for all events of a log, in order."""
    digest = hashlib.blake2b(
        "\0".join(log.instances).encode("utf-8", "surrogatepass"), digest_size=8
    )
    for column in (log.offsets, log.item, log.loss, log.time):
        digest.update(b";" if column is None else np.ascontiguousarray(column).tobytes())
    return digest.hexdigest()
