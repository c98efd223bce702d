"""From an address to a store."""

from __future__ import annotations

from pathlib import Path

from influential_bandits.checks import abbreviate
from influential_bandits.errors import InvalidInput, MissingFile
from influential_bandits.live.store.archive import ArchiveConnection
from influential_bandits.live.store.postgres import PostgresConnection, PostgresStore
from influential_bandits.live.store.sql import Connection, Store
from influential_bandits.live.store.sqlite import SqliteConnection, SqliteStore, copy_store


def is_shared(address: str) -> bool:
    """Tell whether several services can work on a store."""
    return address.startswith(("postgresql://", "postgres://"))


def open_store(address: str | Path) -> Store:
    """Open a store: the path of an SQLite file, or postgresql://…; it is made if it is new."""
    text = str(address)
    if is_shared(text):
        return PostgresStore(text)
    _require_path(text)
    return SqliteStore(text)


def open_to_read(address: str | Path) -> Connection:
    """Open a store or an archive for reading alone; a service may be at work on a store."""
    text = str(address)
    if is_shared(text):
        return PostgresConnection(text, read_only=True)
    if Path(text).is_dir():
        return ArchiveConnection(Path(text))
    return SqliteConnection(_require_file(text), read_only=True)


def back_up(address: str | Path, target: Path) -> None:
    """Copy a store into a file, also while a service works on it."""
    text = str(address)
    if is_shared(text):
        raise InvalidInput("PostgreSQL has programs of its own for this: pg_dump and pg_restore")
    copy_store(_require_file(text), target)


def _require_file(text: str) -> Path:
    _require_path(text)
    if not Path(text).is_file():
        raise MissingFile(f"there is no store {text}")
    return Path(text)


def _require_path(text: str) -> None:
    if "://" in text:
        raise InvalidInput(
            f"a store is the path of an SQLite file or postgresql://…, got {abbreviate(text)}"
        )
