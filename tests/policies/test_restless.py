"""DSEE against the schedule of the paper."""

import math

import pytest
from policy_rules import assert_follows, random_losses, unseen_first

import influential_bandits as ib

ARMS = 3
LOSSES = random_losses(400, ARMS, seed=5)


def schedule(arms, rounds, exploration):
    """Round → the arm to explore, or None to exploit."""
    plan, explored, exploited = [], 0, 0
    while len(plan) < rounds:
        if (4**explored - 1) / 3 > exploration * math.log(len(plan) + 1):
            plan += [None] * (2 * 4**exploited)
            exploited += 1
        else:
            plan += [arm for arm in range(arms) for _ in range(4**explored)]
            explored += 1
    return plan


@pytest.mark.parametrize("latest", [0, 6])
@pytest.mark.parametrize("exploration", [0.2, 1.0, 30.0])
def test_dsee_follows_its_schedule(exploration, latest):
    plan = schedule(ARMS, len(LOSSES), exploration)

    def rule(pulls, arrivals, t):
        if plan[t - 1] is not None:
            return plan[t - 1]
        seen = [[] for _ in range(ARMS)]
        for a in arrivals:
            if plan[a.round - 1] is not None or not seen[a.arm]:
                seen[a.arm].append(a.loss)
        return unseen_first(seen, pulls, lambda arm: sum(seen[arm]) / len(seen[arm]))

    policy = ib.DSEE(exploration)
    assert_follows(policy, rule, arms=ARMS, losses=LOSSES, latest=latest)


def test_the_best_eligible_arm_stands_in_for_a_scheduled_one():
    agent = ib.Agent(ib.DSEE(exploration=30.0), 3)
    for loss in (0.5, 0.9, 0.2):
        agent.observe(agent.pull(), loss)
    assert agent.select() == 0
    substitute = agent.pull(eligible=[False, True, True])
    assert substitute.arm == 2
    agent.observe(substitute, 100.0)  # no exploration, so that the mean stays
    assert agent.state["mean"].tolist() == [0.5, 0.9, 0.2]


def test_a_new_arm_is_pulled_once_and_explored_in_its_turn():
    agent = ib.Agent(ib.DSEE(), 2)
    for _ in range(10):
        agent.observe(agent.pull(), 1.0)
    new = agent.add_arm()
    choices = []
    for _ in range(2):
        ticket = agent.pull()
        choices.append(ticket.arm)
        agent.observe(ticket, 2.0)
    assert choices == [new, 0]
