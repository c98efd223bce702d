"""How a command finds its way in a file: which columns are who, when, what and how good."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from influential_bandits.errors import InvalidInput, InvalidLog
from influential_bandits.execution.base import Execution
from influential_bandits.logs.log import EventLog
from influential_bandits.logs.options import USUAL_NAMES, guess_column
from influential_bandits.logs.partitions import PartitionedLog, columns_at, open_partitions
from influential_bandits.logs.reading import read_log
from influential_bandits.logs.sources import column_names

__all__ = ["open_for_command", "read_for_command"]


def read_for_command(path: Path, named: dict[str, str | None], **options: Any) -> EventLog:
    """Read a log; columns that were not named are found by their usual names.

    What was taken for what is kept in ``log.about["columns"]``.
    """
    columns = column_names(path, options.get("separator"))
    found = _find_columns(str(path), columns, named, options)
    log = read_log(path, **(options | {role: found.get(role) for role in USUAL_NAMES}))
    log.about["columns"] = _describe(found)
    return log


def open_for_command(
    address: str,
    named: dict[str, str | None],
    execution: Execution | None,
    temporary: str | None = None,
    **options: Any,
) -> PartitionedLog:
    """Open a folder of Parquet files as partitions; columns as in :func:`read_for_command`."""
    if options.pop("separator", None) is not None:
        raise InvalidInput("--separator is for CSV; partitions are Parquet files")
    if address.lower().endswith((".csv", ".csv.gz", ".tsv", ".txt")):
        raise InvalidInput(
            f"--by-partition reads Parquet files, but {address} is text; leave it out"
        )
    found = _find_columns(address, columns_at(address), named, options)
    chosen = options | {role: found.get(role) for role in USUAL_NAMES}
    log = open_partitions(address, execution=execution, folder=temporary, **chosen)
    log.about["columns"] = _describe(found)
    return log


def _find_columns(
    path: str, columns: list[str], named: dict[str, str | None], options: dict[str, Any]
) -> dict[str, str]:
    """Return the column of each role, as it was named or by its usual name."""
    found = {role: name for role, name in named.items() if name is not None}
    value_named = any(role in found for role in ("loss", "rating", "reward"))
    for role in USUAL_NAMES:
        value = role in {"loss", "rating", "reward"}
        if role in found or (value and value_named):
            continue
        guessed = guess_column(columns, role)
        if guessed is not None:
            found[role] = guessed
            value_named |= value
    for role in ("instance", "arm"):
        if role not in found:
            raise InvalidLog(
                f"which column of {path} is the {role}? Name it with --{role}; there are "
                f"{', '.join(columns)}"
            )
    if not value_named:
        raise InvalidLog(
            f"which column of {path} says how good an event was? Name it with --loss, --reward or "
            f"--rating (with --best); there are {', '.join(columns)}"
        )
    if "rating" in found and options.get("best") is None:
        raise InvalidLog(
            f"{found['rating']!r} holds ratings: say what the best one is, as in --best 5, so that "
            "loss = best − rating"
        )
    return found


def _describe(found: dict[str, str]) -> str:
    return ", ".join(f"{role} = {name}" for role, name in found.items())
