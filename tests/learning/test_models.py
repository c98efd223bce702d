"""The models as users meet them: scikit-learn's rules, cases by hand, invariance, refusals."""

import pickle

import numpy as np
import pytest
from dense_learning import counts_of, weights_of
from fadings import fading_of
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import influential_bandits as ib
from docs.measurements.click_events import ClickWorld, draw_click_events
from influential_bandits import DriftModel, EventLog, InfluenceModel, StationaryModel
from influential_bandits.data import synthetic_log
from influential_bandits.errors import InvalidInput, InvalidLog, NotApplicable
from influential_bandits.logs import ChunkSizes, Membership, stream_log
from influential_bandits.policies.foresight.prior import in_order

TRUTH = np.array([[0.3, -0.1, 0.05], [-0.1, 0.2, 0.0], [0.05, 0.0, 0.15]])  # positive definite
LOSSES = np.array([1.0, 2.0, 1.5])
POOLS = ["none", "full"]
POOL_NAMES = ["separate", "pooled"]
ROUNDED = 2.0**-53


def planted(instances=12, events=60, **settings):
    settings = {"interaction": TRUTH, "initial_loss": LOSSES, "memory": 0.8, "seed": 3} | settings
    return synthetic_log(instances, events, len(settings["interaction"]), **settings)


@pytest.fixture(scope="module")
def log():
    return planted(spread=0.5)


@pytest.fixture(scope="module")
def fitted(log):
    return {pooling: InfluenceModel(fading=0.8, pooling=pooling).fit(log) for pooling in POOLS}


# Rules of scikit-learn

MODELS = [
    StationaryModel(shrinkage=2.0),
    StationaryModel(pooling="full"),
    DriftModel(),
    InfluenceModel("symmetric", fading=0.8, ridge=0.5),
    InfluenceModel(fading=0.8, pooling="full", drift=True),
    InfluenceModel("diagonal", fading=ib.Fading(half_life=72)),
]


@pytest.mark.long
@pytest.mark.parametrize("model", MODELS, ids=lambda model: " ".join(repr(model).split()))
def test_a_model_can_be_cloned_pickled_and_shown(model, log):
    copy = clone(model)
    assert copy is not model
    assert copy.get_params() == model.get_params()
    assert type(model).__name__ in repr(model)
    assert type(model)().set_params(**model.get_params()).get_params() == model.get_params()
    assert copy.fit(log) is copy
    again = pickle.loads(pickle.dumps(copy))
    assert again.predict(log).tobytes() == copy.predict(log).tobytes()
    assert copy.fit(log).coefficients_.tobytes() == again.coefficients_.tobytes()
    assert not hasattr(model, "coefficients_")


@pytest.mark.parametrize("what", ["predict", "score", "noise", "instance", "interval", "row"])
def test_what_needs_a_fit_says_so(what, log):
    arguments = {"predict": (log,), "score": (log,), "row": ("0",)}.get(what, ())
    with pytest.raises(NotFittedError, match="not fitted"):
        getattr(InfluenceModel(), what)(*arguments)


def test_the_score_is_r_squared(log, fitted):
    predicted = fitted["full"].predict(log)
    left = ((log.loss - predicted) ** 2).sum() / ((log.loss - log.loss.mean()) ** 2).sum()
    assert fitted["full"].score(log) == pytest.approx(1 - left, rel=1e-12)
    drifting = DriftModel().fit(log)
    assert drifting.score(log) > StationaryModel(shrinkage=0).fit(log).score(log) - 0.05


# By hand


def test_without_shrinkage_the_stationary_model_is_plain_means():
    losses = [1.0, 3.0, 2.0, 10.0, 5.0]
    hand = EventLog(["u", "u", "u", "u", "v"], ["a", "b", "a", "a", "b"], losses)
    model = StationaryModel(shrinkage=0).fit(hand)
    # Arm a was never met by v, whose mean is 5. The smallest pull is 1e-9 of an event.
    expected = [[13 / 3, 3.0], [5.0, 5.0]]
    np.testing.assert_allclose(model.initial_losses_, expected, rtol=0, atol=1e-9 * 10)
    np.testing.assert_allclose(model.predict(hand), [13 / 3, 3, 13 / 3, 13 / 3, 5], atol=1e-8)


def test_shrinkage_counts_events_of_the_mean():
    hand = EventLog(["u"] * 4, ["a", "b", "a", "a"], [1.0, 3.0, 2.0, 10.0])  # mean 4
    model = StationaryModel(shrinkage=2.0).fit(hand)
    np.testing.assert_allclose(
        model.initial_losses_, [[(13 + 2 * 4) / (3 + 2), (3 + 2 * 4) / (1 + 2)]], rtol=1e-14
    )


def test_predictions_are_initial_losses_plus_influence_of_the_past(log, fitted):
    arms, who = log.arm, np.repeat(np.arange(log.n_instances), log.lengths)
    counts = counts_of(log, memory=0.8)
    for model in fitted.values():
        A, l1 = model.interactions_, model.initial_losses_
        by_hand = l1[who, arms] + np.einsum("nj,nj->n", A[who, arms], counts)
        np.testing.assert_allclose(model.predict(log), by_hand, rtol=0, atol=1e-13)


def test_items_of_several_arms_mix_them():
    films = Membership({"x": ["a", "b"], "y": ["b"], "z": ["a", "b", "c"]})
    random = np.random.default_rng(0)
    items = random.choice(["x", "y", "z"], 50)
    mixed = EventLog(["u"] * 50, items, random.normal(size=50), membership=films)
    model = InfluenceModel("symmetric", fading=0.7).fit(mixed)
    w, d = weights_of(mixed), counts_of(mixed, memory=0.7)
    by_hand = w @ model.initial_losses_[0] + np.einsum("ni,ij,nj->n", w, model.interactions_[0], d)
    np.testing.assert_allclose(model.predict(mixed), by_hand, rtol=0, atol=1e-13)


def test_the_recent_level_is_an_average_of_past_surprises():
    losses = np.array([0.0, 4.0, 1.0, 2.0, 8.0])
    hand = EventLog(["u"] * 5, ["a", "b", "a", "b", "a"], losses)
    model = DriftModel().fit(hand)
    means, level, expected = {"a": 3.0, "b": 3.0}, 0.0, []
    for arm, loss in zip("ababa", losses, strict=True):
        expected.append(
            model.initial_losses_[0]["ab".index(arm)] + model.level_coefficients_[0] * level
        )
        level = 0.9 * level + 0.1 * (loss - means[arm])
    np.testing.assert_allclose(model.predict(hand), expected, rtol=1e-13)


FADING = [{"memory": 1.0}, {"memory": 0.6}, {"half_life_days": 2.0}]


@pytest.mark.parametrize("fading", FADING, ids=str)
@pytest.mark.parametrize("kind", ["psd", "symmetric", "diagonal"])
def test_without_noise_the_truth_is_found(kind, fading):
    truth = np.diag([0.3, 0.2, 0.1]) if kind == "diagonal" else TRUTH
    clean = planted(3, 200, interaction=truth, noise=0.0, spread=0.5, **({"memory": 1.0} | fading))
    model = InfluenceModel(kind, ridge=1e-9, shrinkage=0, fading=fading_of(**fading)).fit(clean)
    known = clean.about["truth"]
    # A pull of 1e-9 events, over at least one event's worth of information on each coefficient of
    # size at most 3, moves it by 3e-9; conditioning may cost another factor of ten thousand.
    np.testing.assert_allclose(model.interactions_, [truth] * 3, rtol=0, atol=3e-5)
    np.testing.assert_allclose(model.initial_losses_, known.initial_losses, rtol=0, atol=3e-5)
    assert model.noise_.max() < 1e-4
    assert model.status_ == "solved"


def test_without_noise_a_pool_finds_the_truth():
    clean = planted(30, 100, noise=0.0, spread=0.5)
    model = InfluenceModel("symmetric", fading=0.8, ridge=1e-9, pooling="full").fit(clean)
    # Initial losses are thought to come from a population whose spread is estimated with what
    # influence adds to them, so that a pool does not fit to the last digit.
    np.testing.assert_allclose(model.interaction_, TRUTH, rtol=0, atol=2e-3)


def test_one_arm():
    single = planted(5, 80, interaction=[[0.25]], initial_loss=[1.0], spread=0.3, noise=0.1)
    for pooling in POOLS:
        model = InfluenceModel(fading=0.8, ridge=1e-3, shrinkage=1e-3, pooling=pooling).fit(single)
        assert model.interaction_.shape == (1, 1)
        assert model.interaction_[0, 0] == pytest.approx(0.25, abs=0.05)
        assert model.instance().n_arms == 1


@pytest.mark.parametrize("kind", [StationaryModel, DriftModel, InfluenceModel])
@pytest.mark.parametrize("pooling", POOLS, ids=POOL_NAMES)
def test_one_event(kind, pooling):
    model = kind(pooling=pooling).fit(EventLog(["u"], ["a"], [2.0]))
    assert model.predict(EventLog(["u"], ["a"], [2.0]))[0] == pytest.approx(2.0, abs=1e-6)


def test_an_arm_met_by_nobody_here_stays_finite():
    films = Membership.of_arms(["a", "b", "never"])
    two = EventLog(["u"] * 20, np.tile([0, 1], 10), np.arange(20.0), membership=films)
    for pooling in POOLS:
        model = InfluenceModel(fading=0.5, pooling=pooling).fit(two)
        assert np.isfinite(model.coefficients_).all()
        assert np.isfinite(model.standard_errors_).all()
        assert model.interaction_.shape == (3, 3)
    separate = InfluenceModel(fading=0.5).fit(two)
    assert not separate.interactions_[0, 2].any()
    assert separate.initial_losses_[0, 2] == pytest.approx(two.loss.mean())


@pytest.fixture(scope="module")
def one_empty():
    """Ten histories, of which the fifth has no event before its last, and the same with it."""
    whole = planted(10, [60] * 4 + [1] + [60] * 5, spread=0.5)
    return whole.without_last(events=1), whole


@pytest.mark.parametrize("pooling", POOLS, ids=POOL_NAMES)
def test_an_empty_history_is_not_in_the_fit(pooling, one_empty, refused):
    short, _ = one_empty
    model = InfluenceModel(fading=0.8, pooling=pooling)
    rest = short.take([n for n in range(10) if n != 4])
    one, other = clone(model).fit(short), clone(model).fit(rest)
    assert one.instances_ == rest.instances == tuple("012356789")
    for name in ("coefficients_", "standard_errors_", "population_covariance_", "noise_"):
        assert getattr(one, name).tobytes() == getattr(other, name).tobytes(), name
    # No row stands for it, so that nothing can be read off it as certain.
    for what in ("row", "interval", "instance", "noise"):
        with refused(InvalidInput, "'4'", "9 instances"):
            getattr(one, what)(instance="4")


def test_an_empty_history_gets_the_population(one_empty):
    short, whole = one_empty
    model = InfluenceModel(fading=0.8, pooling="full").fit(short)
    (only,) = whole.history("4").arm  # its only event, before which nothing was pulled
    assert model.predict(whole)[whole.offsets[4]] == model.initial_loss_[only]


# The order of things does not matter


def renamed(log, order):
    """The same log, where arm i of it stands at place order[i]."""
    names = [log.arm_names[i] for i in np.argsort(order)]
    table = Membership.of_arms(names)
    items = np.asarray(order)[log.arm]
    who = np.repeat(np.array(log.instances), log.lengths)
    return EventLog(who, items, log.loss, log.time, membership=table)


INVARIANT = [
    InfluenceModel(fading=0.8),
    InfluenceModel("symmetric", fading=0.8),
    InfluenceModel("diagonal", fading=0.8, drift=True),
    InfluenceModel(fading=0.8, pooling="full"),
    InfluenceModel("symmetric", fading=0.8, pooling="full", drift=True),
    InfluenceModel("symmetric", fading=ib.Fading(half_life=48), pooling="full"),
]
NAMED = {"argnames": "model", "argvalues": INVARIANT, "ids": lambda m: " ".join(repr(m).split())}


def close(model):
    # Positive semi-definite fits stop at a relative gap of 1e-9: √1e-9 in the coefficients.
    if model.interaction == "psd":
        return {"rtol": 0, "atol": 1e-4}
    return {"rtol": 0, "atol": SEARCHED if model.pooling != "none" else 1e-8}


# Pools search for variances until the deviance changes by less than 1e-4. That of the levels is
# flat near zero: its derivative, of the order of the 12 instances, makes 1e-4 / 12 ≈ 1e-5 of the
# noise's variance; an instance's level moves by this share of its distance, below 1, at most, and
# what is shared by the mean over instances, a tenth of that.
SEARCHED = 1e-6


@pytest.mark.long
@pytest.mark.parametrize(**NAMED)
def test_the_order_of_arms_does_not_matter(model, log):
    order = [2, 0, 1]
    one, other = clone(model).fit(log), clone(model).fit(renamed(log, order))
    assert other.arm_names_ != one.arm_names_
    back = np.ix_(order, order)
    np.testing.assert_allclose(other.interaction_[back], one.interaction_, **close(model))
    np.testing.assert_allclose(other.initial_losses_[:, order], one.initial_losses_, **close(model))
    np.testing.assert_allclose(other.noise_, one.noise_, **close(model))
    np.testing.assert_allclose(
        other.interval()["interaction"][0][back], one.interval()["interaction"][0], **close(model)
    )


@pytest.mark.long
@pytest.mark.parametrize(**NAMED)
def test_the_order_of_instances_does_not_matter(model, log):
    order = np.roll(np.arange(log.n_instances)[::-1], 3)
    one, other = clone(model).fit(log), clone(model).fit(log.take(order))
    np.testing.assert_allclose(other.coefficients_, one.coefficients_[order], **close(model))
    np.testing.assert_allclose(other.standard_errors_, one.standard_errors_[order], **close(model))
    assert other.predict(log).shape == (len(log),)
    np.testing.assert_allclose(other.predict(log), one.predict(log), rtol=0, atol=1e-3)


@pytest.mark.parametrize("pooling", POOLS, ids=POOL_NAMES)
def test_the_clock_may_start_anywhere(pooling, log):
    who = np.repeat(np.array(log.instances), log.lengths)
    whole = EventLog(who, log.arm, log.loss, np.floor(log.time))
    later = EventLog(who, log.arm, log.loss, whole.time + 2.0**31)
    model = InfluenceModel(fading=ib.Fading(half_life=48), pooling=pooling)
    one, other = clone(model).fit(whole), clone(model).fit(later)
    assert one.coefficients_.tobytes() == other.coefficients_.tobytes()


@pytest.mark.parametrize(**NAMED)
def test_losses_in_another_unit_give_the_same_model(model, log):
    who = np.repeat(np.array(log.instances), log.lengths)
    larger = EventLog(who, log.arm, 1024 * log.loss, log.time)
    same = EventLog(who, log.arm, log.loss, log.time)
    one, other = clone(model).fit(same), clone(model).fit(larger)
    exact = not model.drift and model.pooling == "none"
    # Multiplying by a power of two is exact; only the level's tiny pull of 1e-12, and the search
    # for variances by logarithms, know the unit.
    bound = {"rtol": 0, "atol": 0.0 if exact else close(model)["atol"]}
    np.testing.assert_allclose(other.interactions_ / 1024, one.interactions_, **bound)
    np.testing.assert_allclose(other.initial_losses_ / 1024, one.initial_losses_, **bound)
    np.testing.assert_allclose(other.noise_ / 1024, one.noise_, **bound)


@pytest.mark.long
@pytest.mark.parametrize(**NAMED)
def test_threads_do_not_change_a_bit(model, log):
    fits = [clone(model).fit(log, execution=threads) for threads in (1, 2, 3)]
    for other in fits[1:]:
        for name in ("coefficients_", "standard_errors_", "population_covariance_", "noise_"):
            assert getattr(other, name).tobytes() == getattr(fits[0], name).tobytes(), name


# Streams


def streamed(log, events_per_part):
    return stream_log(
        log.to_frame(),
        instance="instance",
        arm="item",
        time="time",
        loss="loss",
        sizes=ChunkSizes(partition=events_per_part),
        arm_names=list(log.arm_names),
    )


def test_a_pooled_fit_takes_a_stream(log, fitted):
    with streamed(log, 200) as stream:
        assert len(list(stream)) > 1
        model = InfluenceModel(fading=0.8, pooling="full").fit(stream)
    order = [model.row(label) for label in log.instances]
    np.testing.assert_allclose(model.interaction_, fitted["full"].interaction_, rtol=0, atol=1e-4)
    np.testing.assert_allclose(
        model.coefficients_[order], fitted["full"].coefficients_, rtol=0, atol=1e-4
    )
    free, whole = model.unconstrained_population_, fitted["full"].unconstrained_population_
    np.testing.assert_allclose(free, whole, rtol=0, atol=SEARCHED)
    np.testing.assert_allclose(
        model.population_covariance_, fitted["full"].population_covariance_, rtol=1e-3
    )


def test_a_separate_fit_takes_a_stream(log, fitted):
    with streamed(log, 200) as stream:
        model = InfluenceModel(fading=0.8).fit(stream)
    order = [model.row(label) for label in log.instances]
    assert model.coefficients_[order].tobytes() == fitted["none"].coefficients_.tobytes()


def test_predicting_a_stream_is_refused_clearly(log, refused, fitted):
    with streamed(log, 200) as stream, refused(InvalidInput, "part by part"):
        fitted["full"].predict(stream)


# The learned world


@pytest.mark.parametrize("pooling", POOLS, ids=POOL_NAMES)
@pytest.mark.parametrize("kind", ["psd", "symmetric", "diagonal"])
def test_the_learned_world_carries_everything_over(kind, pooling, log):
    model = InfluenceModel(kind, fading=0.8, pooling=pooling).fit(log)
    world = model.instance()
    assert world.memory == 0.8
    assert world.arm_names == log.arm_names
    np.testing.assert_allclose(world.interaction.to_dense(), model.interaction_, atol=1e-12)
    np.testing.assert_array_equal(world.initial_loss, model.initial_loss_)
    own = model.instance("3")
    np.testing.assert_allclose(own.interaction.to_dense(), model.interactions_[3], atol=1e-12)
    np.testing.assert_array_equal(own.initial_loss, model.initial_losses_[3])
    assert model.noise("3").sigma == model.noise_[3]
    assert model.noise().sigma == pytest.approx(np.sqrt(np.mean(model.noise_**2)))
    if kind == "psd":
        assert world.definite
        assert own.definite


def test_an_indefinite_world_stays_indefinite():
    reinforcing = planted(40, 200, interaction=[[-0.3, 0.1], [0.1, -0.2]], initial_loss=[1, 1])
    world = InfluenceModel("symmetric", fading=0.8, pooling="full").fit(reinforcing).instance()
    assert not world.definite
    assert world.interaction.to_dense()[0, 0] < -0.2
    psd = InfluenceModel(fading=0.8, pooling="full").fit(reinforcing).instance()
    assert psd.definite


@pytest.mark.parametrize("memory", [1.0, 0.7])
@pytest.mark.parametrize("kind", ["psd", "symmetric"])
def test_predictions_are_the_dynamics_of_the_learned_world(memory, kind):
    model = InfluenceModel(kind, fading=memory).fit(planted(2, 100, memory=memory))
    environment = ib.Environment(model.instance("1"))
    arms = np.random.default_rng(0).integers(0, 3, 300)
    losses = [environment.pull(int(arm)) for arm in arms]
    played = EventLog(["1"] * 300, arms, losses, membership=Membership.of_arms(model.arm_names_))
    # Both sum at most 300 terms a loss; the world has its hair below zero cut off.
    size = 300 * np.abs(model.interactions_[1]).max() + np.abs(losses).max()
    np.testing.assert_allclose(model.predict(played), losses, rtol=0, atol=2000 * ROUNDED * size)


def test_a_half_life_becomes_a_memory():
    clock = planted(20, 100, memory=1.0, half_life_days=2.0, gap=86400.0 / 2)
    model = InfluenceModel("symmetric", fading=ib.Fading(half_life=48)).fit(clock)
    world = model.instance(days_between_rounds=3.0)
    fade = 2.0 ** (-3.0 / 2.0)
    assert world.memory == pytest.approx(fade, rel=1e-14)
    np.testing.assert_allclose(world.interaction.to_dense(), fade * model.interaction_, rtol=1e-13)
    gaps = np.concatenate([np.diff(clock.history(u).time) for u in clock.instances]) / 86400
    assert model.instance().memory == pytest.approx(2 ** (-np.median(gaps) / 2), rel=1e-12)
    # Events three days apart in a log are the rounds of that world.
    environment = ib.Environment(model.instance("4", days_between_rounds=3.0))
    arms = np.random.default_rng(1).integers(0, 3, 100)
    losses = [environment.pull(int(arm)) for arm in arms]
    table = Membership.of_arms(model.arm_names_)
    played = EventLog(["4"] * 100, arms, losses, np.arange(100) * 3 * 86400.0, membership=table)
    np.testing.assert_allclose(model.predict(played), losses, rtol=0, atol=1e-12)


def test_a_prior_hands_over_the_half_life_in_hours():
    clock = planted(20, 60, memory=1.0, half_life_days=2.0)
    model = InfluenceModel("symmetric", fading=ib.Fading(half_life=48), pooling="full").fit(clock)
    prior, world = model.prior(), model.instance(by_clock=True)
    assert prior.half_life == world.half_life == model.fleet().policy.effective_half_life == 48.0
    assert prior.memory == world.memory == 1.0
    np.testing.assert_allclose(prior.mean, in_order(model.interaction_, world.initial_loss))
    # The log's own events, at their own times, are the rounds of that world.
    environment = ib.Environment(model.instance("4", by_clock=True))
    one = clock.history("4")
    losses = [environment.pull(int(arm), at=at) for arm, at in zip(one.item, one.time, strict=True)]
    played = EventLog(["4"] * len(one), one.item, losses, one.time, membership=clock.membership)
    np.testing.assert_allclose(model.predict(played), losses, rtol=0, atol=1e-11)


def test_by_clock_needs_a_half_life_and_no_length_of_rounds(log, refused):
    with refused(InvalidInput, "by_clock", "half_life=48"):
        InfluenceModel().fit(log).instance(by_clock=True)
    with refused(InvalidInput, "by_clock", "days_between_rounds"):
        InfluenceModel(fading=ib.Fading(half_life=24)).fit(log).instance(
            days_between_rounds=1.0, by_clock=True
        )


def test_worlds_that_are_no_influential_bandits_say_so(log, refused):
    drifting = InfluenceModel(drift=True, fading=0.8).fit(log)
    with refused(NotApplicable, "drift", "without_drift=True"):
        drifting.instance()
    assert drifting.instance(without_drift=True).memory == 0.8


def test_unknown_labels_are_refused(fitted, refused):
    for what in ("instance", "noise", "row"):
        with refused(InvalidInput, "'nobody'", "12 instances"):
            getattr(fitted["none"], what)("nobody")
    with refused(InvalidInput, "'nobody'"):
        fitted["none"].interval(instance="nobody")
    assert fitted["none"].row(3) == 3  # labels are kept as text


@pytest.mark.parametrize("days", [-1.0, np.inf, np.nan, "three"])
def test_bad_days_are_refused(days, log, refused):
    model = InfluenceModel(fading=ib.Fading(half_life=24)).fit(log)
    with refused(InvalidInput, "days_between_rounds"):
        model.instance(days_between_rounds=days)


@pytest.mark.parametrize("confidence", [0.0, 1.0, -1, np.nan, "a", True, None])
def test_bad_confidence_is_refused(confidence, fitted, refused):
    with refused(InvalidInput, "confidence"):
        fitted["full"].interval(confidence)


def test_intervals_hold_the_estimate_and_grow_with_confidence(fitted):
    for model in fitted.values():
        for instance in (None, "2"):
            narrow, wide = model.interval(0.5, instance), model.interval(0.99, instance)
            A = model.interaction_ if instance is None else model.interactions_[2]
            assert (narrow["interaction"][0] <= A + 1e-12).all()
            assert (narrow["interaction"][1] + 1e-12 >= A).all()
            assert (np.diag(wide["interaction"][0]) >= 0).all()
            for name in ("interaction", "initial_loss"):
                assert (wide[name][0] <= narrow[name][0]).all()
                assert (wide[name][1] >= narrow[name][1]).all()


# Refusals


def test_instances_that_were_not_in_the_fit(log, fitted, refused):
    new = planted(3, 30, seed=99)
    who = np.repeat(np.array(["x", "3", "y"]), new.lengths)
    other = EventLog(who, new.arm, new.loss, membership=new.membership)
    with refused(InvalidInput, "2 instances", "'x'", "pooled"):
        fitted["none"].predict(other)
    model = fitted["full"]
    l1 = np.array([model.population_, model.coefficients_[3], model.population_])[:, :3]
    n = np.repeat(np.arange(3), new.lengths)
    counts = counts_of(other, memory=0.8)
    expected = l1[n, other.arm] + np.einsum("nj,nj->n", model.interaction_[other.arm], counts)
    np.testing.assert_allclose(model.predict(other), expected, rtol=0, atol=1e-12)


def test_other_arms_are_refused(fitted, refused):
    other = EventLog(["0"] * 3, ["a", "b", "c"], [1, 2, 3])
    with refused(InvalidInput, "arms 0, 1, 2", "a, b, c"):
        fitted["none"].predict(other)


BAD = {
    "interaction": ["none", "PSD", None, ["psd"]],
    "fading": [0.0, 1.1, np.nan, "long", True, None, {"days": 2.0}],
    "ridge": [-1e-9, np.nan, np.inf, "x", None],
    "shrinkage": [-1.0, np.nan, "x"],
    "pooling": ["partial", None, 1],
    "drift": ["no"],
}


@pytest.mark.parametrize("name", BAD)
def test_bad_parameters_are_refused(name, log, refused):
    for value in BAD[name]:
        with refused(InvalidInput, name):
            InfluenceModel(**{name: value}).fit(log)


@pytest.mark.parametrize(
    ("model", "mentions"),
    [
        (InfluenceModel(fading=ib.Fading(0.5, half_life=24)), ["events", "clock", "not by both"]),
        (DriftModel(pooling="some"), ["pooling"]),
        (StationaryModel(shrinkage=-1), ["shrinkage"]),
        (StationaryModel(pooling=2), ["pooling"]),
    ],
)
def test_parameters_that_do_not_go_together_are_refused(model, mentions, log, refused):
    with refused(InvalidInput, *mentions):
        model.fit(log)


def test_bad_input_is_refused(log, refused):
    with refused(InvalidInput, "expected an EventLog", "read_log"):
        StationaryModel().fit(log.to_frame())
    with refused(InvalidInput, "expected an EventLog", "read_log"):
        StationaryModel().fit(log).predict(np.eye(3))
    with refused(InvalidLog, "no events"):
        StationaryModel().fit(log.take([]))
    with refused(InvalidInput, "by the clock", "time"):
        InfluenceModel(fading=ib.Fading(half_life=24)).fit(EventLog(["u"] * 2, ["a", "b"], [1, 2]))


# What a model says of itself


def test_a_fitted_model_says_what_it_found_in_the_unit_of_its_log():
    world = ClickWorld(fatigue=0.6, tiring=1)
    events = draw_click_events(300, 40, 3, world, seed=0)
    log = ib.read_log(events, instance="user", arm="arm", time="time", reward="click")
    model = InfluenceModel("symmetric", fading=0.8, pooling="full")
    assert "fitted" not in repr(model)
    settings = repr(model)
    model.fit(log)
    assert repr(model).startswith(f"{settings}: 300 instances, 3 arms of 0.")
    assert "arm 0 on itself: one more showing costs the next +0." in repr(model)
    assert repr(model).endswith("clicks; half of it is gone after 3.1 events")
    assert "\n" not in repr(model)
    first = next(line for line in str(model).splitlines() if line.startswith("  "))
    low, high = model.interval()["interaction"]
    assert first.split()[:4] == ["arm", "0", "on", "itself"]
    assert f"({low[0, 0]:+.2g} … {high[0, 0]:+.2g})" in first


def test_every_model_says_something_once_fitted(log):
    for model in MODELS:
        fitted = clone(model).fit(log)
        assert f"{log.n_instances} instances" in repr(fitted)
        assert str(fitted)
        assert fitted.settings == " ".join(repr(model).split())
    lean = InfluenceModel("symmetric", pooling="full").fit_to_predict(log)
    assert "nan" not in str(lean), "without errors there is no interval"


def test_a_model_of_arms_on_themselves_says_nothing_of_pairs(log):
    lines = str(InfluenceModel("diagonal", fading=0.8, pooling="full").fit(log)).splitlines()
    influences = [line for line in lines if line.startswith("  ")]
    assert len(influences) == log.n_arms
    assert all("on itself" in line for line in influences)
