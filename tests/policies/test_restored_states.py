"""Agent files that were changed: refused, or played on, and nothing else."""

import copy
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import forked
import numpy as np
import pytest

import influential_bandits as ib
from influential_bandits.errors import InvalidInput

TESTS = Path(__file__).parent.parent


@pytest.mark.long
def test_changed_files_of_every_policy_are_refused_or_played_on():
    """In a process of its own, which dies of what compiled code does to its memory."""
    done = forked.run(
        [sys.executable, TESTS / "agent_mutations.py", "12", "0"],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])},
        capture_output=True,
        text=True,
        check=False,
    )
    *cases, last = done.stdout.splitlines()
    assert done.returncode == 0, f"{last}\n{done.stderr[-2000:]}"
    outcomes = json.loads(last)
    assert outcomes["refused"] + outcomes["played on"] == len(cases)
    assert min(outcomes.values()) > 20


def saved(policy, rounds=12, arms=3):
    agent = ib.Agent(policy, arms)
    for t in range(rounds):
        agent.observe(agent.pull(), 0.1 * t)
    agent.pull()
    return agent.to_json()


IMPOSSIBLE = [
    (ib.REdUCB(), "seen", 2, "1000000000"),
    (ib.RLessUCB(), "losses", 0, "-5"),
    (ib.RAWUCB(), "seen", 1, str(2**62)),
    (ib.FEWA(), "newer", 0, 1e308),
    (ib.SlidingWindowLCB(), "ring_arm", 7, str(2**40)),
    (ib.SlidingWindowLCB(), "newest", 0, "0"),
    (ib.DiscountedLCB(), "weight", 0, 0.0),
    (ib.MUCB(), "restart", 0, "99"),
    (ib.DSEE(), "explorations", 0, "60"),
    (ib.DSEE(), "position", 0, "-1"),
    (ib.EXP3(), "estimate", 0, -1.0),
    (ib.EXP3(), "in_use", 0, "2"),
    (ib.UCBV(), "squares", 0, -1.0),
    (ib.LCB(), "pulls", 0, "5000"),
    (ib.LCB(), "unseen", 0, "3"),
    (ib.InfluentialLCB(), "key", 0, 5.0),
    (ib.InfluentialLCB("estimate"), "scheduled", 0, "-1"),
    (ib.InfluentialLCB("estimate"), "last_arm", 0, "3"),
]
SAVES = """
import json, sys
import influential_bandits as ib
from policies.test_restored_states import IMPOSSIBLE, saved
json.dump({repr(policy): saved(policy) for policy, *_ in IMPOSSIBLE}, sys.stdout)
"""


@pytest.fixture(scope="module")
def saved_agents():
    """Play by the interpreter, to the same bits: compiling for twelve policies takes longer."""
    done = subprocess.run(
        [sys.executable, "-c", SAVES],
        env=os.environ
        | {"NUMBA_DISABLE_JIT": "1", "PYTHONPATH": os.pathsep.join(map(str, [TESTS, *sys.path]))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("policy", "field", "place", "value"), IMPOSSIBLE, ids=lambda value: str(value)[:30]
)
def test_a_state_that_cannot_be_is_refused_with_the_field(
    saved_agents, policy, field, place, value
):
    data = copy.deepcopy(saved_agents[repr(policy)])
    assert data["state"][field][place] != value
    data["state"][field][place] = value
    with pytest.raises(InvalidInput, match=rf"damaged.*({field}|seen)"):
        ib.Agent.from_json(data, policy)


@pytest.mark.parametrize(("place", "value"), [(1, 2), (1, -1), (64, 5), (100, 40)])
def test_a_tree_that_names_another_arm_is_refused(place, value):
    data = saved(ib.InfluentialLCB(), arms=40)
    assert data["state"]["tree"][place] != str(value)
    data["state"]["tree"][place] = str(value)
    with pytest.raises(InvalidInput, match=r"damaged.*tree"):
        ib.Agent.from_json(data, ib.InfluentialLCB())


@pytest.mark.parametrize(
    ("change", "mention"),
    [
        ({"round": str(2**53)}, "round"),
        ({"round": "9" * 5000}, "round"),
        ({"round": 1.5}, "round"),
        ({"seed": True}, "seed"),
        ({"seed": str(2**64)}, "seed"),
        ({"retired": [0, 1, 2]}, "retires"),
        ({"retired": [0, 0]}, "retires"),
        ({"retired": {"0": 1}}, "retired"),
        ({"n_arms": 10**400}, "arms"),
        ({"n_arms": 2**31 - 5}, "GB"),
        ({"pending": [["13", 0, []], ["13", 1, []]]}, "two tickets of round 13"),
        ({"pending": [["14", 0, []]]}, "round of a ticket"),
        ({"pending": [["13", 0, [1.0]]]}, "memo of 1"),
        ({"pending": [["13", 0, [10**400]]]}, "memo"),
        ({"pending": [[["13"], 0, []]]}, "round of a ticket"),
        ({"policy": [[[]]] * 3}, "names no policy"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_changed_entry_is_refused(change, mention):
    with pytest.raises(InvalidInput, match=mention):
        ib.Agent.from_json(saved(ib.LCB()) | change, ib.LCB())


@pytest.mark.parametrize(
    "memo", [[0.0], [2.0], [-1.0], [1e308], [5e-324]], ids=lambda memo: str(memo[0])
)
def test_a_memo_that_cannot_be_is_refused(memo):
    data = saved(ib.EXP3())
    data["pending"][0][2] = memo
    with pytest.raises(InvalidInput, match="damaged: memo"):
        ib.Agent.from_json(data, ib.EXP3())


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"round": ' + "9" * 5000 + "}", "NaN", '"\\ud800"']
)
def test_a_file_that_is_no_sane_json_is_refused(tmp_path, text):
    path = tmp_path / "agent.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidInput):
        ib.Agent.load(path, ib.LCB())


@dataclass(frozen=True)
class Trusting(ib.Policy):
    """Uses a number of its state as an index, and says nothing about what it may be."""

    def fields(self, arms):
        return {"next": ("int64", 1), "order": ("int64", arms)}

    @staticmethod
    def init(c, s):
        for arm in range(c.n_arms):
            s.order[arm] = arm

    @staticmethod
    def select(c, s, t, eligible, rng):
        return s.order[s.next[0]]

    @staticmethod
    def pulled(c, s, t, arm, memo):
        s.order[s.next[0]] = arm
        s.next[0] = (s.next[0] + 1) % c.n_arms


@dataclass(frozen=True)
class Careful(Trusting):
    """Says what its state may be."""

    def check_state(self, arms, rounds, state):
        if not 0 <= state["next"][0] < arms:
            raise ValueError(f"next is {state['next'][0]}")


def test_the_restored_agent_of_a_policy_without_check_state_checks_its_indices():
    data = ib.Agent(Trusting(), 3).to_json()
    assert ib.Agent.from_json(data, Trusting()).pull().arm == 0
    data["state"]["next"] = [str(10**9)]
    agent = ib.Agent.from_json(data, Trusting())
    with pytest.raises(
        ib.errors.InvalidPolicy, match=r"Trusting failed in select, round 1 .*bounds"
    ):
        agent.pull()
    with pytest.raises(
        ib.errors.InvalidPolicy, match=r"Trusting failed in pulled, round 1 .*bounds"
    ):
        agent.pull(0)
    assert agent.round == 0


def test_a_policy_with_check_state_is_asked():
    data = ib.Agent(Careful(), 3).to_json()
    data["state"]["next"] = ["3"]
    with pytest.raises(
        ib.errors.InvalidPolicy, match=r"Careful\.check_state failed with ValueError: next"
    ):
        ib.Agent.from_json(data, Careful())


def test_the_states_of_long_runs_pass():
    """Bounds that depend on rounds: none may refuse what play leads to."""
    for policy in (ib.DSEE(exploration=3.0), ib.REdUCB(), ib.FEWA(), ib.ModelLCB()):
        agent = ib.Agent(policy, 2)
        losses = np.random.default_rng(0).normal(size=2000)
        for t in range(2000):
            agent.observe(agent.pull(), losses[t])
            if t % 97 == 0:
                assert ib.Agent.from_json(agent.to_json(), policy).select() == agent.select()
