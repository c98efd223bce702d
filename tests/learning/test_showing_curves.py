"""Outcome against recent showings: the adjusted curve is that of the planted truth.

Worlds are seeded. A right curve fails the tests of one world for one seed in some thousand: the
bounds are four standard errors.
"""

import numpy as np
import pytest

import influential_bandits as ib
from docs.measurements.click_events import ClickWorld, draw_click_events
from influential_bandits.learning.showing_curves import LEAST_INSTANCES, measure_showings
from influential_bandits.logs.outcome import read_outcome
from influential_bandits.world.fading import Fading

TRUTH = (0.3, 0.0)
WORLDS = {
    "nothing else": {},
    "choices follow taste": {"taste": 1.5, "spread": 0.7},
    "choices follow losses": {"steering": 1.0, "spread": 0.3},
    "drift and bursts": {"drift": 0.5, "bursts": 0.3, "spread": 0.3},
    "all of it": {"drift": 0.5, "spread": 0.7, "bursts": 0.3, "taste": 1.0, "steering": 1.0},
}


def draw(world, seed=0, **more):
    settings = {"interaction": np.diag(TRUTH), "memory": 0.8} | WORLDS[world] | more
    return ib.data.synthetic_log(400, 80, 2, seed=seed, **settings)


def curves_of(log, fading=None):
    found = measure_showings(log, log, fading or Fading(0.8))
    return {curve.arm: curve for curve in found.arms}


def rise(recent, estimates):
    """How much higher the curve ends than it begins, for one recent showing; and its error."""
    first, last = estimates[0], estimates[-1]
    error = np.hypot(first.high - first.low, last.high - last.low) / (2.0 * 1.96)
    span = recent[-1] - recent[0]
    return (last.value - first.value) / span, error / span


@pytest.mark.parametrize("world", WORLDS)
def test_the_adjusted_curve_rises_as_planted(world):
    """The two ends are correlated: their errors are added as if they were not."""
    curves = curves_of(draw(world))
    for arm, truth in zip("01", TRUTH, strict=True):
        slope, error = rise(curves[arm].recent, curves[arm].adjusted)
        assert abs(slope - truth) < 4.0 * error, (arm, slope, error)
        assert error < 0.06, "so that it can be told from nothing"


def test_the_curve_as_logged_lies_where_choices_follow_taste():
    """Else there would be nothing to adjust, and the test above would show nothing."""
    curves = curves_of(draw("choices follow taste"))
    for arm, truth in zip("01", TRUTH, strict=True):
        slope, error = rise(curves[arm].recent, curves[arm].raw)
        assert slope < truth - 4.0 * error


def test_what_is_lost_is_the_planted_loss():
    log = draw("choices follow taste", seed=1)
    curve = curves_of(log)["0"]
    counts = np.zeros((log.n_instances, 2))
    lost = np.zeros(log.n_instances)
    for n in range(80):
        arm = log.arm[log.offsets[:-1] + n]
        lost += np.where(arm == 0, TRUTH[0] * counts[:, 0], 0.0)
        counts *= 0.8
        counts[np.arange(len(arm)), arm] += 1.0
    assert curve.lost.low < lost.sum() / curve.n_events < curve.lost.high
    assert curve.lost.low > 0.0
    assert curve.if_rested.value == pytest.approx(curve.mean_loss - curve.lost.value)


def test_intervals_hold_in_95_of_100_logs():
    """Of 100 logs without influence; fewer than 88 of 100 have a chance of 0.2 %."""
    inside = [
        curve.lost.low < 0.0 < curve.lost.high
        for seed in range(50)
        for curve in curves_of(
            ib.data.synthetic_log(100, 40, 2, taste=1.5, spread=0.7, seed=seed)
        ).values()
    ]
    assert len(inside) == 100
    assert sum(inside) >= 88


def test_curves_stand_in_the_units_of_the_log():
    world = ClickWorld(fatigue=0.4, half_life_days=2.0)
    events = draw_click_events(1000, 40, 2, world, seed=0)
    columns = {name: events[name] for name in ("user", "time", "arm", "click")}
    roles = {"instance": "user", "arm": "arm", "time": "time", "reward": "click"}
    log = ib.read_log(columns, **roles)
    found = measure_showings(log, log, Fading(half_life=48.0), controls=["position"])
    assert found.outcome == ("clicks", 0.0)
    curve = found.arms[0]
    share = events["click"][events["arm"] == curve.arm].mean()
    assert curve.mean_loss == pytest.approx(-share)
    assert 0.0 < curve.raw[0].value < 1.0
    assert curve.adjusted[0].value > curve.adjusted[-1].value, "clicks fall"
    assert curve.lost.low > 0.0, "while the loss rises"


def test_ratings_are_told_as_they_were_given():
    log = ib.read_log(
        {"u": [1, 1], "a": ["x", "y"], "stars": [4, 2]},
        instance="u",
        arm="a",
        time=None,
        rating="stars",
        best=5,
    )
    assert read_outcome(log.about) == ("stars", 5.0)


def test_arms_that_lose_most_come_first():
    log = ib.data.synthetic_log(
        300, 60, 4, interaction=np.diag([0.0, 0.5, 0.0, 0.2]), memory=0.8, seed=0
    )
    assert [curve.arm for curve in measure_showings(log, log, Fading(0.8)).arms][:2] == ["1", "3"]


@pytest.mark.parametrize("shape", [(LEAST_INSTANCES - 1, 40, 2), (60, 1, 2)])
def test_too_little_data_gets_a_reason(shape):
    log = ib.data.synthetic_log(*shape, seed=0)
    found = measure_showings(log, log, Fading(0.8))
    assert found.arms == ()
    assert "30 instances" in found.missing


def test_what_cannot_be_told_is_left_empty():
    """One arm alone: recent showings and the place in the history are the same."""
    log = ib.data.synthetic_log(60, 2, 1, seed=0)
    (curve,) = measure_showings(log, log, Fading(0.8)).arms
    assert curve.raw
    assert (curve.adjusted, curve.lost, curve.if_rested) == ((), None, None)


def test_items_of_several_arms_have_no_curve():
    rows = {"u": [1, 1, 2], "a": ["x|y", "x", "y"], "loss": [0.1, 0.2, 0.3]}
    log = ib.read_log(rows, instance="u", arm="a", time=None, loss="loss", categories="|")
    found = measure_showings(log, log, Fading(0.8))
    assert found.arms == ()
    assert "several arms" in found.missing
