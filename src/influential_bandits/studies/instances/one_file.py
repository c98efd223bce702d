"""The same machinery for an instance of one's own: play policies on it, or look into it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from influential_bandits.checks import (
    checked_horizon,
    optional_module,
    whole_number,
)
from influential_bandits.errors import InvalidInput, NotApplicable
from influential_bandits.execution.base import Execution
from influential_bandits.files import write_atomically
from influential_bandits.memory import require_memory
from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.optima.certificate import TOLERANCE, Certificate
from influential_bandits.optima.difficulty import difficulty
from influential_bandits.optima.path import optimum
from influential_bandits.piece_store import make_folder
from influential_bandits.policies.contract import Policy
from influential_bandits.policies.registry import policy_from_text
from influential_bandits.simulation.engine import log_spaced, simulate
from influential_bandits.simulation.scenario import Scenario
from influential_bandits.simulation.trajectory import Trajectory
from influential_bandits.studies.report.text import number
from influential_bandits.world.instance import Instance
from influential_bandits.world.noise import GaussianNoise, Noise, NoNoise, UniformNoise

__all__ = ["Rules", "describe_file", "play_file"]

NOISES: dict[str, Callable[[float], Noise]] = {
    "none": lambda _: NoNoise(),
    "gaussian": GaussianNoise,
    "uniform": UniformNoise,
}


@dataclass(frozen=True)
class Rules:
    """How policies play: to which horizon, against which noise, with which losses when."""

    horizon: int
    noise: Noise
    seeds: int
    scenario: Scenario | None

    @classmethod
    def of(
        cls, horizon: int, noise: str, sigma: float, seeds: int, practice: Mapping[str, Any]
    ) -> Rules:
        """Check what a user has said; all settings of a scenario at their defaults, it is none."""
        scenario: Scenario | None = Scenario(**practice)
        if scenario == Scenario():
            scenario = None
        number = whole_number("seeds", seeds, 1)
        horizon = checked_horizon(horizon)
        require_memory(number * len(log_spaced(horizon)) * 8, f"{number:,} seeds", "ask for fewer")
        return cls(horizon, NOISES[noise](sigma), number, scenario)

    def played(
        self,
        instance: Instance,
        policy: Policy,
        execution: Execution,
        progress: bool | None = None,
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
            progress=progress,
        )


def play_file(
    path: Path, policies: list[str], rules: Rules, out: Path | None, execution: Execution
) -> str:
    """Play policies on the instance of a file; return the table, save runs and plot to ``out``."""
    instance = _load(path)
    players = [policy_from_text(name) for name in policies]
    if out is not None:
        make_folder(out)
    runs = [rules.played(instance, policy, execution) for policy in players]
    what = "regret"
    try:
        values = [run.regret() for run in runs]
    except NotApplicable:
        what, values = "loss", [run.loss() for run in runs]
    if out is not None:
        _save(runs, out, with_plot=what == "regret")
    return _table(runs, what, values) + (f"\n\nSaved to {out}" if out else "")


def shown_marks(checkpoints: Ints) -> list[int]:
    """Return the places of the checkpoints that a table shows: powers of ten, and the last."""
    last = len(checkpoints) - 1
    return [c for c in range(last) if checkpoints[c] in (10**e for e in range(1, 16))] + [last]


def _table(runs: list[Trajectory], what: str, values: list[Floats]) -> str:
    checkpoints = runs[0].checkpoints
    marks = shown_marks(checkpoints)
    header = [f"T = {checkpoints[c]:,}" for c in marks]
    lines = [f"| mean {what} | {' | '.join(header)} |", f"|---{'|---:' * len(header)}|"]
    for run, value in zip(runs, values, strict=True):
        means = value.mean(axis=(0, 1))
        lines.append(f"| {run.policy.label} | {' | '.join(number(means[c]) for c in marks)} |")
    return "\n".join(lines)


def _save(runs: list[Trajectory], out: Path, with_plot: bool) -> None:
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


def describe_file(path: Path, horizon: int) -> str:
    """Return what is known of an instance: kind, spectrum, difficulty, optimum."""
    instance = _load(path)
    lines = [repr(instance)]
    if instance.n_arms <= 2000:
        eigenvalues = np.linalg.eigvalsh(instance.interaction.to_dense())
        shown = ", ".join(number(float(v)) for v in eigenvalues[::-1][:8])
        lines.append(f"Spectrum: {shown}{', …' if len(eigenvalues) > 8 else ''}")
    try:
        judged = difficulty(instance)
        lines.append(f"Difficulty: {judged.verdict} (leaning {judged.leaning}): {judged.reason}")
        shares = sorted(zip(judged.mix, instance.arm_names, strict=True), reverse=True)[:8]
        lines.append(
            "Best mix p*: " + ", ".join(f"{arm} {share:.1%}" for share, arm in shares if share > 0)
        )
    except NotApplicable as reason:
        lines.append(f"Difficulty: {reason}")
    try:
        best = optimum(instance, horizon)
        order = np.argsort(-best.counts, kind="stable")[:8]
        counts = ", ".join(
            f"{instance.arm_names[i]} {best.counts[i]:,.6g}" for i in order if best.counts[i] > 0
        )
        lines.append(f"Optimum for T = {horizon:,}: loss {best.loss:,.6g}; counts {counts}")
        lines.append(f"Certificate: {_in_words(best.certificate)}")
    except NotApplicable as reason:
        lines.append(f"Optimum: {reason}")
    return "\n".join(lines)


def _in_words(certificate: Certificate) -> str:
    proved = "proved optimal" if certificate.is_optimal() else "NOT proved optimal"
    return (
        f"{proved} by {certificate.method}; relative residuals: constraints "
        f"{certificate.primal:.1e}, gradient {certificate.dual:.1e}, duality gap "
        f"{certificate.gap:.1e} (at most {TOLERANCE:.0e} each)"
    )


def _load(path: Path) -> Instance:
    try:
        return Instance.load(path)
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror}") from None
