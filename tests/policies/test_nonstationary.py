"""Policies for changing arms against their papers' definitions over the full history."""

import math

import numpy as np
import pytest
from policy_rules import assert_follows, random_losses, unseen_first

import influential_bandits as ib

ARMS = 3
LATEST = pytest.mark.parametrize("latest", [0, 9])
LOSSES = random_losses(300, ARMS, seed=2)


@LATEST
@pytest.mark.parametrize("window", [1, 7, 60, 1000])
def test_the_sliding_window_holds_the_pulls_of_the_last_rounds(window, latest):
    def rule(pulls, arrivals, t):
        recent = [a for a in arrivals if t - window <= a.round]
        seen = [[a.loss for a in recent if a.arm == arm] for arm in range(ARMS)]

        def index(arm):
            n = len(seen[arm])
            width = 0.8 * math.sqrt(0.6 * math.log(min(t, window)) / n)
            return math.fsum(seen[arm]) / n - width

        return unseen_first(seen, pulls, index)

    policy = ib.SlidingWindowLCB(window=window, loss_range=0.8)
    assert_follows(policy, rule, arms=ARMS, losses=LOSSES, latest=latest)


def test_nothing_is_left_of_a_huge_loss_that_left_the_window():
    agent = ib.Agent(ib.SlidingWindowLCB(window=4), 1)
    for t in range(40):
        agent.observe(agent.pull(), 1e17 if t < 30 and t % 3 == 0 else 0.1)
    state = agent.state
    assert state["total"][0] + state["rest"][0] == pytest.approx(0.4, rel=1e-15)


@LATEST
def test_the_past_is_discounted_by_round(latest):
    def rule(pulls, arrivals, t):
        weighed = [(a.arm, 0.95 ** (t - 1 - a.round), a.loss) for a in arrivals]
        weights = [math.fsum(w for i, w, _ in weighed if i == arm) for arm in range(ARMS)]

        def index(arm):
            mean = math.fsum(w * loss for i, w, loss in weighed if i == arm) / weights[arm]
            excess = 0.7 * math.log(max(sum(weights), 1.0))
            return mean - 2 * 0.3 * math.sqrt(excess / weights[arm])

        return unseen_first(weights, pulls, index)

    policy = ib.DiscountedLCB(discount=0.95, xi=0.7, loss_range=0.3)
    assert_follows(policy, rule, arms=ARMS, losses=LOSSES, latest=latest)


def test_an_arm_whose_weight_has_vanished_counts_as_new():
    agent = ib.Agent(ib.DiscountedLCB(discount=0.5), 2)
    old = agent.pull(1)
    agent.observe(agent.pull(1), 3.0)
    for _ in range(1200):
        agent.observe(agent.pull(0), 0.0)
    assert agent.state["weight"][1] == 0.0
    agent.observe(old, 5.0)  # too old to count
    assert agent.select() == 1
    agent.observe(agent.pull(), 7.0)
    assert agent.state["mean"].tolist() == [0.0, 7.0]


@LATEST
def test_mucb_restarts_when_the_halves_of_a_window_differ(latest):
    window, scale, planned = 10, 0.2, 400
    bound = scale * math.sqrt(window / 2 * math.log(2 * ARMS * planned**2))
    restarts = set()

    def rule(pulls, arrivals, t):
        restart, seen = 0, [[] for _ in range(ARMS)]
        for a in arrivals:
            if a.round <= restart:
                continue
            seen[a.arm].append(a.loss)
            last = seen[a.arm][-window:]
            half = window // 2
            if len(last) == window and abs(sum(last[half:]) - sum(last[:half])) > bound:
                restart, seen = a.now, [[] for _ in range(ARMS)]
                restarts.add(restart)
        turn = (t - restart - 1) % math.floor(ARMS / 0.2)
        if turn < ARMS:
            return turn

        def index(arm):
            n = len(seen[arm])
            return sum(seen[arm]) / n - scale * math.sqrt(2 * math.log(t - restart) / n)

        return unseen_first(seen, pulls, index)

    policy = ib.MUCB(window, exploration=0.2, planned_rounds=planned, loss_range=scale)
    losses = np.array(LOSSES)
    losses[100:] += [1.0, -1.0, 0.0]
    losses[200:] += [-3.0, 2.0, 1.0]
    assert_follows(policy, rule, arms=ARMS, losses=losses.tolist(), latest=latest)
    assert len(restarts) >= 2


def test_a_turn_of_mucb_passes_to_the_best_if_its_arm_is_not_eligible():
    agent = ib.Agent(ib.MUCB(exploration=1.0), 3)
    for loss in (0.5, 0.2, 0.9):
        agent.observe(agent.pull(), loss)
    assert agent.select() == 0
    assert agent.select([False, True, True]) == 1
    assert agent.select([False, False, True]) == 2
