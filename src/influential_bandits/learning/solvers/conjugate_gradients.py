"""The pooled fit without its Gram matrix, for many arms: conjugate gradients on what is not zero.

K arms have about K²/2 interactions, and their equations about K⁴/4 numbers. Most of these come from
what instances differ in as a whole, one vector z for each (see :mod:`..statistics.pooled_sums`):

    H = Σ_i (block of arm i) − Σ_u z_u·z_uᵀ + penalty.

A vector z has entries for the arms that the instance has met, which are few of many. So H times a
vector takes a thousandth of the time that it takes to fill H, and a few dozen such products solve
the equations. Approximate solutions, arm by arm, precondition them (additive Schwarz).
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from influential_bandits.execution.local import count_threads
from influential_bandits.learning.statistics.design import (
    SYMMETRIC,
    Design,
    Events,
    event_columns,
    list_arms,
)
from influential_bandits.learning.statistics.random_effects import RandomEffects
from influential_bandits.logs.log import EventLog
from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.numerics.compiling import kernel

__all__ = ["PooledEquations", "suits_iteration"]

FEWEST = 600  # coefficients; the Gram matrix of fewer is solved at once
RANGE = 50_000  # events of neighbouring instances that are added up together
TOLERANCE = 1e-10  # of the residual, relative to the right side, as the preconditioner measures it
MOST_STEPS = 500


def suits_iteration(log: Any, design: Design, ridge: float) -> bool:
    """Return whether the equations of a log are solved faster without their matrix."""
    return (
        isinstance(log, EventLog)
        and design.kind == SYMMETRIC
        and design.size >= FEWEST
        and ridge >= 1.0
        and bool(log.membership.single)
    )


class Histories(NamedTuple):
    """What the events of neighbouring instances add up to, of the arms that each has met."""

    spans: Ints  # (instances + 1,): where the arms of an instance begin
    arm: npt.NDArray[np.int32]  # the arms that it has met, in their order
    row_spans: Ints  # (instances + 1,): where its rows begin
    rows: Floats  # of each arm met: Σ (1, controls, counts of all arms met, y) over its events


class Shared(NamedTuple):
    """The vectors z of neighbouring instances: what they differ in as a whole."""

    spans: Ints  # (instances + 1,)
    value: Floats  # of each: initial losses of the arms met, controls, their pairs, y


class PooledEquations:
    """The equations of a pooled fit of one log, for any variances of the initial losses.

    Sums are those of ranges of instances, added in their order: the number of threads changes no
    bit. Use it as a context, which keeps the threads.

    Parameters
    ----------
    log : EventLog
        Whose items have one arm each.
    design : Design
        Symmetric.
    threads : int, optional
        By default one for each core.
    """

    def __init__(self, log: EventLog, design: Design, threads: int | None = None) -> None:
        self.design, self.n_events = design, len(log)
        self._pool = ThreadPoolExecutor(count_threads(threads))
        events = event_columns(log)
        ends = np.asarray(log.offsets[1:])
        cuts = np.searchsorted(ends, np.arange(RANGE, max(len(log), 1) + RANGE, RANGE), "left") + 1
        marks = [0, *np.unique(np.minimum(cuts, log.n_instances)).tolist()]
        found = self._each(lambda task: _gather(design, events, *task), list(pairwise(marks)))
        self._histories = [histories for histories, _ in found]
        self._seen = sum(blocks for _, blocks in found)
        self._spots = _list_spots(design)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._pool.shutdown(cancel_futures=True)

    def _each(self, work: Callable[[Any], Any], tasks: Any) -> list[Any]:
        return list(self._pool.map(work, tasks))

    def solve(
        self,
        effects: RandomEffects,
        weigh: Callable[[Floats], Floats],
        start: Floats | None = None,
    ) -> Floats | None:
        """Return the coefficients, (size,); None if they are not found in time.

        Parameters
        ----------
        effects : RandomEffects
            Variances of the initial losses.
        weigh : callable
            Returns the penalties, (size,), given the diagonal of the Gram matrix, (size,).
        start : array (size,), optional
            Where to begin.
        """
        size, controls = self.design.size, self.design.controls
        arm, common = float(effects.arm), float(effects.common)

        def integrate(histories: Histories) -> tuple[Floats, Shared]:
            own = np.zeros_like(self._seen)
            return own, _integrate_out(histories, self.design.n_arms, controls, arm, common, own)

        found = self._each(integrate, self._histories)
        blocks = self._seen - sum(own for own, _ in found)
        pairs = list(zip(self._histories, (shared for _, shared in found), strict=True))
        right = self._scatter(blocks[:, :-1, -1])
        square = self._scatter(np.diagonal(blocks[:, :-1, :-1], axis1=1, axis2=2))

        def add_sides(pair: tuple[Histories, Shared]) -> tuple[Floats, Floats]:
            left, squares = np.zeros(size), np.zeros(size)
            _add_sides(*pair, self.design.n_arms, controls, left, squares)
            return left, squares

        for left, squares in self._each(add_sides, pairs):
            right -= left
            square -= squares
        weights = weigh(square)
        local = np.ascontiguousarray(blocks[:, :-1, :-1])

        def multiply(vector: Floats) -> Floats:
            def cross(pair: tuple[Histories, Shared]) -> Floats:
                out = np.zeros(size)
                _add_cross(*pair, self.design.n_arms, controls, vector, out)
                return out

            out = self._scatter((local @ vector[self._spots][:, :, None])[:, :, 0])
            for part in self._each(cross, pairs):
                out -= part
            return out + weights * vector

        return _iterate(multiply, self._precondition(local, square, weights), right, start)

    def _scatter(self, values: Floats) -> Floats:
        """Return the sums by coefficient of numbers by arm, (arms, width)."""
        return _scatter(self._spots, values, self.design.size)

    def _precondition(
        self, blocks: Floats, square: Floats, weights: Floats
    ) -> Callable[[Floats], Floats]:
        """Return the map of right sides to the sum of solutions by arm, controls by themselves."""
        arms, controls = self.design.n_arms, self.design.controls
        mine = np.r_[0, 1 + controls : 1 + controls + arms]
        spots = self._spots[:, mine]
        own = blocks[:, mine][:, :, mine]
        every = np.arange(arms)
        # A pair is in the blocks of both of its arms, and has a penalty once.
        whole = self._scatter(np.diagonal(blocks, axis1=1, axis2=2)) + weights
        own[:, np.arange(1 + arms), np.arange(1 + arms)] = whole[spots]
        inverse = np.linalg.inv(own)
        inverse = 0.5 * (inverse + inverse.transpose(0, 2, 1))
        level = arms + every[:controls]
        scale = 1.0 / (np.maximum(square[level], 0.0) + weights[level])
        size = self.design.size

        def apply(right: Floats) -> Floats:
            solved = (inverse @ right[spots][:, :, None])[:, :, 0]
            out = _scatter(spots, solved, size)
            out[level] = scale * right[level]
            return out

        return apply


def _scatter(spots: Ints, values: Floats, size: int) -> Floats:
    """Return the sums of values that share a spot, (size,)."""
    return np.asarray(np.bincount(spots.ravel(), values.ravel(), size), np.float64)


def _iterate(
    multiply: Callable[[Floats], Floats],
    precondition: Callable[[Floats], Floats],
    right: Floats,
    start: Floats | None,
) -> Floats | None:
    """Return the solution by conjugate gradients, or None."""
    solution = np.zeros_like(right) if start is None else start.copy()
    residual = right - multiply(solution) if start is not None else right.copy()
    direction = near = precondition(residual)
    size = float(residual @ near)
    enough = TOLERANCE**2 * float(right @ precondition(right))
    for _ in range(MOST_STEPS):
        if not size > enough:
            return solution if np.isfinite(size) else None
        image = multiply(direction)
        curvature = float(direction @ image)
        if not curvature > 0.0:
            return None
        step = size / curvature
        solution += step * direction
        residual -= step * image
        near = precondition(residual)
        before, size = size, float(residual @ near)
        direction = near + size / before * direction
    return None


def _list_spots(design: Design) -> Ints:
    """Return the coefficient of every column of every arm's block, (arms, 1 + controls + arms)."""
    arms, controls = design.n_arms, design.controls
    i, j = np.indices((arms, arms))
    high, low = np.maximum(i, j), np.minimum(i, j)
    pairs = design.start + high * (high + 1) // 2 + low
    shared = np.broadcast_to(arms + np.arange(controls), (arms, controls))
    return np.hstack([np.arange(arms)[:, None], shared, pairs])


def _gather(design: Design, events: Events, low: int, high: int) -> tuple[Histories, Floats]:
    """Return what instances low … high − 1 add up to, and the squares of their events by arm."""
    arms, fixed = design.n_arms, 2 + design.controls
    spans, arm = list_arms(events, arms, low, high)
    met = np.diff(spans)
    row_spans = np.concatenate([[0], np.cumsum(met * (met + fixed))])
    rows = np.zeros(int(row_spans[-1]))
    blocks = np.zeros((arms, fixed + arms, fixed + arms))
    histories = Histories(spans, arm, row_spans, rows)
    _add_events(design, events, low, high, histories, blocks)
    return histories, _mirror(blocks)


def _mirror(blocks: Floats) -> Floats:
    """Return blocks of which each pair was added above the diagonal."""
    above = np.triu(blocks, 1)
    return blocks + above.transpose(0, 2, 1)


@kernel
def _add_events(
    design: Design, events: Events, low: int, high: int, histories: Histories, blocks: Floats
) -> None:
    """Add events to the rows of their arms, and their squares to the blocks above the diagonal."""
    arms, controls = design.n_arms, design.controls
    slot = np.zeros(arms, np.int64)
    counts = np.zeros(arms)
    index, value = np.empty(arms + 3, np.int64), np.empty(arms + 3)
    last = 1 + controls + arms
    for u in range(low, high):
        span = histories.spans[u - low]
        met = histories.spans[u - low + 1] - span
        width = 2 + controls + met
        for p in range(met):
            slot[histories.arm[span + p]] = p
            counts[p] = 0.0
        level = 0.0
        first = events.offsets[u]
        for n in range(first, events.offsets[u + 1]):
            if design.half_life > 0.0 and n > first:
                keep = 2.0 ** (-(events.time[n] - events.time[n - 1]) / design.half_life)
                for p in range(met):
                    counts[p] *= keep
            i = events.arm[events.members[events.item[n]]]
            start = histories.row_spans[u - low] + slot[i] * width
            row = histories.rows[start : start + width]
            index[0], value[0] = 0, 1.0
            row[0] += 1.0
            used = 1
            if controls > 0:
                index[1], value[1] = 1, level
                row[1] += level
                used = 2
            for p in range(met):
                if counts[p] != 0.0:
                    index[used] = 1 + controls + histories.arm[span + p]
                    value[used] = counts[p]
                    row[1 + controls + p] += counts[p]
                    used += 1
            index[used], value[used] = last, events.loss[n]
            row[width - 1] += events.loss[n]
            block = blocks[i]
            for a in range(used + 1):
                line, factor = block[index[a]], value[a]
                for b in range(a, used + 1):
                    line[index[b]] += factor * value[b]
            if design.half_life == 0.0 and design.memory < 1.0:
                for p in range(met):
                    counts[p] *= design.memory
            counts[slot[i]] += 1.0
            surprise = events.loss[n] - design.baseline[i]
            level = design.level_memory * level + (1.0 - design.level_memory) * surprise


def _integrate_out(
    histories: Histories, arms: int, controls: int, spread: float, common: float, own: Floats
) -> Shared:
    """Return z of every instance; add what the own initial losses explain, arm by arm, to ``own``.

    See :func:`..statistics.pooled_sums._integrate_out`.
    """
    met = np.diff(histories.spans)
    spans = np.concatenate([[0], np.cumsum(met + controls + met * (met + 1) // 2 + 1)])
    shared = Shared(spans, np.zeros(int(spans[-1])))
    _fill_shared(histories, arms, controls, spread, common, shared, own)
    own[:] = _mirror(own)
    return shared


@kernel
def _fill_shared(
    histories: Histories,
    arms: int,
    controls: int,
    spread: float,
    common: float,
    shared: Shared,
    own: Floats,
) -> None:
    precision = 1.0 / spread
    coupling = precision * common / (spread + arms * common)
    index = np.empty(arms + 3, np.int64)
    for u in range(histories.spans.size - 1):
        span = histories.spans[u]
        met = histories.spans[u + 1] - span
        width = 2 + controls + met
        z = shared.value[shared.spans[u] : shared.spans[u + 1]]
        left = spread / (spread + arms * common)
        index[0] = 0
        for c in range(controls):
            index[1 + c] = 1 + c
        for p in range(met):
            index[1 + controls + p] = 1 + controls + histories.arm[span + p]
        index[width - 1] = 1 + controls + arms
        for q in range(met):
            start = histories.row_spans[u] + q * width
            row = histories.rows[start : start + width]
            share = 1.0 / (row[0] + precision)
            left += coupling * row[0] * share * spread
            block = own[histories.arm[span + q]]
            for a in range(width):
                if row[a] != 0.0:
                    line, factor = block[index[a]], share * row[a]
                    for b in range(a, width):
                        line[index[b]] += factor * row[b]
            z[q] = share * row[0]
            for c in range(controls):
                z[met + c] += share * row[1 + c]
            pairs = met + controls
            for p in range(met):
                high, low = max(p, q), min(p, q)
                z[pairs + high * (high + 1) // 2 + low] += share * row[1 + controls + p]
            z[z.size - 1] += share * row[width - 1]
        scale = np.sqrt(coupling / left)
        for a in range(z.size):
            z[a] *= scale


@kernel
def _add_cross(
    histories: Histories, shared: Shared, arms: int, controls: int, vector: Floats, out: Floats
) -> None:
    """Add Σ z·(z·vector)."""
    for u in range(histories.spans.size - 1):
        span = histories.spans[u]
        met = histories.spans[u + 1] - span
        z = shared.value[shared.spans[u] : shared.spans[u + 1]]
        total = 0.0
        for p in range(met):
            total += z[p] * vector[histories.arm[span + p]]
        for c in range(controls):
            total += z[met + c] * vector[arms + c]
        at = met + controls
        for q in range(met):
            i = histories.arm[span + q]
            start = arms + controls + i * (i + 1) // 2
            part = 0.0
            for p in range(q + 1):
                part += z[at + p] * vector[start + histories.arm[span + p]]
            total += part
            at += q + 1
        _add_times(histories, span, met, z, arms, controls, total, out)


@kernel
def _add_sides(
    histories: Histories, shared: Shared, arms: int, controls: int, right: Floats, square: Floats
) -> None:
    """Add Σ z·z_y and Σ z²."""
    for u in range(histories.spans.size - 1):
        span = histories.spans[u]
        met = histories.spans[u + 1] - span
        z = shared.value[shared.spans[u] : shared.spans[u + 1]]
        _add_times(histories, span, met, z, arms, controls, z[z.size - 1], right)
        _add_times(histories, span, met, z * z, arms, controls, 1.0, square)


@kernel
def _add_times(
    histories: Histories,
    span: int,
    met: int,
    z: Floats,
    arms: int,
    controls: int,
    factor: float,
    out: Floats,
) -> None:
    """Add factor·z to the coefficients that its entries belong to."""
    for p in range(met):
        out[histories.arm[span + p]] += factor * z[p]
    for c in range(controls):
        out[arms + c] += factor * z[met + c]
    at = met + controls
    for q in range(met):
        i = histories.arm[span + q]
        start = arms + controls + i * (i + 1) // 2
        for p in range(q + 1):
            out[start + histories.arm[span + p]] += factor * z[at + p]
        at += q + 1
