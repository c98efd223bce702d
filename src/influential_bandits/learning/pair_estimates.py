"""What each pair of arms does, with simultaneous intervals, and what all pairs explain."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from influential_bandits.learning.influence_test_result import PairEstimate
from influential_bandits.learning.score_families import Family
from influential_bandits.learning.score_regression import NEGLIGIBLE, ScoreRegression
from influential_bandits.numerics.arrays import Floats, Ints

NEARLY_ONE = 0.999


def measure_effect(
    regression: ScoreRegression, signs: Floats, confidence: float
) -> tuple[float, float, float]:
    """Return the share of the error that influence explains, and its interval.

    Σ_{u≠v} s_u·S⁻¹·s_v, from the scores s of different units: the squares of each unit, which
    chance alone makes positive, are left out. The interval is that of a wild bootstrap over units,
    with the signal shrunk to the size of the estimate.
    """
    z = regression.scores @ regression.inverse_root().T
    units, total = len(z), z.sum(0)
    size = float(total @ total)
    effect = size - float((z**2).sum())
    centre = total / units * math.sqrt(max(effect, 0.0) / size if size > 0.0 else 0.0)
    moved = signs @ (z - total / units)
    around = ((units * centre + moved) ** 2).sum(1) - 2.0 * moved @ centre
    noise = float(((z - total / units) ** 2).sum())
    errors = around - noise - units**2 * float(centre @ centre)
    tail = (1.0 - confidence) / 2.0
    low, high = np.quantile(errors, [tail, 1.0 - tail])
    error = regression.error
    return effect / error, (effect - float(high)) / error, (effect - float(low)) / error


def estimate_pairs(
    family: Family, signs: Floats, confidence: float, names: tuple[str, ...], scale: float
) -> tuple[PairEstimate, ...]:
    """Return the estimates of all pairs that were tested, the clearest first.

    Estimates are those of the best memory; p-values and intervals account for all pairs of all
    memories. An estimate is the sum of one contribution for each unit, and t its ratio to their
    root sum of squares, which no flip changes. Residuals around the estimate would do for errors as
    well, but a few units that decide about a rare pair fit it too closely.
    """
    regression = family.regression
    parts = _contribute(regression, family.labels)
    labels = family.labels[regression.usable]
    estimate, units = parts.sum(0), len(parts)
    spread = np.sqrt((parts**2).sum(0))
    tested = regression.tested & (spread > NEGLIGIBLE * spread.max(initial=0.0))
    t = np.abs(estimate[tested]) / spread[tested]
    largest = np.max(
        [
            _largest_flipped(_contribute(each, family.labels), each.tested, signs)
            for _, each in family.by_memory
        ],
        axis=0,
    )
    reached = (largest[:, None] >= t * (1.0 - NEGLIGIBLE)).sum(0)
    # Contributions around their mean are what errors are made of; the quantile of t around zero
    # becomes that of t around the mean, so that intervals and p-values agree.
    limit = min(float(np.quantile(largest, confidence)) ** 2, NEARLY_ONE * units)
    error = np.sqrt(np.maximum(spread**2 - estimate**2 / units, 0.0))[tested]
    estimate = scale * estimate[tested]
    width = scale * math.sqrt(limit / (1.0 - limit / units)) * error
    estimates = [
        PairEstimate(names[j], names[i], value, value - half, value + half, p)
        for (i, j), value, half, p in zip(
            labels[tested].tolist(),
            estimate.tolist(),
            width.tolist(),
            ((1 + reached) / (1 + len(signs))).tolist(),
            strict=True,
        )
    ]
    return tuple(estimates[n] for n in np.argsort(-t, kind="stable"))


def _contribute(regression: ScoreRegression, labels: Ints) -> Floats:
    """Return what each unit contributes to the estimate of each pair, (units, pairs).

    A number added to all pairs of different arms would hardly change a loss: what pairs do is
    relative to their mean.
    """
    parts: Floats = regression.scores @ regression.even_inverse()
    if (labels[:, 0] != labels[:, 1]).any():
        parts = parts - parts.mean(axis=1, keepdims=True)
    return parts


def _largest_flipped(parts: Floats, tested: npt.NDArray[np.bool_], signs: Floats) -> Floats:
    """Return the largest |t| of any tested pair for every flip, (flips,)."""
    spread = np.sqrt((parts**2).sum(0))
    clear = tested & (spread > NEGLIGIBLE * spread.max(initial=0.0))
    if not clear.any():
        return np.zeros(len(signs))
    largest: Floats = np.abs(signs @ (parts[:, clear] / spread[clear])).max(1)
    return largest
