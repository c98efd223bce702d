"""The rule of Foresight: what a pull costs, now and later, against what its loss would teach.

The **price** of an arm has two parts. The first is what a pull costs soon: the loss that is
expected now, and what it adds to later losses by influence that fades,

    level_i + Σ_j A_ij·(f_j + w·m_j),

m_j being the share of arm j in all pulls, and w what is left of a pull's influence, summed over the
rounds to come. The second is what the plan says. Influence that lasts reaches all rounds ahead, in
whatever order arms are pulled: what counts is how often. The best shares for the rounds ahead are
found by moving pulls from the dearest arm to the cheapest, until all that have any cost alike; an
arm's price rises by how much dearer it is then. So of the arms that the plan has a use for, the one
that costs least now is pulled first: rounds may end sooner than planned.

The policy pulls the arm with the smallest price less the **value of a look**: had the loss of an
arm been seen, its price would be expected lower or higher by a deviation d, and if it fell below
that of the best arm, pulls would move there, until the arm has tired as much as it was better. With
Δ how far it is behind in the plan, and c how fast the two prices approach when pulls move from one
to the other, that saves over the rounds ahead

    rounds·E[g(d·ξ − Δ)],   g(x) = x²/(2c) for 0 < x < c,  x − c/2 beyond,  0 below.

In a fleet a look teaches other users, too, of what all share.

Rounds ahead are taken to be half of those played, and at least one for each arm, but no more than
the horizon leaves. In a fleet the horizon tells them, or how long other users stayed.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from influential_bandits.numerics.arrays import Floats
from influential_bandits.numerics.compiling import inlined
from influential_bandits.numerics.portable import exp
from influential_bandits.policies.foresight.cholesky import factorise, place, quadratic, solve
from influential_bandits.policies.foresight.hypotheses import (
    MEANS,
    MEMORIES,
    MOST_ARMS,
    STEP,
    level_spread_of,
    solve_common,
)
from influential_bandits.policies.foresight.posterior import HYPOTHESES

# Rounds ahead, in units of the rounds played; at least one for each arm. With a quarter, a good arm
# that began badly is given up more often: on the worst of 533 instances, eight times the regret.
AHEAD = 0.5
EXACT_ARMS = 8  # of a fleet: up to so many, a user has sums for each pair of arms
FIRST_DIFFERENCE = 0.03  # of users' interaction, in units of σ; the next one is 10 times as large
MOVES = 4  # of a plan, for each arm
FARTHEST = 8.0  # deviations; beyond, a look is worth nothing
DENSITY = 0.3989422804014327  # of the standard normal distribution at 0


@inlined
def rounds_ahead(c: Any, s: Any, t: int) -> float:
    """Return over how many rounds after this one a choice is judged."""
    left = float(max(c.horizon - t, 0))
    if c.tastes == 1:
        rounds = max(AHEAD * t, float(c.n_arms))
        return min(rounds, left) if c.horizon > 0 else rounds
    if c.horizon > 0:
        return left
    known = t < s.stays.size and s.stays[t] > 0.0
    return s.stays[t] - 1.0 if known else max(AHEAD * t, float(c.n_arms))


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
    return min(kept / (1.0 - kept), rounds) if kept < 1.0 else rounds


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
def memory_number(c: Any, variant: int) -> int:
    """Return which candidate for γ a variant has."""
    return variant // (c.tastes * c.differences)


@inlined
def own_exposure(c: Any, own: Any, arm: int, j: int, m: int) -> float:
    """Return what a user was exposed to in the seen pulls of an arm, summed: of regressor j ≥ 1.

    Where it is not kept for each other arm, that of all others is shared out by their pulls.
    """
    if c.n_arms <= EXACT_ARMS:
        return own.products[arm, place(j, 0) * c.memories + m]
    if c.n_arms > MOST_ARMS:
        return own.products[arm, (j - 1) * c.memories + m]
    if j - 1 == arm:
        return own.products[arm, m]
    others = 0
    for k in range(c.n_arms):
        if k != arm:
            others += own.pulls[k]
    return own.products[arm, c.memories + m] * own.pulls[j - 1] / max(others, 1)


@inlined
def remove_own(c: Any, own: Any, arm: int, variant: int, x: Floats) -> tuple[float, float]:
    """Take from the regressors of an arm what the user's own losses of it say of the user.

    A user's coefficients are normal around everybody's, with variances D in units of σ². Given the
    user's earlier losses of the arm, with the sums of squares G and moments m, what is expected of
    a loss is (P·x)ᵀm and depends on what all share by D⁻¹·P·x, where P = (G + D⁻¹)⁻¹ is the
    variance of the user's coefficients. Returns xᵀPx and (P·x)ᵀm.
    """
    taste = level_spread_of((variant // c.differences) % c.tastes)
    m, difference = memory_number(c, variant), variant % c.differences
    if difference == 0:  # all users have one interaction: their levels differ alone
        known = taste * taste / (1.0 + own.seen[arm] * taste * taste)
        x[0] -= known * own.seen[arm]
        for j in range(1, x.size):
            x[j] -= known * own_exposure(c, own, arm, j, m)
        return known, known * own.moments[arm, m]
    unlike = FIRST_DIFFERENCE
    for _ in range(1, difference):
        unlike *= STEP * STEP
    size = x.size
    matrix, solved = np.empty((size, size + 1)), np.empty(size)
    for j in range(size):
        for k in range(j + 1):
            matrix[k, j] = own.products[arm, place(j, k) * c.memories + m]
        matrix[j, j] += 1.0 / (unlike * unlike if j > 0 else taste * taste)
        matrix[j, size] = x[j]
    factorise(matrix)
    solve(matrix, size, solved)
    spread, value = 0.0, 0.0
    for j in range(x.size):
        spread += x[j] * solved[j]
        value += solved[j] * own.moments[arm, j * c.memories + m]
        x[j] = solved[j] / (unlike * unlike if j > 0 else taste * taste)
    return spread, value


@inlined
def fill_regressors(
    c: Any, own: Any, arm: int, m: int, ahead: float, shares: Floats, regressors: Floats
) -> None:
    """Write what the loss of an arm depends on, after ``ahead`` more pulls in these shares."""
    regressors[0] = 1.0
    if c.n_arms <= MOST_ARMS:
        for j in range(c.n_arms):
            regressors[j + 1] = own.counts[j * c.memories + m] + ahead * shares[j]
    else:
        count = own.counts[arm * c.memories + m]
        regressors[1] = count + ahead * shares[arm]
        regressors[2] = own.total[m] - count + ahead * (1.0 - shares[arm])


@inlined
def expect_losses(
    c: Any, s: Any, own: Any, rounds: float, losses: Floats, soon: Floats, later: Floats
) -> float:
    """Write what each arm would cost now, and influence on rounds ahead; return σ².

    All are averages over the hypotheses. ``soon`` and ``later`` (arms, coefficients) are the
    coefficients times what influence that fades, and all influence, sums up to over the rounds.
    """
    n_arms, size = c.n_arms, later.shape[1]
    regressors, nobody = np.empty(size), np.zeros(n_arms)
    mean, factor = np.empty(MEANS), np.empty(MEANS * MEANS)
    noise = 0.0
    for h in range(HYPOTHESES):
        weight = s.weight[h]
        if weight == 0.0:
            continue
        m = memory_number(c, s.variant[h])
        ahead = weight * influence_ahead(c, s, m, rounds)
        fading = ahead if memory_of(c, m) < 1.0 or c.half_life > 0.0 else 0.0
        solve_common(s.common_precision[h], s.common_moment[h], mean, factor)
        noise += weight * s.rest[h] / max(s.observations[0] - 1, 1)
        for arm in range(n_arms):
            fill_regressors(c, own, arm, m, 0.0, nobody, regressors)
            value = 0.0
            if c.tastes > 1:
                _, value = remove_own(c, own, arm, s.variant[h], regressors)
            row = h * n_arms + arm
            for j in range(size):
                coefficient = s.coefficients[row, j]
                for k in range(MEANS):
                    coefficient += s.response[row, MEANS * j + k] * mean[k]
                value += coefficient * regressors[j]
                soon[arm, j] += fading * coefficient
                later[arm, j] += ahead * coefficient
            losses[arm] += weight * value
    return noise


@inlined
def influence_of(later: Floats, arm: int, shares: Floats) -> float:
    """Return what pulls in these shares add to the price of an arm."""
    if later.shape[0] > MOST_ARMS:
        return later[arm, 1] * shares[arm] + later[arm, 2] * (1.0 - shares[arm])
    total = 0.0
    for j in range(shares.size):
        total += later[arm, j + 1] * shares[j]
    return total


@inlined
def closing_of(later: Floats, arm: int, rival: int) -> float:
    """Return how fast the prices of two arms approach when pulls move from one to the other."""
    if later.shape[0] > MOST_ARMS:
        return later[arm, 1] + later[rival, 1] - later[arm, 2] - later[rival, 2]
    both = later[arm, rival + 1] + later[rival, arm + 1]
    return later[arm, arm + 1] + later[rival, rival + 1] - both


@inlined
def make_definite(later: Floats) -> None:
    """Make influence symmetric, and no entry larger than its arms' own allow."""
    n_arms = later.shape[0]
    if n_arms > MOST_ARMS:
        return
    for i in range(n_arms):
        later[i, i + 1] = max(later[i, i + 1], 0.0)
        for j in range(i):
            most = math.sqrt(later[i, i + 1] * later[j, j + 1])
            both = min(max(0.5 * (later[i, j + 1] + later[j, i + 1]), -most), most)
            later[i, j + 1] = both
            later[j, i + 1] = both


@inlined
def plan(own: Any, losses: Floats, later: Floats, eligible: Any, price: Floats) -> None:
    """Write the prices of arms when the rounds ahead have the best shares.

    Pulls move from the dearest arm that has any to the cheapest, beginning with the shares so far.
    """
    n_arms = losses.size
    shares, total, best = np.zeros(n_arms), 0.0, -1
    for j in range(n_arms):
        if eligible is None or eligible[j]:
            shares[j] = own.pulls[j]
            total += shares[j]
            if best < 0 or losses[j] < losses[best]:
                best = j
    for j in range(n_arms):
        shares[j] /= max(total, 1.0)
    if total == 0.0:
        shares[best] = 1.0
    for i in range(n_arms):
        price[i] = losses[i] + influence_of(later, i, shares)
    for _ in range(MOVES * min(n_arms, MOST_ARMS)):
        low, high = best, -1
        for i in range(n_arms):
            if (eligible is None or eligible[i]) and price[i] < price[low]:
                low = i
            if shares[i] > 0.0 and (high < 0 or price[i] > price[high]):
                high = i
        if not price[low] < price[high]:
            break
        closing, moved = closing_of(later, low, high), shares[high]
        if price[high] - price[low] < moved * closing:
            moved = (price[high] - price[low]) / closing
            shares[high] -= moved
        else:
            shares[high] = 0.0
        shares[low] += moved
        if n_arms > MOST_ARMS:
            price[low] += moved * (later[low, 1] - later[low, 2])
            price[high] -= moved * (later[high, 1] - later[high, 2])
        else:
            for i in range(n_arms):
                price[i] += moved * (later[i, low + 1] - later[i, high + 1])


@inlined
def find_prices(
    c: Any,
    own: Any,
    losses: Floats,
    soon: Floats,
    later: Floats,
    eligible: Any,
    price: Floats,
    far: Floats,
) -> None:
    """Write the price of each arm: what it costs soon, and how much dearer it is in the plan.

    ``far`` is what it costs in the plan.
    """
    shares = np.empty(c.n_arms)
    fill_shares(own, shares)
    plan(own, losses, later, eligible, far)
    least = math.inf
    for arm in range(c.n_arms):
        if eligible is None or eligible[arm]:
            least = min(least, far[arm])
    for arm in range(c.n_arms):
        price[arm] = losses[arm] + influence_of(soon, arm, shares) + far[arm] - least


@inlined
def fill_shares(own: Any, shares: Floats) -> None:
    """Write the shares of arms in all pulls so far."""
    played = 0.0
    for arm in range(shares.size):
        played += own.pulls[arm]
    for arm in range(shares.size):
        shares[arm] = own.pulls[arm] / max(played, 1.0)


@inlined
def doubt(
    c: Any, s: Any, own: Any, rounds: float, noise: float, variance: Floats, common: Floats
) -> None:
    """Write the variances of prices, and what is due to what users share, in units of σ²."""
    n_arms, size = c.n_arms, s.response.shape[1] // MEANS
    regressors, shares = np.empty(size), np.empty(n_arms)
    fill_shares(own, shares)
    for h in range(HYPOTHESES):
        weight = s.weight[h]
        if weight == 0.0:
            continue
        m = memory_number(c, s.variant[h])
        ahead = influence_ahead(c, s, m, rounds)
        part = weight * s.rest[h] / (max(s.observations[0] - 1, 1) * max(noise, 1e-300))
        for arm in range(n_arms):
            fill_regressors(c, own, arm, m, ahead, shares, regressors)
            if c.tastes > 1:
                alone, _ = remove_own(c, own, arm, s.variant[h], regressors)
                variance[arm] += part * alone
            spread = part * quadratic(s.covariance[h * n_arms + arm], regressors)
            variance[arm] += spread
            common[arm] += spread


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
def choose_arm(c: Any, s: Any, own: Any, t: int, eligible: Any, losses: Floats) -> int:
    """Return the arm with the smallest price less the value of a look.

    ``own`` is what is the user's, in a fleet; of an agent, its state. What each arm is expected to
    cost now is written to ``losses``, which are zeros.
    """
    n_arms, size = c.n_arms, s.response.shape[1] // MEANS
    price, far = np.empty(n_arms), np.empty(n_arms)
    soon, later = np.zeros((n_arms, size)), np.zeros((n_arms, size))
    rounds = rounds_ahead(c, s, t)
    noise = expect_losses(c, s, own, rounds, losses, soon, later)
    make_definite(later)
    find_prices(c, own, losses, soon, later, eligible, price, far)
    best, second = cheapest(price, eligible)
    if second < 0:
        return best
    variance, common = np.zeros(n_arms), np.zeros(n_arms)
    doubt(c, s, own, min(rounds, AHEAD * t), noise, variance, common)
    others = AHEAD * max(s.observations[0] - t, 0) if c.tastes > 1 else 0.0
    choice, least = best, math.inf
    for arm in range(n_arms):
        if eligible is not None and not eligible[arm]:
            continue
        rival = second if arm == best else best
        net = price[arm]
        deviation = math.sqrt(noise / (1.0 + variance[arm])) * variance[arm]
        if deviation > 0.0:
            closing = max(closing_of(later, arm, rival), 0.0)
            # ``price`` counts a loss twice, now and in the plan. Users may leave before the plan
            # is done, so that both count; an agent plays on.
            gap = abs(far[arm] - far[rival])
            if c.tastes > 1:
                gap = abs(price[arm] - price[rival])
            net -= rounds * expected_gain(gap, deviation, closing)
            if others > 0.0 and common[arm] > 0.0:
                shared = deviation * common[arm] / variance[arm]
                net -= others * expected_gain(gap, shared, closing)
        if net < least:
            choice, least = arm, net
    return choice


@inlined
def count_pull(c: Any, own: Any, arm: int, memo: Any) -> None:
    """Leave the counts as they were for the loss in ``memo``, and count the pull.

    First those of the arm and of all others together, which stay what they are when arms come.
    """
    few = c.n_arms if c.n_arms <= MOST_ARMS else 0
    for k in range(few * c.memories):
        memo[2 * c.memories + k] = own.counts[k]
    for m in range(c.memories):
        before = own.counts[arm * c.memories + m]
        memo[m] = before
        memo[c.memories + m] = own.total[m] - before
        gamma = memory_of(c, m)
        if gamma < 1.0:
            for j in range(c.n_arms):
                own.counts[j * c.memories + m] *= gamma
        own.counts[arm * c.memories + m] += 1.0
        own.total[m] = gamma * own.total[m] + 1.0
    own.pulls[arm] += 1
