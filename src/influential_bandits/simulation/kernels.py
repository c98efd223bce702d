"""The compiled loop: many runs of one policy in one world, from one round to another."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.numerics.compiling import borrowed, kernel
from influential_bandits.numerics.double_double import two_sum
from influential_bandits.numerics.streams import stream_at
from influential_bandits.policies.compiled import (
    StateArrays,
    Tag,
    init,
    observed,
    pulled,
    select,
    unpack,
)
from influential_bandits.world.dynamics import (
    Progress,
    World,
    advance,
    borrowed_world,
    expected_loss,
)
from influential_bandits.world.noise import Source, borrowed_source, observed_loss

CHOSEN_ROUND, CHOSEN_ARM, CHOSEN_RUN = 0, 1, 2  # what `fault` says of an arm out of range


class Runs(NamedTuple):
    """Runs side by side: each array has one row a run."""

    ints: Ints  # (runs, …) policy state
    floats: Floats
    memo: Floats
    counts: Ints  # (runs, …) world progress, see world.dynamics.Progress
    weights: Floats
    low: Floats
    last: Ints
    loss: Floats  # (runs, 2) expected loss so far, as high + low part; kept for memory < 1
    noise_keys: Any  # (runs, 2) uint64
    policy_keys: Any  # (runs, 2) uint64


class Output(NamedTuple):
    """Where the results of the same runs go."""

    checkpoints: Ints  # (checkpoints,) increasing rounds
    counts: Ints  # (runs, checkpoints, arms)
    loss: Floats  # (runs, checkpoints) expected loss, or empty rows
    choices: Any  # (runs, horizon) int32 choices, or empty rows
    losses: Floats  # (runs, horizon) observed losses, or empty rows


@kernel
def advance_runs(
    tag: Tag,
    config: Any,
    shared: StateArrays,
    world: World,
    noise: Source,
    runs: Runs,
    output: Output,
    row: int,
    first: int,
    last: int,
    fault: Ints,
) -> None:
    """Play rounds ``first`` … ``last`` of every run.

    ``row`` is the number of the first run among all seeds, for recorded noise. If a policy chooses
    an arm out of range, ``fault`` gets the round, the arm and the run, and the loop ends.
    """
    world = borrowed_world(world)
    noise = borrowed_source(noise)
    choices, counts = borrowed(output.choices), borrowed(output.counts)
    losses_seen = borrowed(output.losses)
    expected_losses, marks = borrowed(output.loss), borrowed(output.checkpoints)
    n_arms = world.initial_loss.size
    fading = world.memory < 1.0
    recording, recording_losses = choices.shape[1] > 0, losses_seen.shape[1] > 0
    for run in range(runs.counts.shape[0]):
        arrays = StateArrays(
            shared.layout, runs.ints[run], runs.floats[run], shared.known_ints, shared.known_floats
        )
        c, s = unpack(tag, config, arrays)
        progress = Progress(
            borrowed(runs.counts)[run],
            borrowed(runs.weights)[run],
            borrowed(runs.low)[run],
            borrowed(runs.last)[run],
        )
        memo = borrowed(runs.memo)[run]
        noise_key_1, noise_key_2 = runs.noise_keys[run, 0], runs.noise_keys[run, 1]
        policy_key_1, policy_key_2 = runs.policy_keys[run, 0], runs.policy_keys[run, 1]
        total, rest = runs.loss[run, 0], runs.loss[run, 1]
        if first == 1:
            init(tag, c, s)
        checkpoint = np.searchsorted(marks, first)
        t = first
        while t <= last:
            stop = last
            if checkpoint < marks.size:
                stop = min(last, marks[checkpoint])
            while t <= stop:
                arm = select(tag, c, s, t, None, stream_at(policy_key_1, policy_key_2, t))
                if arm < 0 or arm >= n_arms:
                    fault[CHOSEN_ROUND] = t
                    fault[CHOSEN_ARM] = arm
                    fault[CHOSEN_RUN] = run
                    return
                expected = expected_loss(world, progress, arm, t)
                loss = observed_loss(noise, expected, noise_key_1, noise_key_2, row + run, t, arm)
                for k in range(memo.size):
                    memo[k] = 0.0
                pulled(tag, c, s, t, arm, memo)
                observed(tag, c, s, t, arm, memo, loss)
                advance(world, progress, arm, t)  # last: what a run has counted, it has survived
                if fading:
                    total, error = two_sum(total, expected)
                    rest += error
                if recording:
                    choices[run, t - 1] = arm
                if recording_losses:
                    losses_seen[run, t - 1] = loss
                t += 1
            if checkpoint < marks.size and stop == marks[checkpoint]:
                for i in range(n_arms):
                    counts[run, checkpoint, i] = progress.counts[i]
                if fading:
                    expected_losses[run, checkpoint] = total + rest
                checkpoint += 1
        runs.loss[run, 0], runs.loss[run, 1] = total, rest
