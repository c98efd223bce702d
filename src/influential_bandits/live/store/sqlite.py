"""Events in an SQLite file: nothing to install, one service at a time."""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import IO, Any

from influential_bandits.errors import InvalidInput
from influential_bandits.live.store.sql import (
    CHUNK,
    Connection,
    ExperimentRow,
    Store,
    StoreError,
)

log = logging.getLogger("influential_bandits.live")

HEADER, USER_VERSION = 64, slice(60, 64)  # bytes of the file's header
IN_USE = 1

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
        try:
            return self._connection.execute(sql, values).fetchall()
        except sqlite3.Error as error:
            raise self._failed(error) from error

    def stream(self, sql: str, values: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        try:
            cursor = self._connection.execute(sql, values)
            while rows := cursor.fetchmany(CHUNK):
                yield from rows
        except sqlite3.Error as error:
            raise StoreError(f"the store failed: {error}") from error

    def copy(self, target: Path) -> None:
        """Copy everything into an empty file."""
        with closing(sqlite3.connect(target, isolation_level=None)) as writer:
            self._connection.backup(writer)
            writer.execute("PRAGMA user_version = 0")
            writer.execute("PRAGMA journal_mode = DELETE")

    def _failed(self, error: sqlite3.Error) -> StoreError:
        self._was_full = error.sqlite_errorcode == sqlite3.SQLITE_FULL
        return StoreError(f"the store failed: {error}")

    def close(self) -> None:
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
        with ExitStack() as undo:
            undo.callback(self._lock.close)
            _require_log(self.path)
            try:
                os.close(_open_private(self.path, os.O_RDWR | os.O_CREAT))
            except OSError as error:
                raise StoreError(f"cannot open {path}: {error.strerror or error}") from None
            super().__init__(self.path, read_only=False)
            undo.callback(super().close)
            self._require_store()
            for pragma in (
                "journal_mode = WAL",
                "synchronous = FULL",
                f"wal_autocheckpoint = {_log_pages(self.path)}",
                "cache_size = -65536",
                "secure_delete = ON",
                f"user_version = {IN_USE}",
            ):
                self.run(f"PRAGMA {pragma}")
            self.begin()
            self.migrate()
            self.commit()
            self.write_back()
            undo.pop_all()

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
        return SqliteConnection(self.path, read_only=True)

    def begin(self) -> None:
        self.run("BEGIN IMMEDIATE")

    def lock(self, experiments: Sequence[int]) -> dict[int, ExperimentRow]:
        """Return how experiments stand; the transaction has locked them."""
        wanted = set(experiments)
        return {row.id: row for row in self.experiments() if row.id in wanted}

    def commit(self) -> None:
        self.run("COMMIT")

    def roll_back(self) -> None:
        """Undo the transaction; if the disk is full, write the log back: it may be full of that."""
        if self._connection.in_transaction:
            self.run("ROLLBACK")
        if self._was_full:
            self._was_full = False
            self.run("PRAGMA wal_checkpoint(PASSIVE)")

    def write_back(self) -> bool:
        """Write the whole log back into the file, and empty it; False if somebody reads there."""
        return not self.run("PRAGMA wal_checkpoint(TRUNCATE)")[0][0]

    def tidy(self) -> None:
        """Write the log back if it may hold what was erased, unless somebody reads there now."""
        if self.has_erased:
            self.run("PRAGMA busy_timeout = 0")
            self.has_erased = not self.write_back()
            self.run(f"PRAGMA busy_timeout = {int(1000 * BUSY_SECONDS)}")

    def run_many(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        try:
            self._connection.executemany(sql, rows)
        except sqlite3.Error as error:
            raise self._failed(error) from error

    def close(self) -> None:
        """Write the log back, close the file, and let another service have it."""
        try:
            self.run("PRAGMA user_version = 0")
            self.write_back()
        except StoreError as error:  # the log stays, with all that is in it
            log.warning("the log of %s was not written back: %s", self.path, error)
        super().close()
        self._lock.close()


def _log_pages(path: Path) -> int:
    """Return after how many pages the write-ahead log is written back: fewer on a small disk."""
    pages = shutil.disk_usage(path.absolute().parent).free // (SHARE_OF_DISK * PAGE)
    return min(max(pages, FEWEST_LOG_PAGES), MOST_LOG_PAGES)


def _require_log(path: Path) -> None:
    """Raise if a file was in use, and the log of what was written last is not beside it.

    While a service works on a file, the number for users in its header is ``IN_USE``.
    """
    try:
        with path.open("rb") as file:
            header = file.read(HEADER)
    except OSError:  # there is none yet, or opening it will say why not
        return
    in_use = int.from_bytes(header[USER_VERSION], "big") == IN_USE
    if len(header) == HEADER and in_use and not path.with_name(f"{path.name}-wal").exists():
        raise StoreError(
            f"{path.name} was in use, and its log {path.name}-wal is missing, with the latest "
            "events. Put it beside the file, or take a copy by influential-bandits backup. If "
            "another program has written the log back, nothing is missing: say so by "
            f'sqlite3 {path.name} "PRAGMA user_version = 0"'
        )


def _open_private(path: str | Path, flags: int) -> int:
    """Open a file that nobody else may read."""
    return os.open(path, flags, 0o600)


def copy_store(source: Path, target: Path) -> None:
    """Copy a store, also one that a service works on, into a new file that is whole by itself."""
    if target.exists():
        raise InvalidInput(f"there is a file {target} already; give the copy another name")
    try:
        os.close(_open_private(target, os.O_RDWR | os.O_CREAT | os.O_EXCL))
    except OSError as error:
        raise StoreError(f"cannot write {target}: {error.strerror or error}") from None
    try:
        with SqliteConnection(source, read_only=True) as reader:
            reader.copy(target)
    except (sqlite3.Error, StoreError) as error:
        target.unlink()
        raise StoreError(f"cannot copy {source} to {target}: {error}") from error


def _take_lock(path: Path) -> IO[bytes]:
    """Return an open file that nobody else holds, or say that somebody does."""
    beside = path.with_name(f"{path.name}.lock")
    try:
        file = open(beside, "wb", opener=_open_private)  # noqa: SIM115 - held until the end
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
