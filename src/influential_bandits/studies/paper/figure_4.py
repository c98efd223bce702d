"""Fig. 4: slopes of single instances fall into two clusters; `difficulty` tells them apart."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from influential_bandits.optima.difficulty import difficulty
from influential_bandits.policies.influential_lcb import InfluentialLCB
from influential_bandits.studies.paper.random_runs import random_runs
from influential_bandits.studies.report.content import Analysis, Figure, Finding, Series
from influential_bandits.studies.runner.rows import Rows, pivot
from influential_bandits.studies.runner.study import Piece, Settings, Study
from influential_bandits.summaries.resampling import bootstrap_interval
from influential_bandits.summaries.slopes import log_log_slopes
from influential_bandits.world.generators import random_instance

BINS = np.arange(-1.0, 2.01, 0.1)


def pieces(settings: Settings) -> Iterator[Piece]:
    """Play influential LCB on the random instances of Fig. 1b."""
    return random_runs((InfluentialLCB(),), settings.seeds, settings.max_horizon)


def analyse(settings: Settings, rows: Rows) -> Analysis:
    """Split the slopes at ½, and compare with the verdicts."""
    low, high = min(10**3, settings.max_horizon // 100), settings.max_horizon
    horizons, regret = pivot(rows, rows["policy"] == "InfluentialLCB", "regret")
    slopes = log_log_slopes(horizons, regret, low, high)
    verdicts = np.array(
        [difficulty(random_instance(3, int(n))).verdict for n in np.unique(rows["instance"])]
    )
    steep = 100.0 * float((slopes > 0.5).mean())
    interval = bootstrap_interval(slopes[:, None], lambda s: 100.0 * float((s > 0.5).mean()))
    inside = interval[0] <= 61.0 <= interval[1]
    agreeing = 100.0 * float(((slopes > 0.5) == (verdicts != "easy")).mean())
    fitted = f"{low:,} … {high:,}"
    histogram = [
        Series(
            f"{verdict} by its matrix",
            BINS[:-1] + 0.05,
            np.histogram(np.clip(slopes[verdicts == verdict], -0.99, 1.99), BINS)[0],
            kind="bars",
        )
        for verdict in ("easy", "hard")
    ]
    return Analysis(
        [
            Finding(
                claim="share of instances with a slope near 1, in %",
                paper=61,
                ours=steep,
                low=interval[0],
                high=interval[1],
                verdict="reproduced" if inside else "differs",
                reason="the paper's number lies in our interval"
                if inside
                else "other random instances: the paper's share lies outside our interval",
                fitted=fitted,
            ),
            Finding(
                claim="slopes that the verdict of difficulty() foretells, in %",
                ours=agreeing,
                reason="easy: p* uses every arm and A is positive definite along the simplex",
                fitted=fitted,
            ),
        ],
        [
            Figure(
                "slopes",
                f"Slopes of {len(slopes)} instances",
                "slope of the regret of influential LCB",
                "instances",
                histogram,
                log_x=False,
                log_y=False,
            )
        ],
        [
            (
                "The paper asks which instances are easy. The exact rule is in the matrix: inside "
                "the support of p* a mistake is repaid, outside it costs its gap times T."
            )
        ],
    )


STUDY = Study(
    name="figure-4",
    order=3,
    description="Slopes of single random instances: two clusters, and why",
    settings={
        "full": Settings(seeds=100, max_horizon=10**7),
        "quick": Settings(seeds=100, max_horizon=10**6),
        "tiny": Settings(seeds=30, max_horizon=10**5),
    },
    pieces=pieces,
    analyse=analyse,
)
