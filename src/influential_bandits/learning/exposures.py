"""Which arms an instance met lately, relative to its habits: where influence is looked for.

With x_j = d_j − s_j·D, where d are the faded counts of arms, D is their sum and s_j the share of
arm j in the past events (smoothed towards its popularity), the regressor of the pair (i, j) at an
event of arm i is

    x_j − (mean of x_j over the past events of arm i in this history; 0 at the first of them).

Shares are subtracted because a person who likes an arm meets it more often, the mean because it
removes what stays the same in a history. All of it is known before the event.

Regressors of the loss, in this order: weights of the arms; what is known before the event (see
:mod:`.kalman`); controls (see :mod:`.controls`); the pairs of the symmetric A, or those on its
diagonal alone; and, if asked for, one more for each arm: x_i by another memory, or, as a placebo,
of arms met otherwise.

What is known before an event has coefficients that differ by arm and along a history. The filter's
predictions are right for tastes that are normal and choices that do not follow them. Where people
choose what they like, an arm that few choose is met by those who like it most, and what is left to
learn of a taste falls along a history in another way than the filter has it. So each prediction
gets a coefficient for every arm, and one that changes along histories. The place in a history has
an effect of its own, too: whatever else makes losses rise or fall from the first event to the last
must not look like an influence that builds up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from influential_bandits.learning.controls import spread_hats
from influential_bandits.learning.kalman import KNOWN, Predictions
from influential_bandits.learning.statistics.design import (
    DIAGONAL,
    NONE,
    SYMMETRIC,
    Design,
    Events,
    count_event,
    fade_counts,
    list_entries,
    place,
)
from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.numerics.compiling import inlined, kernel
from influential_bandits.packages import optional_module

ROUNDING = 1e-9  # relative to what was there before something was taken out
SMOOTHING = 20.0  # events of average taste that every history is credited with
PLACES = 8  # hat functions over the logarithm of the place in a history
COARSE_PLACES = 5  # the same, for each prediction


class Units(NamedTuple):
    """Instances in the order in which they are worked off, and the units they belong to."""

    order: Ints  # (instances,)
    first: Ints  # (instances,), in that order: the unit of the first event
    blocks: Ints  # (instances,): over how many neighbouring units the history is spread
    number: int


class Regressors(NamedTuple):
    """All that regressors are computed from, as compiled code reads it."""

    design: Design  # symmetric, diagonal or none; its controls are all columns before the pairs
    popularity: Floats  # (arms,)
    events: Events
    predictions: Predictions
    basis: npt.NDArray[np.int32]  # (events, at a time): effects of its arm that an event has
    value: Floats  # (events, at a time)
    n_bases: int
    shared: Floats  # (events, shared)
    absorbed: npt.NDArray[np.int32]  # (events,): an effect of its own, −1 for no use; or ()
    per_arm: Floats  # (events, arms of an item at most), or (0, 0)

    @property
    def size(self) -> int:
        """Number of regressors."""
        return self.design.size + (self.design.n_arms if len(self.per_arm) else 0)

    @property
    def n_absorbed(self) -> int:
        """Number of effects that are absorbed."""
        return int(self.absorbed.max(initial=-1)) + 1


class EffectMeans(NamedTuple):
    """Means of regressors by absorbed effect: those that are not zero, few of many."""

    starts: Ints  # (effects + 1,)
    column: Ints
    value: Floats
    left: Floats  # (effects,): means of y − z·coefficients


class Past(NamedTuple):
    """What one history has met so far."""

    counts: Floats  # d
    met: Floats  # (arms,): how often, not faded
    sums: Floats  # (arms, arms): sums of x over past events of each arm; or of its own, (arms, 1)
    contrast: Floats  # x, (arms,)


@inlined
def remember_nothing(arms: int, kind: int) -> Past:
    """Return the past of a history that begins, with what pairs of this kind need."""
    width = arms if kind == SYMMETRIC else 1
    return Past(np.zeros(arms), np.zeros(arms), np.zeros((arms, width)), np.zeros(arms))


@inlined
def forget(past: Past) -> None:
    """Begin a new history."""
    past.counts[:] = 0.0
    past.met[:] = 0.0
    past.sums[:] = 0.0


@inlined
def fill_contrast(
    popularity: Floats, counts: Floats, met: Floats, events: int, out: Floats
) -> None:
    """Fill x, from faded counts and from the shares in so many events."""
    total = 0.0
    for j in range(counts.size):
        total += counts[j]
    scale = total / (events + SMOOTHING)
    for j in range(counts.size):
        out[j] = counts[j] - scale * (met[j] + SMOOTHING * popularity[j])


@inlined
def meet(design: Design, events: Events, n: int, past: Past) -> None:
    """Take event n into the past."""
    count_event(design, events, n, past.counts)
    item = events.item[n]
    for p in range(events.members[item], events.members[item + 1]):
        i, weight = events.arm[p], events.weight[p]
        past.met[i] += weight
        if past.sums.shape[1] == 1:
            past.sums[i, 0] += weight * past.contrast[i]
        else:
            row = past.sums[i]
            for j in range(past.counts.size):
                row[j] += weight * past.contrast[j]


@inlined
def find_own(past: Past, i: int) -> float:
    """Return x_i less its mean over past events of arm i, which was met before."""
    return past.contrast[i] - past.sums[i, 0] / past.met[i]


@inlined
def count_pairs(design: Design) -> int:
    """Return how many pairs are regressors."""
    arms = design.n_arms
    if design.kind == SYMMETRIC:
        return arms * (arms + 1) // 2
    return arms if design.kind == DIAGONAL else 0


@inlined
def write_row(x: Regressors, n: int, past: Past, dense: Floats, index: Ints, value: Floats) -> int:
    """Write the non-zero regressors of event n, and last its surprise; return how many."""
    design, events = x.design, x.events
    arms = design.n_arms
    item = events.item[n]
    low, high = events.members[item], events.members[item + 1]
    size = 0
    for p in range(low, high):
        i, weight = events.arm[p], events.weight[p]
        index[size], value[size] = i, weight
        size += 1
        for c in range(x.basis.shape[1]):
            if x.value[n, c] != 0.0:
                index[size] = arms + KNOWN + i * x.n_bases + x.basis[n, c]
                value[size] = weight * x.value[n, c]
                size += 1
    for k in range(KNOWN):
        index[size], value[size] = arms + k, x.predictions.known[n, k]
        size += 1
    for q in range(x.shared.shape[1]):
        if x.shared[n, q] != 0.0:
            index[size], value[size] = arms + KNOWN + arms * x.n_bases + q, x.shared[n, q]
            size += 1
    if design.kind == SYMMETRIC:
        # An item of several arms meets the same symmetric entry twice: sum first, then list.
        for p in range(low, high):
            i, weight = events.arm[p], events.weight[p]
            if past.met[i] > 0.0:
                share, row = weight / past.met[i], past.sums[i]
                for j in range(arms):
                    spot = place(SYMMETRIC, i, j)
                    dense[spot] += weight * past.contrast[j] - share * row[j]
        size = list_entries(design, events, n, dense, index, value, size)
    elif design.kind == DIAGONAL:
        for p in range(low, high):
            i = events.arm[p]
            if past.met[i] > 0.0:
                index[size] = arms + design.controls + i
                value[size] = events.weight[p] * find_own(past, i)
                size += 1
    if x.per_arm.shape[0] > 0:
        start = arms + design.controls + count_pairs(design)
        for p in range(low, high):
            index[size] = start + events.arm[p]
            value[size] = events.weight[p] * x.per_arm[n, p - low]
            size += 1
    index[size], value[size] = -1, x.predictions.surprise[n]
    return size


@inlined
def step_to(x: Regressors, n: int, first: int, past: Past) -> None:
    """Let the past fade until event n, and fill x."""
    fade_counts(x.design, x.events, n, first, past.counts)
    fill_contrast(x.popularity, past.counts, past.met, n - first, past.contrast)


@inlined
def find_effect(x: Regressors, n: int) -> int:
    """Return the absorbed effect of event n; −1 if it is of no use, 0 if none is absorbed."""
    return x.absorbed[n] if x.absorbed.size > 0 else 0


@kernel
def add_gram(x: Regressors, instances: Ints, out: Floats, means: Floats, weights: Floats) -> None:
    """Add Σ (z, y)(z, y)ᵀ/F of these instances, (size + 1, size + 1), each pair on one side.

    Where effects are absorbed, add Σ (z, y)/F to the row of ``means`` that an event's effect has,
    and Σ 1/F to ``weights``.
    """
    size = out.shape[0] - 1
    past = remember_nothing(x.design.n_arms, x.design.kind)
    index, value = np.empty(2 * size + 2, np.int64), np.empty(2 * size + 2)
    dense = np.zeros(count_pairs(x.design))
    for u in instances:
        forget(past)
        first = x.events.offsets[u]
        for n in range(first, x.events.offsets[u + 1]):
            step_to(x, n, first, past)
            effect = find_effect(x, n)
            used = write_row(x, n, past, dense, index, value) if effect >= 0 else -1
            for a in range(used + 1):
                index[used] = size
                row, factor = out[index[a]], value[a] / x.predictions.variance[n]
                for b in range(a, used + 1):
                    row[index[b]] += factor * value[b]
                if weights.size > 0:
                    means[effect, index[a]] += factor
            if effect >= 0 and weights.size > 0:
                weights[effect] += 1.0 / x.predictions.variance[n]
            meet(x.design, x.events, n, past)


@kernel
def add_scores(
    x: Regressors,
    units: Units,
    low: int,
    high: int,
    coefficients: Floats,
    means: EffectMeans,
    out: Floats,
) -> None:
    """Add Σ z·(y − z·coefficients)/F by unit, z and y less their means for the absorbed effect.

    ``out`` is (units, size), where the first unit is that of instance ``low`` in the units' order.
    """
    size = coefficients.size
    past = remember_nothing(x.design.n_arms, x.design.kind)
    index, value = np.empty(2 * size + 2, np.int64), np.empty(2 * size + 2)
    dense = np.zeros(count_pairs(x.design))
    for r in range(low, high):
        u = units.order[r]
        forget(past)
        first, last = x.events.offsets[u], x.events.offsets[u + 1]
        for n in range(first, last):
            unit = (
                units.first[r] - units.first[low] + (n - first) * units.blocks[r] // (last - first)
            )
            step_to(x, n, first, past)
            effect = find_effect(x, n)
            used = write_row(x, n, past, dense, index, value) if effect >= 0 else 0
            residual = value[used] if effect >= 0 else 0.0
            for a in range(used):
                residual -= value[a] * coefficients[index[a]]
            if means.left.size > 0 and effect >= 0:
                residual -= means.left[effect]
            residual /= x.predictions.variance[n]
            for a in range(used):
                out[unit, index[a]] += value[a] * residual
            if means.left.size > 0 and effect >= 0:
                for a in range(means.starts[effect], means.starts[effect + 1]):
                    out[unit, means.column[a]] -= means.value[a] * residual
            meet(x.design, x.events, n, past)


@kernel
def find_self_exposures(
    design: Design, popularity: Floats, events: Events, widest: int, centred: bool
) -> Floats:
    """Return x_i of every event of arm i, if centred less its mean over the past events of i."""
    out = np.zeros((events.item.size, widest))
    past = remember_nothing(design.n_arms, DIAGONAL)
    for u in range(events.offsets.size - 1):
        forget(past)
        first = events.offsets[u]
        for n in range(first, events.offsets[u + 1]):
            fade_counts(design, events, n, first, past.counts)
            fill_contrast(popularity, past.counts, past.met, n - first, past.contrast)
            if centred:
                write_own(events, n, past, out)
            else:
                low = events.members[events.item[n]]
                for p in range(low, events.members[events.item[n] + 1]):
                    out[n, p - low] = past.contrast[events.arm[p]]
            meet(design, events, n, past)
    return out


@kernel
def drop_repeats(events: Events, arms: int, out: Floats) -> None:
    """Set to zero what belongs to an arm that the same history has met before."""
    met = np.zeros(arms, np.bool_)
    for u in range(events.offsets.size - 1):
        met[:] = False
        for n in range(events.offsets[u], events.offsets[u + 1]):
            low = events.members[events.item[n]]
            for p in range(low, events.members[events.item[n] + 1]):
                if met[events.arm[p]]:
                    out[n, p - low] = 0.0
                met[events.arm[p]] = True


@inlined
def write_own(events: Events, n: int, past: Past, out: Floats) -> None:
    """Write x_i of the arms i of event n, less its mean over past events of i."""
    low = events.members[events.item[n]]
    for p in range(low, events.members[events.item[n] + 1]):
        i = events.arm[p]
        if past.met[i] > 0.0:
            out[n, p - low] = find_own(past, i)


@kernel
def find_partner_exposures(
    design: Design, popularity: Floats, events: Events, partner: Ints, widest: int
) -> Floats:
    """Return x_i of events of arm i, of what another instance met before them; −1 for no other."""
    arms = design.n_arms
    out = np.zeros((events.item.size, widest))
    past = remember_nothing(arms, DIAGONAL)
    counts, met = np.zeros(arms), np.zeros(arms)
    for u in range(events.offsets.size - 1):
        other = partner[u]
        if other < 0:
            continue
        forget(past)
        counts[:] = 0.0
        met[:] = 0.0
        first, last = events.offsets[u], events.offsets[u + 1]
        start, end = events.offsets[other], events.offsets[other + 1]
        m = start
        for n in range(first, last):
            while m < end and events.time[m] < events.time[n]:
                fade_counts(design, events, m, start, counts)
                count_event(design, events, m, counts)
                item = events.item[m]
                for p in range(events.members[item], events.members[item + 1]):
                    met[events.arm[p]] += events.weight[p]
                m += 1
            keep = 1.0
            if design.half_life > 0.0 and m > start:
                keep = 2.0 ** (-(events.time[n] - events.time[m - 1]) / design.half_life)
            for j in range(arms):
                past.counts[j] = keep * counts[j]
            fill_contrast(popularity, past.counts, met, m - start, past.contrast)
            write_own(events, n, past, out)
            item = events.item[n]
            for p in range(events.members[item], events.members[item + 1]):
                i, weight = events.arm[p], events.weight[p]
                past.met[i] += weight
                past.sums[i, 0] += weight * past.contrast[i]
    return out


@kernel
def total_exposures(events: Events, half_lives: Floats) -> Floats:
    """Return how many events came before, faded by the clock, less the mean of it so far."""
    out = np.zeros((events.item.size, half_lives.size))
    for u in range(events.offsets.size - 1):
        first = events.offsets[u]
        for h in range(half_lives.size):
            total, mean = 0.0, 0.0
            for n in range(first, events.offsets[u + 1]):
                if n > first:
                    total += 1.0
                    total *= 2.0 ** (-(events.time[n] - events.time[n - 1]) / half_lives[h])
                    out[n, h] = total - mean / (n - first)
                mean += total
    return out


def gather_gram(
    x: Regressors, units: Units, in_order: Callable[..., Any], tasks: Sequence[tuple[int, int]]
) -> tuple[Floats, Floats]:
    """Return the Gram matrix of regressors and surprise, (size + 1, size + 1), and their means.

    Both are less the means for the absorbed effects, (effects, size + 1); none of which, (0, 0).
    """
    effects = x.n_absorbed

    def work(task: tuple[int, int]) -> tuple[Floats, Floats, Floats]:
        out = np.zeros((x.size + 1, x.size + 1))
        means, weights = np.zeros((effects, x.size + 1)), np.zeros(effects)
        add_gram(x, units.order[slice(*task)], out, means, weights)
        return out, means, weights

    gram = np.zeros((x.size + 1, x.size + 1))
    means, weights = np.zeros((effects, x.size + 1)), np.zeros(effects)
    for part, sums, several in in_order(work, tasks):
        gram += part
        means += sums
        weights += several
    diagonal = np.diag(gram).copy()
    gram += gram.T
    np.fill_diagonal(gram, diagonal)
    if not effects:
        return gram, means
    means /= np.maximum(weights, 1e-300)[:, None]
    sparse = optional_module("scipy.sparse").csr_array(means)
    left = gram - (sparse.T @ (sparse * weights[:, None])).toarray()
    # Columns that effects explain, such as the arms of items, are rounding errors.
    gone = np.diag(left) <= ROUNDING * np.diag(gram)
    left[gone] = 0.0
    left[:, gone] = 0.0
    return left, means


def gather_scores(
    x: Regressors,
    units: Units,
    coefficients: Floats,
    means: Floats,
    in_order: Callable[..., Any],
    tasks: Sequence[tuple[int, int]],
) -> Floats:
    """Return the scores by unit, (units, size)."""
    size = coefficients.size
    sparse = _list_means(means, coefficients)

    def work(task: tuple[int, int]) -> tuple[int, Floats]:
        low, high = task
        first = int(units.first[low])
        last = int((units.first[low:high] + units.blocks[low:high]).max())
        out = np.zeros((last - first, size))
        add_scores(x, units, low, high, coefficients, sparse, out)
        return first, out

    total = np.zeros((units.number, size))
    for first, part in in_order(work, tasks):
        total[first : first + len(part)] += part
    return total


def _list_means(means: Floats, coefficients: Floats) -> EffectMeans:
    """Return the means of regressors, (effects, size + 1), as compiled code reads them."""
    if not means.size:
        nothing = np.zeros(0, np.int64)
        return EffectMeans(np.zeros(1, np.int64), nothing, np.zeros(0), np.zeros(0))
    of_regressors = means[:, :-1]
    effect, column = np.nonzero(of_regressors)
    starts = np.searchsorted(effect, np.arange(len(means) + 1))
    left = means[:, -1] - of_regressors @ coefficients
    return EffectMeans(starts, column, of_regressors[effect, column], left)


def without_pairs(design: Design) -> Design:
    """Return a design of what stands before the pairs alone."""
    return design._replace(kind=NONE)


def add_known_columns(x: Regressors) -> Regressors:
    """Return the regressors with predictions by arm and by place, and places alone."""
    known = x.predictions.known
    size = np.sqrt((known**2).mean(axis=0))
    known = known / np.where(size > 0.0, size, 1.0)
    offsets = x.events.offsets
    place = np.arange(len(known)) - np.repeat(offsets[:-1], np.diff(offsets))
    log_place = np.log2(1.0 + place)
    coarse = spread_hats(log_place, COARSE_PLACES)
    along = [coarse * known[:, [k]] for k in range(KNOWN)]
    shared = np.ascontiguousarray(np.hstack([x.shared, spread_hats(log_place, PLACES), *along]))
    by_arm = np.broadcast_to(x.n_bases + np.arange(KNOWN), known.shape)
    more = x.design.n_arms * KNOWN + shared.shape[1] - x.shared.shape[1]
    return x._replace(
        design=x.design._replace(controls=x.design.controls + more),
        basis=np.ascontiguousarray(np.hstack([x.basis, by_arm]), np.int32),
        value=np.ascontiguousarray(np.hstack([x.value, known])),
        n_bases=x.n_bases + KNOWN,
        shared=shared,
    )
