"""What the model of a plan may have wrong: how long influence lasts, and how it grows.

Halves of a log judge each other's plans by the same kind of model, so that they share its faults: a
memory that is too short, or influence that grows faster than exposure. So the model is fitted once
more with four regressors beside its own, whose coefficients are common to all arms:

* how often the same arm was met lately, by a memory that lasts four times as long,
* the same by one that lasts a quarter as long,
* the square of how often it was met lately, by the model's own memory,
* the influence of all arms by the model's own matrix, but of the roots of how often they were met:
  influence that saturates.

If the model is right, their coefficients are zero but for noise. What they say of a plan's rounds
is a second opinion of its gain, with the uncertainty of going beyond what was logged.

Losses and regressors are first freed from the instances' own initial losses (random effects), each
event by what came before it, so that losses may steer choices. Errors are by instance.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from influential_bandits.learning.statistics.design import (
    DIAGONAL,
    Design,
    Events,
    as_matrix,
    count_event,
    event_columns,
    fade_counts,
    interaction_size,
    place,
    predict_losses,
)
from influential_bandits.learning.statistics.random_effects import estimate_random_effects
from influential_bandits.logs.log import EventLog
from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.numerics.compiling import inlined, kernel

EXTRA = 4  # regressors beside the model's own
POWERS = np.array([1.0, 1.0, 2.0, 0.5])  # of exposure, of which they are sums
LONGER, SHORTER = 0.25, 4.0  # powers of what is left from one event to the next
LASTING = (0.95, 0.8)  # instead, where nothing fades
TINY = 1e-9
NUMBERS = 20_000_000  # of a table, at most: instances of so many are enough


class Misfit(NamedTuple):
    """Coefficients of the four regressors, and what they are regressors for."""

    coefficients: Floats  # (4,)
    covariance: Floats  # (4, 4)
    explained: Floats  # (size, 4): of each of them by the model's own regressors
    logged: Floats  # (4,): means over the log
    totals: Floats  # (4,): of all arms together, before a power is taken


def change_memory(keep: float) -> tuple[float, float]:
    """Return what a longer and a shorter memory keep where this one keeps so much."""
    if keep == 1.0:
        return keep * LASTING[0], keep * LASTING[1]
    return keep**LONGER, keep**SHORTER


def measure_misfit(log: EventLog, design: Design, population: Floats) -> Misfit | None:
    """Fit the regressors to what a population's coefficients leave of a log's losses."""
    plain = design._replace(controls=0)
    size = plain.n_arms + interaction_size(plain.kind, plain.n_arms)
    step = -(-len(log) * (size + EXTRA + 1) // NUMBERS)
    log = log.take(np.arange(0, log.n_instances, step)) if step > 1 else log
    if log.n_instances <= size + EXTRA:
        return None
    coefficients = np.concatenate([population[: plain.n_arms], population[design.start :]])
    left = log.loss - predict_losses(log, plain, coefficients)
    effects = estimate_random_effects(log, design.baseline, left)
    if effects.noise == 0.0:
        return None
    if design.half_life > 0.0:
        lives = design.half_life / np.array([LONGER, SHORTER])
        longer, shorter = (plain._replace(half_life=float(life)) for life in lives)
    else:
        longer, shorter = (plain._replace(memory=m) for m in change_memory(design.memory))
    table = np.zeros((len(log), size + EXTRA + 1))
    sums = np.zeros((2, EXTRA))
    matrix = as_matrix(plain.kind, plain.n_arms, population[design.start :])
    designs, variances = (plain, longer, shorter), (effects.arm, effects.common)
    _write_regressors(*designs, event_columns(log), *variances, matrix, table, sums)
    own, extra = table[:, :size], table[:, size : size + EXTRA]
    gram = own.T @ own
    gram[np.diag_indices(size)] += TINY * max(float(np.diag(gram).max()), 1e-300)
    explained: Any = np.linalg.solve(gram, own.T @ extra)
    extra = extra - own @ explained
    loss = table[:, -1] - own @ np.linalg.solve(gram, own.T @ table[:, -1])
    gram = extra.T @ extra
    sizes = np.sqrt(np.maximum(np.diag(gram), 1e-300))
    if np.linalg.matrix_rank(gram / np.outer(sizes, sizes), hermitian=True) < EXTRA:
        return None
    solution = np.linalg.solve(gram, extra.T @ loss)
    scores = np.add.reduceat(extra * (loss - extra @ solution)[:, None], log.offsets[:-1])
    half = np.linalg.solve(gram, scores.T)
    # The sandwich is too small by about as much, where coefficients are many.
    covariance = half @ half.T * (log.n_instances / (log.n_instances - size - EXTRA))
    return Misfit(solution, covariance, explained, *(sums / max(len(log), 1)))


@kernel
def _write_regressors(
    design: Design,
    longer: Design,
    shorter: Design,
    events: Events,
    arm_variance: float,
    common_variance: float,
    matrix: Floats,
    table: Floats,
    sums: Floats,
) -> None:
    """Write regressors and losses, each less what the same instance's past says of it.

    A Kalman filter of the instance's own initial losses, whose variances are relative to the
    noise's; all columns have the same gains.
    """
    arms, columns = design.n_arms, table.shape[1]
    size = columns - EXTRA - 1
    counts, long, short = np.zeros(arms), np.zeros(arms), np.zeros(arms)
    covariance, gain = np.zeros((arms, arms)), np.zeros(arms)
    means = np.zeros((columns, arms))
    for u in range(events.offsets.size - 1):
        counts[:] = 0.0
        long[:] = 0.0
        short[:] = 0.0
        means[:] = 0.0
        covariance[:] = common_variance
        for i in range(arms):
            covariance[i, i] += arm_variance
        first = events.offsets[u]
        for n in range(first, events.offsets[u + 1]):
            fade_counts(design, events, n, first, counts)
            fade_counts(longer, events, n, first, long)
            fade_counts(shorter, events, n, first, short)
            row = table[n]
            gain[:] = 0.0
            begin, end = events.members[events.item[n]], events.members[events.item[n] + 1]
            for p in range(begin, end):
                i, weight = events.arm[p], events.weight[p]
                row[i] += weight
                for j in range(arms):
                    if design.kind != DIAGONAL or i == j:
                        row[arms + place(design.kind, i, j)] += weight * counts[j]
                    gain[j] += weight * covariance[i, j]
                    row[size + 3] += weight * matrix[i, j] * math.sqrt(counts[j])
                row[size] += weight * long[i]
                row[size + 1] += weight * short[i]
                row[size + 2] += weight * counts[i] ** 2
            row[size + EXTRA] = events.loss[n]
            for c in range(EXTRA):
                sums[0, c] += row[size + c]
            sums[1, 0] += long.sum()
            sums[1, 1] += short.sum()
            sums[1, 2] += counts.sum()
            sums[1, 3] += counts.sum()
            subtract_past(events, n, gain, row, means, covariance)
            count_event(design, events, n, counts)
            count_event(longer, events, n, long)
            count_event(shorter, events, n, short)


@inlined
def subtract_past(
    events: Events, n: int, gain: Floats, row: Floats, means: Floats, covariance: Floats
) -> None:
    """Take off event n what the past says of it, and take the rest into what the past says."""
    begin, end = events.members[events.item[n]], events.members[events.item[n] + 1]
    spread = 1.0
    for p in range(begin, end):
        spread += events.weight[p] * gain[events.arm[p]]
    for c in range(row.size):
        for p in range(begin, end):
            row[c] -= events.weight[p] * means[c, events.arm[p]]
        for j in range(gain.size):
            means[c, j] += gain[j] / spread * row[c]
        row[c] /= np.sqrt(spread)
    for i in range(gain.size):
        for j in range(gain.size):
            covariance[i, j] -= gain[i] * gain[j] / spread


def own_exposures(
    schedule: Ints | None, mix: Floats, keep: float, by_clock: bool, rounds: int
) -> tuple[Floats, Floats]:
    """Return the first three regressors of a plan, per round, and those of all arms together.

    Without a schedule, arms of the mix come in random order.
    """
    others = (keep**LONGER, keep**SHORTER) if by_clock else change_memory(keep)
    own, totals = np.zeros(3), np.zeros(3)
    for n, pace in enumerate((*others, keep)):
        scale, power = _unit(pace, by_clock), int(POWERS[n])
        order = np.arange(1) if schedule is None else schedule
        met, total = _add_own(order, pace, rounds, len(mix), power)
        if schedule is None:
            met *= float((mix ** (power + 1)).sum())
        own[n], totals[n] = scale**power * met, scale * total
    return own, totals


def count_roots(
    schedule: Ints | None, mix: Floats, keep: float, by_clock: bool, rounds: int
) -> Floats:
    """Return what a round of a plan meets of the roots of exposures, (arms, arms)."""
    scale = math.sqrt(_unit(keep, by_clock))
    if schedule is not None:
        return scale * _add_roots(schedule, keep, rounds, len(mix))
    alone = _add_roots(np.arange(1), keep, rounds, 1)
    return scale * alone * np.outer(mix, np.sqrt(mix))


def _unit(keep: float, by_clock: bool) -> float:
    """Return how much of a pull the next round meets, where a count says keep of it."""
    return 1.0 if by_clock else 1.0 / keep


@kernel
def _add_roots(schedule: Ints, keep: float, rounds: int, arms: int) -> Floats:
    """Return the mean over rounds of the root of each arm's count, by the arm of the round."""
    counts, out = np.zeros(arms), np.zeros((arms, arms))
    for n in range(rounds):
        i = schedule[n % schedule.size]
        for j in range(arms):
            out[i, j] += math.sqrt(counts[j]) / rounds
        counts[i] += 1.0
        for j in range(arms):
            counts[j] *= keep
    return out


@kernel
def _add_own(
    schedule: Ints, keep: float, rounds: int, arms: int, power: int
) -> tuple[float, float]:
    """Return how often the arm of a round was met lately, to a power, and how often all arms."""
    counts, own, total = np.zeros(arms), 0.0, 0.0
    for n in range(rounds):
        i = schedule[n % schedule.size]
        own += counts[i] ** power / rounds
        total += counts.sum() / rounds
        counts[i] += 1.0
        for j in range(arms):
            counts[j] *= keep
    return own, total
