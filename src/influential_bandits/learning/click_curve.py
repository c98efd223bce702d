"""From a line to clicks: what influence takes from outcomes that are yes or no.

A linear model says how many clicks one more showing costs near the log's own mean. But nobody loses
clicks that they do not have: the chance of a click follows an S-shaped curve, the logistic one,

    chance of a click = f(a_i − k·c),    f(x) = 1/(1 + exp(−x)),

where c is what the linear model says that influence adds to the loss of this event, a_i belongs to
the arm, and k is such that the line through these chances, within arms, has the slope of the linear
model. Without influence, chances would be f(a_i).
"""

from __future__ import annotations

import numpy as np

from influential_bandits.numerics.arrays import Floats, Ints

MOST_EVENTS = 50_000  # more are thinned out
STEPS = 50
STEEPEST = 200.0  # k at most; a chance moves by a quarter of it for each unit of c


def count_lost_clicks(clicked: Floats, arm: Ints, cost: Floats, sizes: Floats) -> Floats:
    """Return the mean chance of a click lost, if influence were so many times as large as fitted.

    ``clicked`` is 0 or 1, ``cost`` what the linear model says, (events,); ``sizes`` (several,).
    """
    if len(clicked) > MOST_EVENTS:
        thinned = np.arange(0, len(clicked), -(-len(clicked) // MOST_EVENTS))
        clicked, arm, cost = clicked[thinned], arm[thinned], cost[thinned]
    _, arm = np.unique(arm, return_inverse=True)
    times = np.bincount(arm)
    mean = (np.bincount(arm, clicked) + 0.5) / (times + 1.0)
    centred = cost - (np.bincount(arm, cost) / times)[arm]
    spread = float((centred**2).sum())
    if not spread > 0.0:
        return sizes * float(cost.mean())
    return np.array([_find_lost(mean, arm, times, size * cost, size**2 * spread) for size in sizes])


def _find_lost(mean: Floats, arm: Ints, times: Ints, cost: Floats, spread: float) -> float:
    """Return the mean of f(a_i) less that of f(a_i − k·c), with the k that has the right slope."""
    centred = cost - (np.bincount(arm, cost) / times)[arm]
    if not spread > 0.0:
        return 0.0
    low, high = 0.0, STEEPEST
    level = np.log(mean / (1.0 - mean))
    for _ in range(STEPS):
        steep = 0.5 * (low + high)
        level = _find_level(mean, arm, times, steep * cost, level)
        falls = -float((_chance(level[arm] - steep * cost) * centred).sum())
        low, high = (steep, high) if falls < spread else (low, steep)
        if high - low < 1e-3 * high:
            break
    level = _find_level(mean, arm, times, high * cost, level)
    return float(((_chance(level) - mean) * times).sum() / times.sum())


def _find_level(mean: Floats, arm: Ints, times: Ints, tired: Floats, start: Floats) -> Floats:
    """Return a_i for which the mean chance of each arm is what was seen; Newton, bracketed."""
    low = np.log(mean / (1.0 - mean)) + _by_arm(np.minimum, arm, tired, len(mean))
    high = np.log(mean / (1.0 - mean)) + _by_arm(np.maximum, arm, tired, len(mean))
    level = np.clip(start, low, high)
    for _ in range(STEPS):
        chance = _chance(level[arm] - tired)
        excess = np.bincount(arm, chance) / times - mean
        if float(np.abs(excess).max()) < 1e-9:
            break
        low, high = np.where(excess < 0.0, level, low), np.where(excess > 0.0, level, high)
        slope = np.bincount(arm, chance * (1.0 - chance)) / times
        step = level - excess / np.maximum(slope, 1e-12)
        level = np.where((step > low) & (step < high), step, 0.5 * (low + high))
    return level


def _by_arm(extreme: np.ufunc, arm: Ints, values: Floats, arms: int) -> Floats:
    out = np.zeros(arms)
    extreme.at(out, arm, values)
    return out


def _chance(odds: Floats) -> Floats:
    return 0.5 + 0.5 * np.tanh(0.5 * odds)
