"""Questions to a store that look at many events: reports, and the log that ``read_log`` takes."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import IO, Any

from influential_bandits.live.events import Event
from influential_bandits.live.experiment import Experiment
from influential_bandits.live.store.sql import Connection
from influential_bandits.packages import optional_module

COLUMNS = ("instance", "arm", "time", "loss", "group", "probability")
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
    writer.writerow(COLUMNS)
    for label, arm, *rest in read_events(store, experiment, names):
        writer.writerow((_disarm(label), _disarm(arm), *rest))
    text.detach()


def _disarm(text: str) -> str:
    """Return a text that no spreadsheet takes for a formula."""
    return f"'{text}" if text.startswith(FORMULAS) else text


def write_parquet(
    store: Connection, experiment: int, names: Sequence[str], file: IO[bytes]
) -> None:
    """Write the log as a Parquet file."""
    arrow, parquet = optional_module("pyarrow"), optional_module("pyarrow.parquet")
    text, number = arrow.string(), arrow.float64()
    kinds = (text, text, number, number, text, number)
    schema = arrow.schema(list(zip(COLUMNS, kinds, strict=True)))
    events = read_events(store, experiment, names)
    with parquet.ParquetWriter(file, schema) as writer:
        while rows := list(islice(events, ROWS_AT_A_TIME)):
            writer.write_table(_table(arrow, schema, rows))


def _table(arrow: Any, schema: Any, rows: list[tuple[Any, ...]]) -> Any:
    columns = zip(*rows, strict=True)
    arrays = [arrow.array(list(c), f.type) for c, f in zip(columns, schema, strict=True)]
    return arrow.table(arrays, schema=schema)
