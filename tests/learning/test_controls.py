"""Controls: what they take out, what they leave alone, and what they refuse."""

import numpy as np
import pytest

import influential_bandits as ib
from docs.measurements.click_events import ClickWorld, draw_click_events
from influential_bandits.errors import InvalidInput, NotApplicable
from influential_bandits.learning import controls
from influential_bandits.learning.controls import build_controls, list_controls, place_in_session
from influential_bandits.logs.log import EventLog

DAY, HOUR = 86400.0, 3600.0


def read(events, **more):
    names = {"instance": "user", "arm": "arm", "time": "time", "reward": "click"}
    return ib.read_log(events, **names, **more)


@pytest.fixture(scope="module")
def log():
    events = draw_click_events(120, 40, 3, ClickWorld(best_items_first=0.7), seed=1)
    return read(events, item="item", controls=("position",))


def test_a_log_offers_what_it_has(log):
    assert list_controls(log) == ("trend", "hour", "weekday", "position", "item")
    plain = EventLog(["u", "u"], ["a", "b"], [0.0, 1.0])
    assert list_controls(plain) == ()
    several = ib.data.synthetic_log(5, 40, 2, gap=60.0)
    assert "hour" not in list_controls(several)  # an afternoon has no daily rhythm


def test_effects_of_an_event_sum_to_one_for_each_control(log):
    columns = build_controls(log, ("trend", "hour", "weekday"))
    assert columns.basis.shape == (len(log), 5)
    np.testing.assert_allclose(columns.value.sum(1), 3.0)
    assert columns.basis.max() < columns.n_bases == 8 + 12 + 7
    assert columns.size(3) == 3 * 27


def test_hats_are_linear_in_between():
    basis, value, size = controls.make_hats(np.array([0.0, 1.0, 2.0, 4.0, 4.0]), 3)
    assert size == 3  # knots at 0, 2 and 4
    assert (basis[1].tolist(), value[1].tolist()) == ([0, 1], [0.5, 0.5])
    assert value[3, 1] == 1.0
    assert controls.make_hats(np.zeros(4), 5)[1].tolist() == [[0.0]] * 4  # nothing to explain


def test_the_day_has_no_seam():
    basis, value, size = controls.make_daily_hats(np.array([0.0, DAY - HOUR, DAY / 2]), 12)
    assert size == 12
    assert (basis[1].tolist(), value[1].tolist()) == ([11, 0], [0.5, 0.5])
    assert (basis[2][0], value[2][0]) == (6, 1.0)


def test_sessions_end_after_half_an_hour():
    log = EventLog(["u"] * 4 + ["v"] * 2, ["a"] * 6, np.zeros(6), [0, 60, 1900, 1960, 1970, 1980])
    assert place_in_session(log).tolist() == [1, 2, 1, 2, 1, 2]


def test_qualities_are_learned_from_other_instances(log):
    codes = log.controls["item"].values
    owner = np.repeat(np.arange(log.n_instances), log.lengths)
    left = np.random.default_rng(0).normal(size=len(log)) + 0.5 * (codes % 7)
    quality, times = controls.learn_qualities(owner, codes, left)
    ratio = None
    for n in range(0, len(log), 97):
        others = (codes == codes[n]) & (owner != owner[n])
        assert times[n] == pytest.approx(np.log1p(others.sum()))
        weight = left[others].sum() / quality[n] - others.sum()  # noise over variance of items
        ratio = weight if ratio is None else ratio
        assert weight == pytest.approx(ratio, rel=1e-6)
    assert ratio > 0.0


def test_planted_effects_of_the_hour_are_taken_out():
    rng = np.random.default_rng(0)
    size = 20_000
    time = rng.uniform(0.0, 30 * DAY, size)
    arm = rng.integers(0, 2, size)
    planted = np.where(arm == 0, 1.0, -1.0) * np.cos(2.0 * np.pi * time / DAY)
    log = EventLog(rng.integers(0, 200, size), arm, planted + rng.normal(size=size), time)
    adjusted = ib.adjust_losses(log, ["hour"])
    assert adjusted.about["adjusted_for"] == "hour"
    wave = np.where(adjusted.arm == 0, 1.0, -1.0) * np.cos(2.0 * np.pi * adjusted.time / DAY)
    # The slope of what is left: a standard error is √(2/20,000) = 0.01, and hats miss some 1 %.
    assert abs(np.polyfit(wave, adjusted.loss, 1)[0]) < 0.05
    assert adjusted.loss.mean() == pytest.approx(log.loss.mean())


def test_items_that_come_first_because_they_are_good_are_taken_out(log):
    adjusted = ib.adjust_losses(log, ["item"])
    raw, left = (np.polyfit(place_in_session(log), each.loss, 1)[0] for each in (log, adjusted))
    assert raw > 0.0
    assert left < raw
    assert adjusted.loss.var() < log.loss.var()


def test_own_columns_are_numbers_groups_or_judged_by_others(log):
    few = build_controls(log, ("position",))
    assert few.n_bases >= 2
    many = build_controls(log, ("item",))
    assert (many.n_bases, many.shared.shape[1], len(many.absorbed)) == (0, 2, 0)
    absorbed = build_controls(log, ("item",), absorb=True)
    assert (absorbed.shared.shape[1], len(absorbed.absorbed)) == (0, len(log))
    times = np.bincount(log.controls["item"].values)[log.controls["item"].values]
    assert ((absorbed.absorbed < 0) == (times == 1)).all()


def test_nothing_to_control_for_changes_nothing(log):
    assert ib.adjust_losses(log, ()) is log


@pytest.mark.parametrize(
    ("names", "mention"),
    [(["weather"], "weather"), ("hour", "list of names"), (["item"], "finer than arms")],
)
def test_controls_that_a_log_does_not_have_are_refused(names, mention, refused):
    with refused(InvalidInput, mention):
        ib.adjust_losses(ib.data.synthetic_log(5, 10, 2), names)


def test_the_calendar_needs_times(refused):
    with refused(InvalidInput, "'trend'", "times"):
        ib.adjust_losses(EventLog(["u", "u"], ["a", "b"], [0.0, 1.0]), ["trend"])


def test_the_position_counts_though_somebody_never_left():
    """One session as long as a history must not cost all others the control of their positions."""
    hours = np.tile(np.repeat([0.0, 24.0, 48.0], 4), 30) * HOUR + np.tile(np.arange(12.0), 30) * 60
    hours[:12] = np.arange(12.0) * 60
    table = {
        "user": np.repeat(np.arange(30), 12),
        "time": hours,
        "arm": np.tile(["a", "b", "c"], 120),
        "loss": np.zeros(360),
    }
    log = ib.read_log(table, instance="user", arm="arm", time="time", loss="loss")
    assert "position" in list_controls(log)
    one = {name: column[:12] for name, column in table.items()}
    alone = ib.read_log(one, instance="user", arm="arm", time="time", loss="loss")
    assert "position" not in list_controls(alone)


def test_a_trend_that_is_the_place_in_a_history_is_not_taken_out_alone():
    """All begin at once: a trend taken out beforehand took two thirds of the fatigue along."""
    planted = 0.3 * np.eye(4)
    how = {"initial_loss": 1.0, "memory": 0.8, "spread": 0.3, "steering": 1.0}
    log = ib.data.synthetic_log(200, 60, 4, interaction=planted, seed=1, **how)
    adjusted = ib.adjust_losses(log)
    assert adjusted.about["adjusted_for"] == "hour, weekday"
    costs = [
        ib.measure_impact(
            ib.InfluenceModel("symmetric", fading=0.8, pooling="full").fit(each), log
        ).per_showing
        for each in (log, adjusted)
    ]
    assert abs(costs[1].value - costs[0].value) < 0.25 * costs[0].value
    clicks = read(draw_click_events(120, 40, 3, seed=1))
    assert "trend" in ib.adjust_losses(clicks).about["adjusted_for"]


def test_items_leave_the_mean_losses_of_arms_alone():
    """Items of one arm are met ten times as often as those of the other, and all are alike.

    How often an item was met then tells arms apart, and its coefficient is noise: before columns of
    items were centred by arm, the means of arms moved by several hundredths.
    """
    for seed in range(4):
        draw = np.random.default_rng(seed)
        arm = (draw.random(6000) < 1 / 11).astype(int)
        columns = {"user": np.repeat(np.arange(200), 30), "arm": arm}
        columns |= {"item": 10 * arm + draw.integers(0, 10, 6000)}
        columns |= {"click": (draw.random(6000) < 0.3 - 0.1 * arm).astype(int)}
        roles = {"instance": "user", "arm": "arm", "item": "item", "reward": "click"}
        log = ib.read_log(columns, time=None, **roles)
        adjusted = ib.adjust_losses(log, ["item"])
        assert np.abs(adjusted.loss - log.loss).max() > 0.0
        for one in (0, 1):
            here = log.arm == one
            assert adjusted.loss[here].mean() == pytest.approx(log.loss[here].mean(), abs=1e-6)


def test_effects_of_many_arms_are_the_same_in_a_sparse_matrix(log, monkeypatch):
    """The solver alone differs: by the rounding of systems whose condition is about 10⁴."""
    dense = ib.adjust_losses(log, ["trend", "hour", "item"])
    monkeypatch.setattr(controls, "MANY_EFFECTS", 10)
    monkeypatch.setattr(controls, "SPARSE", 1.0)
    sparse = ib.adjust_losses(log, ["trend", "hour", "item"])
    assert (sparse.loss != log.loss).any()
    np.testing.assert_allclose(sparse.loss, dense.loss, rtol=0, atol=1e-9)


def test_controls_of_thousands_of_arms_take_no_dense_matrix(monkeypatch):
    """Of 1,500 arms, a full matrix of effects has 25,500² entries: 10 GB twice."""
    random = np.random.default_rng(0)
    users = np.repeat(np.arange(50), 60)
    arms = np.concatenate([np.arange(1500), random.integers(1500, size=1500)])
    time = np.sort(random.uniform(0, 20 * DAY, (50, 60)), axis=1).ravel()
    many = EventLog(users, arms, random.normal(size=3000), time)

    def refuse(*_):
        raise AssertionError("a dense matrix")

    monkeypatch.setattr(controls.np.linalg, "solve", refuse)
    adjusted = ib.adjust_losses(many, ["trend", "hour", "weekday"])
    assert adjusted.loss.std() < many.loss.std()


def test_a_dense_matrix_that_has_no_room_is_refused(log, monkeypatch):
    monkeypatch.setattr("influential_bandits.free_memory.available_memory", lambda: 1000.0)
    with pytest.raises(NotApplicable, match=r"effects of controls would take .* merge rare arms"):
        ib.adjust_losses(log, ["hour"])
