"""Growth rates: slopes on log-log scales, always over a stated range."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from influential_bandits.errors import InvalidInput

__all__ = ["log_log_slope"]


def log_log_slope(horizons: npt.ArrayLike, values: npt.ArrayLike, low: float, high: float) -> float:
    """Return the least-squares slope of log(values) against log(horizons) within [low, high].

    Examples
    --------
    >>> round(log_log_slope([10, 100, 1000], [5, 500, 50_000], 10, 1000), 6)
    2.0
    """
    x, y = np.asarray(horizons, float), np.asarray(values, float)
    if x.shape != y.shape or x.ndim != 1:
        raise InvalidInput(f"horizons and values must be equally long, got {x.shape} and {y.shape}")
    chosen = (x >= low) & (x <= high)
    usable = (y[chosen] > 0) & np.isfinite(y[chosen]) & (x[chosen] > 0)
    if chosen.sum() < 2 or not usable.all():
        raise InvalidInput(
            f"a slope over {low:g} … {high:g} needs two horizons there, and positive values"
        )
    return float(np.polyfit(np.log(x[chosen]), np.log(y[chosen]), 1)[0])
