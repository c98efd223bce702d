"""Instance files: policies on one at once, or on many in pieces."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from influential_bandits.checks import require_horizon, whole_number
from influential_bandits.errors import InvalidInput, InvalidInstance, NotApplicable
from influential_bandits.execution.base import Execution
from influential_bandits.files import parse_json, read_regular, write_atomically
from influential_bandits.free_memory import require_memory
from influential_bandits.numerics.arrays import Ints
from influential_bandits.numerics.fingerprints import package_digest
from influential_bandits.packages import optional_module
from influential_bandits.piece_store import make_folder
from influential_bandits.policies.contract import Policy
from influential_bandits.policies.registry import code_digest, policy_from_text
from influential_bandits.simulation.engine import log_spaced, simulate
from influential_bandits.simulation.scenario import Scenario
from influential_bandits.simulation.trajectory import Trajectory
from influential_bandits.studies.report.text import format_table, number
from influential_bandits.studies.runner.rows import Rows, tidy
from influential_bandits.studies.runner.running import Job, compute_jobs, raise_if_failed
from influential_bandits.studies.runner.store import StudyFolder, write_rows
from influential_bandits.studies.runner.study import Piece, hash_inputs, make_file_name
from influential_bandits.world.instance import Instance
from influential_bandits.world.noise import GaussianNoise, Noise, NoNoise, UniformNoise

FOLDER = "runs"  # of finished pieces and their data
# The names of pieces hash every input, so that one folder serves all settings.
FOLDER_SETTINGS: Mapping[str, Any] = {"name": FOLDER}
MOST_ROWS = 40  # of the printed table that goes into single instances


def make_noise(name: str, sigma: float) -> Noise:
    """Return the noise of this name: none, Gaussian with σ, or uniform in (−σ, σ)."""
    if name == "none":
        return NoNoise()
    return GaussianNoise(sigma) if name == "gaussian" else UniformNoise(sigma)


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

    def play(
        self, instance: Instance, policy: Policy, execution: Execution | int | None, **more: Any
    ) -> Trajectory:
        """Let a policy play."""
        return simulate(
            instance,
            policy,
            self.horizon,
            self.noise,
            range(self.seeds),
            scenario=self.scenario,
            execution=execution,
            **more,
        )


def play_file(
    path: Path, policies: list[str], settings: PlaySettings, out: Path | None, execution: Execution
) -> str:
    """Play policies on the instance of a file; return the table, save runs and plot to ``out``."""
    instance = Instance.load(path)
    players = [policy_from_text(name) for name in policies]
    if out is not None:
        make_folder(out)
    runs = [settings.play(instance, policy, execution) for policy in players]
    what = "regret"
    try:
        values = [run.regret() for run in runs]
    except NotApplicable:
        what, values = "loss", [run.loss() for run in runs]
    if out is not None:
        _save_runs(runs, out, with_plot=what == "regret")
    checkpoints = runs[0].checkpoints
    shown = _choose_columns(checkpoints)
    header = [f"mean {what}", *(f"T = {checkpoints[c]:,}" for c in shown)]
    rows = [
        [run.policy.label, *(number(mean) for mean in value.mean(axis=(0, 1))[shown])]
        for run, value in zip(runs, values, strict=True)
    ]
    return format_table(header, rows) + (f"\n\nSaved to {out}" if out else "")


def _choose_columns(checkpoints: Ints) -> list[int]:
    """Return the places of the checkpoints that a table shows: powers of ten, and the last."""
    last = len(checkpoints) - 1
    return [c for c in range(last) if checkpoints[c] in (10**e for e in range(1, 16))] + [last]


def _save_runs(runs: list[Trajectory], out: Path, with_plot: bool) -> None:
    for n, run in enumerate(runs):
        run.save(out / f"{n}-{type(run.policy).__name__}.parquet")
    if with_plot:
        optional_module("matplotlib").use("Agg")
        figure, ax = optional_module("matplotlib.pyplot").subplots()
        for run in runs:
            run.plot(ax)
        write_atomically(
            out / "regret.png", lambda path: figure.savefig(path, format="png", dpi=150)
        )


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
    out: Path,
    execution: Execution,
) -> str:
    """Play every policy on the instance of every file; return a table of mean regrets or losses.

    Each is played as if it were alone. Finished pieces found in the folder are not computed again;
    :class:`Unfinished` names the files that could not be read, or played, in the end.
    """
    players = [policy_from_text(name) for name in policies]
    make_folder(out)
    folder = StudyFolder(out, FOLDER, FOLDER_SETTINGS)
    pieces = _cut_into_pieces(files, players, settings)
    job = Job("simulate", pieces, len(files) * len(players), folder, most_left_out=1.0)
    ((rows, failures),) = compute_jobs([job], execution)
    if not rows:
        raise_if_failed(failures, out)
        return ""
    saved = write_rows(out, FOLDER, FOLDER_SETTINGS, rows)
    text = f"{_format_means(rows, players)}\n\nSaved to {saved}"
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
    run = settings.play(file.parse(), policy, threads, progress=False)
    rows = tidy(run, [0], policy=np.array(repr(policy), object))
    del rows["instance"]
    return rows


def _format_means(rows: Rows, players: list[Policy]) -> str:
    """Return mean regrets (losses, if there is an instance without) by policy, and by instance."""
    what = "loss" if np.isnan(rows["regret"]).any() else "regret"
    horizons = np.unique(rows["horizon"])
    marks = horizons[_choose_columns(horizons)]
    files = dict(zip(rows["instance"].tolist(), rows["file"], strict=True))
    lines = []
    for policy in players:
        mine = rows["policy"] == repr(policy)
        groups: list[tuple[str, Any]] = [(f"all {len(files):,}", mine)]
        if len(files) * len(players) <= MOST_ROWS:
            groups += [(name, mine & (rows["instance"] == n)) for n, name in files.items()]
        for name, chosen in groups:
            at = [chosen & (rows["horizon"] == mark) for mark in marks]
            means = [number(float(rows[what][some].mean())) for some in at]
            lines.append([policy.label, name, *means])
    return format_table(
        [f"mean {what}", "instance", *(f"T = {mark:,}" for mark in marks)], lines, 2
    )
