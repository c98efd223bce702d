"""A log in parts: one part is worked on at a time, here or on a cluster, and sums keep their bits.

A *part* is a log in memory, or a *partition*: anything small and picklable with ``load()``, of a
log that nobody has room for. A *chunk* is a part of a log in memory, of about so many events.
Results are added along a binary tree over their numbers, so that the order of additions depends on
the data alone, and not on threads or workers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Protocol, runtime_checkable

import numpy as np

from influential_bandits.errors import InfluentialBanditsError, InvalidLog, Unfinished
from influential_bandits.execution.base import Execution
from influential_bandits.execution.local import LocalExecution, resolve_execution
from influential_bandits.logs.log import EventLog, change_log
from influential_bandits.packages import optional_module

CHUNK = 500_000  # events
EVEN_CHUNKS = 128  # of a log in memory whose instances are fitted one by one


@runtime_checkable
class HasPartitions(Protocol):
    """A log that is never whole: partitions of whole instances, loaded where they are needed."""

    @property
    def partitions(self) -> Sequence[Any]:
        """Small, picklable objects with ``load() -> EventLog``."""

    @property
    def arm_names(self) -> tuple[str, ...]:
        """Names of the arms, the same in all partitions."""

    @property
    def about(self) -> dict[str, Any]:
        """Where the log comes from and what was done to it."""


class _SingleThreadedAlgebra:
    """Keeps linear algebra on one thread each: several fits run side by side already.

    Workers of a cluster enter it with every task, on several threads of one process: the first one
    sets the limit, the last one lifts it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._limit: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                # What compiled code calls must be there before it can be limited.
                optional_module("scipy.linalg.cython_blas")
                control = optional_module("threadpoolctl")
                self._limit = control.threadpool_limits(1, "blas")
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._limit.restore_original_limits()


_algebra = _SingleThreadedAlgebra()


def single_threaded_algebra() -> _SingleThreadedAlgebra:
    """Return a context in which linear algebra stays on one thread each."""
    return _algebra


def local_threads(execution: Execution | None) -> int | None:
    """Return the threads for work that stays on this computer; None: all cores."""
    return execution.threads if isinstance(execution, LocalExecution) else None


def load_part(part: Any) -> EventLog:
    """Return the log of a part; instances without events are left out of partitions."""
    if isinstance(part, EventLog):
        return part
    try:
        log: EventLog = part.load()
    except InfluentialBanditsError as error:
        raise Unfinished(f"{_name_part(part)}: {error}") from error
    return log.take(np.flatnonzero(log.lengths)) if (log.lengths == 0).any() else log


def _name_part(part: Any) -> str:
    """Return what to call a partition in a message."""
    files = getattr(getattr(part, "group", None), "files", ())
    return str(getattr(part, "name", None) or ", ".join(files[:3]) or "a partition")


def split_in_chunks(parts: Iterable[Any], chunk: int) -> Iterator[Any]:
    """Yield what one task works on: chunks of logs in memory, and partitions as they are."""
    for part in parts:
        if isinstance(part, EventLog):
            # What is kept beside a log may be large, and would travel along.
            yield from change_log(part, about={}).parts(chunk)
        else:
            yield part


def split_evenly(parts: Iterable[Any], chunk: int = CHUNK) -> Iterator[Any]:
    """Yield the same to fit instance by instance: small chunks, for even work."""
    for part in parts:
        if isinstance(part, EventLog):
            yield from split_in_chunks([part], max(1, min(chunk, len(part) // EVEN_CHUNKS)))
        else:
            yield part


def apply_to_part(work: Callable[[EventLog], Any], part: Any) -> tuple[tuple[str, ...], Any]:
    """Return the labels of a part's instances, and what ``work`` makes of its log."""
    log = load_part(part)
    with single_threaded_algebra():
        return log.instances, work(log)


def add_over_parts(
    work: Callable[[EventLog], tuple[Any, ...]],
    parts: Iterable[Any],
    execution: Execution | int | None = None,
    chunk: int = CHUNK,
) -> Any:
    """Return the sum of ``work(log)`` over chunks of all parts, or None if there are no parts."""
    tasks = split_in_chunks(parts, chunk)
    with single_threaded_algebra():
        return tree_sum(resolve_execution(execution).map(partial(_add_part, work, chunk), tasks))


def _add_part(work: Callable[[EventLog], Any], chunk: int, part: Any) -> Any:
    with single_threaded_algebra():
        return add_over_chunks(work, load_part(part), chunk)


def add_over_chunks(work: Callable[[EventLog], Any], log: EventLog, chunk: int) -> Any:
    """Return the sum of ``work`` over the chunks of a log."""
    total = tree_sum(work(each) for each in log.parts(chunk))
    return work(log) if total is None else total


def tree_sum(results: Iterable[Any]) -> Any:
    """Return the sum of tuples of numbers and arrays along a binary tree; None if there are none.

    Neighbours are added first, then sums of two, of four, and so on, as a binary counter carries:
    only about log₂(number) sums are held at a time.

    Examples
    --------
    >>> tree_sum((float(n),) for n in range(5))
    (10.0,)
    """
    waiting: list[tuple[int, Any]] = []
    for result in results:
        size, total = 1, result
        while waiting and waiting[-1][0] == size:
            total = _add(waiting.pop()[1], total)
            size *= 2
        waiting.append((size, total))
    if not waiting:
        return None
    total = waiting.pop()[1]
    while waiting:
        total = _add(waiting.pop()[1], total)
    return total


def _add(first: tuple[Any, ...], second: tuple[Any, ...]) -> tuple[Any, ...]:
    total = [a + b for a, b in zip(first, second, strict=True)]
    return type(first)(*total) if hasattr(first, "_fields") else tuple(total)


def require_events(events: float) -> None:
    """Raise unless there is something to fit."""
    if events == 0:
        raise InvalidLog("the log has no events")
