"""How the cost of InfluentialLCB grows with rounds and arms: curves, exponents and a picture."""

import time
from dataclasses import dataclass

import numpy as np

import influential_bandits as ib
from benchmarks.timing import Row, fastest

RANK = 16
NOISE = ib.UniformNoise(1.0)
COLOURS = ("#0072B2", "#D55E00", "#009E73")  # Okabe and Ito: safe for colour-blind eyes


@dataclass(frozen=True)
class Curve:
    """Times at several sizes; the exponent is fitted to the sizes from ``fitted_from`` on."""

    name: str
    sizes: list
    times: list
    fitted_from: int

    @property
    def exponent(self):
        """Slope of the straight line through the logarithms."""
        points = [(s, t) for s, t in zip(self.sizes, self.times, strict=True) if self.counts(s)]
        sizes, times = np.log(np.array(points)).T
        return float(np.polyfit(sizes, times, 1)[0])

    def counts(self, size):
        return size >= self.fitted_from


def rows(quick, plot=None):
    by_horizon, by_arms = horizon_curves(quick), arms_curves(quick)
    if plot is not None:
        draw(by_horizon, by_arms, plot)
    for subject, curves in (("a run against T", by_horizon), ("a round against K", by_arms)):
        for curve in curves:
            first, last = curve.fitted_from, curve.sizes[-1]
            what = f"exponent of the time of {subject}, {curve.name}, {first:,} to {last:,}"
            yield Row(what, curve.exponent, "")


def horizon_curves(quick):
    """Return seconds of one run of T rounds: alone, and as one of 16 in lanes."""
    most = 7 if quick else 8
    instance = ib.random_instance(n_arms=3, seed=0)

    def seconds(horizon, runs):
        repetitions = max(1, min(20, 10**7 // horizon))
        job = player(instance, horizon, range(runs))
        return fastest({0: job}, repetitions, time.process_time)[0][0] / runs

    alone = [10**e for e in range(2, most + 1)]
    # Fewer rounds are not worth lanes.
    in_lanes = [3 * 10**5, *(10**e for e in range(6, most + 1))]
    return [
        Curve("K = 3, one run", alone, [seconds(t, 1) for t in alone], 10**6),
        Curve("K = 3, in lanes", in_lanes, [seconds(t, 16) for t in in_lanes], 10**6),
    ]


def arms_curves(quick):
    """Return seconds of a round after each arm was pulled once: dense, low rank, in lanes."""
    rounds, repetitions = (100_000, 3) if quick else (500_000, 7)

    def seconds(instance, runs=1):
        arms = instance.n_arms
        jobs = {t: player(instance, t, range(runs)) for t in (arms, arms + rounds)}
        times, _ = fastest(jobs, repetitions, time.process_time)
        return (times[arms + rounds] - times[arms]) / (rounds * runs)

    dense = [2**e for e in range(1, 11)]
    low_rank = [10**e for e in range(2, 6)]
    few = list(range(2, 13))
    lanes = [seconds(ib.random_instance(arms, seed=0), 48) for arms in few]
    return [
        Curve("dense", dense, [seconds(ib.random_instance(k, seed=0)) for k in dense], 128),
        Curve(
            f"low rank, r = {RANK}",
            low_rank,
            [seconds(ib.random_instance(k, seed=0, rank=RANK)) for k in low_rank],
            low_rank[0],
        ),
        Curve("dense, in lanes", few, lanes, 6),
    ]


def player(instance, horizon, seeds):
    return lambda: ib.simulate(
        instance,
        ib.InfluentialLCB(),
        horizon,
        NOISE,
        seeds,
        [horizon],
        execution=1,
        progress=False,
    )


def draw(by_horizon, by_arms, file):
    """Draw both families of curves with their fitted lines."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    panels = (
        (
            by_horizon,
            "rounds T",
            "seconds of a run",
            "The time of a run: in proportion to its rounds",
        ),
        (
            by_arms,
            "arms K",
            "seconds of a round",
            "The time of a round: a row of A, in lanes all of A",
        ),
    )
    for ax, (curves, size, cost, title) in zip(axes, panels, strict=True):
        for curve, colour in zip(curves, COLOURS, strict=False):
            label = f"{curve.name}: exponent {curve.exponent:.2f}"
            ax.plot(curve.sizes, curve.times, "o", color=colour, markersize=4, label=label)
            ax.plot(*line(curve), color=colour, linewidth=1)
        ax.set(xscale="log", yscale="log", xlabel=size, ylabel=cost)
        ax.set_title(title, fontsize=10)
        ax.grid(alpha=0.3)
        ax.legend(frameon=False, fontsize=8)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=130)
    plt.close(figure)


def line(curve):
    """Return the fitted line over the sizes that it was fitted to."""
    sizes = np.array([size for size in curve.sizes if curve.counts(size)], float)
    times = np.array(curve.times[-len(sizes) :])
    middle = np.exp(np.log(times).mean() - curve.exponent * np.log(sizes).mean())
    return sizes, middle * sizes**curve.exponent
