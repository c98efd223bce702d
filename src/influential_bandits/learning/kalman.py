"""A Kalman filter that predicts every loss from the same history's past, and what is left of it.

The loss of event n of an instance, of an item with weights w over the arms, is

    (μ + b)·w + g + noise,  b ~ N(0, σ²·(arm·I + common·11ᵀ)),  g an AR(1) process of variance
    σ²·drift and coefficient ρ,

and a Kalman filter predicts it from the losses before it. The surprise that remains (the
*innovation*, of variance σ²·F) is unrelated to everything known before the event, even where past
losses steer later choices. So influence is looked for in regressors that are known before the event
as well. With x_j = d_j − s_j·D, where d are the faded counts, D is their sum and s_j the share of
arm j in the past events (smoothed towards its popularity), the regressor of the pair (i, j) at an
event of arm i is

    x_j − (mean of x_j over the past events of arm i in this history; 0 at the first of them).

Shares are subtracted because a person who likes an arm meets it more often, the mean because it
removes what stays the same in a history.

Regressors of the loss, in this order: weights w (their coefficients are μ); the controls, which
have free coefficients, so that misjudged variances do little harm; the pairs of the symmetric A.
The controls are the filter's b̂·w and ĝ, and what the choices so far say about b. With
E[b | choices] = β·ℓ, where ℓ_j is the log of the arm's share relative to its popularity, what the
filter has not yet learnt of that from losses is β·Cov(b·w + g, b)·Cov₀(b)⁻¹·ℓ. It stands there
twice: with shares in all past events, and with shares in fresh choices up to the present one, that
is without repetitions of the arm before, which come in bursts and say little about taste.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from influential_bandits.learning.statistics.design import (
    SYMMETRIC,
    Design,
    Events,
    add_transposed,
    count_event,
    fade_counts,
    list_entries,
    place,
)
from influential_bandits.learning.statistics.random_effects import estimate_random_effects
from influential_bandits.logs.log import EventLog
from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.numerics.compiling import inlined, kernel

__all__ = ["CONTROLS", "Components", "Model", "Units", "fit_components"]

CONTROLS = 4  # b̂·w, ĝ, and twice what choices say about b
SMOOTHING = 20.0  # events of average taste that every history is credited with
CAUTION = 100.0  # the same, where shares are to tell how much an instance likes an arm
LEAST, MOST = 1e-7, 1e5  # of variances relative to the noise
EVALUATIONS = 160


class Components(NamedTuple):
    """Variances relative to the noise's, the memory of the drift, and the noise's variance."""

    arm: float  # of an instance's deviations from the typical loss, arm by arm
    common: float  # of an instance's general level
    drift: float  # of the drift along a history
    drift_memory: float  # ρ, correlation of the drift at neighbouring events
    noise: float  # σ²


class Model(NamedTuple):
    """What predictions and regressors depend on; all that compiled code needs to know."""

    design: Design  # symmetric, with CONTROLS controls, typical losses as the baseline
    popularity: Floats  # (arms,): shares in all events
    arm: float
    common: float
    drift: float
    drift_memory: float


class Units(NamedTuple):
    """Instances in the order in which they are worked off, and the units they belong to."""

    order: Ints  # (instances,)
    first: Ints  # (instances,), in that order: the unit of the first event
    blocks: Ints  # (instances,): over how many neighbouring units the history is spread
    number: int


class Work(NamedTuple):
    """State of one history, filled anew for each."""

    covariance: Floats  # (arms + 1, arms + 1): of (b, g), relative to σ²
    mean: Floats  # (arms + 1,)
    gain: Floats  # (arms + 1,): covariance of (b, g) with the next loss
    counts: Floats  # d
    met: Floats  # (arms,): how often, not faded
    past: Floats  # (arms, arms): sums of x over past events of each arm
    contrast: Floats  # x, (arms,)
    fresh: Floats  # (arms,): how often, repetitions left out
    liking: Floats  # (2, arms): log(1 + times / (CAUTION·popularity)), times met and fresh
    times: Floats  # (2,): events so far, and fresh choices
    column: Ints  # non-zero regressors of the event, the loss last
    value: Floats
    dense: Floats  # (pairs,): zeros between two events


@kernel
def workspace(arms: int, size: int) -> Work:
    """Return work arrays of the right sizes."""
    return Work(
        np.zeros((arms + 1, arms + 1)),
        np.zeros(arms + 1),
        np.zeros(arms + 1),
        np.zeros(arms),
        np.zeros(arms),
        np.zeros((arms, arms)),
        np.zeros(arms),
        np.zeros(arms),
        np.zeros((2, arms)),
        np.zeros(2),
        np.zeros(size + 1, np.int64),
        np.zeros(size + 1),
        np.zeros(size),
    )


@inlined
def begin(model: Model, work: Work) -> None:
    """Forget everything: a new history begins."""
    arms = model.design.n_arms
    for i in range(arms):
        for j in range(arms):
            work.covariance[i, j] = model.common
        work.covariance[i, i] += model.arm
        work.covariance[i, arms] = work.covariance[arms, i] = 0.0
    work.covariance[arms, arms] = model.drift
    work.mean[:] = 0.0
    work.counts[:] = 0.0
    work.met[:] = 0.0
    work.past[:] = 0.0
    work.fresh[:] = 0.0
    work.liking[:] = 0.0
    work.times[:] = 0.0


@inlined
def predict(model: Model, events: Events, n: int, work: Work) -> tuple[float, float, float]:
    """Return the surprise at the typical loss, the filter's b̂·w, and the variance F."""
    arms = model.design.n_arms
    item = events.item[n]
    surprise, own = events.loss[n], 0.0
    work.gain[:] = work.covariance[arms]
    for p in range(events.members[item], events.members[item + 1]):
        i, weight = events.arm[p], events.weight[p]
        surprise -= weight * model.design.baseline[i]
        own += weight * work.mean[i]
        row = work.covariance[i]
        for j in range(arms + 1):
            work.gain[j] += weight * row[j]
    variance = 1.0 + work.gain[arms]
    for p in range(events.members[item], events.members[item + 1]):
        variance += events.weight[p] * work.gain[events.arm[p]]
    return surprise, own, variance


@inlined
def learn(model: Model, work: Work, innovation: float, variance: float) -> None:
    """Take the innovation into the state, and let the drift go on."""
    arms, keep = model.design.n_arms, model.drift_memory
    for a in range(arms + 1):
        share, row = work.gain[a] / variance, work.covariance[a]
        work.mean[a] += share * innovation
        for b in range(arms + 1):
            row[b] -= share * work.gain[b]
    work.mean[arms] *= keep
    for a in range(arms):
        work.covariance[a, arms] *= keep
        work.covariance[arms, a] *= keep
    left = keep * keep
    work.covariance[arms, arms] = left * work.covariance[arms, arms] + model.drift * (1.0 - left)


@inlined
def contrasts(model: Model, events: Events, n: int, first: int, work: Work) -> None:
    """Let the past fade until event n, and fill x."""
    arms = model.design.n_arms
    fade_counts(model.design, events, n, first, work.counts)
    total = 0.0
    for j in range(arms):
        total += work.counts[j]
    scale = total / (n - first + SMOOTHING)
    for j in range(arms):
        expected = scale * (work.met[j] + SMOOTHING * model.popularity[j])
        work.contrast[j] = work.counts[j] - expected


@inlined
def meet(model: Model, events: Events, n: int, work: Work) -> None:
    """Take event n into the counts."""
    item = events.item[n]
    count_event(model.design, events, n, work.counts)
    for p in range(events.members[item], events.members[item + 1]):
        i, weight = events.arm[p], events.weight[p]
        work.met[i] += weight
        work.liking[0, i] = math.log1p(work.met[i] / (CAUTION * model.popularity[i]))
        row = work.past[i]
        for j in range(model.design.n_arms):
            row[j] += weight * work.contrast[j]
    work.times[0] += 1.0


@inlined
def notice(model: Model, events: Events, n: int, first: int, work: Work) -> None:
    """Take the choice of event n into the fresh ones, but for what repeats the event before."""
    item = events.item[n]
    for p in range(events.members[item], events.members[item + 1]):
        i, new = events.arm[p], events.weight[p]
        if n > first:
            before = events.item[n - 1]
            for q in range(events.members[before], events.members[before + 1]):
                if events.arm[q] == i:
                    new -= events.weight[q]
        if new > 0.0:
            work.fresh[i] += new
            work.times[1] += new
            work.liking[1, i] = math.log1p(work.fresh[i] / (CAUTION * model.popularity[i]))


@inlined
def unlearnt_taste(model: Model, which: int, work: Work) -> float:
    """Return Cov(b·w + g, b)·Cov₀(b)⁻¹·ℓ."""
    arms = model.design.n_arms
    level = math.log1p(work.times[which] / CAUTION)
    total, everything, product = 0.0, 0.0, 0.0
    for j in range(arms):
        if model.popularity[j] > 0.0:
            liking = work.liking[which, j] - level
            product += work.gain[j] * liking
            everything += liking
        total += work.gain[j]
    shared = model.common / (model.arm + arms * model.common)
    return (product - shared * everything * total) / model.arm


@inlined
def regressors(
    model: Model, events: Events, n: int, own: float, surprise: float, work: Work
) -> int:
    """Write the non-zero regressors of event n, and last the loss; return how many there are."""
    arms = model.design.n_arms
    item = events.item[n]
    low, high = events.members[item], events.members[item + 1]
    index, value, dense = work.column, work.value, work.dense
    size = 0
    for p in range(low, high):
        index[size], value[size] = events.arm[p], events.weight[p]
        size += 1
    index[size], value[size] = arms, own
    index[size + 1], value[size + 1] = arms + 1, work.mean[arms]
    for which in range(2):
        index[size + 2 + which] = arms + 2 + which
        value[size + 2 + which] = unlearnt_taste(model, which, work)
    size += 4
    # An item of several arms meets the same symmetric entry twice: sum first, then list.
    for p in range(low, high):
        i, weight = events.arm[p], events.weight[p]
        if work.met[i] > 0.0:
            share, row = weight / work.met[i], work.past[i]
            for j in range(arms):
                dense[place(SYMMETRIC, arms, i, j)] += weight * work.contrast[j] - share * row[j]
    size = list_entries(model.design, events, n, dense, index, value, size)
    index[size], value[size] = arms + CONTROLS + arms * (arms + 1) // 2, surprise
    return size


@kernel
def likelihood(model: Model, events: Events, chosen: Ints, work: Work) -> tuple[float, float, int]:
    """Return Σ innovation²/F, Σ log F and the number of events of the chosen instances."""
    squares, logs, number = 0.0, 0.0, 0
    for u in chosen:
        begin(model, work)
        for n in range(events.offsets[u], events.offsets[u + 1]):
            surprise, own, variance = predict(model, events, n, work)
            innovation = surprise - own - work.mean[model.design.n_arms]
            squares += innovation * innovation / variance
            logs += math.log(variance)
            learn(model, work, innovation, variance)
            number += 1
    return squares, logs, number


@kernel
def add_gram(model: Model, events: Events, instances: Ints, size: int, out: Floats) -> None:
    """Add Σ (z, y)(z, y)ᵀ/F of these instances, (size + 1, size + 1)."""
    work = workspace(model.design.n_arms, size)
    index, value = work.column, work.value
    for u in instances:
        begin(model, work)
        first = events.offsets[u]
        for n in range(first, events.offsets[u + 1]):
            contrasts(model, events, n, first, work)
            notice(model, events, n, first, work)
            surprise, own, variance = predict(model, events, n, work)
            used = regressors(model, events, n, own, surprise, work)
            for a in range(used + 1):
                row, factor = out[index[a]], value[a] / variance
                for b in range(a, used + 1):
                    row[index[b]] += factor * value[b]
            learn(model, work, surprise - own - work.mean[model.design.n_arms], variance)
            meet(model, events, n, work)
    add_transposed(out)


@kernel
def add_scores(
    model: Model,
    events: Events,
    units: Units,
    low: int,
    high: int,
    coefficients: Floats,
    out: Floats,
) -> None:
    """Add Σ z·(y − z·coefficients)/F by unit.

    ``out`` is (units, size), where the first unit is that of instance ``low`` in the units' order.
    """
    size = coefficients.size
    work = workspace(model.design.n_arms, size)
    index, value = work.column, work.value
    for r in range(low, high):
        u = units.order[r]
        begin(model, work)
        first, last = events.offsets[u], events.offsets[u + 1]
        for n in range(first, last):
            unit = (
                units.first[r] - units.first[low] + (n - first) * units.blocks[r] // (last - first)
            )
            contrasts(model, events, n, first, work)
            notice(model, events, n, first, work)
            surprise, own, variance = predict(model, events, n, work)
            used = regressors(model, events, n, own, surprise, work)
            residual = value[used]
            for a in range(used):
                residual -= value[a] * coefficients[index[a]]
            residual /= variance
            for a in range(used):
                out[unit, index[a]] += value[a] * residual
            learn(model, work, surprise - own - work.mean[model.design.n_arms], variance)
            meet(model, events, n, work)


@kernel
def usable_events(events: Events, arms: int, out: Ints) -> None:
    """Count, for each instance, the events of an arm that it met before."""
    met = np.zeros(arms, np.bool_)
    for u in range(events.offsets.size - 1):
        met[:] = False
        for n in range(events.offsets[u], events.offsets[u + 1]):
            item = events.item[n]
            again = False
            for p in range(events.members[item], events.members[item + 1]):
                again |= met[events.arm[p]]
                met[events.arm[p]] = True
            out[u] += again


@kernel
def add_moments(events: Events, gram: Floats, loss: Floats) -> None:
    """Add Σ wwᵀ and Σ w·y of all events."""
    for n in range(events.item.size):
        item = events.item[n]
        low, high = events.members[item], events.members[item + 1]
        for p in range(low, high):
            i, weight = events.arm[p], events.weight[p]
            loss[i] += weight * events.loss[n]
            for q in range(low, high):
                gram[i, events.arm[q]] += weight * events.weight[q]


def fit_components(log: EventLog, model: Model, events: Events, chosen: Ints) -> Components:
    """Return the variance components of largest likelihood, on the chosen instances.

    By the simplex method of Nelder and Mead, for a bounded number of evaluations: they need not be
    exact, because predictions have free coefficients afterwards.
    """
    from scipy.optimize import minimize

    start = estimate_random_effects([log.take(chosen)], model.design.baseline)
    work = workspace(model.design.n_arms, 1)

    def at(point: Floats) -> Components:
        arm, common, drift = np.exp(np.clip(point[:3], math.log(LEAST), math.log(MOST)))
        memory = 1.0 / (1.0 + math.exp(-float(np.clip(point[3], -6.0, 7.0))))
        return Components(float(arm), float(common), float(drift), memory, 1.0)

    def deviance(point: Floats) -> float:
        squares, logs, number = likelihood(with_components(model, at(point)), events, chosen, work)
        return number * math.log(max(squares / number, 1e-300)) + logs

    start_at = np.array(
        [math.log(max(start.arm, 0.01)), math.log(max(start.common, 0.01)), -2.3, 2]
    )
    corners = start_at + np.vstack([np.zeros(4), 1.5 * np.diag([1.0, 1.0, 1.0, -1.0])])
    options = {"maxfev": EVALUATIONS, "xatol": 0.02, "fatol": 0.1, "initial_simplex": corners}
    best = at(minimize(deviance, start_at, method="Nelder-Mead", options=options).x)
    squares, _, number = likelihood(with_components(model, best), events, chosen, work)
    return best._replace(noise=squares / number)


def with_components(model: Model, components: Components) -> Model:
    """Return the model with these variances."""
    arm, common, drift, memory, _ = components
    return model._replace(arm=arm, common=common, drift=drift, drift_memory=memory)


def gather_gram(
    model: Model, events: Events, units: Units, in_order: Callable[..., Any], tasks: Any
) -> Floats:
    """Return the Gram matrix of regressors and loss, (size + 1, size + 1)."""
    size = model.design.size

    def work(task: tuple[int, int]) -> Floats:
        out = np.zeros((size + 1, size + 1))
        add_gram(model, events, units.order[slice(*task)], size, out)
        return out

    total = np.zeros((size + 1, size + 1))
    for part in in_order(work, tasks):
        total += part
    return total


def gather_scores(
    model: Model,
    events: Events,
    units: Units,
    coefficients: Floats,
    in_order: Callable[..., Any],
    tasks: Any,
) -> Floats:
    """Return the scores by unit, (units, size)."""
    size = coefficients.size

    def work(task: tuple[int, int]) -> tuple[int, Floats]:
        low, high = task
        first = int(units.first[low])
        last = int((units.first[low:high] + units.blocks[low:high]).max())
        out = np.zeros((last - first, size))
        add_scores(model, events, units, low, high, coefficients, out)
        return first, out

    total = np.zeros((units.number, size))
    for first, part in in_order(work, tasks):
        total[first : first + len(part)] += part
    return total
