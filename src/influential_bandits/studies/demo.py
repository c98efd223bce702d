"""The paper's main claim in ten seconds: LCB fails where influential LCB does not (Fig. 1)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from influential_bandits.checks import optional_module
from influential_bandits.policies.contract import Policy
from influential_bandits.policies.influential_lcb import InfluentialLCB
from influential_bandits.policies.lcb import LCB
from influential_bandits.simulation.engine import simulate
from influential_bandits.simulation.trajectory import Trajectory
from influential_bandits.world.generators import counterexample, random_instance
from influential_bandits.world.instance import Instance
from influential_bandits.world.noise import GaussianNoise, Noise, NoNoise

__all__ = ["SETTINGS", "Setting", "draw", "play", "power", "rows"]

POLICIES: tuple[Policy, ...] = (LCB(), InfluentialLCB())
COLOURS = ("#D55E00", "#0072B2")  # Okabe and Ito's vermilion and blue: safe for colour-blind eyes
MARKERS = ("s", "o")


@dataclass(frozen=True)
class Setting:
    """What is played, and over which horizons its slope is fitted."""

    title: str
    instances: tuple[Instance, ...]
    noise: Noise
    horizon: int
    fitted: tuple[int, int]
    note: str


SETTINGS = (
    Setting(
        title="Counterexample (Prop. 2.2)",
        instances=(counterexample(),),
        noise=NoNoise(),
        horizon=10**7,
        fitted=(10**2, 10**7),
        note="no noise; max|A| = 2, outside Assumption 2.4",
    ),
    Setting(
        title="100 random instances, K = 3",
        instances=tuple(random_instance(arms=3, seed=seed) for seed in range(100)),
        noise=GaussianNoise(1.0),
        horizon=10**6,
        fitted=(10**4, 10**6),
        note="noise N(0, 1), outside Assumption 2.5",
    ),
)


def play(setting: Setting) -> Iterator[Trajectory]:
    """Simulate both policies on a setting, at every power of ten."""
    decades = [10**e for e in range(2, 10) if 10**e <= setting.horizon]
    for policy in POLICIES:
        yield simulate(
            setting.instances, policy, setting.horizon, setting.noise, checkpoints=decades
        )


def rows(setting: Setting, run: Trajectory) -> tuple[str, ...]:
    """Return a line of the regret table: policy, mean regret at each decade, slope."""
    means = run.regret().mean(axis=(0, 1))
    return (
        type(run.policy).__name__,
        *(short(mean) for mean in means),
        f"{run.slope(*setting.fitted):.3f}",
    )


def power(number: int) -> str:
    """Return a power of ten in superscripts: 10⁶."""
    return "10" + str(len(str(number)) - 1).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))


def short(number: float) -> str:
    """Return three digits of a number in few characters: 98.6, 1.42e9."""
    if number < 999.5:
        return f"{number:.3g}"
    digits, exponent = f"{number:.2e}".split("e")
    return f"{digits}e{int(exponent)}"


def draw(results: list[tuple[Setting, list[Trajectory]]], path: Path) -> None:
    """Save the log-log plot of all settings side by side."""
    pyplot = optional_module("matplotlib.pyplot", "plot")
    figure, axes = pyplot.subplots(
        1, len(results), figsize=(5.2 * len(results), 4.2), layout="constrained", squeeze=False
    )
    for ax, (setting, runs) in zip(axes[0], results, strict=True):
        for run, colour, marker in zip(runs, COLOURS, MARKERS, strict=True):
            slope = run.slope(*setting.fitted)
            run.plot(ax, label=f"{type(run.policy).__name__}, slope {slope:.2f}")
            line = ax.lines[-1]
            line.set(color=colour, marker=marker, markersize=5)
            for band in ax.collections[len(ax.lines) - 1 :]:
                band.set_facecolor(colour)
        low, high = setting.fitted
        ax.set_title(
            f"{setting.title}\n{setting.note}; slopes over {power(low)} … {power(high)}", fontsize=9
        )
        ax.grid(True, alpha=0.3)
        ax.legend()
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
