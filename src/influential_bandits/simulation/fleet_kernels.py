"""The compiled loop of a fleet: users in one order of rounds, and losses that come late."""

from __future__ import annotations

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
from influential_bandits.simulation.scenario_kernels import END, Flight, put_off, take_due
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
    flight: Flight,
    first: int,
    last: int,
) -> None:
    """Play the rounds first … last − 1 of a fleet; losses that are due come before a round.

    ``clocks`` (users,) are the times of users' latest rounds, where rounds have times.
    """
    noise = borrowed(source)
    nothing, no_low = np.empty(0, np.int64), np.empty(0)
    memo, looked = np.empty(flight.memo.shape[2]), np.empty(rules.n_arms)
    all_arms = np.ones(rules.n_arms, np.bool_)
    many = counts.shape[0]
    for r in range(first, last):
        place = take_due(flight, 0, r)
        while place != END:
            u, arm, loss = flight.pull[0, place], flight.arm[0, place], flight.loss[0, place]
            note_loss(rules, shared, own, many, u, arm, flight.memo[0, place], loss)
            place = flight.after[0, place]
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
        due = r + users.delays[r] + 1
        if users.delays[r] == 0:
            note_loss(rules, shared, own, many, u, arm, memo, loss)
        elif due < users.visits.size:
            flight.memo[0, r % flight.loss.shape[1]] = memo
            put_off(flight, 0, r, due, u, arm, loss)
