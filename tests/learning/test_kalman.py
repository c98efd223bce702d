"""The filter against the joint normal distribution and slow formulas."""

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from slow_regression import (
    COMPONENTS,
    covariance,
    model_of,
    one_by_one,
    random_log,
    slow_predictions,
    weights_of,
)

from influential_bandits.datasets.synthetic import synthetic_log
from influential_bandits.learning import kalman
from influential_bandits.learning.statistics.design import event_columns


@given(st.integers(0, 10**6), st.booleans())
@settings(max_examples=15)
def test_the_likelihood_is_that_of_the_joint_normal_distribution(seed, several):
    log = random_log(seed, several=several)
    model, events = model_of(log), event_columns(log)
    work = kalman.workspace(log.n_arms)
    squares, logs, number = kalman.likelihood(model, events, np.arange(log.n_instances), work)
    exact = 0.0
    for low, high in zip(log.offsets[:-1], log.offsets[1:], strict=True):
        w = weights_of(log)[low:high]
        exact += scipy.stats.multivariate_normal.logpdf(
            log.loss[low:high] - w @ model.baseline, cov=covariance(w, COMPONENTS)
        )
    assert number == len(log)
    assert -0.5 * (squares + logs + number * math.log(2 * math.pi)) == pytest.approx(exact)


@given(st.integers(0, 10**6), st.booleans())
@settings(max_examples=15)
def test_predictions_are_those_of_the_formulas(seed, several):
    log = random_log(seed, several=several)
    model, order = model_of(log), np.flatnonzero(log.lengths)
    tasks = [(n, n + 1) for n in range(len(order))]
    found = kalman.predict_events(model, event_columns(log), order, one_by_one, tasks)
    for ours, slow in zip(
        (found.known, found.surprise, found.variance), slow_predictions(log, model), strict=True
    ):
        np.testing.assert_allclose(ours, slow, atol=1e-9)


def test_variance_components_are_found():
    """Standard errors at this size are below 0.01 and 0.005; the bounds are six of them."""
    log = synthetic_log(300, 100, 4, spread=0.6, drift=0.5, drift_memory=0.9, seed=1)
    model = model_of(log)._replace(baseline=np.zeros(4))
    found = kalman.fit_components(log, model, event_columns(log), np.arange(200))
    assert found.arm == pytest.approx(0.36, abs=0.06)
    assert found.common < 0.05
    assert found.drift == pytest.approx(0.25, abs=0.06)
    assert found.drift_memory == pytest.approx(0.9, abs=0.03)
    assert found.noise == pytest.approx(1.0, abs=0.05)
