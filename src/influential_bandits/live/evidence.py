"""The A/B test: the policy against the control group, with an interval that holds at any time.

Influence stays within an instance, so that instances are drawn into the groups and are the units of
the variance. The difference of mean losses per decision is a difference of two ratios,
Σ_u L_u / Σ_u N_u, with the variance that instances give it. Over time, the estimate times its
information I (the inverse of its variance) moves like Brownian motion at time I, or more slowly:
losses of the same instance are alike, which makes later values depend more on earlier ones, and by
Slepian's inequality the probability to ever leave a bound smaller. So the normal-mixture bound of
Robbins holds for all looks together, in large samples (Waudby-Smith et al., 2024):

    |θ̂ − θ| ≤ √((I + 1/ρ²)·2·log(√(1 + I·ρ²)/α)) / I,    for all looks, with probability 1 − α.

ρ² says where the bound is narrowest; here at ten times the information of the first look.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from influential_bandits.live.store.sql import Connection

__all__ = ["Evidence", "GroupTotals", "compare_groups", "read_totals"]

LEVEL = 0.05
FEWEST = 30  # instances of each group before the first look
NARROWEST = 10.0  # times the information of the first look


@dataclass(frozen=True)
class GroupTotals:
    """Sums over the instances of a group: how many, decisions N, losses L, and their products."""

    instances: int = 0
    decisions: int = 0
    loss: float = 0.0
    squares: float = 0.0  # Σ L²
    products: float = 0.0  # Σ L·N
    counts: float = 0.0  # Σ N²

    @property
    def mean(self) -> float | None:
        """Mean loss per decision."""
        return self.loss / self.decisions if self.decisions else None

    def variance(self) -> float:
        """Variance of the mean, from instance to instance."""
        if self.instances < 2 or not self.decisions:
            return math.inf
        mean = self.loss / self.decisions
        rest = self.squares - 2.0 * mean * self.products + mean * mean * self.counts
        correction = self.instances / (self.instances - 1.0)
        return max(rest, 0.0) * correction / self.decisions**2


@dataclass(frozen=True)
class Evidence:
    """What the A/B test says now."""

    policy: GroupTotals
    control: GroupTotals
    difference: float | None  # mean loss of the policy less that of the control group
    low: float | None
    high: float | None
    verdict: str

    @property
    def is_clear(self) -> bool:
        """Whether the interval excludes zero."""
        return self.low is not None and self.high is not None and not self.low <= 0 <= self.high


def compare_groups(policy: GroupTotals, control: GroupTotals, level: float = LEVEL) -> Evidence:
    """Return the difference of two groups with its any-time interval.

    Examples
    --------
    >>> many = GroupTotals(1000, 10_000, 3000.0, 9900.0, 30_000.0, 100_000.0)
    >>> few = GroupTotals(3, 30, 9.0, 29.7, 90.0, 300.0)
    >>> compare_groups(few, many).verdict
    'too early to tell: each group needs 30 instances with feedback'
    """
    fewest = min(policy.instances, control.instances)
    if fewest < FEWEST or policy.mean is None or control.mean is None:
        verdict = f"too early to tell: each group needs {FEWEST} instances with feedback"
        return Evidence(policy, control, None, None, None, verdict)
    difference = policy.mean - control.mean
    variance = policy.variance() + control.variance()
    if variance == 0.0:
        radius = 0.0
    else:
        information = 1.0 / variance
        # The information per instance settles down; that of the first look follows from it.
        first = information * FEWEST / fewest
        rho = _best_rho(NARROWEST * first, level)
        spread = (
            (information + 1.0 / rho) * 2.0 * math.log(math.sqrt(1 + information * rho) / level)
        )
        radius = math.sqrt(spread) / information
    low, high = difference - radius, difference + radius
    if low > 0.0:
        verdict = "the policy loses more than the control"
    elif high < 0.0:
        verdict = "the policy loses less than the control"
    else:
        verdict = "no difference has been shown yet"
    return Evidence(policy, control, difference, low, high, verdict)


def _best_rho(information: float, level: float) -> float:
    """Return ρ² for which the bound is about narrowest at an information."""
    log_level = -2.0 * math.log(level)
    return (log_level + math.log(log_level) + 1.0) / information


def read_totals(store: Connection, experiment: int) -> dict[str, GroupTotals]:
    """Return the totals of both groups, of all decisions whose loss counts.

    In shadow mode the caller decides for both groups: these decisions tell nothing.
    """
    rows = store.run(
        "SELECT served, COUNT(*), SUM(n), SUM(l), SUM(l * l), SUM(l * n), SUM(n * n) FROM ("
        "SELECT served, instance, COUNT(*) AS n, SUM(loss) AS l FROM decisions "
        "WHERE experiment = ? AND loss IS NOT NULL AND proposed IS NULL "
        "GROUP BY served, instance) AS instances "
        "GROUP BY served",
        (experiment,),
    )
    totals = {"policy": GroupTotals(), "control": GroupTotals()}
    for group, instances, decisions, *sums in rows:
        totals[group] = GroupTotals(int(instances), int(decisions), *map(float, sums))
    return totals
