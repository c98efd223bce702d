"""From a history to regression: what the loss of an event may depend on, event by event.

The loss of event n, of an item with weights w over the arms, is modelled as

    l1·w + level·c + Σ_ij A_ij·w_i·d_j + noise

where d counts the pulls so far, old ones discounted. By events (the paper has memory γ = 1):
d ← γ·d + w after each event. By the clock: d ← 2^(−gap / half-life)·(d + w) between two events.

The one control of a model, optional, is the recent *level*: an exponential average of the past
surprises (loss − baseline·w) of the same history.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from influential_bandits.logs.log import EventLog
from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.numerics.compiling import inlined, kernel

DAY = 86400.0


# Shapes of the interaction matrix; numbers, because compiled code reads them.
NONE, DIAGONAL, SYMMETRIC = 0, 1, 2
KINDS = {
    "none": NONE,
    "diagonal": DIAGONAL,
    "symmetric": SYMMETRIC,
    "psd": SYMMETRIC,
}


class Design(NamedTuple):
    """Which regressors there are; all that compiled code needs to know."""

    n_arms: int
    kind: int
    memory: float  # γ, by events
    half_life: float  # seconds; 0: memory is by events
    # Columns between initial losses and interaction: in a model, 1 if the recent level is one, else
    # 0; in the test of influence, all hundreds that are fitted beside pairs of arms.
    controls: int
    level_memory: float  # ρ of the recent level
    baseline: Floats  # (arms,): typical losses, from which surprises are measured

    @property
    def start(self) -> int:
        """Where the coefficients of the interaction begin."""
        return self.n_arms + self.controls

    @property
    def size(self) -> int:
        """Number of coefficients: initial losses, controls, interaction."""
        return self.start + interaction_size(self.kind, self.n_arms)


class Events(NamedTuple):
    """The columns of a log, as compiled code reads them."""

    offsets: Ints  # (instances + 1,)
    item: npt.NDArray[np.int32]  # (events,)
    loss: Floats
    time: Floats  # (events,), or empty
    members: Ints  # (items + 1,): where the arms of an item begin
    arm: npt.NDArray[np.int32]
    weight: Floats


def event_columns(log: EventLog) -> Events:
    """Return the columns of a log."""
    table = log.membership
    time = np.zeros(0) if log.time is None else log.time
    columns = (log.offsets, log.item, log.loss, time, table.offsets, table.arm, table.weight)
    return Events(*map(read_only, columns))


def read_only(column: Any) -> Any:
    """Return a read-only view: code is compiled once, not again for columns that may be written."""
    view = np.ascontiguousarray(column).view()
    view.flags.writeable = False
    return view


def interaction_size(kind: int, arms: int) -> int:
    """Return how many numbers an interaction of this kind has."""
    sizes = {
        NONE: 0,
        DIAGONAL: arms,
        SYMMETRIC: arms * (arms + 1) // 2,
    }
    return sizes[kind]


def interaction_entries(kind: int, arms: int) -> list[tuple[int, int]]:
    """Return which entry (i, j) of the matrix each interaction coefficient is."""
    if kind == DIAGONAL:
        return [(i, i) for i in range(arms)]
    if kind == SYMMETRIC:
        return [(i, j) for i in range(arms) for j in range(i + 1)]
    return []


def as_matrix(kind: int, arms: int, coefficients: Floats) -> Floats:
    """Return interaction coefficients (..., m) as matrices (..., arms, arms)."""
    out = np.zeros((*coefficients.shape[:-1], arms, arms))
    for n, (i, j) in enumerate(interaction_entries(kind, arms)):
        out[..., i, j] = out[..., j, i] = coefficients[..., n]
    return out


@inlined
def place(kind: int, i: int, j: int) -> int:
    """Return which coefficient is entry (i, j) of the matrix."""
    if kind == DIAGONAL:
        return i
    return i * (i + 1) // 2 + j if i >= j else j * (j + 1) // 2 + i


@inlined
def fade_counts(design: Design, events: Events, n: int, first: int, counts: Floats) -> None:
    """Let the past fade between the event before n and event n, if memory goes by the clock."""
    if design.half_life > 0.0 and n > first:
        keep = 2.0 ** (-(events.time[n] - events.time[n - 1]) / design.half_life)
        for j in range(design.n_arms):
            counts[j] *= keep


@inlined
def count_event(design: Design, events: Events, n: int, counts: Floats) -> None:
    """Take event n into the counts."""
    item = events.item[n]
    if design.half_life == 0.0 and design.memory < 1.0:
        for j in range(design.n_arms):
            counts[j] *= design.memory
    for p in range(events.members[item], events.members[item + 1]):
        counts[events.arm[p]] += events.weight[p]


@inlined
def take_event(design: Design, events: Events, n: int, counts: Floats, level: float) -> float:
    """Take event n into the counts; return the new level."""
    count_event(design, events, n, counts)
    item = events.item[n]
    surprise = events.loss[n]
    for p in range(events.members[item], events.members[item + 1]):
        surprise -= events.weight[p] * design.baseline[events.arm[p]]
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
    arms, kind = design.n_arms, design.kind
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
    if kind == NONE:
        return size
    if high - low == 1 or kind == DIAGONAL:
        for p in range(low, high):
            i, weight = events.arm[p], events.weight[p]
            for j in range(i if kind == DIAGONAL else 0, i + 1 if kind == DIAGONAL else arms):
                if counts[j] != 0.0:
                    index[size], value[size] = start + place(kind, i, j), weight * counts[j]
                    size += 1
        return size
    # An item of several arms meets the same symmetric entry twice: sum first, then list.
    for p in range(low, high):
        i, weight = events.arm[p], events.weight[p]
        for j in range(arms):
            dense[place(kind, i, j)] += weight * counts[j]
    return list_entries(design, events, n, dense, index, value, size)


@inlined
def list_entries(
    design: Design, events: Events, n: int, dense: Floats, index: Ints, value: Floats, size: int
) -> int:
    """List what was summed up in ``dense`` for the arms of event n; return how long the list is."""
    arms, kind = design.n_arms, design.kind
    item = events.item[n]
    for p in range(events.members[item], events.members[item + 1]):
        for j in range(arms):
            spot = place(kind, events.arm[p], j)
            if dense[spot] != 0.0:
                index[size], value[size] = arms + design.controls + spot, dense[spot]
                dense[spot] = 0.0
                size += 1
    return size


@inlined
def add_transposed(out: Floats) -> None:
    """Make a sum symmetric of which each pair was added on one side, the diagonal once."""
    for a in range(out.shape[0]):
        for b in range(a):
            both = out[a, b] + out[b, a]
            out[a, b] = out[b, a] = both


@kernel
def history_gram(design: Design, events: Events, u: int, out: Floats) -> None:
    """Fill the Gram matrix of one history: Σ (x, y)(x, y)ᵀ, (size + 1, size + 1), symmetric."""
    arms, size = design.n_arms, out.shape[0] - 1
    counts = np.zeros(arms)
    index, value = np.empty(size + 2, np.int64), np.empty(size + 2)
    dense = np.zeros(size)
    level = 0.0
    out[:] = 0.0
    first, last = events.offsets[u], events.offsets[u + 1]
    for n in range(first, last):
        fade_counts(design, events, n, first, counts)
        used = regressors(design, events, n, counts, level, index, value, dense)
        index[used], value[used] = size, events.loss[n]
        for a in range(used + 1):
            row, factor = out[index[a]], value[a]
            for b in range(a, used + 1):
                row[index[b]] += factor * value[b]
        level = take_event(design, events, n, counts, level)
    add_transposed(out)


@inlined
def fill_predictions(
    design: Design,
    events: Events,
    u: int,
    coefficients: Floats,
    index: Ints,
    value: Floats,
    counts: Floats,
    dense: Floats,
    out: Floats,
) -> None:
    """Predict every event of one history; the arrays before ``out`` are for work."""
    counts[:] = 0.0
    level = 0.0
    first, last = events.offsets[u], events.offsets[u + 1]
    for n in range(first, last):
        fade_counts(design, events, n, first, counts)
        used = regressors(design, events, n, counts, level, index, value, dense)
        total = 0.0
        for a in range(used):
            total += value[a] * coefficients[index[a]]
        out[n] = total
        level = take_event(design, events, n, counts, level)


@kernel
def predict_histories(
    design: Design, events: Events, coefficients: Floats, shared: Floats, out: Floats
) -> None:
    """Predict all events; ``coefficients`` (instances, first ones), ``shared`` (size,).

    An instance has coefficients of its own as far as they reach, and the shared ones beyond.
    """
    size, own = shared.size, coefficients.shape[1]
    mine = shared.copy()
    index, value = np.empty(size + 2, np.int64), np.empty(size + 2)
    counts, dense = np.zeros(design.n_arms), np.zeros(size)
    for u in range(events.offsets.size - 1):
        mine[:own] = coefficients[u]
        fill_predictions(design, events, u, mine, index, value, counts, dense, out)


def predict_losses(
    log: EventLog, design: Design, coefficients: Floats, shared: Floats | None = None
) -> Floats:
    """Return one-step-ahead predictions; coefficients (instances, size), or (size,) for all.

    With ``shared``, (size,), instances need have the first coefficients only.
    """
    out = np.empty(len(log))
    if coefficients.ndim == 1:
        shared, coefficients = coefficients, np.zeros((log.n_instances, 0))
    elif shared is None:
        shared = np.zeros(design.size)
    table = np.ascontiguousarray(coefficients)
    predict_histories(design, event_columns(log), table, np.ascontiguousarray(shared), out)
    return out


def interaction_matrices(design: Design, coefficients: Floats) -> Any:
    """Return the interaction matrices in coefficients (..., size)."""
    return as_matrix(design.kind, design.n_arms, coefficients[..., design.start :])
