"""Predictions and regressors of the test of influence in slow formulas, event by event."""

import math

import numpy as np
from dense_learning import weights_of

from influential_bandits.learning import kalman
from influential_bandits.learning.exposures import SMOOTHING, Units
from influential_bandits.learning.kalman import CAUTION, KNOWN, Components
from influential_bandits.learning.statistics.design import SYMMETRIC, interaction_entries
from influential_bandits.logs.log import EventLog
from influential_bandits.logs.membership import Membership

COMPONENTS = Components(0.4, 0.2, 0.3, 0.7, 1.0)
FILMS = {"a": ["A"], "b": ["B"], "ab": ["A", "B"], "abc": ["A", "B", "C"], "c": ["C"]}


def random_log(seed, instances=4, events=30, several=True):
    rng = np.random.default_rng(seed)
    membership = Membership(FILMS if several else {arm: [arm] for arm in "ABCD"})
    number = len(membership.items)
    return EventLog(
        rng.integers(0, instances, events),
        rng.integers(0, number, events),
        rng.normal(size=events),
        time=1e5 * rng.random(events),
        membership=membership,
    )


def model_of(log, components=COMPONENTS):
    baseline = np.random.default_rng(3).normal(size=log.n_arms)
    plain = kalman.Model(baseline, weights_of(log).mean(0), 0.0, 0.0, 0.0, 0.0)
    return kalman.with_components(plain, components)


def covariance(w, c):
    """Return the covariance of the losses of a history, relative to the noise's variance."""
    distance = np.abs(np.subtract.outer(np.arange(len(w)), np.arange(len(w))))
    tastes = c.arm * np.eye(w.shape[1]) + c.common
    return w @ tastes @ w.T + c.drift * c.drift_memory**distance + np.eye(len(w))


def slow_predictions(log, model):
    """Return what is known before every event, its surprise, and the variances F."""
    c = Components(model.arm, model.common, model.drift, model.drift_memory, 1.0)
    everyone, arms = weights_of(log), log.n_arms
    known, surprises, variances = [], [], []
    for low, high in zip(log.offsets[:-1], log.offsets[1:], strict=True):
        w, y = everyone[low:high], log.loss[low:high] - everyone[low:high] @ model.baseline
        for n in range(high - low):
            full = covariance(w[: n + 1], c)
            seen, now = full[:n, :n], full[:n, n]
            tastes = c.arm * np.eye(arms) + c.common
            drifts = c.drift * c.drift_memory ** np.arange(n, 0, -1)
            solved = np.linalg.solve(seen, y[:n])
            row = np.zeros(KNOWN)
            row[0] = w[n] @ tastes @ w[:n].T @ solved
            row[1] = drifts @ solved
            with_b = tastes @ w[n] - tastes @ w[:n].T @ np.linalg.solve(seen, now)
            steps = np.maximum(np.diff(w[: n + 1], axis=0, prepend=0.0), 0.0).sum(0)
            for k, times in enumerate((w[:n].sum(0), steps)):
                share = np.log1p(times / (CAUTION * model.popularity))
                liking = share - math.log1p(times.sum() / CAUTION)
                row[2 + k] = with_b @ np.linalg.solve(tastes, liking)
            known.append(row)
            surprises.append(y[n])
            variances.append(full[n, n] - now @ np.linalg.solve(seen, now))
    return np.array(known), np.array(surprises), np.array(variances)


def slow_pairs(log, popularity, memory=0.8, half_life=0.0):
    """Return the regressors of all pairs, event by event."""
    pairs = {pair: n for n, pair in enumerate(interaction_entries(SYMMETRIC, log.n_arms))}
    everyone, arms = weights_of(log), log.n_arms
    out = np.zeros((len(log), len(pairs)))
    for low, high in zip(log.offsets[:-1], log.offsets[1:], strict=True):
        w, xs = everyone[low:high], []
        for n in range(high - low):
            time = None if half_life == 0.0 else log.time[low : low + n + 1]
            xs.append(slow_contrast(w, n, popularity, memory, half_life, time))
            for i in range(arms):
                if n and w[:n, i].sum() > 0.0:
                    mean = w[:n, i] @ np.array(xs[:n]) / w[:n, i].sum()
                    for j in range(arms):
                        place = pairs[max(i, j), min(i, j)]
                        out[low + n, place] += w[n, i] * (xs[n][j] - mean[j])
    return out


def slow_contrast(w, n, popularity, memory, half_life, time):
    left = memory ** np.arange(n - 1, -1, -1)
    if half_life > 0.0:
        left = 2.0 ** (-(time[n] - time[:n]) / half_life)
    counts = left @ w[:n] if n else np.zeros(w.shape[1])
    share = (w[:n].sum(0) + SMOOTHING * popularity) / (n + SMOOTHING)
    return counts - share * counts.sum()


def one_by_one(work, tasks):
    return map(work, tasks)


def units_of(log, blocks):
    nonempty = np.flatnonzero(log.lengths)
    spread = np.full(len(nonempty), blocks)
    return Units(nonempty, np.cumsum(spread) - spread, spread, int(spread.sum()))
