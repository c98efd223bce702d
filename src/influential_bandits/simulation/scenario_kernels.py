"""The compiled loop of a scenario: as in `kernels.py`, but losses come late and arms come and go.

A loop of its own, because the plain one is too fast to carry this along.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from influential_bandits.checks import HOUR
from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.numerics.compiling import borrowed, inlined, kernel
from influential_bandits.numerics.double_double import two_sum
from influential_bandits.numerics.portable import halve, log
from influential_bandits.numerics.streams import stream_at, uniform
from influential_bandits.policies.compiled import (
    StateArrays,
    Tag,
    arm_added,
    arm_retired,
    elapsed,
    init,
    observed,
    pulled,
    select,
    unpack,
)
from influential_bandits.simulation.kernels import (
    CHOSEN_ARM,
    CHOSEN_ROUND,
    CHOSEN_RUN,
    Output,
    Runs,
)
from influential_bandits.simulation.session_times import ends_before
from influential_bandits.world.dynamics import (
    Progress,
    World,
    advance,
    borrowed_world,
    elapse,
    expected_loss,
)
from influential_bandits.world.noise import Source, borrowed_source, observed_loss

Bools = npt.NDArray[np.bool_]

FIXED, UNIFORM, GEOMETRIC = 0, 1, 2  # delay laws
NOBODY = -1  # the end of a list


class Rules(NamedTuple):
    """A scenario as compiled code sees it."""

    law: int  # FIXED, UNIFORM or GEOMETRIC
    delay: int
    log_ratio: float  # geometric: log(delay/(delay + 1))
    batch: int
    eligible: float
    horizon: int


class Flight(NamedTuple):
    """Losses under way: the pull of round t lies in place t mod places, in the list of its arrival.

    Lists are kept in the order of the pulls, one for each round to come.
    """

    first: Ints  # (runs, places) head of the list of the losses that arrive in a round, or NOBODY
    last: Ints  # (runs, places) its end
    after: Ints  # (runs, places) the next one of the same list, or NOBODY
    round: Ints  # (runs, places) of the pull
    arm: Ints  # (runs, places)
    loss: Floats  # (runs, places)
    memo: Floats  # (runs, places, memo)
    keys: Any  # (runs, 2) uint64 of the scenario's random numbers


class Clock(NamedTuple):
    """When rounds are, and how fast the world forgets."""

    times: Floats  # (rounds,) seconds; empty where rounds come in sessions
    session: int
    geometric: bool
    gap: float  # seconds between two rounds of a session
    pause: float  # seconds between two sessions
    half_life: float  # of the world, in hours; infinite if nothing fades by the clock
    keys: Any  # (runs, 2) uint64 of where sessions end


@inlined
def count_hours(clock: Clock, first_key: np.uint64, second_key: np.uint64, t: int) -> float:
    """Return the hours between round t − 1 and round t."""
    if clock.times.size > 0:
        return (clock.times[t - 1] - clock.times[t - 2]) / HOUR
    ended = ends_before(clock.session, clock.geometric, first_key, second_key, t)
    return (clock.pause if ended else clock.gap) / HOUR


@inlined
def arrival(rules: Rules, first_key: np.uint64, second_key: np.uint64, t: int) -> int:
    """Return the round after which the loss of the pull of round t is handed over."""
    wait = rules.delay
    if wait > 0 and rules.law != FIXED:
        u = uniform(stream_at(first_key, second_key, t), 0)
        if rules.law == UNIFORM:
            wait = min(int(u * (wait + 1)), wait)
        else:
            wait = int(log(u) / rules.log_ratio)
    there = t + wait
    late = there % rules.batch
    return there if late == 0 else there + rules.batch - late


@inlined
def make_offer(
    rules: Rules, first_key: np.uint64, second_key: np.uint64, t: int, in_use: Bools, offer: Bools
) -> None:
    """Write into ``offer`` which arms can be pulled in round t."""
    stream = stream_at(first_key, second_key, t)
    closest, smallest, several = -1, 2.0, False
    for arm in range(in_use.size):
        offer[arm] = in_use[arm]
        if in_use[arm] and rules.eligible < 1.0:
            u = uniform(stream, arm + 1)
            offer[arm] = u < rules.eligible
            several |= offer[arm]
            if u < smallest:
                closest, smallest = arm, u
    if closest >= 0 and not several:
        offer[closest] = True


@kernel
def advance_scenario(
    tag: Tag,
    config: Any,
    shared: StateArrays,
    world: World,
    noise: Source,
    runs: Runs,
    flight: Flight,
    output: Output,
    rules: Rules,
    in_use: Bools,
    memo_size: int,
    row: int,
    start: int,
    end: int,
    fault: Ints,
    clock: Clock | None,
) -> None:
    """Play rounds ``start`` … ``end`` of every run; ``in_use`` (arms known to the policy,).

    Without a clock, rounds have no times, and nothing that concerns them is compiled.
    """
    world = borrowed_world(world)
    noise = borrowed_source(noise)
    choices, counts = borrowed(output.choices), borrowed(output.counts)
    losses_seen = borrowed(output.losses)
    expected_losses, marks = borrowed(output.loss), borrowed(output.checkpoints)
    fading = world.memory < 1.0 or clock is not None
    recording, recording_losses = choices.shape[1] > 0, losses_seen.shape[1] > 0
    places = flight.loss.shape[1]
    restricted = rules.eligible < 1.0 or not in_use.all()
    offer = in_use.copy()
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
        first, last, after = flight.first[run], flight.last[run], flight.after[run]
        pulls, arms, losses = flight.round[run], flight.arm[run], flight.loss[run]
        memos = borrowed(flight.memo)[run]
        noise_key_1, noise_key_2 = runs.noise_keys[run, 0], runs.noise_keys[run, 1]
        policy_key_1, policy_key_2 = runs.policy_keys[run, 0], runs.policy_keys[run, 1]
        key_1, key_2 = flight.keys[run, 0], flight.keys[run, 1]
        total, rest = runs.loss[run, 0], runs.loss[run, 1]
        if start == 1:
            init(tag, c, s)
        checkpoint = np.searchsorted(marks, start)
        for t in range(start, end + 1):
            if clock is not None and t > 1:
                hours = count_hours(clock, clock.keys[run, 0], clock.keys[run, 1], t)
                elapse(progress, halve(hours / clock.half_life))
                elapsed(tag, c, s, hours)
            rng = stream_at(policy_key_1, policy_key_2, t)
            if restricted:
                make_offer(rules, key_1, key_2, t, in_use, offer)
                arm = select(tag, c, s, t, borrowed(offer), rng)
            else:
                arm = select(tag, c, s, t, None, rng)
            if arm < 0 or arm >= offer.size or not offer[arm]:
                fault[CHOSEN_ROUND] = t
                fault[CHOSEN_ARM] = arm
                fault[CHOSEN_RUN] = run
                return
            expected = expected_loss(world, progress, arm, t)
            loss = observed_loss(noise, expected, noise_key_1, noise_key_2, row + run, t, arm)
            place = t % places
            memo = memos[place, :memo_size]
            for k in range(memo.size):
                memo[k] = 0.0
            pulled(tag, c, s, t, arm, memo)

            due = arrival(rules, key_1, key_2, t)
            if due <= rules.horizon:  # others would never be seen
                pulls[place], arms[place], losses[place] = t, arm, loss
                after[place] = NOBODY
                when = due % places
                if first[when] == NOBODY:
                    first[when] = place
                else:
                    after[last[when]] = place
                last[when] = place
            item = first[t % places]
            first[t % places] = NOBODY
            while item != NOBODY:
                told = memos[item, :memo_size]
                observed(tag, c, s, pulls[item], arms[item], told, losses[item])
                item = after[item]
            advance(world, progress, arm, t)  # last: what a run has counted, it has survived

            if fading:
                total, error = two_sum(total, expected)
                rest += error
            if recording:
                choices[run, t - 1] = arm
            if recording_losses:
                losses_seen[run, t - 1] = loss
            if checkpoint < marks.size and t == marks[checkpoint]:
                for i in range(progress.counts.size):
                    counts[run, checkpoint, i] = progress.counts[i]
                if fading:
                    expected_losses[run, checkpoint] = total + rest
                checkpoint += 1
        runs.loss[run, 0], runs.loss[run, 1] = total, rest


@kernel
def change_arm(
    tag: Tag, config: Any, shared: StateArrays, runs: Runs, arm: int, retires: bool
) -> None:
    """Tell every run's policy that an arm has come, or gone for good."""
    for run in range(runs.counts.shape[0]):
        arrays = StateArrays(
            shared.layout, runs.ints[run], runs.floats[run], shared.known_ints, shared.known_floats
        )
        c, s = unpack(tag, config, arrays)
        if retires:
            arm_retired(tag, c, s, arm)
        else:
            arm_added(tag, c, s, arm)
