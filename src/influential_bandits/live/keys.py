"""Keys: who may ask what. The store has their digests alone."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import time
from collections.abc import Awaitable, Callable
from typing import Literal, NamedTuple

from influential_bandits.live.store.sql import KeyRow

Role = Literal["reader", "writer", "admin"]
ROLES: tuple[Role, ...] = ("reader", "writer", "admin")  # each may do what those before it may
SECONDS_FRESH = 2.0  # after which keys are read again: another service may have dropped one


class Visitor(NamedTuple):
    """Who asks."""

    digest: str
    role: str
    experiment: int | None  # None: all

    def may(self, role: Role) -> bool:
        """Tell whether the visitor may do what a role may."""
        return ROLES.index(self.role) >= ROLES.index(role)

    def sees(self, experiment: int) -> bool:
        """Tell whether there is such an experiment, as far as the visitor is concerned."""
        return self.experiment is None or self.experiment == experiment


NOBODY = Visitor("", "reader", 0)  # who may ask what takes no key, and sees no experiment


def digest_key(key: str) -> str:
    """Return what is kept of a key; keys are long and random, so that a plain hash is enough."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def make_key(
    label: str, role: Role, experiment: int | None = None, at: float = 0.0
) -> tuple[str, KeyRow]:
    """Return a new key, and what to keep of it."""
    key = f"ib_{secrets.token_urlsafe(32)}"
    return key, KeyRow(digest_key(key), label, role, experiment, at)


class KeyRing:
    """The keys of a store, read anew every few seconds, beside whatever else is done.

    Parameters
    ----------
    read : coroutine function
        Returns the keys of the store.
    """

    def __init__(self, read: Callable[[], Awaitable[list[KeyRow]]]) -> None:
        self._read = read
        self._visitors: dict[str, Visitor] = {}  # by digest
        self._until = 0.0
        self._reading: asyncio.Task[None] | None = None

    async def find(self, key: str) -> Visitor | None:
        """Return who has a key."""
        return await self.find_digest(digest_key(key))

    async def find_digest(self, digest: str) -> Visitor | None:
        """Return who has the key of a digest."""
        if time.monotonic() >= self._until:
            if self._reading is None or self._reading.done():  # one for all who wait
                self._reading = asyncio.create_task(self.renew())
            await asyncio.shield(self._reading)
        return self._visitors.get(digest)

    async def renew(self) -> None:
        """Read the keys again."""
        rows = await self._read()
        self._visitors = {row.digest: Visitor(row.digest, row.role, row.experiment) for row in rows}
        self._until = time.monotonic() + SECONDS_FRESH
