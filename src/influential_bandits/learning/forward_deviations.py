"""Influence and mean initial losses that hold where choices follow taste.

A pooled fit takes choices as they are. If instances choose what they like, those who meet an arm
often like it, so that arms met often look better for it, and the mean loss of an arm is that of
instances that like it. Here neither is assumed away:

* Influence from *forward deviations* (Arellano and Bover 1995). From the loss of an event, and
  from what it was met with, the mean over all later events of the same instance and arm is taken:
  the instance's own initial loss is gone. The equations are weighted by what was known before the
  event (how far the past is from its usual level), so that losses may steer later choices.
* Mean initial losses from *first meetings*: the first loss of an instance and arm did not yet
  steer anything. Instances that like an arm meet it early; the slope of the first loss over the
  logarithm of the round says what to expect of those that have never met it.

Everything is a sum over instances, kept in groups: leaving out one after the other (the jackknife)
gives standard errors.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from influential_bandits.learning.statistics.design import (
    DIAGONAL,
    Design,
    Events,
    as_matrix,
    count_event,
    event_columns,
    fade_counts,
    interaction_size,
    place,
)
from influential_bandits.learning.statistics.log_scan import thin_out
from influential_bandits.learning.statistics.pooled_sums import arm_sums
from influential_bandits.logs.log import EventLog
from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.numerics.compiling import kernel

GROUPS = 10
MANY_ARMS = 30  # beyond, influence on other arms takes too much memory, and is left out
EVENTS = 2_000_000  # instances of so many are enough
LATE = 2.0  # an arm never met counts as met after so many times the length of the history
TINY = 1e-9

# What is summed up of first meetings, for each arm: losses y, log rounds t, lengths of histories w.
WEIGHT, WEIGHTED_LOSS, NUMBER, LOG_ROUND, SQUARE, LOSS, PRODUCT, UNMET, UNMET_LOG_ROUND = range(9)


class ForwardEstimate(NamedTuple):
    """Means over the rounds of a log; row 0 from all instances, the others without one group."""

    loss: Floats  # (1 + groups,): per round, as logged
    initial_loss: Floats  # (1 + groups, arms): mean of all instances
    interaction: Floats  # (1 + groups, arms, arms)
    unmet: Floats  # (arms,): how much of the initial loss is a guess for those that never met it


class _Sums(NamedTuple):
    equations: Floats  # (groups, entries, entries)
    right: Floats  # (groups, entries)
    first: Floats  # (groups, arms, 9)
    first_counts: Floats  # (groups, 3, arms, arms): weighted, plain, times log round
    losses: Floats  # (groups, 2): sum and number


def estimate_forward(log: EventLog, design: Design, past: float) -> ForwardEstimate | None:
    """Estimate from a log of one arm an event; nothing where it says too little.

    ``past`` is how many faded pulls an event of this log meets, on average.
    """
    if not log.membership.single or log.n_instances < 2 * GROUPS:
        return None
    log = thin_out(log, EVENTS)
    arms, kind = design.n_arms, DIAGONAL if design.n_arms > MANY_ARMS else design.kind
    size = interaction_size(kind, arms)
    sums = _Sums(
        np.zeros((GROUPS, size, size)),
        np.zeros((GROUPS, size)),
        np.zeros((GROUPS, arms, 9)),
        np.zeros((GROUPS, 3, arms, arms)),
        np.zeros((GROUPS, 2)),
    )
    usual = arm_sums(log, arms).shares
    groups = np.arange(log.n_instances) % GROUPS
    if design.half_life > 0.0:  # as if events were equally far apart: past = γ/(1 − γ)
        memory, factor = past / (1.0 + past), past / (1.0 + past)
    else:
        memory, factor = design.memory, 1.0
    plain = design._replace(kind=kind, controls=0)
    _add_instances(plain, event_columns(log), memory, factor * usual, groups, *sums)
    return _solve(sums, kind, arms)


def _solve(sums: _Sums, kind: int, arms: int) -> ForwardEstimate | None:
    """Return the estimates of all groups, and without each of them."""
    whole = _Sums(*(table.sum(axis=0) for table in sums))
    rows = [_solve_one(whole, kind, arms)]
    for g in range(GROUPS):
        rest = _Sums(*(total - table[g] for total, table in zip(whole, sums, strict=True)))
        rows.append(_solve_one(rest, kind, arms))
    solved = [row for row in rows if row is not None]
    if len(solved) < len(rows):
        return None
    loss, initial, matrix, unmet = (np.array(column) for column in zip(*solved, strict=True))
    return ForwardEstimate(loss, initial, matrix, unmet[0])


def _solve_one(sums: _Sums, kind: int, arms: int) -> tuple[Any, ...] | None:
    """Return mean loss, initial losses, interaction, and how far guesses move initial losses."""
    first = sums.first.T  # (9, arms)
    number, unmet = first[NUMBER], first[UNMET]
    if (number < 2.0).any() or sums.losses[1] == 0.0:
        return None
    scale = np.abs(np.diag(sums.equations))
    try:
        little = np.diag(np.maximum(TINY * scale, TINY * max(scale.max(), 1e-300)))
        entries: Any = np.linalg.solve(sums.equations + little, sums.right)
        matrix = as_matrix(kind, arms, entries)
    except np.linalg.LinAlgError:
        return None
    weighted, plain, timed = (
        first[place] - (table * matrix).sum(axis=1)
        for place, table in zip((WEIGHTED_LOSS, LOSS, PRODUCT), sums.first_counts, strict=True)
    )
    mean, usual = plain / number, first[LOG_ROUND] / number
    spread = float((first[SQUARE] - number * usual**2).sum())
    slope = float((timed - number * usual * mean).sum()) / spread if spread > 0.0 else 0.0
    late = first[UNMET_LOG_ROUND] / np.where(unmet > 0.0, unmet, 1.0) - usual
    share = unmet / (first[WEIGHT] + unmet)
    met = weighted / np.where(first[WEIGHT] > 0.0, first[WEIGHT], 1.0)
    initial = (1.0 - share) * met + share * (mean + slope * late)
    if not (np.isfinite(initial).all() and np.isfinite(matrix).all()):
        return None
    return sums.losses[0] / sums.losses[1], initial, matrix, np.abs(share * slope * late)


@kernel
def _add_instances(
    design: Design,
    events: Events,
    memory: float,
    usual: Floats,
    groups: Ints,
    equations: Floats,
    right: Floats,
    first: Floats,
    first_counts: Floats,
    losses: Floats,
) -> None:
    """Add up all instances, each into its group."""
    arms, longest = design.n_arms, 0
    for u in range(events.offsets.size - 1):
        longest = max(longest, events.offsets[u + 1] - events.offsets[u])
    met, unusual = np.empty((longest, arms)), np.empty((longest, arms))
    counts, chosen = np.zeros(arms), np.zeros(arms)
    for u in range(events.offsets.size - 1):
        g, begin, length = groups[u], events.offsets[u], events.offsets[u + 1] - events.offsets[u]
        counts[:] = 0.0
        chosen[:] = 0.0
        for n in range(length):
            fade_counts(design, events, begin + n, begin, counts)
            _compare_with_usual(counts, chosen, usual, memory, n, length - 1 - n, unusual[n])
            met[n] = counts
            i = events.arm[events.members[events.item[begin + n]]]
            if chosen[i] == 0.0:
                loss, t = events.loss[begin + n], np.log(n + 1.0)
                first[g, i, WEIGHT] += length
                first[g, i, WEIGHTED_LOSS] += length * loss
                first[g, i, NUMBER] += 1.0
                first[g, i, LOG_ROUND] += t
                first[g, i, SQUARE] += t * t
                first[g, i, LOSS] += loss
                first[g, i, PRODUCT] += t * loss
                for j in range(arms):
                    first_counts[g, 0, i, j] += length * counts[j]
                    first_counts[g, 1, i, j] += counts[j]
                    first_counts[g, 2, i, j] += t * counts[j]
            chosen[i] += 1.0
            losses[g, 0] += events.loss[begin + n]
            losses[g, 1] += 1.0
            count_event(design, events, begin + n, counts)
        if length > 0:
            for i in range(arms):
                if chosen[i] == 0.0:
                    first[g, i, UNMET] += length
                    first[g, i, UNMET_LOG_ROUND] += length * np.log(LATE * length)
            _add_equations(design, events, begin, length, met, unusual, equations[g], right[g])


@kernel
def _compare_with_usual(
    counts: Floats, chosen: Floats, usual: Floats, memory: float, n: int, later: int, out: Floats
) -> None:
    """Write how far the counts are from their mean over the later events, as foreseen now.

    If arms go on to be chosen with the shares p so far, then counts d become γᵏ·d + p·(1 − γᵏ)/(1 −
    γ) after k more events; the mean over those to come is g·d + p·(1 − g)/(1 − γ). By the clock, a
    pull has faded once when it is met first: ``usual`` sums to γ, and p to as much.
    """
    lost, first = 1.0 - memory, usual.sum()
    left = 1.0  # g
    if later > 0 and lost > TINY:
        left = memory * (1.0 - memory**later) / (later * lost)
    for j in range(counts.size):
        share = (first * chosen[j] + usual[j]) / (n + 1.0)
        if lost > TINY:
            out[j] = (1.0 - left) * (counts[j] - share / lost)
        else:
            out[j] = -0.5 * share * (later + 1.0)


@kernel
def _add_equations(
    design: Design,
    events: Events,
    begin: int,
    length: int,
    met: Floats,
    unusual: Floats,
    equations: Floats,
    right: Floats,
) -> None:
    """Add Σ z·(x − mean of later x)ᵀ and Σ z·(y − mean of later y) of one instance, from behind."""
    arms, kind = design.n_arms, design.kind
    later, later_loss, later_met = np.zeros(arms), np.zeros(arms), np.zeros((arms, arms))
    for n in range(length - 1, -1, -1):
        i = events.arm[events.members[events.item[begin + n]]]
        loss, number = events.loss[begin + n], later[i]
        if number > 0.0:
            weight = number / (number + 1.0)
            for j in range(i if kind == DIAGONAL else 0, i + 1 if kind == DIAGONAL else arms):
                row, known = place(kind, i, j), weight * unusual[n, j]
                right[row] += known * (loss - later_loss[i] / number)
                for k in range(i if kind == DIAGONAL else 0, i + 1 if kind == DIAGONAL else arms):
                    deviation = met[n, k] - later_met[i, k] / number
                    equations[row, place(kind, i, k)] += known * deviation
        later[i] += 1.0
        later_loss[i] += loss
        later_met[i] += met[n]
