"""One interaction for many instances, each with its own initial losses: sufficient statistics.

The initial losses of instance u are μ + b_u with b_u ~ N(0, σ²·(arm·I + common·11ᵀ)): instances
differ from arm to arm, and in their general level. Integrating b_u out keeps the likelihood right
where past losses steer later choices; subtracting each instance's own means instead would turn
regression to the mean into fatigue. With G the Gram matrix of an instance, G_l its rows of initial
losses and N the block of them, what counts of an instance is

    G − G_lᵀ·(N + Ω)⁻¹·G_l,  Ω = (arm·I + common·11ᵀ)⁻¹,

summed over instances. It is gathered in one pass, in chunks that do not depend on the number of
threads or workers, so that the sums are the same to the bit.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from influential_bandits.execution.base import Execution
from influential_bandits.learning.statistics.design import (
    DIAGONAL,
    NONE,
    Design,
    Events,
    event_columns,
    fade_counts,
    history_gram,
    place,
    regressors,
    take_event,
)
from influential_bandits.learning.statistics.random_effects import RandomEffects
from influential_bandits.learning.statistics.reduction import CHUNK, add_over_parts
from influential_bandits.logs.log import EventLog
from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.numerics.compiling import kernel

WAITING = 128  # vectors that one matrix product sums up the squares of
SPARSE = 0.2  # share of entries up to which a vector's square is added entry by entry


class ArmSums(NamedTuple):
    """What a pass over a log adds up."""

    loss: Floats  # (arms,): of the events of each arm
    weight: Floats  # (arms,): how many they are
    events: int
    instances: int
    without_clock: int  # events whose time is not known

    @property
    def means(self) -> Floats:
        """The mean loss of each arm, (arms,); of arms never met, that of all events."""
        met = self.weight > 0
        everything = self.loss.sum() / max(self.weight.sum(), 1.0)
        return np.where(met, self.loss / np.where(met, self.weight, 1.0), everything)

    @property
    def shares(self) -> Floats:
        """The share of each arm among the events, (arms,)."""
        return self.weight / self.weight.sum()


def arm_sums(log: EventLog, arms: int) -> ArmSums:
    """Add up losses and events of a log."""
    total, weight = np.zeros(arms), np.zeros(arms)
    _add_means(event_columns(log), total, weight)
    return ArmSums(total, weight, len(log), log.n_instances, len(log) if log.time is None else 0)


@kernel
def _add_means(events: Events, total: Floats, weight: Floats) -> None:
    for n in range(events.item.size):
        item = events.item[n]
        for p in range(events.members[item], events.members[item + 1]):
            total[events.arm[p]] += events.weight[p] * events.loss[n]
            weight[events.arm[p]] += events.weight[p]


def pooled_gram(
    parts: Iterable[Any],
    design: Design,
    effects: RandomEffects,
    execution: Execution | int | None = None,
    chunk: int = CHUNK,
) -> Floats:
    """Return the statistics of all instances together, (size + 1, size + 1); the loss comes last.

    Many arms make few entries of an instance differ from zero: only these are added then.

    Coefficients are those of :class:`Design`: mean initial losses μ, controls, interaction.
    """
    work = partial(_gram_of, design=design, effects=effects)
    sums = add_over_parts(work, parts, execution, chunk)
    if sums is None:
        return np.zeros((design.size + 1, design.size + 1))
    mirror_upper(sums[0])
    return sums[0]


def _gram_of(log: EventLog, design: Design, effects: RandomEffects) -> tuple[Floats]:
    """Return the statistics of a log; what is below the diagonal is not complete."""
    events, task = event_columns(log), (0, log.n_instances)
    out = np.zeros((design.size + 1, design.size + 1))
    spread, common = effects.arm, effects.common
    if log.membership.single:
        blocks = np.zeros((design.n_arms, *(2 * (_width(design),))))
        _add_blocks(design, events, *task, spread, common, design.size, blocks, out)
        _assemble(design, design.size, blocks, out)
    else:
        _add_grams(design, events, *task, spread, common, design.size, out)
    return (out,)


def _width(design: Design) -> int:
    """Return the length of (1, controls, counts, y), or with the own count alone if diagonal."""
    columns = {NONE: 0, DIAGONAL: 1}.get(design.kind, design.n_arms)
    return 2 + design.controls + columns


@kernel
def _add_blocks(
    design: Design,
    events: Events,
    low: int,
    high: int,
    spread: float,
    common: float,
    size: int,
    blocks: Floats,
    cross: Floats,
) -> None:
    """Add the statistics of instances low … high − 1 where every item is of one arm.

    Events of arm i share a block Σ vvᵀ of v = (1, controls, counts, y). Vectors wait until there
    are enough of them for a matrix product, which takes a fraction of the time of single ones.
    """
    arms, controls, kind = design.n_arms, design.controls, design.kind
    width = blocks.shape[1]
    seen, n_seen = np.empty((arms, WAITING, width)), np.zeros(arms, np.int64)
    own, n_own = np.empty((arms, WAITING, width)), np.zeros(arms, np.int64)
    shared, n_shared = np.zeros((WAITING, size + 1)), 0
    spots = np.empty(size + 1, np.int64)
    sums, counts = np.zeros((arms, width)), np.zeros(arms)
    for u in range(low, high):
        counts[:] = 0.0
        sums[:] = 0.0
        level = 0.0
        first, last = events.offsets[u], events.offsets[u + 1]
        for n in range(first, last):
            fade_counts(design, events, n, first, counts)
            i = events.arm[events.members[events.item[n]]]
            v = seen[i, n_seen[i]]
            v[0] = 1.0
            if controls > 0:
                v[1] = level
            if kind == DIAGONAL:
                v[1 + controls] = counts[i]
            elif kind != NONE:
                for j in range(arms):
                    v[1 + controls + j] = counts[j]
            v[width - 1] = events.loss[n]
            for a in range(width):
                sums[i, a] += v[a]
            n_seen[i] += 1
            if n_seen[i] == WAITING:
                blocks[i] += seen[i].T @ seen[i]
                n_seen[i] = 0
            level = take_event(design, events, n, counts, level)
        if n_shared == WAITING:
            cross -= shared.T @ shared
            shared[:] = 0.0
            n_shared = 0
        z = shared[n_shared]
        _integrate_out(design, spread, common, sums, size, blocks, own, n_own, z)
        if not _add_sparse_square(z, -1.0, spots, cross):
            n_shared += 1
    for i in range(arms):
        rest, lost = seen[i, : n_seen[i]], own[i, : n_own[i]]
        blocks[i] += rest.T @ rest
        blocks[i] -= lost.T @ lost
    cross -= shared.T @ shared


@kernel
def _add_sparse_square(z: Floats, sign: float, spots: Ints, out: Floats) -> bool:
    """Add ±zzᵀ above the diagonal, and clear z, if it has few entries; tell whether it has."""
    number = 0
    for a in range(z.size):
        if z[a] != 0.0:
            spots[number] = a
            number += 1
    if number > SPARSE * z.size:
        return False
    for p in range(number):
        a = spots[p]
        factor = sign * z[a]
        for q in range(p, number):
            out[a, spots[q]] += factor * z[spots[q]]
    for p in range(number):
        z[spots[p]] = 0.0
    return True


@kernel
def add_score_squares(scores: Floats, out: Floats) -> None:
    """Add Σ ssᵀ of scores, (instances, size), above the diagonal; the scores are lost."""
    spots = np.empty(scores.shape[1], np.int64)
    dense = 0
    for u in range(scores.shape[0]):
        if not _add_sparse_square(scores[u], 1.0, spots, out):
            scores[dense] = scores[u]
            if dense < u:
                scores[u] = 0.0
            dense += 1
    rest = scores[:dense]
    out += rest.T @ rest


@kernel
def mirror_upper(matrix: Floats) -> None:
    """Copy what is above the diagonal below it."""
    for a in range(matrix.shape[0]):
        for b in range(a):
            matrix[a, b] = matrix[b, a]


@kernel
def _integrate_out(
    design: Design,
    spread: float,
    common: float,
    sums: Floats,
    size: int,
    blocks: Floats,
    own: Floats,
    n_own: Ints,
    z: Floats,
) -> None:
    """Subtract what the instance's own initial losses explain, given their variance.

    (N + Ω)⁻¹ = E + f·(E1)(E1)ᵀ with E = 1/(N + κ) diagonal: blockwise, and one cross term zzᵀ.
    """
    arms, controls, kind = design.n_arms, design.controls, design.kind
    width = sums.shape[1]
    precision = 1.0 / spread
    coupling = precision * common / (spread + arms * common)
    left = spread / (spread + arms * common)  # 1 − coupling·1ᵀE1, summed without cancellation
    for i in range(arms):
        if sums[i, 0] == 0.0:
            continue
        share = 1.0 / (sums[i, 0] + precision)
        left += coupling * sums[i, 0] * share * spread
        row, root = sums[i], np.sqrt(share)
        for a in range(width):
            own[i, n_own[i], a] = root * row[a]
        n_own[i] += 1
        if n_own[i] == WAITING:
            blocks[i] -= own[i].T @ own[i]
            n_own[i] = 0
        z[i] = share * row[0]
        for c in range(controls):
            z[arms + c] += share * row[1 + c]
        start = arms + controls
        if kind == DIAGONAL:
            z[start + i] = share * row[1 + controls]
        elif kind != NONE:
            for j in range(arms):
                z[start + place(kind, i, j)] += share * row[1 + controls + j]
        z[size] += share * row[width - 1]
    z *= np.sqrt(coupling / left)


@kernel
def _assemble(design: Design, size: int, blocks: Floats, out: Floats) -> None:
    """Add the blocks of all arms into the Gram matrix of the coefficients."""
    arms, controls, width = design.n_arms, design.controls, blocks.shape[1]
    spot = np.empty(width, np.int64)
    for i in range(arms):
        spot[0] = i
        for c in range(controls):
            spot[1 + c] = arms + c
        for j in range(width - 2 - controls):
            spot[1 + controls + j] = arms + controls + place(design.kind, i, j)
        spot[width - 1] = size
        for a in range(width):
            for b in range(a, width):
                out[spot[a], spot[b]] += blocks[i, a, b]
                if a != b:
                    out[spot[b], spot[a]] += blocks[i, a, b]


@kernel
def _add_grams(
    design: Design,
    events: Events,
    low: int,
    high: int,
    spread: float,
    common: float,
    size: int,
    out: Floats,
) -> None:
    """Add the statistics of instances low … high − 1, items of any number of arms."""
    arms = design.n_arms
    gram = np.empty((size + 1, size + 1))
    for u in range(low, high):
        if events.offsets[u] == events.offsets[u + 1]:
            continue
        history_gram(design, events, u, gram)
        out += gram
        rows = np.ascontiguousarray(gram[:arms])
        own = _precision(rows[:, :arms], spread, common)
        out -= rows.T @ np.linalg.solve(own, rows)


@kernel
def _precision(own: Floats, spread: float, common: float) -> Floats:
    """Return N + Ω."""
    arms = own.shape[0]
    out = own.copy()
    precision = 1.0 / spread
    coupling = precision * common / (spread + arms * common)
    for i in range(arms):
        out[i, i] += precision
        for j in range(arms):
            out[i, j] -= coupling
    return out


@kernel
def instance_effects(
    events: Events, residual: Floats, spread: float, common: float, out: Floats
) -> None:
    """Fill b_u of all instances, (instances, arms), given residuals from μ alone, (events,)."""
    arms = out.shape[1]
    own, surprise = np.zeros((arms, arms)), np.zeros(arms)
    for u in range(events.offsets.size - 1):
        surprise[:] = 0.0
        diagonal = True
        for n in range(events.offsets[u], events.offsets[u + 1]):
            item = events.item[n]
            diagonal &= events.members[item + 1] - events.members[item] <= 1
            for p in range(events.members[item], events.members[item + 1]):
                surprise[events.arm[p]] += events.weight[p] * residual[n]
                for q in range(events.members[item], events.members[item + 1]):
                    own[events.arm[p], events.arm[q]] += events.weight[p] * events.weight[q]
        if diagonal:
            _solve_diagonal(own, surprise, spread, common, out[u])
            for i in range(arms):
                own[i, i] = 0.0
        else:
            out[u] = np.linalg.solve(_precision(own, spread, common), surprise)
            own[:] = 0.0


@kernel
def _solve_diagonal(own: Floats, right: Floats, spread: float, common: float, out: Floats) -> None:
    """Fill (N + Ω)⁻¹·right for a diagonal N: (N + Ω)⁻¹ = E + f·(E1)(E1)ᵀ, as above."""
    arms = right.size
    precision = 1.0 / spread
    coupling = precision * common / (spread + arms * common)
    left = spread / (spread + arms * common)
    total = 0.0
    for i in range(arms):
        share = 1.0 / (own[i, i] + precision)
        left += coupling * own[i, i] * share * spread
        out[i] = share * right[i]
        total += out[i]
    for i in range(arms):
        out[i] += coupling / left * total / (own[i, i] + precision)


@kernel
def effect_variances(
    design: Design,
    events: Events,
    spread: float,
    noise: float,
    covariance: Floats,
    size: int,
    out: Floats,
) -> None:
    """Fill variances of the initial losses, (instances, arms), arm by arm.

    What the own events of an arm leave open, and the errors of what is shared as far as they reach
    the own loss: through μ where there are few events, through A and the level where there are
    many.
    """
    arms = design.n_arms
    index, value = np.empty(size + 2, np.int64), np.empty(size + 2)
    counts, dense = np.zeros(arms), np.zeros(size)
    rows, own, spots = np.zeros((arms, size)), np.zeros(arms), np.empty(size, np.int64)
    for u in range(events.offsets.size - 1):
        counts[:] = 0.0
        own[:] = 0.0
        level = 0.0
        first = events.offsets[u]
        for n in range(first, events.offsets[u + 1]):
            fade_counts(design, events, n, first, counts)
            used = regressors(design, events, n, counts, level, index, value, dense)
            item = events.item[n]
            for p in range(events.members[item], events.members[item + 1]):
                i, weight = events.arm[p], events.weight[p]
                own[i] += weight * weight
                for a in range(used):
                    rows[i, index[a]] += weight * value[a]
            level = take_event(design, events, n, counts, level)
        for i in range(arms):
            share = 1.0 / (own[i] + 1.0 / spread)
            total = noise * noise * share
            if own[i] == 0.0:
                out[u, i] = total + covariance[i, i]
                continue
            row, number = rows[i], 0
            row[i] -= 1.0 / share
            for a in range(size):
                if row[a] != 0.0:
                    row[a] *= -share
                    spots[number] = a
                    number += 1
            for p in range(number):
                a = spots[p]
                for q in range(number):
                    total += row[a] * row[spots[q]] * covariance[a, spots[q]]
            for p in range(number):
                row[spots[p]] = 0.0
            out[u, i] = total


@kernel
def instance_scores(
    design: Design, events: Events, residual: Floats, size: int, out: Floats
) -> None:
    """Add the score Σ x·residual of each instance, (instances, size); residuals without b_u."""
    index, value = np.empty(size + 2, np.int64), np.empty(size + 2)
    counts, dense = np.zeros(design.n_arms), np.zeros(size)
    for u in range(events.offsets.size - 1):
        counts[:] = 0.0
        level = 0.0
        first = events.offsets[u]
        for n in range(first, events.offsets[u + 1]):
            fade_counts(design, events, n, first, counts)
            used = regressors(design, events, n, counts, level, index, value, dense)
            for a in range(used):
                out[u, index[a]] += value[a] * residual[n]
            level = take_event(design, events, n, counts, level)
