"""How a command reads a log, and what it says about it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from influential_bandits.learning.influence_test import MANY_ARMS, MOST_ARMS, MOST_ARMS_ALONE
from influential_bandits.logs.log import EventLog
from influential_bandits.logs.merging import find_share, merge_rare_arms
from influential_bandits.logs.reading import read_log
from influential_bandits.logs.remote_folder import describe_files


def read_for_command(
    path: Path, reading: Mapping[str, Any], merge_below: float | None = None
) -> EventLog:
    """Read a log; arms that have less than a share ``merge_below`` of the events become one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a command says NO TIME in its own line
        log = read_log(path, **reading)
    return log if merge_below is None else merge_rare_arms(log, merge_below)


def describe_reading(log: EventLog, all_pairs: bool = True, *, tests: bool = False) -> list[str]:
    """Say what was read and what was taken for what, and what a user should know of it.

    All pairs of arms are looked at, or each arm on itself alone; by a test, which refuses very many
    arms and tells that itself, or by a fit.
    """
    about = log.about
    remarks = [f"Read {log!r}: {about['columns']}"] if "columns" in about else []
    remarks += [f"times: {about['times']}"] if "times" in about else []
    converted = {"rating", "reward"} & set(about.get("reading", ()))
    remarks += [about["conversion"]] if converted else []
    remarks += describe_files(about)
    repeated, merged = about.get("repeated", 0), about.get("merged_arms", 0)
    if repeated:
        remarks.append(f"{repeated:,} rows repeat another, and are kept")
    if merged:
        remarks.append(f"{merged:,} rare arms are one")
    most = MOST_ARMS if all_pairs else MOST_ARMS_ALONE
    if log.n_arms > MANY_ARMS and not (tests and log.n_arms > most):
        remarks.append(_advise_many_arms(log, all_pairs, tests))
    dropped = about.get("dropped", {})
    return remarks + [f"{n:,} rows dropped: {reason}" for reason, n in dropped.items()]


def _advise_many_arms(log: EventLog, all_pairs: bool, tests: bool) -> str:
    """Say what many arms cost, and how to have fewer."""
    share, left = find_share(log, MANY_ARMS)
    # Arms about equally frequent would all become one, which influences nothing else.
    advice = f"--merge-arms-below {share:g} leaves {left}, or " if left > 1 else ""
    pairs = log.n_arms * (log.n_arms + 1) // 2
    cost = f"{log.n_arms:,} have {pairs:,} interactions, which takes long"
    if not all_pairs:
        slow = ", which takes long" if log.n_arms > MOST_ARMS_ALONE else ""
        cost = f"{log.n_arms:,} are fitted one by one{slow}"
    if tests and not all_pairs:
        cost = f"{log.n_arms:,} are looked at one by one, not in pairs (--all-pairs, slow)"
    return f"MANY ARMS: {cost}; {advice}name a coarser column with --arm and this one with --item"
