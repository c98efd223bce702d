"""A log in parts: one part is worked on at a time, here or on a cluster, and sums keep their bits.

A part is a log in memory, or anything small and picklable with ``load()``: a partition of a log
that nobody has room for. Results of parts are added along a binary tree over their numbers, so
that the order of additions depends on the number of parts alone: neither on threads or workers,
nor on how many parts travel together.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from functools import partial
from itertools import islice
from typing import Any, Protocol, runtime_checkable

import numpy as np

from influential_bandits.checks import optional_module
from influential_bandits.errors import InvalidLog
from influential_bandits.execution.base import Execution
from influential_bandits.execution.local import LocalExecution
from influential_bandits.logs.log import EventLog, make_sorted_log

__all__ = [
    "InParts",
    "leaves",
    "loaded",
    "name_of",
    "on_part",
    "pieces",
    "single_threaded_algebra",
    "summed",
    "tree_sum",
]

MOST_TASKS = 1024  # of one pass; beyond, parts travel together
PIECES = 128  # of a log in memory whose instances are fitted one by one


@runtime_checkable
class InParts(Protocol):
    """A log that is never whole: partitions of whole instances, loaded where they are needed."""

    @property
    def partitions(self) -> Sequence[Any]:
        """Small, picklable objects with ``load() -> EventLog``."""

    @property
    def arms(self) -> tuple[str, ...]:
        """Names of the arms, the same in all partitions."""


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


def loaded(part: Any) -> EventLog:
    """Return the log of a part; instances without events are left out of partitions."""
    if isinstance(part, EventLog):
        return part
    log: EventLog = part.load()
    return log.take(np.flatnonzero(log.lengths)) if (log.lengths == 0).any() else log


def name_of(part: Any, number: int) -> str:
    """Return what to call a part when it is spoken of."""
    files = getattr(getattr(part, "group", None), "files", ())
    return str(getattr(part, "name", None) or ", ".join(files[:3]) or f"partition {number}")


def leaves(parts: Iterable[Any], events: int) -> Iterator[Any]:
    """Yield what one task works on: of logs in memory chunks of so many events, else the part."""
    for part in parts:
        if isinstance(part, EventLog):
            yield from _bare(part).parts(events)
        else:
            yield part


def pieces(parts: Iterable[Any], events: int) -> Iterator[Any]:
    """Yield parts to fit instance by instance: logs in memory in small pieces, for even work."""
    for part in parts:
        if isinstance(part, EventLog):
            yield from _bare(part).parts(max(1, min(events, len(part) // PIECES)))
        else:
            yield part


def _bare(log: EventLog) -> EventLog:
    """Return a log without what is kept beside it, which may be large, and would travel along."""
    columns = (log.instances, log.offsets, log.item, log.loss, log.time, log.membership)
    return make_sorted_log(*columns, {})


def on_part(work: Callable[[EventLog], Any], part: Any) -> tuple[tuple[str, ...], Any]:
    """Return the labels of a part's instances, and what ``work`` makes of its log."""
    log = loaded(part)
    with single_threaded_algebra():
        return log.instances, work(log)


def summed(
    work: Callable[[EventLog], tuple[Any, ...]],
    parts: Iterable[Any],
    events: int,
    execution: Execution | None = None,
) -> tuple[Any, ...] | None:
    """Return the sum of ``work(log)`` over chunks of all parts, or None if there are no parts."""
    execution = execution or LocalExecution()
    task = partial(_summed_task, work, events)
    with single_threaded_algebra():
        return tree_sum(execution.map(task, _batches(leaves(parts, events), _together(parts))))


def _together(parts: Iterable[Any]) -> int:
    """Return how many parts travel together: a power of two, so that no sum changes."""
    number = len(parts) if isinstance(parts, Sized) else 1
    together = 1
    while number > MOST_TASKS * together:
        together *= 2
    return together


def _batches(items: Iterator[Any], size: int) -> Iterator[list[Any]]:
    while batch := list(islice(items, size)):
        yield batch


def _summed_task(
    work: Callable[[EventLog], tuple[Any, ...]], events: int, parts: list[Any]
) -> tuple[Any, ...] | None:
    with single_threaded_algebra():
        return tree_sum(_summed_part(work, events, part) for part in parts)


def _summed_part(
    work: Callable[[EventLog], tuple[Any, ...]], events: int, part: Any
) -> tuple[Any, ...]:
    log = loaded(part)
    total = tree_sum(work(chunk) for chunk in log.parts(events))
    return work(log) if total is None else total


def tree_sum(results: Iterable[Any]) -> Any:
    """Return the sum of tuples of numbers and arrays along a binary tree; None if there are none.

    Neighbours are added first, then sums of two, of four, and so on, as a binary counter carries:
    only about log₂(number) sums are held at a time. Adding up blocks of 2ᵏ neighbours beforehand
    gives the same bits.

    Examples
    --------
    >>> tree_sum((float(n),) for n in range(5))
    (10.0,)
    """
    waiting: list[tuple[int, Any]] = []
    for one in results:
        size, total = 1, one
        while waiting and waiting[-1][0] == size:
            total = _added(waiting.pop()[1], total)
            size *= 2
        waiting.append((size, total))
    if not waiting:
        return None
    total = waiting.pop()[1]
    while waiting:
        total = _added(waiting.pop()[1], total)
    return total


def _added(one: tuple[Any, ...], other: tuple[Any, ...]) -> tuple[Any, ...]:
    total = [a + b for a, b in zip(one, other, strict=True)]
    return type(one)(*total) if hasattr(one, "_fields") else tuple(total)


def require_events(events: float) -> None:
    """Raise unless there is something to fit."""
    if events == 0:
        raise InvalidLog("the log has no events")
