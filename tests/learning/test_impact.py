"""What influence costs, against a truth that was planted."""

import numpy as np
import pytest

import influential_bandits as ib
from docs.measurements.click_events import ClickWorld, draw_click_events
from influential_bandits.errors import InvalidInput, NotApplicable
from influential_bandits.learning.impact import Estimate, mean_regressors
from influential_bandits.learning.statistics.design import event_columns

TRUTH = np.array([[0.3, 0.1], [0.1, 0.2]])


@pytest.fixture(scope="module")
def log():
    return ib.data.synthetic_log(
        400, 60, 2, interaction=TRUTH, initial_loss=1.0, memory=0.8, spread=0.3, seed=3
    )


@pytest.fixture(scope="module")
def model(log):
    return ib.InfluenceModel("symmetric", fading=0.8, pooling="full").fit(log)


def test_costs_are_those_of_the_planted_world(log, model):
    found = ib.measure_impact(model, log)
    assert (found.outcome, found.direction) == ("loss", "fatigue")
    for estimate, truth in (
        (found.arms["0"], 0.3),
        (found.arms["1"], 0.2),
        (found.pairs["0", "1"], 0.1),
        (found.per_showing, 0.25),
    ):
        assert abs(estimate.value - truth) < 2.0 * (estimate.high - estimate.low)
        assert estimate.sign == 1
    counts = np.zeros((log.n_instances, 2))
    lost = 0.0
    for n in range(60):
        arm = log.arm[log.offsets[:-1] + n]
        lost += (counts @ TRUTH)[np.arange(len(arm)), arm].sum() / len(log)
        counts *= 0.8
        counts[np.arange(len(arm)), arm] += 1.0
    assert abs(found.lost.value - lost) < 2.0 * (found.lost.high - found.lost.low)
    assert found.share.value == pytest.approx(found.lost.value / np.abs(log.loss).mean())
    assert "costs the next one" in found.headline()
    assert "half of it is gone after 3.1 events" in found.headline()


def test_what_a_test_found_of_fading_reaches_the_share_that_is_lost():
    """As in the tutorial, on a log with times: as if nothing faded, a quarter of it was missed."""
    world = ClickWorld(fatigue=0.15, half_life_days=2.0)
    events = draw_click_events(400, 50, 4, world, seed=1)
    truth = events["lost"].sum() / (events["lost"].sum() + events["chance"].sum())
    log = ib.read_log(events, instance="user", arm="arm", item="item", time="time", reward="click")
    test = ib.influence_test(log, permutations=199, placebo=False)
    assert test.fading == ib.Fading(half_life=48.0)
    adjusted = ib.adjust_losses(log)
    faded, lasting = (
        ib.measure_impact(
            ib.InfluenceModel("symmetric", fading=fading, pooling="full").fit(adjusted), log
        )
        for fading in (test.fading, 1.0)
    )
    assert faded.share.low < truth < faded.share.high
    assert lasting.share.high < truth
    assert faded.half_gone == "half of it is gone after 2 days"


def test_regressors_are_averaged_as_they_are_summed(log, model):
    means = mean_regressors(model.design_, event_columns(log), model.design_.size)
    shares = np.bincount(log.arm, minlength=2) / len(log)
    np.testing.assert_allclose(means[:2], shares)
    total = means[model.design_.start :].sum()
    faded = [(1.0 - 0.8**n) / 0.2 for n in range(60)]
    assert total == pytest.approx(np.mean(faded))


def test_without_influence_nothing_is_called_fatigue():
    log = ib.data.synthetic_log(400, 60, 2, initial_loss=1.0, memory=0.8, spread=0.3, seed=4)
    model = ib.InfluenceModel("symmetric", fading=0.8, pooling="full").fit(log)
    found = ib.measure_impact(model, log)
    assert abs(found.share.value) < 0.05
    assert found.direction in {"unclear", "negligible"}
    assert found.lost.low < 0.0 < found.lost.high


def test_rewards_are_counted_in_their_own_units():
    world = ClickWorld(fatigue=0.4)
    events = draw_click_events(800, 40, 3, world, seed=1)
    log = ib.read_log(events, instance="user", arm="arm", time="time", reward="click")
    model = ib.InfluenceModel("symmetric", fading=0.8, drift=True, pooling="full").fit(log)
    found = ib.measure_impact(model, log)
    lost = events["lost"].sum() / (events["lost"].sum() + events["click"].sum())
    assert found.outcome == "clicks"
    assert found.direction == "fatigue"
    # A straight line in the counts is not quite the truth, which is one in the log odds.
    assert found.share.value == pytest.approx(lost, rel=0.35)


def test_an_ab_test_has_the_size_of_the_textbook(log, model):
    found = ib.measure_impact(model, log)
    expected = 2.0 * ((1.959964 + 0.841621) * found.spread / 0.1) ** 2
    assert found.users_needed(0.1) == int(np.ceil(expected))


def test_estimates_are_rounded_to_what_their_interval_supports():
    assert str(Estimate(0.123456, 0.1, 0.15)) == "0.123 (0.100 … 0.150)"
    assert str(Estimate(12.3, 5.0, 20.0)) == "12 (5 … 20)"
    assert Estimate(1.0, 0.5, 1.5).scale(-1.0) == Estimate(-1.0, -1.5, -0.5)
    assert [Estimate(0, a, b).sign for a, b in ((1, 2), (-2, -1), (-1, 1))] == [1, -1, 0]


def test_what_has_no_impact_is_refused(log, model, refused):
    with refused(NotApplicable, "pool"):
        ib.measure_impact(ib.InfluenceModel(fading=0.8).fit(log), log)
    with refused(InvalidInput, "arms"):
        ib.measure_impact(model, ib.data.synthetic_log(5, 10, 3))
    with refused(InvalidInput, "gain"):
        ib.measure_impact(model, log).users_needed(0.0)


def test_clicks_that_are_all_alike_have_an_impact_without_nan():
    columns = {"user": np.repeat(np.arange(40), 10), "arm": np.arange(400) % 3}
    log = ib.read_log(
        columns | {"click": np.ones(400)}, instance="user", arm="arm", reward="click", time=None
    )
    model = ib.InfluenceModel("symmetric", fading=0.8, pooling="full").fit(log)
    found = ib.measure_impact(model, log)
    assert found.direction == "negligible"
    assert np.isfinite([found.lost.low, found.lost.high, found.share.low, found.share.high]).all()
