"""Tasks of pieces that are worked on side by side, gathered and played as one.

One piece of a study has ten runs, and a graphics processor has room for 10⁵. So pieces wait with
their tasks until others have come as far, and tasks that are alike are joined.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Hashable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from influential_bandits.errors import InfluentialBanditsError
from influential_bandits.execution.base import Stoppable

if TYPE_CHECKING:
    from influential_bandits.gpu.tasks import Batch

SILENCE = 0.5  # seconds without a further task, after which those at hand are played
ENOUGH_RUNS = 1 << 15  # are played at once, so that pieces go on while others are played
GROUPS_AT_ONCE = 8  # small ones leave room for others
DESKS = 4  # pieces that compute here at a time: a thousand threads would wait for each other


class Gathering:
    """Plays the tasks of pieces that are worked on in threads.

    Parameters
    ----------
    memory : int
        Bytes on the card for all that is played at a time.
    stopped : Event
        Ends everything between two steps.
    """

    def __init__(self, memory: int, stopped: threading.Event) -> None:
        self.room = memory // GROUPS_AT_ONCE
        self.stopped = stopped
        self.desks = threading.Semaphore(DESKS)
        self._changed = threading.Condition()
        self._waiting: list[tuple[Batch, Future[None]]] = []
        self._at_work = self._idle = 0  # pieces, and those of them that wait
        self._last = 0.0  # when a task has come
        self._closed = False
        self._players = ThreadPoolExecutor(GROUPS_AT_ONCE, "influential-bandits-group")
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

    @contextmanager
    def handing_out(self) -> Iterator[None]:
        """Let nothing be played meanwhile, unless there is enough: more pieces are to come."""
        self.begin()
        try:
            yield
        finally:
            self.end()

    def play(self, tasks: Sequence[Batch]) -> None:
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
        self._players.shutdown(wait=True)

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
                        future.set_exception(InfluentialBanditsError("stopped"))
                    return
            for group in self._groups(taken):
                self._players.submit(self._play_group, group)

    def _groups(self, taken: list[tuple[Batch, Future[None]]]) -> list[list[Any]]:
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

    def _play_group(self, group: list[Any]) -> None:
        """Play joined tasks; one by one if that fails, so that only those fail that must."""
        (first, _), *others = group
        try:
            task = first.join([task for task, _ in others]) if others else first
            for _ in Stoppable(task, self.stopped).steps():
                pass
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
