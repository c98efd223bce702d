"""The histories of synthetic logs, compiled: who meets which arm when, and how bad it is.

Every random number is a function of (seed, number of the instance, number of the event, what it is
for), so that a history depends neither on the other instances nor on the thread that makes it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.numerics.compiling import inlined, kernel
from influential_bandits.numerics.portable import log
from influential_bandits.numerics.streams import (
    Stream,
    normal,
    stream_at,
    stream_keys,
    uniform,
)

# A purpose of streams besides those of numerics.streams: a log and a planted interaction of the
# same seed must not share random numbers.
HISTORY = 0x5348
BURST, GAP, ARM, NOISE, DRIFT = 0, 1, 2, 3, 4  # draws of an event; events are rounds 1, 2, …
BEGINNING = 0  # the round in which an instance's l1 is drawn

SECONDS_IN_BURST = 30.0
BEST, WORST = 0.0, 4.5  # losses of 5 stars and of half a star, where losses are rounded


class Model(NamedTuple):
    """What histories are drawn from, as compiled code sees it."""

    seed: np.uint64
    interaction: Floats  # (arms, arms)
    initial_loss: Floats  # (arms,)
    log_popularity: Floats  # (arms,), −∞ for an arm that is never drawn
    memory: float
    half_life: float  # seconds; 0: influence fades by events, not by the clock
    noise: float
    spread: float
    drift: float
    drift_memory: float
    grid: float  # 0: losses are not rounded
    bursts: float
    steering: float
    taste: float
    gap: float  # seconds


class InstanceState(NamedTuple):
    """The losses of one instance and its events so far; the arrays are used again for the next."""

    initial_loss: Floats  # l1, (arms,)
    deviation: Floats  # d, (arms,): faded counts
    seen: Floats  # (arms,): sums of the losses met
    counts: Floats  # (arms,)
    chance: Floats  # (arms,): cumulated weights of the next arm, not normalised


@kernel
def write_histories(
    model: Model,
    first: int,
    offsets: Ints,
    arm: npt.NDArray[np.int32],
    loss: Floats,
    time: Floats,
    initial_losses: Floats,
) -> None:
    """Fill in the events of instances first, first + 1, …, and their initial losses.

    Histories begin at ``offsets`` (instances + 1,) in ``arm``, ``loss`` and ``time`` (events,).
    ``initial_losses`` (instances, arms) are not wanted if there are no rows for them.
    """
    arms = model.initial_loss.size
    state = InstanceState(
        np.empty(arms), np.empty(arms), np.empty(arms), np.empty(arms), np.empty(arms)
    )
    for u in range(offsets.size - 1):
        first_key, second_key = stream_keys(model.seed, first + u, HISTORY)
        _begin(model, state, stream_at(first_key, second_key, BEGINNING))
        low, high = offsets[u], offsets[u + 1]
        _write_history(
            model, state, first_key, second_key, arm[low:high], loss[low:high], time[low:high]
        )
        if initial_losses.shape[0] > 0:
            initial_losses[u] = state.initial_loss


@inlined
def _begin(model: Model, state: InstanceState, rng: Stream) -> None:
    """Draw l1; nothing has happened yet."""
    for i in range(model.initial_loss.size):
        state.initial_loss[i] = model.initial_loss[i] + model.spread * normal(rng, i)
        state.deviation[i] = state.seen[i] = state.counts[i] = 0.0


@kernel
def _write_history(
    model: Model,
    state: InstanceState,
    first_key: np.uint64,
    second_key: np.uint64,
    arm: npt.NDArray[np.int32],
    loss: Floats,
    time: Floats,
) -> None:
    """Fill in one history."""
    chosen = 0
    drift = total = now = 0.0
    fresh_drift = model.drift * math.sqrt(1.0 - model.drift_memory * model.drift_memory)
    by_clock = model.half_life > 0.0
    _weigh(model, state, 0.0)
    for n in range(arm.size):
        rng = stream_at(first_key, second_key, n + 1)
        burst = n > 0 and uniform(rng, BURST) < model.bursts
        before = now
        now += SECONDS_IN_BURST if burst else -model.gap * log(uniform(rng, GAP))
        if by_clock:
            # From the times as they are written, so that a reader can repeat it to the last bit.
            _fade(state.deviation, 2.0 ** ((before - now) / model.half_life))
        if not burst:
            if model.steering != 0.0 and n > 0:
                _weigh(model, state, total / n)
            chosen = _pick(state.chance, uniform(rng, ARM))
        if n == 0:
            drift = model.drift * normal(rng, DRIFT)
        else:
            drift = model.drift_memory * drift + fresh_drift * normal(rng, DRIFT)
        value = state.initial_loss[chosen] + _dot(model.interaction[chosen], state.deviation)
        value += drift + model.noise * normal(rng, NOISE)
        if model.grid > 0.0:
            value = np.floor(value / model.grid + 0.5) * model.grid
            value = min(max(value, BEST), WORST)
        arm[n], loss[n], time[n] = chosen, value, now
        state.seen[chosen] += value
        state.counts[chosen] += 1.0
        total += value
        if not by_clock:
            _fade(state.deviation, model.memory)
        state.deviation[chosen] += 1.0


@inlined
def _weigh(model: Model, state: InstanceState, mean: float) -> None:
    """Cumulate the weights of all arms: popularity, taste and steering by the losses met."""
    largest = -np.inf
    for j in range(state.chance.size):
        weight = model.log_popularity[j] - model.taste * state.initial_loss[j]
        if state.counts[j] > 0.0:
            weight -= model.steering * (state.seen[j] / state.counts[j] - mean)
        state.chance[j] = weight
        largest = max(largest, weight)
    total = 0.0
    for j in range(state.chance.size):
        total += math.exp(state.chance[j] - largest)
        state.chance[j] = total


@inlined
def _pick(cumulated: Floats, share: float) -> int:
    """Return the first arm whose cumulated weight exceeds this share of all, 0 < share < 1."""
    target = share * cumulated[-1]
    chosen = 0
    while cumulated[chosen] <= target:
        chosen += 1
    return chosen


@inlined
def _fade(deviation: Floats, left: float) -> None:
    if left != 1.0:
        for j in range(deviation.size):
            deviation[j] *= left


@inlined
def _dot(row: Floats, deviation: Floats) -> float:
    total = 0.0
    for j in range(row.size):
        total += row[j] * deviation[j]
    return total
