"""Work on the threads of this computer."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, nullcontext
from itertools import islice
from typing import Any

from influential_bandits.checks import abbreviate, is_real, whole_number
from influential_bandits.errors import Interrupted, InvalidInput
from influential_bandits.execution.base import (
    Attempt,
    Execution,
    Outcome,
    Steps,
    Stoppable,
    Work,
    attempt,
)
from influential_bandits.execution.progress import Progress

MOST_THREADS = 2**16  # and workers of a cluster: far more than any computer has cores


class LocalExecution(Execution):
    """Work on this computer, on threads: compiled code runs without the interpreter's lock.

    Parameters
    ----------
    threads : int, optional
        By default all cores. Changes no bit of any result.

    Examples
    --------
    >>> import influential_bandits as ib
    >>> one_thread = LocalExecution(threads=1)
    >>> run = ib.simulate(ib.counterexample(), ib.LCB(), 1000, execution=one_thread)
    >>> run.counts[0, 0, -1]
    array([870, 130])
    """

    def __init__(self, threads: int | None = None) -> None:
        self._threads = count_threads(threads)
        self._stopped = threading.Event()  # set once nobody waits for what is run here

    @property
    def threads(self) -> int:
        return self._threads

    def __repr__(self) -> str:
        return f"LocalExecution(threads={self.threads})"

    def outcomes(self, work: Work, tasks: Iterable[Any]) -> Iterator[Outcome]:
        """Work off as many pieces at a time as there are threads; each may use all of them.

        So the last ones do not leave cores idle. Pieces that nobody waits for end at their next
        step.
        """
        if self.threads == 1:
            yield from (Outcome(task, *attempt(work, task, 1)) for task in tasks)
            return
        inside = LocalExecution(self.threads)
        pool = ThreadPoolExecutor(self.threads, thread_name_prefix="influential-bandits-piece")
        try:
            # One more than there are threads, so that none waits for the next task.
            yield from work_off(
                tasks, lambda task: pool.submit(attempt, work, task, inside), self.threads + 1
            )
        finally:
            inside._stopped.set()
            _end(pool)

    def map(
        self,
        work: Callable[[Any], Any],
        tasks: Iterable[Any],
        progress: Progress | None = None,
    ) -> Iterator[Any]:
        return map_in_order(work, tasks, self.threads, progress)

    def run(self, tasks: Sequence[Any], progress: Progress) -> None:
        run_tasks([Stoppable(task, self._stopped) for task in tasks], self.threads, progress)


def resolve_execution(execution: Execution | int | None) -> Execution:
    """Return an execution: the one given, or this computer with so many threads (None: all cores).

    Examples
    --------
    >>> resolve_execution(2)
    LocalExecution(threads=2)
    """
    if isinstance(execution, Execution):
        return execution
    if execution is None or is_real(execution):
        return LocalExecution(execution)
    raise InvalidInput(
        "execution must be a number of threads, a LocalExecution, a DaskExecution or a "
        f"GpuExecution, got {abbreviate(execution)}"
    )


def work_off(
    tasks: Iterable[Any],
    submit: Callable[[Any], Future[Attempt]],
    most: int,
    handing_out: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> Iterator[Outcome]:
    """Yield what became of tasks as they finish; at most so many are handed out at a time."""
    remaining = iter(tasks)
    flying: dict[Future[Attempt], Any] = {}
    while True:
        with handing_out():
            for task in islice(remaining, most - len(flying)):
                flying[submit(task)] = task
        if not flying:
            return
        finished, _ = wait(flying, return_when=FIRST_COMPLETED)
        for future in finished:
            yield Outcome(flying.pop(future), *future.result())


def run_tasks(tasks: Sequence[Steps], threads: int | None, progress: Progress) -> None:
    """Work off all tasks; the first error, or Ctrl-C, stops every thread before it is raised."""
    workers = min(count_threads(threads), len(tasks))
    stop = threading.Event()
    lock = threading.Lock()

    def work(task: Steps) -> None:
        for amount in task.steps():
            with lock:
                progress.done += amount
            if stop.is_set():
                return

    with ThreadPoolExecutor(workers, thread_name_prefix="influential-bandits") as pool:
        pending: set[Future[None]] = set()
        try:
            for task in tasks:
                pending.add(pool.submit(work, task))
            while pending:
                finished, pending = wait(pending, timeout=0.1, return_when=FIRST_COMPLETED)
                progress.show()
                for future in finished:
                    future.result()
        except BaseException as error:
            stop.set()
            _end(pool)
            if isinstance(error, KeyboardInterrupt):
                done = 100 * progress.done // max(progress.total, 1)
                cause = str(error) or "stopped by Ctrl-C"
                raise Interrupted(f"{cause} after {done} % of {progress.label}") from None
            raise
        finally:
            progress.close()


def map_in_order(
    work: Callable[[Any], Any],
    tasks: Iterable[Any],
    threads: int | None = None,
    progress: Progress | None = None,
) -> Iterator[Any]:
    """Yield ``work(task)`` of each task, in order, computed on several threads a few ahead."""
    workers = count_threads(threads)
    waiting: deque[Future[Any]] = deque()
    with ThreadPoolExecutor(workers, thread_name_prefix="influential-bandits") as pool:
        try:
            for task in tasks:
                waiting.append(pool.submit(work, task))
                if len(waiting) > 2 * workers:
                    yield _next(waiting, progress)
            while waiting:
                yield _next(waiting, progress)
        except BaseException:
            _end(pool)
            raise
        finally:
            if progress is not None:
                progress.close()


def _next(waiting: deque[Future[Any]], progress: Progress | None) -> Any:
    result = waiting.popleft().result()
    if progress is not None:
        progress.count_one()
    return result


def _end(pool: ThreadPoolExecutor) -> None:
    """Wait for the threads to stop, however often Ctrl-C is pressed."""
    while True:
        try:
            pool.shutdown(wait=True, cancel_futures=True)
        except KeyboardInterrupt:
            continue
        return


def count_threads(threads: int | None) -> int:
    """Return how many threads to use: as many as asked for, or one for each core."""
    if threads is None:
        return (
            len(os.sched_getaffinity(0))
            if hasattr(os, "sched_getaffinity")
            else os.cpu_count() or 1
        )
    return whole_number("threads", threads, 1, MOST_THREADS)
