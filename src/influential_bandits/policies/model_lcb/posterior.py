"""Gaussian posterior over (l1, A) with shared symmetry, in square-root form.

A loss is linear in the unknowns: φ·θ = l1_i + Σ_j A_ij·x_j, x the (discounted) counts at the pull.
The K + K(K+1)/2 unknowns θ lie arm by arm, l1_k, A_0k, …, A_kk, so that a new arm's come last. In
units of the noise's variance their covariance is S·Sᵀ, S upper triangular. The arrays hold

- ``root``: Sᵀ, lower triangular; a row of it is a column of S;
- ``spread``: column i is Sᵀφ_i, for the loss of arm i as it is now;
- ``variance``: the squared length of each such column.

Observations are taken in by Carlson's update (1973), which keeps S triangular with a positive
diagonal: the covariance cannot lose its positive definiteness.
"""

from __future__ import annotations

import math

import numpy as np

from influential_bandits.numerics.arrays import Floats
from influential_bandits.numerics.compiling import inlined, kernel


@inlined
def unknowns(n_arms: int) -> int:
    """Return how many numbers (l1, A) has; it is also where l1 of arm number ``arms`` lies.

    Examples
    --------
    >>> unknowns(3)
    9
    """
    return n_arms * (n_arms + 3) // 2


@inlined
def place(i: int, j: int) -> int:
    """Return where A_ij lies among the unknowns.

    Examples
    --------
    >>> place(0, 0), place(1, 0), place(0, 1), place(1, 1)
    (1, 3, 3, 4)
    """
    if i >= j:
        return i * (i + 3) // 2 + 1 + j
    return j * (j + 3) // 2 + 1 + i


@inlined
def predict(theta: Floats, weights: Floats, arm: int) -> float:
    """Return the posterior mean of the loss of an arm at counts x = ``weights``."""
    loss = theta[unknowns(arm)]
    for j in range(weights.size):
        loss += weights[j] * theta[place(arm, j)]
    return loss


@inlined
def project(root: Floats, row: int, weights: Floats, arm: int) -> float:
    """Return one entry of Sᵀφ for an arm."""
    start = unknowns(arm)
    if start > row:
        return 0.0
    value = root[row, start]
    for j in range(weights.size):
        where = place(arm, j)
        if where > row:
            break
        value += weights[j] * root[row, where]
    return value


@kernel
def respread(root: Floats, weights: Floats, spread: Floats, variance: Floats) -> None:
    """Compute the spread of every arm's loss from the root."""
    for i in range(variance.size):
        variance[i] = 0.0
    for row in range(root.shape[0]):
        for i in range(variance.size):
            value = project(root, row, weights, i)
            spread[row, i] = value
            variance[i] += value * value


@inlined
def move(root: Floats, memory: float, arm: int, spread: Floats, variance: Floats) -> None:
    """Follow a pull of an arm, x ← memory·x + e_arm, in the spread."""
    for i in range(variance.size):
        variance[i] = 0.0
    for row in range(root.shape[0]):
        for i in range(variance.size):
            start = unknowns(i)
            if start > row:
                break
            value = spread[row, i]
            if memory < 1.0:
                value = memory * value + (1.0 - memory) * root[row, start]
            where = place(i, arm)
            if where <= row:
                value += root[row, where]
            spread[row, i] = value
            variance[i] += value * value


@inlined
def fade(root: Floats, kept: float, spread: Floats, variance: Floats) -> None:
    """Follow time that passes, x ← kept·x, in the spread."""
    for i in range(variance.size):
        variance[i] = 0.0
    for row in range(root.shape[0]):
        for i in range(variance.size):
            start = unknowns(i)
            if start > row:
                break
            value = kept * spread[row, i] + (1.0 - kept) * root[row, start]
            spread[row, i] = value
            variance[i] += value * value


@inlined
def absorb(root: Floats, f: Floats, gain: Floats) -> float:
    """Take an observation with f = Sᵀφ into the root; return α = 1 + f·f; ``gain`` becomes Sf.

    Column by column, S_c ← S_c·√(α_{c−1}/α_c) − g·f_c/√(α_{c−1}α_c), with α_c = 1 + Σ_{k≤c} f_k²
    and g = Σ_{k<c} f_k·S_k.
    """
    before = 1.0
    for row in range(f.size):
        gain[row] = 0.0
        after = before + f[row] * f[row]
        shrink = math.sqrt(before / after)
        remove = f[row] / math.sqrt(before * after)
        for k in range(row + 1):
            value = root[row, k]
            root[row, k] = shrink * value - remove * gain[k]
            gain[k] += f[row] * value
        before = after
    return before


@inlined
def learn(
    root: Floats,
    theta: Floats,
    weights: Floats,
    arm: int,
    loss: float,
    spread: Floats,
    variance: Floats,
) -> tuple[float, float]:
    """Take in the loss of a pull of ``arm`` at counts ``weights``; return the surprise and α."""
    size, n_arms = theta.size, variance.size
    f, gain, common = np.empty(size), np.empty(size), np.zeros(n_arms)
    for row in range(size):
        f[row] = project(root, row, weights, arm)
    surprise = loss - predict(theta, weights, arm)
    alpha = absorb(root, f, gain)
    for k in range(size):
        theta[k] += gain[k] * (surprise / alpha)
    for i in range(n_arms):
        variance[i] = 0.0
    before = 1.0
    for row in range(size):  # the same update, of Sᵀφ_i instead of Sᵀ
        after = before + f[row] * f[row]
        shrink = math.sqrt(before / after)
        remove = f[row] / math.sqrt(before * after)
        for i in range(n_arms):
            value = spread[row, i]
            less = shrink * value - remove * common[i]
            common[i] += f[row] * value
            spread[row, i] = less
            variance[i] += less * less
        before = after
    return surprise, alpha
