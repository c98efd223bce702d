"""The paper's descent: never better than the certified optimum, and on its way to it."""

import numpy as np
import pytest
from dense_learning import certified_minimum, objective, penalised

from influential_bandits import InfluenceModel
from influential_bandits.data import planted_interaction, synthetic_log
from influential_bandits.errors import InvalidInput
from influential_bandits.learning.model_files import ARRAYS
from influential_bandits.learning.solvers.gradient import fit_by_descent, trace_descent
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


@pytest.mark.parametrize("steps", [1, 50, 20_000])
def test_the_objective_is_measured_against_another_solver(log, design, steps):
    fit = fit_by_descent(log, design, Penalty(1.0, 1.0), steps, seed=3)
    (whole,) = {len(fit.coefficients)}
    assert whole == log.n_instances
    for u, label in enumerate(log.instances):
        own = log.history(label)
        H, g, mean = penalised(own, "psd", 1.0, 1.0, 0.8)
        theta = fit.coefficients[u].copy()
        theta[:3] -= mean
        least = certified_minimum(H, g, 3)[1]
        scale = 0.5 * ((own.loss - mean) ** 2).sum()
        excess = (objective(H, g, theta) - least) / scale
        assert excess >= -1e-8
        assert fit.gap[u] == pytest.approx(excess, rel=1e-3, abs=2e-8)


def test_an_easy_problem_is_solved(log):
    slow = InfluenceModel(fading=0.8, solver="gradient", max_iter=30_000).fit(log)
    exact = InfluenceModel(fading=0.8).fit(log)
    np.testing.assert_allclose(slow.interactions_, exact.interactions_, rtol=0, atol=2e-3)
    np.testing.assert_allclose(slow.initial_losses_, exact.initial_losses_, rtol=0, atol=1e-2)
    assert slow.gap_ < 1e-6
    early = InfluenceModel(fading=0.8, solver="gradient", max_iter=5).fit(log)
    assert early.gap_ > 1e-3


@pytest.mark.parametrize("steps", [1, 30, 1000])
def test_the_interaction_is_definite(log, steps):
    model = InfluenceModel(fading=0.8, solver="gradient", max_iter=steps, ridge=0.01).fit(log)
    assert np.linalg.eigvalsh(model.interactions_)[:, 0].min() >= -1e-12
    assert model.instance().definite


def test_the_start_is_seeded(log):
    def fitted(seed):
        model = InfluenceModel(fading=0.8, solver="gradient", max_iter=20, seed=seed)
        return model.fit(log).coefficients_.tobytes()

    assert fitted(1) == fitted(1)
    assert fitted(1) != fitted(2)


def test_with_drift_and_empty_histories(log):
    short = log.without_last(events=5)
    assert short.lengths.min() == 0
    model = InfluenceModel(fading=0.8, solver="gradient", max_iter=50, drift=True).fit(short)
    assert np.isfinite(model.coefficients_).all()
    assert len(trace_descent(short, model.design_, Penalty(1.0, 1.0), [10])) == 3


def test_it_is_for_definite_interactions_alone(log, refused):
    with refused(InvalidInput, "solver='gradient'", "psd"):
        InfluenceModel("symmetric", solver="gradient").fit(log)


def test_an_undetermined_descent_says_so():
    log = synthetic_log(1, 2, 3, seed=1)
    assert not InfluenceModel(ridge=0).fit(log).determined_
    assert not InfluenceModel(ridge=0, solver="gradient", max_iter=10).fit(log).determined_


def test_threads_do_not_change_a_bit(log):
    settings = {"fading": 0.8, "ridge": 0.1, "solver": "gradient", "max_iter": 100, "seed": 3}
    fits = [InfluenceModel(**settings).fit(log, execution=threads) for threads in (1, 2, 3)]
    for other in fits[1:]:
        for name in (*ARRAYS, "gap_", "determined_"):
            one, two = getattr(fits[0], name), getattr(other, name)
            assert np.asarray(one).tobytes() == np.asarray(two).tobytes(), name


def test_a_determined_descent_says_so(log):
    long = log.take([0])
    model = InfluenceModel(fading=0.8, ridge=0, solver="gradient", max_iter=10).fit(long)
    assert model.determined_
    assert model.status_ == "solved"
    # One history that does not determine its interaction is enough to say so, unless a ridge does.
    mixed = InfluenceModel(fading=0.8, ridge=0, solver="gradient", max_iter=10)
    assert not mixed.fit(log).determined_
    assert mixed.set_params(ridge=0.1).fit(log).determined_
