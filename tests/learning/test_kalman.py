"""The filter against the joint normal distribution, regressors against slow sums."""

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from influential_bandits.datasets.synthetic import synthetic_log
from influential_bandits.learning import kalman
from influential_bandits.learning.kalman import CAUTION, CONTROLS, SMOOTHING, Components, Units
from influential_bandits.learning.statistics.design import (
    SYMMETRIC,
    Design,
    event_columns,
    interaction_entries,
)
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


def model_of(log, memory=0.8, half_life=0.0, components=COMPONENTS):
    weights = weights_of(log)
    rng = np.random.default_rng(3)
    baseline = rng.normal(size=log.n_arms)
    design = Design(log.n_arms, SYMMETRIC, memory, half_life, CONTROLS, 0.0, baseline)
    plain = kalman.Model(design, weights.mean(0), *(0.0, 0.0, 0.0, 0.0))
    return kalman.with_components(plain, components)


def weights_of(log):
    table = log.membership
    out = np.zeros((len(table.items), log.n_arms))
    for item in range(len(table.items)):
        for p in range(table.offsets[item], table.offsets[item + 1]):
            out[item, table.arm[p]] = table.weight[p]
    return out[log.item]


def covariance(w, c):
    """Return the covariance of the losses of a history, relative to the noise's variance."""
    distance = np.abs(np.subtract.outer(np.arange(len(w)), np.arange(len(w))))
    tastes = c.arm * np.eye(w.shape[1]) + c.common
    return w @ tastes @ w.T + c.drift * c.drift_memory**distance + np.eye(len(w))


def slow_rows(log, model):
    """Return regressors and loss of every event, in formulas, and the variances F."""
    c = Components(model.arm, model.common, model.drift, model.drift_memory, 1.0)
    pairs = {pair: n for n, pair in enumerate(interaction_entries(SYMMETRIC, model.design.n_arms))}
    everyone = weights_of(log)
    arms = model.design.n_arms
    rows, variances = [], []
    for low, high in zip(log.offsets[:-1], log.offsets[1:], strict=True):
        w, y = everyone[low:high], log.loss[low:high] - everyone[low:high] @ model.design.baseline
        xs = []
        for n in range(high - low):
            full = covariance(w[: n + 1], c)
            seen, now = full[:n, :n], full[:n, n]
            tastes = c.arm * np.eye(arms) + c.common
            drifts = c.drift * c.drift_memory ** np.arange(n, 0, -1)
            solved = np.linalg.solve(seen, y[:n])
            row = np.zeros(model.design.size + 1)
            row[:arms] = w[n]
            row[arms] = w[n] @ tastes @ w[:n].T @ solved
            row[arms + 1] = drifts @ solved
            variances.append(full[n, n] - now @ np.linalg.solve(seen, now))
            with_b = tastes @ w[n] - tastes @ w[:n].T @ np.linalg.solve(seen, now)
            steps = np.maximum(np.diff(w[: n + 1], axis=0, prepend=0.0), 0.0).sum(0)
            for k, times in enumerate((w[:n].sum(0), steps)):
                share = np.log1p(times / (CAUTION * model.popularity))
                liking = share - math.log1p(times.sum() / CAUTION)
                row[arms + 2 + k] = with_b @ np.linalg.solve(tastes, liking)
            xs.append(slow_contrast(log, model, low, n, w))
            for i in range(arms):
                if n and w[:n, i].sum() > 0.0:
                    mean = w[:n, i] @ np.array(xs[:n]) / w[:n, i].sum()
                    for j in range(arms):
                        place = pairs[max(i, j), min(i, j)]
                        row[arms + CONTROLS + place] += w[n, i] * (xs[n][j] - mean[j])
            row[-1] = y[n]
            rows.append(row)
    return np.array(rows), np.array(variances)


def slow_contrast(log, model, low, n, w):
    left = model.design.memory ** np.arange(n - 1, -1, -1)
    if model.design.half_life > 0.0:
        left = 2.0 ** (-(log.time[low + n] - log.time[low : low + n]) / model.design.half_life)
    counts = left @ w[:n] if n else np.zeros(model.design.n_arms)
    share = (w[:n].sum(0) + SMOOTHING * model.popularity) / (n + SMOOTHING)
    return counts - share * counts.sum()


def one_by_one(work, tasks):
    return map(work, tasks)


def units_of(log, blocks):
    nonempty = np.flatnonzero(log.lengths)
    spread = np.full(len(nonempty), blocks)
    return Units(nonempty, np.cumsum(spread) - spread, spread, int(spread.sum()))


@given(st.integers(0, 10**6), st.booleans())
@settings(max_examples=15)
def test_the_likelihood_is_that_of_the_joint_normal_distribution(seed, several):
    log = random_log(seed, several=several)
    model, events = model_of(log), event_columns(log)
    work = kalman.workspace(model.design.n_arms, 1)
    squares, logs, number = kalman.likelihood(model, events, np.arange(log.n_instances), work)
    exact = 0.0
    for low, high in zip(log.offsets[:-1], log.offsets[1:], strict=True):
        w = weights_of(log)[low:high]
        exact += scipy.stats.multivariate_normal.logpdf(
            log.loss[low:high] - w @ model.design.baseline, cov=covariance(w, COMPONENTS)
        )
    assert number == len(log)
    assert -0.5 * (squares + logs + number * math.log(2 * math.pi)) == pytest.approx(exact)


@given(st.integers(0, 10**6), st.booleans(), st.sampled_from([0.0, 4e4]), st.integers(1, 3))
@settings(max_examples=15)
def test_gram_and_scores_are_those_of_the_formulas(seed, several, half_life, blocks):
    log = random_log(seed, several=several)
    model, events, units = (
        model_of(log, half_life=half_life),
        event_columns(log),
        units_of(log, blocks),
    )
    rows, variances = slow_rows(log, model)
    tasks = [(n, n + 1) for n in range(len(units.order))]
    gram = kalman.gather_gram(model, events, units, one_by_one, tasks)
    np.testing.assert_allclose(gram, rows.T @ (rows / variances[:, None]), atol=1e-9)
    coefficients = np.random.default_rng(seed).normal(size=rows.shape[1] - 1)
    scores = kalman.gather_scores(model, events, units, coefficients, one_by_one, tasks)
    expected = np.zeros_like(scores)
    for first, u in zip(units.first, units.order, strict=True):
        length = int(log.lengths[u])
        for n in range(length):
            event = log.offsets[u] + n
            z, y = rows[event, :-1], rows[event, -1]
            residual = (y - coefficients @ z) / variances[event]
            expected[first + n * blocks // length] += residual * z
    np.testing.assert_allclose(scores, expected, atol=1e-9)


def test_contrasts_sum_to_zero_over_arms():
    rows, _ = slow_rows(random_log(1, several=False), model_of(random_log(1, several=False)))
    pairs = rows[:, 4 + CONTROLS : -1]
    np.testing.assert_allclose(pairs.sum(1), 0.0, atol=1e-12)


def test_variance_components_are_found():
    """Standard errors at this size are below 0.01 and 0.005; the bounds are six of them."""
    log = synthetic_log(300, 100, 4, spread=0.6, drift=0.5, drift_memory=0.9, seed=1)
    model = model_of(log)
    model = model._replace(design=model.design._replace(baseline=np.zeros(4)))
    found = kalman.fit_components(log, model, event_columns(log), np.arange(200))
    assert found.arm == pytest.approx(0.36, abs=0.06)
    assert found.common < 0.05
    assert found.drift == pytest.approx(0.25, abs=0.06)
    assert found.drift_memory == pytest.approx(0.9, abs=0.03)
    assert found.noise == pytest.approx(1.0, abs=0.05)


def test_only_events_of_an_arm_met_before_can_be_used():
    log = EventLog(["u", "u", "u", "v", "w", "w"], ["a", "b", "a", "a", "a", "b"], np.zeros(6))
    out = np.zeros(3, np.int64)
    kalman.usable_events(event_columns(log), 2, out)
    assert out.tolist() == [1, 0, 0]
