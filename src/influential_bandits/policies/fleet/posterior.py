"""The posterior of (μ, A): exact from its sums now and then, and updated with every loss between.

A loss y of user u has, given its past, the mean x̃·θ + (what its own past says) and the variance
σ²·α. So the posterior of θ is that of a regression of ỹ on x̃ with weights 1/α, whatever the number
of users: its sums are Σ x̃x̃ᵀ/α and Σ x̃ỹ/α.
"""

from __future__ import annotations

import math

from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.numerics.compiling import inlined, kernel
from influential_bandits.numerics.portable import log
from influential_bandits.policies.fleet.states import Shared
from influential_bandits.policies.model_lcb.marginal_likelihood import FLOOR, eliminate, invert
from influential_bandits.policies.model_lcb.posterior import place, unknowns


@kernel
def find_entries(x: Floats, spots: Ints) -> int:
    """Write where a vector is not zero; return at how many places."""
    many = 0
    for a in range(x.size):
        if x[a] != 0.0:
            spots[many] = a
            many += 1
    return many


@kernel
def add_to_sums(
    gram: Floats, right: Floats, x: Floats, spots: Ints, many: int, y: float, alpha: float
) -> None:
    """Add an observation; of the Gram matrix the lower triangle."""
    dense = 4 * many > x.size
    for c in range(many):
        a = spots[c]
        weight = x[a] / alpha
        right[a] += weight * y
        row = gram[a]
        if dense:
            for b in range(a + 1):
                row[b] += weight * x[b]
        else:
            for d in range(c + 1):
                row[spots[d]] += weight * x[spots[d]]


@kernel
def multiply(matrix: Floats, x: Floats, spots: Ints, many: int, out: Floats) -> None:
    """Write the product of a symmetric matrix, of which the lower triangle is kept, with x."""
    size = x.size
    for a in range(size):
        out[a] = 0.0
    for c in range(many):
        a = spots[c]
        row, by = matrix[a], x[a]
        for b in range(a):
            out[b] += by * row[b]
    if 4 * many > size:
        for a in range(size):
            out[a] += _dot(matrix[a], x, a + 1)
    else:
        for c in range(many):
            b = spots[c]
            by = x[b]
            for a in range(b, size):
                out[a] += by * matrix[a, b]


@inlined
def _dot(row: Floats, x: Floats, size: int) -> float:
    """Return Σ row·x of the first entries, eight by eight, so that few additions wait."""
    total = 0.0
    whole = size - size % 8
    for b in range(0, whole, 8):
        first = row[b] * x[b] + row[b + 1] * x[b + 1]
        second = row[b + 2] * x[b + 2] + row[b + 3] * x[b + 3]
        third = row[b + 4] * x[b + 4] + row[b + 5] * x[b + 5]
        fourth = row[b + 6] * x[b + 6] + row[b + 7] * x[b + 7]
        total += (first + second) + (third + fourth)
    for b in range(whole, size):
        total += row[b] * x[b]
    return total


@kernel
def learn(
    theta: Floats, covariance: Floats, gain: Floats, surprise: float, variance: float
) -> None:
    """Take in a loss: ``gain`` is covariance·x, and ``variance`` that of the surprise, in σ².

    Of the covariance the lower triangle is kept: half of the work, most of which is memory traffic.
    """
    for a in range(theta.size):
        by = gain[a] / variance
        theta[a] += by * surprise
        if by != 0.0:
            row = covariance[a]
            for b in range(a + 1):
                row[b] -= by * gain[b]


@kernel
def loss_variance(
    covariance: Floats,
    arm: int,
    weights: Floats,
    less: float,
    seen: float,
    past: Floats,
    spots: Ints,
    entries: Floats,
) -> float:
    """Return the variance of an arm's loss that is due to θ, in units of σ².

    Of the user's past only the arm's own losses are taken off (x̃ with one row); they are what
    counts, and all of them would take K times as long. ``spots`` and ``entries`` are to compute in.
    """
    start = unknowns(arm)
    level = 1.0 - less * seen
    total = level * level * covariance[start, start]
    many = 0
    for j in range(weights.size):
        xj = weights[j] - less * past[j]
        if xj != 0.0:
            spots[many], entries[many] = place(arm, j), xj  # in rising order
            many += 1
    for c in range(many):
        row, xj = covariance[spots[c]], entries[c]
        total += 2.0 * xj * level * row[start]
        for d in range(c):
            total += 2.0 * xj * entries[d] * row[spots[d]]
        total += xj * xj * row[spots[c]]
    return total


@kernel
def refresh(shared: Shared, memory: int, factor: Floats, solved: Floats, root: Floats) -> None:
    """Compute θ of a memory, and its covariance, from the sums."""
    _assemble(shared, memory, factor, solved)
    eliminate(factor, solved)
    root[:] = 0.0
    invert(factor, solved, root, shared.theta[memory])
    for a in range(solved.size):
        shared.theta[memory, a] += shared.centre[a]
    covariance = shared.covariance
    covariance[:] = 0.0
    for r in range(solved.size):
        for a in range(r + 1):
            by = root[r, a]
            if by != 0.0:
                for b in range(a + 1):
                    covariance[a, b] += by * root[r, b]


@kernel
def support(
    shared: Shared, memory: int, precision: Floats, seen: float, factor: Floats, solved: Floats
) -> tuple[float, float]:
    """Return the log marginal likelihood of a memory and of the prior's precision, and σ² so."""
    kept = shared.precision.copy()
    shared.precision[:] = precision
    _assemble(shared, memory, factor, solved)
    shared.precision[:] = kept
    squares = shared.squares[memory]
    for a in range(solved.size):  # Σ(ỹ − x̃·centre)²/α
        moved = shared.centre[a]
        if moved != 0.0:
            squares -= 2.0 * moved * shared.right[memory, a]
            for b in range(solved.size):
                entry = shared.gram[memory, max(a, b), min(a, b)]
                squares += moved * entry * shared.centre[b]
    volume = eliminate(factor, solved)
    explained = 0.0
    for a in range(solved.size):
        explained += solved[a] * solved[a]
        volume -= log(precision[a])
    left = max(squares - explained, FLOOR * shared.squares[memory]) / seen
    return (-0.5 * (volume + seen * log(left)) if left > 0.0 else 0.0), left


@kernel
def _assemble(shared: Shared, memory: int, factor: Floats, solved: Floats) -> None:
    """Write the upper triangle of H = Σ x̃x̃ᵀ/α + prior, and Σ x̃(ỹ − x̃·centre)/α."""
    size = solved.size
    gram = shared.gram[memory]
    for a in range(size):
        solved[a] = shared.right[memory, a]
    for a in range(size):
        for b in range(a + 1):
            entry = gram[a, b]
            factor[b, a] = entry
            if entry != 0.0:
                solved[a] -= entry * shared.centre[b]
                if a != b:
                    solved[b] -= entry * shared.centre[a]
            if shared.known.shape[0] > 0:
                share = math.sqrt(shared.precision[a]) * math.sqrt(shared.precision[b])
                factor[b, a] += share * shared.known[0, a, b]
        if shared.known.shape[0] == 0:
            factor[a, a] += shared.precision[a]
