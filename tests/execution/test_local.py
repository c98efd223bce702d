"""Threads, progress and Ctrl-C."""

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass

import forked
import pytest
from python_process import run_python

import influential_bandits as ib
from influential_bandits.errors import InvalidInput
from influential_bandits.execution import local as execution
from influential_bandits.execution.progress import Progress

PATIENCE = 5.0  # seconds from Ctrl-C to the end
INTERRUPTED = """
import json, signal, threading
import influential_bandits as ib

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have told us to ignore it
instances = {instances}
policy = {policy}
ib.simulate(instances, policy, 10)  # compiled, or loaded from the cache
print("ready", flush=True)
try:
    ib.simulate(instances, policy, 10**10, ib.GaussianNoise(1.0), seeds=range(4))
except ib.errors.Interrupted as stopped:
    names = [thread.name for thread in threading.enumerate()]
    print(json.dumps({{"message": str(stopped), "threads": names}}))
else:
    print(json.dumps({{"message": "not interrupted", "threads": []}}))
"""


def own_threads():
    return [t.name for t in threading.enumerate() if t.name.startswith("influential-bandits")]


def interrupted(instances, policy, wait=0.5):
    """Play in another process, send SIGINT after a while, and return what it reports."""
    process = forked.Popen(
        [sys.executable, "-c", INTERRUPTED.format(instances=instances, policy=policy)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout.readline() == "ready\n", process.stderr.read()
        time.sleep(wait)
        process.send_signal(signal.SIGINT)
        try:
            out, err = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            pytest.fail(f"still running {PATIENCE} s after Ctrl-C")
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 0, err
    return json.loads(out), err


@pytest.mark.long
@pytest.mark.skipif(os.name == "nt", reason="sends a POSIX signal")
@pytest.mark.parametrize(
    ("instances", "policy"),
    [
        ("ib.counterexample()", "ib.LCB()"),
        ("[ib.random_instance(3, seed) for seed in range(20)]", "ib.InfluentialLCB()"),
    ],
    ids=["one instance", "many instances"],
)
def test_ctrl_c_ends_a_run_at_once_and_leaves_no_thread(instances, policy):
    report, err = interrupted(instances, policy)
    assert report["message"].startswith("stopped by Ctrl-C after ")
    assert len(report["message"].splitlines()) == 1
    assert report["threads"] == ["MainThread"]
    assert err == ""


@pytest.mark.skipif(os.name == "nt", reason="sends a POSIX signal")
def test_ctrl_c_ends_a_run_with_many_arms_at_once():
    """Rounds take long when there are many arms to look at; a step must not take longer."""
    instance = "ib.random_instance(n_arms=3000, seed=0, rank=2)"
    report, _ = interrupted(instance, "ib.LCB()")
    assert report["message"].startswith("stopped by Ctrl-C after ")


def test_interrupted_is_a_keyboard_interrupt_and_no_error_of_the_package():
    assert issubclass(ib.errors.Interrupted, KeyboardInterrupt)
    assert not issubclass(ib.errors.Interrupted, Exception)


@dataclass(frozen=True)
class Astray(ib.Policy):
    """Choose arms of another world in some round."""

    when: int = 1

    @staticmethod
    def select(c, s, t, eligible, rng):
        return 99 if t == c.when else 0


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_an_error_of_a_policy_leaves_no_thread(threads):
    instances = [ib.random_instance(3, seed) for seed in range(30)]
    with pytest.raises(ib.errors.InvalidPolicy, match="Astray chose arm 99 in round 400"):
        ib.simulate(instances, Astray(400), 10_000, execution=threads)
    assert own_threads() == []


def test_a_run_leaves_no_thread():
    instances = [ib.random_instance(3, seed) for seed in range(30)]
    ib.simulate(instances, ib.LCB(), 1000, execution=3)
    assert own_threads() == []


class Steps:
    """A task that does a number of steps, and may fail in one of them."""

    def __init__(self, steps, error=None, at=0):
        self.number, self.error, self.at = steps, error, at
        self.done = 0

    def steps(self):
        for n in range(self.number):
            if self.error is not None and n == self.at:
                raise self.error
            time.sleep(0.001)
            self.done += 1
            yield 1


def test_all_tasks_are_worked_off_and_counted():
    tasks = [Steps(n) for n in range(20)]
    progress = Progress("test", 190, False)
    execution.run_tasks(tasks, 3, progress)
    assert [task.done for task in tasks] == list(range(20))
    assert progress.done == 190


def test_the_first_error_stops_the_other_tasks():
    failing = Steps(10, RuntimeError("the third step failed"), at=3)
    tasks = [failing, *(Steps(5000) for _ in range(20))]
    started = time.monotonic()
    with pytest.raises(RuntimeError, match="the third step failed"):
        execution.run_tasks(tasks, 2, Progress("test", 100, False))
    assert time.monotonic() - started < 4, "5 seconds a task, 50 in all"
    assert all(task.done < 5000 for task in tasks)
    assert own_threads() == []


@pytest.mark.parametrize("said", ["", "stopped by SIGTERM"])
def test_a_keyboard_interrupt_says_its_cause_and_how_far_the_run_has_come(said):
    tasks = [Steps(30), Steps(20, KeyboardInterrupt(*filter(None, [said])), at=10)]
    message = rf"{said or 'stopped by Ctrl-C'} after \d+ % of a long walk"
    with pytest.raises(KeyboardInterrupt, match=message) as stopped:
        execution.run_tasks(tasks, 1, Progress("a long walk", 40, False))
    assert isinstance(stopped.value, ib.errors.Interrupted)
    assert own_threads() == []


def test_ctrl_c_while_tasks_are_handed_out_stops_those_that_run(monkeypatch):
    """With many tasks that takes a while, too."""
    submit = execution.ThreadPoolExecutor.submit
    handed_out = []

    def interrupted_submit(pool, work, task):
        if len(handed_out) == 2:
            raise KeyboardInterrupt
        handed_out.append(task)
        return submit(pool, work, task)

    monkeypatch.setattr(execution.ThreadPoolExecutor, "submit", interrupted_submit)
    tasks = [Steps(5000) for _ in range(3)]
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt) as stopped:  # whatever is not caught ends the tests
        execution.run_tasks(tasks, 2, Progress("test", 100, False))
    assert time.monotonic() - started < 4, "5 seconds a task"
    assert isinstance(stopped.value, ib.errors.Interrupted)
    assert own_threads() == []


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_that_is_asked_for_is_drawn_on_stderr(capsys):
    ib.simulate(ib.counterexample(), ib.LCB(), 1000, progress=True)
    captured = capsys.readouterr()
    assert "LCB" in captured.err
    assert captured.out == ""


def draw(wanted, long):
    """Do the first of two pieces of work."""
    bar = Progress("LCB", 2, wanted, long)
    bar.count_one()
    bar.close()


def test_progress_is_silent_by_default_where_stderr_is_no_terminal(capsys):
    draw(None, 0.0)
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "")


@pytest.mark.parametrize(
    ("wanted", "long", "drawn"),
    [(None, 0.0, True), (None, 60.0, False), (False, 0.0, False), (True, 60.0, True)],
    ids=["long", "short", "not wanted", "wanted"],
)
def test_on_a_terminal_progress_is_drawn_for_long_runs_or_if_wanted(
    monkeypatch, wanted, long, drawn
):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    draw(wanted, long)
    assert ("LCB" in terminal.getvalue()) == drawn


NOTEBOOK = """
import sys, types
shown = []
display = types.ModuleType("IPython.display")  # what rich shows things with in a notebook
display.display = lambda *things, **_: shown.append(things)
for name in ("HTML", "Output", "clear_output"):
    setattr(display, name, lambda *_, **__: None)
ipython = types.ModuleType("IPython")
ipython.display = display
sys.modules |= {"IPython": ipython, "IPython.display": display}

class ZMQInteractiveShell:
    pass

import builtins
builtins.get_ipython = ZMQInteractiveShell
from influential_bandits.execution.progress import Progress

def draw(wanted):
    bar = Progress("LCB", 2, wanted, long=0.0)
    bar.count_one()
    bar.close()
    return len(shown)

drawn = draw(None)
print(drawn > 0, draw(False) == drawn)
"""


def test_a_notebook_shows_progress_by_default():
    told = run_python(NOTEBOOK, PYTHONWARNINGS="ignore")
    assert told.split()[-2:] == ["True", "True"], told


@pytest.mark.parametrize("policy", [Astray(1), Astray(10**9)], ids=["an error", "the end"])
def test_progress_stops_drawing_after(monkeypatch, policy):
    before = set(threading.enumerate())
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    with pytest.raises(ib.errors.InvalidPolicy) if policy.when == 1 else contextlib.nullcontext():
        ib.simulate(ib.counterexample(), policy, 10, progress=True)
    for thread in set(threading.enumerate()) - before:
        thread.join(timeout=2)  # told to stop, it may still have to wake up
        assert not thread.is_alive(), thread.name


# --- pieces side by side ---


def walk(task, where):
    where.run([task], Progress("walk", 1, wanted=False))
    return task.done


def test_pieces_are_worked_on_side_by_side():
    meeting = threading.Barrier(3)
    where = ib.LocalExecution(3)
    found = list(where.outcomes(lambda task, _: meeting.wait(10) >= 0 and task, range(1, 4)))
    assert sorted(outcome.result for outcome in found) == [1, 2, 3]


def test_who_stops_listening_ends_the_pieces_at_work():
    where = ib.LocalExecution(2)
    long, short = Steps(10**6), Steps(1)
    outcomes = where.outcomes(walk, [long, short])
    assert next(outcomes).task is short
    started = time.monotonic()
    outcomes.close()
    assert time.monotonic() - started < PATIENCE
    assert long.done < 10**6
    assert own_threads() == []
    (again,) = where.outcomes(walk, [Steps(3)])
    assert again.result == 3


@pytest.mark.parametrize("threads", [0, 1.5, 2**16, 2**63])
def test_a_number_of_threads_that_no_computer_has_is_refused(threads, refused):
    with refused(InvalidInput, "threads", str(threads)):
        ib.LocalExecution(threads)
