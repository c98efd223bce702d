"""What ModelLCB believes: the posterior of (l1, A) by the prior in force, and its radius."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from influential_bandits.numerics.compiling import inlined, kernel
from influential_bandits.numerics.portable import log, power_of_two
from influential_bandits.policies.model_lcb import marginal_likelihood as evidence
from influential_bandits.policies.model_lcb.posterior import (
    absorb,
    place,
    predict,
    respread,
    unknowns,
)

MOST_EXACT = 24  # arms; beyond, each arm has a ray model of its own
MANY = 10  # arms; with more, priors are chosen more rarely and after fewer trials
MEMORIES = (1.0, 0.99, 0.97, 0.9, 0.7)  # candidates; the first is the paper's
LOG_PRIORS = math.log(5 * 21 * 21 * 22 * 12)  # candidates: memories, ρ_l, ρ_d, ρ_o or none, ties
EVIDENCE = 2.1e5  # for a fading memory: odds of 100, σ within e^50, candidates that weigh 41


@inlined
def memory_of(c: Any, number: int) -> float:
    """Return γ of a candidate."""
    return MEMORIES[number] if c.memories > 1 else c.memory


@inlined
def fading_of(c: Any, s: Any) -> float:
    """Return how much of a pull's influence is left a round later, on average by the clock."""
    gamma = memory_of(c, s.choice[0])
    if c.half_life > 0.0:
        gamma *= s.kept[0] / s.kept[1]
    return gamma


@inlined
def noise_of(c: Any, s: Any) -> float:
    """Return σ, or its estimate."""
    if c.sigma > 0.0:
        return c.sigma
    return math.sqrt(s.rss[0] / max(s.observations[0], 1))


@inlined
def lay_out_arm(c: Any, s: Any, arm: int) -> None:
    """Write the prior of an arm that nothing is known about."""
    loss, own = power_of_two(s.choice[1]), power_of_two(s.choice[2])
    others = power_of_two(s.choice[3])
    if s.theta.size > 0:
        for k in range(unknowns(arm), unknowns(arm + 1)):
            if s.root[k, k] == 0.0:
                s.root[k, k] = others
                if k == unknowns(arm):
                    s.root[k, k] = loss
                elif k == place(arm, arm):
                    s.root[k, k] = own
    else:
        s.ray_root[arm, 0] = loss
        s.ray_root[arm, 4] = own
        s.ray_root[arm, 8] = others / math.sqrt(float(c.n_arms))


@inlined
def look(c: Any, s: Any) -> None:
    """Compute mean and variance of every arm's loss afresh."""
    if s.theta.size > 0:
        respread(s.root, s.weights[s.choice[0] :: c.memories], s.spread, s.variance)
        predict_all(c, s)
    else:
        for arm in range(c.n_arms):
            own = s.own[arm]
            others = s.total[0] - own
            mean = s.ray_theta[arm, 0] + own * s.ray_theta[arm, 1] + others * s.ray_theta[arm, 2]
            root = s.ray_root[arm]
            second = root[3] + own * root[4]
            third = root[6] + own * root[7] + others * root[8]
            s.mean[arm] = mean
            s.variance[arm] = root[0] * root[0] + second * second + third * third


@inlined
def predict_all(c: Any, s: Any) -> None:
    """Compute the mean of every arm's loss."""
    weights = s.weights[s.choice[0] :: c.memories]
    for arm in range(c.n_arms):
        s.mean[arm] = predict(s.theta, weights, arm)


@inlined
def learn_ray(s: Any, arm: int, own: float, others: float, loss: float) -> tuple[float, float]:
    """Take a loss into the three unknowns of an arm."""
    root = s.ray_root[arm].reshape((evidence.RAY, evidence.RAY))
    theta = s.ray_theta[arm]
    f, gain = np.empty(evidence.RAY), np.empty(evidence.RAY)
    for row in range(evidence.RAY):
        f[row] = root[row, 0] + own * root[row, 1] + others * root[row, 2]
    surprise = loss - (theta[0] + own * theta[1] + others * theta[2])
    alpha = absorb(root, f, gain)
    for k in range(evidence.RAY):
        theta[k] += gain[k] * (surprise / alpha)
    return surprise, alpha


@kernel
def choose_prior(c: Any, s: Any) -> None:
    """Choose the prior that the losses speak for, and start again from it.

    A fading memory is taken up only if it beats the best fit of any (l1, A) with lasting memory:
    then lasting memory is given up wrongly in one world of a hundred at most.
    """
    exact = s.theta.size > 0
    size = s.theta.size if exact else evidence.RAY
    factor, solved = np.empty((size, size)), np.empty(size)
    gram, moments = (s.gram, s.moments) if exact else (s.ray_gram, s.ray_moments)
    squares, seen = s.squares[0], s.observations[0]
    memories = c.memories if exact else 0
    best, lasting, chosen = -math.inf, -math.inf, 0
    for m in range(c.memories if exact else 1):
        most = 4  # l1 and A once, up and down
        if m == s.choice[0]:
            most = evidence.MOST_TRIALS if c.n_arms <= MANY else evidence.MOST_TRIALS // 2
        if m > 0 and s.choice[0] == 0:
            for k in range(4, 6):
                s.candidates[m, k] = s.candidates[0, k]
        value = evidence.climb(
            gram,
            moments,
            s.known,
            s.told,
            memories,
            squares,
            seen,
            c.fixed_influence,
            most,
            s.candidates[m],
            factor,
            solved,
        )
        if m == 0:
            lasting = value
        if value > best:
            best, chosen = value, m
    if chosen > 0:
        loosest = np.zeros(6, np.int64)
        loosest[1:4] = evidence.LARGEST
        _, least = evidence.evaluate(
            gram, moments, s.known, s.told, memories, squares, loosest, factor, solved
        )
        if best + 0.5 * seen * log(least / squares) < log(EVIDENCE * math.sqrt(float(seen))):
            chosen = 0
            best = lasting
    if chosen == 0 and not c.fixed_influence:
        value = evidence.climb(
            gram,
            moments,
            s.known,
            s.told,
            memories,
            squares,
            seen,
            True,
            evidence.MOST_TRIALS // 2,
            s.candidates[c.memories],
            factor,
            solved,
        )
        if value > best:
            chosen = c.memories
    changed = False
    for k in range(s.choice.size):
        if s.choice[k] != s.candidates[chosen, k]:
            s.choice[k] = s.candidates[chosen, k]
            changed = True
    if changed:
        rebuild(c, s)


@kernel
def rebuild(c: Any, s: Any) -> None:
    """Compute the posterior from the sums, with the chosen prior."""
    squares = s.squares[0]
    if s.theta.size > 0:
        factor, solved = np.empty((s.theta.size, s.theta.size)), np.empty(s.theta.size)
        s.volume[0], s.rss[0] = evidence.evaluate(
            s.gram, s.moments, s.known, s.told, c.memories, squares, s.choice, factor, solved
        )
        evidence.invert(factor, solved, s.root, s.theta)
    else:
        factor, solved = np.empty((evidence.RAY, evidence.RAY)), np.empty(evidence.RAY)
        s.volume[0], s.rss[0] = evidence.evaluate(
            s.ray_gram, s.ray_moments, s.known, s.told, 0, squares, s.choice, factor, solved
        )
        for arm in range(c.n_arms):
            evidence.assemble_ray(s.ray_gram, s.ray_moments, arm, s.choice, factor, solved)
            evidence.eliminate(factor, solved)
            root = s.ray_root[arm].reshape((evidence.RAY, evidence.RAY))
            evidence.invert(factor, solved, root, s.ray_theta[arm])
    look(c, s)


@inlined
def set_radius(c: Any, s: Any) -> None:
    """Compute the radius of the theorem, σ̄·(√L + √p), with an upper bound σ̄ of the noise."""
    seen = float(max(s.observations[0], 1))
    unknown = s.theta.size if s.theta.size > 0 else evidence.RAY * c.n_arms
    factor = math.sqrt(s.volume[0] + 2.0 * (c.doubt + LOG_PRIORS)) + math.sqrt(float(unknown))
    if c.sigma > 0.0:
        s.radius[0] = c.sigma * factor
        return
    chance = 2.0 * math.sqrt((c.doubt + 2.0 * log(seen + 1.0)) / seen)
    freedom = max(seen * (1.0 - chance) - factor * factor, seen / 16.0)
    s.radius[0] = math.sqrt(s.rss[0] / freedom) * factor
