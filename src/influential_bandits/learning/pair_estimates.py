"""What each pair of arms does, with simultaneous intervals, and what all pairs explain."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from influential_bandits.errors import NotApplicable
from influential_bandits.learning.exposures import Regressors
from influential_bandits.learning.influence_test_result import PairEstimate
from influential_bandits.learning.score_regression import NEGLIGIBLE, NO_PAIR, ScoreRegression
from influential_bandits.learning.statistics.design import (
    SYMMETRIC,
    Design,
    as_matrix,
    interaction_entries,
    interaction_size,
)
from influential_bandits.numerics.arrays import Floats, Ints

__all__ = ["estimate_pairs", "list_pairs", "measure_effect"]

NEARLY_ONE = 0.999


def list_pairs(regression: ScoreRegression, design: Design) -> Ints:
    """Return the arms (i, j) of the usable pairs, (pairs, 2)."""
    return np.array(interaction_entries(design.kind, design.n_arms))[regression.usable]


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
    x: Regressors,
    found: list[ScoreRegression],
    best: int,
    signs: Floats,
    confidence: float,
    names: tuple[str, ...],
    scale: float,
) -> tuple[tuple[PairEstimate, ...], Floats, npt.NDArray[np.bool_]]:
    """Return the estimates of all pairs that were tested, the matrix, and where it was measured.

    Estimates are those of the best memory; p-values and intervals account for all pairs of all
    memories. An estimate is the sum of one contribution for each unit, and t its ratio to their
    root sum of squares, which no flip changes. Residuals around the estimate would do for errors as
    well, but a few units that decide about a rare pair fit it too closely.
    """
    kind, arms, regression = x.design.kind, x.design.n_arms, found[best]
    contributions = [_contribute(each, x.design) for each in found]
    parts = contributions[best]
    labels = list_pairs(regression, x.design)
    estimate, units = parts.sum(0), len(parts)
    spread = np.sqrt((parts**2).sum(0))
    tested = regression.tested & (spread > 0.0)
    if not tested.any():
        raise NotApplicable(NO_PAIR)
    t = np.abs(estimate[tested]) / spread[tested]
    largest = np.max(
        [
            _largest_flipped(each, regressed.tested, signs)
            for each, regressed in zip(contributions, found, strict=True)
        ],
        axis=0,
    )
    reached = (largest[:, None] >= t * (1.0 - NEGLIGIBLE)).sum(0)
    # Contributions around their mean are what errors are made of; the quantile of t around zero
    # becomes that of t around the mean, so that intervals and p-values agree.
    limit = min(float(np.quantile(largest, confidence)) ** 2, NEARLY_ONE * units)
    error = np.sqrt(np.maximum(spread**2 - estimate**2 / units, 0.0))[tested]
    estimate = scale * estimate
    width = scale * math.sqrt(limit / (1.0 - limit / units)) * error
    estimates = [
        PairEstimate(names[j], names[i], value, value - half, value + half, p)
        for (i, j), value, half, p in zip(
            labels[tested].tolist(),
            estimate[tested].tolist(),
            width.tolist(),
            ((1 + reached) / (1 + len(signs))).tolist(),
            strict=True,
        )
    ]
    everything = np.zeros((2, interaction_size(kind, arms)))
    everything[0, regression.usable[tested]] = estimate[tested]
    everything[1, regression.usable[tested]] = 1.0
    matrix, measured = as_matrix(kind, arms, everything)
    by_clarity = np.argsort(-t, kind="stable")
    return tuple(estimates[n] for n in by_clarity), matrix, measured > 0.0


def _contribute(regression: ScoreRegression, design: Design) -> Floats:
    """Return what each unit contributes to the estimate of each pair, (units, pairs)."""
    parts: Floats = regression.scores @ regression.even_inverse()
    if design.kind == SYMMETRIC:
        parts = parts @ _centring(list_pairs(regression, design), design.n_arms).T
    return parts


def _largest_flipped(parts: Floats, tested: npt.NDArray[np.bool_], signs: Floats) -> Floats:
    """Return the largest |t| of any tested pair for every flip, (flips,)."""
    spread = np.sqrt((parts**2).sum(0))
    kept = tested & (spread > 0.0)
    if not kept.any():
        return np.zeros(len(signs))
    largest: Floats = np.abs(signs @ (parts[:, kept] / spread[kept])).max(1)
    return largest


def _centring(labels: Ints, arms: int) -> Floats:
    """Return the map from entries A_ij of the pairs to those of the doubly centred matrix."""
    pairs = np.arange(len(labels))
    row_means = np.zeros((arms, len(labels)))
    row_means[labels[:, 0], pairs] = 1.0
    row_means[labels[:, 1], pairs] = 1.0
    met = np.unique(labels)
    row_means /= len(met)
    mean = row_means[met].mean(0)
    return np.eye(len(labels)) - row_means[labels[:, 0]] - row_means[labels[:, 1]] + mean
