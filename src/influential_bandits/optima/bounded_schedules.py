"""Schedules whose arms keep to bounds of their shares, where memory fades."""

from __future__ import annotations

import math

import numpy as np

from influential_bandits.errors import InvalidInput
from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.optima.bounded import Shares

MOST_ROUNDS = 2000  # of a schedule; its table of weights has the square of that
NEGLIGIBLE = 1e-12  # what a change has to save, relative to the losses


def count_rounds(shares: Shares, length: int, arm_names: tuple[str, ...]) -> tuple[Ints, Ints]:
    """Return how many of so many rounds each arm may have at least and at most, or refuse it."""
    least = np.ceil(length * shares.least - 1e-9).astype(np.int64)
    most = np.floor(length * shares.most + 1e-9).astype(np.int64)
    for arm in np.flatnonzero(least > most):
        raise InvalidInput(
            f"no number of {length} rounds is a share of {shares.least[arm]:g} to "
            f"{shares.most[arm]:g}, as {arm_names[arm]!r} is to have: widen it, or plan for more "
            "rounds"
        )
    if least.sum() > length or most.sum() < length:
        raise InvalidInput(
            f"in {length} rounds the arms would have {least.sum()} at least and {most.sum()} at "
            "most, in whole rounds: widen the shares, or plan for more rounds"
        )
    return least, most


def search_bounded_schedule(
    interaction: Floats,
    initial_loss: Floats,
    keep: Floats,
    start: Ints,
    least: Ints,
    most: Ints,
    *,
    repeats: bool,
) -> Ints:
    """Return a schedule whose arms have so many rounds, by changes of another schedule.

    That is first brought between the bounds, at the least cost. Then the best change of one round,
    or exchange of two, is made as long as one helps; and once more from arms that are as frequent
    and evenly spread. The better of the two is kept.

    Parameters
    ----------
    interaction, initial_loss, keep, repeats
        As for :func:`~influential_bandits.optima.schedules.search_schedule`.
    start : array (length,)
    least, most : array (arms,)
        Numbers of rounds.

    Examples
    --------
    >>> import numpy as np
    >>> A, l1 = np.diag([1.0, 1.0]), np.array([0.0, 9.0])
    >>> start, half = np.zeros(4, np.int64), np.array([2, 2])
    >>> search_bounded_schedule(A, l1, np.array([0.5]), start, half, half, repeats=True).tolist()
    [1, 0, 1, 0]
    """
    length = len(start)
    if length > MOST_ROUNDS:
        raise InvalidInput(
            f"a schedule with shares repeats after at most {MOST_ROUNDS} rounds, got {length}"
        )
    weight = _weigh_pairs(np.resize(keep, length), repeats)
    first = start.copy()
    _bring_between(weight, interaction, initial_loss, first, least, most)
    _improve(weight, interaction, initial_loss, first, least, most)
    second = _spread_evenly(first, len(initial_loss))
    _improve(weight, interaction, initial_loss, second, least, most)
    losses = [
        initial_loss[schedule].sum()
        + 0.5 * (weight * interaction[np.ix_(schedule, schedule)]).sum()
        for schedule in (first, second)
    ]
    return first if losses[0] <= losses[1] else second


def _spread_evenly(schedule: Ints, arms: int) -> Ints:
    """Return the same arms as often, each as evenly spread as it may be."""
    number = np.bincount(schedule, minlength=arms)
    turns = np.concatenate([(np.arange(many) + 0.5) / many for many in number if many])
    return np.repeat(np.arange(arms), number)[np.argsort(turns, kind="stable")]


def _weigh_pairs(keep: Floats, repeats: bool) -> Floats:
    """Return how much of A rounds n and m meet of each other, either way, (rounds, rounds).

    On the diagonal is what a round meets of itself in other repeats, both ways.
    """
    length = len(keep)
    logs = np.concatenate([[0.0], np.cumsum(np.log(np.maximum(keep, 1e-300)))])
    later, earlier = np.meshgrid(np.arange(length), np.arange(length), indexing="ij")
    forward = np.where(later > earlier, np.exp(logs[later] - logs[earlier]), 0.0)
    if not repeats:
        return np.asarray(forward + forward.T)
    whole = math.exp(logs[-1])
    around = np.where(later <= earlier, np.exp(logs[-1] - logs[earlier] + logs[later]), 0.0)
    both = (forward + around) / (1.0 - whole)
    return np.asarray(both + both.T)


def _costs(weight: Floats, A: Floats, loss: Floats, schedule: Ints) -> Floats:
    """Return what each arm would cost in each round, all other rounds as they are: (rounds, arms).

    A round that changes meets itself in other repeats as what it has become.
    """
    own = np.diag(weight)[:, None]
    return np.asarray(loss + weight @ A[schedule] - own * A[schedule] + 0.5 * own * np.diag(A))


def _bring_between(
    weight: Floats, A: Floats, loss: Floats, schedule: Ints, least: Ints, most: Ints
) -> None:
    """Change the rounds that cost least to change, until all arms have as many as they may."""
    rounds = np.arange(len(schedule))
    while True:
        number = np.bincount(schedule, minlength=len(loss))
        over, under = number > most, number < least
        if not (over.any() or under.any()):
            return
        gives = over if over.any() else number > least
        takes = under if under.any() else number < most
        costs = _costs(weight, A, loss, schedule)
        change = costs - costs[rounds, schedule][:, None]
        change[~gives[schedule]] = np.inf
        change[:, ~takes] = np.inf
        n, arm = np.unravel_index(change.argmin(), change.shape)
        schedule[n] = arm


def _improve(
    weight: Floats, A: Floats, loss: Floats, schedule: Ints, least: Ints, most: Ints
) -> None:
    """Make the best change or exchange of rounds, as long as one helps."""
    rounds, between = np.arange(len(schedule)), weight - np.diag(np.diag(weight))
    for _ in range(20 * len(schedule)):
        number = np.bincount(schedule, minlength=len(loss))
        costs = _costs(weight, A, loss, schedule)
        now = costs[rounds, schedule]
        change = costs - now[:, None]
        change[number[schedule] <= least[schedule]] = np.inf
        change[:, number >= most] = np.inf
        change[rounds, schedule] = 0.0
        there = costs[:, schedule]  # what a round would cost with another round's arm
        own = np.diag(A)[schedule]
        apart = own[:, None] + own - 2.0 * A[np.ix_(schedule, schedule)]
        swap = there + there.T - now[:, None] - now - between * apart
        enough = -NEGLIGIBLE * (1.0 + float(np.abs(now).max()))
        if min(change.min(), swap.min()) >= enough:
            return
        if change.min() <= swap.min():
            n, arm = np.unravel_index(change.argmin(), change.shape)
            schedule[n] = arm
        else:
            n, m = np.unravel_index(swap.argmin(), swap.shape)
            schedule[[n, m]] = schedule[[m, n]]
