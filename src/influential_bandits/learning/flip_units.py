"""Whose signs are flipped together: instances, groups of them, or blocks of long histories.

Scores of different instances are independent. Where instances are few, blocks of their histories
take their place: scores are martingale differences, so that blocks are unrelated as well.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from influential_bandits.errors import NotApplicable
from influential_bandits.learning.exposures import Units
from influential_bandits.learning.statistics.design import Events
from influential_bandits.logs.log import EventLog
from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.numerics.compiling import kernel
from influential_bandits.numerics.streams import RESAMPLING, stream_at, stream_keys, uniform

ENOUGH_INSTANCES = 50  # from here on, instances are units as they are
MOST_UNITS = 2000  # more instances than that are taken together, in groups
MOST_BLOCKS = 200
SHORTEST_BLOCK = 20  # events
FEWEST_UNITS = 12
FITTING_EVENTS = 10_000
FITTING_WORK = 10_000_000  # events times squared arms
SUBSAMPLE = 0  # number of a stream's round for the choice of instances; flips are 1, 2, …


def make_units(log: EventLog, events: Events, labels: Any) -> tuple[Units, Any, str]:
    """Return whose signs are flipped together, the key of each unit, and what units are."""
    usable = np.zeros(log.n_instances, np.int64)
    usable_events(events, log.n_arms, usable)
    instances = np.flatnonzero(usable)
    order = instances[np.argsort(labels[instances], kind="stable")]
    lengths = log.lengths[order]
    ranks = np.arange(len(order))
    if len(order) >= ENOUGH_INSTANCES:
        number = min(len(order), MOST_UNITS)
        first = ranks * number // len(order)
        starts = np.searchsorted(first, np.arange(number))
        kind = "instances" if number == len(order) else "groups of instances"
        return Units(order, first, np.ones_like(first), number), labels[order[starts]], kind
    length = max(SHORTEST_BLOCK, math.ceil(lengths.sum() / MOST_BLOCKS))
    blocks = np.maximum(lengths // length, 1)
    number = int(blocks.sum())
    if number < FEWEST_UNITS:
        raise NotApplicable(
            f"too little data: {number} independent pieces of history, and at least {FEWEST_UNITS} "
            f"are needed: as many instances that met an arm twice, or "
            f"{FEWEST_UNITS * SHORTEST_BLOCK} events of one instance"
        )
    first = np.cumsum(blocks) - blocks
    inside = np.arange(number) - np.repeat(first, blocks)
    keys = np.repeat(labels[order], blocks) + inside.astype(np.uint64)
    return Units(order, first, blocks, number), keys, "blocks of histories"


def draw_fitting_instances(log: EventLog, labels: Any, order: Ints, seed: np.uint64) -> Ints:
    """Return instances drawn at random that have enough events to fit variances by."""
    most = min(FITTING_EVENTS, max(2000, FITTING_WORK // (log.n_arms + 1) ** 2))
    drawn = order[np.argsort(_draw_numbers(seed, labels[order], SUBSAMPLE), kind="stable")]
    enough = int(np.searchsorted(np.cumsum(log.lengths[drawn]), most)) + 1
    return drawn[:enough]


@kernel
def _draw_numbers(seed: Any, keys: Any, t: int) -> Floats:
    out = np.empty(keys.size)
    for u in range(keys.size):
        first, second = stream_keys(seed, keys[u], RESAMPLING)
        out[u] = uniform(stream_at(first, second, t), 0)
    return out


@kernel
def draw_signs(seed: Any, keys: Any, flips: int) -> Floats:
    """Return ±1 for each flip and unit, (flips, units)."""
    out = np.empty((flips, keys.size))
    for u in range(keys.size):
        first, second = stream_keys(seed, keys[u], RESAMPLING)
        for t in range(flips):
            out[t, u] = 1.0 if uniform(stream_at(first, second, t + 1), 0) < 0.5 else -1.0
    return out


@kernel
def usable_events(events: Events, arms: int, out: Ints) -> None:
    """Count, for each instance, the events of an arm that it met before."""
    met = np.zeros(arms, np.bool_)
    for u in range(events.offsets.size - 1):
        met[:] = False
        for n in range(events.offsets[u], events.offsets[u + 1]):
            item = events.item[n]
            again = False
            for p in range(events.members[item], events.members[item + 1]):
                again |= met[events.arm[p]]
                met[events.arm[p]] = True
            out[u] += again
