"""Questions to a store that look at many events: reports, and the log that ``read_log`` takes."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from typing import Any

from influential_bandits.checks import optional_module
from influential_bandits.live.store.sql import Connection

__all__ = ["read_agreement", "read_arms", "write_csv", "write_parquet"]

COLUMNS = ("instance", "arm", "time", "loss", "group", "probability")
ROWS_AT_A_TIME = 50_000


def read_arms(store: Connection, experiment: int) -> list[dict[str, Any]]:
    """Return decisions, losses and mean loss by arm and group."""
    rows = store.run(
        "SELECT arm, served, COUNT(*), COUNT(loss), AVG(loss) FROM decisions "
        "WHERE experiment = ? AND status <> 'exposed' GROUP BY arm, served ORDER BY arm, served",
        (experiment,),
    )
    return [
        {"arm": arm, "group": group, "decisions": n, "losses": heard, "mean_loss": mean}
        for arm, group, n, heard, mean in rows
    ]


def read_agreement(store: Connection, experiment: int) -> dict[str, int]:
    """Return how often the policy would have chosen what was served in shadow mode."""
    decisions, agreed = store.run(
        "SELECT COUNT(*), COALESCE(SUM(CASE WHEN proposed = arm THEN 1 ELSE 0 END), 0) "
        "FROM decisions WHERE experiment = ? AND served = 'policy' AND proposed IS NOT NULL",
        (experiment,),
    )[0]
    return {"decisions": int(decisions), "agreed": int(agreed)}


def read_events(
    store: Connection, experiment: int, names: Sequence[str]
) -> Iterator[tuple[Any, ...]]:
    """Yield the columns of the log, in the order in which arms were shown.

    Arms whose loss is missing, and those met elsewhere, are there without a loss: they moved the
    losses of the others all the same.
    """
    rows = store.stream(
        "SELECT i.label, e.arm, e.at, d.loss, i.served, d.probability FROM events AS e "
        "JOIN instances AS i ON i.experiment = e.experiment AND i.number = e.instance "
        "LEFT JOIN decisions AS d ON d.experiment = e.experiment AND d.id = e.decision "
        "WHERE e.experiment = ? AND (e.kind = 'shown' OR e.kind = 'exposed' OR "
        "(e.kind = 'decided' AND e.ticket IS NOT NULL)) ORDER BY e.number",
        (experiment,),
    )
    for label, arm, at, loss, group, probability in rows:
        yield label, names[arm], at, loss, group, probability


def write_csv(store: Connection, experiment: int, names: Sequence[str]) -> bytes:
    """Return the log as CSV."""
    out = io.StringIO(newline="")
    writer = csv.writer(out)
    writer.writerow(COLUMNS)
    for row in read_events(store, experiment, names):
        if row[3] is not None:
            writer.writerow(row)
    return out.getvalue().encode()


def write_parquet(store: Connection, experiment: int, names: Sequence[str]) -> bytes:
    """Return the log as a Parquet file."""
    arrow, parquet = optional_module("pyarrow"), optional_module("pyarrow.parquet")
    text, number = arrow.string(), arrow.float64()
    kinds = (text, text, number, number, text, number)
    schema = arrow.schema(list(zip(COLUMNS, kinds, strict=True)))
    out = io.BytesIO()
    with parquet.ParquetWriter(out, schema) as writer:
        rows: list[tuple[Any, ...]] = []
        for row in read_events(store, experiment, names):
            if row[3] is not None:
                rows.append(row)
            if len(rows) >= ROWS_AT_A_TIME:
                writer.write_table(_table(arrow, schema, rows))
                rows = []
        writer.write_table(_table(arrow, schema, rows))
    return out.getvalue()


def _table(arrow: Any, schema: Any, rows: list[tuple[Any, ...]]) -> Any:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(COLUMNS)
    arrays = [arrow.array(list(c), f.type) for c, f in zip(columns, schema, strict=True)]
    return arrow.table(arrays, schema=schema)
