"""From regrets to standings: means, paired intervals, ranks, wins, growth and tails."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from influential_bandits.checks import optional_module
from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.numerics.resampling import Interval, find_interval, resample_means
from influential_bandits.numerics.slopes import log_log_slopes

__all__ = ["Standings", "as_json", "compute_standings", "count_wins", "divide_means"]

FITTED_FROM = 1000  # slopes are fitted to horizons from here on
SMALLEST = 1e-12  # regrets below count as this on a log scale
TAILS = (0.5, 0.9, 0.99, 1.0)


@dataclass(frozen=True, eq=False)
class Standings:
    """How policies did on one family; arrays are (policies, horizons), NaN where undefined.

    Intervals are 95 % percentile intervals over instances that are drawn anew, the same ones for
    all policies: a ratio or a difference of two policies is paired.
    """

    policies: list[str]
    contender: npt.NDArray[np.bool_]  # (policies,): who is ranked; the others are references
    horizons: Ints
    mean: Floats
    interval: Interval
    rank: Floats  # 1 is the lowest mean; ties share their ranks; NaN for references
    lowest: Ints  # (horizons,): the contender with the lowest mean
    ratio: Floats  # to the lowest contender
    ratio_interval: Interval
    difference_interval: Interval  # from the lowest contender
    close: npt.NDArray[np.bool_]  # the paired difference from the lowest may be zero
    reference_ratio: Floats  # to the reference policy
    reference_interval: Interval
    slope: Floats  # of log(mean) in log T, over 1,000 … T
    slope_interval: Interval
    own_slope: Floats  # the median of the instances' own slopes
    tails: Floats  # (tails, policies, horizons): quantiles of regret / T over instances


def compute_standings(
    regrets: Mapping[str, Floats],
    horizons: Sequence[int],
    references: Sequence[str] = (),
    reference: str | None = None,
    resamples: int = 1000,
) -> Standings:
    """Return the standings from regrets (instances, horizons) of each policy, row by row paired."""
    policies = list(regrets)
    values = np.stack([regrets[name] for name in policies])  # (policies, instances, horizons)
    contender = np.array([name not in references for name in policies])
    marks = np.asarray(horizons, np.int64)
    mean = values.mean(axis=1)
    means = resample_means(values, resamples)

    lowest = np.argmin(np.where(contender[:, None], mean, np.inf), axis=0)
    every = np.arange(len(marks))
    of_lowest = means[lowest, :, every].T[None]  # (1, resamples, horizons)
    differences = find_interval(means - of_lowest, mean - mean[lowest, every])
    rounding = 1e-12 * np.abs(mean).max(axis=0)
    nobody = np.full_like(mean, np.nan)
    reference_ratio, reference_interval = nobody, (nobody, nobody)
    if reference in policies:
        base = policies.index(reference)
        reference_ratio = divide_means(mean, mean[base])
        reference_interval = find_interval(divide_means(means, means[base][None]), reference_ratio)
    slope, slope_interval = _fit_slopes(marks, mean, means)
    ratio = divide_means(mean, mean[lowest, every])
    return Standings(
        policies,
        contender,
        marks,
        mean,
        find_interval(means, mean),
        _rank(mean, contender),
        lowest,
        ratio,
        find_interval(divide_means(means, of_lowest), ratio),
        differences,
        differences[0] <= rounding,
        reference_ratio,
        reference_interval,
        slope,
        slope_interval,
        _fit_own_slopes(marks, values),
        np.quantile(values / marks, TAILS, axis=1),
    )


def divide_means(values: Floats, base: Floats) -> Floats:
    """Return values / base where both are positive, else NaN: regrets alone can be compared so."""
    sound = (base > 0.0) & (values >= 0.0)
    return np.where(sound, values / np.where(base > 0.0, base, 1.0), np.nan)


def _rank(mean: Floats, contender: npt.NDArray[np.bool_]) -> Floats:
    ranks = np.full_like(mean, np.nan)
    if contender.any():
        rank = optional_module("scipy.stats").rankdata
        ranks[contender] = rank(mean[contender], method="average", axis=0)
    return ranks


def _fit_slopes(horizons: Ints, mean: Floats, means: Floats) -> tuple[Floats, Interval]:
    slope, low, high = (np.full_like(mean, np.nan) for _ in range(3))
    for h, last in enumerate(horizons):
        fitted = (horizons >= FITTED_FROM) & (horizons <= last)
        if fitted.sum() < 2:
            continue
        for p in range(len(mean)):
            if (mean[p, fitted] > 0).all():
                slope[p, h] = log_log_slopes(horizons, mean[p : p + 1], FITTED_FROM, last)[0]
            if (means[p][:, fitted] > 0).all():
                drawn = log_log_slopes(horizons, means[p], FITTED_FROM, last)
                low[p, h], high[p, h] = np.quantile(drawn, [0.025, 0.975])
    return slope, (np.minimum(low, slope), np.maximum(high, slope))


def _fit_own_slopes(horizons: Ints, values: Floats) -> Floats:
    """Return the median over instances of the slope of each: a mean follows the worst of them."""
    own = np.full((len(values), len(horizons)), np.nan)
    for h, last in enumerate(horizons):
        fitted = (horizons >= FITTED_FROM) & (horizons <= last)
        for p in range(len(values)):
            if fitted.sum() >= 2 and (values[p][:, fitted] >= 0.0).all():
                above = np.maximum(values[p], SMALLEST)
                own[p, h] = np.median(log_log_slopes(horizons, above, FITTED_FROM, last))
    return own


def count_wins(values: Mapping[str, Floats]) -> Floats:
    """Return how often each policy (row) has less regret than each other (column); ties are half.

    From regrets (instances,) of each policy on the same instances.
    """
    stack = np.stack(list(values.values()))
    less = stack[:, None, :] < stack[None, :, :]
    same = stack[:, None, :] == stack[None, :, :]
    shares: Floats = (less + 0.5 * same).mean(axis=2)
    return shares


def summary_rows(
    family: str, found: Standings, instances: int, benchmark: str
) -> list[dict[str, Any]]:
    """Return the standings as rows for programs: one for each policy and horizon."""
    rows = []
    for p, policy in enumerate(found.policies):
        for h, horizon in enumerate(found.horizons):
            at = (p, h)
            row = {
                "family": family,
                "policy": policy,
                "horizon": int(horizon),
                "mean_regret": found.mean[at],
                "low": found.interval[0][at],
                "high": found.interval[1][at],
                "benchmark": benchmark,
                "instances": instances,
                "reference": not bool(found.contender[p]),
                "rank": found.rank[at],
                "lowest": bool(found.lowest[h] == p and found.contender[p]),
                "within_interval_of_lowest": bool(found.close[at] and found.contender[p]),
                "ratio_to_lowest": found.ratio[at],
                "ratio_low": found.ratio_interval[0][at],
                "ratio_high": found.ratio_interval[1][at],
                "difference_low": found.difference_interval[0][at],
                "difference_high": found.difference_interval[1][at],
                "ratio_to_each_arm_once": found.reference_ratio[at],
                "ratio_to_each_arm_once_low": found.reference_interval[0][at],
                "ratio_to_each_arm_once_high": found.reference_interval[1][at],
                "slope": found.slope[at],
                "slope_low": found.slope_interval[0][at],
                "slope_high": found.slope_interval[1][at],
                "slope_of_median_instance": found.own_slope[at],
                "slope_from": FITTED_FROM,
                "regret_per_round_median": found.tails[0][at],
                "regret_per_round_90": found.tails[1][at],
                "regret_per_round_99": found.tails[2][at],
                "regret_per_round_max": found.tails[3][at],
            }
            rows.append({key: as_json(value) for key, value in row.items()})
    return rows


def as_json(value: Any) -> Any:
    """Return a value as strict JSON has it: NaN is none."""
    if isinstance(value, (float, np.floating)):
        return float(value) if np.isfinite(value) else None
    return value
