"""Regret from counts: a sum of terms none of which is negative, accurate at any horizon."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from influential_bandits.errors import InvalidInput, NotCertified
from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.numerics.compiling import lazy_kernel
from influential_bandits.numerics.double_double import add, scale, two_product
from influential_bandits.optima.critical_line import add_products
from influential_bandits.optima.integer import integer_optimum
from influential_bandits.optima.path import certify_face, optimal_path
from influential_bandits.world.dynamics import World
from influential_bandits.world.instance import (
    Instance,
    check_counts,
    require_instance,
    require_lasting_memory,
)

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
    in double-double arithmetic, which does not cancel. For a sparse A the form itself is evaluated
    in twice the precision.

    Examples
    --------
    >>> import influential_bandits as ib
    >>> regret(ib.counterexample(), [9103, 897])
    401856.125
    >>> regret(ib.counterexample(), [9103, 897], against="integer")
    401856.0
    """
    require_lasting_memory(require_instance(instance), "regret")
    x = check_counts(instance, counts)
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
        y = check_counts(instance, against)
        try:
            y = np.broadcast_to(y, x.shape)
        except ValueError:
            raise InvalidInput(
                f"the counts to compare with have shape {y.shape}, the counts {x.shape}"
            ) from None
        others = np.ascontiguousarray(y.reshape(rows.shape))
        rounding = 4 * instance.n_arms * np.finfo(float).eps
        if not np.allclose(others.sum(axis=1), rows.sum(axis=1), rtol=rounding, atol=0.0):
            raise InvalidInput("the counts to compare with must have the same sums as the counts")
        out = _excess_over(instance, rows, others)
    return float(out[0]) if x.ndim == 1 else out.reshape(x.shape[:-1])


def _against_relaxation(instance: Instance, rows: Floats) -> Floats:
    horizons = rows.sum(axis=1)
    out = np.zeros(len(rows))
    for horizon in np.unique(horizons[horizons > 0]):
        chosen = horizons == horizon
        if instance.definite:
            out[chosen] = _from_path(instance, rows[chosen], float(horizon))
        else:
            support, point, _ = certify_face(instance, float(horizon))
            best = np.zeros((int(chosen.sum()), instance.n_arms, 2))
            best[:, support] = point[:-1]
            out[chosen] = np.maximum(_excess_over(instance, rows[chosen], best), 0.0)
    return out


def _from_path(instance: Instance, rows: Floats, horizon: float) -> Floats:
    segment, point, _ = optimal_path(instance).certify(horizon)
    squares = instance.interaction.squares or NO_SQUARES
    gaps = segment.gaps(horizon)
    return _regrets(instance.world, *squares, segment.support, point, gaps, rows)


def _against_integer(instance: Instance, rows: Floats) -> Floats:
    horizons = rows.sum(axis=1)
    if not np.array_equal(rows, np.round(rows)):
        raise InvalidInput('counts must be whole numbers for regret against="integer"')
    best = np.zeros_like(rows)
    for horizon in np.unique(horizons[horizons > 0]):
        whole = integer_optimum(instance, int(horizon))
        if not whole.exact:
            raise NotCertified(
                f"the best counts for T = {int(horizon)} are proved only up to {whole.gap:.3g}; "
                'use against="relaxation"'
            )
        best[horizons == horizon] = whole.counts
    return np.maximum(_excess_over(instance, rows, best), 0.0)


def _excess_over(instance: Instance, rows: Floats, others: Floats) -> Floats:
    if others.ndim == 2:
        others = np.stack([others, np.zeros_like(others)], axis=2)
    return _differences(instance.world, instance.linear_term, rows, others)


@lazy_kernel
def _differences(world: World, b: Floats, rows: Floats, others: Floats) -> Floats:
    """Return (x − y)·(b + A(x + y)/2), the difference of two total losses, for each row.

    ``rows`` is (rows, arms), ``others`` (rows, arms, 2) in double-double.
    """
    n_arms = b.size
    every = np.arange(n_arms)
    middle = np.empty((2, n_arms))
    out = np.empty(rows.shape[0])
    for row in range(rows.shape[0]):
        for i in range(n_arms):
            s = add((rows[row, i], 0.0), (others[row, i, 0], others[row, i, 1]))
            middle[0, i], middle[1, i] = 0.5 * s[0], 0.5 * s[1]
        high, low = b.copy(), np.zeros(n_arms)
        add_products(world, every, middle[0], high, low)
        add_products(world, every, middle[1], high, low)
        total = (0.0, 0.0)
        for i in range(n_arms):
            d = add((rows[row, i], 0.0), (-others[row, i, 0], -others[row, i, 1]))
            product = scale((high[i], low[i]), d[0])
            total = add(total, add(product, two_product(high[i], d[1])))
        out[row] = total[0]
    return out


@lazy_kernel
def _regrets(
    world: World,
    factor: Floats,
    weights: Floats,
    support: Ints,
    point: Floats,
    gaps: Floats,
    counts: Floats,
) -> Floats:
    """Return Σ gap_i·x_i + ½·(x − x*)ᵀA(x − x*) for each row x of counts; no term is negative.

    ``factor`` and ``weights`` are L and D with A = L·D·Lᵀ, or both empty for a sparse A, whose form
    is then evaluated to 30 digits.
    """
    rows, n_arms = counts.shape
    out = np.empty(rows)
    for row in range(rows):
        d = counts[row].copy()
        linear = 0.0
        for i in range(n_arms):
            linear += max(gaps[i], 0.0) * d[i]
        for m in range(support.size):
            i = support[m]
            d[i] = add((d[i], 0.0), (-point[m, 0], -point[m, 1]))[0]
        quadratic = 0.0
        if factor.shape[0] > 0:
            z = np.zeros(factor.shape[1])
            for i in range(n_arms):
                if d[i] != 0.0:
                    for k in range(z.size):
                        z[k] += factor[i, k] * d[i]
            for k in range(z.size):
                quadratic += weights[k] * (z[k] * z[k])
        else:
            total = (0.0, 0.0)
            for i in range(n_arms):
                if d[i] != 0.0:
                    inner = (0.0, 0.0)
                    for k in range(world.offsets[i], world.offsets[i + 1]):
                        inner = add(inner, two_product(world.values[0, k], d[world.columns[k]]))
                    total = add(total, scale(inner, d[i]))
            quadratic = max(total[0], 0.0)
        out[row] = linear + 0.5 * quadratic
    return out
