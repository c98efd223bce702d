"""A closed experiment as a folder of Parquet files, which replay and report read like a store."""

from __future__ import annotations

import sqlite3
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, get_type_hints

from influential_bandits.checks import abbreviate
from influential_bandits.errors import InvalidInput
from influential_bandits.live.events import Decision, Event
from influential_bandits.live.reading import describe_experiment, write_parquet
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
    arrow, parquet = optional_module("pyarrow"), optional_module("pyarrow.parquet")
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
    if folder.exists():
        raise InvalidInput(f"there is a folder {folder} already; name a new one")
    with TemporaryDirectory(dir=folder.absolute().parent, prefix=".archive-") as draft:
        for table, row_type in TABLES.items():
            hints = get_type_hints(row_type)
            kinds = [_arrow_type(arrow, hints[field]) for field in row_type._fields]
            schema = arrow.schema(list(zip(row_type._fields, kinds, strict=True)))
            column = "id" if table == "experiments" else "experiment"
            rows = store.stream(f"SELECT * FROM {table} WHERE {column} = ?", numbers)
            with parquet.ParquetWriter(Path(draft, f"{table}.parquet"), schema) as writer:
                while some := list(islice(rows, CHUNK)):
                    columns = zip(*some, strict=True)
                    arrays = [arrow.array(c, k) for c, k in zip(columns, kinds, strict=True)]
                    writer.write_table(arrow.table(arrays, schema=schema))
        with Path(draft, LOG).open("wb") as file:
            write_parquet(store, numbers[0], described["arms"], file)
        folder.mkdir(mode=0o700)
        for path in Path(draft).iterdir():
            path.rename(folder / path.name)


def _arrow_type(arrow: Any, hint: Any) -> Any:
    for name, kind in (("str", arrow.string()), ("float", arrow.float64())):
        if name in str(hint):
            return kind
    return arrow.int64()


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
