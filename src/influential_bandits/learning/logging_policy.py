"""What the logging policy did, what it lost, and whether its choices followed taste.

What it lost is the baseline that plans are judged against. Influence hides taste: who likes an arm
meets it early and often, and tires of it. So losses that hold influence may hide taste, and a
pooled fit of influence cannot take it out: it is too small where choices follow taste. Forward
deviations are not. Signs of taste are looked for twice: in the losses as they are, and in losses
freed of the influence that forward deviations see. What these do not know about influence counts as
an error of the signs, by the jackknife.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from influential_bandits.execution.base import Execution
from influential_bandits.learning.forward_deviations import ForwardEstimate, estimate_forward
from influential_bandits.learning.models import InfluenceModel, StationaryModel
from influential_bandits.learning.statistics.design import (
    Design,
    Events,
    count_event,
    event_columns,
    fade_counts,
    interaction_entries,
    predict_losses,
)
from influential_bandits.learning.statistics.log_scan import thin_out
from influential_bandits.logs.log import EventLog, change_log
from influential_bandits.numerics.arrays import Floats
from influential_bandits.numerics.compiling import kernel

# Standard errors between the model's loss of what was logged and the log's own mean, beyond which
# a model is not calibrated: one in twenty is, by chance.
CALIBRATED = 2.0
# Standard errors beyond which each of two signs counts for choices that follow taste, and beyond
# which the first is enough: by chance, one log in 100 is beyond CLEAR, or beyond TWICE in one of
# two looks. Taste that is overlooked costs more than taste that is not there. Beyond DOUBT, of the
# first, it is not ruled out where the second counts.
SIGN, CLEAR, TWICE, DOUBT = 1.0, 2.33, 2.58, 0.5
# Choices that know more than the model (the second sign is beyond ONE_SIDED, by chance in one of
# 20 logs) may know taste, unless the first sign says that they do not. Taste makes its slope a
# quarter of the gap or more (0.25 to 0.65 in 14 made-up logs of 300 histories of 60), so that it is
# ruled out where slope + ONE_SIDED·error is below that. Short histories do not say so much.
ONE_SIDED, LEAST_SLOPE = 1.64, 0.25
EVENTS = 200_000  # instances of so many are enough
FOLLOW_TASTE = "choices in it follow taste"


class LoggedRounds(NamedTuple):
    """The rounds of a log, as means over its events; d counts the pulls so far, old ones faded."""

    loss: float  # per round, as it was
    modelled: float  # the same by the model's population: l1·mix + Σ A_ij·pairs_ij
    error: float  # standard error of their difference; instances are independent
    mix: Floats  # (arms,): shares of the arms
    pairs: Floats  # (arms, arms): how much of d_j an event of arm i meets
    shuffled: Floats  # (arms, arms): the same with each instance's own events in random order
    squares: Floats  # (arms, arms): products of the shares of each instance

    @property
    def gap(self) -> float:
        """Return how much better or worse the log is than the population with the same rounds.

        Where instances choose what they like, the log loses less than its mix and its order would
        lose if everybody were alike.
        """
        return self.loss - self.modelled

    @property
    def calibrated(self) -> bool:
        """Tell whether the model's loss of what was logged is the log's, but for chance."""
        return abs(self.gap) <= CALIBRATED * self.error


class TasteSigns(NamedTuple):
    """Two signs that choices follow taste: what is liked is met earlier, and more often.

    When an arm is met for the first time has nothing to do with losses of that arm, unless taste
    decides. So the instances' own initial losses do not depend on it where choices follow nothing,
    or past losses alone. How often it is met may follow past losses, too.
    """

    slope: float  # of the own initial loss over the logarithm of the first round with that arm
    slope_error: float
    gap: float  # loss of the log, less that of the same arms chosen by anybody
    gap_error: float


def measure_taste(log: EventLog, design: Design, population: Floats, own: Floats) -> TasteSigns:
    """Return the signs by a model without influence; ``own`` (instances, arms) initial losses.

    Slopes are within arms. Instances are independent, their arms are not.
    """
    logged = describe_logged(design, population, log)
    rounds = np.zeros(own.shape)
    _find_first_rounds(event_columns(log), rounds)
    met = rounds > 0.0
    number = np.maximum(met.sum(axis=0), 1)
    times = np.where(met, np.log(np.where(met, rounds, 1.0)), 0.0)
    times = np.where(met, times - times.sum(axis=0) / number, 0.0)
    losses = np.where(met, own - population[: design.n_arms], 0.0)
    losses = np.where(met, losses - losses.sum(axis=0) / number, 0.0)
    square = max(float((times**2).sum()), 1e-300)
    slope = float((times * losses).sum()) / square
    scores = (times * (losses - slope * times)).sum(axis=1)
    error = float(np.sqrt(scores @ scores)) / square
    return TasteSigns(slope, error, logged.gap, logged.error)


def see_taste(parts: Sequence[TasteSigns], clear: float = CLEAR) -> bool:
    """Tell whether choices follow taste, as far as parts of a log can tell it."""
    early, often = _add_signs(parts)
    return early > clear or min(early, often) > SIGN


def suspect_taste(parts: Sequence[TasteSigns], logged: LoggedRounds | None = None) -> bool:
    """Tell whether choices know more than the model, and taste may be what they know.

    That they know more is seen in these parts or, more precisely, in the log as a whole: by the
    model with influence, which may have hidden it from a model without.
    """
    early, often = _add_signs(parts)
    slope, error, gap, _ = _pool_signs(parts)
    knowing = logged is not None and logged.gap < 0.0 and not logged.calibrated
    if often <= ONE_SIDED and not knowing:
        return early > DOUBT and often > SIGN
    if logged is not None and knowing:
        gap = min(gap, logged.gap)
    return early > DOUBT or slope + ONE_SIDED * error > -LEAST_SLOPE * gap


def _add_signs(parts: Sequence[TasteSigns]) -> tuple[float, float]:
    """Return how many standard errors earlier, and more often, instances meet what they like."""
    slope, slope_error, gap, gap_error = _pool_signs(parts)
    return slope / max(slope_error, 1e-300), -gap / max(gap_error, 1e-300)


def _pool_signs(parts: Sequence[TasteSigns]) -> TasteSigns:
    """Return the mean signs of parts of a log, which are independent."""
    if not parts:
        return TasteSigns(0.0, 0.0, 0.0, 0.0)
    slope, slope_error, gap, gap_error = np.array(parts).T
    errors = [float(np.sqrt((error**2).sum())) / len(parts) for error in (slope_error, gap_error)]
    return TasteSigns(float(slope.mean()), errors[0], float(gap.mean()), errors[1])


def describe_logged(design: Design, population: Floats, log: EventLog) -> LoggedRounds:
    """Return what was logged, and what the coefficients of a population say that it loses."""
    arms = design.n_arms
    pairs, shuffled, squares = (np.zeros((arms, arms)) for _ in range(3))
    shares = np.zeros((log.n_instances, arms))
    _add_rounds(design, event_columns(log), shares, pairs, shuffled, squares)
    mix = shares.sum(axis=0) / max(shares.sum(), 1e-300)
    number = max(len(log), 1)
    # The level of a model with drift is left out: a plan cannot count on it.
    plain = np.concatenate([population[:arms], population[design.start :]])
    surprise = log.loss - predict_losses(log, design._replace(controls=0), plain)
    users = np.repeat(np.arange(log.n_instances), log.lengths)
    gap = float(surprise.sum()) / number
    sums = np.bincount(users, surprise - gap, log.n_instances)
    loss = float(log.loss.sum()) / number
    parts = (pairs / number, shuffled / number, squares / number)
    return LoggedRounds(loss, loss - gap, float(np.sqrt(sums @ sums)) / number, mix, *parts)


@kernel
def _add_rounds(
    design: Design, events: Events, shares: Floats, pairs: Floats, shuffled: Floats, squares: Floats
) -> None:
    """Add up what the events meet; ``shares`` (instances, arms) become the weights of the arms."""
    arms = design.n_arms
    counts = np.zeros(arms)
    for u in range(events.offsets.size - 1):
        counts[:] = 0.0
        all_met, total = 0.0, 0.0
        first, last = events.offsets[u], events.offsets[u + 1]
        for n in range(first, last):
            fade_counts(design, events, n, first, counts)
            item = events.item[n]
            for p in range(events.members[item], events.members[item + 1]):
                shares[u, events.arm[p]] += events.weight[p]
                total += events.weight[p]
                for j in range(arms):
                    pairs[events.arm[p], j] += events.weight[p] * counts[j]
                    all_met += events.weight[p] * counts[j]
            count_event(design, events, n, counts)
        if total > 0.0:
            for i in range(arms):
                for j in range(arms):
                    both = shares[u, i] * shares[u, j] / (total * total)
                    shuffled[i, j] += all_met * both
                    squares[i, j] += (last - first) * both


@kernel
def _find_first_rounds(events: Events, out: Floats) -> None:
    """Write in which round each instance met each arm first, (instances, arms); 0 for never."""
    for u in range(events.offsets.size - 1):
        for n in range(events.offsets[u], events.offsets[u + 1]):
            item = events.item[n]
            for p in range(events.members[item], events.members[item + 1]):
                if out[u, events.arm[p]] == 0.0:
                    out[u, events.arm[p]] = n - events.offsets[u] + 1.0


def describe_taste(
    model: InfluenceModel, log: EventLog, execution: Execution | int | None = None
) -> str:
    """Say what choices have to do with taste: they follow it, may follow it, or nothing."""
    signs_of_taste = find_taste(model, thin_out(log, EVENTS), execution)
    if any(see_taste([signs], TWICE) for signs in signs_of_taste):
        return FOLLOW_TASTE
    if any(suspect_taste([signs]) for signs in signs_of_taste):
        return "it is not ruled out that choices in it follow taste"
    return ""


def find_taste(
    model: InfluenceModel, log: EventLog, execution: Execution | int | None = None
) -> list[TasteSigns]:
    """Return signs of taste in losses as they are and, where it can be told, free of influence."""
    past = float(describe_logged(model.design_, model.population_, log).shuffled.sum())
    estimate = estimate_forward(log, model.design_, past)
    return look_for_taste(log, model.design_, estimate, execution)


def look_for_taste(
    log: EventLog,
    design: Design,
    estimate: ForwardEstimate | None,
    execution: Execution | int | None = None,
) -> list[TasteSigns]:
    """Return the signs in losses as they are and, with an estimate of influence, free of it."""
    signs = [_measure(log, execution)]
    if estimate is not None:
        plain = design._replace(controls=0)
        signs.append(_measure_freed(thin_out(log, EVENTS), plain, estimate, execution))
    return signs


def _measure(log: EventLog, execution: Execution | int | None) -> TasteSigns:
    """Return the signs by a model without influence."""
    alike = StationaryModel(pooling="full").fit_to_predict(log, execution=execution)
    return measure_taste(log, alike.design_, alike.population_, alike.initial_losses_)


def _measure_freed(
    log: EventLog, design: Design, estimate: ForwardEstimate, execution: Execution | int | None
) -> TasteSigns:
    """Return the signs without influence; row 0 is the estimate, the others leave out a group."""
    rows = [_measure(_free(log, design, matrix), execution) for matrix in estimate.interaction]
    whole, *without = np.array(rows)
    many = len(without)
    deviations = np.array(without) - np.mean(without, axis=0)
    slope, _, gap, _ = np.sqrt((many - 1.0) / many * (deviations**2).sum(axis=0)).tolist()
    return TasteSigns(
        float(whole[0]),
        float(np.hypot(whole[1], slope)),
        float(whole[2]),
        float(np.hypot(whole[3], gap)),
    )


def _free(log: EventLog, design: Design, matrix: Floats) -> EventLog:
    """Return a log whose losses are free of an influence."""
    coefficients = np.zeros(design.size)
    for n, (i, j) in enumerate(interaction_entries(design.kind, design.n_arms), design.start):
        coefficients[n] = matrix[i, j]
    loss = log.loss - predict_losses(log, design, coefficients)
    return change_log(log, loss=loss, about={}, controls={})
