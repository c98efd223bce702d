"""A Kalman filter that predicts every loss from the same history's past.

The loss of event n of an instance, of an item with weights w over the arms, is

    (μ + b)·w + g + noise,  b ~ N(0, σ²·(arm·I + common·11ᵀ)),  g an AR(1) process of variance
    σ²·drift and coefficient ρ,

and the filter predicts it from the losses before it. The surprise that remains (the *innovation*,
of variance σ²·F) is unrelated to everything known before the event, even where past losses steer
later choices.

Predictions are regressors with free coefficients afterwards, so that misjudged variances do little
harm: the filter's b̂·w and ĝ, and what the choices so far say about b. With E[b | choices] = β·ℓ,
where ℓ_j is the log of the arm's share relative to its popularity, what the filter has not yet
learnt of that from losses is β·Cov(b·w + g, b)·Cov₀(b)⁻¹·ℓ. It stands there twice: with shares in
all past events, and with shares in fresh choices up to the present one, that is without repetitions
of the arm before, which come in bursts and say little about taste.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from influential_bandits.learning.statistics.design import Events
from influential_bandits.learning.statistics.random_effects import estimate_random_effects
from influential_bandits.logs.log import EventLog
from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.numerics.compiling import inlined, kernel

KNOWN = 4  # columns of what is known before an event: b̂·w, ĝ, and twice what choices say about b
CAUTION = 100.0  # events that every history is credited with before its shares tell what it likes
LEAST, MOST = 1e-7, 1e5  # of variances relative to the noise
EVALUATIONS = 100


class Components(NamedTuple):
    """Variances relative to the noise's, the memory of the drift, and the noise's variance."""

    arm: float  # of an instance's deviations from the typical loss, arm by arm
    common: float  # of an instance's general level
    drift: float  # of the drift along a history
    drift_memory: float  # ρ, correlation of the drift at neighbouring events
    noise: float  # σ²


class Model(NamedTuple):
    """What predictions depend on; all that compiled code needs to know."""

    baseline: Floats  # (arms,): typical losses
    popularity: Floats  # (arms,): shares in all events
    arm: float
    common: float
    drift: float
    drift_memory: float


class Predictions(NamedTuple):
    """What is known of every event before it, and what its loss was beyond typical losses."""

    surprise: Floats  # (events,): loss − baseline·w
    variance: Floats  # (events,): F
    known: Floats  # (events, KNOWN)


class Work(NamedTuple):
    """State of one history, filled anew for each."""

    covariance: Floats  # (arms + 1, arms + 1): of (b, g), relative to σ²
    mean: Floats  # (arms + 1,)
    gain: Floats  # (arms + 1,): covariance of (b, g) with the next loss
    met: Floats  # (2, arms): how often, and how often with repetitions left out
    liking: Floats  # (2, arms): log(1 + met / (CAUTION·popularity))
    times: Floats  # (2,): events so far, and fresh choices


@kernel
def workspace(arms: int) -> Work:
    """Return work arrays of the right sizes."""
    return Work(
        np.zeros((arms + 1, arms + 1)),
        np.zeros(arms + 1),
        np.zeros(arms + 1),
        np.zeros((2, arms)),
        np.zeros((2, arms)),
        np.zeros(2),
    )


@inlined
def begin(model: Model, work: Work) -> None:
    """Forget everything: a new history begins."""
    arms = model.baseline.size
    for i in range(arms):
        for j in range(arms):
            work.covariance[i, j] = model.common
        work.covariance[i, i] += model.arm
        work.covariance[i, arms] = work.covariance[arms, i] = 0.0
    work.covariance[arms, arms] = model.drift
    work.mean[:] = 0.0
    work.met[:] = 0.0
    work.liking[:] = 0.0
    work.times[:] = 0.0


@inlined
def predict(model: Model, events: Events, n: int, work: Work) -> tuple[float, float, float]:
    """Return the surprise at the typical loss, the filter's b̂·w, and the variance F."""
    arms = model.baseline.size
    item = events.item[n]
    surprise, own = events.loss[n], 0.0
    for k in range(work.gain.size):
        work.gain[k] = work.covariance[arms, k]
    for p in range(events.members[item], events.members[item + 1]):
        i, weight = events.arm[p], events.weight[p]
        surprise -= weight * model.baseline[i]
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
    arms, keep = model.baseline.size, model.drift_memory
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
def like(model: Model, which: int, i: int, times: float, work: Work) -> None:
    """Take a choice of an arm into what choices say about taste."""
    work.met[which, i] += times
    work.times[which] += times
    work.liking[which, i] = math.log1p(work.met[which, i] / (CAUTION * model.popularity[i]))


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
            like(model, 1, i, new, work)


@inlined
def unlearnt_taste(model: Model, which: int, work: Work) -> float:
    """Return Cov(b·w + g, b)·Cov₀(b)⁻¹·ℓ."""
    arms = model.baseline.size
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


@kernel
def likelihood(model: Model, events: Events, chosen: Ints, work: Work) -> tuple[float, float, int]:
    """Return Σ innovation²/F, Σ log F and the number of events of the chosen instances."""
    squares, logs, number = 0.0, 0.0, 0
    for u in chosen:
        begin(model, work)
        for n in range(events.offsets[u], events.offsets[u + 1]):
            surprise, own, variance = predict(model, events, n, work)
            innovation = surprise - own - work.mean[model.baseline.size]
            squares += innovation * innovation / variance
            logs += math.log(variance)
            learn(model, work, innovation, variance)
            number += 1
    return squares, logs, number


@kernel
def filter_histories(
    model: Model, events: Events, instances: Ints, out: Predictions, work: Work
) -> None:
    """Fill the predictions of all events of these instances."""
    arms = model.baseline.size
    for u in instances:
        begin(model, work)
        first = events.offsets[u]
        for n in range(first, events.offsets[u + 1]):
            notice(model, events, n, first, work)
            surprise, own, variance = predict(model, events, n, work)
            out.surprise[n] = surprise
            out.variance[n] = variance
            out.known[n, 0] = own
            out.known[n, 1] = work.mean[arms]
            out.known[n, 2] = unlearnt_taste(model, 0, work)
            out.known[n, 3] = unlearnt_taste(model, 1, work)
            learn(model, work, surprise - own - work.mean[arms], variance)
            item = events.item[n]
            for p in range(events.members[item], events.members[item + 1]):
                like(model, 0, events.arm[p], events.weight[p], work)


def predict_events(
    model: Model,
    events: Events,
    order: Ints,
    in_order: Callable[..., Any],
    tasks: Sequence[tuple[int, int]],
) -> Predictions:
    """Return the predictions of all events of the instances in this order, range by range."""
    size = len(events.item)
    out = Predictions(np.zeros(size), np.ones(size), np.zeros((size, KNOWN)))

    def work(task: tuple[int, int]) -> None:
        filter_histories(model, events, order[slice(*task)], out, workspace(model.baseline.size))

    for _ in in_order(work, tasks):
        pass
    return out


def fit_components(log: EventLog, model: Model, events: Events, chosen: Ints) -> Components:
    """Return the variance components of largest likelihood, on the chosen instances.

    By the simplex method of Nelder and Mead, for a bounded number of evaluations: they need not be
    exact, because predictions have free coefficients afterwards.
    """
    from scipy.optimize import minimize

    start = estimate_random_effects(log.take(chosen), model.baseline)
    work = workspace(model.baseline.size)

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
