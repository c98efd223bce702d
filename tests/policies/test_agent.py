"""Agent: what it refuses, and its files."""

import copy
import json
import math
import pickle
from dataclasses import dataclass

import numpy as np
import pytest

import influential_bandits as ib


def played(policy, rounds=7, **options):
    """An agent with some rounds behind it and two losses to come."""
    agent = ib.Agent(policy, 3, **options)
    tickets = [agent.pull() for _ in range(rounds)]
    for ticket in tickets[:-2]:
        agent.observe(ticket, 0.25 * ticket.round)
    return agent


def everything(agent):
    state = {name: values.tobytes() for name, values in agent.state.items()}
    return state, agent.round, dict(agent.pending)


def test_a_pull_may_overrule_the_policy():
    agent = ib.Agent(ib.LCB(), 3)
    assert agent.select() == 0
    assert agent.pull(2).arm == 2
    assert agent.state["pulls"].tolist() == [0, 0, 1]


def test_the_state_is_a_copy():
    agent = played(ib.LCB())
    agent.state["pulls"][:] = 99
    assert agent.state["pulls"].sum() == 7


def test_unobserved_arms_take_turns_until_their_losses_arrive():
    for arms in (3, 40):  # a scan, and a tree
        for policy in (ib.LCB(), ib.InfluentialLCB()):
            agent = ib.Agent(policy, arms)
            order = [agent.pull().arm for _ in range(2 * arms)]
            assert order == [*range(arms), *range(arms)]


@pytest.mark.parametrize("arm", [1.5, True, "1", 3, -1, 10**9])
def test_an_arm_that_is_none_is_refused_and_changes_nothing(arm):
    agent = ib.Agent(ib.LCB(), 3)
    before = everything(agent)
    with pytest.raises(ib.errors.InvalidInput, match="arm") as refusal:
        agent.pull(arm)
    assert not isinstance(refusal.value, ib.errors.InvalidPolicy), (
        "the arm is to blame, not the policy"
    )
    assert everything(agent) == before


@pytest.mark.parametrize(
    "loss", [math.nan, math.inf, -math.inf, "0.5", None, 1.0001e100, -1e308, 10**400]
)
def test_a_loss_that_is_no_finite_number_is_refused_and_changes_nothing(loss):
    agent = ib.Agent(ib.LCB(), 2)
    ticket = agent.pull()
    before = everything(agent)
    with pytest.raises(ib.errors.InvalidInput, match="loss"):
        agent.observe(ticket, loss)
    assert everything(agent) == before


@pytest.mark.parametrize("eligible", [[True], [False] * 3, [True] * 4, [[True] * 3], True])
def test_a_mask_that_does_not_fit_the_arms_is_refused(eligible):
    agent = ib.Agent(ib.LCB(), 3)
    before = everything(agent)
    expected = "eligible must (have one entry for each of the 3 arms|leave at least one arm)"
    with pytest.raises(ib.errors.InvalidInput, match=expected):
        agent.select(eligible)
    with pytest.raises(ib.errors.InvalidInput, match="eligible"):
        agent.pull(eligible=eligible)
    assert everything(agent) == before


@pytest.mark.parametrize("arms", [0, -1, 1.5, True, "3", None, 2**31 + 1, 10**400])
def test_the_number_of_arms_must_be_whole_and_positive(arms):
    with pytest.raises(ib.errors.InvalidInput, match="arms must be"):
        ib.Agent(ib.LCB(), arms)


@pytest.mark.parametrize("name", ["seed", "instance_number"])
@pytest.mark.parametrize("value", [-1, 0.5, 2**64, True, "0"])
def test_seeds_must_be_whole_and_not_negative(name, value):
    with pytest.raises(ib.errors.InvalidInput, match=f"{name} must be"):
        ib.Agent(ib.LCB(), 3, **{name: value})


@pytest.mark.parametrize("policy", ["LCB", ib.LCB, 3, ib.Policy()])
def test_an_unknown_policy_is_refused(policy):
    with pytest.raises(ib.errors.InvalidPolicy):
        ib.Agent(policy, 3)


def test_without_a_policy_it_plays_foresight(refused):
    assert ib.Agent(arms=3).policy == ib.Foresight()
    with refused(ib.errors.InvalidInput, "arms"):
        ib.Agent()


def test_losses_are_expected_by_what_a_policy_says_of_them_or_not_at_all():
    """By ``expected`` if it is defined, otherwise by a field ``mean``; a look changes nothing."""
    assert ib.Agent(ib.Uniform(), 2).expected_losses() is None
    for policy in (ib.LCB(), ib.Foresight()):
        agent = ib.Agent(policy, 2)
        assert agent.expected_losses().tolist() == [0.0, 0.0]
        for n in range(40):
            agent.observe(agent.pull(arm=n % 2), 1.0 + n % 2)
        before = agent.to_json()
        assert agent.expected_losses() == pytest.approx([1.0, 2.0], abs=0.1)
        assert agent.to_json() == before


@pytest.mark.parametrize(
    "policy", [ib.FrankWolfeOracle(), ib.OptimalOracle(), ib.EachArmOnceOracle()], ids=repr
)
def test_an_oracle_is_told_a_horizon_and_an_instance_with_its_number_of_arms(policy):
    for horizon in (0, -1, 1.5, True):
        with pytest.raises(ib.errors.InvalidInput, match="horizon"):
            ib.Agent(policy, 2, instance=ib.counterexample(), horizon=horizon)
    # With fewer arms in the instance than in the agent it would read beyond the instance's end.
    with pytest.raises(ib.errors.InvalidInput, match="arms"):
        ib.Agent(policy, 2, instance=ib.random_instance(n_arms=3, seed=0), horizon=10)


def test_an_agent_comes_back_from_its_file(tmp_path):
    path = tmp_path / "agent.json"
    policy = ib.InfluentialLCB(influence_bound="estimate")
    agent = played(policy, seed=2**64 - 1, instance_number=2**63)
    agent.save(path)
    resumed = ib.Agent.load(path, policy)
    assert everything(resumed) == everything(agent)
    assert (resumed.seed, resumed.instance_number) == (2**64 - 1, 2**63)
    assert resumed.pull() == agent.pull()
    text = path.read_text(encoding="utf-8")
    assert not {"NaN", "Infinity", "-Infinity"} & set(text.replace(",", " ").split())


def test_a_state_is_not_given_to_another_policy():
    data = played(ib.InfluentialLCB()).to_json()
    others = [
        ib.LCB(),
        ib.InfluentialLCB(influence_bound=2.0),
        ib.InfluentialLCB(influence_bound="estimate"),
    ]
    for other in others:
        with pytest.raises(ib.errors.InvalidInput, match="does not fit"):
            ib.Agent.from_json(data, other)
    for nobody in ("InfluentialLCB", ib.InfluentialLCB):
        with pytest.raises(ib.errors.InvalidPolicy, match="unknown policy"):
            ib.Agent.from_json(data, nobody)


def test_a_policy_with_numpy_parameters_can_be_saved():
    """require_policy takes np.integer and np.floating, so that their states must be JSON, too."""
    agent = ib.Agent(ib.InfluentialLCB(np.float64(2.0)), 2)
    json.dumps(agent.to_json(), allow_nan=False)
    agent = ib.Agent(ib.InfluentialLCB("estimate", noise_bound=np.float32(0.5)), 2)
    json.dumps(agent.to_json(), allow_nan=False)


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", "null", '{"format": "other/1"}', "\0"])
def test_a_file_that_is_no_agent_is_refused(tmp_path, content):
    path = tmp_path / "agent.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ib.errors.InvalidInput):
        ib.Agent.load(path, ib.LCB())


@pytest.mark.parametrize(
    "name",
    [
        *("policy", "n_arms", "arm_names", "seed", "instance_number", "round", "retired"),
        *("pending", "knowledge", "history", "state"),
    ],
)
def test_a_missing_entry_is_named(name):
    data = played(ib.LCB()).to_json()
    del data[name]
    with pytest.raises(ib.errors.InvalidInput, match=f"no '{name}' entry"):
        ib.Agent.from_json(data, ib.LCB())


@pytest.mark.parametrize(
    ("damage", "mention"),
    [
        ({"round": "seven"}, "round"),
        ({"round": 1.5}, "round"),
        ({"round": str(2**53)}, "round"),
        ({"round": "9" * 5000}, "round"),
        ({"seed": True}, "seed"),
        ({"seed": "-1"}, "seed"),
        ({"seed": str(2**64)}, "seed"),
        ({"n_arms": "many"}, "arms"),
        ({"n_arms": 10**400}, "arms"),
        ({"n_arms": 2**31 - 5}, "GB"),
        ({"n_arms": 4, "arm_names": ["a", "b", "c"]}, "3 arm_names, expected n_arms = 4"),
        ({"arm_names": ["a", "b", "a"]}, "'a' occurs twice"),
        ({"arm_names": [0, 1, 2]}, "arm_names"),
        ({"retired": [0, 1, 2]}, "retires"),
        ({"retired": [0, 0]}, "retires"),
        ({"retired": {"0": 1}}, "retired"),
        ({"history": [1]}, "history"),
        ({"history": {"round": ["1"], "arm": [0], "loss": []}}, "differ in length"),
        ({"history": {"round": ["1", "1"], "arm": [0, 1], "loss": [0.5, 0.5]}}, "a round twice"),
        ({"history": {"round": ["9"], "arm": [0], "loss": [0.5]}}, "a round"),
        ({"history": {"round": ["1"], "arm": [3], "loss": [0.5]}}, "an arm"),
        ({"history": {"round": ["1"], "arm": [0], "loss": [1e200]}}, "loss"),
        ({"history": {"round": ["7"], "arm": [0], "loss": [0.5]}}, "two tickets of round 7"),
        ({"policy": "LCB"}, "names no policy"),
        ({"policy": {"name": "LCB"}}, "no settings"),
        ({"policy": {"name": "LCB", "settings": {"width": 1}}}, "width"),
        ({"pending": None}, "pending"),
        ({"pending": [["1"]]}, "broken ticket"),
        ({"pending": [["1", 99, []]]}, "the arm of a ticket"),
        ({"pending": [["6", 0, []], ["6", 1, []]]}, "two tickets of round 6"),
        ({"pending": [["8", 0, []]]}, "the round of a ticket"),
        ({"pending": [[["6"], 0, []]]}, "the round of a ticket"),
        ({"pending": [["6", 0, [1.0]]]}, "memo of 1"),
        ({"pending": [["6", 0, [10**400]]]}, "memo"),
        ({"state": None}, "must hold the fields pulls, seen"),
        ({"state": {"pulls": ["12", "0", "0"]}}, "must hold the fields pulls, seen"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_damaged_entry_is_refused(damage, mention):
    data = played(ib.LCB()).to_json() | damage
    with pytest.raises(ib.errors.InvalidInput, match=mention):
        ib.Agent.from_json(data)


@pytest.mark.parametrize("values", [["1"], ["x", "0", "0"], None, ["1", "2", None]])
def test_a_damaged_state_is_refused(values):
    data = played(ib.LCB()).to_json()
    data["state"]["pulls"] = values
    with pytest.raises(ib.errors.InvalidInput, match="pulls"):
        ib.Agent.from_json(data, ib.LCB())


# Copies


def pickled(agent):
    return pickle.loads(pickle.dumps(agent))


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickled])
@pytest.mark.parametrize(
    "policy", [ib.LCB(), ib.InfluentialLCB("estimate"), ib.FrankWolfeOracle()], ids=repr
)
def test_a_copy_has_a_state_of_its_own_and_makes_the_same_choices(copied, policy):
    told = {"instance": ib.random_instance(n_arms=3, seed=0)} if policy.privileged else {}
    original = played(policy, seed=5, **told)
    original.retire_arm(1)
    before = everything(original)
    twin = copied(original)
    assert everything(twin) == before
    assert (twin.seed, twin.retired) == (5, {1})
    while twin.pending:
        twin.observe(next(iter(twin.pending.values())), 0.5)
    later = [twin.pull() for _ in range(5)]
    twin.retire_arm(0)
    assert everything(original) == before
    assert original.retired == {1}
    while original.pending:
        original.observe(next(iter(original.pending.values())), 0.5)
    assert [original.pull() for _ in range(5)] == later


def test_the_repr_says_who_plays_and_how_far_it_is():
    agent = ib.Agent(ib.LCB(), 1)
    assert repr(agent) == "Agent(LCB(), 1 arm, 0 rounds played)"
    agent.add_arm()
    agent.retire_arm(0)
    agent.pull()
    expected = "Agent(LCB(), 2 arms, 1 retired, 1 round played, 1 loss to come)"
    assert repr(agent) == expected
    named = ib.Agent(ib.LCB(), list("abcde"))
    assert repr(named) == "Agent(LCB(), 5 arms (a, b, c, d, …), 0 rounds played)"


# Limits


def test_more_arms_than_there_is_memory_for_are_refused_before_anything_is_allocated():
    with pytest.raises(ib.errors.InvalidInput, match=r"MUCB for 2,147,483,648 arms would .* TB"):
        ib.Agent(ib.MUCB(window=2**23), 2**31)


def test_a_new_arm_for_which_there_is_no_memory_is_refused_and_changes_nothing(monkeypatch):
    agent = played(ib.LCB())
    before = everything(agent)
    monkeypatch.setattr("influential_bandits.free_memory.available_memory", lambda: 100.0)
    with pytest.raises(ib.errors.InvalidInput, match="LCB for 4 arms would take"):
        agent.add_arm()
    assert everything(agent) == before
    assert agent.n_arms == 3


def test_rounds_beyond_the_largest_horizon_are_refused():
    data = ib.Agent(ib.Uniform(), 2).to_json() | {"round": str(2**53 - 2)}
    agent = ib.Agent.from_json(data, ib.Uniform())
    agent.pull()
    with pytest.raises(ib.errors.InvalidInput, match="the round must be below"):
        agent.pull()


# Names


def test_arms_may_have_names():
    agent = ib.Agent(ib.LCB(), arms=["tea", "coffee", "milk"])
    assert (agent.n_arms, agent.arm_names) == (3, ("tea", "coffee", "milk"))
    assert [agent.pull().name for _ in range(3)] == ["tea", "coffee", "milk"]
    assert agent.pull("milk")[:3] == (4, 2, "milk")
    assert agent.select(["coffee"]) == 1
    assert agent.select({"coffee", "milk"}) in (1, 2)
    agent.retire_arm("tea")
    assert agent.retired == {0}
    assert agent.add_arm("water") == 3
    assert agent.add_arm() == 4
    assert agent.arm_names == ("tea", "coffee", "milk", "water", "4")
    numbered = ib.Agent(ib.LCB(), 2)
    assert numbered.pull().name == "0"
    assert numbered.add_arm("tea") == 2
    assert numbered.arm_names == ("0", "1", "tea")
    assert numbered.pull("tea").arm == 2


@pytest.mark.parametrize(
    "arms", [["a", "a"], ["a", 1], ["a", "\ud800"], [], (), {"a", "b"}, [3], np.array(3)]
)
def test_names_must_be_texts_that_differ_and_have_an_order(arms):
    with pytest.raises(ib.errors.InvalidInput, match="arm"):
        ib.Agent(ib.LCB(), arms)


@pytest.mark.parametrize("eligible", [["water"], ["tea", "water"], []])
def test_an_unknown_name_is_refused_and_changes_nothing(eligible):
    agent = ib.Agent(ib.LCB(), ["tea", "coffee"])
    before = everything(agent)
    for refused in (
        lambda: agent.pull("water"),
        lambda: agent.retire_arm("water"),
        lambda: agent.select(eligible),
        lambda: agent.add_arm("tea"),
        lambda: agent.add_arm(7),
    ):
        with pytest.raises(ib.errors.InvalidInput, match=r"water|eligible|tea|7"):
            refused()
    assert everything(agent) == before
    assert agent.arm_names == ("tea", "coffee")


# Losses that never come


def test_a_cancelled_pull_stays_counted_and_its_loss_is_refused():
    agent = ib.Agent(ib.LCB(), 2)
    first, second = agent.pull(), agent.pull()
    agent.cancel(first)
    assert list(agent.pending.values()) == [second]
    assert agent.state["pulls"].tolist() == [1, 1]
    for again in (agent.cancel, lambda ticket: agent.observe(ticket, 0.5)):
        with pytest.raises(ib.errors.InvalidInput, match=r"not pending.*cancelled or expired"):
            again(first)
    agent.observe(second, 0.5)


def test_losses_expire_by_round():
    agent = ib.Agent(ib.LCB(), 2)
    tickets = [agent.pull() for _ in range(6)]
    agent.observe(tickets[1], 0.5)
    assert agent.expire(before_round=4) == [tickets[0], tickets[2]]
    assert agent.expire(before_round=4) == []
    assert agent.expire(before_round=-3) == []
    assert list(agent.pending.values()) == tickets[3:]
    with pytest.raises(ib.errors.InvalidInput, match="before_round"):
        agent.expire("all")


# Histories


def test_a_history_becomes_a_log_and_is_saved(tmp_path):
    agent = ib.Agent(ib.LCB(), ["tea", "coffee", "milk"], instance_number=7, history=True)
    tickets = [agent.pull() for _ in range(5)]
    for ticket in reversed(tickets[:4]):
        agent.observe(ticket, 0.1 * ticket.round)
    agent.cancel(tickets[4])
    agent.save(tmp_path / "agent.json")
    for each in (agent, pickled(agent), ib.Agent.load(tmp_path / "agent.json")):
        log = each.to_log()
        assert (log.n_arms, log.n_events, log.instances) == (3, 4, ("7",))
        assert log.arm.tolist() == [ticket.arm for ticket in tickets[:4]]
        assert log.loss.tolist() == [0.1 * t for t in (1, 2, 3, 4)]
        assert log.time.tolist() == [1, 2, 3, 4]
        assert log.about["pulls without a loss"] == 1
        assert each.to_log("ann").instances == ("ann",)
    twin = copy.copy(agent)
    twin.observe(twin.pull(), 0.5)
    assert (len(agent.to_log()), len(twin.to_log())) == (4, 5)


def test_an_agent_keeps_no_history_unless_it_is_asked_to():
    agent = played(ib.LCB())
    with pytest.raises(ib.errors.NotApplicable, match="history=True"):
        agent.to_log()


# Files without the policy at hand


@dataclass(frozen=True)
class Mine(ib.Policy):
    weight: float = 1.0

    @staticmethod
    def select(c, s, t, eligible, rng):
        return t % c.n_arms


@pytest.mark.parametrize(
    "policy",
    [
        ib.LCB(),
        ib.InfluentialLCB("estimate"),
        ib.Foresight(prior=ib.LossPrior.around(np.eye(3), np.zeros(3), sd=0.5, sigma=1.0)),
        Mine(weight=0.5),
    ],
    ids=lambda policy: type(policy).__name__,
)
def test_the_policy_is_made_from_the_file(policy, tmp_path):
    agent = played(policy)
    agent.save(tmp_path / "agent.json")
    resumed = ib.Agent.load(tmp_path / "agent.json")
    assert resumed.policy == policy
    assert everything(resumed) == everything(agent)
    assert resumed.pull() == agent.pull()


def test_an_oracle_is_told_again_what_it_knew(tmp_path):
    world = ib.random_instance(3, seed=0)
    agent = played(ib.FrankWolfeOracle(), instance=world)
    agent.save(tmp_path / "agent.json")
    assert ib.Agent.load(tmp_path / "agent.json", instance=world).pull() == agent.pull()
    with pytest.raises(ib.errors.InvalidInput):
        ib.Agent.load(tmp_path / "agent.json", instance=ib.random_instance(3, seed=1))


def test_arms_that_are_retired_or_not_on_offer_are_not_pulled(refused):
    agent = ib.Agent(ib.Uniform(), 3)
    agent.retire_arm(0)
    for arm, eligible in ((0, None), (1, [False, False, True])):
        with refused(ib.errors.InvalidInput, "retired or not eligible"):
            agent.pull(arm, eligible)
    assert agent.round == 0
    with refused(ib.errors.InvalidInput, "arm 0 is not in use"):
        agent.retire_arm(0)
    agent.retire_arm(1)
    with refused(ib.errors.InvalidInput, "arm 2 is the last one in use"):
        agent.retire_arm(2)
    assert agent.retired == {0, 1}
    assert agent.pull().arm == 2
