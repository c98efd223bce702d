"""How a command finds its way in a file: which columns are who, when, what and how good."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from influential_bandits.errors import InvalidInput, InvalidLog
from influential_bandits.execution.base import Execution
from influential_bandits.learning.influence_test import MANY_ARMS
from influential_bandits.logs.column_names import USUAL_NAMES, guess_column
from influential_bandits.logs.log import EventLog
from influential_bandits.logs.merging import find_share, merge_rare_arms
from influential_bandits.logs.options import ChunkSizes, CsvFormat
from influential_bandits.logs.partitions import PartitionedLog, open_folder, open_partitions
from influential_bandits.logs.reading import read_log
from influential_bandits.logs.sources import open_source
from influential_bandits.logs.tables import Source
from influential_bandits.logs.time_columns import find_time_columns

__all__ = ["describe_reading", "open_for_command", "read_for_command"]

NO_COLUMN = "none"  # what to name where no column is to be found by itself
OPTIONAL = ("time", "item")
OUTCOMES = ("loss", "rating", "reward")


def read_for_command(
    path: Path, named: dict[str, str | None], merge_below: float | None = None, **options: Any
) -> EventLog:
    """Read a log; columns that were not named are found by their usual names.

    What was taken for what is kept in ``log.about["columns"]``. Arms that have less than a share
    ``merge_below`` of the events become one.
    """
    named = {"item": options.pop("item", None), **named}
    form = CsvFormat(options.get("separator"), options.get("columns"))
    source = open_source(path, (), form, ChunkSizes())
    found = _find_columns(str(path), source, named, options)
    log = read_log(path, **(options | {role: found.get(role) for role in USUAL_NAMES}))
    log.about["columns"] = _describe(found)
    return log if merge_below is None else merge_rare_arms(log, merge_below)


def open_for_command(
    address: str,
    named: dict[str, str | None],
    execution: Execution | None,
    temporary: str | None = None,
    **options: Any,
) -> PartitionedLog:
    """Open a folder of Parquet files as partitions; columns as in :func:`read_for_command`."""
    if options.pop("merge_below", None) is not None:
        raise InvalidInput("--merge-arms-below reads a log as a whole: leave out --by-partition")
    for name in ("separator", "columns"):
        if options.pop(name, None) is not None:
            raise InvalidInput(f"--{name} is for CSV; partitions are Parquet files")
    if address.lower().endswith((".csv", ".csv.gz", ".tsv", ".txt")):
        raise InvalidInput(
            f"--by-partition reads Parquet files, but {address} is text; leave it out"
        )
    item = options.pop("item", None) or NO_COLUMN  # else all would read it, though no fit asks
    named = {"item": item, **named}
    found = _find_columns(address, open_folder(address), named, options)
    chosen = options | {role: found.get(role) for role in USUAL_NAMES}
    log = open_partitions(address, execution=execution, folder=temporary, **chosen)
    log.about["columns"] = _describe(found)
    return log


def describe_reading(log: EventLog | PartitionedLog, all_pairs: bool = True) -> list[str]:
    """Say what else a user should know of a log that was read: repeated rows, and many arms.

    All pairs of arms are looked at, or each arm on itself alone.
    """
    told = []
    repeated, merged = log.about.get("repeated", 0), log.about.get("merged_arms", 0)
    if repeated:
        told.append(f"{repeated:,} rows repeat another, and are kept (--key refuses them)")
    if merged:
        told.append(f"{merged:,} rare arms are one")
    if log.n_arms > MANY_ARMS:
        pairs = log.n_arms * (log.n_arms + 1) // 2
        advice = "merge rare ones (--merge-arms-below), or "
        if isinstance(log, EventLog):
            share, left = find_share(log, MANY_ARMS)
            # Arms about equally frequent would all become one, which influences nothing else.
            advice = f"--merge-arms-below {share:g} leaves {left}, or " if left > 1 else ""
        what = f"{log.n_arms:,} have {pairs:,} interactions, which takes long"
        if not all_pairs:
            what = f"{log.n_arms:,} are looked at one by one, not in pairs (--all-pairs, slow)"
        told.append(
            f"MANY ARMS: {what}; {advice}name a coarser column with --arm and this one with --item"
        )
    return told


def _find_columns(
    path: str, source: Source, named: dict[str, str | None], options: dict[str, Any]
) -> dict[str, str]:
    """Return the column of each role, as it was named or by its usual name."""
    columns = source.columns
    found = {role: name for role, name in named.items() if name is not None}
    without = {role for role in OPTIONAL if found.get(role) == NO_COLUMN not in columns}
    found = {role: name for role, name in found.items() if role not in without}
    value_named = any(role in found for role in OUTCOMES)
    for role in USUAL_NAMES:
        value = role in OUTCOMES
        if role in found or role in without or role == "time" or (value and value_named):
            continue
        guessed = guess_column([name for name in columns if name not in found.values()], role)
        if guessed is not None:
            found[role] = guessed
            value_named |= value
    there = ", ".join(columns)
    for role in ("instance", "arm"):
        if role not in found:
            raise InvalidLog(
                f"which column of {path} is the {role}? Name it with --{role}; there are {there}"
            )
    if not value_named:
        raise InvalidLog(
            f"which column of {path} says how good an event was? Name it with --loss, --reward or "
            f"--rating (with --best); there are {there}"
        )
    if "rating" in found and options.get("best") is None:
        raise InvalidLog(
            f"{found['rating']!r} holds ratings: say what the best one is, as in --best 5, so that "
            "loss = best − rating"
        )
    if "time" not in found and "time" not in without:
        found |= _find_time(path, source, found)
    return found


def _find_time(path: str, source: Source, found: dict[str, str]) -> dict[str, str]:
    """Return the column of times, if one has a usual name; ask if several have, or look like it."""
    others = find_time_columns(source, found.values())
    if len(others) == 1 and guess_column(others, "time") is not None:
        return {"time": others[0]}
    if others:
        which = " and ".join(map(repr, others))
        raise InvalidLog(
            f"which column of {path} is the time? {which} may be: name it with --time, or pass "
            f"--time {NO_COLUMN} if the order of rows is the order of time"
        )
    return {}


def _describe(found: dict[str, str]) -> str:
    roles = [f"{role} = {name}" for role, name in found.items()]
    if "time" not in found:
        roles.append("NO TIME: the order of rows is taken for the order of time (--time names one)")
    return ", ".join(roles)
