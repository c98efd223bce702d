"""What fleets have learned: computed aside, and kept, since of many arms it takes long."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from influential_bandits.policies.fleet.estimate import SharedEstimate

__all__ = ["Estimates"]

SECONDS_FRESH = 10.0
TIMES_AS_LONG = 20.0  # as it took to compute: looks take a small share of the processor
PATIENCE = 2.0  # seconds for which a page waits; after that it shows the one before, or none


class Estimates:
    """The latest estimates of all experiments that somebody looks at.

    Parameters
    ----------
    ask : coroutine function
        Hands a request to the writer.
    """

    def __init__(self, ask: Callable[..., Awaitable[Any]]) -> None:
        self._ask = ask
        self._latest: dict[str, SharedEstimate] = {}
        self._until: dict[str, float] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def look(self, experiment: str) -> SharedEstimate | None:
        """Return the latest estimate; None while there is none yet."""
        if time.monotonic() >= self._until.get(experiment, 0.0):
            task = self._tasks.get(experiment)
            if task is None or task.done():
                task = self._tasks[experiment] = asyncio.create_task(self._compute(experiment))
            done, _ = await asyncio.wait([task], timeout=PATIENCE)
            for finished in done:
                finished.result()  # raises what went wrong
        return self._latest.get(experiment)

    async def _compute(self, experiment: str) -> None:
        summarise = await self._ask(experiment, lambda work, at: work.copy_shared())
        if summarise is None:
            return
        start = time.monotonic()
        self._latest[experiment] = await asyncio.to_thread(summarise)
        now = time.monotonic()
        self._until[experiment] = now + max(SECONDS_FRESH, TIMES_AS_LONG * (now - start))
