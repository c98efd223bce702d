"""Keys: who may ask what. The store has their digests alone."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable
from typing import Literal, NamedTuple

from influential_bandits.live.store.sql import KeyRow

__all__ = ["ROLES", "KeyRing", "Visitor", "make_key"]

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
    """The keys of a store, read anew every few seconds."""

    def __init__(self, read: Callable[[], list[KeyRow]]) -> None:
        self._read = read
        self._visitors: dict[str, Visitor] = {}  # by digest
        self._seen: dict[str, Visitor] = {}  # by key, those that asked since keys were read
        self._until = 0.0

    def find(self, key: str) -> Visitor | None:
        """Return who has a key."""
        if self._is_fresh() and key in self._seen:
            return self._seen[key]
        visitor = self.find_digest(digest_key(key))
        if visitor is not None:
            self._seen[key] = visitor
        return visitor

    def find_digest(self, digest: str) -> Visitor | None:
        """Return who has the key of a digest."""
        if not self._is_fresh():
            self.renew()
            self._until = time.monotonic() + SECONDS_FRESH
        return self._visitors.get(digest)

    def _is_fresh(self) -> bool:
        return time.monotonic() < self._until

    def renew(self) -> None:
        """Read the keys again."""
        self._visitors = {
            row.digest: Visitor(row.digest, row.role, row.experiment) for row in self._read()
        }
        self._seen = {}
