"""When rounds are, where they come in sessions: a function of seed, instance and round."""

from __future__ import annotations

import numpy as np

from influential_bandits.numerics.arrays import Floats
from influential_bandits.numerics.compiling import inlined, kernel
from influential_bandits.numerics.streams import SESSIONS, stream_at, stream_keys, uniform


@inlined
def ends_before(
    session: int, geometric: bool, first_key: np.uint64, second_key: np.uint64, t: int
) -> bool:
    """Tell whether a session ended after round t − 1, so that a pause comes before round t."""
    if geometric:
        return uniform(stream_at(first_key, second_key, t), 0) * session < 1.0
    return (t - 1) % session == 0


@kernel
def fill_times(
    seed: np.uint64,
    instance: np.uint64,
    session: int,
    geometric: bool,
    gap: float,
    pause: float,
    times: Floats,
) -> None:
    """Write when each round of a run is, in seconds."""
    first_key, second_key = stream_keys(seed, instance, SESSIONS)
    for t in range(2, times.size + 1):
        ended = ends_before(session, geometric, first_key, second_key, t)
        times[t - 1] = times[t - 2] + (pause if ended else gap)
