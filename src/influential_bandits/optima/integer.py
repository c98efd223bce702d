"""The best whole counts: the best sequence of pulls in hindsight, the paper's benchmark."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from influential_bandits.checks import require_horizon, whole_number
from influential_bandits.errors import NotApplicable
from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.numerics.compiling import kernel
from influential_bandits.optima.path import optimal_path
from influential_bandits.world.factorisation import pivoted_ldl
from influential_bandits.world.instance import Instance, require_instance, require_lasting_memory

Squares = tuple[Floats, Floats]  # L and D with dᵀAd = Σ D·(Lᵀd)²
LARGEST_SEARCH = 300  # arms that branch and bound considers; the rest is proved to stay at 0
ROUNDING = 1e-12  # relative difference of losses that counts as a tie


@dataclass(frozen=True, eq=False)
class IntegerOptimum:
    """The best whole counts found, and how far they can be from the best there are.

    Attributes
    ----------
    horizon : int
    counts : array (arms,), int64
    loss : float
        Their total loss.
    excess : float
        How much larger that is than the relaxation's optimum.
    gap : float
        No whole counts have a loss lower by more than this; 0 if the search was complete.
    exact : bool
        Whether the search was complete.

    Examples
    --------
    >>> import influential_bandits as ib
    >>> ib.integer_optimum(ib.counterexample(), 100)
    IntegerOptimum(T = 100, 1 of 2 arms in use, loss 5,050, exact)
    """

    horizon: int
    counts: Ints
    loss: float
    excess: float
    gap: float
    exact: bool

    def __repr__(self) -> str:
        used = f"{np.count_nonzero(self.counts):,} of {self.counts.size:,} arms in use"
        proof = "exact" if self.exact else f"within {self.gap:.3g} of the best"
        return f"IntegerOptimum(T = {self.horizon:,}, {used}, loss {self.loss:,.6g}, {proof})"


def integer_optimum(instance: Instance, horizon: int, nodes: int = 2_000_000) -> IntegerOptimum:
    """Return the whole counts x ≥ 0, Σx = horizon with the smallest total loss.

    Branch and bound on L(x) = L(x*) + Σ gap_i·x_i + ½·(x − x*)ᵀA(x − x*), none of whose terms is
    negative: the arms with the largest gaps are decided first, then those in use, each from its
    best value outwards, and the form's Cholesky factor bounds what is still to come.

    Parameters
    ----------
    instance : Instance
        Positive semi-definite, memory = 1.
    horizon : int
    nodes : int
        How many partial solutions to look at before giving up the proof.

    Examples
    --------
    >>> import influential_bandits as ib
    >>> integer_optimum(ib.counterexample(), 100).counts
    array([100,   0])
    """
    require_lasting_memory(require_instance(instance), "the optimum in whole numbers")
    horizon = require_horizon(horizon)
    nodes = whole_number("nodes", nodes, 0, 2**63)
    if not instance.definite:
        raise NotApplicable("the best whole counts need a positive semi-definite interaction")
    path = optimal_path(instance)
    path.optimum(horizon)  # raises if it cannot be certified
    segment = path.segment(horizon)
    point = segment.point(float(horizon))[:-1]
    gaps = np.maximum(segment.gaps(float(horizon)), 0.0)

    counts, excess = _round(instance, segment.support, point, gaps, horizon)
    others = np.setdiff1d(np.flatnonzero(gaps <= excess), segment.support)
    others = others[np.argsort(-gaps[others], kind="stable")]
    exact = False
    if len(others) + len(segment.support) <= LARGEST_SEARCH:
        used = segment.support[np.argsort(point[:, 0], kind="stable")]
        order = np.concatenate([others, used])
        centre = np.zeros((instance.n_arms, 2))
        centre[segment.support] = point
        chosen, excess, exact = _search(
            np.ascontiguousarray(instance.interaction.rows(order)[:, order]),
            centre[order],
            gaps[order],
            counts[order],
            excess,
            horizon,
            nodes,
        )
        counts[order] = chosen
    loss = float(instance.total_loss(counts))
    return IntegerOptimum(
        horizon, counts, loss, float(excess), 0.0 if exact else float(excess), exact
    )


def _round(
    instance: Instance, support: Ints, point: Floats, gaps: Floats, horizon: int
) -> tuple[Ints, float]:
    """Return good whole counts on the support: rounded, then improved by moving single pulls."""
    x = np.maximum(point[:, 0], 0.0)
    whole = np.floor(x).astype(np.int64)
    missing = horizon - int(whole.sum())
    for m in np.argsort(-(x - whole), kind="stable")[:missing]:
        whole[m] += 1
    matrix = np.ascontiguousarray(instance.interaction.rows(support)[:, support])
    excess = _improve(matrix, point, gaps[support], whole)
    counts = np.zeros(instance.n_arms, np.int64)
    counts[support] = whole
    return counts, excess


@kernel
def _excess(squares: Squares, centre: Floats, gaps: Floats, counts: Ints) -> float:
    """Return Σ gap·x + ½·dᵀAd with d = x − centre, as a sum of squares."""
    factor, weights = squares
    z = np.zeros(weights.size)
    total = 0.0
    for i in range(counts.size):
        d = (counts[i] - centre[i, 0]) - centre[i, 1]
        total += gaps[i] * counts[i]
        for k in range(z.size):
            z[k] += factor[i, k] * d
    for k in range(z.size):
        total += 0.5 * weights[k] * (z[k] * z[k])
    return total


@kernel
def _improve(matrix: Floats, centre: Floats, gaps: Floats, counts: Ints) -> float:
    """Move single pulls between arms while that lowers the loss; return the excess reached."""
    n = counts.size
    squares = pivoted_ldl(matrix, n * 2.220446049250313e-16)
    excess = _excess(squares, centre, gaps, counts)
    for _ in range(1000):
        pull = np.empty(n)
        for i in range(n):
            pull[i] = gaps[i]
            for j in range(n):
                pull[i] += matrix[i, j] * ((counts[j] - centre[j, 0]) - centre[j, 1])
        best = 0.0
        source, target = -1, -1
        for i in range(n):
            if counts[i] > 0:
                for j in range(n):
                    curvature = matrix[i, i] + matrix[j, j] - 2.0 * matrix[i, j]
                    change = pull[j] - pull[i] + 0.5 * curvature
                    if i != j and change < best:
                        best, source, target = change, i, j
        if source < 0:
            break
        counts[source] -= 1
        counts[target] += 1
        after = _excess(squares, centre, gaps, counts)
        if after >= excess:
            counts[source] += 1
            counts[target] -= 1
            break
        excess = after
    return excess


@kernel
def _bounding_factor(matrix: Floats) -> Floats:
    """Return lower triangular R with dᵀAd = ‖R·d‖² for Σd = 0, the last entry of d eliminated.

    Row m involves the first m + 1 entries only, so the squares of the first rows bound the form
    from below whatever comes after.
    """
    n = matrix.shape[0] - 1
    form = np.empty((n, n))
    for i in range(n):
        for j in range(n):
            form[i, j] = matrix[i, j] - matrix[i, n] - matrix[j, n] + matrix[n, n]
    factor = np.zeros((n, n))
    for m in range(n - 1, -1, -1):
        rest = form[m, m]
        for k in range(m + 1, n):
            rest -= factor[k, m] * factor[k, m]
        if rest > 1e-13 * max(form[m, m], 0.0):
            root = math.sqrt(rest)
            factor[m, m] = root
            for j in range(m):
                entry = form[m, j]
                for k in range(m + 1, n):
                    entry -= factor[k, m] * factor[k, j]
                factor[m, j] = entry / root
    return factor


@kernel
def _search(
    matrix: Floats,
    centre: Floats,
    gaps: Floats,
    incumbent: Ints,
    excess: float,
    horizon: int,
    nodes: int,
) -> tuple[Ints, float, bool]:
    """Branch and bound, depth first; return the best counts, their excess, and whether done."""
    n = incumbent.size - 1
    best = incumbent.copy()
    factor = _bounding_factor(matrix)
    squares = pivoted_ldl(matrix, (n + 1) * 2.220446049250313e-16)
    x = np.zeros(n + 1, np.int64)
    d = np.zeros(n + 1)
    cost = np.zeros(n + 1)  # bound of the partial solution above each level
    left = np.zeros(n + 1, np.int64)  # pulls still to be given out at each level
    below = np.zeros(n + 1, np.int64)  # next smaller and next larger value to try
    above = np.zeros(n + 1, np.int64)
    shift = np.zeros(n + 1)
    left[0] = horizon
    level = 0
    arriving = True
    visited = 0
    while level >= 0:
        if level == n:
            x[n] = left[n]
            if cost[n] + gaps[n] * x[n] < excess:
                reached = _excess(squares, centre, gaps, x)
                if reached < excess:
                    excess = reached
                    for i in range(n + 1):
                        best[i] = x[i]
            level -= 1
            arriving = False
            continue
        root = factor[level, level]
        if arriving:
            shift[level] = 0.0
            for j in range(level):
                shift[level] += factor[level, j] * d[j]
            first = _best_value(left[level], centre[level], gaps[level], root, shift[level])
            below[level] = first
            above[level] = first + 1
        low = _price(below[level], left[level], centre[level], gaps[level], root, shift[level])
        high = _price(above[level], left[level], centre[level], gaps[level], root, shift[level])
        value = below[level] if low <= high else above[level]
        price = cost[level] + min(low, high)
        if price >= excess * (1.0 - ROUNDING):
            level -= 1
            arriving = False
            continue
        visited += 1
        if visited > nodes:
            return best, excess, False
        if low <= high:
            below[level] -= 1
        else:
            above[level] += 1
        x[level] = value
        d[level] = (value - centre[level, 0]) - centre[level, 1]
        cost[level + 1] = price
        left[level + 1] = left[level] - value
        level += 1
        arriving = True
    return best, excess, True


@kernel
def _best_value(left: int, centre: Floats, gap: float, root: float, shift: float) -> int:
    """Return the whole number below the value with the smallest price."""
    if root == 0.0:
        return 0
    value = centre[0] - shift / root - gap / (root * root)
    return int(min(max(math.floor(value), 0.0), float(left)))


@kernel
def _price(value: int, left: int, centre: Floats, gap: float, root: float, shift: float) -> float:
    """Return what a value adds to the bound; infinite if it is not available."""
    if value < 0 or value > left:
        return np.inf
    term = root * ((value - centre[0]) - centre[1]) + shift
    return gap * value + 0.5 * term * term
