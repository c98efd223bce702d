"""Draw the pictures of the documents: ``python docs/measurements/pictures.py``."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

mpl.use("Agg")
from matplotlib import pyplot as plt

import influential_bandits as ib

IMAGES = Path(__file__).parents[1] / "images"
BLUE, VERMILION, GREEN = (
    "#0072B2",
    "#D55E00",
    "#009E73",
)  # Okabe and Ito: safe for colour-blind eyes
GENRES = ("horror", "comedy", "drama")
EVENING = (0, 0, 0, 1, 1, 0, 2, 2, 0)


def problem() -> None:
    """An evening of films: what each pull shows, and what it does to all losses."""
    instance = ib.Instance(
        [[0.5, -0.2, 0.1], [-0.2, 0.3, 0.1], [0.1, 0.1, 0.2]], [0.4, 0.8, 1.1], arm_names=GENRES
    )
    environment = ib.Environment(instance)
    losses = [environment.expected_losses()]
    for arm in EVENING:
        environment.pull(arm)
        losses.append(environment.expected_losses())
    losses = np.array(losses)

    runs = _play()
    shapes: dict[str, Any] = {
        "problem": {"ncols": 3, "figsize": (12, 3.6), "width_ratios": (0.8, 1.3, 1.2)},
        "problem-narrow": {"nrows": 3, "figsize": (4.4, 9.6), "height_ratios": (1.1, 1, 1)},
    }
    for name, shape in shapes.items():
        figure, (matrix, evening, growth) = plt.subplots(**shape, layout="constrained")
        _heat_map(matrix, instance)
        _evening(evening, losses)
        _growth(growth, runs)
        figure.savefig(IMAGES / f"{name}.png", dpi=130)


def _heat_map(ax: plt.Axes, instance: ib.Instance) -> None:
    a = instance.interaction.to_dense()
    ax.imshow(a, cmap="PuOr_r", vmin=-0.6, vmax=0.6)
    for i in range(3):
        for j in range(3):
            ax.text(j, i, f"{a[i, j]:+.1f}", ha="center", va="center")
    ax.set_xticks(range(3), GENRES)
    ax.set_yticks(range(3), GENRES, rotation=90, va="center")
    ax.set_title(
        "The interaction matrix A: pulling a row\nadds its entries to all losses", fontsize=10
    )


def _evening(ax: plt.Axes, losses: np.ndarray) -> None:
    rounds = np.arange(len(losses)) + 1
    for k, (colour, name) in enumerate(zip((VERMILION, BLUE, GREEN), GENRES, strict=True)):
        ax.plot(rounds, losses[:, k], color=colour, linewidth=1.5)
        pulled = [t for t, arm in enumerate(EVENING) if arm == k]
        ax.plot(rounds[pulled], losses[pulled, k], "o", color=colour, markersize=7)
        ax.annotate(name, (rounds[-1] + 0.15, losses[-1, k]), color=colour, va="center")
    ax.set(xlabel="round", ylabel="loss", xlim=(0.7, 12.2), xticks=rounds[:-1])
    ax.set_title("Only the loss of the pulled arm (dot) is seen;\nevery loss moves", fontsize=10)


def _play() -> Mapping[str, ib.Trajectory]:
    instances = [ib.random_instance(n_arms=3, seed=seed) for seed in range(100)]
    return ib.simulate(instances, [ib.LCB(), ib.InfluentialLCB()], 10**6, ib.GaussianNoise(1.0))


def _growth(ax: plt.Axes, runs: Mapping[str, ib.Trajectory]) -> None:
    for (name, run), colour, marker in zip(
        runs.items(), (VERMILION, BLUE), ("s", "o"), strict=True
    ):
        late = run.checkpoints >= 10
        ax.loglog(
            run.checkpoints[late],
            run.regret().mean(axis=(0, 1))[late],
            color=colour,
            marker=marker,
            markersize=3,
            label=f"{name}, slope {run.slope(10**4, 10**6):.2f}",
        )
    ax.set(xlabel="horizon T", ylabel="mean regret")
    ax.set_title("100 random instances, 3 arms, noise N(0, 1):\nslopes over 10⁴ … 10⁶", fontsize=10)
    ax.grid(True, alpha=0.3)
    ax.legend(fontsize=9)


if __name__ == "__main__":
    IMAGES.mkdir(exist_ok=True)
    problem()
