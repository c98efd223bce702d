"""Which column is what, by the names that columns usually have."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["USUAL", "guess_column"]

USUAL = {
    "instance": ("instance", "user", "user_id", "userid", "session", "session_id", "campaign"),
    "time": ("time", "timestamp", "date", "datetime", "created_at", "ts"),
    "arm": ("arm", "action", "item", "ad", "advert", "category", "genre", "genres", "topic"),
    "loss": ("loss", "cost"),
    "rating": ("rating", "stars", "score"),
    "reward": ("reward", "click", "clicked", "conversion"),
}


def guess_column(columns: Sequence[str], role: str) -> str | None:
    """Return the column whose name says that it has this role, if there is one.

    Examples
    --------
    >>> guess_column(["User_ID", "film", "stars"], "instance")
    'User_ID'
    """
    by_lower = {column.strip().lower(): column for column in reversed(columns)}
    return next((by_lower[name] for name in USUAL[role] if name in by_lower), None)
