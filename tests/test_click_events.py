"""Made-up click logs: their columns, and what each setting does."""

import dataclasses

import numpy as np
import pytest

from docs.measurements.click_events import ClickWorld, draw_click_events
from influential_bandits.errors import InvalidInput


def draw(seed=1, users=200, events=30, **world):
    return draw_click_events(users, events, 4, ClickWorld(**world), seed=seed)


def test_equal_seeds_draw_equal_logs():
    first, second, other = draw(), draw(), draw(seed=2)
    assert set(first) == {"user", "time", "arm", "item", "position", "click", "chance", "lost"}
    for name in first:
        np.testing.assert_array_equal(first[name], second[name])
    assert (first["click"] != other["click"]).any()


def test_events_of_a_user_are_in_the_order_of_time_and_sessions_are_counted():
    events = draw()
    same = np.diff(events["user"]) == 0
    assert (np.diff(events["time"])[same] >= 0).all()
    assert events["position"].min() == 1
    assert events["position"].max() > 6


@pytest.mark.parametrize("name", ["fatigue", "common_fatigue"])
def test_only_fatigue_takes_clicks(name):
    assert (draw(hours=1.0, interest=1.0, best_items_first=1.0)["lost"] == 0.0).all()
    tired, rested = draw(**{name: 0.3}), draw()
    assert tired["lost"].mean() > 0.01
    assert tired["click"].mean() < rested["click"].mean()
    forgetful = draw(**{name: 0.3, "half_life_days": 0.01})
    assert forgetful["lost"].mean() < tired["lost"].mean()


def test_settings_change_the_log():
    assert len(draw(duplicates=0.1)["user"]) > len(draw()["user"])
    assert len(draw(leaving=0.1)["user"]) < len(draw()["user"])
    assert np.ptp(np.bincount(draw(heavy_users=True)["user"])) > 5
    bots = draw(bots=0.5)
    means = np.bincount(bots["user"], bots["click"]) / np.bincount(bots["user"])
    assert ((means == 0.0) | (means == 1.0)).mean() > 0.3


@pytest.mark.parametrize("field", [f.name for f in dataclasses.fields(ClickWorld)])
def test_settings_must_be_numbers(field, refused):
    with refused(InvalidInput, field):
        ClickWorld(**{field: "much"})


def test_memory_and_half_life_have_a_range(refused):
    with refused(InvalidInput, "memory"):
        ClickWorld(memory=0.0)
    with refused(InvalidInput, "half_life_days"):
        ClickWorld(half_life_days=-1.0)
