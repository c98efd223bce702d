"""How much the initial losses of instances differ: variance components by maximum likelihood."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from influential_bandits.checks import optional_module
from influential_bandits.learning.statistics.design import Events, event_columns
from influential_bandits.learning.statistics.reduction import single_threaded_algebra
from influential_bandits.logs.log import EventLog
from influential_bandits.numerics.arrays import Floats
from influential_bandits.numerics.compiling import kernel

__all__ = ["RandomEffects", "estimate_random_effects"]


class RandomEffects(NamedTuple):
    """How much the initial losses of instances differ, as variances relative to the noise's."""

    arm: float  # between arms of one instance
    common: float  # between the levels of instances
    noise: float  # σ², the variance within an instance and arm


def estimate_random_effects(
    parts: Iterable[EventLog], baseline: Floats, residuals: Iterable[Floats] | None = None
) -> RandomEffects:
    """Estimate the variance components by maximum likelihood.

    Variances from sums of squares (the analysis of variance) go wrong where past losses steer
    choices: arms that went well by chance are met more often. The likelihood does not mind.

    Parameters
    ----------
    residuals : iterable of arrays (events,), optional
        What to explain, for each part; by default the losses less the baseline. An event of several
        arms counts for the first of them here.
    """
    if residuals is None:
        tables = [_cells(event_columns(log), log.loss, baseline) for log in parts]
    else:
        centre = np.zeros_like(baseline)
        pairs = zip(parts, residuals, strict=True)
        tables = [_cells(event_columns(log), left, centre) for log, left in pairs]
    if not tables:
        return RandomEffects(1e-6, 0.0, 0.0)
    sizes, sums = (np.concatenate([table[n] for table in tables]) for n in (0, 1))
    squares = float(sum(table[2] for table in tables))
    events = max(float(sizes.sum()), 1.0)
    scale = squares / events
    if scale == 0.0:
        return RandomEffects(1e-6, 0.0, 0.0)
    with single_threaded_algebra():
        search = optional_module("scipy.optimize").minimize(
            lambda x: _deviance(sizes, sums, squares, *np.exp(x))[0],
            np.log([0.1, 0.1]),
            method="Nelder-Mead",
            options={"xatol": 1e-3, "fatol": 1e-4, "maxfev": 200},
        )
        arm, common = (float(value) for value in np.exp(np.clip(search.x, -14.0, 14.0)))
        noise = _deviance(sizes, sums, squares, arm, common)[1]
    if noise <= 1e-20 * scale:
        noise = 0.0  # losses are constant but for rounding
    # A little variance between arms keeps Ω finite, and shrinks what is not seen to the mean.
    return RandomEffects(max(arm, 1e-6), common if len(sizes) > 1 else 0.0, noise)


@kernel
def _cells(events: Events, values: Floats, baseline: Floats) -> tuple[Floats, Floats, float]:
    """Return numbers of events and sums by instance and arm, and the sum of all squares."""
    instances, arms = events.offsets.size - 1, baseline.size
    sizes, sums, squares = np.zeros((instances, arms)), np.zeros((instances, arms)), 0.0
    for u in range(instances):
        for n in range(events.offsets[u], events.offsets[u + 1]):
            place = events.members[events.item[n]]
            if place == events.members[events.item[n] + 1]:
                continue
            arm = events.arm[place]
            value = values[n] - baseline[arm]
            sizes[u, arm] += 1.0
            sums[u, arm] += value
            squares += value * value
    return sizes, sums, squares


@kernel
def _deviance(
    sizes: Floats, sums: Floats, squares: float, arm: float, common: float
) -> tuple[float, float]:
    """Return −2·log-likelihood, means and noise at their best, and that noise's variance."""
    instances, arms = sizes.shape
    most = 0
    for u in range(instances):
        for i in range(arms):
            most = max(most, int(sizes[u, i]))
    grown = arm * np.arange(most + 1)  # numbers of events are few: look up what they are used in
    shrunk, logarithm = 1.0 / (1.0 + grown), np.log1p(grown)
    scaled, weight, right = np.zeros((instances, arms)), np.zeros(arms), np.zeros(arms)
    explained, determinant, events = 0.0, 0.0, 0.0
    for u in range(instances):
        total, mean = 0.0, 0.0
        for i in range(arms):
            if sizes[u, i] > 0.0:
                size = int(sizes[u, i])
                r = sums[u, i] * shrunk[size]
                explained += arm * sums[u, i] * r
                determinant += logarithm[size]
                total += size * shrunk[size]
                mean += r
                events += size
        factor = common / (1.0 + common * total)
        explained += factor * mean * mean
        determinant += np.log1p(common * total)
        for i in range(arms):
            if sizes[u, i] > 0.0:
                size = int(sizes[u, i])
                m = size * shrunk[size]
                weight[i] += m
                right[i] += sums[u, i] * shrunk[size] - factor * m * mean
                scaled[u, i] = np.sqrt(factor) * m
    normal = -(scaled.T @ scaled)
    for i in range(arms):
        normal[i, i] += weight[i]
        normal[i, i] += 1e-12 * (1.0 + normal[i, i])
    left = squares - explained - right @ np.linalg.solve(normal, right)
    noise = max(float(left), 1e-300) / max(events, 1.0)
    return events * np.log(noise) + determinant, noise
