"""LossPrior: what it refuses, and that nothing of it is lost on the way through a file."""

import json

import numpy as np
import pytest
from dense_learning import named_unknowns

import influential_bandits as ib
from influential_bandits.policies.foresight.prior import in_order


def some_prior(arms=2, seed=0, **settings):
    draw = np.random.default_rng(seed)
    size = arms * (arms + 3) // 2
    half = draw.normal(size=(size, size))
    covariance = half @ half.T
    covariance = 0.5 * (covariance + covariance.T)
    return ib.LossPrior(draw.normal(size=size), covariance, **{"sigma": 0.5, **settings})


def test_the_unknowns_lie_arm_by_arm():
    matrix, loss = np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 5.0], [3.0, 5.0, 6.0]]), np.arange(3) + 7.0
    named = [loss[n[1]] if n[0] == "l1" else matrix[n[1:]] for n in named_unknowns(3)]
    assert in_order(matrix, loss).tolist() == named


def test_around_is_as_wide_as_asked_about_every_unknown():
    prior = ib.LossPrior.around([[0.5, 0.1], [0.1, 0.3]], [1.0, 2.0], sd=0.1, sigma=2.0, memory=0.9)
    assert prior.mean.tolist() == [1.0, 0.5, 2.0, 0.1, 0.3]
    np.testing.assert_allclose(prior.covariance, 0.01 * np.eye(5))
    assert (prior.n_arms, prior.sigma, prior.memory) == (2, 2.0, 0.9)
    assert repr(prior) == "LossPrior(2 arms, sigma 2.0, memory 0.9)"


@pytest.mark.parametrize("taste", [0.0, 0.3])
@pytest.mark.parametrize("arms", [1, 2, 5])
def test_the_sums_of_an_arm_are_those_of_its_marginal_distribution(arms, taste):
    """σ² times the inverse of its covariance; a millionth of the variances is added to them."""
    prior = some_prior(arms, seed=arms)
    products, moments, squares, _ = prior.sums(prior.n_arms, taste)
    names, expected = named_unknowns(arms), prior.events * prior.sigma**2
    for arm in range(arms):
        own = [("A", max(arm, j), min(arm, j)) for j in range(arms)]
        spots = [names.index(name) for name in (("l1", arm), *own)]
        covariance = prior.covariance[np.ix_(spots, spots)]
        covariance[0, 0] += taste**2
        precision = np.zeros((arms + 1, arms + 1))
        precision[np.tril_indices(arms + 1)] = products[arm]
        precision += np.tril(precision, -1).T
        product = precision @ covariance / prior.sigma**2
        np.testing.assert_allclose(product, np.eye(arms + 1), atol=2e-3)
        np.testing.assert_allclose(moments[arm], precision @ prior.mean[spots], rtol=1e-9)
        expected += prior.mean[spots] @ moments[arm]
    assert squares == pytest.approx(expected)


def test_the_sums_of_a_certain_prior_stay_within_what_doubles_can_hold():
    prior = ib.LossPrior.around([[0.5]], [100.0], sd=0.0, sigma=1.0)
    products, moments, *_ = prior.sums(prior.n_arms)
    np.testing.assert_allclose(products, [[100.0, 0.0, 100.0]])  # deviations of 0.001 · 100
    np.testing.assert_allclose(moments, [[1e4, 50.0]])


def test_a_prior_cannot_be_changed():
    prior = some_prior()
    for array in (prior.mean, prior.covariance):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1.0


ONE = {"mean": [0.0, 0.0], "covariance": np.eye(2), "sigma": 1.0}


@pytest.mark.parametrize(
    ("change", "mentions"),
    [
        ({"mean": [0.0] * 3}, ("K + K(K + 1)/2", "(3,)")),
        ({"mean": []}, ("K + K(K + 1)/2", "(0,)")),
        ({"mean": [[0.0, 0.0]]}, ("K + K(K + 1)/2", "(1, 2)")),
        ({"covariance": np.eye(3)}, ("square", "(3, 3)")),
        ({"covariance": [1.0, 1.0]}, ("square", "(2,)")),
        ({"mean": [0.0, np.nan]}, ("finite",)),
        ({"covariance": np.diag([1.0, np.inf])}, ("finite",)),
        ({"covariance": [[1.0, 0.5], [0.4, 1.0]]}, ("symmetric",)),
        ({"sigma": 0.0}, ("sigma", "above 0", "0.0")),
        ({"sigma": -1.0}, ("sigma", "-1.0")),
        ({"sigma": np.inf}, ("sigma", "inf")),
        ({"sigma": "loud"}, ("sigma", "'loud'")),
        ({"memory": 0.0}, ("memory", "at most 1")),
        ({"memory": 1.5}, ("memory", "at most 1", "1.5")),
        ({"events": 0}, ("events", "at least 1", "0")),
        ({"events": None}, ("events", "None")),
        ({"events": np.nan}, ("events", "nan")),
        ({"events": np.inf}, ("events", "inf")),
        ({"events": 2.5}, ("events", "2.5")),
        ({"events": 10**30}, ("events", "below")),
        ({"mean": ["a", "b"]}, ("numbers", "'a'")),
        ({"covariance": [[1.0], [1.0, 2.0]]}, ("numbers",)),
        ({"taste": -0.1}, ("taste", "-0.1")),
        ({"taste": np.nan}, ("taste", "nan")),
        ({"taste": "mine"}, ("taste", "'mine'")),
        ({"covariance": np.diag([1.0, 1e90]), "sigma": 1e-9}, ("deviations", "1e+50")),
    ],
)
def test_what_is_no_prior_is_refused(refused, change, mentions):
    with refused(ib.errors.InvalidInput, *mentions):
        ib.LossPrior(**ONE | change)


@pytest.mark.parametrize(
    ("change", "mentions"),
    [
        *(({"sd": sd}, ("sd", repr(sd))) for sd in (-1.0, np.nan, np.inf, "wide", None)),
        ({"initial_loss": [1.0]}, ("1 × 1", "(2, 2)")),
        (
            {"interaction": [[0.5, 9.0], [0.1, 0.3]]},
            ("not symmetric", "|A[0,1] − A[1,0]| = 8.9"),
        ),
    ],
)
def test_what_nothing_is_around_is_refused(refused, change, mentions):
    settings = {"interaction": np.eye(2), "initial_loss": [1.0, 2.0], "sd": 0.1, "sigma": 1.0}
    with refused(ib.errors.InvalidInput, *mentions):
        ib.LossPrior.around(**settings | change)


def test_rounding_does_not_make_a_covariance_asymmetric():
    """Entries that ought to be zero may be anything as small as rounding."""
    covariance = np.diag([1.0, 4.0])
    covariance[0, 1] = 1e-17
    assert ib.LossPrior([0.0, 0.0], covariance, 1.0).n_arms == 1


def test_a_covariance_that_is_none_is_refused_when_it_is_used(refused):
    prior = ib.LossPrior([0.0, 0.0], np.diag([1.0, -1.0]), 1.0)
    with refused(ib.errors.InvalidInput, "positive definite"):
        ib.Agent(ib.Foresight(prior=prior), 1)
    with refused(ib.errors.InvalidInput, "positive definite"):
        ib.Fleet(ib.Foresight(prior=prior), arms=1)


def test_a_singular_covariance_will_do():
    prior = ib.LossPrior([1.0, 2.0], np.ones((2, 2)), 1.0)
    agent = ib.Agent(ib.Foresight(prior=prior), 1)
    for _ in range(3):
        agent.observe(agent.pull(), 1.0)
    assert np.isfinite(agent.expected_losses()).all()


@pytest.mark.parametrize("arms", [1, 3])
def test_a_prior_goes_through_json_to_the_bit(arms):
    prior = some_prior(arms, events=7, memory=0.75, half_life=3.0, taste=0.25)
    data = json.loads(json.dumps(prior.to_json(), allow_nan=False))
    again = ib.LossPrior.from_json(data)
    assert again == prior
    assert hash(again) == hash(prior)
    assert (again.events, again.half_life, again.taste) == (7, 3.0, 0.25)
    assert ib.Foresight(prior=data) == ib.Foresight(prior=prior)


def test_priors_that_differ_in_anything_are_not_equal():
    prior = some_prior()
    data = prior.to_json()
    for name, value in (
        *(("sigma", 0.25), ("events", 9), ("memory", 0.5), ("mean", [0.0] * 5)),
        *(("taste", 0.5), ("half_life", 2.0)),
    ):
        assert ib.LossPrior.from_json(data | {name: value}) != prior
    assert prior != "a prior"
    assert len({prior, some_prior(), some_prior(seed=1)}) == 2


@pytest.mark.parametrize(
    ("change", "mentions"),
    [
        ({"format": "influential-bandits/agent/1"}, ("no prior", "influential-bandits/prior/1")),
        ({"depth": 3}, ("damaged", "depth")),
        ({"mean": ["one", "two"]}, ("numbers", "'one'")),
        ({"sigma": None}, ("sigma", "None")),
    ],
)
def test_a_damaged_file_is_refused(refused, change, mentions):
    with refused(ib.errors.InvalidInput, *mentions):
        ib.LossPrior.from_json(some_prior(1).to_json() | change)


def test_a_file_without_an_entry_is_refused(refused):
    data = some_prior().to_json()
    del data["sigma"]
    with refused(ib.errors.InvalidInput, "damaged", "sigma"):
        ib.LossPrior.from_json(data)
    with refused(ib.errors.InvalidInput, "no prior"):
        ib.LossPrior.from_json([1, 2])


@pytest.mark.parametrize(
    ("settings", "mentions"),
    [
        ({"memory": 1.5}, ("memory", "at most 1", "1.5")),
        ({"memory": 0.0}, ("memory", "0.0")),
        ({"memory": "long"}, ("memory", "'long'")),
        ({"horizon": 0}, ("horizon", "0")),
        ({"horizon": 2.5}, ("horizon", "2.5")),
        ({"half_life": -1.0}, ("half_life", "-1.0")),
        ({"prior": [1.0]}, ("LossPrior", "[1.0]")),
        ({"prior": {"mean": [0.0]}}, ("no prior",)),
        ({"prior": some_prior(), "half_life": 1.0}, ("prior", "drop memory and half_life")),
        ({"prior": some_prior(), "memory": 0.9}, ("prior", "drop memory")),
        ({"prior": ib.LossPrior.around(np.eye(25), np.ones(25), 1.0, 1.0)}, ("24 arms", "25")),
    ],
)
def test_settings_that_make_no_policy_are_refused(refused, settings, mentions):
    with refused(ib.errors.InvalidInput, *mentions):
        ib.Foresight(**settings)


def test_settings_are_kept_as_plain_numbers():
    policy = ib.Foresight(memory=np.float32(0.5), horizon=1e6, half_life=np.int64(3))
    assert policy == ib.Foresight(memory=0.5, horizon=1_000_000, half_life=3.0)
    assert type(policy.memory) is float
    assert type(policy.horizon) is int


def test_a_prior_about_more_arms_than_there_are_is_refused(refused):
    for make in (ib.Agent, lambda policy, arms: ib.Fleet(policy, arms=arms)):
        with refused(ib.errors.InvalidInput, "3 arms", "2"):
            make(ib.Foresight(prior=some_prior(3)), 2)


@pytest.mark.parametrize("n_arms", [3, 5])
def test_what_a_prior_says_is_expected_before_the_first_pull(n_arms):
    interaction, losses = np.diag([0.2, 0.4, 0.3]), np.array([0.3, -0.5, 1.0])
    prior = ib.LossPrior.around(interaction, losses, sd=0.01, sigma=0.5, memory=0.9)
    agent = ib.Agent(ib.Foresight(prior=prior), n_arms)
    fleet = ib.Fleet(ib.Foresight(prior=prior), arms=n_arms)
    np.testing.assert_allclose(agent.expected_losses()[:3], losses, atol=0.01)
    estimate = fleet.estimate()
    np.testing.assert_allclose(estimate.initial_loss[:3], losses, atol=0.01)
    np.testing.assert_allclose(estimate.interaction[:3, :3], interaction, atol=0.01)
    assert estimate.memory == 0.9
    assert estimate.sigma == pytest.approx(0.5, rel=0.1)
    known = np.arange(n_arms) < 3
    assert agent.select(known) == fleet.select("ann", known) == 1
    for _ in range(3):  # now it costs −0.5 + 0.4·(1 + 0.9 + 0.81)
        agent.expose(1)
    np.testing.assert_allclose(agent.expected_losses()[1], -0.5 + 0.4 * 2.71, atol=0.05)
