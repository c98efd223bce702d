"""What each hypothesis expects of every arm's loss, and how sure it is: Bayesian regressions.

For a hypothesis h and an arm i, row h·K + i of the state holds

- ``coefficients``: as expected, were all common means 0;
- ``response``: how they follow the common means, (coefficients, 3);
- ``covariance``: given the common means, in units of σ²; its lower triangle.

``common_precision`` and ``common_moment`` are those of the common means of a hypothesis.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from influential_bandits.numerics.arrays import Floats
from influential_bandits.numerics.compiling import inlined, kernel
from influential_bandits.numerics.portable import exp, log
from influential_bandits.policies.contract import Shape
from influential_bandits.policies.foresight.cholesky import factorise, invert, place, solve
from influential_bandits.policies.foresight.hypotheses import (
    LEAST_REST,
    LEVEL_SPREADS,
    MEANS,
    MOST_ARMS,
    SCALES,
    SPREAD,
    begin_common,
    common_mean,
    count_regressors,
    level_spread_of,
    scale_of,
    solve_common,
    sums_of,
    weigh,
)

HYPOTHESES = 6  # that are followed from loss to loss
GROWTH = 4  # hypotheses are chosen anew when the losses have grown by a quarter
LARGEST_SQUARES = 1e15  # of counts, summed; beyond, small differences are lost by rounding
SLIGHT = 1e-9  # a share of all weights that counts as none


def posterior_fields(n_arms: int, variants: int) -> dict[str, tuple[str, Shape]]:
    """Return type and shape of what is learned of losses: sums, and posteriors that follow."""
    few = n_arms if n_arms <= MOST_ARMS else 0
    size, rows = count_regressors(n_arms), HYPOTHESES * n_arms
    return {
        "seen": ("int64", n_arms),
        "observations": ("int64", 1),
        "next_choice": ("int64", 1),
        "variant": ("int64", HYPOTHESES),
        "squares": ("float64", variants),
        "log_widths": ("float64", variants),
        "noise": ("float64", 1),  # σ, when hypotheses were last chosen
        "products": ("float64", (few, (few + 1) * (few + 2) // 2 * variants)),
        "moments": ("float64", (few, (few + 1) * variants)),
        "coarse_products": ("float64", (n_arms - few, 6 * variants)),
        "coarse_moments": ("float64", (n_arms - few, 3 * variants)),
        "level_spread": ("float64", HYPOTHESES),
        "scale": ("float64", HYPOTHESES),
        "weight": ("float64", HYPOTHESES),
        "rest": ("float64", HYPOTHESES),  # sum of squares that is left
        "coefficients": ("float64", (rows, size)),
        "response": ("float64", (rows, MEANS * size)),
        "covariance": ("float64", (rows, place(size, 0))),
        "common_precision": ("float64", (HYPOTHESES, MEANS * MEANS)),
        "common_moment": ("float64", (HYPOTHESES, MEANS)),
    }


@kernel
def choose_hypotheses(c: Any, s: Any) -> None:
    """Weigh all hypotheses by the losses so far, and keep those at even steps of their weight."""
    weights = np.empty((SCALES, s.squares.size, LEVEL_SPREADS))
    total = weigh(c, s, weights)
    below, taken, noise = 0.0, 0, 0.0
    for k in range(SCALES):
        for v in range(s.squares.size):
            for t in range(LEVEL_SPREADS):
                below += weights[k, v, t]
                first = taken
                while taken < HYPOTHESES and (taken + 0.5) * total <= HYPOTHESES * below * (
                    1.0 + SLIGHT
                ):
                    s.weight[taken] = 0.0
                    taken += 1
                if taken > first:  # one that fills several places is kept once, with their weight
                    s.weight[first] = float(taken - first)
                    s.variant[first] = v
                    s.level_spread[first] = level_spread_of(t)
                    s.scale[first] = scale_of(c, k)
                    fit(c, s, first)
                    noise += s.weight[first] / HYPOTHESES * s.rest[first]
    s.noise[0] = math.sqrt(noise / max(s.observations[0] - 1, 1))
    normalise_weights(s)


@inlined
def keeps_digits(s: Any) -> bool:
    """Tell whether sums can still be solved; where influence lasts they grow as t³."""
    products, moments = sums_of(s)
    variants = s.squares.size
    for arm in range(products.shape[0]):
        for j in range(1, moments.shape[1] // variants):
            for v in range(variants):
                if products[arm, place(j, j) * variants + v] > LARGEST_SQUARES:
                    return False
    return True


@kernel
def fit(c: Any, s: Any, h: int) -> None:
    """Compute the posterior of a hypothesis from the sums."""
    size = s.response.shape[1] // MEANS
    matrix, more = np.empty((size, size + 1)), np.zeros((c.n_arms, 2 * size))
    precision, moment = s.common_precision[h], s.common_moment[h]
    rest = s.squares[s.variant[h]] + begin_common(precision, moment, s.scale[h], s.noise[0])
    for arm in range(c.n_arms):
        regress(c, s, h, arm, matrix, more)
        if s.seen[arm] > 0:
            rest -= gather_common(c, s, h, arm)
    mean, factor = np.empty(MEANS), np.empty(MEANS * MEANS)
    solve_common(precision, moment, mean, factor)
    for k in range(MEANS):
        rest -= moment[k] * mean[k]
    s.rest[h] = max(rest, LEAST_REST * s.squares[s.variant[h]])
    if s.products.shape[0] > 0:
        tell_partners(c, s, h, mean, more)
        for arm in range(c.n_arms):
            regress(c, s, h, arm, matrix, more)


@inlined
def regress(c: Any, s: Any, h: int, arm: int, matrix: Floats, more: Floats) -> None:
    """Compute the regression of an arm from its sums, and from what others say of its coefficients.

    ``more`` (arms, 2·coefficients): precisions and moments to be added.
    """
    products, moments = sums_of(s)
    size, row, v = matrix.shape[0], h * c.n_arms + arm, s.variant[h]
    variants = s.squares.size
    level = 1.0 / (s.level_spread[h] * s.level_spread[h])
    tight = 1.0 / (SPREAD * s.scale[h] * SPREAD * s.scale[h])
    for j in range(size):
        for k in range(j + 1):
            matrix[k, j] = products[arm, place(j, k) * variants + v]
        matrix[j, j] += (level if j == 0 else tight) + more[arm, j]
        matrix[j, size] = moments[arm, j * variants + v] + more[arm, size + j]
    factorise(matrix)
    solve(matrix, size, s.coefficients[row])
    invert(matrix, s.covariance[row])
    for j in range(size):
        for k in range(MEANS):
            s.response[row, MEANS * j + k] = 0.0
    for j in range(size):
        for k in range(j + 1):
            entry = s.covariance[row, place(j, k)]
            of_k = common_mean(arm, k, c.n_arms)
            s.response[row, MEANS * j + of_k] += entry * (level if k == 0 else tight)
            if k < j:
                s.response[row, MEANS * k + common_mean(arm, j, c.n_arms)] += entry * tight


@inlined
def gather_common(c: Any, s: Any, h: int, arm: int) -> float:
    """Add what an arm says of the common means; return what it explains of the squares."""
    _, moments = sums_of(s)
    size, row, v = s.response.shape[1] // MEANS, h * c.n_arms + arm, s.variant[h]
    level = 1.0 / (s.level_spread[h] * s.level_spread[h])
    tight = 1.0 / (SPREAD * s.scale[h] * SPREAD * s.scale[h])
    explained = 0.0
    for j in range(size):
        known = level if j == 0 else tight
        k = common_mean(arm, j, c.n_arms)
        explained += s.coefficients[row, j] * moments[arm, j * s.squares.size + v]
        s.common_moment[h, k] += known * s.coefficients[row, j]
        s.common_precision[h, MEANS * k + k] += known
        for n in range(MEANS):
            s.common_precision[h, MEANS * k + n] -= known * s.response[row, MEANS * j + n]
    return explained


@inlined
def coefficient(s: Any, row: int, j: int, mean: Floats) -> float:
    """Return the expected coefficient j of a row, given the common means."""
    value = s.coefficients[row, j]
    for k in range(MEANS):
        value += s.response[row, MEANS * j + k] * mean[k]
    return value


@inlined
def tell_partners(c: Any, s: Any, h: int, mean: Floats, more: Floats) -> None:
    """Let arm j know of A_ji what the losses of arm i say of A_ij: A is symmetric."""
    size = c.n_arms + 1
    tight = 1.0 / (SPREAD * s.scale[h] * SPREAD * s.scale[h])
    for i in range(c.n_arms):
        for j in range(c.n_arms):
            if i == j:
                continue
            row = h * c.n_arms + i
            known = 1.0 / s.covariance[row, place(j + 1, j + 1)]
            if known - tight > SLIGHT * tight:
                more[j, i + 1] = known - tight
                value = coefficient(s, row, j + 1, mean)
                more[j, size + i + 1] = known * value - tight * mean[2]


@inlined
def learn(c: Any, s: Any, h: int, arm: int, regressors: Floats, loss: float, width: float) -> None:
    """Take a loss into the posterior of a hypothesis, and into its weight.

    ``width`` is the variance of the loss where all coefficients are known, in units of σ².
    """
    size, row = s.response.shape[1] // MEANS, h * c.n_arms + arm
    gain = np.empty(size)
    for j in range(size):
        gain[j] = 0.0
        for k in range(j):
            entry = s.covariance[row, place(j, k)]
            gain[j] += entry * regressors[k]
            gain[k] += entry * regressors[j]
        gain[j] += s.covariance[row, place(j, j)] * regressors[j]
    variance, surprise = width, loss
    follow, mean, factor = np.zeros(MEANS), np.empty(MEANS), np.empty(MEANS * MEANS)
    for j in range(size):
        variance += gain[j] * regressors[j]
        surprise -= s.coefficients[row, j] * regressors[j]
        for k in range(MEANS):
            follow[k] += s.response[row, MEANS * j + k] * regressors[j]
    variance = max(variance, width)  # as it is, but for rounding
    for j in range(size):
        share = gain[j] / variance
        for k in range(j + 1):
            s.covariance[row, place(j, k)] -= share * gain[k]
        s.coefficients[row, j] += share * surprise
        for k in range(MEANS):
            s.response[row, MEANS * j + k] -= share * follow[k]
    solve_common(s.common_precision[h], s.common_moment[h], mean, factor)
    innovation, widened = surprise, variance
    for k in range(MEANS):
        innovation -= follow[k] * mean[k]
        s.common_moment[h, k] += follow[k] * surprise / variance
        for m in range(MEANS):
            s.common_precision[h, MEANS * k + m] += follow[k] * follow[m] / variance
    for k in range(MEANS):  # followᵀ·precision⁻¹·follow, from the factor
        for m in range(k):
            follow[k] -= factor[MEANS * k + m] * follow[m]
        follow[k] /= factor[MEANS * k + k]
        widened += follow[k] * follow[k]
    before = s.rest[h]
    s.rest[h] += innovation * innovation / widened
    degrees = max(s.observations[0] - 3, 0)
    grown = log(s.rest[h] / max(before, 1e-300))
    s.weight[h] *= exp(
        max(-0.5 * (log(widened) + degrees * grown + log(max(s.rest[h], 1e-300))), -700.0)
    )


@inlined
def normalise_weights(s: Any) -> None:
    """Scale the weights so that they sum to 1; what is negligible is none."""
    top = 0.0
    for h in range(HYPOTHESES):
        top = max(top, s.weight[h])
    total = 0.0
    for h in range(HYPOTHESES):
        if s.weight[h] < SLIGHT * top:
            s.weight[h] = 0.0
        total += s.weight[h]
    for h in range(HYPOTHESES):
        s.weight[h] /= total
