"""How noisy, how influential, how lasting: the prior of ModelLCB, chosen by marginal likelihood.

The prior is l1_i ~ N(0, σ²ρ_l²), A_ii ~ N(0, σ²ρ_d²) and A_ij ~ N(0, σ²ρ_o²) off the diagonal, with
the noise's σ² integrated out over its scale-invariant prior. Up to a constant, the likelihood is
|D|^−½·|Λ + D⁻¹|^−½·rss^(−n/2): Λ is the Gram matrix of the features, D the diagonal of the ρ², and
rss the squares that the posterior mean leaves, penalty included. The ρ are powers of two. A choice
is four whole numbers: which memory, and the exponents of ρ_l, ρ_d and ρ_o.

There are two sets of features. *Exact*: all of (1, x), with the unknowns of ``posterior.py``.
*Ray*, for many arms: an intercept, the arm's own count and the count of all others; then each arm
has three unknowns of its own.
"""

from __future__ import annotations

import math

import numpy as np

from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.numerics.compiling import inlined, kernel
from influential_bandits.numerics.portable import log
from influential_bandits.policies.model_lcb.posterior import place, unknowns

RAY = 3  # features of an arm among many
LARGEST = 20  # the exponents of ρ lie in −LARGEST … LARGEST
NONE = -40  # exponent of ρ_d and ρ_o that stands for no influence at all
USUAL_LOSS, USUAL_INFLUENCE = 0, -1  # where the search begins
RELUCTANCE = 0.2  # nats for a squared power of two away from the usual, up to two of them
NO_INFLUENCE = 3.0  # nats that "no influence" has to make up for
FLOOR = 2.0**-44  # relative size of what rounding leaves
MOST_TRIALS = 30
LN4 = 1.3862943611198906


@inlined
def add_exact(
    gram: Floats, moments: Floats, arm: int, weights: Floats, memories: int, loss: float
) -> None:
    """Add an observation to the sums of an arm, for every candidate memory.

    ``gram`` (arms, triangle·memories) holds Σ (1, x)(1, x)ᵀ, its triangle row by row; ``moments``
    (arms, (arms + 1)·memories) holds Σ (1, x)·loss; x_j of memory m is ``weights[j·memories + m]``.
    """
    for m in range(memories):
        gram[arm, m] += 1.0
        moments[arm, m] += loss
    for j in range(weights.size // memories):
        row = (j + 1) * (j + 2) // 2
        for m in range(memories):
            x = weights[j * memories + m]
            gram[arm, row * memories + m] += x
            moments[arm, (j + 1) * memories + m] += x * loss
            for k in range(j + 1):
                gram[arm, (row + 1 + k) * memories + m] += x * weights[k * memories + m]


@inlined
def add_ray(
    gram: Floats, moments: Floats, arm: int, own: float, others: float, loss: float
) -> None:
    """Add an observation to the sums of an arm among many; the triangle row by row."""
    gram[arm, 0] += 1.0
    gram[arm, 1] += own
    gram[arm, 2] += own * own
    gram[arm, 3] += others
    gram[arm, 4] += others * own
    gram[arm, 5] += others * others
    moments[arm, 0] += loss
    moments[arm, 1] += own * loss
    moments[arm, 2] += others * loss


@inlined
def precision(exponent: int) -> float:
    """Return 1/ρ²."""
    return 0.25**exponent


@inlined
def assemble_exact(
    gram: Floats, moments: Floats, memories: int, choice: Ints, factor: Floats, solved: Floats
) -> None:
    """Write Λ + D⁻¹, its upper triangle, and Σφ·loss."""
    n_arms, memory = gram.shape[0], choice[0]
    factor[:, :] = 0.0
    solved[:] = 0.0
    for i in range(n_arms):
        first = unknowns(i)
        factor[first, first] += gram[i, memory] + precision(choice[1])
        solved[first] += moments[i, memory]
        for j in range(n_arms):
            at = place(i, j)
            if j <= i:
                factor[at, at] += precision(choice[2] if j == i else choice[3])
            row = (j + 1) * (j + 2) // 2
            solved[at] += moments[i, (j + 1) * memories + memory]
            factor[first, at] += gram[i, row * memories + memory]
            for k in range(j + 1):
                factor[place(i, k), at] += gram[i, (row + 1 + k) * memories + memory]


@inlined
def assemble_ray(
    gram: Floats, moments: Floats, arm: int, choice: Ints, factor: Floats, solved: Floats
) -> None:
    """Write Λ + D⁻¹ and Σφ·loss of one arm among many.

    The others' influence is an average over arms: its prior is narrower, by about √arms.
    """
    for row in range(RAY):
        solved[row] = moments[arm, row]
        for k in range(row + 1):
            factor[k, row] = gram[arm, row * (row + 1) // 2 + k]
    factor[0, 0] += precision(choice[1])
    factor[1, 1] += precision(choice[2])
    factor[2, 2] += precision(choice[3]) * gram.shape[0]


@inlined
def eliminate(factor: Floats, solved: Floats) -> float:
    """Factorise the matrix in place as UᵀU; return log|·|; ``solved`` becomes U⁻ᵀ·solved."""
    size = solved.size
    smallest = np.empty(size)
    for row in range(size):
        smallest[row] = FLOOR * factor[row, row]
    volume = 0.0
    for row in range(size):
        pivot = max(factor[row, row], smallest[row])
        volume += log(pivot)
        root = math.sqrt(pivot)
        factor[row, row] = root
        for k in range(row + 1, size):
            factor[row, k] /= root
        solved[row] /= root
        for k in range(row + 1, size):
            by = factor[row, k]
            if by != 0.0:
                solved[k] -= by * solved[row]
                for m in range(k, size):
                    factor[k, m] -= by * factor[row, m]
    return volume


@inlined
def invert(factor: Floats, solved: Floats, root: Floats, theta: Floats) -> None:
    """Write the posterior: root = U⁻ᵀ, and its mean."""
    size = theta.size
    for row in range(size):
        for k in range(row):
            root[row, k] = 0.0
        for m in range(row):
            by = factor[m, row]
            if by != 0.0:
                for k in range(m + 1):
                    root[row, k] -= by * root[m, k]
        for k in range(row):
            root[row, k] /= factor[row, row]
        root[row, row] = 1.0 / factor[row, row]
    theta[:] = 0.0
    for row in range(size):
        for k in range(row + 1):
            theta[k] += root[row, k] * solved[row]


@inlined
def _length(vector: Floats) -> float:
    total = 0.0
    for value in vector:
        total += value * value
    return total


@kernel
def evaluate(
    gram: Floats,
    moments: Floats,
    memories: int,
    squares: float,
    choice: Ints,
    factor: Floats,
    solved: Floats,
) -> tuple[float, float]:
    """Return log(|D|·|Λ + D⁻¹|) and rss of a choice; ``memories`` is 0 for ray features."""
    n_arms = gram.shape[0]
    if memories > 0:
        assemble_exact(gram, moments, memories, choice, factor, solved)
        volume = eliminate(factor, solved)
        explained = _length(solved)
        volume += LN4 * (n_arms * (choice[1] + choice[2]) + (solved.size - 2 * n_arms) * choice[3])
    else:
        volume, explained = 0.0, 0.0
        for arm in range(n_arms):
            assemble_ray(gram, moments, arm, choice, factor, solved)
            volume += eliminate(factor, solved)
            explained += _length(solved)
        volume += n_arms * (LN4 * (choice[1] + choice[2] + choice[3]) - log(float(n_arms)))
    return volume, max(squares - explained, FLOOR * squares)


@inlined
def support(
    gram: Floats,
    moments: Floats,
    memories: int,
    squares: float,
    seen: int,
    choice: Ints,
    factor: Floats,
    solved: Floats,
) -> float:
    """Return the log likelihood of a choice, less our reluctance to go far from the usual."""
    volume, rss = evaluate(gram, moments, memories, squares, choice, factor, solved)
    odds = _reluctance(choice[1] - USUAL_LOSS)
    if choice[2] == NONE:
        odds += NO_INFLUENCE
    else:
        odds += _reluctance(choice[2] - USUAL_INFLUENCE) + _reluctance(choice[3] - choice[2])
    return -0.5 * (volume + seen * log(rss / squares)) - odds


@inlined
def _reluctance(distance: int) -> float:
    """Return a penalty that grows with the square near the usual, and then evenly."""
    far = abs(float(distance))
    return RELUCTANCE * (far * far if far <= 2.0 else 4.0 * far - 4.0)


@kernel
def climb(
    gram: Floats,
    moments: Floats,
    memories: int,
    squares: float,
    seen: int,
    fixed_influence: bool,
    most: int,
    choice: Ints,
    factor: Floats,
    solved: Floats,
) -> float:
    """Improve the scales of a choice, by factors of four; return its support."""
    trial = choice.copy()
    best = support(gram, moments, memories, squares, seen, choice, factor, solved)
    failures, trials, which = 0, 0, 0
    directions = 2 if fixed_influence else 6
    while failures < directions and trials < most:
        trial[:] = choice
        step = 2 if which % 2 == 0 else -2
        if which < 2:
            trial[1] += step
        else:
            trial[3] += step
            if which < 4:  # both scales of A together
                trial[2] += step
        value = -math.inf
        if abs(trial[1]) <= LARGEST and abs(trial[2]) <= LARGEST and abs(trial[3]) <= LARGEST:
            value = support(gram, moments, memories, squares, seen, trial, factor, solved)
            trials += 1
        if value > best:
            best = value
            choice[:] = trial
            failures = 0
        else:
            failures += 1
            which = (which + 1) % directions
    return best
