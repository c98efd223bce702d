"""What pages show and takes long to compute: kept for a while, and computed anew aside."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

PATIENCE = 2.0  # seconds for which a page waits; after that it shows the one before, or none
MOST_KEPT = 100


class Latest:
    """The latest answers to questions that pages ask again and again.

    Parameters
    ----------
    seconds, times_as_long : float
        For which an answer is shown again: so many seconds, and so many times those that it took,
        so that looks take a small share of the processor.
    """

    def __init__(self, seconds: float, times_as_long: float = 0.0) -> None:
        self._seconds, self._times_as_long = seconds, times_as_long
        self._latest: dict[Any, Any] = {}
        self._until: dict[Any, float] = {}
        self._tasks: dict[Any, asyncio.Task[None]] = {}

    async def look(self, key: Any, compute: Callable[[], Awaitable[Any]]) -> Any:
        """Return the latest answer; None while there is none yet."""
        if time.monotonic() >= self._until.get(key, 0.0):
            task = self._tasks.get(key)
            if task is None or task.done():
                task = self._tasks[key] = asyncio.create_task(self._keep(key, compute))
            done, _ = await asyncio.wait([task], timeout=PATIENCE)
            for finished in done:
                finished.result()  # raises what went wrong
        return self._latest.get(key)

    async def _keep(self, key: Any, compute: Callable[[], Awaitable[Any]]) -> None:
        start = time.monotonic()
        self._latest[key] = await compute()
        now = time.monotonic()
        self._until[key] = now + max(self._seconds, self._times_as_long * (now - start))
        for entries in (self._latest, self._until, self._tasks):
            while len(entries) > MOST_KEPT:
                entries.pop(next(iter(entries)))
