"""How likely the losses are under each hypothesis on memory, and on the spread of the unknowns.

The model. The loss of arm i is linear in what was pulled before,

    loss = level_i + Σ_j A_ij·f_j + σ·noise,

f_j being the faded count of pulls of arm j. In units of σ, levels are drawn from N(μ, τ²), what an
arm does to itself from N(a, (s/2)²), and what others do to it from N(b, (s/2)²). The common means
are unknown too: μ is flat, a ~ N(s, (s/2)²), b ~ N(0, (s/2)²). A hypothesis is a memory γ, a τ and
an s. Given a hypothesis, arms are independent regressions but for three common means, so that the
likelihood, with σ integrated out, follows from sums that are kept for each arm and memory.

With more than ``MOST_ARMS`` arms, each has three coefficients only: its level, its own pulls, and
those of all others together.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.numerics.compiling import inlined, kernel
from influential_bandits.numerics.portable import exp, log
from influential_bandits.policies.foresight.cholesky import factorise, log_determinant, place

MEMORIES = (1.0, 0.97, 0.85, 0.5)  # γ: what is left of a pull's influence after each round
MOST_ARMS = 24  # beyond, all other arms count together
FIRST_LEVEL_SPREAD, LEVEL_SPREADS = 0.1, 8  # τ, each √10 times the one before
FIRST_SCALE, SCALES = 0.02, 8  # s, likewise
NO_INFLUENCE = 1e-6  # s, in place of the first where memory is told
STEP = math.sqrt(10.0)
SPREAD = 0.5  # of coefficients and of common means, in units of s
MEANS = 3  # common ones: of levels, of own influence, of that of others
LEAST_REST = 1e-13  # of the sum of squares: what rounding may leave of a perfect fit
NEGLIGIBLE = 30.0  # a hypothesis e³⁰ times less likely than the best has no weight


@inlined
def count_regressors(n_arms: int) -> int:
    """Return how many coefficients an arm has.

    Examples
    --------
    >>> count_regressors(3), count_regressors(1000)
    (4, 3)
    """
    return n_arms + 1 if n_arms <= MOST_ARMS else 3


@inlined
def common_mean(arm: int, regressor: int, n_arms: int) -> int:
    """Return the common mean of a coefficient: 0 of levels, 1 of own influence, 2 of others'."""
    if regressor == 0:
        return 0
    if n_arms > MOST_ARMS:
        return regressor
    return 1 if regressor == arm + 1 else 2


@inlined
def level_spread_of(number: int) -> float:
    """Return a candidate for τ."""
    return grow(FIRST_LEVEL_SPREAD, number)


@inlined
def scale_of(c: Any, number: int) -> float:
    """Return a candidate for s.

    Influence that is soon gone is nearly none. Where memory is told, none is a candidate instead.
    """
    none = number == 0 and c.memories == 1
    return NO_INFLUENCE if none else grow(FIRST_SCALE, number)


@inlined
def grow(first: float, steps: int) -> float:
    """Return the first of a series of candidates after so many steps."""
    value = first
    for _ in range(steps):
        value *= STEP
    return value


@inlined
def begin_common(precision: Floats, moment: Floats, scale: float, noise: float) -> float:
    """Write what is known of the common means beforehand; return its share of the residual.

    ``noise`` is σ as it was last estimated: s is in units of it.
    """
    for k in range(precision.size):
        precision[k] = 0.0
    for k in range(MEANS):
        moment[k] = 0.0
    known = 1.0 / (SPREAD * scale * SPREAD * scale)
    precision[4] = known
    precision[8] = known
    moment[1] = scale * noise * known
    return scale * noise * moment[1]


@inlined
def solve_common(precision: Floats, moment: Floats, mean: Floats, factor: Floats) -> None:
    """Write the mean of the common means, and the Cholesky factor of their precision."""
    for k in range(MEANS):
        for m in range(k + 1):
            value = precision[MEANS * k + m]
            for n in range(m):
                value -= factor[MEANS * k + n] * factor[MEANS * m + n]
            if k == m:
                factor[MEANS * k + k] = math.sqrt(max(value, 1e-300))
            else:
                factor[MEANS * k + m] = value / factor[MEANS * m + m]
    for k in range(MEANS):
        value = moment[k]
        for m in range(k):
            value -= factor[MEANS * k + m] * mean[m]
        mean[k] = value / factor[MEANS * k + k]
    for k in range(MEANS - 1, -1, -1):
        value = mean[k]
        for m in range(k + 1, MEANS):
            value -= factor[MEANS * m + k] * mean[m]
        mean[k] = value / factor[MEANS * k + k]


@kernel
def weigh_scale(
    products: Floats,
    moments: Floats,
    seen: Ints,
    squares: float,
    variants: int,
    variant: int,
    log_width: float,
    scale: float,
    noise: float,
    weights: Floats,
) -> None:
    """Write the log likelihood for one variant and scale s, and each spread of levels τ.

    The level is eliminated last: all τ share the factor of the other coefficients.
    """
    n_arms = seen.size
    size = moments.shape[1] // variants - 1  # coefficients but the level
    matrix = np.empty((size, size + 4))
    between = np.empty((4, 4))  # the columns beside it: level, losses, own mean, others' mean
    precision = np.empty((weights.size, MEANS * MEANS))
    moment = np.empty((weights.size, MEANS))
    rest = np.empty(weights.size)
    tight = 1.0 / (SPREAD * scale * SPREAD * scale)
    n_losses = 0
    for t in range(weights.size):
        rest[t] = squares + begin_common(precision[t], moment[t], scale, noise)
        weights[t] = 2.0 * log(tight) - log_width
    last = np.empty(MEANS)
    for arm in range(n_arms):
        if seen[arm] == 0:
            continue
        n_losses += seen[arm]
        for j in range(size):
            for k in range(j + 1):
                matrix[k, j] = products[arm, place(j + 1, k + 1) * variants + variant]
            matrix[j, j] += tight
            is_own = common_mean(arm, j + 1, n_arms) == 1
            matrix[j, size] = products[arm, place(j + 1, 0) * variants + variant]
            matrix[j, size + 1] = moments[arm, (j + 1) * variants + variant]
            matrix[j, size + 2] = tight if is_own else 0.0
            matrix[j, size + 3] = 0.0 if is_own else tight
        factorise(matrix)
        grown = log_determinant(matrix) - size * log(tight)
        for a in range(4):
            for b in range(4):
                between[a, b] = 0.0
                for j in range(size):
                    between[a, b] += matrix[j, size + a] * matrix[j, size + b]
        left = products[arm, variant] - between[0, 0]
        level = moments[arm, variant] - between[0, 1]
        for t in range(weights.size):
            spread = level_spread_of(t)
            known = 1.0 / (spread * spread)
            pivot = max(left, 0.0) + known
            root = math.sqrt(pivot)
            end = level / root
            last[0] = known / root
            last[1] = -between[0, 2] / root
            last[2] = -between[0, 3] / root
            weights[t] -= grown + log(pivot) - log(known)
            rest[t] -= between[1, 1] + end * end
            for k in range(MEANS):
                moment[t, k] += last[k] * end
                for m in range(k + 1):
                    precision[t, MEANS * k + m] -= last[k] * last[m]
            moment[t, 1] += between[1, 2]
            moment[t, 2] += between[1, 3]
            precision[t, 0] += known
            precision[t, 4] += tight - between[2, 2]
            precision[t, 7] -= between[2, 3]
            precision[t, 8] += tight * (size - 1) - between[3, 3]
    mean, factor = np.empty(MEANS), np.empty(MEANS * MEANS)
    for t in range(weights.size):
        solve_common(precision[t], moment[t], mean, factor)
        for k in range(MEANS):
            weights[t] -= 2.0 * log(factor[MEANS * k + k])
            rest[t] -= moment[t, k] * mean[k]
        degrees = max(n_losses - 2, 0)  # σ is a little rather small than large
        weights[t] = 0.5 * (weights[t] - degrees * log(max(rest[t], LEAST_REST * squares)))


@kernel
def weigh(c: Any, s: Any, weights: Floats) -> float:
    """Write the weight of each hypothesis, (SCALES, variants, LEVEL_SPREADS); return their sum."""
    products, moments = sums_of(s)
    variants = s.squares.size
    best = -math.inf
    for k in range(SCALES):
        scale = scale_of(c, k)
        for v in range(variants):
            row = weights[k, v]
            squares, width, noise = s.squares[v], s.log_widths[v], s.noise[0]
            weigh_scale(products, moments, s.seen, squares, variants, v, width, scale, noise, row)
            for t in range(LEVEL_SPREADS):
                best = max(best, row[t])
    total = 0.0
    for k in range(SCALES):
        for v in range(variants):
            for t in range(LEVEL_SPREADS):
                less = weights[k, v, t] - best
                weights[k, v, t] = exp(less) if less > -NEGLIGIBLE else 0.0
                total += weights[k, v, t]
    return total


@inlined
def sums_of(s: Any) -> tuple[Floats, Floats]:
    """Return the sums in use: of each pair of arms, or of own pulls and others'."""
    if s.products.shape[0] > 0:
        return s.products, s.moments
    return s.coarse_products, s.coarse_moments


@inlined
def add_loss(
    products: Floats, moments: Floats, arm: int, counts: Floats, memories: int, loss: float
) -> None:
    """Take a loss of an arm into its sums; ``counts`` are (arms, memories), or own and others'."""
    size = counts.size // memories
    for m in range(memories):
        products[arm, m] += 1.0
        moments[arm, m] += loss
        for j in range(size):
            count = counts[j * memories + m]
            moments[arm, (j + 1) * memories + m] += count * loss
            products[arm, place(j + 1, 0) * memories + m] += count
            for k in range(j + 1):
                other = counts[k * memories + m]
                products[arm, place(j + 1, k + 1) * memories + m] += count * other
