"""A user's level that drifts: an autoregression g of its own, followed from loss to loss.

A loss is what is expected without drift, plus g, plus noise; g has the variance σ²·drift and the
correlation ρ from one loss of the user to the next, as in ``learning/kalman.py``. Its filter is of
one number: before each loss, the level is taken to be independent of the user's taste and of
(μ, A), so that each takes its share of the surprise. A fleet learns all else from losses less the
level that was expected of them.

In the long run the level is known up to the variance σ²·P before a loss. The fleet's unit of
variances is then σ²·(1 + P): what a loss has beyond everything that can be known. The level is an
exponential average of surprises then, which is what ``DriftModel`` fits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from influential_bandits.numerics.arrays import Floats
from influential_bandits.numerics.compiling import inlined, kernel
from influential_bandits.numerics.portable import log
from influential_bandits.policies.fleet.states import DRIFT, Own, Rules, Shared

# Candidates where drift is estimated: deviation in units of σ, and ρ.
DRIFTS = ((0.0, 0.0), (0.25, 0.95), (0.5, 0.8), (0.5, 0.95), (1.0, 0.8), (1.0, 0.95), (2.0, 0.95))
DRIFTING = 6.0  # nats by which a level that drifts must beat one that does not


def find_steady_variance(drift: float, keep: float) -> float:
    """Return P, in σ²: how unsure a level is before a loss, after many of them.

    It solves P = ρ²·P/(1 + P) + drift·(1 − ρ²).

    Examples
    --------
    >>> find_steady_variance(0.0, 0.9), round(find_steady_variance(1.0, 0.95), 3)
    (0.0, 0.312)
    """
    fresh = drift * (1.0 - keep * keep)
    less = 1.0 - keep * keep - fresh
    return 0.5 * (math.sqrt(less * less + 4.0 * fresh) - less)


def find_drift(level_memory: float, coefficient: float) -> tuple[float, float]:
    """Return (drift, ρ) of which an exponential average of surprises is the filter in the long run.

    The expected level is ``coefficient`` times the average, whose memory is ``level_memory``.

    Examples
    --------
    >>> drift, keep = find_drift(0.9, 0.5)
    >>> gain = find_steady_variance(drift, keep) / (1.0 + find_steady_variance(drift, keep))
    >>> round(keep * (1.0 - gain), 9), round(keep * gain / 0.1, 9)
    (0.9, 0.5)
    """
    share = min(max(coefficient, 0.0), 0.99)
    keep = level_memory + share * (1.0 - level_memory)
    if share == 0.0 or keep == 0.0:
        return 0.0, 0.0
    gain = share * (1.0 - level_memory) / keep
    steady = gain / (1.0 - gain)
    return steady * (1.0 - keep * keep * (1.0 - gain)) / (1.0 - keep * keep), keep


def scale_drift(drift: float, keep: float) -> tuple[float, float, float]:
    """Return the variances of level and noise in units of σ²·(1 + P), and ρ."""
    unit = 1.0 + find_steady_variance(drift, keep)
    return drift / unit, 1.0 / unit, keep


def tabulate_drifts(drifts: Sequence[tuple[float, float]]) -> Floats:
    """Return (candidates, 3) as compiled code sees them, from variances in σ² and ρ."""
    return np.array([scale_drift(*each) for each in drifts]).reshape(-1, 3)


@inlined
def let_move(variance: float, drift: float, keep: float) -> float:
    """Return the variance of a level one step later, if it drifts with a variance in the end."""
    left = keep * keep
    return left * variance + drift * (1.0 - left)


@inlined
def expected_level(rules: Rules, shared: Shared, own: Own, u: int) -> float:
    """Return a user's level now."""
    return own.level[u, shared.numbers[DRIFT], 0] if rules.drifts.shape[0] > 0 else 0.0


@inlined
def level_variance(rules: Rules, shared: Shared, own: Own, u: int) -> float:
    """Return the variance of it."""
    chosen = shared.numbers[DRIFT]
    return rules.drifts[chosen, 0] - own.level[u, chosen, 1] if rules.drifts.shape[0] > 0 else 0.0


@inlined
def level_doubt(rules: Rules, shared: Shared, own: Own, u: int) -> float:
    """Return by how much the level is less sure than in the long run."""
    if rules.drifts.shape[0] == 0:
        return 0.0
    noise = rules.drifts[shared.numbers[DRIFT], 1]
    return max(level_variance(rules, shared, own, u) + noise - 1.0, 0.0)


@kernel
def follow_level(
    rules: Rules, shared: Shared, own: Own, u: int, surprise: float, doubt: float, judged: bool
) -> None:
    """Move a user's level, for every candidate, by a loss less the level that was expected.

    Parameters
    ----------
    surprise : float
        Of that loss.
    doubt : float
        Variance of what was expected of it beside the level.
    judged : bool
        Whether the loss speaks for and against the candidates.
    """
    chosen = shared.numbers[DRIFT]
    heard = own.level[u, chosen, 0]
    for c in range(rules.drifts.shape[0]):
        drift, noise, keep = rules.drifts[c, 0], rules.drifts[c, 1], rules.drifts[c, 2]
        before = own.level[u, c, 0]
        variance = drift - own.level[u, c, 1]
        rest = surprise + (heard - before)
        total = variance + noise + doubt * (noise / rules.drifts[chosen, 1])
        if judged:
            shared.drifts[c, 0] += rest * rest / total
            shared.drifts[c, 1] += log(total)
            shared.drifts[c, 2] += 1.0
        gain = variance / total
        own.level[u, c, 0] = keep * (before + gain * rest)
        own.level[u, c, 1] = drift - let_move((1.0 - gain) * variance, drift, keep)


@kernel
def choose_drift(rules: Rules, shared: Shared) -> None:
    """Take the best candidate for how levels drift, and let losses so far count half."""
    if rules.drifts.shape[0] < 2:
        return
    many = shared.drifts[0, 2]
    if many < 2.0 * rules.n_arms:
        return
    best, chosen = -math.inf, 0
    for c in range(rules.drifts.shape[0]):
        squares = shared.drifts[c, 0]
        value = 0.0
        if squares > 0.0:
            value = -0.5 * (many * log(squares / many) + shared.drifts[c, 1])
        if c == 0:
            value += DRIFTING
        if value > best:
            best, chosen = value, c
    shared.numbers[DRIFT] = chosen
    for c in range(rules.drifts.shape[0]):
        for k in range(3):
            shared.drifts[c, k] *= 0.5
