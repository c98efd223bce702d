"""The report against sums made by hand: by arm and group, over time, and the A/B test."""

import random
from collections import defaultdict
from contextlib import suppress
from itertools import pairwise

import pytest
from live.driver import Driver, make_settings, total_up

from influential_bandits.errors import InvalidInput
from influential_bandits.live.evidence import Stratum, judge
from influential_bandits.live.report import Report
from influential_bandits.live.requests import Refused

ARMS = ("tea", "coffee", "milk")
MINUTE, HOUR = 60.0, 3600.0


def play(shop, seed, steps=500):
    """Let users decide, answer, correct, cancel, expire and be erased; pause at times."""
    draw, waiting, later, heard = random.Random(seed), [], [], []
    for n in range(steps):
        if n in (150, 250, 370):
            yield
        shop.clock.now += draw.choice([0.0, 1.0, 5.0, 60.0, 120.0])
        if n in (200, 300):
            shop.change(control_share=0.2 if n == 200 else 0.7)
        if n == 350:
            shop.erase("user 3")
            waiting = [name for name in waiting if " 3 " not in name]
            later = [name for name in later if " 3 " not in name]
            heard = [name for name in heard if " 3 " not in name]
        user, kind = draw.randrange(110), draw.random()
        if kind < 0.5:
            name = f"d {user} {n}"
            activate = draw.choice(["now", "now", "later"])
            shop.decide(f"user {user}", decision_id=name, activate=activate)
            (later if activate == "later" else waiting).append(name)
        elif kind < 0.8 and waiting:
            name, loss = waiting.pop(draw.randrange(len(waiting))), draw.gauss(0.0, 1.0)
            with suppress(Refused):  # its window has ended
                shop.feed_back(name, loss)
                heard.append(name)
            if n % 4 == 0 and heard:
                shop.correct(heard[n % len(heard)], n / 200.0 - 1.0)
        elif kind < 0.9 and later:
            name, is_shown = later.pop(), draw.random() < 0.6
            with suppress(Refused):
                (shop.show if is_shown else shop.cancel)(name)
                waiting += [name] * is_shown
        elif kind < 0.95:
            shop.expose(f"user {user}", draw.choice(ARMS))
        elif n > 100:
            shop.sweep()
    shop.sweep()  # nothing is overdue any more
    yield


def read_events(shop):
    """All events of instances that are there, with their group and share."""
    instances = {
        row[0]: row[1:]
        for row in shop.read(lambda store: store.run("SELECT number, served, share FROM instances"))
    }
    events = shop.read(lambda store: list(store.events_after(1, 0)))
    return [(event, *instances[event.instance]) for event in events if event.instance]


def judge_by_hand(events):
    """What the A/B test says of events, from the sums of each instance."""
    sums = defaultdict(lambda: [0, 0, 0.0])
    for event, group, share in events:
        if event.kind == "exposed":
            continue
        own = sums[share, group, event.instance]
        own[0] += event.ticket is not None and event.kind in ("decided", "shown")
        own[1] += event.loss is not None and event.kind != "corrected"
        own[2] += event.loss or 0.0

    def total(share, group, count, value):
        own = [s for (a, b, _), s in sums.items() if (a, b) == (share, group) and s[count]]
        return total_up([s[count] for s in own], [s[value] for s in own])

    groups = ("policy", "control")
    return judge(
        [
            Stratum(
                share,
                *(total(share, group, 1, 2) for group in groups),
                *(total(share, group, 0, 1) for group in groups),
            )
            for share in sorted({share for share, _, _ in sums})
        ]
    )


def agree(told, by_hand):
    for name in ("difference", "low", "high"):
        expected = getattr(by_hand, name)
        assert told[name] == (None if expected is None else pytest.approx(expected, abs=1e-9))


@pytest.mark.parametrize("span", ["all", "hour"])
def test_the_report_is_what_the_events_say(address, span):
    settings = make_settings(ARMS, "Uniform", control_share=0.5, window_hours=2.0, missing_loss=1.5)
    running = Report(1, span)
    with Driver(address, settings) as shop:
        for _ in play(shop, seed=1):
            report = shop.read(lambda store: running.make(store, shop.clock.now))
        anew, events, now = shop.report(span), read_events(shop), shop.clock.now
    assert report["totals"] == pytest.approx(anew["totals"])
    for one, other in zip(report["over_time"], anew["over_time"], strict=True):
        assert one["difference"] == pytest.approx(other["difference"])
    sums = defaultdict(lambda: defaultdict(float))
    for event, group, _ in events:
        row = sums[ARMS[event.arm], group]
        row[event.kind] += 1
        row["unshown"] += event.kind == "decided" and event.ticket is None
        row["losses"] += event.loss is not None and event.kind != "corrected"
        row["loss"] += event.loss or 0.0
    for row in report["arms"]:
        own = sums.pop((row["arm"], row["group"]))
        assert row["decisions"] == own["decided"]
        assert row["feedback"] == own["observed"]
        assert row["losses"] == own["losses"]
        assert row["mean_loss"] == pytest.approx(own["loss"] / own["losses"])
        assert row["expired"] == own["expired"]
        assert row["cancelled"] == own["cancelled"]
        assert row["exposures"] == own["exposed"]
        assert row["unshown"] == own["unshown"] - own["shown"] - own["cancelled"]
        shown = own["decided"] - own["unshown"] + own["shown"]
        assert row["waiting"] == shown - own["observed"] - own["expired"]
    assert not sums
    assert report["totals"]["decisions"] == sum(e.kind == "decided" for e, *_ in events)
    agree(report, judge_by_hand(events))
    for name in ("policy", "control"):
        assert report[name]["squares"] == pytest.approx(
            getattr(judge_by_hand(events), name).squares
        )
    assert report["at"] == now
    spans = report["over_time"]
    lately = min(one["from"] for one in spans if one["from"] + one["seconds"] > now - 5 * MINUTE)
    decided = sum(e.kind == "decided" and e.at >= lately for e, *_ in events)
    assert report["decisions_a_minute"] == pytest.approx(decided * MINUTE / (now - lately))
    for one, after in pairwise(spans):
        assert after["from"] == one["from"] + one["seconds"]
    assert spans[-1]["from"] <= now < spans[-1]["from"] + spans[-1]["seconds"]
    assert len(spans) <= 61
    begin = min(e.at for e, *_ in events) if span == "all" else now - HOUR
    assert begin - spans[0]["seconds"] <= spans[0]["from"] <= begin
    for one in spans:
        end = one["from"] + one["seconds"]
        inside = [  # what was corrected later is told by the sums alone
            pair
            for pair in events
            if one["from"] <= pair[0].at < end and pair[0].kind != "corrected"
        ]
        assert one["decisions"] == sum(e.kind == "decided" for e, *_ in inside)
        assert one["feedback"] == sum(e.kind == "observed" for e, *_ in inside)
        for group, mean in one["mean_loss"].items():
            losses = [e.loss for e, of, _ in inside if of == group and e.loss is not None]
            assert mean == (pytest.approx(sum(losses) / len(losses)) if losses else None)
        for name, mean in one["by_arm"].items():
            losses = [e.loss for e, *_ in inside if ARMS[e.arm] == name and e.loss is not None]
            assert mean == pytest.approx(sum(losses) / len(losses))
        agree(one, judge_by_hand([pair for pair in events if pair[0].at < end]))
    assert any(one["difference"] is not None for one in spans)


def test_a_report_of_nothing_and_after_a_clock_that_jumped(address):
    with Driver(address, make_settings(ARMS)) as shop:
        report = shop.report("hour")
        assert (report["totals"]["decisions"], report["arms"], report["difference"]) == (
            0,
            [],
            None,
        )
        shop.clock.now += 40 * 365 * 86400.0
        shop.decide("ann", decision_id="ahead")
        shop.clock.now -= 41 * 365 * 86400.0  # a year before its first event
        shop.decide("ann", decision_id="before")
        for span in ("all", "hour"):
            report = shop.report(span)
            assert report["totals"]["decisions"] == 2
            assert len(report["over_time"]) <= 13
        with pytest.raises(InvalidInput, match="all or hour"):
            shop.report("day")
