"""Events in an SQLite file: nothing to install, one service at a time."""

from __future__ import annotations

import fcntl
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from influential_bandits.live.store.sql import (
    CHUNK,
    Connection,
    ExperimentRow,
    Store,
    StoreError,
)

__all__ = ["SqliteStore"]

PAGE = 4096  # bytes
MOST_LOG_PAGES = 4000  # of the write-ahead log before it is written back, 16 MB
FEWEST_LOG_PAGES = 64
SHARE_OF_DISK = (
    16  # the log takes so little of what is free, so that there is room to write it back
)
BUSY_SECONDS = 10.0


class SqliteConnection(Connection):
    """A connection to an SQLite file."""

    def __init__(self, path: Path, *, read_only: bool) -> None:
        mode = "ro" if read_only else "rwc"
        self._was_full = False  # the disk, when a statement failed last
        try:
            self._connection = sqlite3.connect(
                f"{path.absolute().as_uri()}?mode={mode}",
                uri=True,
                isolation_level=None,
                timeout=BUSY_SECONDS,
                check_same_thread=False,
            )
        except sqlite3.Error as error:
            raise StoreError(f"cannot open {path}: {error}") from error

    def run(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows."""
        try:
            return self._connection.execute(sql, values).fetchall()
        except sqlite3.Error as error:
            raise self._failed(error) from error

    def stream(self, sql: str, values: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        """Run a question whose answer may not fit memory."""
        try:
            cursor = self._connection.execute(sql, values)
            while rows := cursor.fetchmany(CHUNK):
                yield from rows
        except sqlite3.Error as error:
            raise StoreError(f"the store failed: {error}") from error

    def _failed(self, error: sqlite3.Error) -> StoreError:
        self._was_full = error.sqlite_errorcode == sqlite3.SQLITE_FULL
        return StoreError(f"the store failed: {error}")

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class SqliteStore(SqliteConnection, Store):
    """The one connection that writes to an SQLite file.

    Every commit is on disk when it returns (WAL, synchronous = FULL). SQLite before 3.51.3 can
    damage a file in WAL mode if two connections write or checkpoint at once; a lock beside the file
    keeps a second service away.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._lock = _take_lock(self.path)
        super().__init__(self.path, read_only=False)
        try:
            self._require_store()
            for pragma in (
                "journal_mode = WAL",
                "synchronous = FULL",
                f"wal_autocheckpoint = {_log_pages(self.path)}",
                "cache_size = -65536",
            ):
                self.run(f"PRAGMA {pragma}")
            self.begin()
            self.migrate()
            self.commit()
        except BaseException:
            self.close()
            raise

    def _require_store(self) -> None:
        """Raise if the file is something else."""
        try:
            self._connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
        except sqlite3.DatabaseError as error:
            raise StoreError(
                f"{self.path} is no store of this service: {error}; take another file"
            ) from None

    def __repr__(self) -> str:
        """Say where it is."""
        return f"SqliteStore({str(self.path)!r})"

    def open_reader(self) -> SqliteConnection:
        """Return a connection for reading alone."""
        return SqliteConnection(self.path, read_only=True)

    def begin(self) -> None:
        """Start a transaction."""
        self.run("BEGIN IMMEDIATE")

    def lock(self, experiments: Sequence[int]) -> dict[int, ExperimentRow]:
        """Return how experiments stand; the transaction has locked them."""
        wanted = set(experiments)
        return {row.id: row for row in self.experiments() if row.id in wanted}

    def commit(self) -> None:
        """Make the transaction durable."""
        self.run("COMMIT")

    def roll_back(self) -> None:
        """Undo the transaction; if the disk is full, write the log back: it may be full of that."""
        if self._connection.in_transaction:
            self.run("ROLLBACK")
        if self._was_full:
            self._was_full = False
            self.run("PRAGMA wal_checkpoint(PASSIVE)")

    def run_many(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run a statement for each row."""
        try:
            self._connection.executemany(sql, rows)
        except sqlite3.Error as error:
            raise self._failed(error) from error

    def close(self) -> None:
        """Close the file, and let another service have it."""
        super().close()
        self._lock.close()


def _log_pages(path: Path) -> int:
    """Return after how many pages the write-ahead log is written back: fewer on a small disk."""
    pages = shutil.disk_usage(path.absolute().parent).free // (SHARE_OF_DISK * PAGE)
    return min(max(pages, FEWEST_LOG_PAGES), MOST_LOG_PAGES)


def _take_lock(path: Path) -> IO[bytes]:
    """Return an open file that nobody else holds, or say that somebody does."""
    beside = path.with_name(f"{path.name}.lock")
    try:
        file = beside.open("wb")
    except OSError as error:
        raise StoreError(f"cannot write beside {path}: {error.strerror or error}") from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise StoreError(
            f"another service works on {path}; stop it first, or take PostgreSQL, which several "
            "can share"
        ) from None
    return file
