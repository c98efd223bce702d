"""The dynamics, compiled: what a pull costs and what it changes, for every kind of interaction.

The engine, the stepwise loop and the Gymnasium environment all call these functions, which is
why they see the same losses to the last bit. Without fading (memory γ = 1) the loss of an arm is
initial_loss + A·counts, computed from the counts and never by adding rows round after round,
which would drift.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.numerics.compiling import count_one, inlined, lazy_kernel
from influential_bandits.numerics.double_double import add, add_product, two_sum
from influential_bandits.numerics.portable import whole_power

DENSE, LOW_RANK, SPARSE = 0, 1, 2


class World(NamedTuple):
    """An instance as compiled code sees it; never changes."""

    kind: int  # DENSE, LOW_RANK or SPARSE
    values: Floats  # dense: A (arms, arms); low rank: F (arms, rank); sparse: entries (1, nnz)
    columns: Ints  # sparse: column of each entry (nnz,), otherwise empty
    offsets: Ints  # sparse: where each row starts (arms + 1,), otherwise empty
    initial_loss: Floats  # (arms,)
    memory: float  # γ in (0, 1]


class Progress(NamedTuple):
    """What the pulls so far have done to a world; updated in place by :func:`advance`."""

    counts: Ints  # (arms,) pulls of each arm
    weights: Floats  # (arms,) faded counts, or low rank: (rank,) faded Fᵀ·counts
    low: Floats  # low rank: (rank,) low parts of the weights; otherwise empty
    last: Ints  # sparse with γ < 1: (arms,) when a weight was last brought up to date, else empty


def start_progress(world: World) -> Progress:
    """Return the progress of a world in which nothing was pulled yet."""
    n_arms = world.initial_loss.size
    low_rank = world.kind == LOW_RANK
    rank = world.values.shape[1] if low_rank else 0
    lazy = world.kind == SPARSE and world.memory < 1.0
    return Progress(
        counts=np.zeros(n_arms, np.int64),
        weights=np.zeros(rank if low_rank else n_arms),
        low=np.zeros(rank),
        last=np.zeros(n_arms if lazy else 0, np.int64),
    )


@inlined
def ordered_dot(a: Floats, b: Floats) -> float:
    """Return Σ aᵢ·bᵢ in a fixed order: four interleaved partial sums, then the rest."""
    whole = a.size - a.size % 4
    s0 = s1 = s2 = s3 = 0.0
    for i in range(0, whole, 4):
        s0 += a[i] * b[i]
        s1 += a[i + 1] * b[i + 1]
        s2 += a[i + 2] * b[i + 2]
        s3 += a[i + 3] * b[i + 3]
    total = (s0 + s1) + (s2 + s3)
    for i in range(whole, a.size):
        total += a[i] * b[i]
    return total


@inlined
def deviation(world: World, progress: Progress, arm: int, t: int) -> float:
    """Return how far the loss of an arm in round t lies from its initial loss."""
    if world.kind == DENSE:
        return ordered_dot(world.values[arm], progress.weights)
    if world.kind == LOW_RANK:
        row = world.values[arm]
        return ordered_dot(row, progress.weights) + ordered_dot(row, progress.low)
    total = 0.0
    for k in range(world.offsets[arm], world.offsets[arm + 1]):
        j = world.columns[k]
        weight = progress.weights[j]
        if world.memory < 1.0:
            weight *= whole_power(world.memory, t - progress.last[j])
        total += world.values[0, k] * weight
    return total


@inlined
def expected_loss(world: World, progress: Progress, arm: int, t: int) -> float:
    """Return the loss of an arm in round t, before noise."""
    return world.initial_loss[arm] + deviation(world, progress, arm, t)


@inlined
def advance(world: World, progress: Progress, arm: int, t: int) -> None:
    """Let the pull of an arm in round t influence the world: deviation ← γ·deviation + A[arm]."""
    count_one(progress.counts, arm)
    if world.kind == LOW_RANK:
        for k in range(progress.weights.size):
            high, low = add(
                (world.memory * progress.weights[k], world.memory * progress.low[k]),
                (world.values[arm, k], 0.0),
            )
            progress.weights[k] = high
            progress.low[k] = low
    elif world.memory == 1.0:
        count_one(progress.weights, arm)
    elif world.kind == DENSE:
        for j in range(progress.weights.size):
            progress.weights[j] *= world.memory
        progress.weights[arm] += 1.0
    else:
        faded = progress.weights[arm] * whole_power(world.memory, t + 1 - progress.last[arm])
        progress.weights[arm] = faded + 1.0
        progress.last[arm] = t + 1


@inlined
def elapse(progress: Progress, kept: float) -> None:
    """Let time pass before a pull: of the influence of all pulls so far, a share is kept."""
    for j in range(progress.weights.size):
        progress.weights[j] *= kept
    for j in range(progress.low.size):
        progress.low[j] *= kept


@inlined
def add_row(world: World, arm: int, high: Floats, low: Floats) -> None:
    """Fade a deviation of all arms, kept as high + low, by γ and add row ``arm`` of A to it."""
    if world.memory < 1.0:
        for j in range(high.size):
            high[j] *= world.memory
            low[j] *= world.memory
    if world.kind == SPARSE:
        for k in range(world.offsets[arm], world.offsets[arm + 1]):
            j = world.columns[k]
            s, e = two_sum(high[j], world.values[0, k])
            high[j], low[j] = two_sum(s, low[j] + e)
    else:
        for j in range(high.size):
            if world.kind == DENSE:
                entry = world.values[arm, j]
            else:
                entry = ordered_dot(world.values[arm], world.values[j])
            s, e = two_sum(high[j], entry)
            high[j], low[j] = two_sum(s, low[j] + e)


@lazy_kernel
def all_deviations(world: World, progress: Progress, counts: Floats, out: Floats) -> None:
    """Write A·counts (γ = 1) into ``out``; counts need not be whole."""
    if world.kind == LOW_RANK:
        for k in range(progress.weights.size):
            total = (0.0, 0.0)
            for j in range(counts.size):
                if counts[j] != 0.0:
                    total = add_product(total, world.values[j, k], counts[j])
            progress.weights[k] = total[0]
            progress.low[k] = total[1]
    else:
        for j in range(counts.size):
            progress.weights[j] = counts[j]
    for arm in range(out.size):
        out[arm] = deviation(world, progress, arm, 0)


@lazy_kernel
def total_losses(world: World, progress: Progress, linear_term: Floats, counts: Floats) -> Floats:
    """Return b·x + ½·xᵀAx (Prop. 2.1) for each row x of ``counts`` (rows, arms)."""
    rows, n_arms = counts.shape
    deviations = np.empty(n_arms)
    totals = np.empty(rows)
    for row in range(rows):
        all_deviations(world, progress, counts[row], deviations)
        total = 0.0
        for i in range(n_arms):
            total += counts[row, i] * (linear_term[i] + 0.5 * deviations[i])
        totals[row] = total
    return totals
