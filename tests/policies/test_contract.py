"""What holds for every policy of the package, found by discovery."""

import dataclasses
import importlib
import json
import math
import pkgutil
import random
from functools import cache

import numpy as np
import pytest

import influential_bandits as ib

HORIZON = 60
SIZES = (1, 2, 40)  # 40: influential LCB keeps a tree beyond 32 arms
CONFIGURATIONS = {
    ib.InfluentialLCB: (
        ib.InfluentialLCB(),
        ib.InfluentialLCB(scale=2.5),
        ib.InfluentialLCB(scale="estimate"),
        ib.InfluentialLCB(scale="estimate", opening="paper", noise_bound=0.25),
    ),
    ib.EpsilonGreedy: (ib.EpsilonGreedy(), ib.EpsilonGreedy(2.0, decreasing=True)),
    ib.EXP3: (ib.EXP3(low=-3.0, high=3.0),),  # the range of loss_of
    ib.SlidingWindowLCB: (ib.SlidingWindowLCB(), ib.SlidingWindowLCB(window=5)),
    ib.DiscountedLCB: (ib.DiscountedLCB(), ib.DiscountedLCB(discount=1e-30)),
    ib.MUCB: (ib.MUCB(), ib.MUCB(window=2, exploration=0.5, planned_rounds=1, scale=0.5)),
    ib.FEWA: (ib.FEWA(), ib.FEWA(alpha=0.06, noise=0.1)),
}


def discovered():
    """Every policy that some module of the package defines, not those of tests."""
    for module in pkgutil.walk_packages(ib.__path__, ib.__name__ + "."):
        importlib.import_module(module.name)
    found, queue = [], list(ib.Policy.__subclasses__())
    while queue:
        code = queue.pop()
        queue.extend(code.__subclasses__())
        if code.__module__.startswith(f"{ib.__name__}."):
            found.append(code)
    return sorted(found, key=lambda code: code.__name__)


POLICIES = [policy for code in discovered() for policy in CONFIGURATIONS.get(code, (code(),))]
every_policy = pytest.mark.parametrize("policy", POLICIES, ids=repr)
every_size = pytest.mark.parametrize("arms", SIZES)


@cache
def world(arms):
    return ib.random_instance(arms=arms, seed=arms)


def told(policy, arms):
    """What an agent has to be told besides the number of arms."""
    return {"instance": world(arms), "horizon": HORIZON} if policy.privileged else {}


def new_agent(policy, arms, seed=0):
    return ib.Agent(policy, arms, seed, **told(policy, arms))


def loss_of(ticket):
    """A loss that is a function of the ticket, so that it can be told again after a resume."""
    return 3.0 * math.sin(12.9898 * ticket.round + 78.233 * ticket.arm)


def everything(agent):
    """All that an agent is, as bytes."""
    state = {name: values.tobytes() for name, values in agent.state.items()}
    return state, agent.round, dict(agent.pending), agent.arms, set(agent.retired)


def script(arms, rounds, seed):
    """Pulls (of the selected arm, of some of the arms, of a given arm) and late observations."""
    draw = random.Random(seed)
    steps, pending = [], 0
    while sum(kind != "observe" for kind, _ in steps) < rounds:
        kind = draw.choice(["select", "select", "offer", "force", "observe", "observe", "observe"])
        if kind == "observe":
            if pending == 0:
                continue
            steps.append((kind, draw.randrange(pending)))
            pending -= 1
            continue
        if kind == "offer":
            mask = [draw.random() < 0.5 for _ in range(arms)]
            mask[draw.randrange(arms)] = True
            steps.append((kind, mask))
        else:
            steps.append((kind, draw.randrange(arms)))
        pending += 1
    return steps


def changing_script(arms, updates, seed, grows):
    """Every kind of update there is: a script in which arms also come (if they may) and go."""
    draw = random.Random(seed)
    kinds = ["select", "select", "offer", "offer", "force", "observe", "observe", "retire"]
    steps, pending, in_use = [], 0, list(range(arms))
    while len(steps) < updates:
        kind = draw.choice([*kinds, "add"] if grows else kinds)
        detail = draw.choice(in_use)
        if kind == "observe":
            if pending == 0:
                continue
            detail = draw.randrange(pending)
        elif kind == "retire":
            if len(in_use) < 2 or draw.random() < 0.5:
                continue
            in_use.remove(detail)
        elif kind == "add":
            in_use.append(arms)
            arms += 1
        elif kind == "offer":
            detail = [arm == detail or draw.random() < 0.5 for arm in range(arms)]
        steps.append((kind, detail))
        pending += {"observe": -1, "retire": 0, "add": 0}.get(kind, 1)
    return steps


def follow(agent, steps):
    """Let an agent do the steps; return the tickets of its pulls."""
    tickets = []
    for kind, detail in steps:
        if kind == "add":
            agent.add_arm()
        elif kind == "retire":
            agent.retire_arm(detail)
        elif kind == "observe":
            ticket = agent.pending[sorted(agent.pending)[detail]]
            agent.observe(ticket, loss_of(ticket))
        elif kind == "offer":
            ticket = agent.pull(eligible=detail)
            assert detail[ticket.arm], f"{agent.policy} pulled an arm that was not on offer"
            tickets.append(ticket)
        else:
            tickets.append(agent.pull(detail if kind == "force" else None))
    return tickets


def strictly_through_json(data):
    """Return what a strict JSON parser makes of the data."""

    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(json.dumps(data, allow_nan=False), parse_constant=refuse)


def test_discovery_finds_the_policies_of_the_paper():
    names = {type(policy).__name__ for policy in POLICIES}
    assert names >= {
        "LCB",
        "InfluentialLCB",
        "FrankWolfeOracle",
        "OptimalOracle",
        "EachArmOnceOracle",
        "Uniform",
    }


@every_policy
def test_a_configuration_cannot_be_changed(policy):
    fields = dataclasses.fields(policy)
    name = fields[0].name if fields else "anything"
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(policy, name, 1.0)


@every_policy
def test_equal_configurations_have_equal_hashes(policy):
    twin = dataclasses.replace(policy)
    assert twin is not policy
    assert twin == policy
    assert hash(twin) == hash(policy)
    assert sum(other == policy for other in POLICIES) == 1


@every_policy
def test_the_repr_of_a_configuration_makes_it_again(policy):
    public = {name: getattr(ib, name) for name in ib.__all__}
    assert eval(repr(policy), public) == policy


@every_policy
@every_size
def test_select_only_reads(policy, arms):
    agent = new_agent(policy, arms)
    mask = np.zeros(arms, bool)
    mask[arms // 2 :] = True
    for steps in (script(arms, 12, seed) for seed in range(3)):
        follow(agent, steps)
        before = everything(agent)
        choices = {agent.select() for _ in range(3)}
        offered = {agent.select(mask) for _ in range(3)}
        assert everything(agent) == before
        assert len(choices) == len(offered) == 1
        assert mask.sum() == arms - arms // 2, "the caller's mask was changed"


@every_policy
@every_size
def test_only_eligible_arms_are_chosen(policy, arms):
    draw = random.Random(arms)
    agent = new_agent(policy, arms)
    for _ in range(HORIZON):
        mask = [draw.random() < 0.3 for _ in range(arms)]
        mask[draw.randrange(arms)] = True
        assert mask[agent.select(mask)]
        single = draw.randrange(arms)
        assert agent.select(np.arange(arms) == single) == single
        ticket = agent.pull(eligible=mask)
        assert mask[ticket.arm]
        agent.observe(ticket, loss_of(ticket))


@every_policy
@every_size
def test_choosing_among_all_arms_by_a_mask_or_without_one_is_the_same(policy, arms):
    agent = new_agent(policy, arms)
    everyone = np.ones(arms, bool)
    for step in script(arms, HORIZON, seed=5):
        assert agent.select() == agent.select(everyone)
        follow(agent, [step])


@every_policy
@every_size
def test_the_engine_plays_every_number_of_arms(policy, arms):
    run = ib.simulate(world(arms), policy, HORIZON, ib.GaussianNoise(1.0), record="arms")
    assert run.arms.min() >= 0
    assert run.arms.max() < arms
    assert (run.counts.sum(axis=-1) == run.checkpoints).all()
    assert (np.bincount(run.arms[0, 0], minlength=arms) == run.counts[0, 0, -1]).all()


@every_policy
def test_the_engine_chooses_what_an_agent_chooses(policy):
    noise = ib.GaussianNoise(1.0)
    run = ib.simulate(world(3), policy, HORIZON, noise, seeds=[5], record="arms")
    agent, environment = new_agent(policy, 3, seed=5), ib.Environment(world(3), noise, seed=5)
    for arm in run.arms[0, 0]:
        ticket = agent.pull()
        assert ticket.arm == arm
        agent.observe(ticket, environment.pull(arm))


@every_policy
@every_size
@pytest.mark.parametrize("seed", range(3))
def test_a_saved_agent_goes_on_as_if_never_saved(policy, arms, seed):
    before, after = script(arms, 25, seed), script(arms, 25, seed + 100)
    original = new_agent(policy, arms, seed=2**64 - 1 - seed)
    follow(original, before)
    resumed = ib.Agent.from_json(
        strictly_through_json(original.to_json()), policy, **told(policy, arms)
    )
    assert everything(resumed) == everything(original)
    assert follow(resumed, after) == follow(original, after)
    assert everything(resumed) == everything(original)
    assert resumed.seed == original.seed


@every_policy
def test_an_agent_can_be_saved_after_each_single_update(policy):
    original = resumed = new_agent(policy, 3)
    for step in script(3, 30, seed=7):
        resumed = ib.Agent.from_json(
            strictly_through_json(resumed.to_json()), policy, **told(policy, 3)
        )
        assert follow(resumed, [step]) == follow(original, [step])
    assert everything(resumed) == everything(original)
    assert original.pending, "the script should end with losses to come"


@every_policy
@pytest.mark.parametrize("arms", [3, 31])  # 31: influential LCB's tree begins on the way
@pytest.mark.parametrize("seed", range(2))
def test_an_agent_can_be_saved_after_every_kind_of_update(policy, arms, seed):
    original = resumed = new_agent(policy, arms)
    steps = changing_script(arms, 60, seed, grows=not policy.privileged)
    wanted = {"select", "offer", "force", "observe", "retire"}
    assert {kind for kind, _ in steps} >= (wanted if policy.privileged else wanted | {"add"})
    for step in steps:
        saved = strictly_through_json(resumed.to_json())
        resumed = ib.Agent.from_json(saved, policy, **told(policy, arms))
        assert follow(resumed, [step]) == follow(original, [step])
        assert everything(resumed) == everything(original), step


@every_policy
def test_whole_numbers_are_saved_as_strings(policy):
    agent = new_agent(policy, 3)
    follow(agent, script(3, 10, seed=0))
    data = agent.to_json()
    for name, values in data["state"].items():
        kind = str if agent.state[name].dtype == np.int64 else float
        assert all(type(value) is kind for value in values), name
    for name in ("seed", "instance_number", "round"):
        assert isinstance(data[name], str)


@every_policy
@every_size
@pytest.mark.parametrize("order", ["in order", "backwards", "shuffled", "never"])
def test_late_losses_are_taken_in_any_order(policy, arms, order):
    agent = new_agent(policy, arms)
    tickets = [agent.pull() for _ in range(HORIZON // 2)]
    assert all(0 <= ticket.arm < arms for ticket in tickets)
    assert list(agent.pending.values()) == tickets
    if order == "backwards":
        tickets.reverse()
    elif order == "shuffled":
        random.Random(0).shuffle(tickets)
    elif order == "never":
        tickets = []
    for ticket in tickets:
        agent.observe(ticket, loss_of(ticket))
        assert 0 <= agent.select() < arms
    assert len(agent.pending) == (HORIZON // 2 if order == "never" else 0)
    for _ in range(HORIZON // 2):
        ticket = agent.pull()
        agent.observe(ticket, loss_of(ticket))


@every_policy
def test_arms_come_and_go(policy):
    agent = new_agent(policy, 2)
    if policy.privileged:
        with pytest.raises(ib.NotApplicable, match="knows an instance of 2 arms"):
            agent.add_arm()
        return
    follow(agent, script(2, 20, seed=3))
    assert [agent.add_arm(), agent.add_arm()] == [2, 3]
    agent.retire_arm(0)
    resumed = ib.Agent.from_json(strictly_through_json(agent.to_json()), policy)
    chosen = set()
    for _ in range(HORIZON):
        ticket = agent.pull()
        assert resumed.pull() == ticket
        chosen.add(ticket.arm)
        for late in list(agent.pending.values())[::2]:  # of the retired arm too
            for twin in (agent, resumed):
                twin.observe(late, loss_of(late))
    assert {2, 3} <= chosen <= {1, 2, 3}
    assert everything(resumed) == everything(agent)


@every_policy
def test_every_ticket_is_taken_once(policy):
    agent = new_agent(policy, 3)
    first, second = agent.pull(), agent.pull()
    agent.observe(second, 0.5)
    before = everything(agent)
    strangers = [
        second,
        first._replace(arm=(first.arm + 1) % 3),
        first._replace(round=3),
        first._replace(round=0),
    ]
    for ticket in strangers:
        with pytest.raises(ib.InvalidInput, match="not pending"):
            agent.observe(ticket, 0.5)
    assert everything(agent) == before
    agent.observe(first, 0.5)
    assert not agent.pending


@every_policy
@pytest.mark.parametrize("arm", [3, -1, 10**9])
def test_an_arm_out_of_range_is_refused_and_changes_nothing(policy, arm):
    agent = new_agent(policy, 3)
    before = everything(agent)
    with pytest.raises(ib.InvalidInput, match=f"one of 0 … 2, got {arm}"):
        agent.pull(arm)
    assert everything(agent) == before


@every_policy
def test_equal_seeds_make_equal_choices(policy):
    noise = ib.GaussianNoise(1.0)
    runs = [
        ib.simulate(world(3), policy, HORIZON, noise, seeds=range(4), record="arms").arms
        for _ in range(2)
    ]
    assert np.array_equal(*runs)
    twins = [new_agent(policy, 3, seed=11) for _ in range(2)]
    tickets = [follow(agent, script(3, 40, seed=1)) for agent in twins]
    assert tickets[0] == tickets[1]


@every_policy
def test_noise_of_scale_zero_is_no_noise(policy):
    runs = [
        ib.simulate(world(2), policy, HORIZON, noise, seeds=range(3), record="arms").arms
        for noise in (None, ib.NoNoise(), ib.GaussianNoise(0.0), ib.UniformNoise(0.0))
    ]
    assert all(np.array_equal(runs[0], other) for other in runs[1:])


@every_policy
def test_oracles_demand_instance_and_horizon_and_nobody_else_does(policy):
    if not policy.privileged:
        ib.Agent(policy, 2)
        return
    complete = {"instance": world(2), "horizon": HORIZON}
    for missing in policy.privileged:
        given = {name: complete[name] for name in complete if name != missing}
        with pytest.raises(ib.InvalidPolicy, match=f"oracle.*{missing}"):
            ib.Agent(policy, 2, **given)


@every_policy
def test_whoever_does_not_know_the_instance_pays_for_the_first_pull(policy):
    """Prop. 2.3: regret ≥ T/4 + 1/8 on the instance chosen against the first arm."""
    if policy.privileged:
        return
    first = ib.Agent(policy, 2).select()
    run = ib.simulate(
        ib.linear_lower_bound(first), policy, 20_000, ib.UniformNoise(1.0), seeds=range(5)
    )
    starts_with_it = run.counts[0, :, 0, first] == 1  # a random policy may, with another seed, not
    assert starts_with_it[0]
    assert (run.regret()[0, starts_with_it] >= run.checkpoints / 4 + 1 / 8).all()


@every_policy
def test_losses_are_exact_sums_of_what_was_pulled(policy):
    run = ib.simulate(ib.counterexample(), policy, HORIZON, record="arms", checkpoints=[HORIZON])
    losses, total = np.array([1.0, 1.0]), 0.0
    for arm in run.arms[0, 0]:
        total += losses[arm]
        losses += [[1.0, 1.0], [1.0, 2.0]][arm]
    assert run.loss()[0, 0, 0] == total
