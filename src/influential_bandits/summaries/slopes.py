"""Growth rates: slopes on log-log scales, always over a stated range, with intervals."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from influential_bandits.checks import abbreviate, is_real, real_array
from influential_bandits.errors import InvalidInput
from influential_bandits.numerics.arrays import Floats


def log_log_slope(horizons: npt.ArrayLike, values: npt.ArrayLike, low: float, high: float) -> float:
    """Return the least-squares slope of log(values) against log(horizons) within [low, high].

    Examples
    --------
    >>> round(log_log_slope([10, 100, 1000], [5, 500, 50_000], 10, 1000), 6)
    2.0
    """
    return float(log_log_slopes(horizons, real_array("values", values)[None], low, high)[0])


def log_log_slopes(horizons: npt.ArrayLike, values: Floats, low: float, high: float) -> Floats:
    """Return the slope of every row of ``values`` (rows, horizons), as :func:`log_log_slope`."""
    x, y = real_array("horizons", horizons), real_array("values", values)
    for name, value in (("low", low), ("high", high)):
        if not is_real(value):
            raise InvalidInput(f"{name} must be a number, got {abbreviate(value)}")
    if x.ndim != 1 or y.shape[1:] != x.shape:
        raise InvalidInput(f"horizons and values must be equally long, got {x.shape} and {y.shape}")
    chosen = (x >= low) & (x <= high)
    y = y[:, chosen]
    if chosen.sum() < 2 or not ((y > 0) & np.isfinite(y) & (x[chosen] > 0)).all():
        raise InvalidInput(
            f"a slope over {low:g} … {high:g} needs two horizons there, and positive values"
        )
    log_x = np.log(x[chosen])
    centred = log_x - log_x.mean()
    slopes: Floats = np.log(y) @ centred / (centred @ centred)
    return slopes


def local_slopes(horizons: npt.ArrayLike, values: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Return the slope between every two neighbouring horizons, and their geometric means.

    Examples
    --------
    >>> local_slopes([10, 1000], [1, 100])
    (array([100.]), array([1.]))
    """
    x, y = np.asarray(horizons, float), np.asarray(values, float)
    return np.sqrt(x[1:] * x[:-1]), np.diff(np.log(y)) / np.diff(np.log(x))
