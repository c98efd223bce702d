"""Plans: the optimum of the learned world, what they promise, and when not to believe them.

Everything is seeded. Rates are tested to the 99.9 % interval of the binomial distribution.
"""

import itertools
import json

import numpy as np
import pytest
import scipy.stats

import influential_bandits as ib
from influential_bandits.errors import InvalidInput, NotApplicable
from influential_bandits.learning import planning as module
from influential_bandits.learning.models import DriftModel, InfluenceModel, StationaryModel
from influential_bandits.learning.planning import best_schedule, plan, schedule_loss
from influential_bandits.studies.logs.sections import halves_of

TIRING = [[0.5, 0.1, 0.0], [0.1, 0.2, 0.0], [0.0, 0.0, 0.05]]
FLATTERED = "the gain is judged by the same data"
UNSUPPORTED = "does not support this plan"
EXTRAPOLATION = "memory = 1"
WITH_DRIFT = "the model has drift"


def tiring_log(memory=0.8, seed=0, **settings):
    """Arms that tire; the best one tires most."""
    settings = {"initial_loss": [0.0, 0.1, 0.3], "interaction": TIRING} | settings
    return ib.data.synthetic_log(120, 40, 3, memory=memory, seed=seed, **settings)


@pytest.fixture(scope="module")
def fading():
    return InfluenceModel(memory=0.8, pooled=True, ridge=1.0).fit(tiring_log())


@pytest.fixture(scope="module")
def lasting():
    log = tiring_log(1.0, interaction=0.1 * np.array(TIRING))
    return InfluenceModel(memory=1.0, pooled=True, ridge=1.0).fit(log)


@pytest.fixture(scope="module")
def clocked():
    log = tiring_log(1.0, half_life=2.0)
    return InfluenceModel(half_life=2.0, pooled=True, ridge=1.0).fit(log)


@pytest.fixture(scope="module")
def own():
    """Each instance with its own matrix."""
    return InfluenceModel(memory=0.8, ridge=10.0).fit(tiring_log(interaction_spread=0.05))


def shares(schedule, arms):
    return np.bincount(schedule, minlength=arms) / len(schedule)


def played(instance, schedule, rounds):
    """Loss of each round when a schedule is repeated, from the start."""
    environment = ib.Environment(instance)
    return np.array([environment.pull(int(schedule[t % len(schedule)])) for t in range(rounds)])


def long_run(matrix, loss, memory, schedule):
    """Loss per round of a repeated schedule, from sums over all ages: slow and obviously right."""
    length, total = len(schedule), 0.0
    for n, arm in enumerate(schedule):
        total += loss[arm]
        for k in range(1, length + 1):  # γ^(k − 1) + γ^(k − 1 + length) + …
            before = schedule[(n - k) % length]
            total += matrix[before, arm] * memory ** (k - 1) / (1.0 - memory**length)
    return total / length


def greedy(matrix, loss, memory, length):
    deviation, out = np.zeros(len(loss)), []
    for _ in range(length):
        out.append(int(np.argmin(loss + deviation)))
        deviation = memory * deviation + matrix[out[-1]]
    return out


def random_worlds(seed, worlds):
    """Small worlds: interaction, initial loss, memory, and the length of a schedule."""
    random = np.random.default_rng(seed)
    for _ in range(worlds):
        arms, length = int(random.integers(2, 4)), int(random.integers(2, 7))
        factor = random.normal(size=(arms, arms))
        memory = float(random.choice([0.2, 0.5, 0.8, 0.9, 0.98]))
        yield factor @ factor.T, random.normal(size=arms), memory, length


# Memory 1: the order does not matter


@pytest.mark.parametrize("horizon", [1, 7, 100, 10_000])
def test_without_fading_the_mix_is_the_optimum_of_the_learned_instance(horizon, lasting):
    found = plan(lasting, horizon)
    instance = lasting.instance()
    counts = ib.optimum(instance, horizon).counts
    assert found.schedule is None
    np.testing.assert_array_equal(found.mix, counts / horizon)
    np.testing.assert_allclose(found.loss, instance.total_loss(counts) / horizon, rtol=1e-9)
    assert found.loss <= found.logged_loss + 1e-12


def test_without_fading_the_logged_mix_is_what_random_draws_lose(lasting):
    """Exactly: all sequences of six rounds, each with its probability."""
    mix, instance = np.array([0.5, 0.3, 0.2]), lasting.instance()
    expected = sum(
        mix[list(arms)].prod() * instance.total_loss(np.bincount(arms, minlength=3))
        for arms in itertools.product(range(3), repeat=6)
    )
    found = plan(lasting, 6, logged_mix=mix)
    np.testing.assert_allclose(found.logged_loss, expected / 6, rtol=1e-9)


# Memory below 1: a schedule


@pytest.mark.parametrize("memory", [0.05, 0.5, 0.9, 0.99])
@pytest.mark.parametrize("length", [1, 2, 5, 17])
def test_the_weights_of_a_schedule_are_those_of_playing_it(memory, length):
    random = np.random.default_rng(length)
    factor, loss = random.normal(size=(3, 3)), random.normal(size=3)
    instance = ib.Instance(factor @ factor.T, loss, memory=memory)
    schedule = random.integers(0, 3, length)
    rounds = 40 * length
    weights = module._schedule_weights(schedule, memory, 3, rounds)
    expected = loss @ shares(schedule, 3) + (instance.interaction.to_dense() * weights).sum()
    np.testing.assert_allclose(expected, played(instance, schedule, rounds).mean(), rtol=1e-9)


@pytest.mark.parametrize("memory", [0.05, 0.5, 0.9])
def test_a_schedule_played_long_loses_what_it_loses_for_ever(memory):
    random = np.random.default_rng(1)
    factor, loss = random.normal(size=(3, 3)), random.normal(size=3)
    matrix, schedule = factor @ factor.T, random.integers(0, 3, 5)
    rounds = module.LONG_RUN
    weights = module._schedule_weights(schedule, memory, 3, rounds)
    expected = loss @ shares(schedule, 3) + (matrix * weights).sum()
    # The start takes 1/(1 − γ) rounds, of losses that differ by at most max|A|/(1 − γ).
    slack = np.abs(matrix).max() / (1.0 - memory) ** 2 / rounds
    assert abs(expected - long_run(matrix, loss, memory, schedule)) <= 2.0 * slack


def test_the_promised_losses_are_those_of_playing_the_plan_and_the_logged_mix(fading):
    mix = np.array([0.6, 0.3, 0.1])
    found = plan(fading, 50, logged_mix=mix)
    assert len(found.schedule) == 50
    np.testing.assert_array_equal(found.mix, shares(found.schedule, 3))
    losses = played(fading.instance(), found.schedule, 50)
    np.testing.assert_allclose(found.loss, losses.mean(), rtol=1e-9)
    # 800 draws of fifty rounds; losses have a standard deviation below 2 and fade within 30 rounds,
    # so that the standard error is below 2·√(10/40,000) ≈ 0.03: five of them.
    random = np.random.default_rng(0)
    drawn = [played(fading.instance(), random.choice(3, 50, p=mix), 50).mean() for _ in range(800)]
    assert abs(np.mean(drawn) - found.logged_loss) < 0.15


@pytest.mark.parametrize("memory", [0.98, 0.999999])
def test_the_promised_losses_are_those_of_the_horizon(memory):
    """As with memory 1, which is the limit: fifty rounds from the start."""
    world = ib.Instance(np.diag([0.05, 0.01]), [0.0, 0.5], memory=memory)
    mix, schedule = module._best(world, 50)
    promised = module._loss(world, 50, mix, schedule)
    assert promised == pytest.approx(played(world, schedule, 50).mean(), rel=1e-9)


def test_a_long_plan_repeats_after_a_period(fading):
    found = plan(fading, 10**9)
    assert len(found.schedule) == module.PERIOD
    assert found.horizon == 10**9


def short_schedules(worlds=120):
    """Loss per round of the schedule found, of the greedy one, of the best; and the scale."""
    rows = []
    for matrix, loss, memory, length in random_worlds(0, worlds):

        def lost(schedule, world=(matrix, loss, memory)):
            return long_run(*world, schedule)

        every = [lost(s) for s in itertools.product(range(len(loss)), repeat=length)]
        found = module._schedule(matrix, loss, memory, length, True)
        start = greedy(matrix, loss, memory, length)
        rows.append([lost(found), lost(start), min(every), max(every)])
    return np.array(rows).T


def test_a_schedule_is_never_worse_than_the_greedy_one_it_starts_from():
    found, start, _, worst = short_schedules()
    assert (found <= start + 1e-9 * (1.0 + np.abs(worst))).all(), (found - start).max()


def test_short_schedules_are_close_to_the_best_of_all():
    """Against exhaustive search: mostly optimal, and never far off.

    A local search that counts all repeats finds the best of all in nine worlds of ten, and loses at
    most 0.27 of what lies between the best and the worst schedule.
    """
    found, _, best, worst = short_schedules()
    lost = (found - best) / np.maximum(worst - best, 1e-12)
    assert (lost < 1e-9).mean() >= 0.85
    assert lost.mean() <= 0.01
    assert lost.max() <= 0.3


def test_a_short_memory_schedule_is_close_to_the_best_of_all():
    """With γ^length ≪ 1 later repeats hardly matter."""
    gaps = []
    for matrix, loss, _, _ in random_worlds(1, 40):
        schedule = module._schedule(matrix, loss, 0.2, 6, True)
        every = [
            long_run(matrix, loss, 0.2, s) for s in itertools.product(range(len(loss)), repeat=6)
        ]
        span = max(every) - min(every)
        gaps.append((long_run(matrix, loss, 0.2, schedule) - min(every)) / span)
    assert np.mean(np.array(gaps) < 1e-9) >= 0.7
    assert max(gaps) <= 0.3


def test_a_plan_takes_the_period_that_is_set(fading, monkeypatch):
    monkeypatch.setattr(module, "PERIOD", 6)
    found = plan(fading, 100)
    assert len(found.schedule) == 6
    world = fading.instance()
    matrix, loss = world.interaction.to_dense(), world.initial_loss
    every = [long_run(matrix, loss, 0.8, s) for s in itertools.product(range(3), repeat=6)]
    assert found.loss <= min(every) + 0.1 * (max(every) - min(every))


def test_an_arm_that_tires_is_spaced(fading):
    """The arm that tires fast is not played twice in a row by a plan that has two good ones."""
    log = ib.data.synthetic_log(200, 50, 2, interaction=0.5 * np.eye(2), memory=0.6, seed=3)
    found = plan(InfluenceModel(memory=0.6, pooled=True, ridge=1.0).fit(log), 40)
    assert abs(found.mix[0] - 0.5) <= 0.05
    assert (np.diff(found.schedule) != 0).mean() > 0.9
    assert plan(fading, 40).mix[0] < 0.6


# The gain is linear in the coefficients


@pytest.mark.parametrize("kind", ["psd", "symmetric", "diagonal"])
@pytest.mark.parametrize("drift", [False, True])
@pytest.mark.parametrize("memory", [0.8, 1.0])
def test_the_gain_is_the_difference_of_the_losses(kind, drift, memory):
    log = tiring_log(memory, interaction=0.2 * np.array(TIRING))
    model = InfluenceModel(kind, memory=memory, drift=drift, pooled=True, ridge=1.0).fit(log)
    found = plan(model, 60, logged_mix=[5, 3, 2])
    assert not found.cross_fitted
    np.testing.assert_allclose(found.gain, found.logged_loss - found.loss, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(found.gain, 0.5 * (found.low + found.high), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("days", [None, 0.0, 0.5, 3.0])
def test_the_gain_is_the_difference_of_the_losses_by_the_clock(clocked, days):
    found = plan(clocked, 60, days_between_rounds=days)
    assert (found.schedule is None) == (days == 0.0)
    np.testing.assert_allclose(found.gain, found.logged_loss - found.loss, rtol=1e-6, atol=1e-9)


def test_rounds_far_apart_leave_no_influence(clocked):
    """After a thousand half-lives, the arm of the smallest initial loss is best for ever."""
    found = plan(clocked, 10, days_between_rounds=2000.0)
    best = clocked.initial_loss_.argmin()
    assert found.mix[best] == 1.0
    np.testing.assert_allclose(found.loss, clocked.initial_loss_[best], rtol=1e-6)


def test_the_interval_is_that_of_the_linear_functional(lasting):
    found = plan(lasting, 60)
    world = lasting.instance()
    value = module._functional(world, lasting, 60, found.mix, None, found.logged_mix)
    spread = np.sqrt(value @ lasting.population_covariance_ @ value)
    wide = scipy.stats.norm.ppf(0.975)
    np.testing.assert_allclose(found.high - found.low, 2.0 * wide * spread, rtol=1e-9)


# One instance


def test_a_plan_for_one_instance_is_made_in_its_own_world(own):
    mixes = set()
    for label in own.instances_[:10]:
        found = plan(own, 40, instance=label)
        world = own.instance(label)
        schedule = module._schedule(
            world.interaction.to_dense(), world.initial_loss, world.memory, 40, False
        )
        np.testing.assert_array_equal(found.schedule, schedule)
        np.testing.assert_allclose(found.gain, found.logged_loss - found.loss, rtol=1e-6, atol=1e-9)
        assert not found.cross_fitted
        mixes.add(tuple(found.mix))
    assert len(mixes) > 1, "instances differ"


def test_an_instance_may_be_named_by_its_number(own):
    one, other = plan(own, 10, instance=3), plan(own, 10, instance="3")
    assert one.to_json() == other.to_json()


# Two halves judge each other


@pytest.fixture(scope="module")
def null_plans():
    """200 plans for logs without influence, all arms equal."""
    found = []
    for seed in range(200):
        log = ib.data.synthetic_log(40, 25, 3, seed=seed, memory=0.8)
        model = InfluenceModel(memory=0.8, pooled=True, ridge=10.0, threads=1).fit(log)
        found.append(plan(model, 50, halves=halves_of(log, model)))
    return found


def test_where_all_arms_are_equal_the_interval_covers_zero_as_often_as_stated(null_plans):
    """At 95 % or more: the interval leaves out that both halves may agree; 99.9 % binomial."""
    assert all(found.cross_fitted for found in null_plans)
    covered = sum(found.low <= 0.0 <= found.high for found in null_plans)
    assert covered >= scipy.stats.binom.ppf(0.001, len(null_plans), 0.95), covered


def test_where_all_arms_are_equal_a_plan_is_rarely_supported(null_plans):
    """At most as often as a one-sided test at 2.5 % allows, 99.9 % binomial."""
    supported = sum(found.supported for found in null_plans)
    assert supported <= scipy.stats.binom.ppf(0.999, len(null_plans), 0.025), supported
    for found in null_plans:
        assert found.supported == (found.low > 0.0)
        assert any(UNSUPPORTED in warning for warning in found.warnings) != found.supported


def test_where_all_arms_are_equal_a_plan_that_judges_itself_is_flattered():
    """Which is why halves are there: without them, the mean gain is far above zero."""
    gains = []
    for seed in range(40):
        log = ib.data.synthetic_log(40, 25, 3, seed=seed, memory=0.8)
        model = InfluenceModel(memory=0.8, pooled=True, ridge=10.0, threads=1).fit(log)
        honest = plan(model, 50, halves=halves_of(log, model))
        gains.append([plan(model, 50).gain, honest.gain])
    flattered, honest = np.mean(gains, axis=0)
    error = np.std(gains, axis=0) / np.sqrt(len(gains))
    assert flattered > 5.0 * error[0]
    assert honest < 3.1 * error[1], "one-sided 0.1 %"


@pytest.mark.parametrize("memory", [0.8, 1.0])
def test_where_influence_is_strong_the_plan_is_supported_and_the_gain_is_the_truth(memory):
    """The truth lies within six standard errors: two halves plan a little worse than the whole."""
    matrix = np.array(TIRING) * (1.0 if memory < 1.0 else 0.3)
    log = tiring_log(memory, seed=5, interaction=matrix)
    model = InfluenceModel(memory=memory, pooled=True, ridge=1.0).fit(log)
    found = plan(model, 50, halves=halves_of(log, model))
    assert found.supported
    truth = ib.Instance(matrix, [0.0, 0.1, 0.3], memory=memory)
    if memory == 1.0:
        gain = module._mixed_loss(truth, 50, np.full(3, 1 / 3)) - (
            truth.total_loss(ib.optimum(truth, 50).counts) / 50
        )
    else:
        schedule = module._schedule(matrix, truth.initial_loss, memory, 50, False)
        mean = played(truth, schedule, 50).mean()
        gain = module._mixed_loss(truth, 50, np.full(3, 1 / 3)) - mean
    error = (found.high - found.low) / (2 * 1.96)
    assert abs(found.gain - gain) < 6.0 * error


def test_the_halves_swap_roles(fading):
    log = tiring_log()
    halves = halves_of(log, fading)
    one, other = plan(fading, 50, halves=halves), plan(fading, 50, halves=halves[::-1])
    np.testing.assert_allclose([one.gain, one.low], [other.gain, other.low], rtol=1e-12)


def test_halves_are_for_the_population_alone(own):
    halves = halves_of(tiring_log(), InfluenceModel(memory=0.8, pooled=True))
    assert not plan(own, 10, instance="0", halves=halves).cross_fitted
    assert halves_of(tiring_log(), own) == [], "instances alone have nothing to share"
    assert halves_of(tiring_log().take(np.arange(3)), InfluenceModel(pooled=True)) == []


# Warnings


def warned(found, mention):
    return any(mention in warning for warning in found.warnings)


def test_every_caveat_is_a_warning(fading, lasting):
    assert warned(plan(fading, 10), FLATTERED)
    assert not warned(plan(fading, 10), EXTRAPOLATION)
    assert not warned(plan(fading, 10), WITH_DRIFT)
    assert warned(plan(lasting, 10), EXTRAPOLATION)
    halves = halves_of(tiring_log(), fading)
    found = plan(fading, 10, halves=halves)
    assert found.supported
    assert found.warnings == ()
    drifting = InfluenceModel(memory=0.8, drift=True, pooled=True).fit(tiring_log())
    assert warned(plan(drifting, 10), WITH_DRIFT)


def test_a_log_that_does_not_determine_the_interaction_is_a_warning():
    log = ib.data.synthetic_log(3, 4, 2, seed=0, popularity=[1.0, 0.0])
    model = InfluenceModel(memory=0.8, ridge=0.0).fit(log)
    assert not model.determined_
    assert warned(plan(model, 10), "does not determine")


# Refusals


@pytest.mark.parametrize("model", [DriftModel(), StationaryModel()])
def test_a_model_without_influence_is_refused(model, refused):
    with refused(NotApplicable, type(model).__name__, "InfluenceModel"):
        plan(model.fit(tiring_log()), 10)


def test_a_free_interaction_is_refused(refused):
    with refused(NotApplicable, "free", "symmetric"):
        plan(InfluenceModel("free", pooled=True).fit(tiring_log()), 10)


@pytest.mark.parametrize("horizon", [0, -3, 1.5, "ten", None, True, 2**60])
def test_a_horizon_that_is_no_number_of_rounds_is_refused(horizon, fading, refused):
    with refused(InvalidInput, "horizon", str(horizon)):
        plan(fading, horizon)


def test_an_unknown_instance_is_refused(fading, refused):
    with refused(InvalidInput, "'nobody'", "120 instances"):
        plan(fading, 10, instance="nobody")


@pytest.mark.parametrize(
    "mix",
    [[1, 2], [1, 2, 3, 4], [[1, 2, 3]], [1, 1, -1], [0, 0, 0], [np.nan, 1, 1], [1, 1, np.inf]],
)
def test_a_logged_mix_that_is_none_is_refused(mix, fading, refused):
    with refused(InvalidInput, "logged_mix", "3 shares"):
        plan(fading, 10, logged_mix=mix)


@pytest.mark.parametrize("mix", ["abc", [[1], [2, 3], [4]]])
def test_a_logged_mix_of_no_numbers_is_refused(mix, fading, refused):
    with refused(InvalidInput, "logged_mix"):
        plan(fading, 10, logged_mix=mix)


def test_a_logged_mix_may_be_counts(fading):
    found = plan(fading, 10, logged_mix=[30, 50, 20])
    np.testing.assert_allclose(found.logged_mix, [0.3, 0.5, 0.2], rtol=1e-12)
    np.testing.assert_allclose(plan(fading, 10).logged_mix, 1 / 3, rtol=1e-12)


@pytest.mark.parametrize("days", [-1.0, np.nan, np.inf])
def test_no_time_between_rounds_is_refused(days, clocked, refused):
    with refused(InvalidInput, "days_between_rounds", str(days)):
        plan(clocked, 10, days_between_rounds=days)


# What is shown


@pytest.mark.parametrize("which", ["fading", "lasting"])
def test_a_plan_is_strict_json(which, request):
    found = plan(request.getfixturevalue(which), 30)
    data = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert data["horizon"] == 30
    assert list(data["mix"]) == list(found.arms)
    assert sum(data["mix"].values()) == pytest.approx(1.0)
    assert (data["schedule"] is None) == (which == "lasting")
    if data["schedule"] is not None:
        assert [found.arms[i] for i in found.schedule] == data["schedule"]
    for key in ("loss", "logged_loss", "gain", "low", "high"):
        assert data[key] == getattr(found, key)
    assert (data["cross_fitted"], data["supported"]) == (False, found.supported)
    assert data["warnings"] == list(found.warnings)


def test_a_plan_in_words_names_arms_order_gain_and_caveats(fading):
    text = str(plan(fading, 1000, logged_mix=[0.2, 0.3, 0.5]))
    lines = text.splitlines()
    assert "1,000 rounds" in lines[0]
    found = plan(fading, 1000)
    top = found.arms[int(found.mix.argmax())]
    assert lines[1].split()[0] == top, "the largest share first"
    assert f"repeating after {module.PERIOD}" in text
    assert "95 % interval" in text
    assert "by the model itself" in text
    assert lines[-1].startswith("Warning: ")
    judged = str(plan(fading, 10, halves=halves_of(tiring_log(), fading)))
    assert "judged across two halves" in judged
    assert "Warning" not in judged


def test_a_plan_in_words_has_no_order_where_there_is_none(lasting):
    assert "order" not in str(plan(lasting, 100))


def test_arms_that_are_not_played_are_not_listed():
    log = ib.data.synthetic_log(100, 30, 2, initial_loss=[0.0, 5.0], memory=0.5, seed=0)
    found = plan(InfluenceModel(memory=0.5, pooled=True, ridge=10.0).fit(log), 20)
    assert found.mix.tolist() == [1.0, 0.0]
    assert len([line for line in str(found).splitlines() if line.startswith("  ")]) == 1


# Schedules for a world that is known


def test_the_loss_of_a_schedule_is_that_of_playing_it():
    for world in known_worlds():
        rounds = [1, 0, 0, 2, 1]
        assert schedule_loss(world, rounds, 37) == pytest.approx(played(world, rounds, 37).sum())


def known_worlds(memories=(0.5, 0.9, 0.99)):
    for seed in range(5):
        paper = ib.random_instance(3, seed)
        for memory in memories:
            yield ib.Instance(paper.interaction, paper.initial_loss, memory=memory)


def test_the_best_schedule_found_is_no_worse_than_any_short_one():
    periods = [list(s) for n in range(1, 6) for s in itertools.product(range(3), repeat=n)]
    worse = []
    for world in known_worlds((0.5, 0.9)):
        matrix, loss = world.interaction.to_dense(), world.initial_loss
        found = long_run(matrix, loss, world.memory, best_schedule(world))
        best = min(long_run(matrix, loss, world.memory, np.array(s)) for s in periods)
        worse.append(found - best)
    assert max(worse) <= 0.01
    assert np.mean(worse) <= 1e-9, "longer periods gain more than the search misses"


def test_a_schedule_is_as_long_as_it_may_be():
    world = next(known_worlds())
    assert len(best_schedule(world, longest=1)) == 1
    assert len(best_schedule(world, longest=3)) <= 3


def test_schedules_are_for_worlds_that_forget(refused):
    with refused(NotApplicable, "memory = 1"):
        best_schedule(ib.counterexample())


@pytest.mark.parametrize("bad", [[], [3], [-1], ["x"], [[0]], None])
def test_a_schedule_of_no_arms_is_refused(bad, refused):
    with refused(InvalidInput, "a schedule must be arms 0 … 2"):
        schedule_loss(next(known_worlds()), bad, 10)
