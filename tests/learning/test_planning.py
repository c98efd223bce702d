"""Plans: the optimum of the learned world, what they promise, and when not to believe them.

Everything is seeded. Rates are tested to the 99.9 % interval of the binomial distribution.
"""

import json

import numpy as np
import pytest
import scipy.stats

import influential_bandits as ib
from docs.measurements.click_events import ClickWorld, draw_click_events
from influential_bandits.errors import InvalidInput, NotApplicable, NotCertified
from influential_bandits.learning import plan_evidence as module
from influential_bandits.learning import plan_search
from influential_bandits.learning.logging_policy import describe_logged
from influential_bandits.learning.models import DriftModel, InfluenceModel, StationaryModel
from influential_bandits.learning.plan_evidence import fit_halves
from influential_bandits.learning.planning import plan
from influential_bandits.optima.schedules import find_schedule

LOWER = [(i, j) for i in range(3) for j in range(i + 1)]
TIRING = [[0.5, 0.1, 0.0], [0.1, 0.2, 0.0], [0.0, 0.0, 0.05]]
FLATTERED = "the gain is judged by the same data"
UNSUPPORTED = "does not support this plan"
EXTRAPOLATION = "memory = 1"
WITH_DRIFT = "losses follow their own recent level"


def tiring_log(memory=0.8, seed=0, **settings):
    """Arms that tire; the best one tires most."""
    settings = {"initial_loss": [0.0, 0.1, 0.3], "interaction": TIRING} | settings
    return ib.data.synthetic_log(120, 40, 3, memory=memory, seed=seed, **settings)


@pytest.fixture(scope="module")
def fading():
    return InfluenceModel(fading=0.8, pooling="full", ridge=1.0).fit(tiring_log())


@pytest.fixture(scope="module")
def lasting():
    log = tiring_log(1.0, interaction=0.1 * np.array(TIRING))
    return InfluenceModel(fading=1.0, pooling="full", ridge=1.0).fit(log)


@pytest.fixture(scope="module")
def clocked():
    log = tiring_log(1.0, half_life_days=2.0)
    return InfluenceModel(fading=ib.Fading(half_life=48), pooling="full", ridge=1.0).fit(log)


@pytest.fixture(scope="module")
def own():
    """Each instance with its own matrix."""
    return InfluenceModel(fading=0.8, ridge=10.0).fit(tiring_log())


def alone(model, horizon, log=None, **options):
    """Return the plan that a model judges itself, as of a log too small for halves."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "fit_halves", lambda *_: [])
        return plan(model, tiring_log() if log is None else log, horizon, **options)


def shares(schedule, arms):
    return np.bincount(schedule, minlength=arms) / len(schedule)


def played(instance, schedule, rounds):
    """Loss of each round when a schedule is repeated, from the start."""
    environment = ib.Environment(instance)
    return np.array([environment.pull(int(schedule[t % len(schedule)])) for t in range(rounds)])


def mixed_loss(world, horizon):
    """Loss per round of arms drawn at random, each as often."""
    mix, memory = np.full(world.n_arms, 1.0 / world.n_arms), world.memory
    past = np.mean([sum(memory**k for k in range(n)) for n in range(horizon)])
    return float(world.initial_loss @ mix + past * mix @ world.interaction.to_dense() @ mix)


# Memory 1: the order does not matter


@pytest.mark.parametrize("horizon", [1, 7, 100, 10_000])
def test_without_fading_the_mix_is_the_optimum_of_the_learned_instance(horizon, lasting):
    found = alone(lasting, horizon)
    instance = lasting.instance()
    counts = ib.optimum(instance, horizon).counts
    assert found.schedule is None
    assert "order" not in str(found)
    np.testing.assert_array_equal(found.mix, counts / horizon)
    np.testing.assert_allclose(found.loss, instance.total_loss(counts) / horizon, rtol=1e-9)


# Memory below 1: a schedule


@pytest.mark.parametrize("memory", [0.05, 0.5, 0.9, 0.99])
@pytest.mark.parametrize("length", [1, 2, 5, 17])
def test_the_weights_of_a_schedule_are_those_of_playing_it(memory, length):
    random = np.random.default_rng(length)
    factor, loss = random.normal(size=(3, 3)), random.normal(size=3)
    instance = ib.Instance(factor @ factor.T, loss, memory=memory)
    schedule = random.integers(0, 3, length)
    rounds = 40 * length
    weights, past = plan_search.add_pairs(schedule, memory, rounds, 3)
    matrix = instance.interaction.to_dense() / memory  # the round after a pull meets all of A
    expected = loss @ shares(schedule, 3) + (matrix * weights).sum()
    np.testing.assert_allclose(past, weights.sum(), rtol=1e-9)
    np.testing.assert_allclose(expected, played(instance, schedule, rounds).mean(), rtol=1e-9)


def test_the_promised_losses_are_those_of_playing_the_plan(fading):
    found = alone(fading, 50)
    assert len(found.schedule) == 50
    np.testing.assert_array_equal(found.mix, shares(found.schedule, 3))
    losses = played(fading.instance(), found.schedule, 50)
    np.testing.assert_allclose(found.loss, losses.mean(), rtol=1e-9)


@pytest.mark.parametrize("memory", [0.98, 0.999999])
def test_the_promised_losses_are_those_of_the_horizon(memory):
    """As with memory 1, which is the limit: fifty rounds from the start."""
    world = ib.Instance(np.diag([0.05, 0.01]), [0.0, 0.5], memory=memory)
    pace = plan_search.Pace(memory, 1.0 / memory)
    search = plan_search.Search("psd", pace, 50)
    matrix = world.interaction.to_dense()
    found = search.best(world.initial_loss, matrix)
    promised = world.initial_loss @ found.mix + (matrix * found.pairs).sum()
    assert promised == pytest.approx(played(world, found.schedule, 50).mean(), rel=1e-9)


def test_a_long_plan_repeats_after_a_period(fading):
    found = alone(fading, 10**9)
    assert len(found.schedule) == 240
    assert found.horizon == 10**9


def test_an_arm_that_tires_is_spaced(fading):
    """The arm that tires fast is not played twice in a row by a plan that has two good ones."""
    log = ib.data.synthetic_log(200, 50, 2, interaction=0.5 * np.eye(2), memory=0.6, seed=3)
    found = alone(InfluenceModel(fading=0.6, pooling="full", ridge=1.0).fit(log), 40, log)
    assert abs(found.mix[0] - 0.5) <= 0.05
    assert (np.diff(found.schedule) != 0).mean() > 0.9
    assert alone(fading, 40).mix[0] < 0.6


# The gain is linear in the coefficients


@pytest.mark.long
@pytest.mark.parametrize("kind", ["psd", "symmetric", "diagonal"])
@pytest.mark.parametrize("drift", [False, True])
@pytest.mark.parametrize("memory", [0.8, 1.0])
def test_the_gain_is_the_difference_of_the_losses(kind, drift, memory):
    log = tiring_log(memory, interaction=0.2 * np.array(TIRING))
    model = InfluenceModel(kind, fading=memory, drift=drift, pooling="full", ridge=1.0).fit(log)
    found = alone(model, 60, log)
    assert not found.cross_fitted
    np.testing.assert_allclose(found.gain, found.logged_loss - found.loss, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(found.gain, 0.5 * (found.low + found.high), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("days", [None, 0.0, 0.5, 3.0])
def test_the_gain_is_the_difference_of_the_losses_by_the_clock(clocked, days):
    found = alone(clocked, 60, days_between_rounds=days)
    assert (found.schedule is None) == (days == 0.0)
    np.testing.assert_allclose(found.gain, found.logged_loss - found.loss, rtol=1e-6, atol=1e-9)


def test_rounds_far_apart_leave_no_influence(clocked):
    """After a thousand half-lives, the arm of the smallest initial loss is best for ever."""
    found = alone(clocked, 10, days_between_rounds=2000.0)
    best = clocked.initial_loss_.argmin()
    assert found.mix[best] == 1.0
    np.testing.assert_allclose(found.loss, clocked.initial_loss_[best], rtol=1e-6)


def test_the_interval_is_that_of_the_linear_functional(lasting):
    found = alone(lasting, 60)
    mix, logged = found.mix, describe_logged(lasting.design_, lasting.population_, tiring_log())
    pairs = logged.pairs - logged.shuffled + 29.5 * logged.squares
    pairs += 0.5 * np.diag(mix) - 30.0 * np.outer(mix, mix)
    entries = [pairs[i, i] if i == j else pairs[i, j] + pairs[j, i] for i, j in LOWER]
    value = np.concatenate([logged.mix - mix, entries])
    spread = np.sqrt(value @ lasting.population_covariance_ @ value + logged.error**2)
    wide = scipy.stats.norm.ppf(0.975)
    np.testing.assert_allclose(found.high - found.low, 2.0 * wide * spread, rtol=1e-9)


# Shares


def test_without_fading_the_mix_keeps_to_shares_and_is_proved(lasting):
    wide = alone(lasting, 60)
    best = lasting.arm_names_[int(wide.mix.argmax())]
    found = alone(lasting, 60, shares={best: (0.0, 0.3)})
    assert found.mix[wide.mix.argmax()] == pytest.approx(0.3)
    assert found.mix.sum() == pytest.approx(1.0)
    assert found.room == wide.room == 0.0
    assert found.loss > wide.loss
    assert "at most 30 %" in str(found)
    assert "no other plan with these shares is better (proved)" in str(found)
    assert found.to_json()["shares"] == {best: [0.0, 0.3]}


@pytest.mark.parametrize("horizon", [20, 400])
def test_a_schedule_keeps_to_shares_and_says_how_much_better_another_might_be(fading, horizon):
    wide = alone(fading, horizon)
    worst = fading.arm_names_[int(wide.mix.argmin())]
    shares = {worst: (0.5, 0.6)}
    found = alone(fading, horizon, shares=shares)
    assert 0.5 <= found.mix[wide.mix.argmin()] <= 0.6
    assert found.loss > wide.loss
    bound = ib.fading_lower_bound(fading.instance(), horizon, shares=shares)
    assert found.loss - found.room == pytest.approx(bound, rel=1e-9)
    size = wide.logged_loss - wide.loss
    assert 0.0 <= found.room < 0.5 * size, "what is proved is worth saying"


def test_halves_keep_to_shares_too(fading):
    found = plan(fading, tiring_log(), 40, shares={"0": (0.2, 0.25), "2": (0.3, 1.0)})
    assert 0.2 <= found.mix[0] <= 0.25
    assert found.mix[2] >= 0.3
    assert found.cross_fitted


def test_a_plan_that_cannot_be_proved_is_still_a_plan(fading, monkeypatch):
    def fail(*_, **__):
        raise NotCertified("too ill-conditioned")

    monkeypatch.setattr(plan_search, "fading_lower_bound", fail)
    assert alone(fading, 20).room is None


def test_shares_of_unknown_arms_and_that_cannot_be_kept_are_refused(fading, refused):
    with refused(InvalidInput, "'hat'", "'0'"):
        alone(fading, 20, shares={"hat": (0.1, 0.2)})
    with refused(InvalidInput, "7 rounds", "'0'", "more rounds"):
        alone(fading, 7, shares={"0": (0.3, 0.4)})


# The unit


def test_a_plan_speaks_the_unit_of_the_log():
    """Of clicks: more is better, and the gain is told in percent of the log's clicks, too."""
    world = ClickWorld(fatigue=0.3)
    events = draw_click_events(300, 40, 3, world, seed=0)
    log = ib.read_log(events, instance="user", arm="arm", time="time", reward="click")
    model = InfluenceModel("symmetric", fading=0.8, pooling="full").fit(log)
    found = plan(model, log, 40)
    data = found.to_json()
    assert data["unit"] == found.outcome.unit == "clicks"
    assert data["logged_outcome"] == pytest.approx(events["click"].mean(), abs=1e-9)
    assert data["outcome"] == pytest.approx(data["logged_outcome"] + found.gain, rel=1e-9)
    assert found.relative_gain == pytest.approx(found.gain / events["click"].mean(), rel=1e-9)
    text = str(found)
    assert f"clicks per round, {100 * found.relative_gain:+.2g} % clicks (95 %" in text
    assert f"the log had {events['click'].mean():.4g} clicks per round" in text
    assert "loss" not in text
    assert repr(found).endswith("clicks, cross-fitted)")


# Two halves judge each other


@pytest.fixture(scope="module")
def null_plans():
    """100 plans for logs without influence, all arms equal."""
    found = []
    for seed in range(100):
        log = ib.data.synthetic_log(40, 25, 3, seed=seed, memory=0.8)
        model = InfluenceModel(fading=0.8, pooling="full", ridge=10.0).fit(log, execution=1)
        found.append(plan(model, log, 50))
    return found


@pytest.mark.long
def test_where_all_arms_are_equal_the_interval_covers_zero_as_often_as_stated(null_plans):
    """At 95 % or more: the interval leaves out that both halves may agree; 99.9 % binomial."""
    assert all(found.cross_fitted for found in null_plans)
    covered = sum(found.low <= 0.0 <= found.high for found in null_plans)
    assert covered >= scipy.stats.binom.ppf(0.001, len(null_plans), 0.95), covered


@pytest.mark.long
def test_where_all_arms_are_equal_a_plan_is_rarely_supported(null_plans):
    """At most as often as a one-sided test at 2.5 % allows, 99.9 % binomial."""
    supported = sum(found.supported for found in null_plans)
    assert supported <= scipy.stats.binom.ppf(0.999, len(null_plans), 0.025), supported
    for found in null_plans:
        assert found.promise == found.low, "what all judges agree on"
        assert found.supported <= (found.promise > 0.0)
        assert any(UNSUPPORTED in warning for warning in found.warnings) != found.supported


@pytest.mark.long
def test_where_all_arms_are_equal_a_plan_that_judges_itself_is_flattered():
    """Which is why halves are there: without them, the mean gain is far above zero."""
    gains = []
    for seed in range(40):
        log = ib.data.synthetic_log(40, 25, 3, seed=seed, memory=0.8)
        model = InfluenceModel(fading=0.8, pooling="full", ridge=10.0).fit(log, execution=1)
        honest = plan(model, log, 50)
        gains.append([alone(model, 50, log).gain, honest.gain])
    flattered, honest = np.mean(gains, axis=0)
    error = np.std(gains, axis=0) / np.sqrt(len(gains))
    assert flattered > 5.0 * error[0]
    assert honest < 3.1 * error[1], "one-sided 0.1 %"


@pytest.mark.long
@pytest.mark.parametrize("memory", [0.8, 1.0])
def test_where_influence_is_strong_the_plan_is_supported_and_the_gain_is_the_truth(memory):
    """The truth lies within six standard errors: two halves plan a little worse than the whole."""
    matrix = np.array(TIRING) * (1.0 if memory < 1.0 else 0.3)
    # Without fading, 50 rounds go beyond a log of 40, which a richer model is less sure of.
    number = 120 if memory < 1.0 else 600
    settings = {"initial_loss": [0.0, 0.1, 0.3], "interaction": matrix, "memory": memory}
    log = ib.data.synthetic_log(number, 40, 3, seed=5, **settings)
    model = InfluenceModel(fading=memory, pooling="full", ridge=1.0).fit(log)
    found = plan(model, log, 50)
    assert found.supported
    truth = ib.Instance(matrix, [0.0, 0.1, 0.3], memory=memory)
    if memory == 1.0:
        gain = mixed_loss(truth, 50) - (truth.total_loss(ib.optimum(truth, 50).counts) / 50)
    else:
        schedule = find_schedule(truth, 50, repeats=False)
        mean = played(truth, schedule, 50).mean()
        gain = mixed_loss(truth, 50) - mean
    error = (found.high - found.low) / (2 * 1.96)
    assert abs(found.gain - gain) < 6.0 * error


@pytest.mark.long
def test_the_halves_swap_roles(fading):
    log = tiring_log()
    numbers = np.arange(log.n_instances)
    turned = log.take(np.concatenate([numbers[1::2], numbers[::2]]).reshape(2, -1).T.ravel())
    one, other = plan(fading, log, 50), plan(fading, turned, 50)
    np.testing.assert_allclose([one.gain, one.low], [other.gain, other.low], rtol=1e-9)


def test_halves_are_for_the_population_alone(own, fading):
    log = tiring_log()
    assert fit_halves(own, log) == [], "instances alone have nothing to share"
    assert fit_halves(fading, log.take(np.arange(3))) == []


def test_the_log_of_other_arms_is_refused(fading, refused):
    with refused(InvalidInput, "log must be the one"):
        plan(fading, ib.data.synthetic_log(5, 10, 2, seed=0), 10)


def test_a_plan_says_its_size_and_gain(fading):
    assert repr(alone(fading, 10)).startswith("Plan(10 rounds of 3 arms, gain ")


# Warnings


def warned(found, mention):
    return any(mention in warning for warning in found.warnings)


def test_every_caveat_is_a_warning(fading, lasting):
    assert warned(alone(fading, 10), FLATTERED)
    assert not warned(alone(fading, 10), EXTRAPOLATION)
    assert not warned(alone(fading, 10), WITH_DRIFT)
    assert warned(alone(lasting, 10), EXTRAPOLATION)
    found = plan(fading, tiring_log(), 10)
    assert found.supported
    assert found.warnings == ()


@pytest.mark.parametrize("pooling", ["full", "none"])
@pytest.mark.parametrize("drift", [0.0, 1.0])
def test_drift_is_a_warning_where_the_log_has_some(drift, pooling):
    model = InfluenceModel(fading=0.8, drift=True, pooling=pooling)
    log = tiring_log(drift=drift)
    advice = alone(model.fit(log), 10, log)
    assert warned(advice, WITH_DRIFT) == (drift > 0.0)


def test_a_log_that_does_not_determine_the_interaction_is_a_warning():
    log = ib.data.synthetic_log(3, 4, 2, seed=0, popularity=[1.0, 0.0])
    model = InfluenceModel(fading=0.8, ridge=0.0).fit(log)
    assert not model.determined_
    assert warned(alone(model, 10, log), "does not determine")


# Refusals


@pytest.mark.parametrize("model", [DriftModel(), StationaryModel()])
def test_a_model_without_influence_is_refused(model, refused):
    with refused(NotApplicable, type(model).__name__, "InfluenceModel"):
        plan(model.fit(tiring_log()), tiring_log(), 10)


@pytest.mark.parametrize("horizon", [0, -3, 1.5, "ten", None, True, 2**60])
def test_a_horizon_that_is_no_number_of_rounds_is_refused(horizon, fading, refused):
    with refused(InvalidInput, "horizon", str(horizon)):
        plan(fading, tiring_log(), horizon)


@pytest.mark.parametrize("days", [-1.0, np.nan, np.inf])
def test_no_time_between_rounds_is_refused(days, clocked, refused):
    with refused(InvalidInput, "days_between_rounds", str(days)):
        alone(clocked, 10, days_between_rounds=days)


# What is shown


@pytest.mark.parametrize("which", ["fading", "lasting"])
def test_a_plan_is_strict_json(which, request):
    found = alone(request.getfixturevalue(which), 30)
    data = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert data["horizon"] == 30
    assert list(data["mix"]) == list(found.arm_names)
    assert sum(data["mix"].values()) == pytest.approx(1.0)
    assert (data["schedule"] is None) == (which == "lasting")
    if data["schedule"] is not None:
        assert [found.arm_names[i] for i in found.schedule] == data["schedule"]
    for key in ("loss", "logged_loss", "gain", "low", "high"):
        assert data[key] == getattr(found, key)
    assert data["promise"] == found.promise < found.low
    assert (data["cross_fitted"], data["supported"]) == (False, found.supported)
    assert data["warnings"] == list(found.warnings)


@pytest.mark.long
def test_a_plan_in_words_names_arms_order_gain_and_caveats(fading):
    found = alone(fading, 1000)
    text = str(found)
    lines = text.splitlines()
    assert "1,000 rounds" in lines[0]
    top = found.arm_names[int(found.mix.argmax())]
    assert lines[1].split()[0] == top, "the largest share first"
    assert "repeating after 240" in text
    assert "95 % interval" in text
    assert "by the model itself" in text
    assert lines[-1].startswith("Warning: ")
    judged = str(plan(fading, tiring_log(), 10))
    assert "judged across two halves" in judged
    assert "Warning" not in judged


def test_arms_that_are_not_played_are_not_listed():
    log = ib.data.synthetic_log(100, 30, 2, initial_loss=[0.0, 5.0], memory=0.5, seed=0)
    found = alone(InfluenceModel(fading=0.5, pooling="full", ridge=10.0).fit(log), 20, log)
    assert found.mix.tolist() == [1.0, 0.0]
    assert len([line for line in str(found).splitlines() if line.startswith("  ")]) == 1


# Plans are judged against the log as it was


def personal_log(seed, instances=300, **settings):
    """People differ in what they like, and the log may know it."""
    settings = {"spread": 0.5, "memory": 0.8, "initial_loss": [0.5, 0.8, 0.6, 1.0]} | settings
    return ib.data.synthetic_log(instances, 40, 4, seed=seed, **settings)


def delivered_gain(log, found):
    """Without influence: the mean loss of what was chosen, less that of the plan, without noise."""
    losses = log.about["truth"].initial_losses
    chosen = losses[np.repeat(np.arange(log.n_instances), log.lengths), log.item]
    return chosen.mean() - losses.mean(axis=0) @ found.mix


@pytest.mark.parametrize(
    "kind",
    [
        "psd",
        pytest.param("symmetric", marks=pytest.mark.long),
        pytest.param("diagonal", marks=pytest.mark.long),
    ],
)
def test_where_choices_follow_taste_a_common_plan_promises_what_it_delivers(kind):
    """It loses, as the log knew what each one likes; the pooled fit would promise a gain."""
    for seed in (0, 1):
        log = personal_log(seed, taste=2.0)
        model = InfluenceModel(kind, fading=0.8, pooling="full").fit(log)
        found = plan(model, log, 40)
        assert delivered_gain(log, found) < 0.0
        assert found.low <= delivered_gain(log, found) <= found.high
        assert not found.supported
        assert warned(found, "follow taste")


@pytest.mark.long
def test_where_choices_follow_past_losses_the_log_is_better_than_its_mix():
    log = personal_log(3, steering=2.0)
    model = InfluenceModel("symmetric", fading=0.8, pooling="full").fit(log)
    found = plan(model, log, 40)
    assert found.calibrated is False
    assert not warned(found, "follow taste")
    assert warned(found, "taste is not ruled out")
    assert not found.supported
    assert "choices know more" in str(found)
    assert found.mean_loss == pytest.approx(log.loss.mean(), rel=1e-12)
    assert found.modelled_loss > found.mean_loss + 0.1
    assert found.low <= delivered_gain(log, found) <= found.high


@pytest.mark.long
def test_the_baseline_is_the_mean_of_the_log_for_rounds_as_many_as_it_has(fading, lasting):
    for model, memory in ((fading, 0.8), (lasting, 1.0)):
        scale = 1.0 if memory < 1.0 else 0.1
        log = tiring_log(memory, interaction=scale * np.array(TIRING))
        found = plan(model, log, 40)
        assert found.calibrated
        assert found.logged_loss == pytest.approx(log.loss.mean(), abs=1e-6)
        further = plan(model, log, 400)
        assert further.logged_loss > found.logged_loss, "influence grows on"


@pytest.mark.long
@pytest.mark.parametrize("which", ["fading", "lasting"])
def test_the_gain_is_that_of_arms_and_that_of_spacing(which, request):
    log = tiring_log(0.8 if which == "fading" else 1.0)
    found = plan(request.getfixturevalue(which), log, 40)
    assert found.gain_from_arms + found.gain_from_spacing == pytest.approx(found.gain, rel=1e-12)
    assert (found.gain_from_spacing == 0.0) == (which == "lasting")
    assert ("better spacing" in str(found)) == (which == "fading")


@pytest.mark.long
def test_spacing_alone_is_gained_where_arms_are_alike_and_met_in_bursts():
    """Bursts of one arm are what a schedule takes away: nearly all of the gain is spacing."""
    settings = {"interaction": 0.4 * np.eye(2), "memory": 0.6, "bursts": 0.6}
    log = ib.data.synthetic_log(300, 40, 2, seed=0, **settings)
    found = plan(InfluenceModel(fading=0.6, pooling="full").fit(log), log, 40)
    assert found.supported
    assert found.gain_from_spacing > 0.75 * found.gain


@pytest.mark.long
def test_a_diagonal_plan_is_judged_by_what_arms_do_to_each_other():
    """Arms 0 and 1 tire each other and not themselves: the diagonal fit sees none of it."""
    A = np.array([[0.0, 0.3, 0.0], [0.3, 0.0, 0.0], [0.0, 0.0, 0.0]])
    log = ib.data.synthetic_log(400, 40, 3, interaction=A, memory=0.8, seed=1)
    found = plan(InfluenceModel("diagonal", fading=0.8, pooling="full").fit(log), log, 40)
    world = ib.Instance(A, np.zeros(3), memory=0.8, definite=False)
    delivered = log.loss.mean() - played(world, found.schedule, 40).mean()
    assert found.low <= delivered <= found.high


def test_a_log_of_few_instances_supports_nothing():
    log = tiring_log().take(np.arange(24))
    found = plan(InfluenceModel(fading=0.8, pooling="full").fit(log), log, 40)
    assert found.cross_fitted
    assert not found.supported
    assert warned(found, "too few instances")


def short_log(seed):
    """Histories of eight events whose choices follow taste and past losses, in bursts."""
    A = ib.data.planted_interaction(5, 0.3, seed)
    settings = {"spread": 0.5, "taste": 1.0, "steering": 1.0, "bursts": 0.3}
    return ib.data.synthetic_log(900, 8, 5, interaction=A, memory=0.8, seed=seed, **settings)


@pytest.mark.long
@pytest.mark.parametrize(("seed", "clear"), [(6, True), (2, False)])
def test_short_histories_that_do_not_rule_taste_out_support_nothing(seed, clear):
    """Of seed 2, users do not seem to meet early what they like, but nobody could tell it."""
    log = short_log(seed)
    model = InfluenceModel("symmetric", fading=0.8, pooling="full").fit(log)
    assert [len(half.taste) for half in fit_halves(model, log)] == [2, 2]
    found = plan(model, log, 8)
    assert not found.supported
    assert warned(found, "follow taste") == clear
    assert warned(found, "taste is not ruled out") == (not clear)


@pytest.mark.long
@pytest.mark.parametrize("settings", [{}, {"taste": 2.0}, {"steering": 2.0}], ids=str)
def test_promises_are_kept(settings):
    """Twenty worlds, without influence, whose gain is exact: 95 %, to the 99.9 % binomial."""
    kept, lost = 0, 0
    for seed in range(20):
        log = personal_log(100 + seed, **settings)
        model = InfluenceModel("symmetric", fading=0.8, pooling="full").fit(log, execution=1)
        found = plan(model, log, 40, execution=1)
        gain = delivered_gain(log, found)
        kept += found.low <= gain <= found.high
        lost += found.supported and gain < found.promise
    assert kept >= scipy.stats.binom.ppf(0.001, 20, 0.95)
    assert lost == 0, "one of 1,000 may be, so that this fails for one seed of 50"


# What a plan promises, and when nothing is promised


def delivered_by(log, found, memory):
    """Gain in the true world with influence: the log without its noise, less the plan, played."""
    truth = log.about["truth"]
    arms, losses = len(truth.initial_loss), []
    logged = log.item.reshape(log.n_instances, -1)
    for choices in (logged, np.tile(np.resize(found.schedule, 40), (log.n_instances, 1))):
        rows, past = np.arange(log.n_instances), np.zeros((log.n_instances, arms))
        total = 0.0
        for arm in choices.T:
            total += truth.initial_losses[rows, arm].mean()
            total += (truth.interaction[arm] * past).sum(axis=1).mean()
            past *= memory
            past[rows, arm] += 1.0
        losses.append(total / choices.shape[1])
    return losses[0] - losses[1]


@pytest.mark.long
@pytest.mark.parametrize(
    ("memory", "settings"),
    [(0.8, {}), (0.8, {"taste": 1.0, "steering": 1.0, "bursts": 0.3}), (0.95, {})],
    ids=["as drawn", "follow taste, in bursts", "a memory too short"],
)
def test_no_supported_plan_delivers_less_than_it_promises(memory, settings):
    """20 worlds with influence, of which one fails by chance in one of 50 choices of seeds."""
    supported, broken = 0, 0
    for seed in range(20):
        A = ib.data.planted_interaction(4, 0.3 if memory == 0.8 else 0.15, 500 + seed)
        log = personal_log(500 + seed, memory=memory, interaction=A, **settings)
        model = InfluenceModel("symmetric", fading=0.8 if memory == 0.8 else 0.6, pooling="full")
        found = plan(model.fit(log, execution=1), log, 40, execution=1)
        supported += found.supported
        broken += found.supported and delivered_by(log, found, memory) < found.promise
    assert broken == 0
    if memory == 0.8 and not settings:
        assert supported >= 5, "what is worthwhile is still found"


@pytest.mark.long
def test_a_promise_is_the_end_at_its_level(fading):
    found = alone(fading, 20)
    error = (found.high - found.low) / 2.0 / scipy.stats.norm.isf(0.025)
    expected = found.gain - scipy.stats.norm.isf(module.BROKEN) * error
    assert found.promise == pytest.approx(expected, rel=1e-9)
    supported = plan(fading, tiring_log(), 20)
    assert f"Promised: at least {supported.promise:.4g}" in str(supported)


def test_an_interval_holds_what_every_judge_thinks_possible():
    """Ends of the worst verdict and of the best; few degrees of freedom widen them."""
    wide, far = scipy.stats.norm.isf(0.025), scipy.stats.norm.isf(0.001)
    halves, own = module.Verdict(1.0, 0.04, 0.0), module.Verdict(0.4, 0.04, 0.0)
    sure, unsure = module.Verdict(1.0, 0.01, 0.0), module.Verdict(0.8, 0.09, 0.0)
    for opinions, low, high in (
        ([(halves, halves, np.inf, 0.001)], 1.0 - 0.2 * far, 1.0 + 0.2 * wide),
        ([(halves, halves, 10.0, 0.001)], 1.0 - 0.2 * scipy.stats.t.isf(0.001, 10), None),
        ([(halves, own, np.inf, 0.025)], 0.4 - 0.2 * wide, 1.0 + 0.2 * wide),
        ([(v, v, np.inf, 0.025) for v in (sure, unsure)], 0.8 - 0.3 * wide, 0.8 + 0.3 * wide),
    ):
        span = module.span_opinions([module.Opinion(*opinion) for opinion in opinions])
        assert span[0] == pytest.approx(low, rel=1e-9)
        assert high is None or span[1] == pytest.approx(high, rel=1e-9)


def test_the_best_of_several_plans_is_taken(fading):
    pace = plan_search.Pace(0.8, 1.25)
    search = plan_search.Search("psd", pace, 20)
    world = fading.initial_loss_, fading.interaction_
    best = search.best(*world)
    poor = search.best(-world[0], world[1])
    assert search.choose([poor, best], *world) is best
    assert search.choose([best, poor], *world) is best
    assert search.choose([best, best], *world) is best


@pytest.mark.long
@pytest.mark.parametrize(
    ("memory", "fitted", "mention"),
    [(0.95, 0.5, "last longer"), (0.3, 0.9, "fade faster"), (0.8, 0.8, None)],
)
def test_a_memory_that_the_log_contradicts_supports_nothing(memory, fitted, mention):
    log = tiring_log(memory, seed=2)
    found = plan(InfluenceModel("symmetric", fading=fitted, pooling="full").fit(log), log, 40)
    assert warned(found, "contradicts the model") == (mention is not None)
    if mention is not None:
        assert warned(found, mention)
        assert not found.supported


def test_influence_that_is_no_straight_line_supports_nothing():
    """Losses get the square of how often the arm was met lately on top."""
    log = tiring_log(0.8, seed=2)
    events = log.to_frame()
    counts, extra = np.zeros(3), []
    for n, arm in enumerate(log.item):
        if n in set(log.offsets.tolist()):
            counts[:] = 0.0
        extra.append(0.2 * counts[arm] ** 2)
        counts *= 0.8
        counts[arm] += 1.0
    events["loss"] = events["loss"] + np.array(extra)
    curved = ib.read_log(events, instance="instance", arm="item", time="time", loss="loss")
    found = plan(InfluenceModel("symmetric", fading=0.8, pooling="full").fit(curved), curved, 40)
    assert warned(found, "no straight line")
    assert not found.supported
