import asyncio
import threading

import pytest

from influential_bandits.live.page import latest
from influential_bandits.live.page.latest import Latest


def look(compute, looks):
    """Return what pages see that look one after another, and how often it was computed."""
    asked = []

    async def count():
        asked.append(1)
        return await asyncio.to_thread(compute)

    async def play():
        shown = Latest(10.0)
        return [await shown.look("shop", count) for _ in range(looks)]

    return asyncio.run(play()), len(asked)


def test_an_answer_is_kept_for_a_while():
    assert look(lambda: "A", 3) == (["A"] * 3, 1)


def test_a_page_does_not_wait_for_one_that_takes_long(monkeypatch):
    monkeypatch.setattr(latest, "PATIENCE", 0.01)
    go = threading.Event()
    asked = []

    async def compute():
        asked.append(1)
        return await asyncio.to_thread(go.wait, 20.0)

    async def play():
        shown = Latest(10.0)
        before = [await shown.look("shop", compute), await shown.look("shop", compute)]
        go.set()
        while (after := await shown.look("shop", compute)) is None:
            await asyncio.sleep(0.01)
        return before, after

    assert asyncio.run(play()) == ([None, None], True)
    assert asked == [1]  # and is computed once


def test_what_goes_wrong_is_told():
    def fail():
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        look(fail, 1)


def test_what_nobody_looked_at_for_long_is_forgotten(monkeypatch):
    monkeypatch.setattr(latest, "MOST_KEPT", 3)

    async def play():
        shown = Latest(10.0)
        for n in range(10):
            assert await shown.look(n, lambda n=n: asyncio.sleep(0, n)) == n
        return list(shown._latest)

    assert asyncio.run(play()) == [7, 8, 9]
