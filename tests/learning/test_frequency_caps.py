"""Caps: obeyed where the log is replayed, and worth what they promise."""

import numpy as np
import pytest

import influential_bandits as ib
from docs.measurements.click_events import ClickWorld, draw_click_events
from influential_bandits.learning.frequency_caps import FREE, Cap, Rule, replay
from influential_bandits.learning.statistics.design import DAY, event_columns


def replayed(log, rule):
    events = event_columns(log)
    item = events.item.copy()
    items = np.arange(log.n_arms, dtype=np.int32)
    shares = np.bincount(log.item, minlength=log.n_arms) / len(log)
    replay(events, rule, shares, items, np.uint64(1), item)
    return item


def test_spacing_is_kept_and_nothing_else_is_changed():
    log = ib.data.synthetic_log(20, 60, 4, bursts=0.4, seed=1)
    rule = Rule(np.array([1, FREE, FREE, FREE]), np.array([4, 0, 0, 0]), 0.0)
    item = replayed(log, rule)
    for low, high in zip(log.offsets[:-1], log.offsets[1:], strict=True):
        assert (np.diff(np.flatnonzero(item[low:high] == 0)) >= 4).all()
    assert (np.diff(np.flatnonzero(log.item[:60] == 0)) < 4).any()  # so that something was to do
    changed = item != log.item
    assert changed.any()
    assert (log.item[changed] == 0).all()
    assert (replayed(log, rule._replace(times=np.full(4, FREE))) == log.item).all()


def test_caps_by_the_clock_count_showings_within_days():
    log = ib.data.synthetic_log(20, 60, 3, seed=2)
    rule = Rule(np.array([2, FREE, FREE]), np.zeros(3, np.int64), 5.0 * DAY)
    item = replayed(log, rule)
    crowded = [0, 0]
    for which, shown in enumerate((log.item, item)):
        for low, high in zip(log.offsets[:-1], log.offsets[1:], strict=True):
            times = log.time[low:high][shown[low:high] == 0]
            crowded[which] += int((times[2:] - times[:-2] < 5.0 * DAY).sum())
    assert crowded[0] > 0
    assert crowded[1] == 0


def test_where_every_arm_is_capped_the_log_stays_as_it_was():
    log = ib.data.synthetic_log(5, 20, 2, seed=3)
    rule = Rule(np.array([1, 1]), np.array([6, 6]), 0.0)
    item = replayed(log, rule)
    assert len(item) == len(log)
    assert set(item.tolist()) <= {0, 1}


def advise(log, **settings):
    model = ib.InfluenceModel("symmetric", pooling="full", **settings).fit(log)
    return ib.advise_caps(model, log, ib.measure_impact(model, log))


def test_the_tired_arm_is_capped_and_no_arm_where_nothing_tires():
    tired = np.diag([0.4, 0.0, 0.0])
    log = ib.data.synthetic_log(300, 60, 3, interaction=tired, memory=0.8, bursts=0.3, seed=4)
    advice = advise(log, fading=0.8)
    assert [cap.arm for cap in advice.caps] == ["0"]
    assert 0.0 < advice.gain.low < advice.gain.value < advice.gain.high
    assert "at least" in str(advice)
    assert "Expected gain" in str(advice)
    calm = advise(ib.data.synthetic_log(300, 60, 3, memory=0.8, seed=5), fading=0.8)
    assert calm.caps == ()
    assert "No cap" in str(calm)


def test_gains_are_told_in_percent_of_what_the_log_had():
    events = draw_click_events(200, 60, 3, ClickWorld(fatigue=0.4), seed=0)
    names = {"instance": "user", "arm": "arm", "time": "time", "reward": "click"}
    log = ib.read_log(events, item=None, **names)
    model = ib.InfluenceModel("symmetric", fading=0.8, pooling="full").fit(log)
    advice = ib.advise_caps(model, log, ib.measure_impact(model, log))
    assert advice.caps
    share = 100.0 * advice.gain.value / np.mean(events["click"])
    assert f" clicks, {share:+.2g} % clicks; " in str(advice)


def test_caps_in_words():
    assert str(Cap("a", 1, 2, None)) == "a: at least 1 other showing before the next one"
    assert str(Cap("a", 1, None, 0.5)) == "a: at most 1 showing within 12 hours"
    assert str(Cap("a", 3, None, 2.0)) == "a: at most 3 showings within 2 days"


def test_no_cap_is_advised_where_choices_follow_taste():
    """Taste shows by five standard errors and more. The model alone would cap arms in both logs."""
    for personalised in (0.0, 1.0):
        world = ClickWorld(fatigue=0.25, personalised=personalised)
        events = draw_click_events(600, 60, 6, world, seed=360_003)
        log = ib.read_log(events, instance="user", arm="arm", time="time", reward="click")
        advice = advise(log, fading=0.8, drift=True)
        if personalised == 0.0:
            assert advice.caps
            assert advice.doubt == ""
        else:
            assert advice.caps == ()
            assert advice.gain.value == advice.moved == 0.0
            assert advice.doubt.startswith("choices in it follow taste")
            assert "supported by this log: choices in it follow taste" in str(advice)


def test_made_up_shops_keep_caps():
    capped = draw_click_events(50, 40, 4, seed=1, caps=[Cap("arm 2", 1, 3, None)])
    arms = capped["arm"].reshape(50, 40)
    gaps = [np.diff(np.flatnonzero(row == "arm 2")) for row in arms]
    assert min(gap.min(initial=99) for gap in gaps) >= 3


@pytest.mark.long
def test_caps_deliver_what_they_promise():
    """Promise and delivery over 8 logs of 400 users; each promise errs by about a fifth of itself.

    So their mean errs by less than a tenth, and a half either way is five standard errors.
    """
    promised, delivered = [], []
    world = ClickWorld(fatigue=0.5)
    for seed in range(8):
        events = draw_click_events(400, 60, 5, world, seed=seed)
        log = ib.read_log(events, instance="user", arm="arm", time="time", reward="click")
        advice = advise(log, fading=0.8, drift=True)
        chances = [
            draw_click_events(2000, 60, 5, world, seed=seed, caps=caps)["chance"].mean()
            for caps in ((), advice.caps)
        ]
        promised.append(advice.gain.value)
        delivered.append(chances[1] - chances[0])
    assert min(delivered) >= 0.0
    assert 0.5 < np.mean(delivered) / np.mean(promised) < 1.5
