"""The compiled loop: many runs of one policy in one world, from one round to another."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.numerics.compiling import borrowed, inlined, kernel
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
        if first == 1:
            init(tag, c, s)
        runs.loss[run, 0], runs.loss[run, 1] = play_rounds(
            tag,
            c,
            s,
            world,
            progress,
            noise,
            borrowed(runs.memo)[run],
            (runs.noise_keys[run, 0], runs.noise_keys[run, 1]),
            (runs.policy_keys[run, 0], runs.policy_keys[run, 1]),
            row + run,
            (runs.loss[run, 0], runs.loss[run, 1]),
            Output(marks, counts[run], expected_losses[run], choices[run], losses_seen[run]),
            first,
            last,
            borrowed(fault),
        )
        if fault[CHOSEN_ROUND] > 0:
            fault[CHOSEN_RUN] = run
            return


@inlined
def play_rounds(
    tag: Tag,
    c: Any,
    s: Any,
    world: World,
    progress: Progress,
    noise: Source,
    memo: Floats,
    noise_keys: tuple[np.uint64, np.uint64],
    policy_keys: tuple[np.uint64, np.uint64],
    row: int,
    loss_so_far: tuple[float, float],
    output: Output,
    first: int,
    last: int,
    fault: Ints,
) -> tuple[float, float]:
    """Play rounds ``first`` … ``last`` of one run; return its expected loss so far, high and low.

    The arrays of ``output`` are those of this run. All that plays runs one by one, on processors
    and on graphics processors, calls this.
    """
    n_arms = world.initial_loss.size
    fading = world.memory < 1.0
    marks = output.checkpoints
    recording, recording_losses = output.choices.size > 0, output.losses.size > 0
    total, rest = loss_so_far
    checkpoint = 0
    while checkpoint < marks.size and marks[checkpoint] < first:
        checkpoint += 1
    t = first
    while t <= last:
        stop = last
        if checkpoint < marks.size:
            stop = min(last, marks[checkpoint])
        while t <= stop:
            arm = select(tag, c, s, t, None, stream_at(policy_keys[0], policy_keys[1], t))
            if arm < 0 or arm >= n_arms:
                fault[CHOSEN_ROUND] = t
                fault[CHOSEN_ARM] = arm
                return total, rest
            expected = expected_loss(world, progress, arm, t)
            loss = observed_loss(noise, expected, noise_keys[0], noise_keys[1], row, t, arm)
            for k in range(memo.size):
                memo[k] = 0.0
            pulled(tag, c, s, t, arm, memo)
            observed(tag, c, s, t, arm, memo, loss)
            advance(world, progress, arm, t)  # last: what a run has counted, it has survived
            if fading:
                total, error = two_sum(total, expected)
                rest += error
            if recording:
                output.choices[t - 1] = arm
            if recording_losses:
                output.losses[t - 1] = loss
            t += 1
        if checkpoint < marks.size and stop == marks[checkpoint]:
            for i in range(n_arms):
                output.counts[checkpoint, i] = progress.counts[i]
            if fading:
                output.loss[checkpoint] = total + rest
            checkpoint += 1
    return total, rest
