"""From a history to regression: what the loss of an event may depend on, event by event.

The loss of event n, of an item with weights w over the arms, is modelled as

    l1·w + level·c + Σ_ij A_ij·w_i·d_j + noise

where d counts the pulls so far, old ones discounted. By events (the paper has memory γ = 1):
d ← γ·d + w after each event. By the clock: d ← 2^(−gap / half-life)·(d + w) between two events.

The one control, optional, is the recent *level*: an exponential average of the past surprises
(loss − baseline·w) of the same history.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from influential_bandits.logs.log import EventLog
from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.numerics.compiling import inlined, kernel

__all__ = ["Design", "Events", "Kind", "events_of", "interaction_size", "labels_of"]

DAY = 86400.0


class Kind:
    """Shapes of the interaction matrix; numbers, because compiled code reads them."""

    NONE, DIAGONAL, SYMMETRIC, FREE = 0, 1, 2, 3


KINDS = {
    "none": Kind.NONE,
    "diagonal": Kind.DIAGONAL,
    "symmetric": Kind.SYMMETRIC,
    "psd": Kind.SYMMETRIC,
    "free": Kind.FREE,
}


class Design(NamedTuple):
    """Which regressors there are; all that compiled code needs to know."""

    arms: int
    kind: int
    memory: float  # γ, by events
    half_life: float  # seconds; 0: memory is by events
    controls: int  # 1 if the recent level is a regressor, else 0
    level_memory: float  # ρ of the recent level
    baseline: Floats  # (arms,): typical losses, from which surprises are measured

    @property
    def size(self) -> int:
        """Number of coefficients: initial losses, controls, interaction."""
        return self.arms + self.controls + interaction_size(self.kind, self.arms)


class Events(NamedTuple):
    """The columns of a log, as compiled code reads them."""

    offsets: Ints  # (instances + 1,)
    item: npt.NDArray[np.int32]  # (events,)
    loss: Floats
    time: Floats  # (events,), or empty
    members: Ints  # (items + 1,): where the arms of an item begin
    arm: npt.NDArray[np.int32]
    weight: Floats


def events_of(log: EventLog) -> Events:
    """Return the columns of a log."""
    table = log.membership
    time = np.zeros(0) if log.time is None else log.time
    columns = (log.offsets, log.item, log.loss, time, table.offsets, table.arm, table.weight)
    return Events(*map(_read_only, columns))


def _read_only(column: Any) -> Any:
    """Return a read-only view: code is compiled once, not again for columns that may be written."""
    view = np.ascontiguousarray(column).view()
    view.flags.writeable = False
    return view


def interaction_size(kind: int, arms: int) -> int:
    """Return how many numbers an interaction of this kind has."""
    sizes = {
        Kind.NONE: 0,
        Kind.DIAGONAL: arms,
        Kind.SYMMETRIC: arms * (arms + 1) // 2,
        Kind.FREE: arms * arms,
    }
    return sizes[kind]


def labels_of(kind: int, arms: int) -> list[tuple[int, int]]:
    """Return which entry (i, j) of the matrix each interaction coefficient is."""
    if kind == Kind.DIAGONAL:
        return [(i, i) for i in range(arms)]
    if kind == Kind.SYMMETRIC:
        return [(i, j) for i in range(arms) for j in range(i + 1)]
    return [(i, j) for i in range(arms) for j in range(arms)] if kind == Kind.FREE else []


def as_matrix(kind: int, arms: int, coefficients: Floats) -> Floats:
    """Return interaction coefficients (..., m) as matrices (..., arms, arms)."""
    out = np.zeros((*coefficients.shape[:-1], arms, arms))
    for n, (i, j) in enumerate(labels_of(kind, arms)):
        out[..., i, j] = coefficients[..., n]
        if kind == Kind.SYMMETRIC:
            out[..., j, i] = coefficients[..., n]
    return out


@inlined
def place(kind: int, arms: int, i: int, j: int) -> int:
    """Return which coefficient is entry (i, j) of the matrix."""
    if kind == 1:
        return i
    if kind == 2:
        return i * (i + 1) // 2 + j if i >= j else j * (j + 1) // 2 + i
    return i * arms + j


@inlined
def faded(design: Design, events: Events, n: int, first: int, counts: Floats) -> None:
    """Let the past fade between the event before n and event n, if memory goes by the clock."""
    if design.half_life > 0.0 and n > first:
        keep = 2.0 ** (-(events.time[n] - events.time[n - 1]) / design.half_life)
        for j in range(design.arms):
            counts[j] *= keep


@inlined
def after(design: Design, events: Events, n: int, counts: Floats, level: float) -> float:
    """Take event n into the counts; return the new level."""
    item = events.item[n]
    if design.half_life == 0.0 and design.memory < 1.0:
        for j in range(design.arms):
            counts[j] *= design.memory
    surprise = events.loss[n]
    for p in range(events.members[item], events.members[item + 1]):
        i, weight = events.arm[p], events.weight[p]
        counts[i] += weight
        surprise -= weight * design.baseline[i]
    return design.level_memory * level + (1.0 - design.level_memory) * surprise


@inlined
def regressors(
    design: Design,
    events: Events,
    n: int,
    counts: Floats,
    level: float,
    index: Ints,
    value: Floats,
    dense: Floats,
) -> int:
    """Write the non-zero regressors of event n; return how many.

    ``dense`` is a work array of zeros, (interaction coefficients,), left as zeros.
    """
    arms, kind = design.arms, design.kind
    item = events.item[n]
    low, high = events.members[item], events.members[item + 1]
    size = 0
    for p in range(low, high):
        i, weight = events.arm[p], events.weight[p]
        index[size], value[size] = i, weight
        size += 1
    if design.controls > 0:
        index[size], value[size] = arms, level
        size += 1
    start = arms + design.controls
    if kind == 0:
        return size
    if high - low == 1 or kind == 1:
        for p in range(low, high):
            i, weight = events.arm[p], events.weight[p]
            for j in range(i if kind == 1 else 0, i + 1 if kind == 1 else arms):
                if counts[j] != 0.0:
                    index[size], value[size] = start + place(kind, arms, i, j), weight * counts[j]
                    size += 1
        return size
    # An item of several arms meets the same symmetric entry twice: sum first, then list.
    for p in range(low, high):
        i, weight = events.arm[p], events.weight[p]
        for j in range(arms):
            dense[place(kind, arms, i, j)] += weight * counts[j]
    for p in range(low, high):
        for j in range(arms):
            spot = place(kind, arms, events.arm[p], j)
            if dense[spot] != 0.0:
                index[size], value[size] = start + spot, dense[spot]
                dense[spot] = 0.0
                size += 1
    return size


@kernel
def history_gram(design: Design, events: Events, u: int, size: int, out: Floats) -> None:
    """Fill the Gram matrix of one history: Σ (x, y)(x, y)ᵀ, (size + 1, size + 1), symmetric."""
    arms = design.arms
    counts = np.zeros(arms)
    index, value = np.empty(size + 2, np.int64), np.empty(size + 2)
    dense = np.zeros(size)
    level = 0.0
    out[:] = 0.0
    first, last = events.offsets[u], events.offsets[u + 1]
    for n in range(first, last):
        faded(design, events, n, first, counts)
        used = regressors(design, events, n, counts, level, index, value, dense)
        index[used], value[used] = size, events.loss[n]
        for a in range(used + 1):
            row, factor = out[index[a]], value[a]
            for b in range(a, used + 1):
                row[index[b]] += factor * value[b]
        level = after(design, events, n, counts, level)
    for a in range(size + 1):
        for b in range(a):
            both = out[a, b] + out[b, a]
            out[a, b] = out[b, a] = both


@kernel
def history_predictions(
    design: Design, events: Events, u: int, coefficients: Floats, out: Floats
) -> None:
    """Predict every event of one history from what came before it."""
    arms, size = design.arms, coefficients.size
    counts = np.zeros(arms)
    index, value = np.empty(size + 2, np.int64), np.empty(size + 2)
    dense = np.zeros(size)
    level = 0.0
    first, last = events.offsets[u], events.offsets[u + 1]
    for n in range(first, last):
        faded(design, events, n, first, counts)
        used = regressors(design, events, n, counts, level, index, value, dense)
        total = 0.0
        for a in range(used):
            total += value[a] * coefficients[index[a]]
        out[n] = total
        level = after(design, events, n, counts, level)


@kernel
def histories_predicted(design: Design, events: Events, coefficients: Floats, out: Floats) -> None:
    """Predict all events; ``coefficients`` (instances, size)."""
    for u in range(events.offsets.size - 1):
        history_predictions(design, events, u, coefficients[u], out)
