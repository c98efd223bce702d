"""Policies of users' own: compiled, found again on disk, and never run from old code."""

import json
import os
import subprocess
import sys
import textwrap
from dataclasses import dataclass

import numpy as np
import pytest

import influential_bandits as ib
from influential_bandits.policies.compiled import Layout

HEAD = """
import enum
import math
from dataclasses import dataclass
import numba
import numpy as np
import influential_bandits as ib
"""
MINE = """
@dataclass(frozen=True)
class Mine(ib.Policy):
    first: int = 0

    @staticmethod
    def select(c, s, t, eligible, rng):
        return {choice}
"""


@dataclass(frozen=True)
class Follower(ib.Policy):
    """Pull the arm that has followed the last one least often: state on two axes, and a memo."""

    def fields(self, arms):
        return {
            "followed": ("int64", (arms, arms + 1)),
            "last": ("int64", 1),
            "heard": ("float64", (arms,)),
        }

    def memo_size(self, arms):
        return 2

    @staticmethod
    def init(c, s):
        s.last[0] = c.n_arms

    @staticmethod
    def select(c, s, t, eligible, rng):
        best = 0
        for arm in range(c.n_arms):
            if s.followed[arm, s.last[0]] < s.followed[best, s.last[0]]:
                best = arm
        return best

    @staticmethod
    def pulled(c, s, t, arm, memo):
        memo[0] = s.last[0]
        memo[1] = t
        s.followed[arm, s.last[0]] += 1
        s.last[0] = arm

    @staticmethod
    def observed(c, s, t, arm, memo, loss):
        s.heard[arm] += loss + 1000.0 * memo[0] + 1_000_000.0 * memo[1]


def digest(choice, before=""):
    """What compiled code for a policy is found by."""
    names = {"__name__": "mine"}
    exec(textwrap.dedent(HEAD + before) + MINE.format(choice=choice), names)
    return Layout(names["Mine"](), 2).tag.digest


def run_script(path, *arguments):
    """Run a script in a process with a cache of its folder's own; return the lines it prints."""
    # Python's own cache of byte code knows edits by the second only.
    apart = {"NUMBA_CACHE_DIR": str(path.parent / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, path, *arguments],
        env=os.environ | apart,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_the_state_may_have_two_axes_and_a_memo_is_handed_over():
    arms, horizon = 3, 50
    instance = ib.Instance(np.zeros((arms, arms)), [1.0, 2.0, 3.0])
    run = ib.simulate(instance, Follower(), horizon, record="choices")
    followed = [[0] * (arms + 1) for _ in range(arms)]
    heard, last = [0.0] * arms, arms
    for t in range(1, horizon + 1):
        arm = min(range(arms), key=lambda i: followed[i][last])
        assert run.choices[0, 0, t - 1] == arm
        heard[arm] += (1.0 + arm) + 1000.0 * last + 1_000_000.0 * t
        followed[arm][last] += 1
        last = arm
    agent = ib.Agent(Follower(), arms)
    for arm in run.choices[0, 0]:
        ticket = agent.pull()
        assert ticket.arm == arm
        agent.observe(ticket, 1.0 + arm)
    assert agent.state["followed"].tolist() == followed
    assert agent.state["heard"].tolist() == heard


@pytest.mark.parametrize(
    ("field", "kind", "shape"),
    [
        ("x", "float32", 1),
        ("x", "object", 1),
        ("x", "int64", (1, 1, 1)),
        ("x", "int64", ()),
        ("not a name", "int64", 1),
        ("class", "int64", 1),
        ("_x", "int64", 1),
        ("x", "int64", -1),
    ],
)
def test_a_field_that_cannot_be_had_is_refused(field, kind, shape):
    @dataclass(frozen=True)
    class Odd(Follower):
        def fields(self, arms):
            return super().fields(arms) | {field: (kind, shape)}

    with pytest.raises(ib.errors.InvalidPolicy, match="Odd"):
        ib.simulate(ib.counterexample(), Odd(), 3)


@pytest.mark.parametrize("name", ["n_arms", "_start", "class"])
def test_a_parameter_that_cannot_be_an_attribute_of_c_is_refused(name):
    @dataclass(frozen=True)
    class Odd(Follower):
        def parameters(self):
            return {name: 1}

    with pytest.raises(ib.errors.InvalidPolicy, match="Odd"):
        ib.simulate(ib.counterexample(), Odd(), 3)


def test_a_policy_keeps_to_what_is_on_offer():
    @dataclass(frozen=True)
    class Stubborn(ib.Policy):
        @staticmethod
        def select(c, s, t, eligible, rng):
            return 1

    agent = ib.Agent(Stubborn(), 2)
    assert agent.pull().arm == 1
    with pytest.raises(ib.errors.InvalidPolicy, match="Stubborn chose arm 1 in round 2"):
        agent.pull(eligible=[True, False])
    assert agent.round == 1


def test_parameters_do_not_change_the_code():
    names = {"__name__": "mine"}
    exec(HEAD + MINE.format(choice="c.first"), names)
    zero, one = (Layout(names["Mine"](first), 2).tag.digest for first in (0, 1))
    assert zero == one


@pytest.mark.parametrize(
    ("choice", "before", "after"),
    [
        ("0", "", None),
        (
            "int(1.0 / zero(t) > 1.0)",
            "@numba.njit(error_model='numpy')\ndef zero(t): return (1.0 / (t - 1.0)) * 0.0",
            "@numba.njit(error_model='python')\ndef zero(t): return (1.0 / (t - 1.0)) * 0.0",
        ),
        (
            "int(total(0.1 * t, 0.2, -0.1 * t) > 0.2)",
            "@numba.njit\ndef total(x, y, z): return x + y + z",
            "@numba.njit(fastmath=True)\ndef total(x, y, z): return x + y + z",
        ),
    ],
    ids=["the body", "a compiler option", "another compiler option"],
)
def test_an_edit_changes_the_code(choice, before, after):
    """Whatever else the code reads: tests/numerics/test_recompiling.py."""
    edited = digest("1") if after is None else digest(choice, after)
    assert digest(choice, before) != edited


POLICY_FILE = """
from dataclasses import dataclass
import influential_bandits as ib
import settings
from helper import shifted

START = 0


@dataclass(frozen=True)
class Mine(ib.Policy):
    @staticmethod
    def select(c, s, t, eligible, rng):
        return (START + shifted(0) + settings.OFFSET) % c.n_arms
"""
HELPER_FILE = """
import numba


@numba.njit
def shifted(x):
    return x + 0
"""
SCRIPT = """
import json
from numba.core import event
import influential_bandits as ib
from mine import Mine

with event.install_recorder("numba:compile") as recorder:
    run = ib.simulate(ib.random_instance(n_arms=5, seed=0), Mine(), 3, record="choices")
print(json.dumps({"arms": run.choices[0, 0].tolist(), "compilations": len(recorder.buffer)}))
"""


@pytest.mark.long
def test_an_edited_policy_never_runs_old_code_and_an_unedited_one_is_not_compiled_again(tmp_path):
    """Each process starts afresh, with a cache of their own on disk."""
    files = {
        "mine.py": POLICY_FILE,
        "helper.py": HELPER_FILE,
        "settings.py": "OFFSET = 0\n",
        "script.py": SCRIPT,
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")

    def play():
        (told,) = run_script(tmp_path / "script.py")
        return told

    def edit(name, old, new):
        text = (tmp_path / name).read_text(encoding="utf-8")
        assert old in text
        (tmp_path / name).write_text(text.replace(old, new), encoding="utf-8")

    first = play()
    assert first["arms"] == [0, 0, 0]
    assert first["compilations"] > 0
    assert play() == {"arms": [0, 0, 0], "compilations": 0}

    edit("mine.py", "START = 0", "START = 1")
    assert play()["arms"] == [1, 1, 1]
    edit("helper.py", "x + 0", "x + 1")
    assert play()["arms"] == [2, 2, 2]
    edit("settings.py", "OFFSET = 0", "OFFSET = 1")
    assert play()["arms"] == [3, 3, 3]


NOTEBOOK = """
import sys
from dataclasses import dataclass
from numba import njit
import influential_bandits as ib

K0 = int(sys.argv[1])
helper = njit(lambda x: K0)


@dataclass(frozen=True)
class Mine(ib.Policy):
    @staticmethod
    def select(c, s, t, eligible, rng):
        return helper(0)


def played():
    world = ib.random_instance(n_arms=5, seed=0)
    agent = ib.Agent(Mine(), 5)
    arm = agent.select()
    return ib.simulate(world, Mine(), 3, record="choices").choices[0, 0].tolist() + [arm]


print(played())
for K0 in map(int, sys.argv[2:]):
    print(played())
"""


@pytest.mark.long
def test_a_constant_changed_in_a_notebook_is_played_at_once_and_by_every_later_process(tmp_path):
    """What is on disk under a fingerprint is what the fingerprint says, in whatever order."""
    (tmp_path / "notebook.py").write_text(NOTEBOOK, encoding="utf-8")

    def play(*constants):
        return run_script(tmp_path / "notebook.py", *map(str, constants))

    assert play(2, 1, 2) == [[2] * 4, [1] * 4, [2] * 4]
    assert play(1) == [[1] * 4]
    assert play(3, 2, 1) == [[3] * 4, [2] * 4, [1] * 4]


def test_an_agent_keeps_to_the_code_that_it_began_with():
    names = {"__name__": "mine"}
    exec(HEAD + "ARMS = np.array([1, 0])\n" + MINE.format(choice="ARMS[0]"), names)
    agent = ib.Agent(names["Mine"](), 2)
    names["ARMS"][0] = 0
    assert agent.select() == 1
    assert ib.Agent(names["Mine"](), 2).select() == 0
