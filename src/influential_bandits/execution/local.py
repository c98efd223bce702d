"""Work on this computer: threads for compiled code, processes for whole pieces of a study."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    wait,
)
from concurrent.futures.process import BrokenProcessPool
from functools import cached_property
from itertools import islice
from types import TracebackType
from typing import Any

from influential_bandits.checks import abbreviate, is_real, whole_number
from influential_bandits.errors import Interrupted, InvalidInput, TaskLost
from influential_bandits.execution.base import (
    Attempt,
    Execution,
    Outcome,
    Steps,
    Stoppable,
    Task,
    Work,
    attempt,
)
from influential_bandits.execution.progress import Progress


class LocalExecution(Execution):
    """Work on this computer: threads for compiled code, processes for whole pieces of a study.

    Parameters
    ----------
    threads : int, optional
        By default all cores. Changes no bit of any result.
    processes : int
        How many pieces of a study are worked on at a time, each in a process of its own with its
        share of the threads. Pays where pieces spend their time outside of compiled code; with
        one process, threads work on pieces side by side.

    Examples
    --------
    >>> import influential_bandits as ib
    >>> one_thread = LocalExecution(threads=1)
    >>> run = ib.simulate(ib.counterexample(), ib.LCB(), 1000, execution=one_thread)
    >>> run.counts[0, 0, -1]
    array([870, 130])
    """

    def __init__(self, threads: int | None = None, processes: int = 1) -> None:
        self._threads = count_threads(threads)
        self.processes = whole_number("processes", processes, 1)

    @property
    def threads(self) -> int:
        return self._threads

    def __repr__(self) -> str:
        return f"LocalExecution(threads={self.threads}, processes={self.processes})"

    def for_study(self, runs: int | None = None) -> Execution:
        """Return what works on pieces side by side: one alone seldom keeps many threads busy."""
        return self if self.threads == 1 or self.processes > 1 else self._side_by_side

    @cached_property
    def _side_by_side(self) -> SideBySide:
        return SideBySide(self.threads)

    def outcomes(self, work: Work, tasks: Iterable[Any]) -> Iterator[Outcome]:
        """Work off pieces one after the other, or one in each process."""
        if self.processes > 1:
            return self._from_processes(work, tasks)
        return (Outcome(task, *attempt(work, task, self.threads)) for task in tasks)

    def map(
        self,
        work: Callable[[Any], Any],
        tasks: Iterable[Any],
        progress: Progress | None = None,
    ) -> Iterator[Any]:
        return map_in_order(work, tasks, self.threads, progress)

    def run(self, tasks: Sequence[Task], progress: Progress) -> None:
        run_tasks(tasks, self.threads, progress)

    def _from_processes(self, work: Work, tasks: Iterable[Any]) -> Iterator[Outcome]:
        share = max(1, self.threads // self.processes)
        remaining = iter(tasks)
        flying: dict[Future[Attempt], Any] = {}
        pool = _new_pool(self.processes)
        try:
            while True:
                # One more than there are processes, so that none waits for the next task.
                for task in islice(remaining, self.processes + 1 - len(flying)):
                    flying[_submit(pool, work, task, share)] = task
                if not flying:
                    return
                finished, _ = wait(flying, return_when=FIRST_COMPLETED)
                if any(isinstance(future.exception(), BrokenProcessPool) for future in finished):
                    suspects = list(flying.values())
                    flying.clear()
                    _stop(pool)
                    for task in suspects:
                        yield _retry_alone(work, task, share)
                    pool = _new_pool(self.processes)
                for future in finished & flying.keys():
                    yield Outcome(flying.pop(future), *future.result())
        finally:
            _stop(pool)


class SideBySide(LocalExecution):
    """Work on as many pieces of a study at a time as there are threads, all in this process.

    Each piece may use all threads, so that the last ones do not leave cores idle.
    """

    def __init__(self, threads: int) -> None:
        super().__init__(threads)
        self._stopped = threading.Event()

    def for_study(self, runs: int | None = None) -> Execution:
        return self

    def outcomes(self, work: Work, tasks: Iterable[Any]) -> Iterator[Outcome]:
        """Work off pieces side by side; those that nobody waits for end at their next step."""
        remaining = iter(tasks)
        flying: dict[Future[Attempt], Any] = {}
        pool = ThreadPoolExecutor(self.threads, thread_name_prefix="influential-bandits-piece")
        try:
            while True:
                # One more than there are threads, so that none waits for the next task.
                for task in islice(remaining, self.threads + 1 - len(flying)):
                    flying[pool.submit(attempt, work, task, self)] = task
                if not flying:
                    return
                finished, _ = wait(flying, return_when=FIRST_COMPLETED)
                for future in finished:
                    yield Outcome(flying.pop(future), *future.result())
        finally:
            self._stopped.set()
            _end(pool)
            self._stopped.clear()

    def run(self, tasks: Sequence[Task], progress: Progress) -> None:
        """Work on threads, until nobody waits for it."""
        run_tasks([Stoppable(task, self._stopped) for task in tasks], self.threads, progress)


def resolve_execution(execution: Execution | int | None) -> Execution:
    """Return an execution: the one given, or this computer with so many threads (None: all cores).

    Examples
    --------
    >>> resolve_execution(2)
    LocalExecution(threads=2, processes=1)
    """
    if isinstance(execution, Execution):
        return execution
    if execution is None or is_real(execution):
        return LocalExecution(execution)
    raise InvalidInput(
        "execution must be a number of threads, a LocalExecution, a DaskExecution or a "
        f"GpuExecution, got {abbreviate(execution)}"
    )


def _submit(pool: ProcessPoolExecutor, work: Work, task: Any, threads: int) -> Future[Attempt]:
    """Submit a task; to a pool whose process has just died, as one that failed with it."""
    try:
        return pool.submit(attempt, work, task, threads)
    except BrokenProcessPool as broken:
        future: Future[Attempt] = Future()
        future.set_exception(broken)
        return future


def _retry_alone(work: Work, task: Any, threads: int) -> Outcome:
    """Do a piece of work that may have killed its process, in a process of its own."""
    pool = _new_pool(1)
    try:
        return Outcome(task, *pool.submit(attempt, work, task, threads).result())
    except BrokenProcessPool:
        return Outcome(task, error=TaskLost("its process died; too little memory is a usual cause"))
    finally:
        _stop(pool)


def _new_pool(processes: int) -> ProcessPoolExecutor:
    """Return processes that start afresh: a fork would copy threads and locks in any state."""
    return ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"), _deaf)


def _deaf() -> None:
    """Leave Ctrl-C, which a terminal sends to all processes, to the one that started them."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _stop(pool: ProcessPoolExecutor) -> None:
    """End processes at once, whatever they are doing."""
    processes = list((pool._processes or {}).values())
    pool.shutdown(wait=False, cancel_futures=True)
    for process in processes:
        process.kill()
    for process in processes:
        process.join()


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
                sys.excepthook = _one_line(sys.excepthook)
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


def _one_line(hook: Callable[..., Any]) -> Callable[..., Any]:
    """Return an exception hook that shows an interruption nobody caught in one line."""

    def show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if issubclass(kind, Interrupted):
            print(error, file=sys.stderr)
        else:
            hook(kind, error, trace)

    return show


def count_threads(threads: int | None) -> int:
    """Return how many threads to use: as many as asked for, or one for each core."""
    if threads is None:
        return (
            len(os.sched_getaffinity(0))
            if hasattr(os, "sched_getaffinity")
            else os.cpu_count() or 1
        )
    return whole_number("threads", threads, 1)
