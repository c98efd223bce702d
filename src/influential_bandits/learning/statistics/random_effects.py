"""How much the initial losses of instances differ: variance components by maximum likelihood."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from influential_bandits.learning.statistics.design import Events, event_columns
from influential_bandits.learning.statistics.reduction import single_threaded_algebra
from influential_bandits.logs.log import EventLog
from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.numerics.compiling import kernel
from influential_bandits.packages import optional_module


class RandomEffects(NamedTuple):
    """How much the initial losses of instances differ, as variances relative to the noise's."""

    arm: float  # between arms of one instance
    common: float  # between the levels of instances
    noise: float  # σ², the variance within an instance and arm


def estimate_random_effects(
    log: EventLog, baseline: Floats, residuals: Floats | None = None
) -> RandomEffects:
    """Estimate the variance components by maximum likelihood.

    Variances from sums of squares (the analysis of variance) go wrong where past losses steer
    choices: arms that went well by chance are met more often. The likelihood does not mind.

    Parameters
    ----------
    residuals : array (events,), optional
        What to explain; by default the losses less the baseline. An event of several arms counts
        for the first of them here.
    """
    if residuals is None:
        cells, squares = _gather_cells(event_columns(log), log.loss, baseline)
    else:
        cells, squares = _gather_cells(event_columns(log), residuals, np.zeros_like(baseline))
    arms = baseline.size
    events = max(float(cells.size.sum()), 1.0)
    scale = squares / events
    if scale == 0.0:
        return RandomEffects(1e-6, 0.0, 0.0)
    with single_threaded_algebra():
        search = optional_module("scipy.optimize").minimize(
            lambda x: _deviance(cells, arms, squares, *np.exp(x))[0],
            np.log([0.1, 0.1]),
            method="Nelder-Mead",
            options={"xatol": 1e-3, "fatol": 1e-4, "maxfev": 200},
        )
        arm, common = (float(value) for value in np.exp(np.clip(search.x, -14.0, 14.0)))
        noise = _deviance(cells, arms, squares, arm, common)[1]
    if noise <= 1e-20 * scale:
        noise = 0.0  # losses are constant but for rounding
    # A little variance between arms keeps Ω finite, and shrinks what is not seen to the mean.
    return RandomEffects(max(arm, 1e-6), common if len(cells.spans) > 2 else 0.0, noise)


class Cells(NamedTuple):
    """What instances have met: numbers of events and sums, by instance and arm."""

    spans: Ints  # (instances + 1,): where the cells of an instance begin
    arm: npt.NDArray[np.int32]  # (cells,), in order within an instance
    size: Floats  # (cells,): numbers of events
    total: Floats  # (cells,): their sums


@kernel
def _gather_cells(events: Events, values: Floats, baseline: Floats) -> tuple[Cells, float]:
    """Return the cells, and the sum of all squares.

    An event of several arms counts for the first of them.
    """
    instances, arms, most = events.offsets.size - 1, baseline.size, events.item.size
    spans, arm = np.zeros(instances + 1, np.int64), np.empty(most, np.int32)
    size, total, squares = np.empty(most), np.empty(most), 0.0
    times, sums = np.zeros(arms), np.zeros(arms)
    cell = 0
    for u in range(instances):
        times[:] = 0.0
        sums[:] = 0.0
        for n in range(events.offsets[u], events.offsets[u + 1]):
            i = events.arm[events.members[events.item[n]]]
            value = values[n] - baseline[i]
            times[i] += 1.0
            sums[i] += value
            squares += value * value
        for i in range(arms):
            if times[i] > 0.0:
                arm[cell], size[cell], total[cell] = i, times[i], sums[i]
                cell += 1
        spans[u + 1] = cell
    return Cells(spans, arm[:cell], size[:cell], total[:cell]), squares


@kernel
def _deviance(
    cells: Cells, arms: int, squares: float, arm: float, common: float
) -> tuple[float, float]:
    """Return −2·log-likelihood, means and noise at their best, and that noise's variance."""
    most = 0
    for p in range(cells.arm.size):
        most = max(most, int(cells.size[p]))
    grown = arm * np.arange(most + 1)  # numbers of events are few: look up what they are used in
    shrunk, logarithm = 1.0 / (1.0 + grown), np.log1p(grown)
    normal, right = np.zeros((arms, arms)), np.zeros(arms)
    scaled = np.zeros(arms)
    explained, determinant, events = 0.0, 0.0, 0.0
    for u in range(cells.spans.size - 1):
        low, high = cells.spans[u], cells.spans[u + 1]
        total, mean = 0.0, 0.0
        for p in range(low, high):
            size = int(cells.size[p])
            r = cells.total[p] * shrunk[size]
            explained += arm * cells.total[p] * r
            determinant += logarithm[size]
            total += size * shrunk[size]
            mean += r
            events += size
        factor = common / (1.0 + common * total)
        explained += factor * mean * mean
        determinant += np.log1p(common * total)
        for p in range(low, high):
            i, size = cells.arm[p], int(cells.size[p])
            m = size * shrunk[size]
            normal[i, i] += m
            right[i] += cells.total[p] * shrunk[size] - factor * m * mean
            scaled[i] = np.sqrt(factor) * m
            row = normal[i]
            for q in range(low, p + 1):
                row[cells.arm[q]] -= scaled[i] * scaled[cells.arm[q]]
    for i in range(arms):
        for j in range(i):
            normal[j, i] = normal[i, j]
        normal[i, i] += 1e-12 * (1.0 + normal[i, i])
    left = squares - explained - right @ np.linalg.solve(normal, right)
    noise = max(float(left), 1e-300) / max(events, 1.0)
    return events * np.log(noise) + determinant, noise
