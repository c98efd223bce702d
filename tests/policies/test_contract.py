"""What holds for every policy of the package, found by discovery."""

import math
from functools import cache

import numpy as np
import pytest
from policy_list import POLICIES, every_policy

import influential_bandits as ib
from influential_bandits.checks import LARGEST_LOSS
from influential_bandits.testing import draw_steps, everything, follow

HORIZON = 60


@cache
def world(arms):
    return ib.random_instance(n_arms=arms, seed=arms)


def privileges(policy, arms):
    """What an agent has to be told besides the number of arms."""
    return {"instance": world(arms), "horizon": HORIZON} if policy.privileged else {}


def new_agent(policy, arms, seed=0):
    return ib.Agent(policy, arms, seed, **privileges(policy, arms))


@every_policy
def test_every_policy_keeps_the_contract(policy):
    # With 31 arms influential LCB's tree has begun, and Foresight knows of pairs no more.
    many = 31 if isinstance(policy, (ib.InfluentialLCB, ib.Foresight)) else 5
    ib.testing.check_policy(policy, n_arms=(1, 2, many), rounds=20, check=False)


@pytest.mark.long
def test_no_index_is_out_of_range():
    """Of one policy, compiled with checks; test_interpreter.py plays the others."""
    ib.testing.check_policy(ib.SlidingWindowLCB(window=5), n_arms=(1, 3), rounds=60)


@every_policy
def test_losses_as_large_as_they_may_be_neither_stop_a_policy_nor_its_file(policy):
    agent = new_agent(policy, 3)
    for n in range(200):
        agent.observe(agent.pull(), LARGEST_LOSS if n % 2 else -LARGEST_LOSS)
    resumed = ib.Agent.from_json(agent.to_json(), policy, check=False, **privileges(policy, 3))
    assert resumed.select() == agent.select()
    half = 0.5 * LARGEST_LOSS  # an oracle plans with the losses after one pull of each arm
    large = ib.Instance(half * np.eye(3), [half, -half, 0.0])
    run = ib.simulate(large, policy, HORIZON, ib.GaussianNoise(LARGEST_LOSS))
    assert run.counts[0, 0, -1].sum() == HORIZON


@every_policy
def test_new_arms_are_tried_and_oracles_take_none(policy):
    agent = new_agent(policy, 2)
    if policy.privileged:
        with pytest.raises(ib.errors.NotApplicable, match="knows an instance of 2 arms"):
            agent.add_arm()
        return
    follow(agent, [("select", None), ("observe", 0), ("force", 1), ("select", None)] * 5)
    new = [agent.add_arm(), agent.add_arm()]
    agent.retire_arm(0)
    chosen = set()
    for _ in range(HORIZON):
        ticket = agent.pull()
        agent.observe(ticket, 0.1 * ticket.arm)
        chosen.add(ticket.arm)
    assert set(new) <= chosen <= {1, *new}


@every_policy
def test_no_two_configurations_are_equal(policy):
    assert sum(other == policy for other in POLICIES) == 1


@every_policy
def test_the_repr_of_a_configuration_makes_it_again(policy):
    public = {name: getattr(ib, name) for name in ib.__all__}
    assert eval(repr(policy), public) == policy


@every_policy
def test_whole_numbers_are_saved_as_strings(policy):
    agent = new_agent(policy, 3)
    follow(agent, draw_steps(3, 20, seed=0, grows=False))
    data = agent.to_json()
    for name, values in data["state"].items():
        kind = str if agent.state[name].dtype == np.int64 else float
        assert all(type(value) is kind for value in values), name
    for name in ("seed", "instance_number", "round"):
        assert isinstance(data[name], str)


def test_every_ticket_is_taken_once():
    agent = ib.Agent(ib.LCB(), 3)
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
        with pytest.raises(ib.errors.InvalidInput, match="not pending"):
            agent.observe(ticket, 0.5)
    assert everything(agent) == before
    agent.observe(first, 0.5)
    assert not agent.pending


@every_policy
def test_noise_of_scale_zero_is_no_noise(policy):
    runs = [
        ib.simulate(world(2), policy, HORIZON, noise, seeds=range(3), record="choices").choices
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
        with pytest.raises(ib.errors.InvalidPolicy, match=f"oracle.*{missing}"):
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
    run = ib.simulate(ib.counterexample(), policy, HORIZON, record="choices", checkpoints=[HORIZON])
    losses, total = np.array([1.0, 1.0]), 0.0
    for arm in run.choices[0, 0]:
        total += losses[arm]
        losses += [[1.0, 1.0], [1.0, 2.0]][arm]
    assert run.loss()[0, 0, 0] == total


@pytest.mark.parametrize(
    ("code", "settings", "message"),
    [
        (ib.EpsilonGreedy, {"epsilon": 1.5}, "epsilon must be a number of at least 0 and at most"),
        (ib.EpsilonGreedy, {"epsilon": -0.1, "decreasing": True}, "epsilon must be .* got -0.1"),
        (ib.EpsilonGreedy, {"decreasing": 1}, "decreasing must be True or False, got 1"),
        (ib.GaussianThompson, {"sigma": math.inf}, "above 0 and at most 1e\\+100, got inf"),
        (ib.MOSS, {"alpha": "1"}, "alpha must be .* got '1'"),
        (ib.MOSS, {"loss_range": True}, "loss_range must be a number above 0, got True"),
        (ib.UCBV, {"bias": -1}, "bias must be a number of at least 0, got -1"),
        (ib.EXP3, {"low": 1.0, "high": 1.0}, "high must be a number above 1, got 1"),
        (ib.EXP3, {"low": math.nan}, "low must be a number"),
        (ib.EXP3, {"low": -1e308}, "low must be a number of at least -1e\\+100"),
        (ib.EXP3, {"high": 1e308}, "high must be a number above 0 and at most 1e\\+100"),
        (ib.SlidingWindowLCB, {"window": 0}, "window must be at least 1, got 0"),
        (ib.SlidingWindowLCB, {"xi": 0.0}, "xi must be a number above 0, got 0"),
        (ib.DiscountedLCB, {"discount": 1.1}, "discount must be .* at most 1, got 1.1"),
        (ib.DiscountedLCB, {"discount": 0}, "discount must be a number above 0"),
        (ib.MUCB, {"window": 7}, "window must be even, got 7"),
        (ib.MUCB, {"exploration": 0}, "exploration must be"),
        (ib.MUCB, {"planned_rounds": 0.5}, "planned_rounds must be a whole number"),
        (ib.RAWUCB, {"alpha": 0}, "alpha must be a number above 0, got 0"),
        (ib.FEWA, {"sigma": math.nan}, "sigma must be a number above 0, got nan"),
        (ib.REdUCB, {"epsilon": 0.6}, "epsilon must be .* at most 0.5, got 0.6"),
        (ib.RLessUCB, {"sigma": 0}, "sigma must be a number above 0"),
        (ib.DSEE, {"exploration": 0}, "exploration must be a number above 0, got 0"),
    ],
    ids=str,
)
def test_a_wrong_setting_is_refused(code, settings, message):
    with pytest.raises(ib.errors.InvalidInput, match=message):
        code(**settings)
