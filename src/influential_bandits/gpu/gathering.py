"""Tasks of pieces that are worked on side by side, gathered and played as one.

One piece of a study has ten runs, and a graphics processor has room for 10⁵. So pieces wait with
their tasks until others have come as far, and tasks that are alike are joined.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Hashable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ClassVar, Protocol

from influential_bandits.errors import InfluentialBanditsError
from influential_bandits.execution.base import Task

SILENCE = 0.5  # seconds without a further task, after which those at hand are played
ENOUGH_RUNS = 1 << 15  # are played at once, so that pieces go on while others are played
GROUPS_AT_ONCE = 8  # small ones leave room for others
DESKS = 4  # pieces that compute here at a time: a thousand threads would wait for each other


class Joinable(Task, Protocol):
    """A task that others can join."""

    compiler: ClassVar[str]  # a module that compiles jobs, read from its standard input

    @property
    def runs(self) -> int:
        """How many runs it plays."""

    @property
    def bytes_on_card(self) -> int:
        """How much memory it takes there."""

    def likeness(self) -> Hashable:
        """Return what tasks have in common that can be played as one."""

    def join(self, others: Sequence[Any]) -> Task:
        """Return the task that does the work of this and of others like it."""

    def is_compiled(self) -> bool:
        """Tell whether its code need not be compiled."""

    def job(self) -> Any:
        """Return what its compiler needs, to be pickled."""


class Gathering:
    """Plays the tasks of pieces that are worked on in threads.

    Parameters
    ----------
    memory : int
        Bytes on the card for all that is played at a time.
    stopped : Event
        Ends everything between two steps.
    processes : int
        How many processes compile at a time: in one, compiling takes turns.
    """

    def __init__(self, memory: int, stopped: threading.Event, processes: int) -> None:
        self.room = memory // GROUPS_AT_ONCE
        self.stopped, self.processes = stopped, processes
        self.desks = threading.Semaphore(DESKS)
        self._changed = threading.Condition()
        self._waiting: list[tuple[Any, Future[None]]] = []
        self._at_work = self._idle = 0  # pieces, and those of them that wait
        self._last = 0.0  # when a task has come
        self._closed = False
        self._players = ThreadPoolExecutor(GROUPS_AT_ONCE, "influential-bandits-group")
        self._compilers = ThreadPoolExecutor(max(1, processes), "influential-bandits-compiler")
        self._dispatcher = threading.Thread(target=self._dispatch, daemon=True)
        self._dispatcher.start()

    def begin(self) -> None:
        """Count one more piece that may bring tasks, or somebody who hands out pieces."""
        with self._changed:
            self._at_work += 1

    def end(self) -> None:
        """Count one less."""
        with self._changed:
            self._at_work -= 1
            self._changed.notify_all()

    def play(self, tasks: Sequence[Joinable]) -> None:
        """Wait until the tasks of a piece are done; others have its desk meanwhile."""
        futures = [Future[None]() for _ in tasks]
        with self._changed:
            self._waiting += zip(tasks, futures, strict=True)
            self._idle += 1
            self._last = time.monotonic()
            self._changed.notify_all()
        self.desks.release()
        try:
            for future in futures:
                future.result()
        finally:
            with self._changed:
                self._idle -= 1
            self.desks.acquire()

    def close(self) -> None:
        """End, once what is played has come to its next step."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._dispatcher.join()
        for pool in (self._compilers, self._players):
            pool.shutdown(wait=True)

    def _is_time(self) -> bool:
        """Tell whether to play what has come: nothing more will, or has for a while, or enough."""
        if not self._waiting:
            return False
        silent = time.monotonic() - self._last > SILENCE
        enough = sum(task.runs for task, _ in self._waiting) >= ENOUGH_RUNS
        return self._idle >= self._at_work or silent or enough

    def _dispatch(self) -> None:
        while True:
            with self._changed:
                while not self._closed and not self._is_time():
                    self._changed.wait(0.1)
                taken, self._waiting = self._waiting, []
                if self._closed:
                    for _, future in taken:
                        future.set_exception(_stop())
                    return
            groups = list(self._groups(taken))
            compiled = self._compile([group[0][0] for group in groups])
            for group, ready in zip(groups, compiled, strict=True):
                self._players.submit(self._play_group, group, ready)

    def _groups(self, taken: list[tuple[Any, Future[None]]]) -> list[list[Any]]:
        """Return tasks that can be joined, as many as fit the memory."""
        groups: list[list[Any]] = []
        open_groups: dict[Hashable, tuple[list[Any], int]] = {}
        for task, future in taken:
            key = task.likeness()
            group, size = open_groups.get(key, ([], 0))
            if not group or size + task.bytes_on_card > self.room:
                group, size = [], 0
                groups.append(group)
            group.append((task, future))
            open_groups[key] = group, size + task.bytes_on_card
        return groups

    def _compile(self, tasks: list[Any]) -> list[Future[None] | None]:
        """Start processes that compile what is new; return when each task will be ready."""
        new = [place for place, task in enumerate(tasks) if not task.is_compiled()]
        ready: list[Future[None] | None] = [None] * len(tasks)
        if len(new) > 1:  # one alone is compiled here as fast
            for place in new:
                ready[place] = self._compilers.submit(_compile_elsewhere, tasks[place])
        return ready

    def _require_going_on(self) -> None:
        if self.stopped.is_set():
            raise _stop()

    def _play_group(self, group: list[Any], ready: Future[None] | None = None) -> None:
        """Play joined tasks; one by one if that fails, so that only those fail that must."""
        if ready is not None:
            ready.result()
        (first, _), *others = group
        try:
            task = first.join([task for task, _ in others]) if others else first
            for _ in task.steps():
                self._require_going_on()
        except BaseException as error:  # noqa: BLE001 - it is told to whoever waits
            if others and not self.stopped.is_set():
                for one in group:
                    self._play_group([one])
                return
            for _, future in group:
                future.set_exception(error)
        else:
            for _, future in group:
                future.set_result(None)


def _stop() -> InfluentialBanditsError:
    return InfluentialBanditsError("stopped")


def _compile_elsewhere(task: Joinable) -> None:
    """Let another process compile and keep the code; if it cannot, this one will."""
    try:
        job = pickle.dumps(task.job())
    except Exception:  # noqa: BLE001 - a policy of a notebook, say
        return
    places = os.pathsep.join(path for path in sys.path if path)
    subprocess.run(
        [sys.executable, "-m", task.compiler],
        input=job,
        env=os.environ | {"PYTHONPATH": places},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
