"""The posterior of (μ, A): exact from its sums now and then, and updated with every loss between.

A loss y of user u has, given its past, the mean x̃·θ + (what its own past says) and the variance
σ²·α. So the posterior of θ is that of a regression of ỹ on x̃ with weights 1/α, whatever the number
of users: its sums are Σ x̃x̃ᵀ/α and Σ x̃ỹ/α.

Entries of matrices are named one by one here: a view of a row is counted by its users, with an
atomic instruction that takes as long as the arithmetic.
"""

from __future__ import annotations

import math

from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.numerics.compiling import inlined, kernel
from influential_bandits.numerics.portable import log
from influential_bandits.policies.fleet.states import (
    ASIDE,
    MEMORY,
    SETTLED,
    WAITING,
    Rules,
    Shared,
)
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
def put_aside(shared: Shared, memory: int, x: Floats, y: float, alpha: float) -> None:
    """Add an observation to the sums of a memory; what it adds to the Gram matrix waits.

    The matrix is read when variances and scales are chosen. Until then, to change it loss by loss
    would cost more than all else: it is larger than the processor's fast memory.
    """
    spot = shared.numbers[WAITING]
    rows, right = shared.rows[memory, spot], shared.right[memory]
    for a in range(x.size):
        rows[a] = x[a]
        right[a] += x[a] / alpha * y
    shared.alphas[spot] = alpha
    shared.squares[memory] += y * y / alpha


@kernel
def note_aside(rules: Rules, shared: Shared) -> None:
    """Count an observation that was put aside; once they are many, add them."""
    shared.numbers[WAITING] += 1
    if shared.numbers[WAITING] == ASIDE:
        add_waiting(rules, shared)


@kernel
def add_waiting(rules: Rules, shared: Shared) -> None:
    """Add what was put aside to the Gram matrices, in the order in which it came."""
    many = shared.numbers[WAITING]
    shared.numbers[WAITING] = 0
    for m in range(rules.memories.size):
        if m != shared.numbers[MEMORY] and shared.numbers[SETTLED] == 1:
            continue
        gram, rows = shared.gram[m], shared.rows[m]
        for spot in range(0, many - 3, 4):
            _add_four(gram, rows[spot : spot + 4], shared.alphas[spot : spot + 4])
        for spot in range(many - many % 4, many):
            _add_one(gram, rows[spot], shared.alphas[spot])


@kernel
def _add_one(gram: Floats, x: Floats, alpha: float) -> None:
    for a in range(x.size):
        by = x[a] / alpha
        if by != 0.0:
            for b in range(a + 1):
                gram[a, b] += by * x[b]


@kernel
def _add_four(gram: Floats, rows: Floats, alphas: Floats) -> None:
    """Add four observations, one after the other: the bits are those of :func:`_add_one`."""
    first, second, third, fourth = rows[0], rows[1], rows[2], rows[3]
    for a in range(first.size):
        one, two = first[a] / alphas[0], second[a] / alphas[1]
        three, four = third[a] / alphas[2], fourth[a] / alphas[3]
        if one == 0.0 and two == 0.0 and three == 0.0 and four == 0.0:
            continue
        for b in range(a + 1):
            entry = gram[a, b] + one * first[b]
            entry += two * second[b]
            entry += three * third[b]
            gram[a, b] = entry + four * fourth[b]


@kernel
def multiply(matrix: Floats, x: Floats, spots: Ints, many: int, out: Floats) -> None:
    """Write the product of a symmetric matrix, of which the lower triangle is kept, with x."""
    size = x.size
    for a in range(size):
        out[a] = 0.0
    for c in range(many):
        a = spots[c]
        by = x[a]
        for b in range(a):
            out[b] += by * matrix[a, b]
    if 4 * many > size:
        for a in range(size):
            out[a] += _dot(matrix, a, x)
    else:
        for c in range(many):
            b = spots[c]
            by = x[b]
            for a in range(b, size):
                out[a] += by * matrix[a, b]


@inlined
def _dot(matrix: Floats, a: int, x: Floats) -> float:
    """Return Σ row·x of a triangle's row, eight by eight, so that few additions wait."""
    total = 0.0
    size = a + 1
    whole = size - size % 8
    for b in range(0, whole, 8):
        first = matrix[a, b] * x[b] + matrix[a, b + 1] * x[b + 1]
        second = matrix[a, b + 2] * x[b + 2] + matrix[a, b + 3] * x[b + 3]
        third = matrix[a, b + 4] * x[b + 4] + matrix[a, b + 5] * x[b + 5]
        fourth = matrix[a, b + 6] * x[b + 6] + matrix[a, b + 7] * x[b + 7]
        total += (first + second) + (third + fourth)
    for b in range(whole, size):
        total += matrix[a, b] * x[b]
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
            for b in range(a + 1):
                covariance[a, b] -= by * gain[b]


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
        spot, xj = spots[c], entries[c]
        total += 2.0 * xj * level * covariance[spot, start]
        for d in range(c):
            total += 2.0 * xj * entries[d] * covariance[spot, spots[d]]
        total += xj * xj * covariance[spot, spot]
    return total


@kernel
def refresh(shared: Shared, memory: int, factor: Floats, solved: Floats, root: Floats) -> None:
    """Compute θ of a memory, and of the one chosen its covariance, from the sums."""
    _assemble(shared, memory, factor, solved)
    eliminate(factor, solved)
    root[:] = 0.0
    invert(factor, solved, root, shared.theta[memory])
    for a in range(solved.size):
        shared.theta[memory, a] += shared.centre[a]
    if memory == shared.numbers[MEMORY]:
        _square(root, shared.covariance)


@kernel
def _square(root: Floats, out: Floats) -> None:
    """Write the lower triangle of rootᵀ·root, of a lower triangular matrix."""
    size = out.shape[0]
    for a in range(size):
        for b in range(size):
            out[a, b] = 0.0
        for r in range(a, size):
            by = root[r, a]
            if by != 0.0:
                for b in range(a + 1):
                    out[a, b] += by * root[r, b]


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
