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
from influential_bandits.world.instance import Instance, require_instance, require_no_clock

SHORT_PERIODS = 12  # all periods up to here are tried
SWEEPS = 50
NEGLIGIBLE = 1e-9  # of the influence on the next round: what fades below is left out of the search


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
    require_no_clock(require_instance(instance), "best_schedule")
    if instance.memory == 1.0:
        raise NotApplicable("with memory = 1 the order of the pulls does not matter: see optimum")
    longest = whole_number("longest", longest, 1)
    periods = [*range(1, min(SHORT_PERIODS, longest) + 1), longest // 4, longest // 2, longest]
    best, lowest = np.zeros(1, np.int64), np.inf
    for period in sorted({period for period in periods if period >= 1}):
        schedule = find_schedule(instance, period, repeats=True)
        value = _long_run_loss(instance.world, schedule)
        if value < lowest - 1e-12 * (1.0 + abs(value)):
            best, lowest = schedule, value
    return best


def find_schedule(instance: Instance, length: int, *, repeats: bool) -> Ints:
    """Return a schedule: greedy, then improved round by round until nothing helps, (length,).

    If it repeats, each place also meets its neighbours of the repeats before and after.
    """
    # Of a world that fades by rounds, the round after a pull meets all of A, the next γ·A.
    matrix = np.asarray(instance.interaction.to_dense()) / instance.memory
    keep = np.full(1, float(instance.memory))
    return search_schedule(matrix, instance.initial_loss, keep, length, repeats=repeats)


def search_schedule(
    interaction: Floats, initial_loss: Floats, keep: Floats, length: int, *, repeats: bool
) -> Ints:
    """Return a schedule for rounds that need not be equally far apart.

    Parameters
    ----------
    interaction : array (arms, arms)
    initial_loss : array (arms,)
    keep : array (rounds,)
        What is left of all influence from one round to the next, repeated: a round k after another
        meets keep₁·…·keepₖ·A of it. Below 1 on the way from a round to the next like it.
    length : int
        Of the schedule. If it repeats, a multiple of the number of rounds in ``keep``.
    repeats : bool
        Whether each place also meets its neighbours of the repeats before and after.

    Returns
    -------
    array (length,), int64

    Examples
    --------
    >>> import numpy as np
    >>> close, far = 0.9, 0.0  # two rounds a session, and nothing is left of the session before
    >>> A, l1 = np.diag([1.0, 1.0]), np.array([0.0, 0.5])
    >>> search_schedule(A, l1, np.array([close, far]), 4, repeats=True).tolist()
    [0, 1, 0, 1]
    """
    left = np.resize(np.asarray(keep, np.float64), length)
    matrix, loss = np.ascontiguousarray(interaction), np.array(initial_loss, np.float64)
    schedule = _greedy_schedule(matrix, loss, left)
    _improve(matrix, loss, left, repeats, schedule)
    return schedule


def schedule_loss(instance: Instance, schedule: npt.ArrayLike, horizon: int) -> float:
    """Return the expected total loss of a schedule, repeated to the horizon from a fresh start.

    Examples
    --------
    >>> import influential_bandits as ib
    >>> schedule_loss(ib.Instance([[1, 0], [0, 1]], [0, 0], memory=0.5), [0, 1], 4)
    1.0
    """
    require_no_clock(require_instance(instance), "schedule_loss")
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
def _greedy_schedule(A: Floats, loss: Floats, keep: Floats) -> Ints:
    """Return the arms of the smallest loss, round by round."""
    schedule, moved = np.empty(keep.size, np.int64), np.zeros(loss.size)
    for n in range(keep.size):
        best = 0
        for arm in range(1, loss.size):
            if loss[arm] + moved[arm] < loss[best] + moved[best]:
                best = arm
        schedule[n] = best
        for arm in range(loss.size):
            moved[arm] = keep[n] * (moved[arm] + A[best, arm])
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
def _improve(A: Floats, loss: Floats, keep: Floats, repeats: bool, schedule: Ints) -> None:
    """Change one round at a time to its best arm, given all others, until nothing helps."""
    arms, length = loss.size, schedule.size
    whole = keep.prod()  # what a repeat leaves of the one before
    often = 1.0 / (1.0 - whole) if repeats else 1.0
    again = whole * often if repeats else 0.0  # the same place in other repeats
    cost, least = np.empty(arms), 0.0
    for _ in range(SWEEPS):
        changed = False
        for n in range(length):
            for i in range(arms):
                cost[i] = loss[i]
            weight = often
            for k in range(1, length):
                if not repeats and k > n:
                    break
                m = (n - k) % length
                weight *= keep[m]
                if k == 1:
                    least = NEGLIGIBLE * weight
                if weight < least:
                    break
                for i in range(arms):
                    cost[i] += weight * A[schedule[m], i]
            weight = often
            for k in range(1, length):
                if not repeats and n + k >= length:
                    break
                weight *= keep[(n + k - 1) % length]
                if k == 1:
                    least = NEGLIGIBLE * weight
                if weight < least:
                    break
                behind = schedule[(n + k) % length]
                for i in range(arms):
                    cost[i] += weight * A[i, behind]
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
