"""Classic policies against their papers' definitions."""

import math

import numpy as np
import pytest
from policy_rules import assert_follows, losses_of, random_losses, unseen_first

import influential_bandits as ib
from influential_bandits.numerics.streams import POLICY, Stream, stream_at, stream_keys

ARMS = 4
LATEST = pytest.mark.parametrize("latest", [0, 7])
LOSSES = random_losses(250, ARMS, seed=1)


def random_numbers(seed, t):
    keys = stream_keys(np.uint64(seed), np.uint64(0), POLICY)
    return Stream(*map(np.uint64, stream_at(*map(np.uint64, keys), t)))


def mean(values):
    return math.fsum(values) / len(values)


@LATEST
@pytest.mark.parametrize("decreasing", [False, True])
def test_epsilon_greedy_is_greedy_but_for_a_random_share(decreasing, latest):
    epsilon = 3.0 if decreasing else 0.3

    def rule(pulls, arrivals, t):
        seen, rng = losses_of(arrivals, ARMS), random_numbers(5, t)
        probability = min(1.0, epsilon * ARMS / t) if decreasing else epsilon
        if all(seen) and ib.random.uniform(rng, 0) < probability:
            return int(ib.random.uniform(rng, 1) * ARMS)
        return unseen_first(seen, pulls, lambda arm: mean(seen[arm]))

    policy = ib.EpsilonGreedy(epsilon, decreasing)
    assert_follows(policy, rule, arms=ARMS, losses=LOSSES, seed=5, latest=latest)


@LATEST
def test_gaussian_thompson_draws_from_the_posterior(latest):
    def rule(pulls, arrivals, t):
        seen, rng = losses_of(arrivals, ARMS), random_numbers(5, t)

        def draw(arm):
            return mean(seen[arm]) + math.sqrt(0.25 / len(seen[arm])) * ib.random.normal(rng, arm)

        return unseen_first(seen, pulls, draw)

    policy = ib.GaussianThompson(sigma=0.5)
    assert_follows(policy, rule, arms=ARMS, losses=LOSSES, seed=5, latest=latest)


@LATEST
def test_moss_is_the_anytime_index(latest):
    def rule(pulls, arrivals, t):
        seen = losses_of(arrivals, ARMS)

        def index(arm):
            n = len(seen[arm])
            excess = max(0.0, math.log(t / (ARMS * n)))
            return mean(seen[arm]) - 0.7 * math.sqrt((1 + 1.35) / 2 * excess / n)

        return unseen_first(seen, pulls, index)

    assert_follows(ib.MOSS(loss_range=0.7), rule, arms=ARMS, losses=LOSSES, latest=latest)


@LATEST
def test_ucbv_uses_the_empirical_variance(latest):
    def rule(pulls, arrivals, t):
        seen = losses_of(arrivals, ARMS)

        def index(arm):
            n, middle = len(seen[arm]), mean(seen[arm])
            variance = mean([(loss - middle) ** 2 for loss in seen[arm]])
            exploration = 1.3 * math.log(t)
            first = math.sqrt(2 * variance * exploration / n)
            return middle - first - 0.2 * 3 * 0.5 * exploration / n

        return unseen_first(seen, pulls, index)

    policy = ib.UCBV(zeta=1.3, bias=0.2, loss_range=0.5)
    assert_follows(policy, rule, arms=ARMS, losses=LOSSES, latest=latest)


@LATEST
def test_exp3_weighs_losses_by_probabilities_at_the_pull(latest):
    low, high = -1.0, 1.5
    memo = {}  # round → probability of its choice

    def rule(pulls, arrivals, t):
        totals = [0.0] * ARMS
        for a in arrivals:
            unit = (min(max(a.loss, low), high) - low) / (high - low)
            totals[a.arm] += unit / memo[a.round]
        rate = math.sqrt(math.log(ARMS) / (t * ARMS))
        weights = [math.exp(-rate * total) for total in totals]
        target, chosen = ib.random.uniform(random_numbers(5, t), 0) * sum(weights), 0
        while target >= weights[chosen]:
            target -= weights[chosen]
            chosen += 1
        memo[t] = weights[chosen] / sum(weights)
        return chosen

    assert_follows(ib.EXP3(low, high), rule, arms=ARMS, losses=LOSSES, seed=5, latest=latest)


def test_exp3_chooses_among_the_eligible_in_proportion():
    agent, mask = ib.Agent(ib.EXP3(), ARMS, seed=5), [True, False, True, True]
    for t, row in enumerate(LOSSES, 1):
        estimate, rate = agent.state["estimate"], math.sqrt(math.log(ARMS) / (t * ARMS))
        weights = np.exp(-rate * (estimate - estimate.min())) * mask
        target = ib.random.uniform(random_numbers(5, t), 0) * weights.sum()
        assert agent.select(mask) == np.searchsorted(np.cumsum(weights), target)
        ticket = agent.pull()
        agent.observe(ticket, row[ticket.arm])


def test_epsilon_greedy_explores_the_eligible_alone():
    agent = ib.Agent(ib.EpsilonGreedy(epsilon=1.0), ARMS)
    for arm in range(ARMS):
        agent.observe(agent.pull(arm), 0.0)
    chosen = [agent.pull(eligible=[False, True, False, True]).arm for _ in range(200)]
    assert set(chosen) == {1, 3}
    assert 70 < chosen.count(1) < 130  # wrong for 1 in 40,000 seeds


def test_exp3_stays_finite_whatever_comes():
    agent = ib.Agent(ib.EXP3(), 3)
    for t in range(600):
        agent.observe(agent.pull(t % 2), [1e100, 1.0, -1e100][t % 3])
    assert np.isfinite(agent.state["estimate"]).all()
    for _ in range(300):  # an arm of next to no probability, again and again
        agent.observe(agent.pull(eligible=[True, False, False]), 1e100)
    assert np.isfinite(agent.state["estimate"]).all()
    assert agent.select(eligible=[True, False, False]) == 0
    assert agent.select() == 2
    agent.retire_arm(2)
    new = agent.add_arm()
    estimate = agent.state["estimate"]
    assert estimate[new] == min(estimate[:2])
