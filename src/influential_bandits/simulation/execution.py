"""Threads, progress and Ctrl-C: how a list of tasks is worked off on this computer."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from types import TracebackType
from typing import Any, Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    SpinnerColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.progress import (
    Progress as Bar,
)

from influential_bandits.checks import whole_number
from influential_bandits.errors import Interrupted

LONG = 1.0  # seconds of work before a progress bar appears by itself


class Task(Protocol):
    """Work that can stop between two steps."""

    def steps(self) -> Iterable[int]:
        """Do the work; yield how much was done after each step."""


class Progress:
    """A progress bar that appears when work takes long, on terminals only unless asked for.

    Parameters
    ----------
    label : str
    total : int
        All the work there is.
    wanted : bool, optional
        True: show it at once; False: never; None: after a second, if stderr is a terminal.
    """

    def __init__(self, label: str, total: int, wanted: bool | None = None) -> None:
        self.label, self.total, self.wanted = label, total, wanted
        self.done = 0
        self._started = time.monotonic()
        self._bar: Bar | None = None

    def show(self) -> None:
        """Draw the bar if it is time."""
        if self._bar is None:
            late = time.monotonic() - self._started > LONG
            if self.wanted or (self.wanted is None and late and sys.stderr.isatty()):
                columns = (
                    SpinnerColumn(),
                    TextColumn("{task.description}"),
                    BarColumn(),
                    TextColumn("{task.percentage:>3.0f} %"),
                    TimeRemainingColumn(),
                )
                console = Console(stderr=True)
                self._bar = Bar(*columns, console=console, transient=console.is_terminal)
                self._bar.add_task(self.label, total=self.total)
                self._bar.start()
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=self.done)

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.stop()


def run_tasks(tasks: Sequence[Task], threads: int | None, progress: Progress) -> None:
    """Work off all tasks; the first error, or Ctrl-C, stops every thread before it is raised."""
    workers = min(checked_threads(threads), len(tasks))
    stop = threading.Event()
    lock = threading.Lock()

    def work(task: Task) -> None:
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
                raise Interrupted(f"stopped by Ctrl-C after {done} % of {progress.label}") from None
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
    workers = checked_threads(threads)
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
        progress.done += 1
        progress.show()
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


def checked_threads(threads: int | None) -> int:
    """Return how many threads to use: as many as asked for, or one for each core."""
    if threads is None:
        return (
            len(os.sched_getaffinity(0))
            if hasattr(os, "sched_getaffinity")
            else os.cpu_count() or 1
        )
    return whole_number("threads", threads, 1)
