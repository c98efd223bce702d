"""Events in a PostgreSQL database, which several services can share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from influential_bandits.live.store.sql import (
    CHUNK,
    Connection,
    ExperimentRow,
    Store,
    StoreError,
)
from influential_bandits.packages import optional_module

MIGRATING = 0x1BAD17  # of an advisory lock: two services must not make the tables at once
SECONDS_TO_CONNECT = 10
SECONDS_FOR_A_LOCK = 5.0  # that another service holds
SECONDS_IDLE = 60.0  # of a service that does nothing in a transaction: it was stopped
FEW = 4  # rows, which are inserted as values


class PostgresConnection(Connection):
    """A connection to a database; one that was lost is opened again at the next question."""

    def __init__(self, address: str, *, read_only: bool) -> None:
        self._psycopg = optional_module("psycopg")
        self._address, self._read_only = address, read_only
        self._connection: Any = None
        self._connect()

    def _connect(self) -> None:
        try:
            self._connection = self._psycopg.connect(
                self._address, autocommit=True, connect_timeout=SECONDS_TO_CONNECT
            )
            self._connection.execute("SET synchronous_commit = on")
            if self._read_only:
                self._connection.execute("SET default_transaction_read_only = on")
            else:
                # A writer asks for few rows of large tables. Plans are kept from when the tables
                # were empty, and would read all of them for good.
                self._connection.execute("SET enable_seqscan = off")
                for setting, seconds in (
                    ("lock_timeout", SECONDS_FOR_A_LOCK),
                    ("idle_in_transaction_session_timeout", SECONDS_IDLE),
                ):
                    self._connection.execute(f"SET {setting} = {int(1000 * seconds)}")
        except self._psycopg.Error as error:
            self._connection = None
            raise StoreError(f"cannot reach PostgreSQL: {_first_line(error)}") from error

    def _alive(self) -> Any:
        if self._connection is None or self._connection.closed:
            self._connect()
        return self._connection

    def run(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        try:
            cursor = self._alive().execute(_with_places(sql), values or None)
            return cursor.fetchall() if cursor.description else []
        except self._psycopg.Error as error:
            raise self._failed(error) from error

    def stream(self, sql: str, values: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        try:
            with self._alive().transaction(), self._connection.cursor(name="stream") as cursor:
                cursor.itersize = CHUNK
                cursor.execute(_with_places(sql), values or None)
                yield from cursor
        except self._psycopg.Error as error:
            raise self._failed(error) from error

    def in_parts(
        self, table: str, column: str, experiment: int, values: Iterable[Any]
    ) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of an experiment in which a column has one of these values.

        They are looked up one by one: given a list, the planner has read all rows of the experiment
        and compared them with it, 20 ms for a batch of 48.
        """
        wanted = list(values)
        if wanted:
            kind = "text" if isinstance(wanted[0], str) else "bigint"
            sql = (
                f"SELECT found.* FROM unnest(?::{kind}[]) AS wanted (value) CROSS JOIN LATERAL "
                f"(SELECT * FROM {table} WHERE experiment = ? AND {column} = wanted.value OFFSET 0)"
                " AS found"
            )
            yield from self.run(sql, (wanted, experiment))

    def _failed(self, error: Exception) -> StoreError:
        if self._connection is not None and self._connection.broken:
            self._connection.close()
        return StoreError(f"the store failed: {_first_line(error)}")

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()


class PostgresStore(PostgresConnection, Store):
    """A connection that writes to a database.

    A transaction locks the rows of the experiments that it writes to, so that services that share
    the database write one after another to each of them.
    """

    def __init__(self, address: str) -> None:
        super().__init__(address, read_only=False)
        self.begin()
        try:
            self.run("SELECT pg_advisory_xact_lock(?)", (MIGRATING,))
            self.migrate()
            self.commit()
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        """Say what it is; the address may hold a password."""
        return "PostgresStore(…)"

    def open_reader(self) -> PostgresConnection:
        return PostgresConnection(self._address, read_only=True)

    def _alive(self) -> Any:
        """Return the connection; within a transaction, a new one would write half of it."""
        if self._connection is None or self._connection.closed:
            raise StoreError("the connection to PostgreSQL was lost")
        return self._connection

    def begin(self) -> None:
        """Start a transaction, over a new connection if the last one was lost."""
        if self._connection is None or self._connection.closed:
            self._connect()
        self.run("BEGIN")

    def lock(self, experiments: Sequence[int]) -> dict[int, ExperimentRow]:
        rows = self.run(
            "SELECT id, name, events, instances FROM experiments WHERE id = ANY(?) ORDER BY id "
            "FOR UPDATE",
            (list(experiments),),
        )
        return {row[0]: ExperimentRow(*row) for row in rows}

    def commit(self) -> None:
        self.run("COMMIT")

    def roll_back(self) -> None:
        if self._connection is not None and not self._connection.closed:
            self.run("ROLLBACK")

    def _insert(self, table: str, rows: Sequence[Sequence[Any]]) -> None:
        """Insert rows; many of them as a copy, which costs less than values one by one."""
        if len(rows) < FEW:
            super()._insert(table, rows)
            return
        try:
            with (
                self._alive().cursor() as cursor,
                cursor.copy(f"COPY {table} FROM STDIN") as copy,
            ):
                for row in rows:
                    copy.write_row(row)
        except self._psycopg.Error as error:
            raise self._failed(error) from error

    def run_many(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run a statement for each row, all of them on their way at once."""
        try:
            with self._alive().cursor() as cursor:
                cursor.executemany(_with_places(sql), rows)
        except self._psycopg.Error as error:
            raise self._failed(error) from error


def _with_places(sql: str) -> str:
    return sql.replace("?", "%s")


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
