"""How noisy, how influential, how lasting: the prior of ModelLCB, chosen by marginal likelihood.

The prior is l1_i ~ N(0, σ²ρ_l²), A_ii ~ N(0, σ²ρ_d²) and A_ij ~ N(0, σ²ρ_o²) off the diagonal, with
the noise's σ² integrated out over its scale-invariant prior. Up to a constant, the likelihood is
|D|^−½·|Λ + D⁻¹|^−½·rss^(−n/2): Λ is the Gram matrix of the features, D the prior's covariance, and
rss the squares that the posterior mean leaves, penalty included. The ρ are powers of two. A choice
is six whole numbers: which memory, the exponents of ρ_l, ρ_d and ρ_o, and the ties of l1 and of A.

A tie says that arms are alike. With a tie k > 0, the l1 have a common mean ~ N(0, σ²ρ_l²) and
spread around it with a deviation of σρ_l/4^k; so do the A_ii around theirs and the A_ij around
theirs. D is then no longer diagonal, but the inverse of ρ²·1 + τ²·11ᵀ, for n members, is known:
(1 − 11ᵀ·τ²/(ρ² + nτ²))/ρ².

There are two sets of features. *Exact*: all of (1, x), with the unknowns of ``posterior.py``.
*Ray*, for many arms: an intercept, the arm's own count and the count of all others; then each arm
has three unknowns of its own.
"""

from __future__ import annotations

import math

import numpy as np

from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.numerics.compiling import inlined, kernel
from influential_bandits.numerics.portable import log, power_of_two
from influential_bandits.policies.model_lcb.posterior import place, unknowns

RAY = 3  # features of an arm among many
LARGEST = 20  # the exponents of ρ lie in −LARGEST … LARGEST
NONE = -40  # exponent of ρ_d and ρ_o that stands for no influence at all
USUAL_LOSS, USUAL_INFLUENCE = 0, -1  # where the search begins
RELUCTANCE = 0.2  # nats for a squared power of two away from the usual, up to two of them
NO_INFLUENCE = 3.0  # nats that "no influence" has to make up for
STILL_ALIKE = 3.0  # the same if l1 is tied by two powers, and one more if by one alone
LOW_LEVEL = 1.1  # nats for each power of two that their level is lower
USUAL_LEVEL = 2  # exponent: arms that are alike and still differ less than they are away from 0
MOST_TIED = 2  # ties are 0 … MOST_TIED
TIE = 2.0  # nats that a tie has to make up for, and as many for each of its powers
FLOOR = 2.0**-44  # relative size of what rounding leaves
MOST_TRIALS = 30
MOVES = 10  # of the search: a step up or down in five directions
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
    return power_of_two(-2 * exponent)


@inlined
def mean_width(members: int, tie: int) -> float:
    """Return n·τ²/ρ² of n members: τ the deviation of their common mean, ρ the spread around it."""
    return members * power_of_two(4 * tie) if tie > 0 else 0.0


@inlined
def pull_together(members: int, exponent: int, tie: int) -> float:
    """Return what a common mean takes from the precision of each pair of members."""
    width = mean_width(members, tie)
    return precision(exponent - 2 * tie) * (width / (1.0 + width)) / members


@kernel
def assemble_exact(
    gram: Floats,
    moments: Floats,
    known: Floats,
    told: Floats,
    memories: int,
    choice: Ints,
    factor: Floats,
    solved: Floats,
) -> None:
    """Write Λ + D⁻¹, its upper triangle, and Σφ·loss.

    A prior counts as an observation of the unknowns: ``known`` is its precision in units of the
    noise's, and ``told`` that times its mean.
    """
    n_arms, memory = gram.shape[0], choice[0]
    factor[:, :] = 0.0
    solved[:] = 0.0
    for row in range(told.size):
        solved[row] = told[row]
        for k in range(row, told.size):
            factor[row, k] = known[row, k]
    for i in range(n_arms):
        first = unknowns(i)
        factor[first, first] += gram[i, memory] + precision(choice[1] - 2 * choice[4])
        solved[first] += moments[i, memory]
        for j in range(n_arms):
            at = place(i, j)
            if j <= i:
                exponent = choice[2] if j == i else choice[3]
                factor[at, at] += precision(exponent - 2 * choice[5])
            row = (j + 1) * (j + 2) // 2
            solved[at] += moments[i, (j + 1) * memories + memory]
            factor[first, at] += gram[i, row * memories + memory]
            for k in range(j + 1):
                factor[place(i, k), at] += gram[i, (row + 1 + k) * memories + memory]
    _share_means(n_arms, choice, factor)


@inlined
def _share_means(n_arms: int, choice: Ints, factor: Floats) -> None:
    """Take common means into D⁻¹: of l1, and of A on and off the diagonal."""
    if choice[4] > 0:
        loss = pull_together(n_arms, choice[1], choice[4])
        for i in range(n_arms):
            for j in range(i + 1):
                factor[unknowns(j), unknowns(i)] -= loss
    if choice[5] > 0:
        own = pull_together(n_arms, choice[2], choice[5])
        others = pull_together(max(n_arms * (n_arms - 1) // 2, 1), choice[3], choice[5])
        for i in range(n_arms):
            for j in range(i + 1):
                factor[place(j, j), place(i, i)] -= own
            for j in range(i):
                for k in range(1, i + 1):
                    for m in range(j + 1 if k == i else k):
                        factor[place(k, m), place(i, j)] -= others


@kernel
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


@kernel
def eliminate(factor: Floats, solved: Floats) -> float:
    """Factorise the matrix in place as UᵀU; return log|·|; ``solved`` becomes U⁻ᵀ·solved.

    Four rows at a time are taken from those below: the bits are those of row by row, and a quarter
    of the memory is moved. Columns are counted without a sign: only then are the loops compiled to
    vector instructions.
    """
    size, end_of_row = solved.size, np.uint64(solved.size)
    smallest = np.empty(size)
    for row in range(size):
        smallest[row] = FLOOR * factor[row, row]
    volume = 0.0
    for first in range(0, size, 4):
        last = min(first + 4, size)
        for row in range(first, last):
            pivot = max(factor[row, row], smallest[row])
            volume += log(pivot)
            root = math.sqrt(pivot)
            factor[row, row] = root
            for m in range(np.uint64(row + 1), end_of_row):
                factor[row, m] /= root
            solved[row] /= root
            for k in range(row + 1, last):
                by = factor[row, k]
                solved[k] -= by * solved[row]
                for m in range(np.uint64(k), end_of_row):
                    factor[k, m] -= by * factor[row, m]
        if last < size:
            _take_four(factor, solved, first)
    return volume


@inlined
def _take_four(factor: Floats, solved: Floats, first: int) -> None:
    """Take four rows of U from all rows below, one after the other."""
    size, second, third, fourth = solved.size, first + 1, first + 2, first + 3
    for k in range(first + 4, size):
        b0, b1, b2, b3 = factor[first, k], factor[second, k], factor[third, k], factor[fourth, k]
        if b0 == 0.0 and b1 == 0.0 and b2 == 0.0 and b3 == 0.0:
            continue
        rest = solved[k] - b0 * solved[first]
        rest -= b1 * solved[second]
        rest -= b2 * solved[third]
        solved[k] = rest - b3 * solved[fourth]
        for m in range(np.uint64(k), np.uint64(size)):
            entry = factor[k, m] - b0 * factor[first, m]
            entry -= b1 * factor[second, m]
            entry -= b2 * factor[third, m]
            factor[k, m] = entry - b3 * factor[fourth, m]


@kernel
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
    known: Floats,
    told: Floats,
    memories: int,
    squares: float,
    choice: Ints,
    factor: Floats,
    solved: Floats,
) -> tuple[float, float]:
    """Return log(|D|·|Λ + D⁻¹|) and rss of a choice; ``memories`` is 0 for ray features.

    What rounding leaves is added, not a lower bound: below that, a narrow prior would cost nothing.
    """
    n_arms = gram.shape[0]
    if memories > 0:
        assemble_exact(gram, moments, known, told, memories, choice, factor, solved)
        volume = eliminate(factor, solved)
        explained = _length(solved)
        volume += _log_prior_volume(n_arms, choice)
    else:
        volume, explained = 0.0, 0.0
        for arm in range(n_arms):
            assemble_ray(gram, moments, arm, choice, factor, solved)
            volume += eliminate(factor, solved)
            explained += _length(solved)
        volume += n_arms * (LN4 * (choice[1] + choice[2] + choice[3]) - log(float(n_arms)))
    return volume, max(squares - explained, 0.0) + FLOOR * squares


@inlined
def _log_prior_volume(n_arms: int, choice: Ints) -> float:
    """Return log|D|."""
    pairs = n_arms * (n_arms - 1) // 2
    exponents = n_arms * (choice[1] + choice[2] - 2 * (choice[4] + choice[5]))
    exponents += pairs * (choice[3] - 2 * choice[5])
    volume = LN4 * exponents + log(1.0 + mean_width(n_arms, choice[4]))
    return (
        volume + log(1.0 + mean_width(n_arms, choice[5])) + log(1.0 + mean_width(pairs, choice[5]))
    )


@kernel
def support(
    gram: Floats,
    moments: Floats,
    known: Floats,
    told: Floats,
    memories: int,
    squares: float,
    seen: int,
    choice: Ints,
    factor: Floats,
    solved: Floats,
) -> float:
    """Return the log likelihood of a choice, less our reluctance to go far from the usual."""
    volume, rss = evaluate(gram, moments, known, told, memories, squares, choice, factor, solved)
    if choice[2] == NONE:
        odds = _still_odds(choice[1], choice[4])
    else:
        odds = _reluctance(choice[1] - USUAL_LOSS) + _tie_odds(choice[4]) + _tie_odds(choice[5])
        odds += _reluctance(choice[2] - USUAL_INFLUENCE) + _reluctance(choice[3] - choice[2])
    return -0.5 * (volume + seen * log(rss / squares)) - odds


@inlined
def _reluctance(distance: int) -> float:
    """Return a penalty that grows with the square near the usual, and then evenly."""
    far = abs(float(distance))
    return RELUCTANCE * (far * far if far <= 2.0 else 4.0 * far - 4.0)


@inlined
def _still_odds(exponent: int, tie: int) -> float:
    """Return the reluctance to believe that nothing moves; less so if arms are much alike."""
    if tie == 0:
        return NO_INFLUENCE + _reluctance(exponent - USUAL_LOSS)
    below = max(USUAL_LEVEL - exponent, 0)
    return STILL_ALIKE + max(2 - tie, 0) + _reluctance(exponent - USUAL_LEVEL) + LOW_LEVEL * below


@inlined
def _tie_odds(tie: int) -> float:
    return TIE * (1 + tie) if tie > 0 else 0.0


@kernel
def climb(
    gram: Floats,
    moments: Floats,
    known: Floats,
    told: Floats,
    memories: int,
    squares: float,
    seen: int,
    fixed_influence: bool,
    most: int,
    choice: Ints,
    factor: Floats,
    solved: Floats,
) -> float:
    """Improve a choice, scales by factors of four and ties one by one; return its support."""
    trial = np.empty(choice.size, np.int64)
    best = support(gram, moments, known, told, memories, squares, seen, choice, factor, solved)
    failures, trials, which = 0, 0, 0
    while failures < MOVES and trials < most:
        for k in range(trial.size):
            trial[k] = choice[k]
        _move(which, trial)
        value = -math.inf
        still = choice[2] == NONE and which >= 8
        fixed = (fixed_influence or choice[2] == NONE) and 2 <= which < 6
        if _is_candidate(trial, memories) and not fixed and not still:
            value = support(
                gram, moments, known, told, memories, squares, seen, trial, factor, solved
            )
            trials += 1
        if value > best:
            best = value
            for k in range(trial.size):
                choice[k] = trial[k]
            failures = 0
        else:
            failures += 1
            which = (which + 1) % MOVES
    return best


@inlined
def _move(which: int, choice: Ints) -> None:
    """Move a choice in one of the directions, up or down."""
    up = 1 if which % 2 == 0 else -1
    if which < 2:
        choice[1] += 2 * up
    elif which < 6:
        choice[3] += 2 * up
        if which < 4:  # both scales of A together
            choice[2] += 2 * up
    elif which < 8:
        choice[4] += up
    else:
        choice[5] += up


@inlined
def _is_candidate(choice: Ints, memories: int) -> bool:
    """Tell whether a choice is one that may be made; ray features have no ties."""
    tied = MOST_TIED if memories > 0 else 0
    most = tied + 1 if choice[2] == NONE and tied > 0 else tied
    known = choice[2] == NONE or max(abs(choice[2]), abs(choice[3])) <= LARGEST
    return abs(choice[1]) <= LARGEST and known and 0 <= choice[4] <= most and 0 <= choice[5] <= tied
