"""The parametric quadratic programme, compiled.

x*(T) = argmin of b·x + ½·xᵀAx over x ≥ 0, Σx = T is piecewise linear in T. On a support S it solves

    [0  1ᵀ  ] [−λ ]   [ T  ]
    [1  A_SS] [x_S] = [−b_S]   so that  x_S = q + T·p,  λ = λ_q + T·λ_p,

and S changes where an x_i falls to 0 or the gap (b + Ax)_j − λ of an arm outside falls to 0.
:func:`follow_path` finds these events. The inverse of the matrix above is kept in double precision
and updated when an arm enters or leaves; p, q and all gaps are refined with residuals in twice the
precision, so that ties are seen as ties. A perturbation of b by 10⁻¹⁸, far below anything that the
data mean and far above the rounding, then decides them.

For positive semi-definite A, singular ones included, an arm that enters never makes the matrix
above singular: if A·d = 0 for a direction d with Σd = 0 that uses it, then the slope of the loss
along d is b·d, the same for all T, and its gap does not move at all.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.numerics.compiling import inlined, kernel, lazy_kernel
from influential_bandits.numerics.double_double import add, divide, scale, two_product, two_sum
from influential_bandits.numerics.streams import mix
from influential_bandits.world.dynamics import DENSE, LOW_RANK, World, ordered_dot

TIE_BREAKING = 1e-18  # perturbation of b, relative to the arm's own scale
DEPENDENT = 1e-14  # relative size under which a curvature counts as zero
STILL = 1e-20  # relative size under which a rate of change counts as zero
ENDED, TOO_LARGE, UNSOUND = 0, 1, 2  # how a walk along the path came out


@inlined
def entry(world: World, i: int, j: int) -> float:
    """Return A[i, j]."""
    if world.kind == DENSE:
        return world.values[i, j]
    if world.kind == LOW_RANK:
        return ordered_dot(world.values[i], world.values[j])
    for k in range(world.offsets[i], world.offsets[i + 1]):
        if world.columns[k] == j:
            return world.values[0, k]
    return 0.0


@kernel
def times_support(world: World, support: Ints, x: Floats, out: Floats) -> None:
    """Write A[:, S]·x into ``out`` (arms,)."""
    out[:] = 0.0
    if world.kind == LOW_RANK:
        z = np.zeros(world.values.shape[1])
        for m in range(support.size):
            for k in range(z.size):
                z[k] += world.values[support[m], k] * x[m]
        for i in range(out.size):
            out[i] = ordered_dot(world.values[i], z)
        return
    for m in range(support.size):
        if world.kind == DENSE:
            row = world.values[support[m]]
            for i in range(out.size):
                out[i] += row[i] * x[m]
        else:
            for k in range(world.offsets[support[m]], world.offsets[support[m] + 1]):
                out[world.columns[k]] += world.values[0, k] * x[m]


@lazy_kernel
def magnitudes(world: World, support: Ints, x: Floats, out: Floats) -> None:
    """Write Σ |A_is|·|x_s| over the support into ``out`` (arms,): the size of the terms of A·x."""
    out[:] = 0.0
    if world.kind == LOW_RANK:
        z = np.zeros(world.values.shape[1])
        for m in range(support.size):
            for k in range(z.size):
                z[k] += abs(world.values[support[m], k] * x[m])
        for i in range(out.size):
            for k in range(z.size):
                out[i] += abs(world.values[i, k]) * z[k]
        return
    for m in range(support.size):
        if world.kind == DENSE:
            row = world.values[support[m]]
            for i in range(out.size):
                out[i] += abs(row[i] * x[m])
        else:
            for k in range(world.offsets[support[m]], world.offsets[support[m] + 1]):
                out[world.columns[k]] += abs(world.values[0, k] * x[m])


@inlined
def accumulate(high: float, low: float, a: float, x: float) -> tuple[float, float]:
    """Return high + low + a·x, errors of the sum and the product kept in the low part."""
    product, error = two_product(a, x)
    total, rest = two_sum(high, product)
    return total, low + (rest + error)


@kernel
def add_products(world: World, support: Ints, x: Floats, high: Floats, low: Floats) -> None:
    """Add A[:, S]·x to high + low (arms,) as if in twice the precision."""
    if world.kind == LOW_RANK:
        z = np.zeros((world.values.shape[1], 2))
        for m in range(support.size):
            for k in range(z.shape[0]):
                z[k, 0], z[k, 1] = accumulate(z[k, 0], z[k, 1], world.values[support[m], k], x[m])
        for i in range(high.size):
            for k in range(z.shape[0]):
                high[i], low[i] = accumulate(high[i], low[i], world.values[i, k], z[k, 0])
                low[i] += world.values[i, k] * z[k, 1]
    else:
        for m in range(support.size):
            if world.kind == DENSE:
                row = world.values[support[m]]
                for i in range(high.size):
                    high[i], low[i] = accumulate(high[i], low[i], row[i], x[m])
            else:
                for k in range(world.offsets[support[m]], world.offsets[support[m] + 1]):
                    i = world.columns[k]
                    high[i], low[i] = accumulate(high[i], low[i], world.values[0, k], x[m])
    for i in range(high.size):
        high[i], low[i] = two_sum(high[i], low[i])


@kernel
def bordered_row(world: World, support: Ints, arm: int, out: Floats) -> None:
    """Write the row of an arm in the matrix above into ``out`` (support + 1,): 1 and A[arm, S]."""
    out[0] = 1.0
    for m in range(support.size):
        out[m + 1] = entry(world, arm, support[m])


@kernel
def add_multiples(inverse: Floats, x: Floats, out: Floats) -> None:
    """Add Σ x_j·inverse[j] to ``out``: inverse·x, as it is symmetric, along rows in memory."""
    for j in range(x.size):
        row, factor = inverse[j], x[j]
        for i in range(x.size):
            out[i] += row[i] * factor


@lazy_kernel
def enter(world: World, inverse: Floats, support: Ints, size: int, arm: int) -> bool:
    """Border the inverse of the matrix above with an arm; False (nothing done) if it is dependent.

    Row and column 0 belong to the multiplier, m + 1 to ``support[m]``.
    """
    own = entry(world, arm, arm)
    if size == 0:
        inverse[0, 0] = -own
        inverse[0, 1] = inverse[1, 0] = 1.0
        inverse[1, 1] = 0.0
        support[0] = arm
        return True
    used = support[:size]
    column = np.empty(size + 1)
    bordered_row(world, used, arm, column)
    solved, row = np.zeros(size + 1), np.empty(size + 1)
    add_multiples(inverse, column, solved)
    high, low = column.copy(), np.zeros(size + 1)
    row[0], row[1:] = 0.0, 1.0
    for i in range(size + 1):
        if i > 0:
            bordered_row(world, used, used[i - 1], row)
        factor = -solved[i]
        for j in range(size + 1):
            high[j], low[j] = accumulate(high[j], low[j], row[j], factor)
    add_multiples(inverse, high + low, solved)
    rest, error, reach = own, 0.0, math.sqrt(abs(own))
    for i in range(size + 1):
        rest, error = accumulate(rest, error, -column[i], solved[i])
        if i > 0:
            reach += math.sqrt(abs(entry(world, used[i - 1], used[i - 1]))) * abs(solved[i])
    curvature = rest + error
    if not curvature > DEPENDENT * reach * reach:  # dᵀAd cannot exceed reach² for any A
        return False
    factors = solved / curvature
    for j in range(size + 1):
        for i in range(size + 1):
            inverse[j, i] += solved[j] * factors[i]
        inverse[j, size + 1] = inverse[size + 1, j] = -factors[j]
    inverse[size + 1, size + 1] = 1.0 / curvature
    support[size] = arm
    return True


@kernel
def rebuild(world: World, inverse: Floats, support: Ints, size: int) -> bool:
    """Make the inverse anew, arms of small A_ii first; tell whether it could be done.

    What one more round costs falls with every arm that enters: along the path it may fall by twenty
    orders of magnitude, as a difference each time, until no digit is left. In this order it hardly
    falls any more, and nothing cancels.
    """
    own = np.empty(size)
    for m in range(size):
        own[m] = entry(world, support[m], support[m])
    order = np.argsort(own, kind="mergesort")
    arms = support[:size].copy()
    sound = True
    for m in range(size):
        sound = sound and enter(world, inverse, support, m, arms[order[m]])
    return sound


@kernel
def leave(inverse: Floats, support: Ints, size: int, position: int) -> None:
    """Take the arm at a position out of support and inverse; the last one moves there."""
    k = position + 1
    factors = inverse[k, : size + 1] / inverse[k, k]
    factors[k] = 0.0
    for j in range(size + 1):
        multiple = inverse[j, k]
        for i in range(size + 1):
            inverse[j, i] -= multiple * factors[i]
    for i in range(size + 1):
        inverse[i, k] = inverse[i, size]
    for j in range(size + 1):
        inverse[k, j] = inverse[size, j]
    inverse[k, k] = inverse[size, size]
    support[position] = support[size - 1]


@kernel
def solve(
    world: World,
    inverse: Floats,
    support: Ints,
    b: Floats,
    total: float,
    x: Floats,
    gaps: Floats,
) -> bool:
    """Solve Σx = total, A_SS·x − λ = −b_S, and find the gaps (b + A·x)_i − λ of all arms.

    All in double-double: b and gaps are (arms, 2), x is (support + 1, 2) with λ in its last row.
    Returns whether the refinement converged.
    """
    size = support.size
    known, solved, sizes = np.empty(size + 1), np.zeros(size + 1), np.zeros(size + 1)
    known[0] = total
    for m in range(size):
        known[m + 1] = -b[support[m], 0]
    for j in range(size + 1):
        for i in range(size + 1):
            solved[i] += inverse[j, i] * known[j]
            sizes[i] += abs(inverse[j, i] * known[j])
    terms = sizes[1:].max()  # how large the terms of x are; it may be small by cancellation
    x[:size, 0], x[size, 0], x[:, 1] = solved[1:], -solved[0], 0.0
    high, low = b[:, 0].copy(), b[:, 1].copy()
    add_products(world, support, x[:size, 0].copy(), high, low)
    residual = np.empty(size + 1)
    product = np.empty(high.size)
    moved = np.inf
    for _ in range(12):  # two are usual; the multiplier may need one before the counts can follow
        left = (total, 0.0)
        for m in range(size):
            left = add(left, (-x[m, 0], -x[m, 1]))
            i = support[m]
            gap = add((high[i], low[i]), (-x[size, 0], -x[size, 1]))
            residual[m + 1] = -gap[0]
        residual[0] = left[0]
        solved[:] = 0.0
        add_multiples(inverse, residual, solved)
        moved = np.abs(solved[1:]).max()
        for m in range(size):
            x[m, 0], x[m, 1] = add((x[m, 0], x[m, 1]), (solved[m + 1], 0.0))
        x[size, 0], x[size, 1] = add((x[size, 0], x[size, 1]), (-solved[0], 0.0))
        times_support(world, support, solved[1:], product)
        for i in range(high.size):
            high[i], low[i] = add((high[i], low[i]), (product[i], 0.0))
        if not moved > 1e-28 * terms:
            break
    for i in range(high.size):
        gaps[i, 0], gaps[i, 1] = add((high[i], low[i]), (-x[size, 0], -x[size, 1]))
    for m in range(size):
        gaps[support[m], 0] = gaps[support[m], 1] = 0.0
    return moved <= 1e-20 * terms


@kernel
def break_ties(world: World, b: Floats) -> Floats:
    """Return b − min b, (arms, 2), with a fixed tiny perturbation that no two arms share."""
    out = np.empty((b.size, 2))
    lowest = b.min()
    for i in range(b.size):
        luck = np.float64(mix(np.uint64(i + 1)) >> np.uint64(12)) * 2.220446049250313e-16
        high, low = two_sum(b[i], -lowest)
        shake = TIE_BREAKING * (abs(high) + abs(entry(world, i, i))) * luck
        out[i, 0], out[i, 1] = two_sum(high, low + shake)
    return out


@inlined
def before(x: tuple[float, float], y: tuple[float, float]) -> bool:
    """Tell whether a double-double number is smaller than another."""
    return x[0] < y[0] or (x[0] == y[0] and x[1] < y[1])


@kernel
def next_event(
    used: Ints,
    p: Floats,
    q: Floats,
    rates: Floats,
    offsets: Floats,
    sizes: Floats,
    waiting: Ints,
    now: tuple[float, float],
    last: int,
    until: float,
) -> tuple[tuple[float, float], int, int]:
    """Return when the next event is, its arm (−1: none), and its position if the arm leaves.

    ``waiting[j]`` is 1 for the arms that may enter, ``sizes[j]`` the size of the terms of its rate.
    The arm of the last event does not turn back: its count or gap has just begun to grow.
    """
    size = used.size
    length = np.abs(p[:size, 0]).max()
    soonest, arm, position = (until, 0.0), -1, -1
    for m in range(size):
        if p[m, 0] < -STILL * length and used[m] != last:
            when = divide((-q[m, 0], -q[m, 1]), (p[m, 0], p[m, 1]))
            if before(when, now):
                when = now
            if before(when, soonest):
                soonest, arm, position = when, used[m], m
    for j in range(waiting.size):
        if waiting[j] == 1 and rates[j, 0] < -STILL * sizes[j] and j != last:
            when = divide((-offsets[j, 0], -offsets[j, 1]), (rates[j, 0], rates[j, 1]))
            if before(when, now):
                when = now
            if before(when, soonest):
                soonest, arm, position = when, j, -1
    return soonest, arm, position


@lazy_kernel
def follow_path(world: World, b: Floats, largest: int, until: float) -> tuple[Ints, Floats, int]:
    """Return the events of the path from T = 0 to ``until``: arms, times, and how it came out.

    Event n lets an arm in (``arm``) or out (``−arm − 1``) at time ``times[n]``; the first one
    starts the path at T = 0. ``largest`` is the largest support to follow.
    """
    n_arms = b.size
    shaken = break_ties(world, b)
    nothing = np.zeros((n_arms, 2))
    events = np.empty(64, np.int64)
    times = np.empty(64)
    inverse = np.zeros((largest + 2, largest + 2))
    support = np.empty(largest + 1, np.int64)
    waiting = np.ones(n_arms, np.int64)
    rates = np.empty((n_arms, 2))
    offsets = np.empty((n_arms, 2))
    sizes = np.empty(n_arms)
    all_p = np.empty((largest + 2, 2))
    all_q = np.empty((largest + 2, 2))
    now = (0.0, 0.0)
    arm = 0
    for i in range(1, n_arms):
        if before((shaken[i, 0], shaken[i, 1]), (shaken[arm, 0], shaken[arm, 1])):
            arm = i
    enter(world, inverse, support, 0, arm)
    waiting[arm] = 0
    events[0], times[0] = arm, 0.0
    size, count = 1, 1
    while count < 50 * n_arms + 1000:
        used = support[:size]
        p, q = all_p[: size + 1], all_q[: size + 1]
        for attempt in range(2):
            sound = attempt == 0 or rebuild(world, inverse, support, size)
            sound = sound and solve(world, inverse, used, nothing, 1.0, p, rates)
            sound = sound and solve(world, inverse, used, shaken, 0.0, q, offsets)
            if sound:
                break
        if not sound:
            return events[:count], times[:count], UNSOUND
        magnitudes(world, used, p[:size, 0].copy(), sizes)
        last = arm
        while True:
            now, arm, position = next_event(
                used, p, q, rates, offsets, sizes, waiting, now, last, until
            )
            if arm < 0:
                return events[:count], times[:count], ENDED
            if position >= 0 or enter(world, inverse, support, size, arm):
                break
            waiting[arm] = 2  # dependent on the support: its rate is rounding, and really zero
        if position >= 0:
            leave(inverse, support, size, position)
            size -= 1
        else:
            size += 1
            if size > largest:
                return events[:count], times[:count], TOO_LARGE
        waiting[arm] = 1 if position >= 0 else 0
        for j in range(n_arms):
            if waiting[j] == 2:
                waiting[j] = 1
        if count == events.size:
            events, times = _with_room(events), _with_room(times)
        events[count] = arm if position < 0 else -arm - 1
        times[count] = now[0]
        count += 1
    return events[:count], times[:count], UNSOUND


@lazy_kernel
def replay(events: Ints, segment: int) -> Ints:
    """Return the support after event number ``segment``, in increasing order."""
    support = np.empty(segment + 1, np.int64)
    size = 0
    for n in range(segment + 1):
        arm = events[n] if events[n] >= 0 else -events[n] - 1
        place = np.searchsorted(support[:size], arm)
        if events[n] >= 0:
            for m in range(size, place, -1):
                support[m] = support[m - 1]
            support[place] = arm
            size += 1
        else:
            size -= 1
            for m in range(place, size):
                support[m] = support[m + 1]
    return support[:size].copy()


@lazy_kernel
def solve_support(
    world: World, b: Floats, support: Ints
) -> tuple[Floats, Floats, Floats, Floats, bool]:
    """Solve the equations of a support for p and q; also tell whether they could be solved.

    Returns
    -------
    p, q : arrays (support + 1, 2)
        Double-double; the last row of each is the multiplier's part λ_p or λ_q.
    rates, offsets : arrays (arms, 2)
        The gap of an arm is offset + T·rate; both are 0 on the support.
    """
    size = support.size
    n_arms = b.size
    p = np.zeros((size + 1, 2))
    q = np.zeros((size + 1, 2))
    rates = np.zeros((n_arms, 2))
    offsets = np.zeros((n_arms, 2))
    inverse = np.zeros((size + 1, size + 1))
    entered = support.copy()
    if not rebuild(world, inverse, entered, size):
        return p, q, rates, offsets, False
    known = np.zeros((n_arms, 2))
    sound = solve(world, inverse, entered, known, 1.0, p, rates)
    for i in range(n_arms):
        known[i, 0] = b[i]
    sound = solve(world, inverse, entered, known, 0.0, q, offsets) and sound
    order = np.argsort(entered)  # back into the order of the support, which is increasing
    for values in (p, q):
        in_order = values[order]
        for k in range(size):
            values[k] = in_order[k]
    return p, q, rates, offsets, sound


@kernel
def _with_room(values: Any) -> Any:
    """Return a copy with room for as many again."""
    out = np.empty(2 * values.size, values.dtype)
    for k in range(values.size):
        out[k] = values[k]
    return out


@lazy_kernel
def line_at(slope: Floats, offset: Floats, horizon: float) -> Floats:
    """Return offset + T·slope for double-double rows, (rows, 2)."""
    out = np.empty(slope.shape)
    for m in range(slope.shape[0]):
        out[m, 0], out[m, 1] = add(
            scale((slope[m, 0], slope[m, 1]), horizon), (offset[m, 0], offset[m, 1])
        )
    return out
