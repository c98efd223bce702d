import asyncio
import threading

import pytest

from influential_bandits.live.page import estimates
from influential_bandits.live.page.estimates import Estimates


def look(summarise, looks):
    """Return what pages see that look one after another."""
    asked = []

    async def ask(experiment, act):
        asked.append(experiment)
        return summarise

    async def play():
        kept = Estimates(ask)
        return [await kept.look("shop") for _ in range(looks)]

    return asyncio.run(play()), asked


def test_an_estimate_is_kept_for_a_while():
    assert look(lambda: "A", 3) == (["A"] * 3, ["shop"])


def test_own_states_have_none():
    assert look(None, 2)[0] == [None, None]


def test_a_page_does_not_wait_for_one_that_takes_long(monkeypatch):
    monkeypatch.setattr(estimates, "PATIENCE", 0.01)
    go = threading.Event()
    asked = []

    async def ask(experiment, act):
        asked.append(experiment)
        return lambda: go.wait(20.0)

    async def play():
        kept = Estimates(ask)
        before = [await kept.look("shop"), await kept.look("shop")]
        go.set()
        while (after := await kept.look("shop")) is None:
            await asyncio.sleep(0.01)
        return before, after

    assert asyncio.run(play()) == ([None, None], True)
    assert asked == ["shop"]  # and is computed once


def test_what_goes_wrong_is_told():
    def fail():
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        look(fail, 1)
