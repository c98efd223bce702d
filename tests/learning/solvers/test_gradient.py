"""The paper's descent: never better than the certified optimum, and on its way to it."""

import numpy as np
import pytest

from influential_bandits import InfluenceModel
from influential_bandits.data import planted_interaction, synthetic_log
from influential_bandits.learning.solvers.gradient import trace_descent
from influential_bandits.learning.solvers.penalised import Penalty

MARKS = [1, 10, 100, 1000, 10_000]


@pytest.fixture(scope="module")
def log():
    truth = planted_interaction(3, 0.4, seed=2)
    return synthetic_log(
        4, [150, 20, 80, 5], 3, interaction=truth, memory=0.8, initial_loss=1.0, seed=5
    )


@pytest.fixture(scope="module")
def design(log):
    return InfluenceModel(fading=0.8).fit(log).design_


def test_the_descent_goes_down_to_the_optimum_and_never_below(log, design):
    for history in trace_descent(log, design, Penalty(1.0, 1.0), MARKS):
        assert history.steps.tolist() == MARKS
        assert (history.excess >= 0).all()
        # Momentum overshoots within the first steps; from mark to mark it goes down.
        assert (np.diff(history.excess) <= 1e-9).all()
        assert history.excess[-1] < 1e-6
        assert history.excess[0] > 100 * history.excess[-1]


def test_with_drift_and_empty_histories(log):
    short = log.without_last(events=5)
    assert short.lengths.min() == 0
    model = InfluenceModel(fading=0.8, drift=True).fit(short)
    traced = trace_descent(short, model.design_, Penalty(1.0, 1.0), [10, 30_000])
    assert len(traced) == 3
    exact = np.sqrt((model.interactions_**2).sum(axis=(1, 2)))
    for descent, norm in zip(traced, exact, strict=True):
        assert np.isfinite(descent.norm).all()
        assert descent.norm[-1] == pytest.approx(norm, abs=0.02)
