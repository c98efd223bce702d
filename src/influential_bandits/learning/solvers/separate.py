"""From sufficient statistics to coefficients: one instance alone, all pooled, or in between.

Every fit minimises ½·θᵀHθ − g·θ over coefficients θ = (initial losses, level, interaction), where H
is a Gram matrix plus a penalty, and the interaction may have to be positive semi-definite. What
differs is where the penalty comes from: a ridge, or what the population says.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from influential_bandits.execution.base import Execution
from influential_bandits.learning.solvers.psd import solve_psd, svec
from influential_bandits.learning.statistics import pooled_sums as pooling
from influential_bandits.learning.statistics.design import (
    Design,
    Events,
    Kind,
    as_matrix,
    events_of,
    histories_predicted,
    history_gram,
)
from influential_bandits.learning.statistics.pooled_sums import (
    RandomEffects,
    effect_variances,
    instance_effects,
    instance_scores,
    pooled_gram,
    random_effects,
)
from influential_bandits.learning.statistics.reduction import (
    single_threaded_algebra,
    summed,
)
from influential_bandits.logs.log import EventLog
from influential_bandits.numerics.arrays import Floats
from influential_bandits.numerics.compiling import kernel

__all__ = [
    "Fit",
    "Own",
    "Penalty",
    "Shared",
    "interactions",
    "predictions",
]

TOLERANCE = 1e-9  # relative duality gap
REFINEMENTS = 3  # of the variances, at most: each brings them ten times as close
SINGULAR = 1e-8  # smallest eigenvalue, relative to the largest, of statistics that determine A


class Penalty(NamedTuple):
    """What keeps coefficients small where the log says little."""

    ridge: float  # pseudo-events of average counts, for each entry of the interaction
    shrinkage: float  # pseudo-events that pull an initial loss towards the instance's mean loss


class Fit(NamedTuple):
    """Coefficients of all instances, and how sure they are."""

    coefficients: Floats  # (instances, size)
    free: Floats  # (instances, size): the same without the cone
    errors: Floats  # (instances, size): posterior standard deviations
    noise: Floats  # (instances,): standard deviation of what is left
    gap: Floats  # (instances,): duality gap of positive semi-definite fits, relative
    determined: bool  # whether the statistics determine the interaction without a ridge
    population: Floats  # (size,)
    free_population: Floats  # (size,): the same without the cone
    covariance: Floats  # (size, size): of the population's coefficients


class Own(NamedTuple):
    """Coefficients of the instances of one part, and how sure they are; rows as in :class:`Fit`."""

    coefficients: Floats
    free: Floats
    errors: Floats
    noise: Floats
    gap: Floats
    determined: bool


class Shared(NamedTuple):
    """What a fit knows before it comes to the single instances."""

    population: Floats  # (size,)
    free_population: Floats
    covariance: Floats  # (size, size)
    noise: float
    gap: float
    determined: bool


def together(owns: Iterable[Own]) -> Own:
    """Return the fits of several parts as one."""
    *arrays, determined = zip(*owns, strict=True)
    return Own._make([*(np.concatenate(array) for array in arrays), all(determined)])


def shared_by(own: Own, shared: Shared) -> Fit:
    """Return fits of instances beside what they share."""
    return Fit(
        *own[:5],
        shared.determined and own.determined,
        shared.population,
        shared.free_population,
        shared.covariance,
    )


def separate_fits(log: EventLog, design: Design, definite: bool, penalty: Penalty) -> Own:
    """Fit each instance of a part on its own."""
    out = empty(log.n_instances, design.size)
    determined = _fit_range(
        design,
        events_of(log),
        0,
        log.n_instances,
        definite,
        *penalty,
        log.membership.normalised,
        design.size,
        *out,
    )
    return Own(*out, bool(determined))


def alone(log: EventLog, design: Design, penalty: Penalty, own: Own) -> Floats | None:
    """Return the covariance of the coefficients if a log has one instance only, else None."""
    met = np.flatnonzero(log.lengths > 0)
    if len(met) != 1:
        return None
    inverse = _inverse_of(design, events_of(log), met[0], *penalty, design.size)
    return np.asarray(own.noise[met[0]] ** 2 * inverse)


def averaged(own: Own, met: Any, covariance: Floats | None = None) -> Fit:
    """Return fits of single instances together with the mean of those met as the population."""
    if covariance is None and met.sum() > 1:
        covariance = np.atleast_2d(np.cov(own.free[met], rowvar=False)) / met.sum()
    elif covariance is None:
        covariance = np.diag(own.errors[met].sum(axis=0) ** 2)
    population, free = own.coefficients[met].mean(axis=0), own.free[met].mean(axis=0)
    return Fit(*own, population, free, covariance)


def empty(instances: int, size: int) -> tuple[Any, Any, Any, Any, Any]:
    """Return arrays for the coefficients, the same without cone, errors, noise and gap."""
    first, second, third = (np.zeros((instances, size)) for _ in range(3))
    return first, second, third, np.zeros(instances), np.zeros(instances)


@kernel
def _fit_range(
    design: Design,
    events: Events,
    low: int,
    high: int,
    definite: bool,
    ridge: float,
    shrinkage: float,
    normalised: bool,
    size: int,
    coefficients: Floats,
    free: Floats,
    errors: Floats,
    noise: Floats,
    gap: Floats,
) -> bool:
    """Fit instances low … high − 1; return whether their statistics determine the interaction."""
    arms = design.arms
    gram = np.empty((size + 1, size + 1))
    determined = True
    for u in range(low, high):
        number = events.offsets[u + 1] - events.offsets[u]
        if number == 0:
            continue
        history_gram(design, events, u, size, gram)
        mean = gram[:arms, size].sum() / number if normalised else 0.0
        _centred(gram, arms, mean, number)
        weights = penalties(gram, arms, design.controls, design.kind, number, ridge, shrinkage)
        solution, unbound, spread, least, determines = solved(
            gram, weights, arms, design.controls, design.kind, definite, ridge, gap[u : u + 1]
        )
        determined &= determines
        freedom = max(number - (size - (weights * spread).sum()), 1.0)
        noise[u] = np.sqrt(max(least, 0.0) / freedom)
        coefficients[u], free[u] = solution, unbound
        coefficients[u, :arms] += mean
        free[u, :arms] += mean
        errors[u] = noise[u] * np.sqrt(spread)
    return determined


@kernel
def _inverse_of(
    design: Design, events: Events, u: int, ridge: float, shrinkage: float, size: int
) -> Floats:
    """Return H⁻¹ of an instance, H = Gram matrix + penalty."""
    gram = np.empty((size + 1, size + 1))
    history_gram(design, events, u, size, gram)
    number = events.offsets[u + 1] - events.offsets[u]
    weights = penalties(gram, design.arms, design.controls, design.kind, number, ridge, shrinkage)
    out: Floats = np.zeros((size, size))
    out[:] = np.linalg.inv(gram[:size, :size] + np.diag(weights))
    out[:] = 0.5 * (out + out.T)  # rounding leaves it not quite symmetric
    return out


@kernel
def _centred(gram: Floats, arms: int, mean: float, number: int) -> None:
    """Measure losses from their mean; the weights of an event sum to one."""
    size = gram.shape[0] - 1
    total = gram[:arms, size].sum()
    for a in range(size):
        shift = mean * gram[a, :arms].sum()
        gram[a, size] -= shift
        gram[size, a] -= shift
    gram[size, size] += mean * mean * number - 2.0 * mean * total


@kernel
def penalties(
    gram: Floats, arms: int, controls: int, kind: int, number: float, ridge: float, shrinkage: float
) -> Floats:
    """Return the penalty of each coefficient, (size,), in units of the Gram matrix."""
    size = gram.shape[0] - 1
    out = np.empty(size)
    out[:arms] = max(shrinkage, 1e-9)
    for a in range(arms, arms + controls):
        out[a] = 1e-9 * max(gram[a, a], 1e-300) + 1e-12
    start = arms + controls
    square = 0.0
    for a in range(start, size):
        square += gram[a, a]
    average = square / max(number * arms, 1.0)
    if average == 0.0:
        average = 1.0
    weight = max(ridge, 1e-10) * average
    out[start:] = weight
    if kind == 2:  # an entry off the diagonal stands for two of the matrix
        for i in range(arms):
            for j in range(i):
                out[start + i * (i + 1) // 2 + j] = 2.0 * weight
    return out


@kernel
def solved(
    gram: Floats,
    weights: Floats,
    arms: int,
    controls: int,
    kind: int,
    definite: bool,
    ridge: float,
    gap: Floats,
) -> tuple[Floats, Floats, Floats, float, bool]:
    """Return the minimiser, that without the cone, diag(H⁻¹), the squares left, if A is determined.

    H = Gram matrix + penalty. With a ridge, A is determined.
    """
    size = gram.shape[0] - 1
    plain = np.ascontiguousarray(gram[:size, :size])
    H = plain + np.diag(weights)
    g = gram[:size, size].copy()
    inverse = np.linalg.inv(H)
    solution = inverse @ g
    free = solution.copy()
    determined = True
    start = arms + controls
    if size > start:
        nuisance = np.ascontiguousarray(H[:start, :start])
        coupled = np.ascontiguousarray(H[:start, start:])
        reduced = H[start:, start:] - coupled.T @ np.linalg.solve(nuisance, coupled)
        if ridge == 0.0:
            values = np.linalg.eigvalsh(reduced - np.diag(weights[start:]))
            determined = values[0] > SINGULAR * max(values[-1], 0.0)
        if definite:
            right = reduced @ solution[start:]
            scale = _svec_scale(arms)
            best = solve_psd(reduced * scale.reshape(-1, 1) * scale, right * scale, arms, TOLERANCE)
            solution[start:] = svec(best.matrix) * scale
            solution[:start] = np.linalg.solve(nuisance, g[:start] - coupled @ solution[start:])
            gap[0] = best.gap / max(0.5 * gram[size, size], 1e-300)
    left = gram[size, size] - 2.0 * (g @ solution) + solution @ (plain @ solution)
    return solution, free, np.diag(inverse).copy(), left, determined


@kernel
def _svec_scale(arms: int) -> Floats:
    """Return entry = scale·svec, (m,): 1 on the diagonal, 1/√2 off it."""
    out = np.empty(arms * (arms + 1) // 2)
    n = 0
    for i in range(arms):
        for _ in range(i):
            out[n] = np.sqrt(0.5)
            n += 1
        out[n] = 1.0
        n += 1
    return out


def pooled_population(
    parts: Iterable[Any],
    design: Design,
    definite: bool,
    ridge: float,
    effects: RandomEffects,
    sample: EventLog,
    events: int,
    execution: Execution,
) -> tuple[Shared, RandomEffects]:
    """Fit one interaction and one level for all.

    The variances of the initial losses are estimated again from what each fit leaves of the sample,
    until they stay: influence and tastes explain each other where past losses steer choices.
    Standard errors of what is shared hold up when the errors of one instance depend on each other
    (the sandwich over instances).
    """
    gap = np.zeros(1)
    shape = (design.arms, design.controls, design.kind)
    with single_threaded_algebra():
        for again in (*[design.size > design.arms] * REFINEMENTS, False):
            gram = pooled_gram(parts, design, effects, execution=execution)
            weights = penalties(gram, *shape, events, ridge, 1e-9)
            shared, free, _, _, determined = solved(gram, weights, *shape, definite, ridge, gap)
            if not again:
                break
            left = sample.loss - predictions(sample, design, shared)
            new = random_effects([sample], design.baseline, [left])
            if max(abs(new.arm - effects.arm), abs(new.common - effects.common)) < 1e-3:
                break
            effects = new
        bread = np.linalg.inv(gram[:-1, :-1] + np.diag(weights))
        work = partial(_sandwich, design=design, effects=effects, shared=shared)
        sums: Any = summed(work, parts, pooling.CHUNK, execution)
        covariance = bread @ sums.meat @ bread
    spots = np.arange(design.size)
    covariance[spots, spots] = np.maximum(covariance[spots, spots], 0.0)  # but for rounding
    freedom = _freedom(sums.events, sums.instances * design.arms, effects)
    noise = float(np.sqrt(sums.left / max(events - freedom, 1.0)))
    return Shared(shared, free, covariance, noise, float(gap[0]), bool(determined)), effects


def pooled_fits(log: EventLog, design: Design, effects: RandomEffects, shared: Shared) -> Own:
    """Return each instance's own initial losses beside what is shared."""
    number, arms = log.n_instances, design.arms
    coefficients = np.tile(shared.population, (number, 1))
    coefficients[:, :arms] += _own_effects(log, design, effects, shared.population)[0]
    free = np.tile(shared.free_population, (number, 1))
    free[:, :arms] = coefficients[:, :arms]
    errors = np.tile(np.sqrt(np.diag(shared.covariance)), (number, 1))
    variances = np.zeros((number, arms))
    spread = effects.arm + effects.common
    effect_variances(
        design, events_of(log), spread, shared.noise, shared.covariance, design.size, variances
    )
    errors[:, :arms] = np.sqrt(np.maximum(variances, 0.0))
    return Own(
        coefficients, free, errors, np.full(number, shared.noise), np.full(number, shared.gap), True
    )


class _Sandwich(NamedTuple):
    meat: Floats  # (size, size): squares of the instances' scores
    left: float  # squares that nothing explains
    events: int
    instances: int


def _sandwich(log: EventLog, design: Design, effects: RandomEffects, shared: Floats) -> _Sandwich:
    """Return what standard errors of what is shared are made of."""
    _, residual = _own_effects(log, design, effects, shared)
    scores = np.zeros((log.n_instances, design.size))
    instance_scores(design, events_of(log), residual, design.size, scores)
    left = float(residual @ residual)
    return _Sandwich(scores.T @ scores, left, len(log), log.n_instances)


def _own_effects(
    log: EventLog, design: Design, effects: RandomEffects, shared: Floats
) -> tuple[Floats, Floats]:
    """Return each instance's own part of the initial losses, and what is left of all losses."""
    residual = log.loss - predictions(log, design, shared)
    effect = np.zeros((log.n_instances, design.arms))
    instance_effects(events_of(log), residual, effects.arm, effects.common, effect)
    residual -= predictions(log, design._replace(kind=Kind.NONE, controls=0), effect)
    return effect, residual


def _freedom(events: int, cells: int, effects: RandomEffects) -> float:
    """Return the degrees of freedom that the instances' own losses take."""
    each = events / max(cells, 1)
    return cells * each / (each + 1.0 / effects.arm)


def predictions(log: EventLog, design: Design, coefficients: Floats) -> Floats:
    """Return one-step-ahead predictions; coefficients (instances, size), or (size,) for all."""
    out = np.empty(len(log))
    table = np.ascontiguousarray(np.broadcast_to(coefficients, (log.n_instances, design.size)))
    histories_predicted(design, events_of(log), table, out)
    return out


def interactions(design: Design, coefficients: Floats) -> Any:
    """Return the interaction matrices in coefficients (..., size)."""
    start = design.arms + design.controls
    return as_matrix(design.kind, design.arms, coefficients[..., start:])
