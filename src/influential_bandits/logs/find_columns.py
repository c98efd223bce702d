"""find_columns: which columns hold instance, arm, time and outcome, if they were not named."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from influential_bandits.errors import InvalidLog
from influential_bandits.logs.column_names import guess_column
from influential_bandits.logs.columns import arrow
from influential_bandits.logs.controls import PREFIX
from influential_bandits.logs.options import (
    AUTO,
    NONE,
    OUTCOMES,
    ROLES,
    ControlColumn,
    ReadingOptions,
)
from influential_bandits.logs.sources import check_columns
from influential_bandits.logs.tables import Source
from influential_bandits.logs.time_columns import find_time_columns

ARMS = "arms"  # the column of frames of logs that lists the arms of items
OF_FRAMES = {"instance", "arm", "item", ARMS, "time", "loss"}


def find_columns(options: ReadingOptions, source: Source, *, items: bool = True) -> ReadingOptions:
    """Return options in which every column is known: as it was named, or by its usual name.

    With ``items``, a column that says which item of its arm an event was is looked for, too.
    """
    check_columns(source, options.named)
    columns = source.columns
    named = {role: getattr(options, role) for role in ROLES}
    named |= {role: None for role, name in named.items() if name == NONE and NONE not in columns}
    if not items and named["item"] == AUTO:
        named["item"] = None
    value_named = any(named[role] is not None for role in OUTCOMES)
    known = {name for name in named.values() if name is not None and name != AUTO}
    outcomes = OUTCOMES if options.best is None else ("rating",)
    for role in ("instance", "arm", *outcomes, "item"):
        if named[role] == AUTO or (role in OUTCOMES and not value_named):
            guess = guess_column([name for name in columns if name not in known], role)
            named[role] = guess
            value_named |= role in OUTCOMES and guess is not None
            known |= set() if guess is None else {guess}
    _require_columns(source, named, options.best, value_named)
    if named["time"] == AUTO:
        named["time"] = _find_time(source, known)
    columns_of: dict[str, Any] = dict(named)
    if not options.controls:
        columns_of["controls"] = tuple(
            ControlColumn(name.removeprefix(PREFIX), name)
            for name in columns
            if name.startswith(PREFIX)
        )
    if ARMS in columns and named["arm"] != ARMS and not (options.items or options.categories):
        columns_of["items"] = _list_members(source, named["arm"])
        columns_of["item"] = None if options.item == AUTO else named["item"]
    settled = replace(options, **columns_of)
    check_columns(source, settled.wanted)
    return settled


def _require_columns(
    source: Source, named: dict[str, str | None], best: float | None, value_named: bool
) -> None:
    """Raise an error for a role that no column has."""
    there = f"there are {', '.join(source.columns)}"
    for role in ("instance", "arm"):
        if named[role] is None:
            raise InvalidLog(
                f"which column of {source.name} is the {role}? Name it with {role}= (--{role}); "
                f"{there}"
            )
    if not value_named:
        raise InvalidLog(
            f"which column of {source.name} says how good an event was? Name it with loss=, "
            f"reward= or rating= with best= (--loss, --reward, --rating, --best); {there}"
        )
    if named["rating"] is not None and best is None:
        raise InvalidLog(
            f"{named['rating']!r} holds ratings: say what the best one is, as in best=5 "
            "(--best 5), so that loss = best − rating"
        )


def _find_time(source: Source, known: Collection[str]) -> str | None:
    """Return the column of times, if one has a usual name; ask if several have, or look like it."""
    others = find_time_columns(source, known)
    if len(others) == 1 and guess_column(others, "time") is not None:
        return others[0]
    if others:
        which = " and ".join(map(repr, others))
        raise InvalidLog(
            f"which column of {source.name} is the time? {which} may be: name it with time= "
            "(--time), or pass time=None (--time none) if the order of rows is the order of time"
        )
    return None


def _list_members(source: Source, arm: str | None) -> dict[str, list[str]] | None:
    """Return the arms of each item, if a frame of a log lists them."""
    members: dict[str, list[str]] = {}
    for chunk in source.chunks([arm or "", ARMS], lambda *_: None):
        if not arrow().types.is_nested(chunk.column(1).type):
            return None
        for item, arms in zip(*map(list, chunk.columns), strict=True):
            if str(item) not in members:
                members[str(item)] = arms.as_py()
    return members


def is_own_frame(columns: Sequence[str]) -> bool:
    """Tell whether columns are those of :meth:`EventLog.to_frame` for a log that was not read."""
    return all(name in OF_FRAMES or name.startswith(PREFIX) for name in columns)


def describe_columns(options: ReadingOptions) -> str:
    """Say which column was taken for what.

    Examples
    --------
    >>> describe_columns(ReadingOptions("user", "ad", None, reward="click", item=None))
    'instance = user, arm = ad, reward = click, NO TIME: the order of rows is taken for ...'
    """
    roles = [f"{role} = {getattr(options, role)}" for role in ROLES if getattr(options, role)]
    if options.time is None:
        roles.append("NO TIME: the order of rows is taken for the order of time (--time names one)")
    return ", ".join(roles)
