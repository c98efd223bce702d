"""Policies for rotting arms against their papers' definitions over the full history."""

import math
import random

import numpy as np
import pytest
from policy_rules import assert_follows, losses_of, random_losses, unseen_first

import influential_bandits as ib
from influential_bandits.policies.dyadic_windows import LEVELS, add_to_blocks

ARMS = 3
LATEST = pytest.mark.parametrize("latest", [0, 6])
LOSSES = random_losses(300, ARMS, seed=3)


def windows(values):
    """Size → mean, for the sizes 1, 2, 4, … that fit; a window of h ends at a multiple of h/2."""
    means, h = {}, 1
    while h <= len(values):
        end = len(values) // max(h // 2, 1) * max(h // 2, 1)
        means[h] = math.fsum(values[end - h : end]) / h
        h *= 2
    return means


def published_update(current, pending, counts, value):
    """The papers' efficient update: a full pending window becomes current and starts half full.

    Entry j of each list is about windows of 2ʲ values.
    """
    full = []
    for j in range(len(pending)):
        pending[j], counts[j] = (value, 1) if j == 0 else (pending[j] + value, counts[j] + 1)
        full.append(counts[j] == 2**j)
    before = list(zip(pending, counts, strict=True))
    for j, is_full in enumerate(full):
        if is_full:
            if j == len(current):
                current.append(0.0)
            current[j] = pending[j]
            if j > 0:
                pending[j], counts[j] = before[j - 1]
            if j + 1 == len(pending):
                pending.append(before[j][0])
                counts.append(before[j][1])


def test_blocks_hold_the_windows_of_the_published_update_and_of_the_definition():
    draw = random.Random(0)
    older, newer = np.zeros((1, LEVELS)), np.zeros((1, LEVELS))
    values, current, pending, counts = [], [], [0.0], [0]
    for n in range(1, 300):
        values.append(draw.randrange(1000) / 16)
        add_to_blocks(older, newer, 0, n, values[-1])
        published_update(current, pending, counts, values[-1])
        sums = [newer[0, 0]]
        sums += [older[0, j] + newer[0, j] for j in range(n.bit_length() - 1)]
        assert sums == current
        assert sums == [h * mean for h, mean in windows(values).items()]


@LATEST
def test_rawucb_takes_the_tightest_window(latest):
    def rule(pulls, arrivals, t):
        seen = losses_of(arrivals, ARMS)

        def index(arm):
            width = {h: 0.4 * math.sqrt(2 * 1.4 * math.log(t) / h) for h in windows(seen[arm])}
            return max(mean - width[h] for h, mean in windows(seen[arm]).items())

        return unseen_first(seen, pulls, index)

    policy = ib.RAWUCB(alpha=1.4, sigma=0.4)
    assert_follows(policy, rule, arms=ARMS, losses=LOSSES, latest=latest)


@LATEST
@pytest.mark.parametrize(("alpha", "noise"), [(0.06, 0.3), (5.0, 0.1)])
def test_fewa_filters_on_expanding_windows(alpha, noise, latest):
    def rule(pulls, arrivals, t):
        seen = losses_of(arrivals, ARMS)
        if not all(seen):
            return unseen_first(seen, pulls, None)
        left, h = list(range(ARMS)), 1
        while True:
            means = {arm: windows(seen[arm])[h] for arm in left}
            width = noise * math.sqrt(2 / h * math.log(ARMS * t**alpha))
            left = [arm for arm in left if means[arm] <= min(means.values()) + 2 * width]
            h *= 2
            short = [arm for arm in left if len(seen[arm]) < h]
            if short:
                return min(short, key=lambda arm: (len(seen[arm]), arm))

    assert_follows(ib.FEWA(alpha, noise), rule, arms=ARMS, losses=LOSSES, latest=latest)


def test_of_the_arms_that_the_filter_leaves_fewa_pulls_the_one_observed_least():
    agent = ib.Agent(ib.FEWA(), 3)
    for arm in (0, 0, 0, 1, 1, 2, 2, 2):
        agent.observe(agent.pull(arm), 0.5)
    assert agent.select() == 1
    assert agent.select([True, False, True]) == 0
