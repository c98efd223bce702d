"""Tasks of pieces that are worked on side by side, gathered and played as one.

One piece of a study has ten runs, and a graphics processor has room for 10⁵. So pieces wait with
their tasks until others have come as far, and tasks that are alike are joined.

Few, long runs leave a graphics processor idle and take long there. So each group tells how much
longer it will take, and cores that have nothing to do play the tasks of the slowest one as well.
Both give the same bits: whoever ends first is heard.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, ClassVar, Protocol

from influential_bandits.errors import InfluentialBanditsError
from influential_bandits.execution.base import Execution, Outcome, Task, Work
from influential_bandits.execution.progress import Progress

__all__ = ["Gathering", "Joinable"]

SILENCE = 0.5  # seconds without a further task, after which those at hand are played
ENOUGH_RUNS = 1 << 15  # are played at once, so that pieces go on while others are played
GROUPS_AT_ONCE = 32  # small ones leave room for others
WORTH_HELP = 3.0  # seconds that a group must still take for a core to play its tasks as well
DESKS = 4  # pieces that compute here at a time: a thousand threads would wait for each other


class Joinable(Task, Protocol):
    """A task that others can join."""

    compiler: ClassVar[str]  # a module that compiles jobs, read from its standard input

    @property
    def runs(self) -> int:
        """How many runs it plays."""

    @property
    def rounds(self) -> int:
        """How many rounds these have in all."""

    @property
    def bytes_on_card(self) -> int:
        """How much memory it takes there."""

    def likeness(self) -> Hashable:
        """Return what tasks have in common that can be played as one."""

    def join(self, others: Sequence[Any]) -> Task:
        """Return a task that does the work of this and of others like it.

        Its results are those of each of them, in order.
        """

    def is_compiled(self) -> bool:
        """Tell whether its code need not be compiled."""

    def job(self, for_cores: bool = False) -> Any:
        """Return what its compiler needs, to be pickled."""

    def play_on_cores(self, where: Execution) -> Any:
        """Do the same work on processors; return its results."""

    def code_on_cores(self) -> Hashable:
        """Return what tells the code that processors need for it."""


class Entry:
    """A task that somebody waits for, and who works on it."""

    def __init__(self, task: Any) -> None:
        self.task = task
        self.future: Future[None] = Future()
        self.left = 0.0  # seconds that it still takes on the card, as far as known
        self.on_cores = False
        self._lock = threading.Lock()

    @property
    def done(self) -> bool:
        """Whether somebody has finished it."""
        return self.future.done()

    def finish(self, results: Any) -> None:
        """Take the results of whoever ends first."""
        with self._lock:
            if not self.done:
                self.task.accept(results)
                self.future.set_result(None)

    def fail(self, error: BaseException) -> None:
        """Tell whoever waits, unless it was finished elsewhere."""
        with self._lock:
            if not self.done:
                self.future.set_exception(error)


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
        self._waiting: list[Entry] = []
        self._played: list[Entry] = []  # on the card
        self._at_work = self._idle = 0  # pieces, and those of them that wait
        self._last = 0.0  # when a task has come
        self._closed = False
        self._players = ThreadPoolExecutor(GROUPS_AT_ONCE, "influential-bandits-group")
        self._compilers = ThreadPoolExecutor(max(1, processes), "influential-bandits-compiler")
        self._dispatcher = threading.Thread(target=self._dispatch, daemon=True)
        self._dispatcher.start()
        self._ready: dict[Hashable, bool] = {}  # code for cores: False while it is compiled
        self._helpers = [
            threading.Thread(target=self._help, daemon=True) for _ in range(max(1, processes))
        ]
        for helper in self._helpers:
            helper.start()

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
        entries = [Entry(task) for task in tasks]
        with self._changed:
            self._waiting += entries
            self._idle += 1
            self._last = time.monotonic()
            self._changed.notify_all()
        self.desks.release()
        try:
            for entry in entries:
                entry.future.result()
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
        for helper in self._helpers:
            helper.join()
        for pool in (self._compilers, self._players):
            pool.shutdown(wait=True)

    def _is_time(self) -> bool:
        """Tell whether to play what has come: nothing more will, or has for a while, or enough."""
        if not self._waiting:
            return False
        silent = time.monotonic() - self._last > SILENCE
        enough = sum(entry.task.runs for entry in self._waiting) >= ENOUGH_RUNS
        return self._idle >= self._at_work or silent or enough

    def _dispatch(self) -> None:
        while True:
            with self._changed:
                while not self._closed and not self._is_time():
                    self._changed.wait(0.1)
                taken, self._waiting = self._waiting, []
                if self._closed:
                    for entry in taken:
                        entry.fail(_stop())
                    return
            groups = self._groups(taken)
            compiled = self._compile([group[0].task for group in groups])
            for group, ready in zip(groups, compiled, strict=True):
                self._players.submit(self._play_group, group, ready)

    def _groups(self, taken: list[Entry]) -> list[list[Entry]]:
        """Return tasks that can be joined, as many as fit the memory."""
        groups: list[list[Entry]] = []
        open_groups: dict[Hashable, tuple[list[Entry], int]] = {}
        for entry in taken:
            key, more = entry.task.likeness(), entry.task.bytes_on_card
            group, size = open_groups.get(key, ([], 0))
            if not group or size + more > self.room:
                group, size = [], 0
                groups.append(group)
            group.append(entry)
            open_groups[key] = group, size + more
        return groups

    def _compile(self, tasks: list[Any]) -> list[Future[None] | None]:
        """Start processes that compile what is new; return when each task will be ready."""
        new = [place for place, task in enumerate(tasks) if not task.is_compiled()]
        ready: list[Future[None] | None] = [None] * len(tasks)
        if len(new) > 1:  # one alone is compiled here as fast
            for place in new:
                ready[place] = self._compilers.submit(_compile_elsewhere, tasks[place])
        return ready

    def _play_group(self, group: list[Entry], ready: Future[None] | None = None) -> None:
        """Play joined tasks; one by one if that fails, so that only those fail that must."""
        if ready is not None:
            ready.result()
        task = group[0].task.join([entry.task for entry in group[1:]])
        with self._changed:
            self._played += group
        try:
            self._play_on_card(group, task)
        except BaseException as error:  # noqa: BLE001 - it is told to whoever waits
            if len(group) > 1 and not self.stopped.is_set():
                for one in group:
                    self._play_group([one])
                return
            for entry in group:
                entry.fail(error)
        else:
            for entry, results in zip(group, task.results(), strict=True):
                entry.finish(results)
        finally:
            with self._changed:
                self._played = [entry for entry in self._played if entry not in group]

    def _play_on_card(self, group: list[Entry], task: Task) -> None:
        """Play until the end, or until cores have finished all of it; tell how long it takes."""
        work = sum(entry.task.rounds for entry in group)
        done, last = 0, time.monotonic()
        for amount in task.steps():
            if self.stopped.is_set():
                raise _stop()
            if all(entry.done for entry in group):
                return
            now = time.monotonic()
            done += amount
            left = (work - done) * (now - last) / amount
            last = now
            with self._changed:
                for entry in group:
                    entry.left = left
                if left > WORTH_HELP:
                    self._changed.notify_all()

    def _help(self) -> None:
        """Play on a core what takes longest on the card, task by task, until the end."""
        while (entry := self._take_slowest()) is not None:
            code = entry.task.code_on_cores()
            if not self._ready[code]:
                _compile_elsewhere(entry.task, for_cores=True)
                with self._changed:
                    self._ready[code] = True
            try:
                entry.finish(entry.task.play_on_cores(OneCore(partial(self._is_over, entry))))
            except Exception:  # noqa: BLE001 - the card will tell what is wrong
                continue

    def _take_slowest(self) -> Entry | None:
        """Wait for a task that is worth help; return none in the end."""
        with self._changed:
            while not self._closed:
                entry = self._slowest()
                if entry is not None:
                    entry.on_cores = True
                    self._ready.setdefault(entry.task.code_on_cores(), False)
                    return entry
                self._changed.wait(0.5)
        return None

    def _is_over(self, entry: Entry) -> bool:
        return entry.done or self._closed or self.stopped.is_set()

    def _slowest(self) -> Entry | None:
        """Return the task whose group takes longest, if one is worth it that no core plays yet."""
        able = [
            entry
            for entry in self._played
            if entry.left > WORTH_HELP
            and not (entry.on_cores or entry.done)
            and self._ready.get(entry.task.code_on_cores(), True)
        ]
        return max(able, key=lambda entry: entry.left, default=None)


class OneCore(Execution):
    """Play on the thread that asks, as long as it is wanted."""

    threads = 1

    def __init__(self, is_over: Callable[[], bool]) -> None:
        self.is_over = is_over

    def outcomes(self, work: Work, tasks: Iterable[Any]) -> Iterator[Outcome]:
        """Work off pieces one after the other."""
        return (Outcome(task, work(task, self)) for task in tasks)

    def map(
        self, work: Callable[[Any], Any], tasks: Iterable[Any], progress: Progress | None = None
    ) -> Iterator[Any]:
        """Compute one after the other."""
        return map(work, tasks)

    def run(self, tasks: Sequence[Task], progress: Progress) -> None:
        """Play until the end, or until nobody wants it any more."""
        for task in tasks:
            for _ in task.steps():
                if self.is_over():
                    raise _stop()


def _stop() -> InfluentialBanditsError:
    return InfluentialBanditsError("stopped")


def _compile_elsewhere(task: Joinable, for_cores: bool = False) -> None:
    """Let another process compile and keep the code; if it cannot, this one will."""
    try:
        job = pickle.dumps(task.job(for_cores))
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
