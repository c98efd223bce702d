"""Empirical Bayes: the population gives the prior, each instance its own posterior.

The coefficients θ_u of instance u come from a population N(m, Λ); given them, losses are linear
with normal noise σ. Λ has one variance each for the level, the interaction's diagonal and the rest
of it, and arm·I + common·11ᵀ for the initial losses. m, Λ and σ maximise the likelihood of
the log (EM, with m solved for exactly in each round, which EM alone would approach slowly), on as
many instances as fit into a moderate memory; then every instance gets its posterior. The instances
are a sample that one pass over the log draws.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from influential_bandits.execution.base import Execution
from influential_bandits.execution.local import map_in_order
from influential_bandits.learning.solvers.estimates import (
    InstanceFits,
    PopulationEstimate,
    allocate_fits,
)
from influential_bandits.learning.solvers.psd import (
    solve_cholesky,
    solve_psd,
    svec,
    svec_scale,
    triangular_inverse,
)
from influential_bandits.learning.statistics.design import (
    Design,
    Events,
    event_columns,
    history_gram,
    interaction_entries,
)
from influential_bandits.learning.statistics.random_effects import RandomEffects
from influential_bandits.learning.statistics.reduction import (
    local_threads,
    single_threaded_algebra,
)
from influential_bandits.logs.log import EventLog
from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.numerics.compiling import kernel

ROUNDS = 25
SETTLED = 2e-3  # relative change of every variance in one step of EM, when the rounds end
VARIANCES = ("arm", "common", "level", "diagonal", "off_diagonal", "noise")


class Prior(NamedTuple):
    """The population: mean coefficients, and how much instances differ from them."""

    mean: Floats  # (size,)
    covariance: Floats  # (size, size): of the mean's estimate
    arm: float  # variances
    common: float
    level: float
    diagonal: float
    off_diagonal: float
    noise: float  # σ²
    rounds: int
    settled: bool


def estimate_population(
    some: EventLog, design: Design, definite: bool, effects: RandomEffects, execution: Execution
) -> tuple[PopulationEstimate, Prior]:
    """Estimate the prior from a sample of instances, on this computer."""
    threads = local_threads(execution)
    with single_threaded_algebra():
        prior = estimate_prior(some, design, effects, threads)
        population = prior.mean.copy()
        if definite:
            start = design.n_arms + design.controls
            population[start:] = _nearest_definite(population[start:], design.n_arms)
    noise = float(np.sqrt(prior.noise))
    return PopulationEstimate(population, prior.mean, prior.covariance, noise, 0.0, True), prior


def estimate_prior(
    log: EventLog, design: Design, effects: RandomEffects, threads: int | None = None
) -> Prior:
    """Estimate the population from instances."""
    events, size, arms = event_columns(log), design.size, design.n_arms
    grams = np.empty((log.n_instances, size + 1, size + 1))

    def gather(u: int) -> None:
        history_gram(design, events, u, grams[u])

    list(map_in_order(gather, range(log.n_instances), threads))
    groups = _groups(design)
    square = float(grams[:, -1, -1].sum()) / max(len(log), 1)
    least = 1e-10 * square if square > 0.0 else 1e-12  # of the noise: a perfect fit has none
    tasks = np.array_split(np.arange(log.n_instances), max(1, log.n_instances // 16))

    def improve(prior: Prior) -> Prior:
        precision: Any = np.linalg.inv(_covariance(prior, design))

        def expect(task: Ints) -> Any:
            return _expectation(grams[task], precision, prior.noise, prior.mean, arms)

        sums = [sum(column) for column in zip(*map_in_order(expect, tasks, threads), strict=True)]
        return _maximise(prior, sums, precision, groups, design, log.n_instances, len(log), least)

    return _accelerate(improve, _first_guess(grams, design, effects, least))


def _accelerate(improve: Callable[[Prior], Prior], prior: Prior) -> Prior:
    """Repeat EM with extrapolation (SQUAREM): variances near zero would take it hundreds of rounds.

    After two rounds, the logarithms of the variances go on along the way they went.
    """
    for round_ in range(ROUNDS):
        once = improve(prior)
        twice = improve(once)
        first, second, third = (np.log(np.array(p[2:8])) for p in (prior, once, twice))
        step = second - first
        bend = (third - second) - step
        settled = float(np.abs(third - second).max()) < SETTLED
        if settled:
            return twice._replace(rounds=round_ + 1, settled=True)
        length = np.sqrt((step @ step) / max(bend @ bend, 1e-300))
        stretch = float(np.clip(length, 1.0, 16.0))
        ahead = first + 2.0 * stretch * step + stretch**2 * bend
        values = np.exp(np.clip(ahead, third - 5.0, third + 5.0))
        prior = improve(twice._replace(**dict(zip(VARIANCES, values.tolist(), strict=True))))
    return prior._replace(rounds=ROUNDS, settled=False)


def _first_guess(grams: Floats, design: Design, effects: RandomEffects, least: float) -> Prior:
    arms, size = design.n_arms, design.size
    total = grams.sum(axis=0)
    start = arms + design.controls
    noise = max(effects.noise, least)
    weights = np.full(size, 1e-6 * max(float(np.trace(total[:-1, :-1])) / size, 1e-300))
    mean = np.linalg.solve(total[:-1, :-1] + np.diag(weights), total[:-1, -1])
    square = float(np.diag(total)[start:size].sum()) / max(size - start, 1) / len(grams)
    typical = noise / square if square > 0.0 else noise
    spread = max(effects.arm * noise, 1e-4 * noise), max(effects.common * noise, 1e-4 * noise)
    return Prior(mean, np.eye(size), *spread, 0.1, typical, typical, noise, 0, False)


def _groups(design: Design) -> Ints:
    """Return the group of each coefficient: 0 initial loss, 1 level, 2 diagonal, 3 off it."""
    entries = [2 if i == j else 3 for i, j in interaction_entries(design.kind, design.n_arms)]
    return np.array([0] * design.n_arms + [1] * design.controls + entries, np.int64)


def _covariance(prior: Prior, design: Design) -> Any:
    """Return Λ."""
    # Arms that hardly differ next to instances that do: Λ must stay invertible.
    arm = max(prior.arm, 1e-8 * (prior.common + prior.noise))
    values = np.array([arm, prior.level, prior.diagonal, prior.off_diagonal])
    out = np.diag(np.maximum(values, 1e-12 * prior.noise)[_groups(design)])
    out[: design.n_arms, : design.n_arms] += prior.common
    return out


@kernel
def _expectation(
    grams: Any, precision: Any, noise: float, mean: Any, arms: int
) -> tuple[Any, Any, Any, Any, float]:
    """Return, summed over instances: V·G/σ², V·g/σ², squares, loss covariance, squares left."""
    size = mean.size
    gained, rights, squares = np.zeros((size, size)), np.zeros(size), np.zeros(size)
    losses, errors = np.zeros((arms, arms)), 0.0
    for u in range(len(grams)):
        plain = np.ascontiguousarray(grams[u, :size, :size])
        right = grams[u, :size, size].copy()
        root = triangular_inverse(np.linalg.cholesky(plain / noise + precision))
        variance = root.T @ root
        own = variance @ right / noise
        apart = own + variance @ (precision @ mean) - mean
        posterior = mean + apart
        gained += variance @ plain / noise
        rights += own
        squares += apart**2 + np.diag(variance)
        losses += np.outer(apart[:arms], apart[:arms]) + variance[:arms, :arms]
        left = grams[u, size, size] - 2.0 * (right @ posterior) + posterior @ (plain @ posterior)
        errors += left + (plain * variance).sum()
    return gained, rights, squares, losses, errors


def _maximise(
    prior: Prior,
    sums: list[Any],
    precision: Floats,
    groups: Ints,
    design: Design,
    instances: int,
    events: int,
    least: float,
) -> Prior:
    gained, right, squares, losses, left = sums
    # (Λ + σ²G⁻¹)⁻¹ = Λ⁻¹·V·G/σ², a form in which nothing cancels.
    information = precision @ gained
    information = 0.5 * (information + information.T)
    # In units of the prior, where every instance counts one at most, rounding is 1e-16.
    unit = 1.0 / np.sqrt(np.diag(precision))
    values, vectors = np.linalg.eigh(information * unit[:, None] * unit)
    known = values > 1e-9 * instances
    root = unit[:, None] * vectors[:, known] / np.sqrt(values[known])
    covariance = root @ root.T
    mean = covariance @ (precision @ right)

    def group(number: int, before: float) -> float:
        mine = groups == number
        return float(squares[mine].mean() / instances) if mine.any() else before

    arms = design.n_arms
    diagonal = float(np.trace(losses)) / arms / instances
    common = prior.common
    if arms > 1:
        common = max((float(losses.sum()) / instances - arms * diagonal) / (arms * (arms - 1)), 0.0)
    floor, most = 1e-10 * prior.noise, 1e16 * least
    return Prior(
        mean,
        covariance,
        min(max(diagonal - common, floor), most),
        min(max(common, floor), most),
        min(max(group(1, prior.level), floor), 1e6),
        min(max(group(2, prior.diagonal), floor * 1e-10), most),
        min(max(group(3, prior.off_diagonal), floor * 1e-10), most),
        max(float(left) / events, least),
        prior.rounds,
        prior.settled,
    )


def posterior_work(
    design: Design, definite: bool, prior: Prior
) -> Callable[[EventLog], InstanceFits]:
    """Return the function from a log to the posteriors of its instances; it can be sent away."""
    with single_threaded_algebra():
        covariance = _covariance(prior, design)
        precision: Any = np.linalg.inv(covariance)
    unsure = np.maximum(np.diag(prior.covariance), 0.0) / np.diag(covariance) ** 2
    population = _Population(prior.mean, precision, covariance, unsure, prior.noise)
    return partial(_compute_posteriors, design=design, definite=definite, population=population)


class _Population(NamedTuple):
    """The prior as compiled code sees it."""

    mean: Floats  # (size,)
    precision: Floats  # (size, size)
    covariance: Floats  # (size, size)
    unsure: Floats  # (size,): variance of the mean relative to the squared prior variance
    noise: float  # σ²


def _compute_posteriors(
    log: EventLog, design: Design, definite: bool, population: _Population
) -> InstanceFits:
    """Return the posterior of each instance of a part."""
    out = coefficients, free, errors, deviation, gap = allocate_fits(log.n_instances, design.size)
    deviation[:] = np.sqrt(population.noise)
    events = event_columns(log)
    _fill_posteriors(design, events, definite, population, coefficients, free, errors, gap)
    return InstanceFits(*out, True)


@kernel
def _fill_posteriors(
    design: Design,
    events: Events,
    definite: bool,
    population: _Population,
    coefficients: Floats,
    free: Floats,
    errors: Floats,
    gap: Floats,
) -> None:
    """Fill the posteriors of all instances.

    What a posterior takes over from its prior, it takes over with the prior's own error.
    """
    mean, precision, covariance, unsure, noise = population
    arms, size = design.n_arms, mean.size
    start = arms + design.controls
    gram = np.empty((size + 1, size + 1))
    active = np.empty(size, np.int64)
    variances = np.diag(covariance)
    prior_errors = np.sqrt(variances + unsure * variances**2)
    for u in range(events.offsets.size - 1):
        history_gram(design, events, u, gram)
        used = 0
        for a in range(size):
            # Entries of the interaction that never came up stay at their prior.
            if a < start or gram[a, a] > 0.0 or definite:
                active[used] = a
                used += 1
        chosen = active[:used]
        H, right = np.empty((used, used)), np.empty(used)
        for a in range(used):
            total = gram[chosen[a], size]
            for b in range(size):
                total -= gram[chosen[a], b] * mean[b]
            right[a] = total / noise
            for b in range(used):
                H[a, b] = gram[chosen[a], chosen[b]] / noise + precision[chosen[a], chosen[b]]
        lower = np.linalg.cholesky(H)
        moved = solve_cholesky(lower, np.ascontiguousarray(lower.T), right)
        own = (triangular_inverse(lower) ** 2).sum(axis=0)
        free[u] = mean
        errors[u] = prior_errors
        for a in range(used):
            free[u, chosen[a]] += moved[a]
            errors[u, chosen[a]] = np.sqrt(own[a] + unsure[chosen[a]] * own[a] ** 2)
        coefficients[u] = free[u]
        if definite and size > start:
            gap[u] = _make_definite(H, lower, right, mean, arms, start, coefficients[u])


@kernel
def _make_definite(
    H: Any, lower: Any, right: Floats, mean: Floats, arms: int, start: int, out: Floats
) -> float:
    """Find the most likely coefficients whose interaction is positive semi-definite."""
    scale = svec_scale(arms)
    below = np.ascontiguousarray(lower[start:, :start])
    reduced = H[start:, start:] - below @ below.T
    target = reduced @ out[start:]
    best = solve_psd(reduced * scale.reshape(-1, 1) * scale, target * scale, arms, 1e-9)
    out[start:] = svec(best.matrix) * scale
    nuisance = np.ascontiguousarray(H[:start, :start])
    coupled = np.ascontiguousarray(H[:start, start:])
    moved = out[start:] - mean[start:]
    out[:start] = mean[:start] + np.linalg.solve(nuisance, right[:start] - coupled @ moved)
    return best.gap / max(abs(best.objective), 1e-300)


def _nearest_definite(coefficients: Floats, arms: int) -> Floats:
    """Return the nearest positive semi-definite interaction."""
    scale = svec_scale(arms)
    best = solve_psd(np.eye(len(scale)), coefficients / scale, arms, 1e-9)
    return svec(best.matrix) * scale
