"""Fig. 1a: on the counterexample of Prop. 2.2 LCB is nearly quadratic, influential LCB linear."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from influential_bandits.policies.contract import Policy
from influential_bandits.policies.influential_lcb import InfluentialLCB
from influential_bandits.policies.lcb import LCB
from influential_bandits.simulation.engine import log_spaced, simulate
from influential_bandits.studies.paper.random_runs import make_slope_figure
from influential_bandits.studies.report.content import Analysis, Figure, Finding, Series
from influential_bandits.studies.runner.rows import Rows, tidy
from influential_bandits.studies.runner.study import Piece, Settings, Study
from influential_bandits.summaries.slopes import local_slopes, log_log_slope
from influential_bandits.world.generators import counterexample

PAPER = {"InfluentialLCB": 1.02, "LCB": 1.73}
POLICIES: tuple[Policy, ...] = (LCB(), InfluentialLCB())


def pieces(settings: Settings) -> Iterator[Piece]:
    """Play each policy once: there is no noise."""
    for policy in POLICIES:
        yield Piece(type(policy).__name__, partial(_play, policy, settings.max_horizon))


def _play(policy: Policy, max_horizon: int, threads: int | None) -> Rows:
    marks = [int(t) for t in log_spaced(max_horizon) if t >= 10]
    run = simulate(
        counterexample(), policy, max_horizon, checkpoints=marks, execution=threads, progress=False
    )
    return tidy(run, [0], pulls_of_arm_2=run.counts[..., 1])


def analyse(settings: Settings, rows: Rows) -> Analysis:
    """Fit the slopes and show how they depend on the range."""
    findings, curves, local = [], [], []
    low, high = 100, settings.max_horizon
    for name, paper in PAPER.items():
        mine = rows["policy"] == name
        horizon, regret = rows["horizon"][mine], rows["regret"][mine]
        decades = np.isin(horizon, [10**e for e in range(2, 20)])
        slope = log_log_slope(horizon[decades], regret[decades], low, high)
        same = abs(slope - paper) < 0.01
        findings.append(
            Finding(
                claim=f"slope of the regret of {name}",
                paper=paper,
                ours=slope,
                low=slope,
                high=slope,
                verdict="reproduced" if same else "differs",
                reason=_reason(slope, paper, same),
                fitted=f"decades {low:,} … {int(horizon[decades].max()):,}",
            )
        )
        curves.append(Series(name, horizon, regret))
        local.append(Series(name, *local_slopes(horizon, regret)))
    return Analysis(
        findings,
        [
            Figure("regret", "Regret on the counterexample", "horizon T", "regret", curves),
            make_slope_figure(local),
        ],
        ["The counterexample has max|A| = 2, and B = 1 is played: outside Assumption 2.4."],
    )


def _reason(slope: float, paper: float, same: bool) -> str:
    if round(slope, 2) == paper:
        return "no noise, so nothing varies; equal to the printed digits"
    if same:
        return (
            f"no noise, so nothing varies; {slope:.4f} rounds to {slope:.2f}, one unit of the last "
            "printed digit away, and the range behind the paper's number is not stated"
        )
    return "no noise, so nothing varies; the slope depends on the range"


STUDY = Study(
    name="figure-1a",
    order=1,
    description="Prop. 2.2's counterexample: slopes of LCB and influential LCB",
    settings={
        "full": Settings(seeds=1, max_horizon=10**7),
        "quick": Settings(seeds=1, max_horizon=10**7),
        "tiny": Settings(seeds=1, max_horizon=10**4),
    },
    pieces=pieces,
    analyse=analyse,
)
