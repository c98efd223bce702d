"""Periodic schedules for worlds whose influence fades: a benchmark that is played, not a bound."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from influential_bandits.checks import require_horizon, whole_number
from influential_bandits.errors import InvalidInput, NotApplicable
from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.numerics.compiling import kernel
from influential_bandits.world.dynamics import (
    Progress,
    World,
    add_row,
    advance,
    expected_loss,
    start_progress,
)
from influential_bandits.world.instance import Instance, require_instance

__all__ = ["best_schedule", "find_schedule", "schedule_loss"]

SHORT_PERIODS = 12  # all periods up to here are tried
SWEEPS = 50
NEGLIGIBLE = 1e-9  # influence that has faded so far is left out of the search


def best_schedule(instance: Instance, longest: int = 240) -> Ints:
    """Return the best periodic schedule that a search finds for a world whose influence fades.

    A local search from a greedy start for every short period and some long ones; the schedule with
    the smallest loss in the long run is kept.

    Parameters
    ----------
    instance : Instance
        With memory < 1.
    longest : int
        Rounds after which the schedule repeats, at most.

    Returns
    -------
    array (period,), int64

    Examples
    --------
    >>> import influential_bandits as ib
    >>> best_schedule(ib.Instance([[1, 0], [0, 1]], [0, 0], memory=0.5)).tolist()
    [0, 1]
    """
    if require_instance(instance).memory == 1.0:
        raise NotApplicable("with memory = 1 the order of the pulls does not matter: see optimum")
    longest = whole_number("longest", longest, 1)
    periods = [*range(1, min(SHORT_PERIODS, longest) + 1), longest // 4, longest // 2, longest]
    best, lowest = np.zeros(1, np.int64), np.inf
    for period in sorted({period for period in periods if period >= 1}):
        found = find_schedule(instance, period, repeats=True)
        value = _long_run_loss(instance.world, found)
        if value < lowest - 1e-12 * (1.0 + abs(value)):
            best, lowest = found, value
    return best


def find_schedule(instance: Instance, length: int, *, repeats: bool) -> Ints:
    """Return a schedule: greedy, then improved round by round until nothing helps, (length,).

    If it repeats, each place also meets its neighbours of the repeats before and after.
    """
    world = instance.world
    schedule = _greedy_schedule(world, start_progress(world), length)
    _improve(instance.interaction.to_dense(), world.initial_loss, world.memory, repeats, schedule)
    return schedule


def schedule_loss(instance: Instance, schedule: npt.ArrayLike, horizon: int) -> float:
    """Return the expected total loss of a schedule, repeated to the horizon from a fresh start.

    Examples
    --------
    >>> import influential_bandits as ib
    >>> schedule_loss(ib.Instance([[1, 0], [0, 1]], [0, 0], memory=0.5), [0, 1], 4)
    1.0
    """
    require_instance(instance)
    try:
        choices = np.atleast_1d(np.asarray(schedule, np.int64))
    except (TypeError, ValueError, OverflowError):
        choices = np.zeros(0, np.int64)
    if (
        choices.ndim != 1
        or not len(choices)
        or choices.min() < 0
        or choices.max() >= instance.n_arms
    ):
        raise InvalidInput(
            f"a schedule must be arms 0 … {instance.n_arms - 1}, got {schedule!r:.80}"
        )
    world = instance.world
    return float(_played_loss(world, start_progress(world), choices, require_horizon(horizon)))


@kernel
def _played_loss(world: World, progress: Progress, schedule: Ints, rounds: int) -> float:
    """Return the total loss of a repeated schedule from a fresh start."""
    total = 0.0
    for n in range(rounds):
        arm = schedule[n % schedule.size]
        total += expected_loss(world, progress, arm, n + 1)
        advance(world, progress, arm, n + 1)
    return total


@kernel
def _greedy_schedule(world: World, progress: Progress, length: int) -> Ints:
    """Return the arms of the smallest loss, round by round."""
    schedule = np.empty(length, np.int64)
    for n in range(length):
        best, lowest = 0, expected_loss(world, progress, 0, n + 1)
        for arm in range(1, world.initial_loss.size):
            loss = expected_loss(world, progress, arm, n + 1)
            if loss < lowest:
                best, lowest = arm, loss
        schedule[n] = best
        advance(world, progress, best, n + 1)
    return schedule


@kernel
def _long_run_loss(world: World, schedule: Ints) -> float:
    """Return the loss per round of a schedule that has been repeated for ever."""
    high, low = np.zeros(world.initial_loss.size), np.zeros(world.initial_loss.size)
    for arm in schedule:
        add_row(world, arm, high, low)
    left = 1.0 - world.memory**schedule.size
    high /= left
    low /= left
    total = 0.0
    for arm in schedule:
        total += world.initial_loss[arm] + (high[arm] + low[arm])
        add_row(world, arm, high, low)
    return total / schedule.size


@kernel
def _improve(A: Floats, loss: Floats, memory: float, repeats: bool, schedule: Ints) -> None:
    """Change one round at a time to its best arm, given all others, until nothing helps."""
    arms, length = loss.size, schedule.size
    reach = length - 1
    if memory**reach < NEGLIGIBLE:
        reach = int(np.ceil(np.log(NEGLIGIBLE) / np.log(memory)))
    often = 1.0 / (1.0 - memory**length) if repeats else 1.0
    again = memory ** (length - 1) * often if repeats else 0.0  # the same place in other repeats
    for _ in range(SWEEPS):
        changed = False
        for n in range(length):
            cost = loss.copy()
            weight = often
            for k in range(1, reach + 1):
                if repeats or n >= k:
                    before = schedule[(n - k) % length]
                    for i in range(arms):
                        cost[i] += weight * A[before, i]
                if repeats or n + k < length:
                    behind = schedule[(n + k) % length]
                    for i in range(arms):
                        cost[i] += weight * A[i, behind]
                weight *= memory
            for i in range(arms):
                cost[i] += again * A[i, i]
            best = schedule[n]
            for i in range(arms):
                if cost[i] < cost[best] - 1e-12 * (1.0 + abs(cost[best])):
                    best = i
            if best != schedule[n]:
                schedule[n] = best
                changed = True
        if not changed:
            break
