"""Questions to a store that look at many events: reports, and the log that ``read_log`` takes."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, Any

from influential_bandits.live.events import Event
from influential_bandits.live.experiment import Experiment
from influential_bandits.live.store.sql import Connection
from influential_bandits.packages import optional_module

COLUMNS = {
    "instance": str,
    "arm": str,
    "time": float,
    "loss": float,
    "group": str,
    "probability": float,
}
ROWS_AT_A_TIME = 50_000
FORMULAS = ("=", "+", "-", "@", "\t", "\r")


def describe_experiment(store: Connection, number: int) -> dict[str, Any]:
    """Return settings, arms and models of an experiment, from its events."""
    row = store.experiment(number)
    return Experiment.load(store, row).describe(row.events)


def read_events(
    store: Connection, experiment: int, names: Sequence[str]
) -> Iterator[tuple[Any, ...]]:
    """Yield the columns of the log, in the order in which the service heard of arms shown."""
    rows = store.stream(
        "SELECT i.label, e.arm, e.at, d.loss, i.served, d.probability, e.data FROM events AS e "
        "JOIN instances AS i ON i.experiment = e.experiment AND i.number = e.instance "
        "JOIN decisions AS d ON d.experiment = e.experiment AND d.id = e.decision "
        "WHERE e.experiment = ? AND d.loss IS NOT NULL AND (e.kind = 'shown' OR "
        "(e.kind = 'decided' AND e.ticket IS NOT NULL)) ORDER BY e.number",
        (experiment,),
    )
    for label, arm, at, loss, group, probability, data in rows:
        event = Event(experiment, 0, 0, "", at, data=data)
        yield label, names[arm], event.when(), loss, group, probability


def write_csv(store: Connection, experiment: int, names: Sequence[str], file: IO[bytes]) -> None:
    """Write the log as CSV."""
    text = io.TextIOWrapper(file, "utf-8", newline="")
    writer = csv.writer(text)
    writer.writerow(list(COLUMNS))
    for label, arm, *rest in read_events(store, experiment, names):
        writer.writerow((_disarm(label), _disarm(arm), *rest))
    text.detach()


def _disarm(text: str) -> str:
    """Return a text that no spreadsheet takes for a formula."""
    return f"'{text}" if text.startswith(FORMULAS) else text


def write_parquet(
    store: Connection, experiment: int, names: Sequence[str], file: IO[bytes] | Path
) -> None:
    """Write the log as a Parquet file."""
    write_rows(read_events(store, experiment, names), COLUMNS, file)


def write_rows(
    rows: Iterator[tuple[Any, ...]], columns: Mapping[str, type], file: IO[bytes] | Path
) -> None:
    """Write rows as a Parquet file, given the names of columns and what they hold."""
    arrow, parquet = optional_module("pyarrow"), optional_module("pyarrow.parquet")
    kinds = {str: arrow.string(), float: arrow.float64(), int: arrow.int64()}
    schema = arrow.schema([(name, kinds[kind]) for name, kind in columns.items()])
    with parquet.ParquetWriter(file, schema) as writer:
        while some := list(islice(rows, ROWS_AT_A_TIME)):
            pairs = zip(zip(*some, strict=True), schema, strict=True)
            arrays = [arrow.array(values, field.type) for values, field in pairs]
            writer.write_table(arrow.table(arrays, schema=schema))
