"""The random part of a population, compiled: tastes, own interactions, stays, and who comes when.

A user's numbers are a function of (seed, user), the order of a fleet's rounds one of (seed, round):
a fleet of more users has the same first ones.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.numerics.compiling import inlined, kernel
from influential_bandits.numerics.portable import log
from influential_bandits.numerics.streams import (
    LEVELS,
    POPULATION,
    VISITS,
    Key,
    Stream,
    normal,
    stream_at,
    stream_keys,
    uniform,
)
from influential_bandits.world.dynamics import ordered_dot
from influential_bandits.world.factorisation import clip_eigenvalues, is_definite

# What the rounds of a user's stream are for, and the draws of a round of the fleet.
LOSS, STAY, FIRST_ROW = 0, 1, 2
SEAT, PAUSE, DELAY = 0, 1, 2


@kernel
def draw_losses(seed: Key, mean: Floats, root: Floats, out: Floats) -> None:
    """Write mean + root·z into ``out`` (users, arms), with z ~ N(0, 1) of each user."""
    z = np.empty(root.shape[1])
    for user in range(out.shape[0]):
        first_key, second_key = stream_keys(seed, np.uint64(user), POPULATION)
        stream = stream_at(first_key, second_key, LOSS)
        for k in range(z.size):
            z[k] = normal(stream, k)
        for arm in range(mean.size):
            out[user, arm] = mean[arm] + ordered_dot(root[arm], z)


@inlined
def geometric(stream: Stream, draw: int, log_ratio: float) -> int:
    """Return a number 0, 1, 2, …, each e^log_ratio times as likely as the one before it."""
    return int(log(uniform(stream, draw)) / log_ratio)


@kernel
def draw_stays(seed: Key, mean: int, out: Ints) -> None:
    """Write into ``out`` (users,) stays of 1, 2, … rounds, geometric with this mean above 1."""
    log_ratio = log((mean - 1.0) / mean)
    for user in range(out.size):
        first_key, second_key = stream_keys(seed, np.uint64(user), POPULATION)
        out[user] = 1 + geometric(stream_at(first_key, second_key, STAY), 0, log_ratio)


@kernel
def draw_around(seed: Key, shared: Floats, spread: float, clip: bool, out: Floats) -> None:
    """Write into ``out`` (users, arms, arms) the shared matrix and symmetric noise of each user.

    With ``clip``, eigenvalues below 0 become 0.
    """
    n_arms = shared.shape[0]
    for user in range(out.shape[0]):
        first_key, second_key = stream_keys(seed, np.uint64(user), POPULATION)
        own = out[user]
        for i in range(n_arms):
            stream = stream_at(first_key, second_key, FIRST_ROW + i)
            for j in range(i + 1):
                own[i, j] = own[j, i] = shared[i, j] + spread * normal(stream, j)
        if clip and not is_definite(own):
            clip_eigenvalues(own)


@kernel
def draw_unlike(seed: Key, size: float, out: Floats) -> None:
    """Write into ``out`` (users, arms, arms) BᵀB of each user, its largest entry being ``size``."""
    n_arms = out.shape[1]
    rows = np.empty((n_arms, n_arms))
    for user in range(out.shape[0]):
        first_key, second_key = stream_keys(seed, np.uint64(user), POPULATION)
        for i in range(n_arms):
            stream = stream_at(first_key, second_key, FIRST_ROW + i)
            for j in range(n_arms):
                rows[i, j] = normal(stream, j)
        largest = 0.0
        for i in range(n_arms):
            for j in range(i + 1):
                entry = ordered_dot(rows[i], rows[j])
                out[user, i, j] = out[user, j, i] = entry
            largest = max(largest, out[user, i, i])
        for i in range(n_arms):
            for j in range(n_arms):
                out[user, i, j] *= size / largest


@kernel
def order_visits(
    seed: Key,
    stays: Ints,
    concurrency: int,
    returning: float,
    visits: npt.NDArray[np.int32],
) -> None:
    """Write the user of each round of the fleet into ``visits`` (rounds,): one of those present."""
    n_users = stays.size
    first_key, second_key = stream_keys(seed, np.uint64(0), VISITS)
    left = stays.copy()
    present = min(concurrency, n_users)
    newcomer = present
    seats = np.arange(present)
    paused = np.empty(present + 1, np.int64)  # a queue in a ring
    head = waiting = 0
    for t in range(visits.size):
        stream = stream_at(first_key, second_key, t)
        seat = min(int(uniform(stream, SEAT) * present), present - 1) if present > 1 else 0
        user = seats[seat]
        visits[t] = user
        left[user] -= 1
        if left[user] > 0:
            if returning == 0.0 or uniform(stream, PAUSE) >= returning:
                continue
            paused[(head + waiting) % paused.size] = user
            waiting += 1
        if newcomer < n_users and waiting <= concurrency:
            seats[seat] = newcomer
            newcomer += 1
        elif waiting > 0:
            seats[seat] = paused[head]
            head = (head + 1) % paused.size
            waiting -= 1
        else:
            present -= 1
            seats[seat] = seats[present]


@kernel
def draw_levels(
    seed: Key, visits: npt.NDArray[np.int32], drift: float, memory: float, out: Floats
) -> None:
    """Write into ``out`` (rounds,) the level of the user of each round: an autoregression each.

    Its deviation is ``drift`` from the first round on, and ``memory`` its correlation from one
    round of the user to the next.
    """
    users = visits.max() + 1
    level, rounds = np.zeros(users), np.zeros(users, np.int64)
    fresh = drift * math.sqrt(1.0 - memory * memory)
    for t in range(visits.size):
        user = visits[t]
        first_key, second_key = stream_keys(seed, np.uint64(user), LEVELS)
        new = normal(stream_at(first_key, second_key, rounds[user]), 0)
        level[user] = memory * level[user] + (drift if rounds[user] == 0 else fresh) * new
        rounds[user] += 1
        out[t] = level[user]


@kernel
def draw_delays(seed: Key, mean: int, out: Ints) -> None:
    """Write into ``out`` (rounds,) delays of 0, 1, 2, … rounds, geometric with this mean."""
    first_key, second_key = stream_keys(seed, np.uint64(0), VISITS)
    log_ratio = log(mean / (mean + 1.0))
    for t in range(out.size):
        out[t] = geometric(stream_at(first_key, second_key, t), DELAY, log_ratio)
