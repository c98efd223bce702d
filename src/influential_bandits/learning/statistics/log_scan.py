"""One pass over a log: what every fit has to know beforehand, and a sample of whole histories.

The sample holds the instances of the smallest ranks, where a rank is a seeded hash of the label. So
whether an instance is drawn does not depend on how the log is cut into parts: each part sends its
candidates, and the smallest ranks of all are kept.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from influential_bandits.execution.base import Execution
from influential_bandits.learning.statistics.pooled_sums import ArmSums, arm_sums
from influential_bandits.learning.statistics.reduction import (
    CHUNK,
    add_over_chunks,
    add_over_parts,
    load_part,
    local_threads,
    require_events,
    split_in_chunks,
    tree_sum,
)
from influential_bandits.logs.log import EventLog, concatenate_logs
from influential_bandits.numerics.arrays import Ints

Ranks = npt.NDArray[np.uint64]
SEED = 0  # of the samples that fits take of very many instances


class SampleSize(NamedTuple):
    """How large a sample of histories may be."""

    instances: int = 20_000
    events: int = 4_000_000  # as long as the sample has the fewest instances
    fewest: int = 300

    def threshold(self, instances: int | None) -> np.uint64:
        """Return the rank above which none of so many instances is drawn: parts need not send more.

        The sample is then short of its size with a probability below 1e-8.
        """
        most = self.instances + 6.0 * np.sqrt(self.instances) + 20.0
        if instances is None or instances <= most:
            return np.uint64(2**64 - 1)
        return np.uint64(int(most / instances * 2**64))


class LogScan(NamedTuple):
    """What one pass over a log has found."""

    parts: Any  # what can be worked on, again and again
    sums: ArmSums
    sample: EventLog  # of all instances, if they are few enough
    chunk: int = CHUNK  # events that later passes work on at a time


def rank_labels(labels: Iterable[str], seed: int | None = None) -> Ranks:
    """Return a number for each label, as good as random, (labels,); with a seed, other ones."""
    key = b""
    if seed is not None:
        key = hashlib.blake2b(str(seed).encode(), digest_size=16).digest()
    data = b"".join(
        hashlib.blake2b(label.encode("utf-8", "surrogatepass"), digest_size=8, key=key).digest()
        for label in labels
    )
    return np.frombuffer(data, "<u8").astype(np.uint64)


def choose_lowest(ranks: Ranks, lengths: Ints, size: SampleSize) -> Ints:
    """Return the numbers, in order, of the instances that a sample of all of these holds."""
    order = np.argsort(ranks, kind="stable")[: size.instances]
    within = np.cumsum(lengths[order]) <= size.events
    within[: size.fewest] = True
    return np.sort(order[within])


def sample_instances(log: EventLog, seed: int, instances: int = SampleSize().fewest) -> EventLog:
    """Return the log of so many instances that met anything, those of the smallest ranks."""
    met = log.take(np.flatnonzero(log.lengths))
    ranks = rank_labels(met.instances, seed)
    return met.take(choose_lowest(ranks, met.lengths, SampleSize(instances)))


def draw_instances(log: EventLog, events: int, seed: int) -> EventLog:
    """Return a log of at most so many events: of instances drawn at random, if need be."""
    if len(log) <= events:
        return log
    order = np.random.default_rng(seed).permutation(log.n_instances)
    within = np.cumsum(log.lengths[order]) <= events
    return log.take(np.sort(order[within]))


def thin_out(log: EventLog, events: int) -> EventLog:
    """Return evenly spaced instances of a log of more than so many events, about that many."""
    step = -(-len(log) // events)
    return log.take(np.arange(0, log.n_instances, step)) if step > 1 else log


class HistorySample:
    """A sample that grows part by part, and is cut back when it is too large."""

    def __init__(self, size: SampleSize) -> None:
        self._size = size
        self._held: list[tuple[Ranks, EventLog]] = []
        self._instances = self._events = 0

    def add(self, ranks: Ranks, log: EventLog) -> None:
        """Take the candidates of a part."""
        self._held.append((ranks, log))
        self._instances += log.n_instances
        self._events += len(log)
        if self._instances > 2 * self._size.instances or self._events > 2 * self._size.events:
            self._cut()

    def log(self) -> EventLog:
        """Return the sample, instances in their order."""
        self._cut()
        logs = [log for _, log in self._held]
        return logs[0] if len(logs) == 1 else concatenate_logs(logs)

    def _cut(self) -> None:
        held, start = self._held, 0
        ranks = np.concatenate([ranks for ranks, _ in held])
        lengths = np.concatenate([log.lengths for _, log in held])
        drawn = np.zeros(len(ranks), bool)
        drawn[choose_lowest(ranks, lengths, self._size)] = True
        self._held = []
        for mine, log in held:
            chosen = np.flatnonzero(drawn[start : start + len(mine)])
            start += len(mine)
            if len(chosen) or not self._held:
                left = log if len(chosen) == len(mine) else log.take(chosen)
                self._held.append((mine[chosen], left))
        self._instances = sum(log.n_instances for _, log in self._held)
        self._events = sum(len(log) for _, log in self._held)


def scan_log(
    log: Any,
    seed: int,
    execution: Execution,
    *,
    chunk: int = CHUNK,
    size: SampleSize = SampleSize(),  # noqa: B008 - immutable
) -> LogScan:
    """Scan a log: in memory, a stream, or partitions."""
    if isinstance(log, EventLog):
        return _scan_memory(log, seed, execution, chunk, size)
    parts: Any = getattr(log, "partitions", log)
    threshold = size.threshold(getattr(log, "n_instances", None))
    settings: dict[str, Any] = {"seed": seed, "threshold": threshold, "chunk": chunk, "size": size}
    work = partial(_scan_part, arms=len(log.arm_names), **settings)
    drawn = HistorySample(size)

    def in_order() -> Iterator[ArmSums]:
        results = execution.map(work, split_in_chunks(parts, chunk))
        for sums, ranks, histories in results:
            drawn.add(ranks, histories)
            yield sums

    sums = tree_sum(in_order())
    require_events(0 if sums is None else sums.events)
    return LogScan(parts, sums, drawn.log(), chunk)


def _scan_memory(
    log: EventLog, seed: int, execution: Execution, chunk: int, size: SampleSize
) -> LogScan:
    """Scan a log that is here already, whatever the execution: sending it would take longer."""
    work = partial(arm_sums, arms=log.n_arms)
    sums = add_over_parts(work, [log], local_threads(execution), chunk)
    drawn = log
    if log.n_instances > size.instances or len(log) > size.events:
        drawn = log.take(choose_lowest(rank_labels(log.instances, seed), log.lengths, size))
    return LogScan([log], sums, drawn, chunk)


def _scan_part(
    part: Any, *, arms: int, seed: int, threshold: np.uint64, chunk: int, size: SampleSize
) -> tuple[ArmSums, Ranks, EventLog]:
    """Return the sums of a part, and its candidates for the sample with their ranks."""
    log = load_part(part)
    sums = add_over_chunks(partial(arm_sums, arms=arms), log, chunk)
    ranks = rank_labels(log.instances, seed)
    low = np.flatnonzero(ranks <= threshold)
    chosen = low[choose_lowest(ranks[low], log.lengths[low], size)]
    return sums, ranks[chosen], log.take(chosen)
