"""The same machinery for an instance of one's own: play policies on it, or look into it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from influential_bandits.checks import optional_module
from influential_bandits.errors import InvalidInput, NotApplicable
from influential_bandits.optima.difficulty import difficulty
from influential_bandits.optima.path import optimum
from influential_bandits.policies.naming import policy_from_text
from influential_bandits.simulation.engine import simulate
from influential_bandits.studies.report.text import number
from influential_bandits.world.instance import Instance
from influential_bandits.world.noise import GaussianNoise, Noise, NoNoise, UniformNoise

__all__ = ["describe_file", "play_file"]

NOISES: dict[str, Callable[[float], Noise]] = {
    "none": lambda _: NoNoise(),
    "gaussian": GaussianNoise,
    "uniform": UniformNoise,
}


def play_file(
    path: Path,
    policies: list[str],
    horizon: int,
    noise: str,
    scale: float,
    seeds: int,
    out: Path | None,
    threads: int | None,
) -> str:
    """Play policies on the instance of a file; return the table, save runs and plot to ``out``."""
    instance = _load(path)
    chosen: Noise = NOISES[noise](scale)
    runs = [
        simulate(instance, policy_from_text(name), horizon, chosen, range(seeds), threads=threads)
        for name in policies
    ]
    what = "regret"
    try:
        values = [run.regret() for run in runs]
    except NotApplicable:
        what, values = "loss", [run.loss() for run in runs]
    marks = [c for c, t in enumerate(runs[0].checkpoints) if t >= 10 or t == horizon][::3]
    header = [f"T = {runs[0].checkpoints[c]:,}" for c in marks]
    lines = [f"| mean {what} | {' | '.join(header)} |", f"|---{'|---:' * len(header)}|"]
    for run, value in zip(runs, values, strict=True):
        means = value.mean(axis=(0, 1))
        lines.append(f"| {run.policy!r} | {' | '.join(number(means[c]) for c in marks)} |")
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        for n, run in enumerate(runs):
            run.save(out / f"{n}-{type(run.policy).__name__}.parquet")
        if what == "regret":
            optional_module("matplotlib", "plot").use("Agg")
            figure, ax = optional_module("matplotlib.pyplot", "plot").subplots()
            for run in runs:
                run.plot(ax)
            figure.savefig(out / "regret.png", dpi=150)
        lines.append(f"\nSaved to {out}")
    return "\n".join(lines)


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
        shares = sorted(zip(judged.mix, instance.arms, strict=True), reverse=True)[:8]
        lines.append(
            "Best mix p*: " + ", ".join(f"{arm} {share:.1%}" for share, arm in shares if share > 0)
        )
    except NotApplicable as reason:
        lines.append(f"Difficulty: {reason}")
    try:
        best = optimum(instance, horizon)
        order = np.argsort(-best.counts, kind="stable")[:8]
        counts = ", ".join(
            f"{instance.arms[i]} {best.counts[i]:,.6g}" for i in order if best.counts[i] > 0
        )
        lines.append(f"Optimum for T = {horizon:,}: loss {best.loss:,.6g}; counts {counts}")
        lines.append(f"Certificate: {best.certificate}")
    except NotApplicable as reason:
        lines.append(f"Optimum: {reason}")
    return "\n".join(lines)


def _load(path: Path) -> Instance:
    try:
        return Instance.load(path)
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror}") from None
