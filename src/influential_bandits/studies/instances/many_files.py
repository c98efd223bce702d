"""Many instances of one's own: each policy on each file, in pieces that survive interruptions."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from influential_bandits.errors import InvalidInput, InvalidInstance, NotApplicable, Unfinished
from influential_bandits.execution.base import Execution
from influential_bandits.execution.local import LocalExecution
from influential_bandits.files import parse_json, read_regular
from influential_bandits.numerics.fingerprints import package_digest
from influential_bandits.piece_store import make_folder
from influential_bandits.policies.contract import Policy
from influential_bandits.policies.registry import code_digest, policy_from_text
from influential_bandits.studies.instances.one_file import Rules, shown_marks
from influential_bandits.studies.report.text import number
from influential_bandits.studies.runner.running import finished_rows, progress_bar, report_failures
from influential_bandits.studies.runner.store import StudyFolder
from influential_bandits.studies.runner.study import Piece, short_name
from influential_bandits.world.instance import Instance

__all__ = ["instance_files", "play_files"]

NAME = "simulate"
MOST_ROWS = 40  # of the printed table that goes into single instances


@dataclass(frozen=True)
class _Plays:
    """What has a folder: plays are named after all that decides them, so that it can grow."""

    name: str = "runs"


def instance_files(paths: Sequence[Path]) -> list[Path]:
    """Return files, and those in folders, in order."""
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            found = sorted(path.glob("*.json"))
            if not found:
                raise InvalidInput(f"{path} is a folder without instance files (*.json)")
            files += found
        else:
            files.append(path)
    return files


def play_files(
    files: Sequence[Path],
    policies: list[str],
    rules: Rules,
    out: Path,
    execution: Execution,
    console: Console | None = None,
) -> str:
    """Play every policy on the instance of every file; return a table of mean regrets or losses.

    Each is played as if it were alone. Finished plays found in the folder are taken as they are;
    files that cannot be read, or played, are named in the end, by :class:`Unfinished`.
    """
    players = [policy_from_text(name) for name in policies]
    make_folder(out)
    folder = StudyFolder(out, _Plays(), _Plays())
    pieces = partial(_pieces, files, players, rules)
    with progress_bar(console) as bar:
        rows, failures = finished_rows(NAME, pieces, folder, bar, execution, most_left_out=1.0)
    if not rows:
        report_failures(failures, out)
        return ""
    bad = {number for failure in failures for number in failure.piece.instances or ()}
    if len(np.unique(rows["instance"])) + len(bad) < len(files):
        raise Unfinished("some files changed while they were played; run the same again")
    told = f"{_table(rows, players)}\n\nSaved to {folder.write_rows(rows)}"
    report_failures(failures, out, told)
    return told


def _pieces(files: Sequence[Path], players: list[Policy], rules: Rules) -> Iterator[Piece]:
    for place, path in enumerate(files):
        shown = os.fsencode(path).decode(errors="replace")  # names need not be text
        content: bytes | InvalidInput
        try:
            content = read_regular(path, InvalidInstance)
        except FileNotFoundError as error:
            content = InvalidInstance(f"cannot read {shown}: {error.strerror}")
        except InvalidInstance as error:
            content = error
        for policy in players:
            decides = repr((package_digest(), code_digest(policy), content, policy, rules))
            digest = hashlib.sha256(decides.encode(errors="replace")).hexdigest()[:12]
            name = f"{short_name(path.stem)}-{type(policy).__name__}-{digest}"
            rows = partial(_rows, shown, content, policy, rules)
            labels = {"instance": place, "file": shown}
            yield Piece(name, rows, range(place, place + 1), labels=labels)


def _rows(
    path: str, content: bytes | InvalidInput, policy: Policy, rules: Rules, threads: int | None
) -> dict[str, Any]:
    """Play; the instance is made here, so that a bad file spoils its own piece only.

    Rows do not say which file they are of: it may be renamed, or have another place next time.
    """
    if isinstance(content, InvalidInput):
        raise content
    data = parse_json(content, path, InvalidInstance)
    try:
        instance = Instance.from_json(data)
    except InvalidInput as error:
        raise InvalidInstance(f"{path}: {error}") from None
    run = rules.played(instance, policy, LocalExecution(threads), progress=False)
    losses = run.loss()[0]
    try:
        regrets = run.regret()[0]
    except NotApplicable:
        regrets = np.full(losses.shape, np.nan)
    seeds, marks = losses.shape
    return {
        "policy": [repr(policy)] * (seeds * marks),
        "seed": np.repeat(np.arange(seeds), marks),
        "horizon": np.tile(run.checkpoints, seeds),
        "loss": losses.ravel(),
        "regret": regrets.ravel(),
    }


def _table(rows: dict[str, Any], players: list[Policy]) -> str:
    """Return mean regrets (losses, if there is an instance without) by policy, and by instance."""
    what = "loss" if np.isnan(rows["regret"]).any() else "regret"
    horizons = np.unique(rows["horizon"])
    marks = horizons[shown_marks(horizons)]
    files = dict(zip(rows["instance"].tolist(), rows["file"], strict=True))
    header = [f"mean {what}", "instance", *(f"T = {mark:,}" for mark in marks)]
    lines = [f"| {' | '.join(header)} |", f"|---|---{'|---:' * len(marks)}|"]
    for policy in players:
        mine = rows["policy"] == repr(policy)
        groups: list[tuple[str, Any]] = [(f"all {len(files):,}", mine)]
        if len(files) * len(players) <= MOST_ROWS:
            groups += [(name, mine & (rows["instance"] == n)) for n, name in files.items()]
        for name, chosen in groups:
            at = [chosen & (rows["horizon"] == mark) for mark in marks]
            means = [number(float(rows[what][some].mean())) for some in at]
            lines.append(f"| {policy.label} | {name} | {' | '.join(means)} |")
    return "\n".join(lines)
