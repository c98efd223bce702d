"""The tallies of all experiments that somebody looks at, and when they are brought up to date."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from influential_bandits.live.page.tally import Tally
from influential_bandits.live.store.sql import Connection, ExperimentRow, StoreError

__all__ = ["Tallies"]

log = logging.getLogger("influential_bandits.live")

SECONDS_FRESH = 1.0  # in which nothing is read again
SECONDS_AT_A_TIME = 0.1  # of reading, after which decisions come first
SECONDS_TO_WAIT = 0.2  # of a look for what is new; then it shows what there is
SECONDS_BETWEEN_REBUILDS = 60.0
MOST_HELD = 48


class Tallies:
    """Tallies by experiment.

    Parameters
    ----------
    read : callable
        Asks a question of the store, over a connection of the thread that asks.
    now : callable
        Seconds since 1970.
    """

    def __init__(
        self, read: Callable[[Callable[[Connection], Any]], Any], now: Callable[[], float]
    ) -> None:
        self._read, self._now = read, now
        self._held: OrderedDict[int, Tally] = OrderedDict()
        self._work: dict[int, asyncio.Task[None]] = {}
        self._until: dict[int, float] = {}  # when each may be read again
        self.seconds_between_rebuilds = SECONDS_BETWEEN_REBUILDS

    async def look(self, rows: list[ExperimentRow]) -> list[Tally | None]:
        """Return tallies, brought up to date as far as a moment allows."""
        started = [self._start(row) for row in rows]
        working = [task for task in started if task is not None]
        if working:
            await asyncio.wait(working, timeout=SECONDS_TO_WAIT)
        return [self._held.get(row.id) for row in rows]

    async def bring_up_to_date(self, row: ExperimentRow) -> Tally:
        """Return a tally of all events that there are by now."""
        while (task := self._work.get(row.id)) is not None:
            await asyncio.wait([task])
        self._until.pop(row.id, None)
        task = self._start(row)
        assert task is not None
        await asyncio.wait([task])
        tally = self._held.get(row.id)
        if tally is None or not tally.is_complete:
            raise StoreError("the events could not be counted; ask again")
        return tally

    def _start(self, row: ExperimentRow) -> asyncio.Task[None] | None:
        """See to it that somebody reads what is new."""
        task = self._work.get(row.id)
        if task is None and time.monotonic() >= self._until.get(row.id, 0.0):
            task = self._work[row.id] = asyncio.create_task(self._catch_up(row.id))
        return task

    async def _catch_up(self, experiment: int) -> None:
        try:
            while not await asyncio.to_thread(self._step, experiment):
                await asyncio.sleep(0.01)  # decisions come first
        except StoreError as error:
            log.warning("the page could not read the store: %s", error)
        except Exception:
            log.exception("the page could not count events")
        finally:
            self._until[experiment] = time.monotonic() + SECONDS_FRESH
            del self._work[experiment]

    def _step(self, experiment: int) -> bool:
        """Count some events; return whether none are left."""
        return bool(self._read(lambda store: self._read_some(store, experiment)))

    def _read_some(self, store: Connection, experiment: int) -> bool:
        row = next((row for row in store.experiments() if row.id == experiment), None)
        if row is None:
            return True
        tally = self._held.get(experiment)
        if tally is None or self._is_to_be_rebuilt(tally):
            first = store.run(
                "SELECT at FROM events WHERE experiment = ? AND number = 1", (experiment,)
            )
            tally = Tally(row, first[0][0] if first else self._now(), self._now())
            self._held[experiment] = tally
            while len(self._held) > MOST_HELD:
                self._held.popitem(last=False)
        self._held.move_to_end(experiment)
        until = time.monotonic() + SECONDS_AT_A_TIME
        while True:
            tally.read(store, row, self._now())
            if tally.is_complete or time.monotonic() >= until:
                return tally.is_complete

    def _is_to_be_rebuilt(self, tally: Tally) -> bool:
        return tally.is_stale and time.monotonic() - tally.began >= self.seconds_between_rebuilds
