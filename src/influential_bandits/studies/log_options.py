"""How a command finds its way in a file: which columns are who, when, what and how good."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from influential_bandits.errors import InvalidLog
from influential_bandits.logs.log import EventLog
from influential_bandits.logs.reading import read_log
from influential_bandits.logs.sources import column_names

__all__ = ["read_for_command"]

USUAL = {
    "instance": ("instance", "user", "user_id", "userid", "session", "session_id", "campaign"),
    "time": ("time", "timestamp", "date", "datetime", "created_at", "ts"),
    "arm": ("arm", "action", "item", "ad", "advert", "category", "genre", "genres", "topic"),
    "loss": ("loss", "cost"),
    "rating": ("rating", "stars", "score"),
    "reward": ("reward", "click", "clicked", "conversion"),
}


def read_for_command(path: Path, named: dict[str, str | None], **options: Any) -> EventLog:
    """Read a log; columns that were not named are found by their usual names.

    What was taken for what is kept in ``log.about["columns"]``.
    """
    columns = column_names(path, options.get("separator"))
    found = {role: name for role, name in named.items() if name is not None}
    value_named = any(role in found for role in ("loss", "rating", "reward"))
    for role, usual in USUAL.items():
        value = role in {"loss", "rating", "reward"}
        if role in found or (value and value_named):
            continue
        guessed = _guess(columns, usual)
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
    options |= {role: found.get(role) for role in USUAL}
    log = read_log(path, **options)
    log.about["columns"] = ", ".join(f"{role} = {name}" for role, name in found.items())
    return log


def _guess(columns: list[str], usual: tuple[str, ...]) -> str | None:
    by_lower = {column.strip().lower(): column for column in reversed(columns)}
    return next((by_lower[name] for name in usual if name in by_lower), None)
