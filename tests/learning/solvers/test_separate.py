"""Fits against dense algebra and another solver, and intervals against planted truths.

Coverage is tested on fixed seeds, against bounds that a right method breaks with probability 1e-3:
that of the binomial distribution with as many trials as there are independent logs (entries of one
log depend on each other). Where intervals are known to be short, the measured share is stated.
"""

import numpy as np
import pytest
import scipy.stats
from dense_learning import (
    certified_minimum,
    design,
    generalised_least_squares,
    matrix_of,
    objective,
    penalised,
)

from influential_bandits import EventLog, InfluenceModel, LocalExecution, StationaryModel
from influential_bandits.data import synthetic_log
from influential_bandits.learning.solvers.pooled import (
    fit_pooled_instances,
    fit_pooled_population,
)
from influential_bandits.learning.statistics.design import interaction_matrices
from influential_bandits.learning.statistics.pooled_sums import pooled_gram
from influential_bandits.learning.statistics.random_effects import (
    RandomEffects,
    estimate_random_effects,
)
from influential_bandits.logs import Membership

TRUTH = np.array([[0.3, -0.1, 0.05], [-0.1, 0.2, 0.0], [0.05, 0.0, 0.15]])
LOSSES = np.array([1.0, 2.0, 1.5])
LOW = np.tril_indices(3)


def planted(instances, events, **settings):
    settings = {"interaction": TRUTH, "initial_loss": LOSSES, "memory": 0.8} | settings
    return synthetic_log(instances, events, len(settings["interaction"]), **settings)


# Optimality

INDEFINITE = np.array([[0.1, 0.3, -0.2], [0.3, -0.2, 0.1], [-0.2, 0.1, 0.05]])
CASES = [
    {"ridge": 1.0, "shrinkage": 1.0, "memory": 0.8},
    {"ridge": 0.01, "shrinkage": 3.0, "memory": 1.0},
    {"ridge": 10.0, "shrinkage": 0.1, "memory": 0.5},
]


@pytest.mark.parametrize("settings", CASES, ids=str)
@pytest.mark.parametrize("truth", [TRUTH, INDEFINITE, -TRUTH], ids=["inside", "edge", "outside"])
def test_the_definite_fit_is_as_good_as_another_solver_finds(truth, settings):
    memory = settings["memory"]
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
@pytest.mark.parametrize("kind", ["symmetric", "diagonal", "free"])
def test_fits_without_the_cone_solve_the_normal_equations(kind, settings):
    memory = settings["memory"]
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
    model = InfluenceModel("symmetric", memory=0.8, ridge=0.5, shrinkage=2.0).fit(log)
    H, g, mean = penalised(log, "symmetric", 0.5, 2.0, 0.8)
    X = design(log, "symmetric", 0.8)
    residual = log.loss - mean - X @ np.linalg.solve(H, g)
    freedom = len(log) - np.trace(np.linalg.solve(H, X.T @ X))
    noise = np.sqrt(residual @ residual / freedom)
    assert model.noise_[0] == pytest.approx(noise, rel=1e-9)
    errors = noise * np.sqrt(np.diag(np.linalg.inv(H)))
    np.testing.assert_allclose(model.standard_errors_[0], errors, rtol=1e-9)


EFFECTS = [
    RandomEffects(0.25, 0.0, 1.0),
    RandomEffects(0.1, 0.7, 1.0),
    RandomEffects(3.0, 0.2, 1.0),
]


def fit_pooled(log, design, ridge, effects):
    """Fit a log in memory, variances beginning with these."""
    here = LocalExecution()
    shared, used = fit_pooled_population([log], design, False, ridge, effects, log, len(log), here)
    return fit_pooled_instances(log, design, used, shared), shared, used


@pytest.mark.parametrize("effects", EFFECTS, ids=str)
@pytest.mark.parametrize("kind", ["symmetric", "diagonal", "free"])
def test_the_pooled_fit_is_generalised_least_squares(kind, effects):
    log = planted(8, [1, 3, 10, 20, 30, 30, 40, 50], spread=0.5, seed=6)
    model = InfluenceModel(kind, memory=0.8, pooling="full").fit(log)
    fit, shared, used = fit_pooled(log, model.design_, 0.3, effects)
    beta, _, own = generalised_least_squares(log, kind, used, 0.8, ridge=0.3)
    np.testing.assert_allclose(shared.population[:3], beta[:3], rtol=0, atol=1e-7)
    np.testing.assert_allclose(
        interaction_matrices(model.design_, shared.population),
        matrix_of(kind, 3, beta[3:]),
        atol=1e-7,
    )
    np.testing.assert_allclose(fit.coefficients[:, :3], beta[:3] + own, rtol=0, atol=1e-7)


def test_pooled_items_of_several_arms_are_generalised_least_squares_too():
    films = Membership({"x": ["a", "b"], "y": ["b"], "z": ["a", "b", "c"], "c": ["c"]})
    random = np.random.default_rng(1)
    log = EventLog(
        np.repeat(["u", "v", "w"], [20, 30, 40]),
        random.choice(["x", "y", "z", "c"], 90),
        random.normal(size=90),
        membership=films,
    )
    model = InfluenceModel("symmetric", memory=0.8, pooling="full").fit(log)
    fit, _, effects = fit_pooled(log, model.design_, 0.3, EFFECTS[1])
    beta, _, own = generalised_least_squares(log, "symmetric", effects, 0.8, ridge=0.3)
    np.testing.assert_allclose(fit.coefficients[:, :3], beta[:3] + own, rtol=0, atol=1e-6)


def test_the_pooled_definite_fit_is_optimal():
    log = planted(6, 30, interaction=INDEFINITE, spread=0.5, seed=6)
    model = InfluenceModel("psd", memory=0.8, pooling="full", ridge=0.3).fit(log)
    assert model.gap_ <= 1e-8
    beta, inverse, _ = generalised_least_squares(log, "symmetric", model.effects_, 0.8, ridge=0.3)
    H = np.linalg.inv(inverse)
    _, least = certified_minimum(H, H @ beta, 3)
    scale = 0.5 * (log.loss**2).sum()
    assert abs(objective(H, H @ beta, model.population_) - least) <= 2e-8 * scale


def test_the_pooled_errors_are_the_sandwich():
    log = planted(30, 40, spread=0.5, seed=8)
    model = InfluenceModel("symmetric", memory=0.8, pooling="full", ridge=0.1).fit(log)
    beta, bread, own = generalised_least_squares(log, "symmetric", model.effects_, 0.8, ridge=0.1)
    X, meat = design(log, "symmetric", 0.8), 0.0
    for u in range(log.n_instances):
        rows = slice(log.offsets[u], log.offsets[u + 1])
        left = log.loss[rows] - X[rows] @ beta - X[rows, :3] @ own[u]
        score = X[rows].T @ left
        meat = meat + np.outer(score, score)
    np.testing.assert_allclose(model.population_covariance_, bread @ meat @ bread, rtol=1e-6)


def test_variance_components_are_found():
    log = synthetic_log(4000, 40, 3, initial_loss=LOSSES, spread=0.5, noise=2.0, seed=3)
    found = estimate_random_effects([log], LOSSES)
    assert found.noise == pytest.approx(4.0, rel=4.4 * np.sqrt(2 / (160_000 - 12_000)))
    # A cell mean has variance 0.25 + 4 / 13; 8000 of them.
    assert found.arm * found.noise == pytest.approx(
        0.25, abs=4.4 * (0.25 + 4 / 13) * np.sqrt(2 / 8000)
    )
    assert found.common * found.noise < 0.03


def test_the_stationary_pool_is_generalised_least_squares():
    log = synthetic_log(6, 15, 3, initial_loss=LOSSES, spread=0.5, seed=3)
    model = StationaryModel(pooling="full").fit(log)
    prior = model.effects_.arm * np.eye(3) + model.effects_.common
    information, right, blocks = np.zeros((3, 3)), np.zeros(3), []
    for label in log.instances:
        own = log.history(label)
        Z = np.eye(3)[own.arm]
        V = np.eye(15) + Z @ prior @ Z.T
        information += Z.T @ np.linalg.solve(V, Z)
        right += Z.T @ np.linalg.solve(V, own.loss)
        blocks.append((Z, V, own.loss))
    mean = np.linalg.solve(information, right)
    own = [prior @ Z.T @ np.linalg.solve(V, y - Z @ mean) for Z, V, y in blocks]
    np.testing.assert_allclose(model.initial_losses_, mean + np.array(own), rtol=0, atol=1e-7)


# Logs that do not determine the interaction

ONCE = (["a", "b", "a", "b", "a", "b", "b", "a", "c"], "an arm pulled once, last")
UNDETERMINED = [
    ONCE,
    (["a", "b"], "two events"),
    (["c", *"abbabaabab"], "an arm pulled once, first"),
]


@pytest.mark.parametrize("pooling", ["none", "full"], ids=["separate", "pooled"])
@pytest.mark.parametrize("kind", ["psd", "symmetric", "free"])
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


@pytest.mark.parametrize("kind", ["psd", "symmetric", "diagonal", "free"])
def test_without_ridge_a_long_log_is_enough(kind):
    log = planted(5, 150, seed=1)
    for pooling in ("none", "full"):
        model = InfluenceModel(kind, memory=0.8, ridge=0, pooling=pooling).fit(log)
        assert model.determined_
        assert model.status_ == "solved"


def test_one_undetermined_history_is_enough_to_say_so():
    log = planted(3, [150, 2, 150], seed=1)
    assert not InfluenceModel(memory=0.8, ridge=0).fit(log).determined_
    assert InfluenceModel(memory=0.8, ridge=0).fit(log.take([0, 2])).determined_


def test_an_entry_that_no_loss_can_tell_from_an_initial_loss_is_undetermined():
    # All events of b come after two of a: l1_b + 2·A_ab is all that shows.
    log = EventLog(["u"] * 12, ["a", "a"] + ["b"] * 10, np.random.default_rng(0).normal(size=12))
    assert not InfluenceModel("symmetric", ridge=0, shrinkage=0).fit(log).determined_


# Coverage


def inside(interval, truth):
    return (interval[0] <= truth) & (truth <= interval[1])


def at_least(trials, share=0.95):
    """The share of hits that a right method falls short of with probability 1e-3."""
    return scipy.stats.binom.ppf(1e-3, trials, share) / trials


RANK_ONE = np.outer([0.5, 0.4, 0.3], [0.5, 0.4, 0.3])
SEPARATE = [
    ("symmetric", 200, TRUTH, {}),
    ("symmetric", 200, TRUTH, {"steering": 1.0}),
    ("psd", 200, TRUTH, {}),
    ("psd", 200, RANK_ONE, {}),
]


@pytest.mark.parametrize(("kind", "events", "truth", "settings"), SEPARATE, ids=str)
def test_separate_intervals_hold_the_truth(kind, events, truth, settings):
    log = planted(1000, events, interaction=truth, spread=0.5, seed=11, **settings)
    model = InfluenceModel(kind, memory=0.8, ridge=1e-6, shrinkage=1e-6).fit(log)
    known, A, l1 = log.about["truth"], [], []
    for u, label in enumerate(log.instances):
        found = model.interval(instance=label)
        A.append(inside(found["interaction"], known.interactions[u])[LOW])
        l1.append(inside(found["initial_loss"], known.initial_losses[u]))
    # Each entry on its own, of 1000 independent histories. The noise is estimated with some 190
    # degrees of freedom, for which normal quantiles are 0.2 % short.
    assert np.mean(A, axis=0).min() >= at_least(1000, 0.948)
    assert np.mean(l1, axis=0).min() >= at_least(1000, 0.948)
    assert np.mean(model.noise_**2) == pytest.approx(1.0, abs=0.03)


def pooled_hits(replications, instances, events, **settings):
    """Whether each entry of A, l1 and single initial losses is inside; and the errors of A."""
    A, l1, own, errors = [], [], [], []
    for seed in range(replications):
        log = planted(instances, events, spread=0.5, seed=100 + seed, **settings)
        model = InfluenceModel("symmetric", memory=0.8, ridge=1e-6, pooling="full")
        found = model.fit(log).interval()
        A.append(inside(found["interaction"], TRUTH)[LOW])
        l1.append(inside(found["initial_loss"], LOSSES))
        errors.append((model.interaction_ - TRUTH)[LOW])
        for u in range(0, instances, 5):
            single = model.interval(instance=str(u))["initial_loss"]
            own.append(inside(single, log.about["truth"].initial_losses[u]))
    return np.mean(A), np.mean(l1), np.mean(own), np.array(errors)


def test_pooled_intervals_hold_the_truth():
    A, l1, own, errors = pooled_hits(300, 60, 40)
    # A sandwich over 60 instances is some 1 % short of its nominal level.
    assert at_least(300, 0.94) <= A
    assert l1 >= at_least(300, 0.94)
    assert own >= at_least(300, 0.94)  # variances are taken as known once they are estimated
    bias, spread = errors.mean(axis=0), errors.std(axis=0) / np.sqrt(300)
    assert (np.abs(bias) <= scipy.stats.norm.isf(0.5e-3 / 6) * spread).all()


def test_single_initial_losses_of_a_small_pool_are_held():
    _, _, own, _ = pooled_hits(40, 20, 100)
    assert own >= at_least(40 * 4, 0.95)


@pytest.mark.parametrize("bursts", [0.0, 0.3])
def test_pooled_intervals_hold_the_truth_where_losses_drift(bursts):
    A = []
    for seed in range(80):
        log = planted(60, 100, spread=0.5, seed=100 + seed, drift=0.7, bursts=bursts)
        model = InfluenceModel("symmetric", memory=0.8, ridge=1e-6, pooling="full", drift=True)
        A.append(inside(model.fit(log).interval()["interaction"], TRUTH)[LOW])
    # The level follows an autoregressive drift up to its noise only: A is some 0.02 too small.
    assert np.mean(A) >= at_least(80, 0.93)


def test_pooled_intervals_hold_the_truth_where_losses_steer_choices():
    A, _, _, errors = pooled_hits(12, 600, 60, steering=1.0)
    bias, spread = errors.mean(axis=0), errors.std(axis=0) / np.sqrt(12)
    assert at_least(12, 0.94) <= A
    assert (np.abs(bias) <= 5 * spread).all()


def test_variances_are_right_where_losses_steer_choices():
    found = []
    for seed in range(12):
        log = planted(600, 60, spread=0.5, steering=1.0, seed=1000 + seed)
        model = InfluenceModel("symmetric", memory=0.8, ridge=1e-6, pooling="full").fit(log)
        effects = model.effects_
        found.append([effects.noise, effects.noise * effects.arm])
        # The fit and its variances fit each other: once more changes little.
        again = fit_pooled(log, model.design_, 1e-6, effects)[2]
        assert again.arm == pytest.approx(effects.arm, rel=0.02)
    errors = np.std(found, axis=0, ddof=1) / np.sqrt(12)
    away = (np.mean(found, axis=0) - [1.0, 0.25]) / errors
    assert np.abs(away).max() <= scipy.stats.t.isf(0.5e-3 / 2, 11), away


def test_with_the_right_variances_steered_choices_do_no_harm():
    hits, errors = [], []
    for seed in range(12):
        log = planted(600, 60, spread=0.5, steering=1.0, seed=100 + seed)
        model = InfluenceModel("symmetric", memory=0.8, ridge=1e-6, pooling="full").fit(log)
        gram = pooled_gram([log], model.design_, RandomEffects(0.25, 0.0, 1.0))
        inverse = np.linalg.inv(gram[:-1, :-1])  # the covariance, as the noise's variance is 1
        A = interaction_matrices(model.design_, inverse @ gram[:-1, -1])
        error = interaction_matrices(model.design_, np.sqrt(np.diag(inverse)))
        hits.append((np.abs(A - TRUTH) <= 1.96 * error)[LOW])
        errors.append((A - TRUTH)[LOW])
    assert np.mean(hits) >= at_least(12, 0.95)
    assert np.abs(np.mean(errors, axis=0)).max() < 0.015
