"""Keys: who may ask what. The store has their digests alone."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import time
from collections.abc import Awaitable, Callable
from typing import Literal, NamedTuple

Role = Literal["reader", "writer", "admin"]
ROLES: tuple[Role, ...] = ("reader", "writer", "admin")  # each may do what those before it may
DAY = 86400.0
SECONDS_FRESH = 2.0  # after which keys are read again: another service may have dropped one


class Key(NamedTuple):
    """A key, which says who asks; the fields are the columns of the table of keys."""

    digest: str
    label: str
    role: str
    experiment: int | None  # None: all
    since: float
    ends: float | None = None  # None: never

    def may(self, role: Role) -> bool:
        """Tell whether its owner may do what a role may."""
        return ROLES.index(self.role) >= ROLES.index(role)

    def sees(self, experiment: int) -> bool:
        """Tell whether there is such an experiment, as far as its owner is concerned."""
        return self.experiment is None or self.experiment == experiment

    @property
    def rules(self) -> bool:
        """Whether it opens everything, for ever."""
        return self.role == "admin" and self.experiment is None and self.ends is None


NOBODY = Key("", "", "reader", 0, 0.0)  # who may ask what takes no key, and sees no experiment


def digest_key(key: str) -> str:
    """Return what is kept of a key; keys are long and random, so that a plain hash is enough."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def make_key(
    label: str,
    role: str,
    experiment: int | None = None,
    at: float = 0.0,
    days: float | None = None,
) -> tuple[str, Key]:
    """Return a new key, and what to keep of it; after so many days it opens nothing."""
    key, ends = f"ib_{secrets.token_urlsafe(32)}", None if days is None else at + days * DAY
    return key, Key(digest_key(key), label, role, experiment, at, ends)


class KeyRing:
    """The keys of a store, read anew every few seconds, beside whatever else is done.

    Parameters
    ----------
    read : coroutine function
        Returns the keys of the store.
    clock : callable
        Seconds since 1970.
    """

    def __init__(
        self, read: Callable[[], Awaitable[list[Key]]], clock: Callable[[], float]
    ) -> None:
        self._read, self._clock = read, clock
        self._keys: dict[str, Key] = {}  # by digest
        self._until = 0.0
        self._reading: asyncio.Task[None] | None = None

    async def find(self, key: str) -> Key | None:
        """Return what is kept of a key, if it opens something."""
        return await self.find_digest(digest_key(key))

    async def find_digest(self, digest: str) -> Key | None:
        """Return the key of a digest."""
        if time.monotonic() >= self._until:
            if self._reading is None or self._reading.done():  # one for all who wait
                self._reading = asyncio.create_task(self.renew())
            await asyncio.shield(self._reading)
        key = self._keys.get(digest)
        return None if key and key.ends is not None and self._clock() >= key.ends else key

    async def renew(self) -> None:
        """Read the keys again."""
        self._keys = {key.digest: key for key in await self._read()}
        self._until = time.monotonic() + SECONDS_FRESH
