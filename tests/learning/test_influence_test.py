"""The test of influence: its level, its power, what it leaves alone, and what it refuses.

Everything is seeded. Levels are tested to the 99.9 % interval of the binomial distribution.
"""

import json
import math
from functools import cache

import numpy as np
import pytest
import scipy.stats

import influential_bandits as ib
from docs.measurements.click_events import ClickWorld, draw_click_events
from docs.measurements.self_fatigue import draw_clicks, draw_ratings
from influential_bandits.datasets.synthetic import planted_interaction, synthetic_log
from influential_bandits.errors import InvalidInput, InvalidLog, NotApplicable
from influential_bandits.learning.influence_test import influence_test
from influential_bandits.learning.influence_test_result import (
    InfluenceTest,
    PairEstimate,
    ScoreTest,
)
from influential_bandits.learning.kalman import Components
from influential_bandits.learning.placebo import Placebo
from influential_bandits.learning.score_regression import find_p_value
from influential_bandits.logs.log import EventLog, sort_into_log
from influential_bandits.logs.membership import Membership
from influential_bandits.logs.reading import read_log

LEVEL = 0.05
SCENARIOS = {
    "plain": {"spread": 0.3},
    "drift and bursts": {"spread": 0.3, "drift": 0.5, "bursts": 0.5},
    "steering": {"spread": 0.3, "drift": 0.5, "bursts": 0.3, "steering": 1.5},
    "taste": {"spread": 0.3, "drift": 0.5, "bursts": 0.3, "taste": 2.0},
}
HARD = {"drift": 0.5, "spread": 0.3, "bursts": 0.3, "steering": 1.0, "memory": 0.8}


def false_alarm_rates(scenario, replications, instances=40, events=24, arms=3, flips=99):
    """Return how often logs without influence give p ≤ 5 %: on themselves, on each other, overall.

    And how often an arm on itself stands out, and a pair of arms.
    """
    alarms = np.zeros(5)
    for seed in range(replications):
        log = synthetic_log(instances, events, arms, seed=1000 + seed, **SCENARIOS[scenario])
        found = influence_test(log, permutations=flips, seed=seed, execution=1)
        p_values = [found.self_influence.p_value, found.cross_influence.p_value, found.p_value]
        p_values += [
            min(p.p_adjusted for p in found.pairs if (p.arm == p.other) == same)
            for same in (True, False)
        ]
        alarms += np.array(p_values) <= LEVEL
    return alarms / replications


# Level


@pytest.mark.long
@pytest.mark.parametrize("scenario", ["plain", "drift and bursts", "steering"])
def test_false_alarms_are_as_many_as_promised(scenario):
    """All rates, each of which would fail for a right test with probability 0.001."""
    replications = 200
    low, high = scipy.stats.binom.interval(0.999, replications, LEVEL)
    rates = replications * false_alarm_rates(scenario, replications)
    assert (rates[:2] >= low).all(), rates
    assert (rates <= high).all(), rates  # adjusted p-values may be conservative


def shuffled_p_value(arm, loss, shuffles, rng, memory=0.8):
    """Return the p-value of own counts against losses, by shuffling the order of events.

    ``arm`` and ``loss`` are (instances, events). Losses are taken relative to the instance's own
    mean of the arm, which no shuffling changes.
    """
    arms = arm.max() + 1
    own = np.eye(arms)[arm]
    means = np.einsum("une,un->ue", own, loss) / np.maximum(own.sum(1), 1)
    surprise = loss - np.take_along_axis(means, arm, 1)

    def statistic(arm, surprise):
        counts, total = np.zeros((len(arm), arms)), 0.0
        everyone = np.arange(len(arm))
        for n in range(arm.shape[1]):
            total += counts[everyone, arm[:, n]] @ surprise[:, n]
            counts *= memory
            counts[everyone, arm[:, n]] += 1.0
        return abs(total)

    observed, reached = statistic(arm, surprise), 0
    for _ in range(shuffles):
        order = rng.permuted(np.tile(np.arange(arm.shape[1]), (len(arm), 1)), axis=1)
        moved = (np.take_along_axis(column, order, 1) for column in (arm, surprise))
        reached += statistic(*moved) >= observed
    return (1 + reached) / (1 + shuffles)


@pytest.mark.long
def test_shuffling_histories_would_raise_false_alarms():
    """Why signs are flipped instead: shuffled, choices no longer follow the losses before them."""
    rng, alarms = np.random.default_rng(0), 0
    for seed in range(20):
        log = synthetic_log(300, 60, 5, seed=seed, **SCENARIOS["steering"])
        arm, loss = (column.reshape(300, 60) for column in (log.arm, log.loss))
        alarms += shuffled_p_value(arm, loss, 39, rng) <= LEVEL
    assert alarms >= 15  # with the right level, 1 of 20


# Power


def test_planted_influence_is_found_with_its_pair_and_sign():
    A = np.zeros((4, 4))
    A[2, 2] = 0.25
    log = synthetic_log(150, 80, 4, interaction=A, seed=5, **HARD)
    found = influence_test(log, seed=1)
    assert found.self_influence.p_value == 0.001
    assert found.p_value == 0.003  # pairs of arms and all arms alike were looked at too
    assert (found.clearest, found.seen) == ("arms on themselves", ("arms on themselves",))
    assert found.fading == ib.Fading(0.8)
    assert found.memories_tried > 3
    assert not found.doubts
    first = found.pairs[0]
    assert (first.arm, first.other) == ("2", "2")
    assert first.p_adjusted == 0.001
    assert first.low <= A[2, 2] <= first.high
    assert all(pair.arm == pair.other == "2" for pair in found.clear_pairs)
    assert 0.0 < found.effect_low < found.effect < found.effect_high
    assert "influence beyond drift, arms on themselves: small but real" in str(found)


def test_fatigue_of_few_arms_is_seen_by_default():
    """66 pairs of arms that do nothing do not drown three arms that tire."""
    found = influence_test(draw_clicks(700_000), permutations=199)
    assert found.detected
    assert found.clearest == "arms on themselves"
    assert found.fading == ib.Fading(half_life=48)
    assert found.cross_influence.pairs == 66


@pytest.mark.long
def test_fatigue_of_few_arms_is_seen_in_nine_of_ten_logs():
    """A test of this power fails here with probability 0.01 (95 of 100 logs were seen)."""
    found = [influence_test(draw_clicks(n), permutations=199, seed=n) for n in range(10)]
    assert sum(each.detected for each in found) >= 8


@pytest.mark.long
def test_fatigue_of_arms_is_not_taken_for_more_than_that():
    """Of each family that comes second a right test raises an alarm in 1 log of 20.

    It would fail here with probability 0.003. Ratings had 3 of 7 before.
    """
    found = [influence_test(draw_ratings(n), permutations=99, seed=n) for n in range(20)]
    assert all("arms on themselves" in each.seen for each in found)
    for family in ("arms on each other", "all arms alike"):
        assert sum(each.families[family].p_value <= LEVEL for each in found) <= 4
    assert sum(any(p.arm != p.other for p in each.clear_pairs) for each in found) <= 4


def test_attraction_between_two_arms_is_found_with_its_sign():
    A = np.zeros((4, 4))
    A[0, 3] = A[3, 0] = -0.25
    found = influence_test(synthetic_log(150, 80, 4, interaction=A, seed=6, **HARD))
    assert found.cross_influence.p_value == 0.001
    first = next(pair for pair in found.pairs if pair.arm != pair.other)
    assert (first.arm, first.other) == ("0", "3")
    assert first.high < 0.0


@pytest.mark.long
def test_estimates_are_those_that_were_planted():
    """The regression of estimates on the truth, over seeds: its slope is 1 or a little less.

    Predictions of taste by arm, which the test controls for, take a part of influence along.
    """
    planted = np.array([0.3, 0.2, 0.0, -0.1])
    estimates = np.zeros(4)
    for seed in range(6):
        log = synthetic_log(200, 100, 4, interaction=np.diag(planted), seed=seed, **HARD)
        found = influence_test(log, permutations=19)
        for pair in found.pairs:
            if pair.arm == pair.other:
                estimates[int(pair.arm)] += pair.estimate / 6.0
        others = [pair.estimate for pair in found.pairs if pair.arm != pair.other]
        assert sum(others) == pytest.approx(0.0, abs=1e-9)  # relative to their mean
    slope = np.cov(estimates, planted)[0, 1] / planted.var(ddof=1)
    assert slope == pytest.approx(0.9, abs=0.1)


def test_memory_by_the_clock():
    A = np.diag([0.4, 0.0, 0.0])
    settings = HARD | {"memory": 1.0, "half_life_days": 2.0}
    log = synthetic_log(100, 80, 3, interaction=A, seed=2, **settings)
    found = influence_test(log, fading=ib.Fading(half_life=48))
    assert found.self_influence.p_value == 0.001
    assert found.memories_tried == 1
    assert influence_test(log).fading.by_clock  # the clock shows more than events
    assert found.fading == ib.Fading(half_life=48)
    assert (found.pairs[0].arm, found.pairs[0].other) == ("0", "0")


def two_genre_log(strength, seed=0, instances=60, events=40):
    """Films of one or two genres, chosen at random; genre A tires of itself."""
    films = {"a": ["A"], "b": ["B"], "ab": ["A", "B"], "c": ["C"], "bc": ["B", "C"]}
    share = np.array([1.0, 0.0, 0.5, 0.0, 0.0])  # of genre A
    rng = np.random.default_rng(seed)
    item = rng.integers(0, 5, (instances, events))
    loss = rng.normal(size=(instances, events)) + 0.5 * rng.normal(size=(instances, 1))
    count = np.zeros(instances)
    for n in range(events):
        loss[:, n] += strength * share[item[:, n]] * count
        count = 0.8 * count + share[item[:, n]]
    who = np.repeat(np.arange(instances), events)
    return EventLog(who, item.ravel(), loss.ravel(), membership=Membership(films))


def test_items_of_several_arms():
    found = influence_test(two_genre_log(0.5, instances=80, events=60))
    assert found.p_value == found.self_influence.p_adjusted == 0.002  # pairs were looked at too
    assert (found.pairs[0].arm, found.pairs[0].other) == ("A", "A")
    assert found.pairs[0].low > 0.0


@pytest.mark.long
def test_the_level_with_items_of_several_arms():
    """Fails for a right test with probability 0.001."""
    replications = 60
    logs = (two_genre_log(0.0, seed) for seed in range(replications))
    alarms = sum(influence_test(log, permutations=99).p_value <= LEVEL for log in logs)
    assert alarms <= scipy.stats.binom.isf(0.001, replications, LEVEL)


# What must not matter


def estimates_of(found):
    """Return the estimates by pairs of names."""
    return {tuple(sorted((pair.arm, pair.other))): pair.estimate for pair in found.pairs}


def test_neither_the_order_of_instances_nor_threads_change_anything():
    log = synthetic_log(60, 40, 3, interaction=np.diag([0.1, 0, 0]), seed=2, **HARD)
    reordered = log.take(np.random.default_rng(0).permutation(60))
    one, other = influence_test(log, seed=4, execution=1), influence_test(reordered, seed=4)
    assert other.p_value == one.p_value
    assert other.self_influence.p_value == one.self_influence.p_value
    assert [p.p_adjusted for p in other.pairs] == [p.p_adjusted for p in one.pairs]
    estimates = [pair.estimate for pair in one.pairs]
    np.testing.assert_allclose([p.estimate for p in other.pairs], estimates, rtol=1e-6)
    assert influence_test(log, seed=4, execution=2).to_json() == one.to_json()
    assert influence_test(log, seed=5).to_json() != one.to_json()


@pytest.mark.long
def test_results_do_not_depend_on_the_number_of_threads_where_there_is_work_for_several():
    log = synthetic_log(1500, 80, 3, seed=2, **HARD)
    one, two = (influence_test(log, permutations=99, execution=n).to_json() for n in (1, 2))
    assert one == two


def test_the_order_of_arms_does_not_change_p_values():
    log = synthetic_log(60, 40, 4, interaction=np.diag([0.1, 0, 0, 0]), seed=2, **HARD)
    order = np.array([2, 0, 3, 1])
    names = [str(arm) for arm in order]
    place = np.argsort(order)
    who = np.repeat(np.arange(60), log.lengths)
    renamed = sort_into_log(
        log.instances,
        who,
        place[log.arm].astype(np.int32),
        log.loss,
        log.time,
        Membership.of_arms(names),
    )
    one, other = influence_test(log), influence_test(renamed)
    assert one.p_value == other.p_value
    assert one.self_influence.p_value == other.self_influence.p_value
    assert one.effect == pytest.approx(other.effect, abs=1e-6)
    assert estimates_of(other) == pytest.approx(estimates_of(one), abs=1e-5)


def test_units_and_scale_of_losses_do_not_change_p_values():
    log = synthetic_log(60, 40, 3, seed=2, **HARD)
    who = np.repeat(log.instances, log.lengths)
    scaled = EventLog(who, log.arm, 100.0 * log.loss + 7.0, log.time, log.membership)
    one, other = influence_test(log), influence_test(scaled)
    assert one.p_value == pytest.approx(other.p_value, abs=0.005)
    larger = {pair: 100.0 * estimate for pair, estimate in estimates_of(one).items()}
    assert estimates_of(other) == pytest.approx(larger, rel=1e-2, abs=0.01)


# Units


@pytest.mark.parametrize(
    ("instances", "events", "kind", "units"),
    [
        (60, 20, "instances", 60),
        (2500, 10, "groups of instances", 2000),
        (1, 1000, "blocks of histories", 50),
        (2, 8000, "blocks of histories", 200),
        (20, 15, "blocks of histories", 20),
    ],
)
def test_units_are_instances_or_blocks_of_long_histories(instances, events, kind, units):
    found = influence_test(synthetic_log(instances, events, 3, seed=1), permutations=99)
    assert (found.unit_kind, found.units) == (kind, units)
    assert_finite(found)


# What is refused, and what is not


def assert_finite(found):
    text = json.dumps(found.to_json(), allow_nan=False)
    assert json.loads(text)["p_value"] == found.p_value
    assert 0.0 < found.p_value <= 1.0
    assert "nan" not in str(found)


def test_arms_on_themselves_alone_are_tested_where_they_are_many():
    """Three arms of 41 tire of themselves: they are found, and hardly any other."""
    matrix = np.zeros((41, 41))
    matrix[[0, 1, 2], [0, 1, 2]] = 1.0
    log = synthetic_log(600, 120, 41, interaction=matrix, seed=3, **HARD)
    found = influence_test(log, permutations=199)
    assert found.cross_influence is None
    assert found.self_influence.p_value == 1 / 200
    clear = [pair.arm for pair in found.pairs if pair.p_adjusted <= LEVEL]
    assert {"0", "1", "2"} <= set(clear)
    assert len(clear) <= 4
    assert all(pair.arm == pair.other for pair in found.pairs)
    # The filter takes a part of lasting influence for taste and drift.
    assert all(0.3 < pair.estimate < 1.0 for pair in found.pairs if pair.arm in {"0", "1", "2"})
    assert "arms on each other: not tested" in found.summary()
    assert "44 effects" in found.summary()
    assert found.memories_tried > 2


def test_a_memory_with_which_nothing_can_be_tested_is_left_out():
    log = synthetic_log(40, 24, 3, seed=7003, **SCENARIOS["steering"])
    found = influence_test(log, all_pairs=False, permutations=99)
    assert found.memories_tried == 5
    with pytest.raises(NotApplicable, match="no pair of arms"):
        influence_test(log, fading=ib.Fading(half_life=24 * 1 / 3), all_pairs=False)


def test_arms_on_themselves_alone_are_tested_if_that_is_asked_for():
    log = synthetic_log(60, 40, 3, seed=1)
    both = [influence_test(log, all_pairs=every, permutations=99) for every in (True, False)]
    assert (both[0].self_influence.pairs, both[0].cross_influence.pairs) == (3, 3)
    assert (both[1].self_influence.pairs, both[1].cross_influence) == (3, None)
    assert both[0].to_json() == influence_test(log, permutations=99).to_json()


@pytest.mark.long
def test_false_alarms_of_arms_on_themselves_are_as_many_as_promised():
    """A right test fails here with probability 0.001."""
    alarms = 0
    for seed in range(200):
        log = synthetic_log(40, 24, 3, seed=7000 + seed, **SCENARIOS["steering"])
        found = influence_test(log, all_pairs=False, permutations=99, seed=seed, execution=1)
        alarms += found.self_influence.p_value <= LEVEL
    assert alarms <= scipy.stats.binom.isf(0.001, 200, LEVEL)


def test_refusals(refused):
    log = synthetic_log(60, 20, 3)
    with refused(NotApplicable, "single arm"):
        influence_test(synthetic_log(60, 20, 1))
    with refused(NotApplicable, "too little data", "12", "240"):
        influence_test(synthetic_log(2, 50, 3))
    with refused(NotApplicable, "too little data", "two or more arms"):
        influence_test(synthetic_log(60, 20, 3, popularity=[1, 0, 0]))
    with refused(NotApplicable, "too little data"):
        influence_test(EventLog(range(30), ["a", "b"] * 15, np.arange(30.0)))
    with refused(NotApplicable, "101 arms", "--own-only"):
        influence_test(synthetic_log(60, 20, 101), all_pairs=True)
    with refused(NotApplicable, "301 arms", "merge"):
        influence_test(synthetic_log(60, 20, 301))
    with refused(InvalidLog, "no events"):
        influence_test(log.take([]))
    with refused(InvalidInput, "EventLog"):
        influence_test([1, 2])
    with refused(InvalidInput, "fading", "1.5"):
        influence_test(log, fading=1.5)
    with refused(InvalidInput, "both"):
        influence_test(log, fading=ib.Fading(0.8, half_life=24))
    with refused(InvalidInput, "permutations", "3"):
        influence_test(log, permutations=3)
    with refused(InvalidInput, "confidence"):
        influence_test(log, confidence=95)
    with refused(InvalidInput, "threads"):
        influence_test(log, execution=0)
    untimed = EventLog(["u"] * 400, ["a", "b"] * 200, np.arange(400.0))
    with refused(InvalidInput, "by the clock", "none"):
        influence_test(untimed, fading=ib.Fading(half_life=24))


@pytest.mark.parametrize("loss", [0.0, 3.0, 1e9])
def test_constant_losses_are_refused(refused, loss):
    log = synthetic_log(60, 20, 3)
    who = np.repeat(log.instances, log.lengths)
    constant = EventLog(who, log.arm, np.full(len(log), loss), membership=log.membership)
    with refused(NotApplicable, "no noise"):
        influence_test(constant)


def test_arms_never_met_empty_histories_and_single_events_do_no_harm():
    log = synthetic_log(60, 20, 4, popularity=[1, 1, 0, 1], seed=3)
    lengths = np.where(np.arange(60) % 6 == 0, 19, 0)
    kept = log.without_last(events=19).take(np.flatnonzero(lengths))
    who = np.concatenate([np.repeat(np.arange(60), log.lengths), 100 + np.arange(10)])
    more = sort_into_log(
        [str(n) for n in range(120)],
        who,
        np.concatenate([log.item, kept.item]),
        np.concatenate([log.loss, kept.loss]),
        None,
        log.membership,
    )
    found = influence_test(more, permutations=99)
    assert_finite(found)
    assert found.n_instances == 120
    assert found.units == 60
    assert (found.self_influence.pairs, found.cross_influence.pairs) == (3, 3)
    assert {pair.arm for pair in found.pairs} == {"0", "1", "3"}


@pytest.mark.long
@pytest.mark.parametrize(
    "settings",
    [
        {"noise": 0.0, "spread": 1.0},
        {"noise": 0.0, "drift": 1.0},
        {"noise": 0.0, "interaction": np.diag([0.5, 0, 0]), "memory": 0.8},
        {"noise": 1e-100},
        {"noise": 1e90},
        {"grid": 4.5},
        {"memory": 1.0},
        {"popularity": [1e6, 1, 1]},
    ],
    ids=str,
)
def test_odd_losses_give_numbers_or_a_refusal(settings):
    try:
        found = influence_test(synthetic_log(60, 30, 3, seed=1, **settings), permutations=99)
    except NotApplicable:
        return
    assert_finite(found)


@pytest.mark.parametrize("memory", [1e-9, 1.0])
def test_extreme_memories(memory):
    assert_finite(influence_test(synthetic_log(60, 30, 3, seed=1), fading=memory, permutations=99))


# The result


def made(p=0.5, effect=0.001, pairs=6, **more):
    look = ScoreTest(pairs, 10.0, p, p)
    settings = {
        "arm_names": ("a", "b", "c"),
        "n_events": 1000,
        "n_instances": 10,
        "units": 60,
        "unit_kind": "instances",
        "self_influence": look,
        "cross_influence": look,
        "common": None,
        "effect": effect,
        "effect_low": effect - 0.0005,
        "effect_high": effect + 0.0005,
        "pairs": (PairEstimate("a", "b", -0.1, -0.2, 0.0, 0.04),),
        "components": Components(0.1, 0.1, 0.1, 0.5, 1.0),
        "fading": ib.Fading(0.8),
        "memories_tried": 1,
        "controls": (),
        "placebos": (),
        "permutations": 999,
        "confidence": 0.95,
        "seed": 0,
    }
    return InfluenceTest(**settings | more)


@pytest.mark.parametrize("power", [0.5, 0.8, 0.99])
@pytest.mark.parametrize("pairs", [1, 6, 210])
def test_events_needed_give_the_power_asked_for(power, pairs):
    number = made(pairs=pairs).events_needed(0.002, power)
    threshold = scipy.stats.chi2.isf(0.05 / 2, pairs)  # two tests are made
    strength = number * 0.002 / 0.998
    assert scipy.stats.ncx2.sf(threshold, pairs, strength) == pytest.approx(power, abs=0.001)


def test_events_needed_of_the_observed_effect():
    assert made().events_needed() == made().events_needed(0.001)
    assert made(effect=-0.001).events_needed() is None
    assert made().events_needed(0.5, power=0.01) == 0


def test_events_needed_refuses_what_is_no_effect(refused):
    for effect in (0.0, -0.1, 1.0, math.nan, "1"):
        with refused(InvalidInput, "effect"):
            made().events_needed(effect)
    with refused(InvalidInput, "power"):
        made().events_needed(0.1, power=1.0)


def test_the_verdict_in_words():
    assert str(made(p=0.41, effect=-0.0001)).startswith(
        "no influence beyond drift was seen (p = 0.41; -0.01 % of the error, 95 % interval "
        "-0.06 … 0.04 %); an effect of 0.1 % would need about 15,"
    )
    assert str(made(p=0.001)).startswith(
        "influence beyond drift, arms on themselves: small but real, 0.1 % of the error (95 % "
        "interval 0.05 … 0.15 %), p = 0.001\n"
    )
    faint = made(p=0.04, effect=0.0004)
    assert str(faint).startswith("influence beyond drift, arms on themselves: faint, 0.04 %")
    assert "a and b: -0.10 (-0.20 … 0.00), p = 0.04" in faint.summary()


def test_placebos_that_fire_take_the_verdict_back():
    fires = Placebo("arms met later", 0.001, 0.6, True, "something moves both")
    quiet = Placebo("arms met later", 0.5, 0.0, False, "something moves both")
    found = made(p=0.001, placebos=(fires,))
    assert found.doubts == (fires,)
    assert str(found).startswith("losses follow past arms (p = 0.001), but arms met later seem to")
    assert "this log cannot tell apart influence from what moves" in found.summary()
    assert made(p=0.001, placebos=(quiet,)).doubts == ()
    assert "placebo, arms met later: p = 0.5" in made(placebos=(quiet,)).summary()


def test_influence_on_all_arms_alike_is_said_and_counted():
    common = ScoreTest(3, 30.0, 0.001, 0.004)
    found = made(p=0.4, common=common)
    assert (found.p_value, found.clearest, found.detected) == (0.004, "all arms alike", True)
    assert "showings act on all arms alike (p = 0.004)" in str(found)
    assert not made(p=0.4).detected


def test_the_verdict_never_disagrees_with_the_table():
    """It is that of the smallest adjusted p-value, and pairs of other families are left out."""
    quiet, clear = ScoreTest(3, 2.0, 0.2, 0.4), ScoreTest(3, 30.0, 0.001, 0.002)
    found = made(self_influence=clear, cross_influence=quiet)
    assert (found.p_value, found.detected, found.seen) == (0.002, True, ("arms on themselves",))
    assert str(found).startswith("influence beyond drift, arms on themselves:")
    assert found.clear_pairs == ()
    assert "a and b" not in found.summary()
    faint = ScoreTest(3, 10.0, 0.03, 0.09)
    assert not made(self_influence=faint, cross_influence=quiet).detected


def test_what_a_log_cannot_tell_apart_is_listed():
    found = made()
    assert len(found.blind_spots) == 3
    everything = made(controls=("trend", "hour", "item"), common=ScoreTest(3, 1.0, 0.5, 1.0))
    assert everything.blind_spots == ()


def test_p_values_of_several_memories_account_for_their_number():
    """Of the best of four independent statistics, as often small as a p-value may be."""
    rng = np.random.default_rng(0)
    found = [
        find_p_value(rng.normal(size=4) ** 2, rng.normal(size=(99, 4)) ** 2) for _ in range(400)
    ]
    assert scipy.stats.binom.isf(0.999, 400, 0.1) <= np.sum(np.array(found) <= 0.1)
    assert np.sum(np.array(found) <= 0.1) <= scipy.stats.binom.isf(0.001, 400, 0.1)
    assert find_p_value(np.array([9.0]), np.zeros((99, 1))) == 0.01
    assert find_p_value(np.array([0.0]), np.ones((99, 1))) == 1.0
    assert find_p_value(np.array([1.0, 1.0]), np.ones((99, 2))) == 1.0  # nothing to tell apart


@cache
def click_test(seed, users=300, **world):
    """Return the test of a log of clicks; some worlds are looked at twice."""
    events = draw_click_events(users, 60, 5, ClickWorld(**world), seed=seed)
    names = {"instance": "user", "arm": "arm", "time": "time", "reward": "click", "item": "item"}
    return influence_test(read_log(events, **names), permutations=99, seed=seed)


@pytest.mark.long
@pytest.mark.parametrize("world", [{"hours": 1.0}, {"best_items_first": 1.0}], ids=str)
def test_controls_take_out_what_would_fool_the_test(world):
    """Without controls all of these logs alarm; fails for a right test with probability 0.001."""
    found = [click_test(seed, **world) for seed in range(16)]
    assert sum(each.detected for each in found) <= scipy.stats.binom.isf(0.001, 16, 0.06)
    events = draw_click_events(300, 60, 5, ClickWorld(**world), seed=0)
    log = read_log(events, instance="user", arm="arm", time="time", reward="click")
    assert influence_test(log, controls=(), fading=0.8, permutations=99).detected


@pytest.mark.long
def test_placebos_fire_where_interest_moves_choices_and_clicks_and_not_for_fatigue():
    interest = [click_test(seed, interest=0.8) for seed in range(8)]
    assert sum(bool(each.detected and each.doubts) for each in interest) >= 7
    fatigue = [click_test(seed, fatigue=0.4) for seed in range(8)]
    assert sum(each.detected for each in fatigue) >= 7
    assert sum(bool(each.doubts) for each in fatigue) <= 2


@pytest.mark.long
def test_first_showings_speak_against_interest_and_not_against_fatigue():
    """A placebo that is right fires in more than 2 of 8 logs with probability 0.006 at most."""
    firsts = [
        [
            check.fires
            for seed in range(8)
            for check in click_test(seed, **world).placebos
            if check.name.startswith("first showings")
        ]
        for world in ({"interest": 0.8}, {"fatigue": 0.4})
    ]
    assert [len(fired) for fired in firsts] == [8, 8]
    assert sum(firsts[0]) >= 6
    assert sum(firsts[1]) <= 2


@pytest.mark.long
def test_choices_that_follow_taste_do_not_alarm():
    """Before predictions of taste differed by arm and place, 20 % of such logs alarmed.

    Fails for a right test with probability 0.001.
    """
    found = [click_test(seed, personalised=1.5) for seed in range(40)]
    assert sum(each.detected for each in found) <= scipy.stats.binom.isf(0.001, 40, 0.05)


def test_intervals_and_p_values_of_pairs_agree():
    log = synthetic_log(100, 60, 5, interaction=planted_interaction(5, 0.2, 2), seed=3, **HARD)
    found = influence_test(log, fading=0.8, permutations=199)
    clear = [pair.p_adjusted <= LEVEL for pair in found.pairs]
    assert clear == [not pair.low <= 0.0 <= pair.high for pair in found.pairs]
    assert any(clear)
    assert not all(clear)
