"""Intervals by drawing rows anew, from streams: the same rows for the same seed, everywhere."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.numerics.compiling import kernel
from influential_bandits.numerics.streams import RESAMPLING, stream_at, stream_keys, uniform

Interval = tuple[Floats, Floats]  # low and high


def bootstrap_interval(
    values: npt.ArrayLike,
    statistic: Callable[[Floats], float],
    resamples: int = 1000,
    seed: int = 0,
) -> tuple[float, float]:
    """Return the 95 % percentile interval of a statistic when the rows are drawn anew.

    Parameters
    ----------
    values : array (rows, ...)
        Independent rows.
    statistic : callable
        From such an array to a number.

    Examples
    --------
    >>> low, high = bootstrap_interval([1.0, 2.0, 3.0, 4.0], lambda rows: float(rows.mean()))
    >>> low < 2.5 < high
    True
    """
    rows = np.asarray(values, float)
    estimates = [statistic(rows[drawn]) for drawn in draw_resamples(len(rows), resamples, seed)]
    low, high = np.quantile(estimates, [0.025, 0.975])
    return float(low), float(high)


def bootstrap_mean_interval(values: Floats) -> Interval:
    """Return the 95 % interval of the mean over rows, of every column of (rows, columns)."""
    means = resample_means(values[None])
    low, high = find_interval(means, values.mean(axis=0)[None])
    return low[0], high[0]


def resample_means(values: Floats, resamples: int = 1000) -> Floats:
    """Return means over rows drawn anew, (sets, resamples, columns), of (sets, rows, columns)."""
    rows = values.shape[1]
    weights = np.stack([np.bincount(r, minlength=rows) for r in draw_resamples(rows, resamples)])
    means: Floats = np.einsum("bi,pih->pbh", weights / rows, values)
    return means


def find_interval(resampled: Floats, estimate: Floats) -> Interval:
    """Return quantiles over the second axis; rounding must not push the estimate out of them."""
    low, high = np.quantile(resampled, [0.025, 0.975], axis=1)
    return np.minimum(low, estimate), np.maximum(high, estimate)


def draw_resamples(rows: int, resamples: int = 1000, seed: int = 0) -> Ints:
    """Return row numbers drawn with replacement, (resamples, rows)."""
    drawn: Ints = _draw(rows, resamples, np.uint64(seed))
    return drawn


@kernel
def _draw(rows: int, resamples: int, seed: np.uint64) -> Ints:
    out = np.empty((resamples, rows), np.int64)
    first_key, second_key = stream_keys(seed, 0, RESAMPLING)
    for n in range(resamples):
        stream = stream_at(first_key, second_key, n)
        for row in range(rows):
            out[n, row] = min(int(uniform(stream, row) * rows), rows - 1)
    return out
