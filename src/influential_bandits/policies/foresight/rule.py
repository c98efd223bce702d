"""The rule of Foresight: what a pull costs, now and later, against what its loss would teach.

The **price** of arm i is what a pull is expected to cost, with what it adds to later losses,

    price_i = level_i + Σ_j A_ij·(f_j + w·m_j),

m_j being the share of arm j in all pulls, and w what is left of a pull's influence, summed over the
rounds ahead. As A is symmetric, it is the gradient of the total loss. The policy pulls the arm
with the smallest price less the **value of a look**: had the loss of an arm been seen, its price
would be expected lower or higher by a deviation d, and if it fell below that of the best arm, pulls
would move there, until the arm has tired as much as it was better. With Δ how far it is behind now,
and c how fast the two prices approach when pulls move from one to the other, that saves over the
rounds ahead

    rounds·E[g(d·ξ − Δ)],   g(x) = x²/(2c) for 0 < x < c,  x − c/2 beyond,  0 below.

Spreads are estimates, and an arm with few losses may lie further out than they say: its gap counts
as that of Student's t distribution with half as many degrees of freedom as it has losses.

How many rounds lie ahead is told by the horizon. Without one, they are taken to be half as many as
were played.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from influential_bandits.numerics.arrays import Floats
from influential_bandits.numerics.compiling import inlined
from influential_bandits.numerics.portable import exp, log
from influential_bandits.policies.foresight.hypotheses import (
    MEANS,
    MEMORIES,
    MOST_ARMS,
    solve_common,
)
from influential_bandits.policies.foresight.posterior import HYPOTHESES

AHEAD = 0.5  # rounds ahead, in units of the rounds played
LOSSES_PER_DEGREE = 2.0  # of freedom of what an arm may deviate by
FARTHEST = 8.0  # deviations; beyond, a look is worth nothing
DENSITY = 0.3989422804014327  # of the standard normal distribution at 0


@inlined
def rounds_ahead(c: Any, t: int) -> float:
    """Return over how many rounds after this one a choice is judged."""
    if c.horizon > 0:
        return float(max(c.horizon - t, 0))
    return AHEAD * t


@inlined
def memory_of(c: Any, number: int) -> float:
    """Return γ of a candidate, or the one that was told."""
    return MEMORIES[number] if c.memories > 1 else c.memory


@inlined
def influence_ahead(c: Any, s: Any, number: int, rounds: float) -> float:
    """Return the influence of a pull, in units of that at once, summed over the rounds ahead."""
    kept = memory_of(c, number)
    if c.half_life > 0.0:
        kept *= s.kept[0] / s.kept[1]
    if kept < 1.0:
        return min(kept / (1.0 - kept), rounds)
    return rounds


@inlined
def upper_tail(z: float) -> tuple[float, float]:
    """Return the standard normal density at z ≥ 0, and the probability above, to 5·10⁻¹¹ of it.

    Their ratio, Mills', is a rational function fitted to 0 ≤ z ≤ 8 by iterated least squares.

    Examples
    --------
    >>> density, above = upper_tail(1.0)
    >>> round(density, 9), round(above, 9)
    (0.241970725, 0.158655254)
    """
    density = DENSITY * exp(-0.5 * z * z)
    top = 81.54799710276241 + z * (13.225851496301784 + z)
    top = 579.273182822877 + z * (585.725141918153 + z * (287.9893666656131 + z * top))
    bottom = 301.17284177837865 + z * (82.55004434032514 + z * (13.225805988859896 + z))
    bottom = 462.19312908405703 + z * (836.1178071507159 + z * (665.8112307442758 + z * bottom))
    return density, density * top / bottom


@inlined
def expected_square(gap: float, deviation: float) -> float:
    """Return E[max(0, d·ξ − Δ)²] for a gap Δ ≥ 0."""
    z = gap / deviation
    if z > FARTHEST:
        return 0.0
    density, above = upper_tail(z)
    return max((gap * gap + deviation * deviation) * above - gap * deviation * density, 0.0)


@inlined
def expected_gain(gap: float, deviation: float, closing: float) -> float:
    """Return E[g(d·ξ − Δ)], a round: see the head of this file; ``closing`` is c.

    Examples
    --------
    >>> round(expected_gain(0.0, 1.0, 0.0), 6)  # nothing tires: E[max(0, ξ)]
    0.398942
    >>> round(expected_gain(0.0, 1.0, 100.0), 6)  # E[max(0, ξ)²] / 200
    0.0025
    """
    z = gap / deviation
    if z > FARTHEST:
        return 0.0
    if closing <= 1e-6 * deviation:
        density, above = upper_tail(z)
        return max(deviation * density - gap * above, 0.0)
    square = expected_square(gap, deviation) - expected_square(gap + closing, deviation)
    return max(square / (2.0 * closing), 0.0)


@inlined
def normal_gap(gap: float, deviation: float, n_losses: int) -> float:
    """Return the gap that is as unlikely for a normal deviation as this one for Student's t.

    Wallace's approximation: z² ≈ ν·log(1 + t²/ν).

    Examples
    --------
    >>> round(normal_gap(4.0, 1.0, 3), 3), round(normal_gap(4.0, 1.0, 10**6), 3)
    (2.096, 4.0)
    """
    degrees = (n_losses + 1) / LOSSES_PER_DEGREE
    z = gap / deviation
    return deviation * math.sqrt(degrees * log(1.0 + z * z / degrees))


@inlined
def expect(c: Any, s: Any, t: int, price: Floats, variance: Floats, later: Floats) -> float:
    """Write prices, their variances in units of σ², and later influence; return σ².

    All are averages over the hypotheses. ``later`` (arms, coefficients) is w times the
    coefficients: how fast prices move with shares.
    """
    n_arms, size = c.n_arms, later.shape[1]
    regressors, gain = np.empty(size), np.empty(size)
    mean, factor, follow = np.empty(MEANS), np.empty(MEANS * MEANS), np.empty(MEANS)
    rounds = rounds_ahead(c, t)
    played = 0.0
    for arm in range(n_arms):
        played += s.pulls[arm]
    played = max(played, 1.0)
    noise = 0.0
    regressors[0] = 1.0
    for h in range(HYPOTHESES):
        weight = s.weight[h]
        if weight == 0.0:
            continue
        m = s.memory[h]
        ahead = influence_ahead(c, s, m, rounds)
        solve_common(s.common_precision[h], s.common_moment[h], mean, factor)
        own_noise = weight * s.rest[h] / max(s.observations[0] - 1, 1)
        noise += own_noise
        if n_arms <= MOST_ARMS:
            for j in range(n_arms):
                count = s.counts[j * c.memories + m]
                regressors[j + 1] = count + ahead * s.pulls[j] / played
        for arm in range(n_arms):
            if n_arms > MOST_ARMS:
                count, share = s.counts[arm * c.memories + m], s.pulls[arm] / played
                regressors[1] = count + ahead * share
                regressors[2] = s.total[m] - count + ahead * (1.0 - share)
            row = h * n_arms + arm
            for j in range(size):
                gain[j] = 0.0
            for k in range(size):
                for j in range(size):
                    gain[j] += s.covariance[row, k * size + j] * regressors[k]
            spread, value = 0.0, 0.0
            for k in range(MEANS):
                follow[k] = 0.0
            for j in range(size):
                spread += gain[j] * regressors[j]
                value += s.mean[row, j] * regressors[j]
                coefficient = s.mean[row, j]
                for k in range(MEANS):
                    response = s.response[row, MEANS * j + k]
                    follow[k] += response * regressors[j]
                    coefficient += response * mean[k]
                later[arm, j] += weight * ahead * coefficient
            for k in range(MEANS):
                value += follow[k] * mean[k]
            price[arm] += weight * value
            variance[arm] += own_noise * spread
    for arm in range(n_arms):
        variance[arm] /= max(noise, 1e-300)
    return noise


@inlined
def closing_of(later: Floats, arm: int, rival: int) -> float:
    """Return how fast the prices of two arms approach when pulls move from one to the other."""
    if later.shape[0] > MOST_ARMS:
        return later[arm, 1] + later[rival, 1] - later[arm, 2] - later[rival, 2]
    both = later[arm, rival + 1] + later[rival, arm + 1]
    return later[arm, arm + 1] + later[rival, rival + 1] - both


@inlined
def cheapest(price: Floats, eligible: Any) -> tuple[int, int]:
    """Return the eligible arms with the smallest price and the second smallest, or −1."""
    best, second = -1, -1
    for arm in range(price.size):
        if eligible is not None and not eligible[arm]:
            continue
        if best < 0 or price[arm] < price[best]:
            second, best = best, arm
        elif second < 0 or price[arm] < price[second]:
            second = arm
    return best, second


@inlined
def choose_arm(c: Any, s: Any, t: int, eligible: Any) -> int:
    """Return the arm with the smallest price less the value of a look."""
    price, variance = np.zeros(c.n_arms), np.zeros(c.n_arms)
    later = np.zeros((c.n_arms, s.response.shape[1] // MEANS))
    noise = expect(c, s, t, price, variance, later)
    best, second = cheapest(price, eligible)
    if second < 0:
        return best
    rounds = rounds_ahead(c, t)
    choice, least = best, math.inf
    for arm in range(c.n_arms):
        if eligible is not None and not eligible[arm]:
            continue
        rival = second if arm == best else best
        net = price[arm]
        deviation = math.sqrt(noise / (1.0 + variance[arm])) * variance[arm]
        if deviation > 0.0:
            closing = max(closing_of(later, arm, rival), 0.0)
            gap = normal_gap(abs(price[arm] - price[rival]), deviation, s.seen[arm])
            net -= rounds * expected_gain(gap, deviation, closing)
        if net < least:
            choice, least = arm, net
    return choice
