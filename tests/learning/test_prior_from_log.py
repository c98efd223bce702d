"""InfluenceModel.prior: what a log says about (l1, A), against dense regression."""

import dense_learning
import numpy as np
import pytest
from dense_learning import named_unknowns

import influential_bandits as ib

TRUTH = np.array([[0.2, -0.1], [-0.1, 0.1]])


def in_our_order(kind, arms):
    """For each unknown of a prior its place in dense_learning's design, or None."""
    places = {("l1", i): i for i in range(arms)}
    for n, (i, j) in enumerate(dense_learning.entries(kind, arms)):
        places["A", i, j] = arms + n
    return [places.get(name) for name in named_unknowns(arms)]


def reordered(covariance, kind, arms):
    order = in_our_order(kind, arms)
    out = np.zeros((len(order), len(order)))
    for a, first in enumerate(order):
        for b, second in enumerate(order):
            if first is not None and second is not None:
                out[a, b] = covariance[first, second]
    return out


def assert_is_the_mean(prior, interaction, initial_loss):
    named = [
        initial_loss[name[1]] if name[0] == "l1" else interaction[name[1:]]
        for name in named_unknowns(prior.n_arms)
    ]
    np.testing.assert_allclose(prior.mean, named, rtol=1e-9, atol=1e-12)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["psd", "symmetric", "diagonal"])
@pytest.mark.parametrize("memory", [1.0, 0.8])
def test_the_prior_of_a_single_history_is_the_posterior_of_ridge_regression(kind, memory):
    log = ib.data.synthetic_log(1, 400, 2, interaction=TRUTH, memory=memory, seed=3)
    model = ib.InfluenceModel(kind, fading=memory, ridge=2.0, shrinkage=1.5).fit(log)
    prior = model.prior()
    H, _, _ = dense_learning.penalised(log, kind, 2.0, 1.5, memory)
    expected = model.noise_[0] ** 2 * reordered(np.linalg.inv(H), kind, 2)
    np.testing.assert_allclose(prior.covariance, expected, rtol=1e-7, atol=1e-14)
    assert_is_the_mean(prior, model.interaction_, model.initial_losses_[0])
    assert (prior.sigma, prior.memory) == (model.noise().sigma, memory)
    np.testing.assert_allclose(
        np.sqrt(np.diag(prior.covariance))[[0, 2]], model.standard_errors_[0][:2], rtol=1e-6
    )


@pytest.mark.parametrize("arms", [1, 3, 6])
def test_a_single_history_of_any_size_makes_a_prior_to_play_with(arms):
    half = np.random.default_rng(arms).normal(size=(arms, arms))
    log = ib.data.synthetic_log(1, 300, arms, interaction=0.1 * half @ half.T, seed=arms)
    prior = ib.InfluenceModel().fit(log).prior()
    assert prior.n_arms == arms
    agent = ib.Agent(ib.Foresight(prior=prior), arms)
    levels = [n for n, name in enumerate(named_unknowns(arms)) if name[0] == "l1"]
    errors = np.sqrt(np.diag(prior.covariance))[levels]
    assert (np.abs(agent.expected_losses() - prior.mean[levels]) < errors).all()
    agent.observe(agent.pull(), 0.5)


def test_rounding_in_a_large_fit_does_not_stop_it():
    """Of 90 unknowns many are independent, and an inverse has rounding errors for zeros."""
    log = ib.data.synthetic_log(1, 3000, 12, interaction=0.1 * np.eye(12), seed=0)
    covariance = ib.InfluenceModel("symmetric").fit(log).prior().covariance
    assert np.array_equal(covariance, covariance.T)


def test_the_prior_of_one_of_many_has_its_own_errors():
    log = ib.data.synthetic_log(5, 200, 2, interaction=TRUTH, seed=1)
    model = ib.InfluenceModel().fit(log)
    prior = model.prior(log.instances[2])
    errors = reordered(np.diag(model.standard_errors_[2] ** 2), "psd", 2)
    np.testing.assert_allclose(prior.covariance, errors, rtol=1e-12)
    assert_is_the_mean(prior, model.interactions_[2], model.initial_losses_[2])
    assert prior.sigma == model.noise_[2]


@pytest.mark.parametrize("pooling", ["none", "full"])
def test_an_instance_that_the_log_has_not_met_is_as_unsure_as_instances_differ(pooling):
    log = ib.data.synthetic_log(30, 100, 2, interaction=TRUTH, memory=0.8, seed=1)
    model = ib.InfluenceModel(fading=0.8, pooling=pooling).fit(log)
    prior = model.prior()
    between = np.cov(model.coefficients_, rowvar=False)
    unknown = (model.standard_errors_**2).mean(axis=0)
    if pooling == "full":
        unknown[2:] = 0.0  # the interaction is shared
    expected = reordered(model.population_covariance_ + between + np.diag(unknown), "psd", 2)
    np.testing.assert_allclose(prior.covariance, expected, rtol=1e-9, atol=1e-15)
    assert_is_the_mean(prior, model.interaction_, model.population_[:2])
    assert prior.sigma == pytest.approx(np.sqrt(np.mean(model.noise_**2)))
    assert prior.memory == 0.8
    agent = ib.Agent(ib.Foresight(prior=prior), 2)
    ticket = agent.pull()
    agent.observe(ticket, 1.0)


@pytest.mark.parametrize("events", [12, 60])
def test_a_prior_has_the_variance_of_the_instances_however_short_their_histories(events):
    """Own estimates are pulled together; 0.25 to five standard errors of 1,600 numbers, and 5 %.

    The standard error of a variance from n normal numbers is √(2/n) of it, 3.5 %; those of few
    events count for less, so that it is taken twice.
    """
    log = ib.data.synthetic_log(400, events, 4, spread=0.5, memory=0.8, seed=events)
    model = ib.InfluenceModel(fading=0.8, pooling="full").fit(log)
    own = [n for n, name in enumerate(named_unknowns(4)) if name[0] == "l1"]
    variance = np.diag(model.prior().covariance)[own].mean()
    assert abs(variance / 0.25 - 1.0) < 0.05 + 5.0 * 2.0 * np.sqrt(2.0 / 1600.0) / 2.0
    pulled = np.cov(model.coefficients_[:, :4], rowvar=False)
    if events == 12:
        assert np.diag(pulled).mean() < 0.5 * 0.25, "the estimates alone would be far too sure"


def test_drift_counts_as_noise():
    log = ib.data.synthetic_log(1, 400, 2, interaction=TRUTH, drift=0.5, seed=1)
    model = ib.InfluenceModel(drift=True).fit(log)
    prior = model.prior()
    assert prior.mean.shape == (5,)  # the level is no unknown of a policy
    assert prior.sigma == model.noise().sigma


def test_what_a_policy_cannot_start_from_is_refused(refused):
    log = ib.data.synthetic_log(1, 300, 2, interaction=TRUTH, memory=0.8, seed=1)
    with refused(ib.errors.InvalidInput, "'nobody'"):
        ib.InfluenceModel().fit(log).prior("nobody")


def test_arms_are_numbered_as_the_policy_numbers_them():
    """The log meets its arms in another order; entries and covariances move with their arms."""
    truth = np.array([[0.4, -0.1, 0.0], [-0.1, 0.3, 0.1], [0.0, 0.1, 0.2]])
    log = ib.data.synthetic_log(1, 2000, 3, interaction=truth, seed=3)
    model = ib.InfluenceModel(ridge=1e-3).fit(log)
    order = [2, 0, 1]
    plain, moved = model.prior(), model.prior(arm_names=[log.arm_names[k] for k in order])
    names = named_unknowns(3)
    back = [
        names.index(
            ("l1", order[name[1]])
            if name[0] == "l1"
            else ("A", *sorted((order[name[1]], order[name[2]]), reverse=True))
        )
        for name in names
    ]
    np.testing.assert_array_equal(moved.mean, plain.mean[back])
    np.testing.assert_array_equal(moved.covariance, plain.covariance[np.ix_(back, back)])


def test_arms_that_are_not_those_of_the_log_are_refused(refused):
    log = ib.data.synthetic_log(1, 100, 2, seed=0)
    model = ib.InfluenceModel().fit(log)
    with refused(ib.errors.InvalidInput, "those of the log in some order"):
        model.prior(arm_names=["a", "b"])
