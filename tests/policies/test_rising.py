"""Policies for rising arms against their definitions over the full history."""

import math

import pytest
from policy_rules import assert_follows, random_losses, unseen_first

import influential_bandits as ib

ARMS = 3
NOISE = 0.2
LATEST = pytest.mark.parametrize("latest", [0, 6])
LOSSES = random_losses(300, ARMS, seed=4)


def recent_window(n, epsilon):
    """h, the largest power of two up to ε·n, and e, the largest multiple of h up to n."""
    h = 1
    while 2 * h <= epsilon * n:
        h *= 2
    return h, n // h * h


def width(t, h, e, alpha, noise):
    return noise * (t - e + h - 1) * math.sqrt(10 * alpha * math.log(t) / h**3)


def rule_of(epsilon, extrapolate):
    """The arm of the smallest index; in turns while there are too few losses."""

    def rule(pulls, arrivals, t):
        seen = [[(a.round, a.loss) for a in arrivals if a.arm == arm] for arm in range(ARMS)]
        ready = [epsilon * len(losses) >= 1 for losses in seen]

        def index(arm):
            h, e = recent_window(len(seen[arm]), epsilon)
            return extrapolate(t, h, e, seen[arm]) - width(t, h, e, 2.5, NOISE)

        return unseen_first(ready, pulls, index)

    return rule


def to_its_own_pull(t, h, e, losses):
    """The estimator of R-ed-UCB, as printed, on the first e losses."""
    value = {number: loss for number, (_, loss) in enumerate(losses, 1)}
    return (
        sum(
            value[number] + (t - number) * (value[number] - value[number - h]) / h
            for number in range(e - h + 1, e + 1)
        )
        / h
    )


def to_the_round(t, h, e, losses):
    """The line through the means of two blocks; late losses may bring them closer than h rounds."""
    older, newer = losses[e - 2 * h : e - h], losses[e - h : e]
    x = [sum(at for at, _ in block) / h for block in (older, newer)]
    y = [sum(loss for _, loss in block) / h for block in (older, newer)]
    return y[1] + (t - x[1]) * (y[1] - y[0]) / max(x[1] - x[0], h)


@LATEST
@pytest.mark.parametrize("epsilon", [0.5, 0.25, 0.1])
def test_red_ucb_extrapolates_to_the_arms_own_pull(epsilon, latest):
    policy = ib.REdUCB(epsilon, alpha=2.5, sigma=NOISE)
    rule = rule_of(epsilon, to_its_own_pull)
    assert_follows(policy, rule, arms=ARMS, losses=LOSSES, latest=latest)


@LATEST
@pytest.mark.parametrize("epsilon", [0.5, 0.1])
def test_rless_ucb_extrapolates_to_the_round(epsilon, latest):
    policy = ib.RLessUCB(epsilon, alpha=2.5, sigma=NOISE)
    rule = rule_of(epsilon, to_the_round)
    assert_follows(policy, rule, arms=ARMS, losses=LOSSES, latest=latest)
