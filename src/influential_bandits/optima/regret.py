"""Regret from counts: a sum of terms none of which is negative, accurate at any horizon."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from influential_bandits.errors import InvalidInput, NotCertified
from influential_bandits.numerics.compiling import kernel
from influential_bandits.numerics.double_double import add, scale, two_product
from influential_bandits.optima.critical_line import (
    exact_row,
    factor_products,
    point_at,
    regrets,
)
from influential_bandits.optima.integer import integer_optimum
from influential_bandits.optima.path import optimal_path, optimum
from influential_bandits.world.dynamics import Floats, World
from influential_bandits.world.instance import Instance

__all__ = ["regret"]

NO_SQUARES: tuple[Floats, Floats] = np.empty((0, 0)), np.empty(0)


def regret(
    instance: Instance, counts: npt.ArrayLike, against: str | npt.ArrayLike = "relaxation"
) -> Any:
    """Return how much more a policy lost than the benchmark did in the same number of rounds.

    Parameters
    ----------
    instance : Instance
        With memory = 1; indefinite ones up to 15 arms.
    counts : array (..., arms)
        How often each arm was pulled; the horizon is their sum.
    against : {"relaxation", "integer"} or array (..., arms)
        The benchmark: the certified optimum over real counts, as in the paper's analysis and
        experiments; the best sequence in hindsight, its definition of regret; or counts of your
        own with the same sums.

    Returns
    -------
    float or array (...)
        Never negative, except against counts of your own.

    Notes
    -----
    With x* optimal, λ its multiplier and ∇ = b + A·x*, regret is
    Σ_{i: x*_i = 0} (∇_i − λ)·x_i + ½·(x − x*)ᵀA(x − x*). The quadratic form is evaluated as
    ½·Σ D·(Lᵀd)² with A = L·D·Lᵀ, which cannot turn negative for singular A, and d = x − x* with x*
    in double-double arithmetic, which does not cancel.

    Examples
    --------
    >>> import influential_bandits as ib
    >>> regret(ib.counterexample(), [9103, 897])
    401856.125
    >>> regret(ib.counterexample(), [9103, 897], against="integer")
    401856.0
    """
    instance.require_lasting_memory("regret")
    x = instance.checked_counts(counts)
    rows = np.ascontiguousarray(x.reshape(-1, instance.n_arms))
    if isinstance(against, str):
        if against == "relaxation":
            out = _against_relaxation(instance, rows)
        elif against == "integer":
            out = _against_integer(instance, rows)
        else:
            raise InvalidInput(
                f'against must be "relaxation", "integer" or an array of counts, got {against!r}'
            )
    else:
        y = np.broadcast_to(instance.checked_counts(against), x.shape)
        others = np.ascontiguousarray(y.reshape(rows.shape))
        if not np.array_equal(others.sum(axis=1), rows.sum(axis=1)):
            raise InvalidInput("the counts to compare with must have the same sums as the counts")
        out = _differences(instance.world, instance.linear_term, rows, others)
    return float(out[0]) if x.ndim == 1 else out.reshape(x.shape[:-1])


def _against_relaxation(instance: Instance, rows: Floats) -> Floats:
    horizons = rows.sum(axis=1)
    out = np.zeros(len(rows))
    for horizon in np.unique(horizons[horizons > 0]):
        chosen = horizons == horizon
        if instance.definite:
            out[chosen] = _from_path(instance, rows[chosen], float(horizon))
        else:
            best = np.broadcast_to(optimum(instance, horizon).counts, rows[chosen].shape)
            excess = _differences(
                instance.world, instance.linear_term, rows[chosen], np.ascontiguousarray(best)
            )
            out[chosen] = np.maximum(excess, 0.0)
    return out


def _from_path(instance: Instance, rows: Floats, horizon: float) -> Floats:
    path = optimal_path(instance)
    path.optimum(horizon)  # raises if it cannot be certified
    segment = path.segment(horizon)
    squares = instance.interaction.squares or NO_SQUARES
    point = point_at(segment.p, segment.q, horizon)
    return regrets(instance.world, *squares, segment.support, point, path.gaps(horizon), rows)


def _against_integer(instance: Instance, rows: Floats) -> Floats:
    horizons = rows.sum(axis=1)
    if not np.array_equal(rows, np.round(rows)):
        raise InvalidInput('counts must be whole numbers for regret against="integer"')
    best = np.zeros_like(rows)
    for horizon in np.unique(horizons[horizons > 0]):
        found = integer_optimum(instance, int(horizon))
        if not found.exact:
            raise NotCertified(
                f"the best counts for T = {int(horizon)} are proved only up to {found.gap:.3g}; "
                'use against="relaxation"'
            )
        best[horizons == horizon] = found.counts
    excess = _differences(instance.world, instance.linear_term, rows, best)
    return np.maximum(excess, 0.0)


@kernel
def _differences(world: World, b: Floats, rows: Floats, others: Floats) -> Floats:
    """Return (x − y)·(b + A(x + y)/2), the exact difference of two total losses, for each row."""
    arms = b.size
    every = np.arange(arms)
    out = np.empty(rows.shape[0])
    for row in range(rows.shape[0]):
        middle = np.zeros((arms, 2))
        for i in range(arms):
            s = add((rows[row, i], 0.0), (others[row, i], 0.0))
            middle[i, 0], middle[i, 1] = 0.5 * s[0], 0.5 * s[1]
        products = factor_products(world, every, middle)
        total = (0.0, 0.0)
        for i in range(arms):
            d = add((rows[row, i], 0.0), (-others[row, i], 0.0))
            if d[0] != 0.0:
                slope = add(exact_row(world, i, every, middle, products), (b[i], 0.0))
                total = add(total, add(scale(slope, d[0]), two_product(slope[0], d[1])))
        out[row] = total[0]
    return out
