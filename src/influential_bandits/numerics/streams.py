"""Random numbers as a function of (seed, instance, purpose, round, draw), never of the worker.

A stream is a pair of 64-bit keys made from (seed, instance, purpose). Round t turns it into a
:class:`Stream` of independent draws: two applications of SplitMix64's finaliser, a bijection of
64 bits, keyed before each. Nothing is carried from one draw to the next, so that any process,
batch, SIMD lane or GPU thread computes the draw it needs and gets the same bits.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from influential_bandits.numerics.compiling import inlined, kernel
from influential_bandits.numerics.portable import normal_quantile

NOISE = 1  # purposes: loss noise, the policy's own choices, instances, resampling, scenarios
POLICY = 2
INSTANCE = 3
RESAMPLING = 4
SCENARIO = 5
POPULATION = 6  # users, each with a stream of its own: taste, interaction, stay
SERVICE = 8  # of live decisions: who is in which group, and when to explore
SESSIONS = 9  # of a scenario: where a session of rounds ends
LEVELS = 10  # users, each with a stream of its own: how their level drifts
VISITS = 7  # of a fleet: whose round it is, who pauses, and when losses are told

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
SECOND = np.uint64(0xD1B54A32D192ED03)  # an odd constant without relation to GOLDEN
MULTIPLY_1 = np.uint64(0xBF58476D1CE4E5B9)
MULTIPLY_2 = np.uint64(0x94D049BB133111EB)
S27, S30, S31 = np.uint64(27), np.uint64(30), np.uint64(31)


Key = int | np.uint64


class Stream(NamedTuple):
    """The random numbers of one round; draw number i of it is ``uniform(stream, i)``."""

    state: np.uint64
    key: np.uint64


@inlined
def mix(x: np.uint64) -> np.uint64:
    """Return the finaliser of SplitMix64: a bijection of 64 bits that hides all structure of x."""
    x = (x ^ (x >> S30)) * MULTIPLY_1
    x = (x ^ (x >> S27)) * MULTIPLY_2
    return x ^ (x >> S31)


@kernel
def stream_keys(seed: Key, instance: Key, purpose: int) -> tuple[np.uint64, np.uint64]:
    """Return the two keys of the stream of (seed, instance, purpose)."""
    first = mix(np.uint64(seed) + GOLDEN)
    first = mix((first ^ np.uint64(instance)) + GOLDEN)
    first = mix((first ^ np.uint64(purpose)) + GOLDEN)
    second = mix(np.uint64(seed) + SECOND)
    second = mix((second ^ np.uint64(instance)) + SECOND)
    second = mix((second ^ np.uint64(purpose)) + SECOND)
    return first, second


@kernel
def key_table(seeds: npt.NDArray[np.uint64], instance: Key, purpose: int) -> npt.NDArray[np.uint64]:
    """Return the keys of a stream for each seed, (seeds, 2)."""
    table = np.empty((seeds.size, 2), np.uint64)
    for n in range(seeds.size):
        table[n, 0], table[n, 1] = stream_keys(seeds[n], instance, purpose)
    return table


@inlined
def stream_at(first_key: np.uint64, second_key: np.uint64, t: int) -> Stream:
    """Return the stream of round t."""
    state = mix(np.uint64(t) * GOLDEN + np.uint64(first_key))
    return Stream(state, np.uint64(second_key))


@inlined
def centred(stream: Stream, draw: int) -> float:
    """Return a uniform number in (−½, ½): (m + ½)·2⁻⁵² for a 52-bit signed integer m, never 0."""
    bits = mix(stream.state ^ (np.uint64(draw) * SECOND + stream.key))
    return (np.float64(np.int64(bits) >> 12) + 0.5) * 2.220446049250313e-16


@inlined
def uniform(stream: Stream, draw: int) -> float:
    """Return draw number ``draw`` of this round, uniform in (0, 1), both ends excluded.

    Examples
    --------
    In a policy, ``if uniform(rng, 0) < c.epsilon: …``; outside of one:

    >>> 0 < uniform(Stream(np.uint64(1), np.uint64(2)), 0) < 1
    True
    """
    return 0.5 + centred(stream, draw)


@inlined
def normal(stream: Stream, draw: int) -> float:
    """Return draw number ``draw`` of this round, standard normal (|z| < 8.3).

    Examples
    --------
    In a policy, ``index = s.mean[arm] + c.scale * normal(rng, arm)``; outside of one:

    >>> abs(normal(Stream(np.uint64(1), np.uint64(2)), 0)) < 8.3
    True
    """
    return normal_quantile(centred(stream, draw))


@kernel
def draw_uniform(seed: Key, instance: Key, purpose: int, t: int, draw: int) -> float:
    """Return one draw of a round, for callers that are not compiled.

    Examples
    --------
    >>> 0 < draw_uniform(np.uint64(1), np.uint64(2), SERVICE, 3, 0) < 1
    True
    """
    first, second = stream_keys(seed, instance, purpose)
    return uniform(stream_at(first, second, t), draw)


@kernel
def draw_normal(seed: Key, instance: Key, purpose: int, t: int, draw: int) -> float:
    """Return one standard normal draw of a round, for callers that are not compiled."""
    first, second = stream_keys(seed, instance, purpose)
    return normal(stream_at(first, second, t), draw)
