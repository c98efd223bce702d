"""The optimum where every arm has a least and a most share of the rounds, with proof."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from influential_bandits.checks import abbreviate, is_real
from influential_bandits.errors import InvalidInput, NotApplicable, NotCertified
from influential_bandits.numerics.arrays import Floats
from influential_bandits.numerics.compiling import kernel
from influential_bandits.optima.path import Certificate, Optimum
from influential_bandits.world.instance import Instance, require_lasting_memory

STEPS = 1_000_000  # exchanges between two arms; few thousands are usual
SUMS = 1e-9  # what shares may miss 1 by, as decimals do


class Shares(NamedTuple):
    """The least and the most share of the rounds that each arm may have, (arms,) each."""

    least: Floats
    most: Floats


def require_shares(
    shares: Mapping[str, Sequence[float]] | None, arm_names: Sequence[str]
) -> Shares | None:
    """Return what shares were asked for by name; arms that are not named may have any.

    Examples
    --------
    >>> require_shares({"hat": (0.1, 0.3)}, ["hat", "shoe"]).most.tolist()
    [0.3, 1.0]
    """
    if shares is None:
        return None
    if not isinstance(shares, Mapping):
        raise InvalidInput(
            "shares must be given by arm, as in {'hat': (0.1, 0.3)}, got " + abbreviate(shares)
        )
    least, most = np.zeros(len(arm_names)), np.ones(len(arm_names))
    for name, ends in shares.items():
        if name not in arm_names:
            known = ", ".join(map(repr, list(arm_names)[:5]))
            raise InvalidInput(f"shares names the arm {name!r}, but there are {known}")
        arm = list(arm_names).index(name)
        least[arm], most[arm] = _require_ends(name, ends)
    if least.sum() > 1.0 + SUMS:
        raise InvalidInput(
            f"the least shares add up to {least.sum():.0%} of the rounds; lower some of "
            f"{', '.join(repr(name) for name in shares)}"
        )
    if most.sum() < 1.0 - SUMS:
        raise InvalidInput(
            f"the most shares of all arms add up to {most.sum():.0%} of the rounds, and something "
            f"has to be shown in each; raise some of {', '.join(repr(name) for name in shares)}"
        )
    return Shares(least, most)


def _require_ends(name: str, ends: Sequence[float]) -> tuple[float, float]:
    """Return the least and the most share of one arm."""
    try:
        low, high = ends
    except (TypeError, ValueError):
        low, high = np.nan, np.nan
    sound = is_real(low) and is_real(high) and 0.0 <= low <= high <= 1.0
    if not sound:
        raise InvalidInput(
            f"the share of {name!r} must be two numbers from 0 to 1, the least and the most, as in "
            f"(0.1, 0.3), got {abbreviate(ends)}"
        )
    return float(low), float(high)


def bounded_optimum(instance: Instance, horizon: float, shares: Shares) -> Optimum:
    """Return the best counts for a horizon under bounds of each arm's share, with proof.

    The minimiser of b·x + ½·xᵀAx over Σx = T and T·least ≤ x ≤ T·most, found by exchanges between
    the two arms that gain most by it. The certificate is the Frank-Wolfe gap over the same bounds.

    Examples
    --------
    >>> import influential_bandits as ib
    >>> shares = require_shares({"0": (0.3, 0.5)}, ["0", "1"])
    >>> bounded_optimum(ib.counterexample(), 100, shares).counts
    array([50., 50.])
    """
    require_lasting_memory(instance, "bounded_optimum")
    if not instance.definite:
        raise NotApplicable(
            "the interaction is indefinite, and shares can be kept where it is positive "
            "semi-definite: fit interaction='psd'"
        )
    b, matrix = np.array(instance.linear_term), np.asarray(instance.interaction.to_dense())
    low, high = horizon * shares.least, horizon * shares.most
    counts = fill_cheapest(instance.initial_loss, low, high, horizon)
    _exchange(matrix, b, low, high, counts)
    counts = _polish(matrix, b, low, high, counts, horizon)
    certificate = _certify(matrix, b, low, high, counts, horizon)
    if not certificate.is_optimal():
        raise NotCertified(f"no counts could be proved optimal for T = {horizon:g}: {certificate}")
    gradient = b + matrix @ counts
    between = (counts > low) & (counts < high)
    used = between if between.any() else counts > low
    multiplier = float(gradient[used].mean()) if used.any() else float(gradient.mean())
    loss = float(b @ counts + 0.5 * counts @ matrix @ counts)
    return Optimum(float(horizon), counts, multiplier, loss, certificate)


def fill_cheapest(cost: Floats, low: Floats, high: Floats, total: float) -> Floats:
    """Return the cheapest counts between bounds with this sum: a linear problem."""
    counts = low.copy()
    left = total - float(low.sum())
    for arm in np.argsort(cost, kind="stable"):
        more = min(float(high[arm] - low[arm]), max(left, 0.0))
        counts[arm] += more
        left -= more
    return counts


@kernel
def _exchange(A: Floats, b: Floats, low: Floats, high: Floats, counts: Floats) -> None:
    """Move rounds from the dearest arm with some to spare to the cheapest that may have more."""
    gradient = b + A @ counts
    for _ in range(STEPS):
        least, most = -1, -1
        for i in range(b.size):
            if counts[i] < high[i] and (least < 0 or gradient[i] < gradient[least]):
                least = i
            if counts[i] > low[i] and (most < 0 or gradient[i] > gradient[most]):
                most = i
        if least < 0 or most < 0:
            return
        slope = gradient[most] - gradient[least]
        if slope <= 1e-15 * (abs(gradient[most]) + abs(gradient[least])):
            return
        step = min(high[least] - counts[least], counts[most] - low[most])
        curvature = A[least, least] + A[most, most] - 2.0 * A[least, most]
        if slope < curvature * step:
            step = slope / curvature
            counts[least] += step
            counts[most] -= step
        elif high[least] - counts[least] <= counts[most] - low[most]:
            counts[most] -= step
            counts[least] = high[least]
        else:
            counts[least] += step
            counts[most] = low[most]
        for i in range(b.size):
            gradient[i] += step * (A[i, least] - A[i, most])


def _polish(
    A: Floats, b: Floats, low: Floats, high: Floats, counts: Floats, total: float
) -> Floats:
    """Return the solution of the equations of the arms between bounds, if it lies between them."""
    free = (counts > low) & (counts < high)
    if not free.any():
        return counts
    size = int(free.sum())
    matrix = np.ones((size + 1, size + 1))
    matrix[:size, :size], matrix[size, size] = A[np.ix_(free, free)], 0.0
    others = counts[~free]
    right = np.append(-b[free] - others @ A[np.ix_(~free, free)], total - others.sum())
    solved = counts.copy()
    solved[free] = np.linalg.lstsq(matrix, right, rcond=None)[0][:size]
    inside = bool(((solved >= low) & (solved <= high)).all())
    return solved if inside and np.isfinite(solved).all() else counts


def _certify(
    A: Floats, b: Floats, low: Floats, high: Floats, counts: Floats, total: float
) -> Certificate:
    """Return how far counts are from what proves an optimum."""
    gradient = b + A @ counts
    outside = max(float((low - counts).max()), float((counts - high).max()), 0.0)
    primal = max(outside, abs(float(counts.sum()) - total)) / total
    terms = np.abs(b) + np.abs(A) @ counts
    size = max(float(counts @ terms), 1e-300)
    cheapest = fill_cheapest(gradient, low, high, total)
    gap = max(float(gradient @ (counts - cheapest)), 0.0) / size
    may_gain, may_give = gradient[counts < high], gradient[counts > low]
    dual = 0.0
    if may_gain.size and may_give.size:
        dual = max(float(may_give.max() - may_gain.min()), 0.0) * total / size
    return Certificate(primal, dual, gap, "optimality conditions within bounds")
