"""The compiled loop of a fleet: users in one order of rounds, and losses that come late."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from influential_bandits.checks import HOUR
from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.numerics.compiling import borrowed, kernel
from influential_bandits.numerics.portable import halve
from influential_bandits.policies.foresight.users import (
    Own,
    Rules,
    Shared,
    decide,
    note_loss,
    note_pull,
    note_time,
)
from influential_bandits.world.dynamics import (
    DENSE,
    Progress,
    World,
    advance,
    elapse,
    expected_loss,
)
from influential_bandits.world.noise import Source, observed_loss
from influential_bandits.world.population import Users


class Waiting(NamedTuple):
    """Losses under way, in places that are used again."""

    due: Ints  # (rounds + 1,): the first that comes before each round, or −1
    end: Ints  # (rounds + 1,): the last of them
    after: Ints  # (places,): the one after it, or the next free place
    free: Ints  # (1,): the first free place
    user: Ints  # (places,)
    arm: Ints  # (places,)
    loss: Floats  # (places,)
    memo: Floats  # (places, memories·arms)


@kernel
def play_fleet(
    rules: Rules,
    shared: Shared,
    own: Own,
    source: Source,
    users: Users,
    keys: npt.NDArray[np.uint64],
    counts: Ints,
    weights: Floats,
    losses: Floats,
    clocks: Floats,
    waiting: Waiting,
    first: int,
    last: int,
) -> None:
    """Play the rounds first … last − 1 of a fleet; losses that are due come before a round.

    ``clocks`` (users,) are the times of users' latest rounds, where rounds have times.
    """
    noise = borrowed(source)
    nothing, no_low = np.empty(0, np.int64), np.empty(0)
    memo, looked = np.empty(waiting.memo.shape[1]), np.empty(rules.n_arms)
    all_arms = np.ones(rules.n_arms, np.bool_)
    many = counts.shape[0]
    for r in range(first, last):
        spot = waiting.due[r]
        while spot >= 0:
            u, arm = waiting.user[spot], waiting.arm[spot]
            note_loss(rules, shared, own, many, u, arm, waiting.memo[spot], waiting.loss[spot])
            following = waiting.after[spot]
            waiting.after[spot] = waiting.free[0]
            waiting.free[0] = spot
            spot = following
        u = users.visits[r]
        t = 1
        for k in range(rules.n_arms):
            t += counts[u, k]
        matrix = users.interaction[min(u, users.interaction.shape[0] - 1)]
        world = World(DENSE, matrix, nothing, nothing, users.initial_loss[u], users.memory)
        progress = Progress(counts[u], weights[u], no_low, nothing)
        if users.times.size > 0:
            at = users.times[r]
            if t > 1:
                elapse(progress, halve((at - clocks[u]) / HOUR / users.half_life))
            clocks[u] = at
            note_time(rules, shared, own, u, at)
        arm = decide(rules, shared, own, u, all_arms, looked)
        expected = expected_loss(world, progress, arm, t)
        loss = observed_loss(noise, expected, keys[u, 0], keys[u, 1], 0, t, arm)
        if users.levels.size > 0:
            loss += users.levels[r]
        losses[u] += expected
        advance(world, progress, arm, t)
        note_pull(rules, shared, own, u, arm, memo)
        when = r + users.delays[r] + 1
        if users.delays[r] == 0:
            note_loss(rules, shared, own, many, u, arm, memo, loss)
        elif when < waiting.due.size:
            spot = waiting.free[0]
            waiting.free[0] = waiting.after[spot]
            waiting.user[spot], waiting.arm[spot], waiting.loss[spot] = u, arm, loss
            waiting.memo[spot] = memo
            waiting.after[spot] = -1
            if waiting.due[when] < 0:
                waiting.due[when] = spot
            else:
                waiting.after[waiting.end[when]] = spot
            waiting.end[when] = spot
