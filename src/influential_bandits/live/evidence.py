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

Where the share of the control was changed, groups differ in age. Instances are then compared within
the strata that were drawn with the same share. Weighted by their information, the differences of
strata sum up to Brownian motion at the time ΣI, and the bound holds as before.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass, replace

LEVEL = 0.05
DOUBT = 0.01  # probability that a sound test is ever doubted, by each of two checks
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


def sum_totals(totals: Iterable[GroupTotals]) -> GroupTotals:
    """Return the totals of several strata together."""
    columns = zip(*map(astuple, totals), strict=True)
    return GroupTotals(*map(sum, columns))


@dataclass(frozen=True)
class Stratum:
    """Instances whose groups were drawn with the same share of the control."""

    share: float
    policy: GroupTotals
    control: GroupTotals
    policy_feedback: GroupTotals  # decisions shown, and in place of losses how many have one
    control_feedback: GroupTotals


@dataclass(frozen=True)
class Evidence:
    """What the A/B test says now."""

    policy: GroupTotals
    control: GroupTotals
    difference: float | None  # mean loss of the policy less that of the control group
    low: float | None
    high: float | None
    doubts: tuple[str, ...] = ()  # for which no verdict is given

    @property
    def is_clear(self) -> bool:
        """Whether the interval excludes zero."""
        return self.low is not None and self.high is not None and not self.low <= 0 <= self.high


def judge(strata: Sequence[Stratum]) -> Evidence:
    """Return what the A/B test says, unless what it rests on is in doubt.

    Instances are compared with those of the same stratum alone. When the share of the control is
    changed, its groups differ in age from then on; within a stratum they are drawn alike.
    """
    evidence = compare_groups([(s.policy, s.control) for s in strata])
    doubts = (*_doubt_sizes(strata), *_doubt_feedback(strata))
    if not doubts:
        return evidence
    return replace(evidence, difference=None, low=None, high=None, doubts=doubts)


def compare_groups(
    pairs: Sequence[tuple[GroupTotals, GroupTotals]], level: float = LEVEL
) -> Evidence:
    """Return the difference of policy and control with its any-time interval.

    Of several pairs (policy, control) the differences are weighted by their information.

    Examples
    --------
    >>> many = GroupTotals(1000, 10_000, 3000.0, 9900.0, 30_000.0, 100_000.0)
    >>> few = GroupTotals(3, 30, 9.0, 29.7, 90.0, 300.0)
    >>> compare_groups([(few, many)]).difference is None  # each group needs 30 instances
    True
    """
    policy = sum_totals(pair[0] for pair in pairs)
    control = sum_totals(pair[1] for pair in pairs)
    usable = [pair for pair in pairs if min(of.instances for of in pair) >= FEWEST]
    if not usable:
        return Evidence(policy, control, None, None, None)
    difference, radius = _estimate(usable, level)
    return Evidence(policy, control, difference, difference - radius, difference + radius)


def _estimate(
    pairs: Sequence[tuple[GroupTotals, GroupTotals]], level: float
) -> tuple[float, float]:
    """Return the difference of means and the radius of its interval."""
    differences = [p.loss / p.decisions - c.loss / c.decisions for p, c in pairs]
    variances = [policy.variance() + control.variance() for policy, control in pairs]
    fewest = [min(policy.instances, control.instances) for policy, control in pairs]
    if not any(variances):
        return sum(d * n for d, n in zip(differences, fewest, strict=True)) / sum(fewest), 0.0
    weights = [1.0 / v if v else 0.0 for v in variances]  # one that never varied says too little
    information = sum(weights)
    difference = sum(d * w for d, w in zip(differences, weights, strict=True)) / information
    # The information per instance settles down; that of the first look follows from it.
    instances = sum(n for n, w in zip(fewest, weights, strict=True) if w)
    rho = _best_rho(NARROWEST * information * FEWEST / instances, level)
    spread = (information + 1.0 / rho) * 2.0 * math.log(math.sqrt(1 + information * rho) / level)
    return difference, math.sqrt(spread) / information


def _best_rho(information: float, level: float) -> float:
    """Return ρ² for which the bound is about narrowest at an information."""
    log_level = -2.0 * math.log(level)
    return (log_level + math.log(log_level) + 1.0) / information


def _doubt_sizes(strata: Sequence[Stratum]) -> Iterator[str]:
    """Doubt groups whose sizes are not those that were drawn.

    The binomial likelihood averaged over all shares, divided by that of the stated share, is a
    martingale if the share is true. By Ville's inequality it ever exceeds 1/α with probability α.
    """
    evidence, sizes = 0.0, [0, 0]
    for stratum in strata:
        policy, control = stratum.policy_feedback.instances, stratum.control_feedback.instances
        if 0.0 < stratum.share < 1.0:
            evidence += math.lgamma(control + 1) + math.lgamma(policy + 1)
            evidence -= math.lgamma(policy + control + 2)
            evidence -= control * math.log(stratum.share) + policy * math.log1p(-stratum.share)
            sizes[0] += policy
            sizes[1] += control
    if evidence > -math.log(DOUBT):
        yield (
            f"{sizes[0]:,} instances of the policy and {sizes[1]:,} of the control were shown "
            "something, which are not the shares that were drawn: some are missing from one group"
        )


def _doubt_feedback(strata: Sequence[Stratum]) -> Iterator[str]:
    """Doubt groups of which one answers less often: what is missing may be what differs."""
    feedback = compare_groups([(s.policy_feedback, s.control_feedback) for s in strata], DOUBT)
    if feedback.is_clear:
        shares = [100.0 * (of.mean or 0.0) for of in (feedback.policy, feedback.control)]
        yield (
            f"feedback has come for {shares[0]:.3g} % of the policy's decisions and "
            f"{shares[1]:.3g} % of the control's, and what is missing may be what differs. If no "
            "answer means something, say what by window_hours and missing_loss"
        )
