"""The compiled loop of a fleet: one order of rounds, users of many worlds, losses that come late."""

from __future__ import annotations

import numpy as np

from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.numerics.compiling import kernel
from influential_bandits.policies.fleet.rules import Room, decide, note_loss, note_pull
from influential_bandits.policies.fleet.states import Apart, Own, Rules, Shared
from influential_bandits.world.dynamics import (
    DENSE,
    Progress,
    World,
    advance,
    expected_loss,
)
from influential_bandits.world.noise import Source, borrowed_source, observed_loss


@kernel
def play_fleet(
    rules: Rules,
    shared: Shared,
    own: Own,
    apart: Apart,
    room: Room,
    source: Source,
    interaction: Floats,
    initial_loss: Floats,
    memory: float,
    keys: np.ndarray,  # type: ignore[type-arg]
    visits: Ints,
    delays: Ints,
    counts: Ints,
    weights: Floats,
    losses: Floats,
    waiting: tuple[Ints, Ints, Ints, Ints, Floats, Floats],
    first: int,
    last: int,
) -> None:
    """Play the rounds first … last − 1 of a fleet.

    ``waiting`` holds losses under way: for each round, the first that comes before it, and for each
    place the next one, its user, its arm, its loss and its memo; place 0 of ``next_free`` is the
    first free one.
    """
    noise = borrowed_source(source)
    due, after, who, which, value, memos = waiting
    no_columns, no_low, no_last = np.empty(0, np.int64), np.empty(0), np.empty(0, np.int64)
    memo = np.empty(rules.memories.size * rules.n_arms)
    users = counts.shape[0]
    known = 0
    for r in range(first, last):
        spot = due[r]
        while spot >= 0:
            note_loss(
                rules, shared, own, apart, users, who[spot], which[spot], memos[spot],
                value[spot], room,
            )
            following = after[spot]
            after[spot] = after[-1]
            after[-1] = spot
            spot = following
        u = visits[r]
        known = max(known, u + 1)
        t = 1
        for k in range(rules.n_arms):
            t += counts[u, k]
        world = World(
            DENSE,
            interaction[min(u, interaction.shape[0] - 1)],
            no_columns,
            no_columns,
            initial_loss[u],
            memory,
        )
        progress = Progress(counts[u], weights[u], no_low, no_last)
        arm = decide(rules, shared, own, apart, u, None, room)
        expected = expected_loss(world, progress, arm, t)
        loss = observed_loss(noise, expected, keys[u, 0], keys[u, 1], 0, t, arm)
        losses[u] += expected
        advance(world, progress, arm, t)
        note_pull(rules, shared, own, apart, u, arm, memo)
        if delays[r] == 0:
            note_loss(rules, shared, own, apart, users, u, arm, memo, loss, room)
        elif r + delays[r] + 1 < due.size:
            spot = after[-1]
            after[-1] = after[spot]
            who[spot], which[spot], value[spot] = u, arm, loss
            memos[spot] = memo
            after[spot] = due[r + delays[r] + 1]
            due[r + delays[r] + 1] = spot
