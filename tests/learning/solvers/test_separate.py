"""Fits against dense algebra and another solver, and intervals against planted truths.

Coverage is tested on fixed seeds, against bounds that a right method breaks with probability 1e-3:
that of the binomial distribution with as many trials as there are independent logs (entries of one
log depend on each other). Where intervals are known to be short, the measured share is stated.
"""

import numpy as np
import pytest
from dense_learning import (
    certified_minimum,
    design,
    matrix_of,
    objective,
    penalised,
)
from planted_truth import INDEFINITE, LOW, TRUTH, at_least, inside, planted

from influential_bandits import EventLog, InfluenceModel

CASES = [
    {"ridge": 1.0, "shrinkage": 1.0, "fading": 0.8},
    {"ridge": 0.01, "shrinkage": 3.0, "fading": 1.0},
    {"ridge": 10.0, "shrinkage": 0.1, "fading": 0.5},
]


@pytest.mark.long
@pytest.mark.parametrize("settings", CASES, ids=str)
@pytest.mark.parametrize("truth", [TRUTH, INDEFINITE, -TRUTH], ids=["inside", "edge", "outside"])
def test_the_definite_fit_is_as_good_as_another_solver_finds(truth, settings):
    memory = settings["fading"]
    log = planted(4, [12, 40, 100, 200], interaction=truth, memory=memory, spread=0.5, seed=2)
    model = InfluenceModel("psd", **settings).fit(log)
    assert model.gap_ <= 1e-8
    for u, label in enumerate(log.instances):
        own = log.history(label)
        H, g, mean = penalised(own, "psd", settings["ridge"], settings["shrinkage"], memory)
        theta = model.coefficients_[u].copy()
        theta[:3] -= mean
        other, least = certified_minimum(H, g, 3)
        scale = 0.5 * ((own.loss - mean) ** 2).sum()  # what gap_ is relative to
        assert abs(objective(H, g, theta) - least) <= 2e-8 * scale
        assert np.linalg.eigvalsh(model.interactions_[u])[0] >= -1e-9
        # A strictly convex objective: √(2·gap / smallest curvature) apart at most.
        apart = np.sqrt(2 * 4e-8 * scale / np.linalg.eigvalsh(H)[0])
        assert np.linalg.norm(theta - other) <= apart


@pytest.mark.parametrize("settings", CASES, ids=str)
@pytest.mark.parametrize("kind", ["symmetric", "diagonal"])
def test_fits_without_the_cone_solve_the_normal_equations(kind, settings):
    memory = settings["fading"]
    log = planted(4, [12, 40, 100, 200], memory=memory, spread=0.5, seed=2)
    model = InfluenceModel(kind, **settings).fit(log)
    for u, label in enumerate(log.instances):
        H, g, mean = penalised(
            log.history(label), kind, settings["ridge"], settings["shrinkage"], memory
        )
        theta = np.linalg.solve(H, g)
        np.testing.assert_allclose(model.initial_losses_[u], theta[:3] + mean, atol=1e-9)
        np.testing.assert_allclose(
            model.interactions_[u], matrix_of(kind, 3, theta[3:]), rtol=0, atol=1e-9
        )


def test_noise_and_errors_are_those_of_ridge_regression():
    log = planted(1, 80, seed=4)
    model = InfluenceModel("symmetric", fading=0.8, ridge=0.5, shrinkage=2.0).fit(log)
    H, g, mean = penalised(log, "symmetric", 0.5, 2.0, 0.8)
    X = design(log, "symmetric", 0.8)
    residual = log.loss - mean - X @ np.linalg.solve(H, g)
    freedom = len(log) - np.trace(np.linalg.solve(H, X.T @ X))
    noise = np.sqrt(residual @ residual / freedom)
    assert model.noise_[0] == pytest.approx(noise, rel=1e-9)
    errors = noise * np.sqrt(np.diag(np.linalg.inv(H)))
    np.testing.assert_allclose(model.standard_errors_[0], errors, rtol=1e-9)


ONCE = (["a", "b", "a", "b", "a", "b", "b", "a", "c"], "an arm pulled once, last")
UNDETERMINED = [
    ONCE,
    (["a", "b"], "two events"),
    (["c", *"abbabaabab"], "an arm pulled once, first"),
]


@pytest.mark.long
@pytest.mark.parametrize("pooling", ["none", "full"], ids=["separate", "pooled"])
@pytest.mark.parametrize("kind", ["psd", "symmetric"])
@pytest.mark.parametrize(("arms", "why"), UNDETERMINED, ids=[why for _, why in UNDETERMINED])
def test_without_ridge_an_undetermined_fit_says_so(arms, why, kind, pooling):
    losses = np.random.default_rng(0).normal(size=len(arms))
    log = EventLog(["u"] * len(arms), arms, losses)
    model = InfluenceModel(kind, ridge=0, pooling=pooling).fit(log)
    assert not model.determined_
    assert "does not determine" in model.status_
    assert "ridge > 0" in model.status_
    assert np.isfinite(model.coefficients_).all()
    solved = InfluenceModel(kind, ridge=1e-3, pooling=pooling).fit(log)
    assert solved.determined_
    assert solved.status_ == "solved"
    assert np.isfinite(solved.coefficients_).all()


@pytest.mark.parametrize("kind", ["psd", "symmetric", "diagonal"])
def test_without_ridge_a_long_log_is_enough(kind):
    log = planted(5, 150, seed=1)
    for pooling in ("none", "full"):
        model = InfluenceModel(kind, fading=0.8, ridge=0, pooling=pooling).fit(log)
        assert model.determined_
        assert model.status_ == "solved"


def test_one_undetermined_history_is_enough_to_say_so():
    log = planted(3, [150, 2, 150], seed=1)
    assert not InfluenceModel(fading=0.8, ridge=0).fit(log).determined_
    assert InfluenceModel(fading=0.8, ridge=0).fit(log.take([0, 2])).determined_


def test_an_entry_that_no_loss_can_tell_from_an_initial_loss_is_undetermined():
    # All events of b come after two of a: l1_b + 2·A_ab is all that shows.
    log = EventLog(["u"] * 12, ["a", "a"] + ["b"] * 10, np.random.default_rng(0).normal(size=12))
    assert not InfluenceModel("symmetric", ridge=0, shrinkage=0).fit(log).determined_


RANK_ONE = np.outer([0.5, 0.4, 0.3], [0.5, 0.4, 0.3])
SEPARATE = [
    ("symmetric", 200, TRUTH, {}),
    ("symmetric", 200, TRUTH, {"steering": 1.0}),
    ("psd", 200, TRUTH, {}),
    ("psd", 200, RANK_ONE, {}),
]


@pytest.mark.long
@pytest.mark.parametrize(("kind", "events", "truth", "settings"), SEPARATE, ids=str)
def test_separate_intervals_hold_the_truth(kind, events, truth, settings):
    log = planted(1000, events, interaction=truth, spread=0.5, seed=11, **settings)
    model = InfluenceModel(kind, fading=0.8, ridge=1e-6, shrinkage=1e-6).fit(log)
    known, A, l1 = log.about["truth"], [], []
    for u, label in enumerate(log.instances):
        found = model.interval(instance=label)
        A.append(inside(found["interaction"], truth)[LOW])
        l1.append(inside(found["initial_loss"], known.initial_losses[u]))
    # Each entry on its own, of 1000 independent histories. The noise is estimated with some 190
    # degrees of freedom, for which normal quantiles are 0.2 % short.
    assert np.mean(A, axis=0).min() >= at_least(1000, 0.948)
    assert np.mean(l1, axis=0).min() >= at_least(1000, 0.948)
    assert np.mean(model.noise_**2) == pytest.approx(1.0, abs=0.03)
