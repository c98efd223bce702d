"""The parametric quadratic programme, compiled.

x*(T) = argmin of b·x + ½·xᵀAx over x ≥ 0, Σx = T is piecewise linear in T. On a support S it solves

    [0  1ᵀ  ] [−λ ]   [ T  ]
    [1  A_SS] [x_S] = [−b_S]   so that  x_S = q + T·p,  λ = λ_q + T·λ_p,

and S changes where an x_i falls to 0 or the gap (b + Ax)_j − λ of an arm outside falls to 0.
:func:`follow_path` finds these events in double precision, with b perturbed to break ties (equal
arms, equal losses); :func:`solve_support` then solves the true equations of one support to about
30 digits, by refinement with residuals in double-double arithmetic.

For positive semi-definite A, singular ones included, an arm that enters never makes the matrix
above singular: if A·d = 0 for a direction d with Σd = 0 that uses it, then the slope of the loss
along d is b·d, the same for all T, and its gap does not move at all.
"""

from __future__ import annotations

import numpy as np

from influential_bandits.numerics.compiling import kernel
from influential_bandits.numerics.double_double import add, scale, two_product
from influential_bandits.numerics.streams import mix
from influential_bandits.world.dynamics import (
    DENSE,
    LOW_RANK,
    Floats,
    Ints,
    World,
    ordered_dot,
)

TIE_BREAKING = 1e-11  # perturbation of b, relative to its scale; far above rounding, far below data
DEPENDENT = 1e-12  # relative size under which a curvature counts as zero
STILL = 1e-13  # relative size under which a rate of change counts as zero


@kernel
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
    if world.kind == LOW_RANK:
        z = np.zeros(world.values.shape[1])
        for m in range(support.size):
            for k in range(z.size):
                z[k] += world.values[support[m], k] * x[m]
        for i in range(out.size):
            out[i] = ordered_dot(world.values[i], z)
        return
    out[:] = 0.0
    for m in range(support.size):
        if world.kind == DENSE:
            row = world.values[support[m]]
            for i in range(out.size):
                out[i] += row[i] * x[m]
        else:
            for k in range(world.offsets[support[m]], world.offsets[support[m] + 1]):
                out[world.columns[k]] += world.values[0, k] * x[m]


@kernel
def enter(world: World, inverse: Floats, support: Ints, size: int, arm: int) -> bool:
    """Border the inverse of the matrix above with an arm; False (nothing done) if it is dependent.

    Row and column 0 belong to the multiplier, m + 1 to ``support[m]``.
    """
    if size == 0:
        inverse[0, 0] = -entry(world, arm, arm)
        inverse[0, 1] = inverse[1, 0] = 1.0
        inverse[1, 1] = 0.0
        support[0] = arm
        return True
    column = np.empty(size + 1)
    column[0] = 1.0
    for m in range(size):
        column[m + 1] = entry(world, arm, support[m])
    solved = np.zeros(size + 1)
    for i in range(size + 1):
        for j in range(size + 1):
            solved[i] += inverse[i, j] * column[j]
    own = entry(world, arm, arm)
    curvature = own
    magnitude = abs(own)
    for i in range(size + 1):
        curvature -= column[i] * solved[i]
        magnitude += abs(column[i] * solved[i])
    if curvature <= DEPENDENT * magnitude:
        return False
    for i in range(size + 1):
        factor = solved[i] / curvature
        for j in range(size + 1):
            inverse[i, j] += factor * solved[j]
        inverse[i, size + 1] = -factor
        inverse[size + 1, i] = -factor
    inverse[size + 1, size + 1] = 1.0 / curvature
    support[size] = arm
    return True


@kernel
def leave(inverse: Floats, support: Ints, size: int, position: int) -> None:
    """Take the arm at a position out of support and inverse; the last one moves there."""
    k = position + 1
    pivot = inverse[k, k]
    for i in range(size + 1):
        if i != k:
            factor = inverse[i, k] / pivot
            for j in range(size + 1):
                inverse[i, j] -= factor * inverse[k, j]
    for i in range(size + 1):
        inverse[i, k] = inverse[i, size]
    for j in range(size + 1):
        inverse[k, j] = inverse[size, j]
    inverse[k, k] = inverse[size, size]
    support[position] = support[size - 1]


@kernel
def shaken(b: Floats, scale_a: float) -> Floats:
    """Return b with a fixed tiny perturbation that no two arms share, so that there are no ties."""
    scale_b = np.abs(b).max()
    if scale_b == 0.0:
        scale_b = max(scale_a, 1.0)
    out = np.empty(b.size)
    for i in range(b.size):
        luck = np.float64(mix(np.uint64(i + 1)) >> np.uint64(12)) * 2.220446049250313e-16
        out[i] = b[i] + TIE_BREAKING * scale_b * luck
    return out


@kernel
def line(inverse: Floats, used: Ints, b: Floats) -> tuple[Floats, Floats]:
    """Return p and q of a support, each with its multiplier's part in the last place."""
    size = used.size
    p = np.empty(size + 1)
    q = np.empty(size + 1)
    p[size] = -inverse[0, 0]
    q[size] = 0.0
    for j in range(size):
        q[size] += inverse[0, j + 1] * b[used[j]]
    for i in range(size):
        p[i] = inverse[i + 1, 0]
        q[i] = 0.0
        for j in range(size):
            q[i] -= inverse[i + 1, j + 1] * b[used[j]]
    return p, q


@kernel
def next_event(
    b: Floats,
    used: Ints,
    p: Floats,
    q: Floats,
    tangent: Floats,
    offset: Floats,
    waiting: Ints,
    now: float,
    last: int,
    scale_a: float,
) -> tuple[float, int, int]:
    """Return when the next event is, its arm (−1: none), and its position if the arm leaves.

    ``waiting[j]`` is 1 for the arms that may enter. The arm of the last event does not turn back.
    """
    size = used.size
    length = np.abs(p[:size]).sum()
    soonest, arm, position = np.inf, -1, -1
    for m in range(size):
        if p[m] < -STILL * length and used[m] != last:
            when = max(-q[m] / p[m], now)
            if when < soonest:
                soonest, arm, position = when, used[m], m
    for j in range(b.size):
        rate = tangent[j] - p[size]
        if waiting[j] == 1 and rate < -STILL * scale_a * length and j != last:
            when = max((q[size] - b[j] - offset[j]) / rate, now)
            if when < soonest:
                soonest, arm, position = when, j, -1
    return soonest, arm, position


@kernel
def follow_path(world: World, b: Floats, largest: int, scale_a: float) -> tuple[Ints, Floats, bool]:
    """Return the events of the path from T = 0 on: arms, times, and whether it came to its end.

    Event n lets an arm in (``arm``) or out (``−arm − 1``) at time ``times[n]``; the first one
    starts the path at T = 0. ``largest`` is the largest support to follow.
    """
    arms = b.size
    untied = shaken(b, scale_a)
    events = np.empty(64, np.int64)
    times = np.empty(64)
    inverse = np.zeros((largest + 2, largest + 2))
    support = np.empty(largest + 1, np.int64)
    waiting = np.ones(arms, np.int64)
    tangent = np.empty(arms)
    offset = np.empty(arms)
    now, true_now = 0.0, 0.0
    arm = int(untied.argmin())
    enter(world, inverse, support, 0, arm)
    waiting[arm] = 0
    events[0], times[0] = arm, 0.0
    size, count = 1, 1
    while count < 50 * arms + 1000:
        used = support[:size]
        p, q = line(inverse, used, untied)
        _, true_q = line(inverse, used, b)
        times_support(world, used, p, tangent)
        times_support(world, used, q, offset)
        last = arm
        while True:
            now, arm, position = next_event(
                untied, used, p, q, tangent, offset, waiting, now, last, scale_a
            )
            if arm < 0:
                return events[:count], times[:count], True
            if position >= 0 or enter(world, inverse, support, size, arm):
                break
            waiting[arm] = 2  # dependent on the support: its rate is rounding, and really zero
        if position >= 0:
            moment = -true_q[position] / p[position]
            leave(inverse, support, size, position)
            size -= 1
        else:
            gap = b[arm] - true_q[size]
            for m in range(size):
                gap += entry(world, arm, support[m]) * true_q[m]
            moment = -gap / (tangent[arm] - p[size])
            size += 1
            if size > largest:
                return events[:count], times[:count], False
        waiting[arm] = 1 if position >= 0 else 0
        for j in range(arms):
            if waiting[j] == 2:
                waiting[j] = 1
        true_now = max(true_now, moment)
        if count == events.size:
            events = np.append(events, np.empty(count, np.int64))
            times = np.append(times, np.empty(count))
        events[count] = arm if position < 0 else -arm - 1
        times[count] = true_now
        count += 1
    return events[:count], times[:count], False


def replay(events: Ints, segment: int) -> Ints:
    """Return the support after event number ``segment``, in increasing order."""
    inside: set[int] = set()
    for event in events[: segment + 1].tolist():
        if event >= 0:
            inside.add(event)
        else:
            inside.remove(-event - 1)
    return np.array(sorted(inside), np.int64)


@kernel
def factor_products(world: World, support: Ints, x: Floats) -> Floats:
    """Return F_Sᵀ·x (rank, 2) of double-double x (support, 2); empty unless low rank."""
    if world.kind != LOW_RANK:
        return np.empty((0, 2))
    z = np.zeros((world.values.shape[1], 2))
    for k in range(z.shape[0]):
        total = (0.0, 0.0)
        for m in range(support.size):
            total = add(total, scale((x[m, 0], x[m, 1]), world.values[support[m], k]))
        z[k, 0], z[k, 1] = total
    return z


@kernel
def exact_row(
    world: World, arm: int, support: Ints, x: Floats, products: Floats
) -> tuple[float, float]:
    """Return A[arm, S]·x for double-double x; ``products`` is from :func:`factor_products`."""
    total = (0.0, 0.0)
    if world.kind == LOW_RANK:
        for k in range(products.shape[0]):
            total = add(total, scale((products[k, 0], products[k, 1]), world.values[arm, k]))
        return total
    for m in range(support.size):
        a = entry(world, arm, support[m])
        if a != 0.0:
            total = add(total, scale((x[m, 0], x[m, 1]), a))
    return total


@kernel
def solve_support(world: World, b: Floats, support: Ints) -> tuple[Floats, Floats, bool]:
    """Solve the equations of a support for p and q; also tell whether refinement converged.

    Returns
    -------
    p, q : arrays (support + 1, 2)
        Double-double; the last row of each is the multiplier's part λ_p or λ_q.
    """
    size = support.size
    inverse = np.zeros((size + 1, size + 1))
    scratch = np.empty(size, np.int64)
    sound = True
    for m in range(size):
        sound = enter(world, inverse, scratch, m, support[m]) and sound
    p = np.zeros((size + 1, 2))
    q = np.zeros((size + 1, 2))
    for which in range(2):
        solution = p if which == 0 else q
        previous = np.inf
        for _ in range(12):
            products = factor_products(world, support, solution[:size])
            residual = np.zeros(size + 1)
            total = (1.0, 0.0) if which == 0 else (0.0, 0.0)
            for m in range(size):
                total = add(total, (-solution[m, 0], -solution[m, 1]))
            residual[0] = total[0]
            for m in range(size):
                total = exact_row(world, support[m], support, solution, products)
                total = add(total, (-solution[size, 0], -solution[size, 1]))
                if which == 1:
                    total = add(total, (b[support[m]], 0.0))
                residual[m + 1] = -total[0]
            change = 0.0
            largest = 0.0
            for i in range(size + 1):
                correction = 0.0
                for j in range(size + 1):
                    correction += inverse[i, j] * residual[j]
                row = i - 1 if i > 0 else size
                if i == 0:
                    correction = -correction
                high, low = add((solution[row, 0], solution[row, 1]), (correction, 0.0))
                solution[row, 0], solution[row, 1] = high, low
                change = max(change, abs(correction))
                largest = max(largest, abs(high))
            if change <= 1e-30 * largest or change == 0.0:
                break
            if change > 0.5 * previous:
                sound = sound and change <= 1e-20 * largest
                break
            previous = change
    return p, q, sound


@kernel
def all_gaps(world: World, b: Floats, support: Ints, p: Floats, q: Floats) -> tuple[Floats, Floats]:
    """Return (b + Ax*)_i − λ of every arm as offset + T·rate; both exactly 0 on the support."""
    arms = b.size
    size = support.size
    offsets = np.empty(arms)
    rates = np.empty(arms)
    products_p = factor_products(world, support, p[:size])
    products_q = factor_products(world, support, q[:size])
    for i in range(arms):
        rate = exact_row(world, i, support, p, products_p)
        rates[i] = add(rate, (-p[size, 0], -p[size, 1]))[0]
        offset = add(exact_row(world, i, support, q, products_q), (b[i], 0.0))
        offsets[i] = add(offset, (-q[size, 0], -q[size, 1]))[0]
    for m in range(size):
        offsets[support[m]] = 0.0
        rates[support[m]] = 0.0
    return offsets, rates


@kernel
def point_at(p: Floats, q: Floats, horizon: float) -> Floats:
    """Return q + T·p (support + 1, 2) in double-double."""
    out = np.empty(p.shape)
    for m in range(p.shape[0]):
        high, low = add(scale((p[m, 0], p[m, 1]), horizon), (q[m, 0], q[m, 1]))
        out[m, 0], out[m, 1] = high, low
    return out


@kernel
def regrets(
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
    rows, arms = counts.shape
    out = np.empty(rows)
    for row in range(rows):
        d = counts[row].copy()
        linear = 0.0
        for i in range(arms):
            linear += max(gaps[i], 0.0) * d[i]
        for m in range(support.size):
            i = support[m]
            d[i] = add((d[i], 0.0), (-point[m, 0], -point[m, 1]))[0]
        quadratic = 0.0
        if factor.shape[0] > 0:
            z = np.zeros(factor.shape[1])
            for i in range(arms):
                if d[i] != 0.0:
                    for k in range(z.size):
                        z[k] += factor[i, k] * d[i]
            for k in range(z.size):
                quadratic += weights[k] * (z[k] * z[k])
        else:
            total = (0.0, 0.0)
            for i in range(arms):
                if d[i] != 0.0:
                    inner = (0.0, 0.0)
                    for k in range(world.offsets[i], world.offsets[i + 1]):
                        inner = add(inner, two_product(world.values[0, k], d[world.columns[k]]))
                    total = add(total, scale(inner, d[i]))
            quadratic = max(total[0], 0.0)
        out[row] = linear + 0.5 * quadratic
    return out
