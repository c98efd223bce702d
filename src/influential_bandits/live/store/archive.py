"""A closed experiment as a folder of Parquet files, which replay and report read like a store."""

from __future__ import annotations

import sqlite3
from functools import partial
from pathlib import Path
from typing import Any, get_args, get_type_hints

from influential_bandits.checks import abbreviate
from influential_bandits.errors import InvalidInput
from influential_bandits.files import clear_reason, write_atomically
from influential_bandits.live.events import Decision, Event
from influential_bandits.live.reading import describe_experiment, write_parquet, write_rows
from influential_bandits.live.store.sql import CHUNK, Connection, ExperimentRow, InstanceRow
from influential_bandits.live.store.sqlite import SqliteConnection
from influential_bandits.packages import optional_module

TABLES: dict[str, Any] = {  # and their rows, of which the fields are the columns
    "experiments": ExperimentRow,
    "instances": InstanceRow,
    "decisions": Decision,
    "events": Event,
}
LOG = "log.parquet"  # what read_log takes


def write_archive(store: Connection, name: str, folder: Path) -> None:
    """Write all there is of a closed experiment into a new folder."""
    numbers = [row.id for row in store.experiments() if row.name == name]
    if not numbers:
        raise InvalidInput(f"there is no experiment {abbreviate(name)}")
    described = describe_experiment(store, numbers[0])
    waiting = "SELECT COUNT(*) FROM decisions WHERE experiment = ? AND deadline IS NOT NULL"
    if described["settings"]["mode"] != "closed" or store.run(waiting, numbers)[0][0]:
        raise InvalidInput(
            f"experiment {abbreviate(name)} may still move: close it, and wait until its window is "
            "over and what got no feedback was given up"
        )
    try:
        folder.mkdir(mode=0o700)
    except OSError as failure:
        raise InvalidInput(
            f"cannot make the folder {folder}: {clear_reason(failure)}; name a new one"
        ) from None

    def write_log(path: Path) -> None:
        write_parquet(store, numbers[0], described["arms"], path)

    write_atomically(folder / LOG, write_log)
    for table, row_type in reversed(TABLES.items()):  # without the first it is no archive
        column = "id" if table == "experiments" else "experiment"
        rows = store.stream(f"SELECT * FROM {table} WHERE {column} = ?", numbers)
        columns = {
            field: (get_args(hint) or (hint,))[0]  # of what may be missing, what it is else
            for field, hint in get_type_hints(row_type).items()
        }
        write = partial(write_rows, rows, columns)
        write_atomically(folder / f"{table}.parquet", write)


class ArchiveConnection(SqliteConnection):
    """A connection to a copy of an archive, in memory or, where it is large, on disk."""

    def __init__(self, folder: Path) -> None:
        parquet = optional_module("pyarrow.parquet")
        self._was_full = False
        self._connection = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self.migrate()
        self.run("BEGIN")
        for table, row_type in TABLES.items():
            path = folder / f"{table}.parquet"
            if not path.is_file():
                raise InvalidInput(f"{folder} is no archive: there is no {path.name}")
            places = ", ".join("?" * len(row_type._fields))
            with parquet.ParquetFile(path) as file:
                for batch in file.iter_batches(CHUNK):
                    rows = zip(*(column.to_pylist() for column in batch.columns), strict=True)
                    self._connection.executemany(f"INSERT INTO {table} VALUES ({places})", rows)
