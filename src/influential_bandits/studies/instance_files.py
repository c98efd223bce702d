"""Instance files: every policy on every instance, in pieces."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from influential_bandits.checks import require_horizon, whole_number
from influential_bandits.errors import InvalidInput, InvalidInstance
from influential_bandits.execution.base import Execution
from influential_bandits.files import parse_json, read_regular
from influential_bandits.free_memory import require_memory
from influential_bandits.numerics.fingerprints import package_digest
from influential_bandits.policies.contract import Policy
from influential_bandits.policies.registry import code_digest, policy_from_text
from influential_bandits.simulation.engine import log_spaced, simulate
from influential_bandits.simulation.scenario import Scenario
from influential_bandits.studies.report.content import Figure, Series
from influential_bandits.studies.report.static import draw
from influential_bandits.studies.report.text import format_table, number
from influential_bandits.studies.runner.rows import Rows, tidy
from influential_bandits.studies.runner.running import Job, compute_jobs, raise_if_failed
from influential_bandits.studies.runner.store import RowStore, StudyFolder, write_rows
from influential_bandits.studies.runner.study import Piece, hash_inputs, make_file_name
from influential_bandits.world.instance import Instance
from influential_bandits.world.noise import Noise

FOLDER = "runs"  # of finished pieces and their data
# The names of pieces hash every input, so that one folder serves all settings.
FOLDER_SETTINGS: Mapping[str, Any] = {"name": FOLDER}
MOST_ROWS = 40  # of the printed table that goes into single instances
POWERS = [10**exponent for exponent in range(1, 16)]  # horizons that a table shows


@dataclass(frozen=True)
class PlaySettings:
    """How policies play: to which horizon, against which noise, with which losses when."""

    horizon: int
    noise: Noise
    seeds: int
    scenario: Scenario | None = None

    def __post_init__(self) -> None:
        """Check what the user has said; a scenario with nothing in it is none."""
        number = whole_number("seeds", self.seeds, 1)
        horizon = require_horizon(self.horizon)
        require_memory(number * len(log_spaced(horizon)) * 8, f"{number:,} seeds", "ask for fewer")
        if self.scenario == Scenario():
            object.__setattr__(self, "scenario", None)


def list_instance_files(paths: Sequence[Path]) -> list[Path]:
    """Return files, and those in folders, in order."""
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = sorted(path.glob("*.json"))
            if not inside:
                raise InvalidInput(f"{path} is a folder without instance files (*.json)")
            files += inside
        else:
            files.append(path)
    return files


def play_files(
    files: Sequence[Path],
    policies: list[str],
    settings: PlaySettings,
    out: Path | None,
    execution: Execution,
) -> str:
    """Play every policy on the instance of every file; return a table of mean regrets or losses.

    Each is played as if it were alone. With a folder, rows and a plot are saved there, and finished
    pieces found in it are not computed again. :class:`Unfinished` names in the end what could not
    be played; if nothing could, the first error is raised.
    """
    players = [policy_from_text(name) for name in policies]
    store = RowStore() if out is None else StudyFolder(out, FOLDER, FOLDER_SETTINGS)
    pieces = _cut_into_pieces(files, players, settings)
    job = Job("simulate", pieces, len(files) * len(players), store, most_left_out=1.0)
    ((rows, failures),) = compute_jobs([job], execution)
    if not rows:
        raise failures[0].error
    text = _format_means(rows, players)
    if out is not None:
        text += f"\n\nSaved to {write_rows(out, FOLDER, FOLDER_SETTINGS, rows)}"
        _draw_regrets(rows, players, out)
    raise_if_failed(failures, out, text)
    return text


@dataclass(frozen=True)
class InstanceFile:
    """What was read of a file, or why it could not be."""

    path: str  # as text; names of files need not be
    content: bytes = b""
    problem: InvalidInput | None = None

    @classmethod
    def read(cls, path: Path) -> InstanceFile:
        """Read a file; an error is kept, and raised by its own piece."""
        shown = os.fsencode(path).decode(errors="replace")
        try:
            return cls(shown, read_regular(path, InvalidInstance))
        except InvalidInput as error:
            return cls(shown, problem=error)

    def parse(self) -> Instance:
        """Return the instance."""
        if self.problem is not None:
            raise self.problem
        data = parse_json(self.content, self.path, InvalidInstance)
        try:
            return Instance.from_json(data)
        except InvalidInput as error:
            raise InvalidInstance(f"{self.path}: {error}") from None


def _cut_into_pieces(
    files: Sequence[Path], players: list[Policy], settings: PlaySettings
) -> Iterator[Piece]:
    for place, path in enumerate(files):
        file = InstanceFile.read(path)
        for policy in players:
            digest = hash_inputs(
                package_digest(), code_digest(policy), file.content, policy, settings
            )
            name = f"{make_file_name(path.stem)}-{type(policy).__name__}-{digest}"
            compute = partial(_compute, file, policy, settings)
            labels = {"instance": place, "file": file.path}
            yield Piece(name, compute, range(place, place + 1), labels=labels)


def _compute(
    file: InstanceFile, policy: Policy, settings: PlaySettings, threads: int | None
) -> Rows:
    """Play; the instance is made here, so that a bad file spoils its own piece only.

    Rows do not say which file they are of: it may be renamed, or have another place next time.
    """
    run = simulate(
        file.parse(),
        policy,
        settings.horizon,
        settings.noise,
        range(settings.seeds),
        scenario=settings.scenario,
        execution=threads,
        progress=False,
    )
    rows = tidy(run, [0], policy=np.array(repr(policy), object))
    del rows["instance"]
    return rows


def _format_means(rows: Rows, players: list[Policy]) -> str:
    """Return mean regrets (losses, if there is an instance without) by policy, and by instance."""
    column = _choose_column(rows)
    horizons = np.unique(rows["horizon"])
    marks = [int(mark) for mark in horizons if mark in POWERS or mark == horizons[-1]]
    files = dict(zip(rows["instance"].tolist(), rows["file"], strict=True))
    alone = len(files) == 1
    lines = []
    for policy in players:
        mine = rows["policy"] == repr(policy)
        groups: list[tuple[list[str], Any]] = [([] if alone else [f"all {len(files):,}"], mine)]
        if not alone and len(files) * len(players) <= MOST_ROWS:
            groups += [([name], mine & (rows["instance"] == n)) for n, name in files.items()]
        for names, chosen in groups:
            at = [chosen & (rows["horizon"] == mark) for mark in marks]
            means = [number(float(rows[column][some].mean())) for some in at]
            lines.append([policy.label, *names, *means])
    header = [f"mean {column}", *([] if alone else ["instance"])]
    return format_table([*header, *(f"T = {mark:,}" for mark in marks)], lines, len(header))


def _choose_column(rows: Rows) -> str:
    """Return what is shown: regret, or loss if there is an instance without regret."""
    return "loss" if np.isnan(rows["regret"]).any() else "regret"


def _draw_regrets(rows: Rows, players: list[Policy], out: Path) -> None:
    """Draw the mean regret of each policy over all instances and seeds, if it is defined."""
    if _choose_column(rows) == "loss":
        return
    horizons = np.unique(rows["horizon"])
    series = []
    for policy in players:
        mine = rows["policy"] == repr(policy)
        means = [rows["regret"][mine & (rows["horizon"] == mark)].mean() for mark in horizons]
        series.append(Series(policy.label, horizons, means))
    figure = Figure("regret", "Mean regret", "horizon T", "mean regret", series)
    draw(figure, out, FOLDER_SETTINGS, ("png",))
