"""Where A is not positive semi-definite: ModelLCB compares whole plans, by their lower bounds.

A mix of arms that reinforces itself costs much before it pays, and the smallest loss of each round
does not lead there. The total loss of a plan is linear in (l1, A): its standard deviation is exact.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from influential_bandits.numerics.arrays import Floats
from influential_bandits.numerics.compiling import inlined, kernel
from influential_bandits.policies.model_lcb import marginal_likelihood as evidence
from influential_bandits.policies.model_lcb.belief import MANY, fading_of, noise_of
from influential_bandits.policies.model_lcb.lookahead import plan_ahead
from influential_bandits.policies.model_lcb.looks import rounds_ahead
from influential_bandits.policies.model_lcb.posterior import place, unknowns

HOPE = 1.0  # standard deviations by which a plan's total loss may turn out lower
SHARES = 4  # mixes of two arms are tried in steps of a quarter


@inlined
def _deviation(s: Any, features: Floats) -> float:
    """Return the standard deviation, in units of the noise, of a linear function of (l1, A)."""
    total = 0.0
    for row in range(features.size):
        value = 0.0
        for k in range(row + 1):
            value += s.root[row, k] * features[k]
        total += value * value
    return math.sqrt(total)


@kernel
def refutes_definite(c: Any, s: Any) -> bool:
    """Return whether uᵀAu is negative beyond the radius for some arm, or pair of arms, u.

    For a pair, u is the direction in which the posterior mean is lowest. The radius holds for all
    directions at once, so that this is as rarely wrong as the radius is.
    """
    for i in range(c.n_arms):
        for j in range(i + 1):
            first, second = 1.0, 0.0
            if j < i:
                between = s.theta[place(i, j)]
                half = 0.5 * (s.theta[place(i, i)] - s.theta[place(j, j)])
                first, second = -between, half + math.sqrt(half * half + between * between)
                size = max(abs(first), abs(second))
                if size == 0.0:
                    continue
                first /= size
                second /= size
            if _is_negative(s, i, j, first, second):
                return True
    return False


@inlined
def _is_negative(s: Any, i: int, j: int, first: float, second: float) -> bool:
    """Return whether uᵀAu is certainly below 0, with u_i = ``first`` and u_j = ``second``."""
    places = (place(i, i), place(i, j), place(j, j))
    factors = (first * first, 2.0 * first * second, second * second)
    mean, variance = 0.0, 0.0
    for k in range(3):
        mean += factors[k] * s.theta[places[k]]
    if not mean < 0.0:
        return False
    for row in range(s.theta.size):
        value = 0.0
        for k in range(3):
            value += factors[k] * s.root[row, places[k]]
        variance += value * value
    return mean + s.radius[0] * math.sqrt(variance) < 0.0


@inlined
def plans_again(c: Any, seen: int) -> bool:
    """Return whether plans are compared: eight times while the losses double, or twice."""
    step = 1
    while (16 if c.n_arms <= MANY else 4) * step <= seen:
        step *= 2
    return seen % step == 0


@kernel
def _bound_total(c: Any, s: Any, plan: Floats, features: Floats) -> float:
    """Return a lower bound of the total loss of so many further pulls of each arm."""
    counts = s.weights[s.choice[0] :: c.memories]
    features[:] = 0.0
    for i in range(c.n_arms):
        if plan[i] > 0.0:
            features[unknowns(i)] = plan[i]
            for j in range(c.n_arms):
                features[place(i, j)] += plan[i] * (counts[j] + 0.5 * plan[j])
            features[place(i, i)] -= 0.5 * plan[i]
    total = 0.0
    for k in range(features.size):
        total += features[k] * s.theta[k]
    return total - HOPE * noise_of(c, s) * _deviation(s, features)


@kernel
def choose_mix(c: Any, s: Any, t: int) -> None:
    """Write the mix of at most two arms that promises most for the rounds ahead.

    It is left at 0 if A may be positive semi-definite, or if none promises more than what the
    smallest loss of each round leads to.
    """
    n_arms = c.n_arms
    mix = np.zeros(n_arms)
    if _doubts_definite(c, s):
        rounds = rounds_ahead(c, t)
        interaction, features = np.empty((n_arms, n_arms)), np.empty(s.theta.size)
        plan, slope = np.empty(n_arms), np.empty(n_arms)
        for i in range(n_arms):
            for j in range(n_arms):
                interaction[i, j] = s.theta[place(i, j)]
        plan_ahead(s.mean, interaction, rounds, np.ones(n_arms), plan, slope)
        lowest = _bound_total(c, s, plan, features)
        for i in range(n_arms):
            for j in range(i + 1):
                for k in range(1, SHARES if j < i else 2):
                    share = k / SHARES if j < i else 1.0
                    plan[:] = 0.0
                    plan[i] = share * rounds
                    plan[j] += (1.0 - share) * rounds
                    bound = _bound_total(c, s, plan, features)
                    if bound < lowest:
                        lowest = bound
                        mix[:] = 0.0
                        mix[i] = share
                        mix[j] += 1.0 - share
    changed = False
    for i in range(s.mix.size):
        if mix[i] != s.mix[i]:
            changed = True
    if changed:
        for i in range(s.mix.size):
            s.mix[i] = mix[i]
            s.due[i] = 0.0


@inlined
def _doubts_definite(c: Any, s: Any) -> bool:
    if s.theta.size == 0 or fading_of(c, s) < 1.0 or s.choice[2] == evidence.NONE:
        return False
    return not c.definite or refutes_definite(c, s)


@inlined
def follow_mix(s: Any, eligible: Any) -> int:
    """Return the arm that lags most behind the mix; −1 if there is none."""
    best = -1
    for arm in range(s.mix.size):
        if s.mix[arm] == 0.0 or (eligible is not None and not eligible[arm]):
            continue
        if best < 0 or s.due[arm] + s.mix[arm] > s.due[best] + s.mix[best]:
            best = arm
    return best


@inlined
def count_pull(s: Any, arm: int) -> None:
    """Note what each arm of the mix is owed after a pull."""
    for i in range(s.mix.size):
        if s.mix[i] > 0.0:
            s.due[i] += s.mix[i]
            if i == arm:
                s.due[i] -= 1.0
