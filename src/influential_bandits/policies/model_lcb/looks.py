"""Which arm ModelLCB pulls: the one with the smallest cost, or one that is worth a look."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from influential_bandits.numerics.arrays import Floats
from influential_bandits.numerics.compiling import inlined
from influential_bandits.numerics.portable import log, power_of_two
from influential_bandits.policies.model_lcb import marginal_likelihood as evidence
from influential_bandits.policies.model_lcb.belief import fading_of, noise_of
from influential_bandits.policies.model_lcb.lookahead import add_later_costs, plan_ahead
from influential_bandits.policies.model_lcb.posterior import place, unknowns

ROTATION = 3  # number of the memory by which arms take turns while influence cannot be seen
PATIENCE = 64.0  # a loss that is known to so many σ is certainly not looked at for its own sake
CALM = 5.0  # the same, for looks that promise something without proof
CALMEST = 4.0  # times that, at most, where one pull moves losses by more than σ
BOLDNESS = 4.0  # of these: how many standard deviations are hoped for
STILL_BOLDNESS = 1.4  # the same where nothing moves, times √log(4 + t·variance/K)
FEW = 5.0  # arms; with more, turns get rarer with the gap the faster
TELLING = 0.25  # of σ: doubt about an initial loss that looks take away soon
AHEAD = 10.0  # with a prior, plan for so many times the rounds played
SOON = 6.0  # rounds; what influence does within them decides whether looks can wait
TIRED = 4  # number of the memory by which an arm that was just pulled is spared
SPARED = 0.4  # σ that such a pull counts as dearer, for each other arm, up to four
SPARED_ALIKE = 0.5  # of that, where arms are alike and no influence is seen
EARLY = 30.0  # rounds after which half of it is left


@inlined
def _calm(c: Any, s: Any, t: int) -> float:
    """Return how many σ an arm's loss may be off before it is worth a look.

    Losses that a few pulls move far can wait: their uncertainty grows, and a look later says more.
    Where hardly anything moves, or influence fades before it adds up, waiting is idle.
    """
    gamma = fading_of(c, s)
    if s.choice[2] == evidence.NONE or (c.warm and gamma < 1.0):
        return 0.0
    size = power_of_two(s.choice[2])
    moved = size * min(float(t), SOON)
    lasting = min(1.0, 1.0 / ((1.0 - gamma) * t)) if gamma < 1.0 else 1.0
    return min(CALM, CALM * moved) * lasting * min(max(size, 1.0), CALMEST)


@inlined
def look_again(c: Any, s: Any, t: int, eligible: Any, costs: Floats, greedy: int) -> int:
    """Return the arm that is worth a look, or else the greedy one."""
    noise, calm, rotate = noise_of(c, s), _calm(c, s, t), _rotates(c, s)
    patient = min(calm / CALM, 1.0)
    best, lowest, certain = greedy, 0.0, False
    sharp = _sharpness(c, s)
    free = 4.0 if sharp == 0.0 else (2.0 if s.choice[2] == evidence.NONE else 1.0)
    if rotate >= 0:
        lowest = log(1.0 + s.weights[greedy * c.memories + rotate])
    for arm in range(c.n_arms):
        if eligible is not None and not eligible[arm]:
            continue
        deviation = math.sqrt(s.variance[arm])
        gap = costs[arm] - costs[greedy]
        promise = gap - s.radius[0] * (deviation - PATIENCE)
        if promise < 0.0:
            if not certain or promise < lowest:
                best = arm
                lowest = promise
            certain = True
        elif not certain and rotate >= 0:
            doubt = noise * (deviation - calm)
            if doubt > 0.0 or arm == greedy:
                far = gap / doubt if doubt > 0.0 else 0.0
                near = t * s.variance[arm] / c.n_arms
                near = log(free + near) + 8.0 * patient
                beyond = max(0.0, 0.5 * far * far - near)
                turn = log(1.0 + s.weights[arm * c.memories + rotate])
                turn += sharp * beyond if sharp > 0.0 or beyond == 0.0 else math.inf
                if turn < lowest:
                    best = arm
                    lowest = turn
        elif not certain:
            bold = STILL_BOLDNESS * math.sqrt(log(4.0 + t * s.variance[arm] / c.n_arms))
            bold += (BOLDNESS - bold) * patient
            promise = gap - noise * bold * (deviation - calm)
            if promise < lowest:
                best = arm
                lowest = promise
    return best


@inlined
def _sharpness(c: Any, s: Any) -> float:
    """Return how fast turns get rarer with the gap; 0 if an arm takes all its turns or none."""
    if fading_of(c, s) == 1.0 and s.choice[4] == 0:
        return 0.0
    return max(1.0, c.n_arms / FEW)


@inlined
def _rotates(c: Any, s: Any) -> int:
    """Return the memory by which arms that may be equally good take turns; −1 if they need not."""
    if s.weights.size == 0:
        return -1
    if fading_of(c, s) < 1.0:
        if c.warm and _differ(c, s):
            return -1
        return ROTATION if c.memories > 1 else 0
    return ROTATION if c.memories > 1 and s.choice[2] == evidence.NONE else -1


@inlined
def _differ(c: Any, s: Any) -> bool:
    """Tell whether initial losses may differ by enough for a look or two to tell them apart."""
    for arm in range(c.n_arms):
        variance = 0.0
        for row in range(s.theta.size):
            variance += s.root[row, unknowns(arm)] ** 2
        if variance > TELLING * TELLING:
            return True
    return False


@inlined
def count_costs(c: Any, s: Any, t: int, eligible: Any, costs: Floats) -> None:
    """Write each arm's mean loss and, where influence fades, what its pull costs later rounds.

    These costs are planned with A as far as it is positive semi-definite: A_ii ≥ 0 and A_ij² ≤
    A_ii·A_jj. What lies beyond is taken for noise, since plans seek out arms that seem to gain.
    """
    n_arms = c.n_arms
    gamma = fading_of(c, s)
    if gamma == 1.0 or s.theta.size == 0:
        spared = _spare(c, s, t)
        for i in range(n_arms):
            costs[i] = s.mean[i]
            if spared > 0.0:
                costs[i] += spared * min(s.weights[i * c.memories + TIRED], 1.0)
        return
    interaction, initial, allowed = np.empty((n_arms, n_arms)), np.empty(n_arms), np.ones(n_arms)
    for i in range(n_arms):
        initial[i] = s.theta[unknowns(i)]
        interaction[i, i] = max(s.theta[place(i, i)], 0.0)
        if eligible is not None and not eligible[i]:
            allowed[i] = 0.0
        for j in range(i):
            most = math.sqrt(interaction[i, i] * interaction[j, j])
            interaction[i, j] = min(max(s.theta[place(i, j)], -most), most)
            interaction[j, i] = interaction[i, j]
    add_later_costs(s.mean, initial, interaction, gamma, rounds_ahead(c, t), allowed, costs)


@inlined
def _spare(c: Any, s: Any, t: int) -> float:
    """Return how much dearer a pull counts for coming right after one of the same arm.

    With few losses a lucky one makes an arm look best, and it would be pulled on and on. If arms
    tire and recover, that costs more than it teaches, and nothing is seen of it yet.
    """
    if c.memories == 1 or s.weights.size == 0:
        return 0.0
    share = 1.0
    if s.choice[2] == evidence.NONE:
        share = SPARED_ALIKE if s.choice[4] > 0 else 0.0
    return share * SPARED * min(c.n_arms - 1.0, 4.0) * noise_of(c, s) * (EARLY / (EARLY + t))


@inlined
def rounds_ahead(c: Any, t: int) -> float:
    """Return the number of rounds to plan for."""
    return max(c.horizon - t + 1.0, 1.0) if c.horizon > 0 else AHEAD * t


@inlined
def choose_planned(c: Any, s: Any, t: int, eligible: Any, greedy: int) -> int:
    """Return the arm with the smallest mean among those that the rounds ahead have a use for."""
    n_arms = c.n_arms
    interaction, allowed = np.empty((n_arms, n_arms)), np.ones(n_arms)
    plan, slope = np.empty(n_arms), np.empty(n_arms)
    for i in range(n_arms):
        if eligible is not None and not eligible[i]:
            allowed[i] = 0.0
        for j in range(n_arms):
            interaction[i, j] = s.theta[place(i, j)]
    plan_ahead(s.mean, interaction, rounds_ahead(c, t), allowed, plan, slope)
    best = -1
    for i in range(n_arms):
        if plan[i] > 0.5 and (best < 0 or s.mean[i] < s.mean[best]):
            best = i
    return best if best >= 0 else greedy
