"""The compiled loop: many runs of one policy in one world, from one round to another.

There is one for all: what a scenario adds is compiled only where there is one.
"""

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
    arm_added,
    arm_retired,
    init,
    unpack,
)
from influential_bandits.simulation.scenario_kernels import (
    Clock,
    Course,
    choose,
    let_time_pass,
    tell,
)
from influential_bandits.world.dynamics import (
    Progress,
    World,
    advance,
    expected_loss,
)
from influential_bandits.world.noise import Source, observed_loss

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
    course: Course | None,
    clock: Clock | None,
) -> None:
    """Play rounds ``first`` … ``last`` of every run, with what a scenario does to them if any.

    ``row`` is the number of the first run among all seeds, for recorded noise. If a policy chooses
    an arm out of range, ``fault`` gets the round, the arm and the run, and the loop ends.
    """
    world, noise, runs, output = borrowed((world, noise, runs, output))
    fault, course, clock = borrowed((fault, course, clock))
    for run in range(runs.counts.shape[0]):
        c, s = unpack_run(tag, config, shared, runs, run)
        if first == 1:
            init(tag, c, s)
        runs.loss[run, 0], runs.loss[run, 1] = play_rounds(
            tag,
            c,
            s,
            world,
            Progress(runs.counts[run], runs.weights[run], runs.low[run], runs.last[run]),
            noise,
            runs.memo[run],
            (runs.noise_keys[run, 0], runs.noise_keys[run, 1]),
            (runs.policy_keys[run, 0], runs.policy_keys[run, 1]),
            row + run,
            (runs.loss[run, 0], runs.loss[run, 1]),
            Output(
                output.checkpoints,
                output.counts[run],
                output.loss[run],
                output.choices[run],
                output.losses[run],
            ),
            first,
            last,
            fault,
            run,
            course,
            clock,
        )
        if fault[CHOSEN_ROUND] > 0:
            fault[CHOSEN_RUN] = run
            return


@inlined
def unpack_run(tag: Tag, config: Any, shared: StateArrays, runs: Runs, run: int) -> Any:
    """Return c and s of a run."""
    arrays = StateArrays(
        shared.layout, runs.ints[run], runs.floats[run], shared.known_ints, shared.known_floats
    )
    return unpack(tag, config, arrays)


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
    run: int,
    course: Course | None,
    clock: Clock | None,
) -> tuple[float, float]:
    """Play rounds ``first`` … ``last`` of one run; return its expected loss so far, high and low.

    The arrays of ``output`` are those of this run. All that plays runs one by one, on processors
    and on graphics processors, calls this.
    """
    fading = world.memory < 1.0 or clock is not None
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
            let_time_pass(tag, c, s, progress, run, t, clock)
            rng = stream_at(policy_keys[0], policy_keys[1], t)
            arm, is_offered = choose(tag, c, s, run, t, rng, course)
            if not is_offered:
                fault[CHOSEN_ROUND] = t
                fault[CHOSEN_ARM] = arm
                return total, rest
            expected = expected_loss(world, progress, arm, t)
            loss = observed_loss(noise, expected, noise_keys[0], noise_keys[1], row, t, arm)
            tell(tag, c, s, run, t, arm, loss, memo, course)
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
            for i in range(progress.counts.size):
                output.counts[checkpoint, i] = progress.counts[i]
            if fading:
                output.loss[checkpoint] = total + rest
            checkpoint += 1
    return total, rest


@kernel
def change_arm(
    tag: Tag, config: Any, shared: StateArrays, runs: Runs, arm: int, retires: bool
) -> None:
    """Tell every run's policy that an arm has come, or gone for good."""
    for run in range(runs.counts.shape[0]):
        c, s = unpack_run(tag, config, shared, runs, run)
        if retires:
            arm_retired(tag, c, s, arm)
        else:
            arm_added(tag, c, s, arm)
