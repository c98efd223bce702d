"""One interaction for all instances, initial losses of each: random effects, integrated out."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from influential_bandits.execution.base import Execution
from influential_bandits.learning.solvers.penalised import (
    InstanceFits,
    PopulationEstimate,
    penalty_weights,
    solve_penalised,
    solve_positive,
)
from influential_bandits.learning.statistics.design import (
    NONE,
    Design,
    event_columns,
    predict_losses,
)
from influential_bandits.learning.statistics.log_scan import LogScan
from influential_bandits.learning.statistics.pooled_sums import (
    add_score_squares,
    effect_variances,
    instance_effects,
    instance_scores,
    mirror_upper,
    pooled_gram,
)
from influential_bandits.learning.statistics.random_effects import (
    RandomEffects,
    estimate_random_effects,
)
from influential_bandits.learning.statistics.reduction import (
    add_over_parts,
    single_threaded_algebra,
)
from influential_bandits.logs.log import EventLog
from influential_bandits.numerics.arrays import Floats

REFINEMENTS = 3  # of the variances, at most: each brings them ten times as close
SETTLED = 1e-3  # change of the variances that needs no other fit


def fit_pooled_population(
    scan: LogScan,
    sample: EventLog,
    design: Design,
    definite: bool,
    ridge: float,
    effects: RandomEffects,
    execution: Execution,
    errors: bool = True,
) -> tuple[PopulationEstimate, RandomEffects]:
    """Fit what instances share; without errors, its covariance is not computed.

    The variances of the initial losses are estimated again from what each fit leaves of the sample,
    until they stay: influence and tastes explain each other where past losses steer choices.
    Standard errors of what is shared hold up when the errors of one instance depend on each other
    (the sandwich over instances).
    """
    gap, events = np.zeros(1), scan.sums.events
    with single_threaded_algebra():
        for again in (*[design.size > design.n_arms] * REFINEMENTS, False):
            gram = pooled_gram(scan.parts, design, effects, execution, scan.chunk)
            weights = penalty_weights(design, np.diag(gram)[:-1].copy(), events, ridge, 1e-9)
            shared, free, determined = _solve(design, gram, weights, definite, ridge, gap)
            if not again:
                break
            left = sample.loss - predict_losses(sample, design, shared)
            revised = estimate_random_effects(sample, design.baseline, left)
            if abs(np.subtract(revised, effects)[:2]).max() < SETTLED:
                break
            effects = revised
        work = partial(_sandwich, design=design, effects=effects, shared=shared, errors=errors)
        sums = add_over_parts(work, scan.parts, execution, scan.chunk)
        covariance = np.full((1, 1), np.nan)
        if errors:
            covariance = _sandwich_covariance(gram, weights, sums.meat)
    freedom = _freedom(events, sums.instances * design.n_arms, effects)
    noise = float(np.sqrt(sums.left / max(events - freedom, 1.0)))
    return PopulationEstimate(shared, free, covariance, noise, float(gap[0]), determined), effects


def _solve(
    design: Design, gram: Floats, weights: Floats, definite: bool, ridge: float, gap: Floats
) -> tuple[Floats, Floats, bool]:
    """Return the minimiser, that without the cone, and whether A is determined."""
    if definite or ridge == 0.0:
        shared, free, _, _, determined = solve_penalised(
            design, gram, weights, definite, ridge, gap
        )
        return shared, free, bool(determined)
    shared = solve_positive(gram[:-1, :-1] + np.diag(weights), gram[:-1, -1])
    return shared, shared, True


def _sandwich_covariance(gram: Floats, weights: Floats, meat: Floats) -> Floats:
    """Return H⁻¹MH⁻¹, (size, size), of M above its diagonal."""
    mirror_upper(meat)
    hessian = gram[:-1, :-1] + np.diag(weights)
    half = solve_positive(hessian, meat)
    covariance = np.ascontiguousarray(solve_positive(hessian, half.T))
    mirror_upper(covariance)
    spots = np.arange(len(covariance))  # nothing below zero, but for rounding
    covariance[spots, spots] = np.maximum(covariance[spots, spots], 0.0)
    return covariance


def fit_pooled_instances(
    log: EventLog,
    design: Design,
    effects: RandomEffects,
    shared: PopulationEstimate,
    errors: bool = True,
) -> InstanceFits:
    """Return each instance's coefficients; without errors, its own initial losses alone."""
    number, arms = log.n_instances, design.n_arms
    own = _own_effects(log, design, effects, shared.population)[0]
    own += shared.population[:arms]
    if not errors:
        noise, gap = np.full(number, shared.noise), np.full(number, shared.gap)
        return InstanceFits(own, own, np.full((number, 1), np.nan), noise, gap, True)
    coefficients = np.tile(shared.population, (number, 1))
    coefficients[:, :arms] = own
    free = coefficients
    if shared.free is not shared.population:
        free = np.tile(shared.free, (number, 1))
        free[:, :arms] = coefficients[:, :arms]
    noise, gap = np.full(number, shared.noise), np.full(number, shared.gap)
    deviations = np.tile(np.sqrt(np.diag(shared.covariance)), (number, 1))
    variances = np.zeros((number, arms))
    spread = effects.arm + effects.common
    effect_variances(
        design, event_columns(log), spread, shared.noise, shared.covariance, design.size, variances
    )
    deviations[:, :arms] = np.sqrt(np.maximum(variances, 0.0))
    return InstanceFits(coefficients, free, deviations, noise, gap, True)


class _Sandwich(NamedTuple):
    meat: Floats  # (size, size): squares of the instances' scores, above the diagonal
    left: float  # squares that nothing explains
    events: int
    instances: int


def _sandwich(
    log: EventLog, design: Design, effects: RandomEffects, shared: Floats, errors: bool
) -> _Sandwich:
    """Return what the noise and standard errors of what is shared are made of."""
    _, residual = _own_effects(log, design, effects, shared)
    meat = np.zeros((1, 1))
    if errors:
        meat = np.zeros((design.size, design.size))
        scores = np.zeros((log.n_instances, design.size))
        instance_scores(design, event_columns(log), residual, design.size, scores)
        add_score_squares(scores, meat)
    return _Sandwich(meat, float(residual @ residual), len(log), log.n_instances)


def _own_effects(
    log: EventLog, design: Design, effects: RandomEffects, shared: Floats
) -> tuple[Floats, Floats]:
    """Return each instance's own part of the initial losses, and what is left of all losses."""
    residual = log.loss - predict_losses(log, design, shared)
    effect = np.zeros((log.n_instances, design.n_arms))
    instance_effects(event_columns(log), residual, effects.arm, effects.common, effect)
    residual -= predict_losses(log, design._replace(kind=NONE, controls=0), effect)
    return effect, residual


def _freedom(events: int, cells: int, effects: RandomEffects) -> float:
    """Return the degrees of freedom that the instances' own losses take."""
    each = events / max(cells, 1)
    return cells * each / (each + 1.0 / effects.arm)
