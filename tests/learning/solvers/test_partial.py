"""Empirical Bayes: posteriors and likelihood written out densely, planted populations, coverage.

Statistical tests are seeded; a right method fails each with probability 1e-3 or less.
"""

import numpy as np
import pytest
import scipy.stats
from dense_learning import design

from influential_bandits import DriftModel, EventLog, InfluenceModel, StationaryModel
from influential_bandits.data import synthetic_log
from influential_bandits.learning.solvers.partial import VARIANCES, Prior

TRUTH = np.array([[0.3, -0.1, 0.05], [-0.1, 0.2, 0.0], [0.05, 0.0, 0.15]])
LOSSES = np.array([1.0, 2.0, 1.5])
LOW = np.tril_indices(3)
DIAGONAL = np.array([True, False, True, False, False, True])  # of the lower triangle, row by row


def planted(instances, events, **settings):
    known = {
        "interaction": TRUTH,
        "initial_loss": LOSSES,
        "memory": 0.8,
        "spread": 0.5,
        "interaction_spread": 0.1,
    }
    return synthetic_log(instances, events, 3, **known | settings)


def partial(kind="symmetric", **settings):
    return InfluenceModel(kind, pooling="partial", **{"fading": 0.8} | settings)


def population_covariance(prior):
    entries = np.where(DIAGONAL, prior.diagonal, prior.off_diagonal)
    out = np.diag(np.concatenate([np.full(3, prior.arm), entries]))
    out[:3, :3] += prior.common
    return out


def histories(log):
    X = design(log, "symmetric", 0.8)
    for start, stop in zip(log.offsets[:-1], log.offsets[1:], strict=True):
        yield X[start:stop], log.loss[start:stop]


def log_likelihood(log, prior):
    """Of the losses up to a constant, the mean at its best: by marginal covariances."""
    cov, information, right, known = population_covariance(prior), 0.0, 0.0, []
    for X, y in histories(log):
        V = prior.noise * np.eye(len(y)) + X @ cov @ X.T
        information = information + X.T @ np.linalg.solve(V, X)
        right = right + X.T @ np.linalg.solve(V, y)
        known.append((X, y, V))
    mean = np.linalg.solve(information, right)
    total = 0.0
    for X, y, V in known:
        left = y - X @ mean
        total -= 0.5 * (np.linalg.slogdet(V)[1] + left @ np.linalg.solve(V, left))
    return total, mean, np.linalg.inv(information)


@pytest.fixture(scope="module")
def log():
    return planted(60, 80, interaction_spread=0.2, seed=1)


@pytest.fixture(scope="module")
def model(log):
    return partial().fit(log)


def test_posteriors_are_those_of_bayes(log, model):
    prior = model.prior_
    cov = population_covariance(prior)
    unsure = np.diag(prior.covariance) / np.diag(cov) ** 2
    for u, (X, y) in enumerate(histories(log)):
        gain = cov @ X.T @ np.linalg.inv(X @ cov @ X.T + prior.noise * np.eye(len(y)))
        mean = prior.mean + gain @ (y - X @ prior.mean)
        np.testing.assert_allclose(model.coefficients_[u], mean, rtol=0, atol=1e-9)
        variance = np.diag(cov - gain @ X @ cov)
        errors = np.sqrt(variance + unsure * variance**2)
        np.testing.assert_allclose(model.standard_errors_[u], errors, rtol=1e-6)


@pytest.mark.long
def test_the_prior_maximises_the_likelihood(log, model):
    prior = model.prior_
    assert prior.settled
    best, mean, covariance = log_likelihood(log, prior)
    # The mean is that of the variances one step before.
    np.testing.assert_allclose(prior.mean, mean, rtol=0, atol=1e-3)
    np.testing.assert_allclose(np.diag(prior.covariance), np.diag(covariance), rtol=2e-2)
    for name in VARIANCES:
        if name == "level":  # there is none here
            continue
        for factor in (0.8, 1.25):
            moved = prior._replace(**{name: factor * getattr(prior, name)})
            # EM stops at a relative change of 0.2 % a round, a little before the top: by far less
            # than the 1.92 that make up a 95 % interval.
            assert log_likelihood(log, moved)[0] < best + 0.05, name
    for name in set(VARIANCES) - {"level", "common"}:
        for factor in (0.5, 2.0):
            moved = prior._replace(**{name: factor * getattr(prior, name)})
            assert log_likelihood(log, moved)[0] < best - 0.1, name


@pytest.mark.long
def test_planted_variances_are_found():
    found = []
    for seed in range(12):
        prior = partial().fit(planted(200, 80, seed=20 + seed)).prior_
        found.append([prior.arm, prior.diagonal, prior.off_diagonal, prior.noise])
    errors = np.std(found, axis=0, ddof=1) / np.sqrt(12)
    away = (np.mean(found, axis=0) - [0.25, 0.01, 0.01, 1.0]) / errors
    # Student's quantile of 1e-3 / 4 on both sides. Maximum likelihood, unlike its restricted form,
    # is too small by one part in 200, far below these errors.
    assert np.abs(away).max() < scipy.stats.t.isf(0.5e-3 / 4, 11), away


def root_mean_square(model, truth, what):
    found, known = {
        "interaction": (model.interactions_, truth.interactions),
        "initial_loss": (model.initial_losses_, truth.initial_losses),
    }[what]
    return np.sqrt(((found - known) ** 2).mean())


@pytest.mark.parametrize("events", [20, 60])
def test_short_histories_are_better_pooled_partially(events):
    log = planted(100, events, seed=4)
    truth = log.about["truth"]
    pool = partial().fit(log)
    for ridge in (0.1, 1.0, 10.0):
        alone = InfluenceModel("symmetric", fading=0.8, ridge=ridge).fit(log)
        for what in ("interaction", "initial_loss"):
            assert root_mean_square(pool, truth, what) < 0.8 * root_mean_square(alone, truth, what)
    shared = InfluenceModel("symmetric", fading=0.8, pooling="full").fit(log)
    assert root_mean_square(pool, truth, "interaction") < root_mean_square(
        shared, truth, "interaction"
    )


def test_long_histories_speak_for_themselves():
    # With lasting memory, since fading counts by events soon sum to 1 / (1 − γ), which no loss can
    # tell from an initial loss.
    apart = []
    for events in (30, 300, 3000):
        log = planted(30, events, memory=1.0, seed=4)
        alone = InfluenceModel("symmetric", ridge=1e-6, shrinkage=1e-6).fit(log)
        pool = partial(fading=1.0).fit(log)
        apart.append(np.abs(pool.interactions_ - alone.interactions_).max())
    assert apart[0] > 10 * apart[1] > 100 * apart[2]
    assert apart[2] < 2e-3  # where instances differ by 0.1


def test_a_short_history_is_pulled_to_the_population():
    log = planted(60, [20] + [200] * 59, seed=7)
    pool = partial().fit(log)
    alone = InfluenceModel("symmetric", fading=0.8, ridge=1e-3, shrinkage=1e-3).fit(log)

    def distances(model):
        return np.linalg.norm(model.interactions_ - pool.interaction_, axis=(1, 2))

    assert distances(pool)[0] < 0.1 * distances(alone)[0]
    assert distances(pool)[0] < distances(pool)[1:].mean()
    # What is left open is almost what the population leaves open.
    entries = pool.standard_errors_[:, 3:]
    assert (entries[0] > entries[1:].mean(axis=0)).all()
    assert (entries[0] < 1.2 * np.sqrt(max(pool.prior_.diagonal, pool.prior_.off_diagonal))).all()


def test_definite_fits_are_definite_for_everyone():
    log = planted(80, 40, interaction_spread=0.2, seed=3)
    model = partial("psd").fit(log)
    assert model.gap_ < 1e-8
    assert np.linalg.eigvalsh(model.interactions_)[:, 0].min() >= -1e-9
    assert np.linalg.eigvalsh(model.interaction_)[0] >= -1e-9
    free = partial("symmetric").fit(log)
    assert np.linalg.eigvalsh(free.interactions_)[:, 0].min() < -0.05
    np.testing.assert_allclose(model.unconstrained_, free.coefficients_, rtol=0, atol=1e-9)
    inside = np.linalg.eigvalsh(free.interactions_)[:, 0] > 1e-3
    assert inside.any()
    np.testing.assert_allclose(
        model.interactions_[inside], free.interactions_[inside], rtol=0, atol=1e-9
    )


def test_threads_do_not_change_the_prior(log):
    priors = [partial().fit(log, execution=threads).prior_ for threads in (1, 2, 3)]
    for other in priors[1:]:
        for name in Prior._fields:
            same = np.asarray(getattr(other, name)).tobytes()
            assert same == np.asarray(getattr(priors[0], name)).tobytes(), name


def test_many_instances_are_sampled_and_all_are_fitted():
    log = planted(500, 30, seed=2)
    one, same, other = (partial(seed=seed).fit(log) for seed in (0, 0, 1))
    assert one.coefficients_.shape == (500, 9)
    assert one.coefficients_.tobytes() == same.coefficients_.tobytes()
    assert one.prior_.arm != other.prior_.arm
    assert one.prior_.arm == pytest.approx(other.prior_.arm, rel=0.5)


def test_stationary_and_drifting_models_pool_partially_too():
    log = planted(60, 40, interaction=np.zeros((3, 3)), interaction_spread=0.0, drift=0.7, seed=5)
    stationary = StationaryModel(pooling="partial").fit(log)
    assert stationary.prior_.arm == pytest.approx(0.25, abs=0.15)
    drifting = DriftModel(pooling="partial").fit(log)
    assert (drifting.level_coefficients_ > 0).all()


# Coverage of single instances


def hits(replications, instances, events, kind="symmetric", **settings):
    A, l1, shared = [], [], []
    for seed in range(replications):
        log = planted(instances, events, seed=500 + seed, **settings)
        model, truth = partial(kind).fit(log), log.about["truth"]
        low, high = model.interval()["interaction"]
        shared.append(((low <= TRUTH) & (high >= TRUTH))[LOW])
        for u, label in enumerate(log.instances):
            found = model.interval(instance=label)
            for name, known, into in (
                ("interaction", truth.interactions[u][LOW], A),
                ("initial_loss", truth.initial_losses[u], l1),
            ):
                low, high = found[name]
                if name == "interaction":
                    low, high = low[LOW], high[LOW]
                into.append((low <= known) & (known <= high))
    return np.mean(A), np.mean(l1), np.mean(shared)


# Variances are taken as known once they are estimated, so that intervals are short where they are
# estimated badly. Measured: 0.925 and 0.934 (60 events), 0.924 and 0.932 (definite), 0.941 and
# 0.938 (200 events), 0.930 and 0.936 (choices steered by losses), 0.904 and 0.935 (20 events).
MEASURED = [
    ("symmetric", 60, {}, 0.925),
    ("psd", 60, {}, 0.924),
    ("symmetric", 200, {}, 0.938),
    ("symmetric", 60, {"steering": 1.0}, 0.930),
    ("symmetric", 20, {}, 0.904),
]


@pytest.mark.long
@pytest.mark.parametrize(("kind", "events", "settings", "measured"), MEASURED, ids=str)
def test_intervals_of_instances_hold_the_truth(kind, events, settings, measured):
    A, l1, shared = hits(10, 100, events, kind, **settings)
    # Instances of one log share its prior's error: a log counts as 100 trials.
    assert min(A, l1) >= scipy.stats.binom.ppf(1e-3, 1000, measured) / 1000
    assert max(A, l1) <= 0.97
    assert shared >= scipy.stats.binom.ppf(1e-3, 10 * 3, 0.95) / 30


# Very little data

LITTLE = [(1, 20, 10), (20, 5, 8)]


@pytest.mark.long
@pytest.mark.parametrize(("instances", "events", "arms"), LITTLE)
def test_errors_are_finite_however_little_there_is(instances, events, arms):
    for seed in range(10):
        log = synthetic_log(instances, events, arms, spread=0.5, seed=seed)
        model = InfluenceModel("symmetric", pooling="partial").fit(log)
        assert np.isfinite(model.coefficients_).all()
        assert (np.diag(model.population_covariance_) >= 0).all()
        assert np.isfinite(model.standard_errors_).all()


TINY = [(1, 1, 1), (3, 2, 3), (1, 5, 3)]
EVERY = {
    "stationary": StationaryModel(pooling="partial"),
    "drift": DriftModel(pooling="partial"),
    "diagonal": partial("diagonal"),
    "symmetric": partial("symmetric"),
    "psd": partial("psd"),
    "both": partial("symmetric", drift=True),
}


def is_sound(model, log):
    return (
        np.isfinite(model.coefficients_).all()
        and np.isfinite(model.standard_errors_).all()
        and (np.diag(model.population_covariance_) >= 0).all()
        and np.isfinite(model.predict(log)).all()
    )


@pytest.mark.long
@pytest.mark.parametrize("kind", EVERY)
@pytest.mark.parametrize(("instances", "events", "arms"), TINY)
def test_tiny_logs_are_fitted(instances, events, arms, kind):
    """Warnings are errors here: no overflow, no division by zero."""
    for noise in (0.0, 1.0):
        for seed in range(3):
            log = synthetic_log(instances, events, arms, spread=0.5, noise=noise, seed=seed)
            assert is_sound(EVERY[kind].fit(log), log)


@pytest.mark.long
@pytest.mark.parametrize("kind", EVERY)
@pytest.mark.parametrize("value", [0.0, 0.1, 1e6])
def test_constant_losses_are_predicted(kind, value):
    for instances, events in ((1, 3), (3, 5), (20, 30)):
        log = synthetic_log(instances, events, 2, seed=1)
        who = np.repeat(np.arange(instances), log.lengths)
        log = EventLog(who, log.arm, np.full(len(log), value), membership=log.membership)
        model = EVERY[kind].fit(log)
        assert is_sound(model, log)
        # Nothing else explains them; a prior's pull of 1e-6 (the first guess's) is allowed. Three
        # events are fewer than coefficients, many of which explain them until the cone cuts in.
        if events > 3:
            np.testing.assert_allclose(model.predict(log), value, rtol=1e-5, atol=1e-12)
