"""From regrets to standings: means, paired intervals, ranks, growth and tails."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.packages import optional_module
from influential_bandits.studies.compare.results import Estimates, Standings, divide_means
from influential_bandits.summaries.resampling import resample_means
from influential_bandits.summaries.slopes import log_log_slopes

FITTED_FROM = 1000  # slopes are fitted to horizons from here on
TAILS = (0.5, 0.9, 0.99, 1.0)


@dataclass(frozen=True, eq=False)
class HorizonStandings(Standings):
    """How policies did on one family; arrays are (policies, horizons), NaN where undefined.

    Intervals are 95 % percentile intervals over instances that are drawn anew, the same ones for
    all policies: a ratio or a difference of two policies is paired.
    """

    horizons: Ints
    rank: Floats  # 1 is the lowest mean; ties share their ranks; NaN for references
    lowest: Ints  # (horizons,): the contender with the lowest mean
    ratio: Estimates  # to the lowest contender
    difference: Estimates  # from the lowest contender
    close: npt.NDArray[np.bool_]  # the paired difference from the lowest may be zero
    slope: Estimates  # of log(mean) in log T, over 1,000 … T
    tails: Floats  # (tails, policies, horizons): quantiles of regret / T over instances


def compute_standings(
    regrets: Mapping[str, Floats],
    horizons: Sequence[int],
    references: Sequence[str] = (),
    resamples: int = 1000,
) -> HorizonStandings:
    """Return the standings from regrets (instances, horizons) of each policy, row by row paired."""
    policies = list(regrets)
    values = np.stack([regrets[name] for name in policies])  # (policies, instances, horizons)
    contender = np.array([name not in references for name in policies])
    marks = np.asarray(horizons, np.int64)
    mean = values.mean(axis=1)
    means = resample_means(values, resamples)

    lowest = np.argmin(np.where(contender[:, None], mean, np.inf), axis=0)
    every = np.arange(len(marks))
    mean_of_lowest = mean[lowest, every]
    of_lowest = means[lowest, :, every].T[None]  # (1, resamples, horizons)
    difference = Estimates.of_draws(mean - mean_of_lowest, means - of_lowest)
    ratio = divide_means(mean, mean_of_lowest)
    return HorizonStandings(
        policies=policies,
        contender=contender,
        columns=[f"T = {horizon:,}" for horizon in horizons],
        mean=Estimates.of_draws(mean, means),
        horizons=marks,
        rank=_rank(mean, contender),
        lowest=lowest,
        ratio=Estimates.of_draws(ratio, divide_means(means, of_lowest)),
        difference=difference,
        close=difference.low <= 1e-12 * np.abs(mean).max(axis=0),  # rounding
        slope=_fit_slopes(marks, mean, means),
        tails=np.quantile(values / marks, TAILS, axis=1),
    )


def _rank(mean: Floats, contender: npt.NDArray[np.bool_]) -> Floats:
    ranks = np.full_like(mean, np.nan)
    if contender.any():
        rank = optional_module("scipy.stats").rankdata
        ranks[contender] = rank(mean[contender], method="average", axis=0)
    return ranks


def _fit_slopes(horizons: Ints, mean: Floats, means: Floats) -> Estimates:
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
    return Estimates(slope, np.minimum(low, slope), np.maximum(high, slope))
