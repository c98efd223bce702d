"""The compiled loop over groups, blocks of rounds and checkpoints."""

from __future__ import annotations

from typing import Any

import numpy as np

from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.numerics.compiling import borrowed, inlined, kernel
from influential_bandits.numerics.portable import (
    CENTRAL,
    central_quantile,
    log,
    tail_quantile,
)
from influential_bandits.numerics.streams import NOISE, stream_keys
from influential_bandits.simulation.simd.instructions import draw_centred, play_round
from influential_bandits.simulation.simd.layout import (
    ROUNDS_PER_BLOCK,
    Words,
    lanes_for,
    weight_slot,
)
from influential_bandits.world.noise import GAUSSIAN, UNIFORM, NoiseSource


@kernel
def fill_keys(seeds: Words, numbers: Words, keys: Words) -> None:
    """Write the keys of the noise of (seed, instance number), each (groups, lanes)."""
    groups, lanes = seeds.shape
    for group in range(groups):
        for lane in range(lanes):
            first, second = stream_keys(seeds[group, lane], numbers[group, lane], NOISE)
            keys[group, lane] = first
            keys[group, lanes + lane] = second


@kernel
def advance_lanes(
    arms: tuple[int, ...],
    bound: float | None,
    noise: NoiseSource,
    state: Floats,
    keys: Words,
    scratch: Floats,
    counts: Ints,
    marks: Ints,
    first: int,
    last: int,
) -> None:
    """Play rounds ``first`` … ``last`` of every group.

    ``arms`` is a tuple of that length; ``bound`` is InfluentialLCB's, and None for LCB.
    """
    lanes = lanes_for(len(arms))
    scratch = borrowed(scratch)
    block = scratch[0]
    for group in range(state.shape[0]):
        own_state, own_keys = borrowed(state)[group], borrowed(keys)[group]
        checkpoint = np.searchsorted(marks, first)
        t = first
        while t <= last:
            stop = min(last, t + ROUNDS_PER_BLOCK - 1)
            if checkpoint < marks.size:
                stop = min(stop, marks[checkpoint])
            draw_noise(arms, noise, own_keys, scratch, t, stop)
            for now in range(t, stop + 1):
                if bound is None:
                    play_round(arms, bound, own_state, block, now - t, now, 2.0 * log(float(now)))
                else:
                    play_round(arms, bound, own_state, block, now - t, now, bound * now)
            if checkpoint < marks.size and stop == marks[checkpoint]:
                keep_counts(len(arms), lanes, own_state, counts, group * lanes, checkpoint)
                checkpoint += 1
            t = stop + 1


@inlined
def keep_counts(
    n_arms: int, lanes: int, state: Floats, counts: Ints, run: int, checkpoint: Any
) -> None:
    """Copy the counts of a group whose first run is ``run``; idle lanes have no place."""
    for lane in range(min(lanes, counts.shape[0] - run)):
        for arm in range(n_arms):
            pulls = state[weight_slot(n_arms, arm) * lanes + lane]
            counts[run + lane, checkpoint, arm] = np.int64(pulls)


@inlined
def draw_noise(
    arms: tuple[int, ...], noise: NoiseSource, keys: Words, scratch: Floats, first: int, last: int
) -> None:
    """Write the noise of some rounds into ``scratch[0]``, a slot for each round."""
    if noise.kind in (UNIFORM, GAUSSIAN):
        block = scratch[0]
        for t in range(first, last + 1):
            draw_centred(arms, keys, block, t - first, t)
        size = (last - first + 1) * lanes_for(len(arms))
        if noise.kind == UNIFORM:
            for i in range(size):
                block[i] = noise.scale * (2.0 * block[i])
        else:
            make_normal(noise.scale, block, scratch[1], scratch[2], size)


@inlined
def make_normal(scale: float, block: Floats, tails: Floats, places: Floats, size: int) -> None:
    """Turn centred uniform numbers into normal ones, ``scale * normal_quantile(q)``, in place.

    The few in the tails take twice as long as the others. They are gathered, so that both loops
    have one kind of work and vectorise.
    """
    many = 0
    for i in range(size):
        tails[many] = block[i]
        places[many] = i
        many += abs(block[i]) > CENTRAL
    for i in range(size):
        block[i] = scale * central_quantile(block[i])
    for n in range(many):
        tails[n] = scale * tail_quantile(tails[n])
    for n in range(many):
        block[np.int64(places[n])] = tails[n]
