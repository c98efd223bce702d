"""From an address to a store."""

from __future__ import annotations

from pathlib import Path

from influential_bandits.checks import abbreviate
from influential_bandits.errors import InvalidInput
from influential_bandits.live.store.postgres import PostgresStore
from influential_bandits.live.store.sql import Store
from influential_bandits.live.store.sqlite import SqliteStore

__all__ = ["is_shared", "open_store"]


def is_shared(address: str) -> bool:
    """Tell whether several services can work on a store."""
    return address.startswith(("postgresql://", "postgres://"))


def open_store(address: str | Path) -> Store:
    """Open a store: the path of an SQLite file, or postgresql://…; it is made if it is new."""
    text = str(address)
    if is_shared(text):
        return PostgresStore(text)
    if "://" in text:
        raise InvalidInput(
            f"a store is the path of an SQLite file or postgresql://…, got {abbreviate(text)}"
        )
    return SqliteStore(text)
