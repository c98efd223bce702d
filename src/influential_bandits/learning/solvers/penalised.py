"""Penalised least squares from sufficient statistics: where every fit ends up.

Every fit minimises ½·θᵀHθ − g·θ over coefficients θ = (initial losses, level, interaction), where H
is a Gram matrix plus a penalty, and the interaction may have to be positive semi-definite. What
differs is where the penalty comes from: a ridge, or what the population says.

Fits give coefficients of instances, and of the population they come from.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from influential_bandits.learning.solvers.psd import solve_psd, svec, svec_scale
from influential_bandits.learning.statistics.design import SYMMETRIC, Design
from influential_bandits.numerics.arrays import Floats
from influential_bandits.numerics.compiling import kernel
from influential_bandits.packages import optional_module

TOLERANCE = 1e-9  # relative duality gap
SINGULAR = 1e-8  # smallest eigenvalue, relative to the largest, of statistics that determine A


class InstanceFits(NamedTuple):
    """Coefficients of instances, and how sure they are."""

    coefficients: Floats  # (instances, size)
    free: Floats  # (instances, size): the same without the cone
    errors: Floats  # (instances, size): posterior standard deviations
    noise: Floats  # (instances,): standard deviation of what is left
    gap: Floats  # (instances,): duality gap of positive semi-definite fits, relative
    determined: bool  # whether the statistics determine the interaction without a ridge


class PopulationEstimate(NamedTuple):
    """What instances share, or their mean."""

    population: Floats  # (size,)
    free: Floats  # (size,): the same without the cone
    covariance: Floats  # (size, size): of the population's coefficients
    noise: float
    gap: float
    determined: bool


class InstanceSummary(NamedTuple):
    """What a model knows of instances whose own coefficients it does not hold."""

    instances: int
    noise: float  # standard deviation, of all instances together
    covariance: Floats  # (size, size): of the instances' coefficients


class Moments(NamedTuple):
    """What the initial losses of instances add up to."""

    instances: int
    losses: Floats  # (arms,): sums, measured from a centre
    squares: Floats  # (arms, arms)
    errors: Floats  # (arms,): sums of squares


def measure_moments(fits: InstanceFits, centre: Floats) -> Moments:
    """Add up the initial losses of instances."""
    losses, errors = (table[:, : len(centre)] for table in (fits.coefficients, fits.errors))
    losses = losses - centre
    squares = losses.T @ losses
    return Moments(len(fits.noise), losses.sum(axis=0), squares, (errors**2).sum(axis=0))


def measure_spread(total: Moments) -> Floats:
    """Return how much the initial losses of instances differ, (arms, arms).

    Estimates are pulled together, by as much as is not known of each instance: that is added.
    """
    number = total.instances
    if number == 1:
        return np.zeros_like(total.squares)
    spread: Floats = total.squares - np.outer(total.losses, total.losses) / number
    return spread / (number - 1) + np.diag(total.errors / number)


def join_fits(fits: Iterable[InstanceFits]) -> InstanceFits:
    """Return the fits of several parts as one; coefficients that are free stay the same array."""
    parts = list(fits)
    same = all(part.free is part.coefficients for part in parts)
    *arrays, determined = zip(*parts, strict=True)
    joined = [
        np.concatenate(array) if n != 1 or not same else None for n, array in enumerate(arrays)
    ]
    joined[1] = joined[0] if same else joined[1]
    return InstanceFits._make([*joined, all(determined)])


class Penalty(NamedTuple):
    """What keeps coefficients small where the log says little."""

    ridge: float  # pseudo-events of average counts, for each entry of the interaction
    shrinkage: float  # pseudo-events that pull an initial loss towards the instance's mean loss


@kernel
def centre_losses(gram: Floats, arms: int, mean: float, number: int) -> None:
    """Measure losses from their mean; the weights of an event sum to one."""
    size = gram.shape[0] - 1
    total = gram[:arms, size].sum()
    for a in range(size):
        shift = mean * gram[a, :arms].sum()
        gram[a, size] -= shift
        gram[size, a] -= shift
    gram[size, size] += mean * mean * number - 2.0 * mean * total


@kernel
def penalty_weights(
    design: Design, square: Floats, number: float, ridge: float, shrinkage: float
) -> Floats:
    """Return the penalty of each coefficient, (size,), in units of the Gram matrix.

    ``square`` is its diagonal, (size,).
    """
    arms, start, size = design.n_arms, design.n_arms + design.controls, square.size
    out = np.empty(size)
    out[:arms] = max(shrinkage, 1e-9)
    for a in range(arms, start):
        out[a] = 1e-9 * max(square[a], 1e-300) + 1e-12
    total = 0.0
    for a in range(start, size):
        total += square[a]
    average = total / max(number * arms, 1.0)
    if average == 0.0:
        average = 1.0
    weight = max(ridge, 1e-10) * average
    out[start:] = weight
    if design.kind == SYMMETRIC:  # an entry off the diagonal stands for two of the matrix
        for i in range(arms):
            for j in range(i):
                out[start + i * (i + 1) // 2 + j] = 2.0 * weight
    return out


def solve_positive(matrix: Floats, right: Floats) -> Floats:
    """Solve with a positive definite matrix, by factors that take a sixth of an inverse's time.

    Where rounding hides that it is positive definite, as any other matrix.
    """
    algebra = optional_module("scipy.linalg")
    try:
        factors = algebra.cho_factor(matrix, lower=True, check_finite=False)
    except np.linalg.LinAlgError:
        return np.asarray(np.linalg.solve(matrix, right), np.float64)
    solution: Floats = algebra.cho_solve(factors, right, check_finite=False)
    return solution


@kernel
def solve_penalised(
    design: Design,
    gram: Floats,
    weights: Floats,
    definite: bool,
    ridge: float,
    gap: Floats,
) -> tuple[Floats, Floats, Floats, float, bool]:
    """Return the minimiser, that without the cone, diag(H⁻¹), the squares left, if A is determined.

    H = Gram matrix + penalty. With a ridge, A is determined.
    """
    size = gram.shape[0] - 1
    plain = np.ascontiguousarray(gram[:size, :size])
    H = plain + np.diag(weights)
    g = gram[:size, size].copy()
    inverse = np.linalg.inv(H)
    solution = inverse @ g
    free = solution.copy()
    determined = True
    arms, start = design.n_arms, design.n_arms + design.controls
    if size > start:
        nuisance = np.ascontiguousarray(H[:start, :start])
        coupled = np.ascontiguousarray(H[:start, start:])
        reduced = H[start:, start:] - coupled.T @ np.linalg.solve(nuisance, coupled)
        if ridge == 0.0:
            values = np.linalg.eigvalsh(reduced - np.diag(weights[start:]))
            determined = values[0] > SINGULAR * max(values[-1], 0.0)
        if definite:
            right = reduced @ solution[start:]
            scale = svec_scale(arms)
            best = solve_psd(reduced * scale.reshape(-1, 1) * scale, right * scale, arms, TOLERANCE)
            solution[start:] = svec(best.matrix) * scale
            solution[:start] = np.linalg.solve(nuisance, g[:start] - coupled @ solution[start:])
            gap[0] = best.gap / max(0.5 * gram[size, size], 1e-300)
    left = gram[size, size] - 2.0 * (g @ solution) + solution @ (plain @ solution)
    return solution, free, np.diag(inverse).copy(), left, determined
