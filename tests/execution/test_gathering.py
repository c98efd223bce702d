"""Tasks gathered from pieces: joined on the card, and played by cores where that takes long."""

import threading
import time

import pytest

from influential_bandits.execution import gathering
from influential_bandits.execution.gathering import Gathering

ROUNDS = 100


class Tally:
    """A task that adds up its own numbers, on a card of a given pace; cores add them at once."""

    compiler = "none"

    def __init__(self, numbers, pace=0.0, broken_on=()):
        self.numbers, self.pace, self.broken_on = numbers, pace, broken_on
        self.sum, self.asked = None, []
        self.runs, self.rounds, self.bytes_on_card = 1, ROUNDS, 8

    def likeness(self):
        return self.pace, self.broken_on

    def join(self, others):
        return Joined([self, *others])

    def is_compiled(self):
        return True

    def job(self, for_cores=False):
        self.asked.append(for_cores)
        raise TypeError("nothing to compile")

    def code_on_cores(self):
        return "tally"

    def play_on_cores(self, where):
        if "cores" in self.broken_on:
            raise ValueError("cores cannot")
        where.run([self], None)
        return sum(self.numbers), "cores"

    def steps(self):
        yield ROUNDS

    def accept(self, results):
        self.sum = results


class Joined:
    def __init__(self, tasks):
        self.tasks = tasks

    def steps(self):
        many = len(self.tasks)
        for _ in range(ROUNDS):
            time.sleep(self.tasks[0].pace)
            if "card" in self.tasks[0].broken_on:
                raise ValueError("the card cannot")
            yield many

    def results(self):
        return [(sum(task.numbers), "card") for task in self.tasks]


def play(pieces, processes=2):
    """Play pieces side by side, each a list of tasks; return the errors of those that failed."""
    stopped = threading.Event()
    where = Gathering(1 << 20, stopped, processes)
    errors = {}

    def work(place, tasks):
        try:
            with where.desks:
                where.play(tasks)
        except ValueError as error:
            errors[place] = error
        finally:
            where.end()

    threads = [threading.Thread(target=work, args=piece) for piece in enumerate(pieces)]
    for thread in threads:
        where.begin()
        thread.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    started = time.monotonic()
    where.close()
    assert time.monotonic() - started < 10
    return errors


def test_a_quick_card_plays_alone():
    tasks = [Tally([n, 1]) for n in range(6)]
    assert play([[task] for task in tasks]) == {}
    assert [task.sum for task in tasks] == [(n + 1, "card") for n in range(6)]
    assert not any(task.asked for task in tasks)


def test_cores_play_what_takes_long_on_the_card():
    slow, quick = [Tally([n, 1], pace=0.5) for n in range(5)], Tally([7])
    started = time.monotonic()
    assert play([*([task] for task in slow), [quick]]) == {}
    assert time.monotonic() - started < 0.5 * ROUNDS / 2  # the card alone takes that twice
    assert [task.sum for task in slow] == [(n + 1, "cores") for n in range(5)]
    assert quick.sum == (7, "card")
    assert sum(len(task.asked) for task in slow) == 1  # code for cores is compiled once


def test_what_cores_cannot_play_is_left_to_the_card(monkeypatch):
    monkeypatch.setattr(gathering, "WORTH_HELP", 0.0)
    task = Tally([1, 2], pace=0.01, broken_on=("cores",))
    assert play([[task]]) == {}
    assert task.sum == (3, "card")
    assert task.asked == [True]


@pytest.mark.parametrize("pace", [0.0, 0.01])
def test_what_the_card_cannot_play_is_told_to_whoever_waits(pace):
    good, bad = Tally([1]), [Tally([1], pace=pace, broken_on=("card",)) for _ in range(2)]
    errors = play([[good], [bad[0]], [bad[1]]])
    assert good.sum == (1, "card")
    assert {place: str(error) for place, error in errors.items()} == {
        1: "the card cannot",
        2: "the card cannot",
    }
