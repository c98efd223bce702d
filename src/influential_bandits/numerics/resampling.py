"""Intervals by drawing rows anew, from streams: the same rows for the same seed, everywhere."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.numerics.compiling import kernel
from influential_bandits.numerics.streams import RESAMPLING, stream_at, stream_keys, uniform

__all__ = ["bootstrap_interval"]


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
    drawn = _draw(len(rows), resamples, np.uint64(seed))
    estimates = [statistic(rows[chosen]) for chosen in drawn]
    low, high = np.quantile(estimates, [0.025, 0.975])
    return float(low), float(high)


@kernel
def _draw(rows: int, resamples: int, seed: np.uint64) -> Ints:
    """Return row numbers drawn with replacement, (resamples, rows)."""
    out = np.empty((resamples, rows), np.int64)
    first_key, second_key = stream_keys(seed, 0, RESAMPLING)
    for n in range(resamples):
        stream = stream_at(first_key, second_key, n)
        for row in range(rows):
            out[n, row] = min(int(uniform(stream, row) * rows), rows - 1)
    return out
