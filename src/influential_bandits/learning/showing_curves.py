"""Outcome against recent showings of the same arm: as logged, and for the same instance.

The curve as logged mixes two things. Whoever likes an arm is often shown it, so that outcomes may
rise with recent showings although each of them tires. The adjusted curve compares an instance with
itself. Recent showings d of an arm, each counting less as it fades, act on the loss of the arm by

    a_u + f(d) + (place in the history, place in the session, showings of other arms) + noise,

where a_u is the instance's own, unknown, and f is piecewise linear. From both sides the mean over
all later events of the same instance and arm is taken (forward deviations, Arellano and Bover
1995): a_u is gone, whatever choices have to do with it. The equations are weighted by what was
known before the event, so that past losses may steer choices. Standard errors are those of sums of
independent instances.

What changes along a history, such as an interest that lasts a session, is not taken out: the
placebo checks of the test of influence look for that.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from influential_bandits.learning.controls import place_in_session, spread_hats
from influential_bandits.learning.impact import Estimate, as_outcome
from influential_bandits.learning.statistics.design import (
    NONE,
    Design,
    Events,
    count_event,
    event_columns,
    fade_counts,
)
from influential_bandits.learning.statistics.log_scan import thin_out
from influential_bandits.logs.log import EventLog
from influential_bandits.logs.outcome import Outcome, read_outcome
from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.numerics.compiling import kernel
from influential_bandits.packages import make_frame, optional_module
from influential_bandits.world.fading import Fading

KNOTS = np.array([0.0, *2.0 ** np.arange(-1, 21)])  # of f, in recent showings
LEAST_INSTANCES = 30  # near a knot, else it is left out: means of fewer are far from normal
EVENTS = 1_000_000  # instances of so many are enough
PLACES, SESSION_PLACES = 5, 4  # hat functions over the logarithm of the place
CREDIT = 5.0  # events of the arm's average that a history is credited with; for efficiency alone
TELLING = 4.0  # standard errors that the losses of an arm must span: a 95 % interval
SINGULAR, TINY = 1e10, 1e-300
SEVERAL_ARMS = "items of several arms have no recent showings of their own"
TOO_FEW = f"recent showings are compared where {LEAST_INSTANCES} instances or more had as many"


@dataclasses.dataclass(frozen=True)
class ShowingCurve:
    """What one arm brings, by how many recent showings of it came before.

    Attributes
    ----------
    arm : str
    n_events : int
    mean_loss : float
        As logged.
    recent : tuple of float
        Recent showings, each counting less as it fades.
    raw : tuple of Estimate
        Mean outcome at these, as logged.
    adjusted : tuple of Estimate
        The same for one instance, controls apart, with the arm's mean as logged; empty where the
        log cannot tell.
    lost : Estimate or None
        What recent showings of the arm add to its mean loss: above zero is fatigue, below boost.
        Intervals hold for all arms at once.
    """

    arm: str
    n_events: int
    mean_loss: float
    recent: tuple[float, ...]
    raw: tuple[Estimate, ...]
    adjusted: tuple[Estimate, ...]
    lost: Estimate | None

    @property
    def if_rested(self) -> Estimate | None:
        """Mean loss if there had been no recent showings."""
        if self.lost is None:
            return None
        ends = (self.lost.value, self.lost.high, self.lost.low)
        return Estimate(*(self.mean_loss - end for end in ends))


@dataclasses.dataclass(frozen=True)
class ShowingCurves:
    """Curves of all arms that have one.

    Attributes
    ----------
    outcome : Outcome
        What the vertical axis is, and which direction is good.
    fading : Fading
        How showings fade.
    arms : tuple of ShowingCurve
        Those that influence takes most from first.
    missing : str
        Why there are none; empty if there are.
    """

    outcome: Outcome
    fading: Fading
    arms: tuple[ShowingCurve, ...]
    missing: str = ""

    def to_frame(self, library: str = "pandas") -> Any:
        """Return a data frame of pandas, polars or pyarrow: a row for each arm, kind and level."""
        names = ("arm", "kind", "recent", "value", "low", "high")
        rows = [
            (curve.arm, kind, recent, *dataclasses.astuple(estimate))
            for curve in self.arms
            for kind, estimates in (("raw", curve.raw), ("adjusted", curve.adjusted))
            for recent, estimate in zip(curve.recent, estimates, strict=False)
        ]
        columns = {name: [row[n] for row in rows] for n, name in enumerate(names)}
        return make_frame(columns, library)


class _Rows(NamedTuple):
    """Events of one arm, those of an instance together and in order."""

    instance: Ints
    recent: Floats
    loss: Floats  # as logged
    freed: Floats  # free of what controls explain
    beside: Floats  # (events, columns): what is fitted beside recent showings
    first: Ints  # (events,): where the events of the same instance begin
    end: Ints  # (events,): and end


def measure_showings(
    log: EventLog,
    adjusted: EventLog,
    fading: Fading,
    *,
    controls: Sequence[str] = (),
    confidence: float = 0.95,
) -> ShowingCurves:
    """Return outcome against recent showings, arm by arm, as logged and for the same instance.

    Parameters
    ----------
    log : EventLog
        As it was read.
    adjusted : EventLog
        The same, losses free of what controls explain (:func:`adjust_losses`).
    fading : Fading
        How showings fade.
    controls : sequence of str
        "position" fits the place in a session beside recent showings.
    confidence : float
        Of the intervals.

    Examples
    --------
    >>> import influential_bandits as ib
    >>> log = ib.data.synthetic_log(
    ...     300, 60, 2, interaction=[[0.3, 0], [0, 0]], memory=0.8, spread=0.7, taste=1.5, seed=0
    ... )
    >>> tired, fresh = measure_showings(log, log, Fading(0.8)).arms
    >>> print(tired.arm, tired.lost)
    0 0.83 (0.60 … 1.06)
    """
    outcome = read_outcome(log.about)
    if not log.membership.single:
        return ShowingCurves(outcome, fading, (), SEVERAL_ARMS)
    log, adjusted = thin_out(log, EVENTS), thin_out(adjusted, EVENTS)
    columns = _list_columns(log, fading, "position" in controls)
    arm = log.membership.arm[log.item]
    owner = np.repeat(np.arange(log.n_instances), log.lengths)
    curves = []
    for i, name in enumerate(log.arm_names):
        spots = np.flatnonzero(arm == i)
        rows = _take_rows(spots, owner, log.loss, adjusted.loss, columns)
        knots = _choose_knots(rows)
        if len(knots) > 1:
            curves.append(_draw_curve(name, rows, knots, outcome, log.n_arms, confidence))
    curves.sort(key=_find_harm, reverse=True)
    return ShowingCurves(outcome, fading, tuple(curves), "" if curves else TOO_FEW)


def _find_harm(curve: ShowingCurve) -> tuple[bool, float]:
    """Return how an arm compares with others: clear harm first, by size, then what is unclear."""
    if curve.lost is None:
        return False, -np.inf
    return curve.lost.low > 0.0, curve.lost.value


def _list_columns(log: EventLog, fading: Fading, by_session: bool) -> tuple[Floats, Floats]:
    """Return recent showings of the event's own arm, and what is fitted beside them."""
    no_baseline = np.zeros(log.n_arms)
    design = Design(log.n_arms, NONE, fading.memory, fading.seconds, 0, 0.0, no_baseline)
    own, all_arms = count_recent(design, event_columns(log))
    place = np.arange(len(log)) - np.repeat(log.offsets[:-1], log.lengths)
    beside = [spread_hats(np.log2(1.0 + place), PLACES)]
    if by_session:
        beside.append(spread_hats(np.log2(place_in_session(log)), SESSION_PLACES))
    if fading.by_clock:  # by events, the place tells how many showings of other arms there were
        beside.append((all_arms - own)[:, None])
    return own, np.hstack(beside)


def _take_rows(
    spots: Ints, owner: Ints, loss: Floats, freed: Floats, columns: tuple[Floats, Floats]
) -> _Rows:
    """Return the events of one arm, which stand at these spots of a log."""
    instance = owner[spots]
    starts = np.flatnonzero(np.diff(instance, prepend=-1))
    ends = np.append(starts[1:], len(spots))
    group = np.cumsum(np.diff(instance, prepend=-1) != 0) - 1
    recent, beside = columns
    return _Rows(
        instance,
        recent[spots],
        loss[spots],
        freed[spots],
        beside[spots],
        starts[group],
        ends[group],
    )


def _choose_knots(rows: _Rows) -> Floats:
    """Return the knots that enough instances come near to."""
    nearest = np.abs(rows.recent[:, None] - KNOTS).argmin(axis=1)
    pairs = np.unique(nearest * (rows.instance.max(initial=0) + 1) + rows.instance)
    near = np.bincount(pairs // (rows.instance.max(initial=0) + 1), minlength=len(KNOTS))
    return KNOTS[near >= LEAST_INSTANCES]


def _interpolate(numbers: Floats, knots: Floats) -> Floats:
    """Return the weights of the knots, (events, knots): beyond the last one, the line goes on."""
    left = np.clip(np.searchsorted(knots, numbers, "right") - 1, 0, len(knots) - 2)
    share = (numbers - knots[left]) / (knots[left + 1] - knots[left])
    out = np.zeros((len(numbers), len(knots)))
    spots = np.arange(len(numbers))
    out[spots, left], out[spots, left + 1] = 1.0 - share, share
    return out


def _draw_curve(
    name: str, rows: _Rows, knots: Floats, outcome: Outcome, arms: int, confidence: float
) -> ShowingCurve:
    """Return the curve of one arm; knots of which the log tells too little are left out."""
    normal = optional_module("scipy.stats").norm

    def estimate(losses: Floats, errors: Floats, several: int = 1) -> tuple[Estimate, ...]:
        width = errors * float(normal.isf((1.0 - confidence) / (2.0 * several)))
        ends = np.stack([losses, losses - width, losses + width], axis=1)
        return tuple(Estimate(*triple) for triple in ends.tolist())

    adjusted: tuple[Estimate, ...] = ()
    lost, mean = None, float(rows.loss.mean())
    for size in range(len(knots), 1, -1):
        effects = _fit_levels(rows, knots[:size])
        if effects is not None:
            knots = knots[:size]
            adjusted = estimate(mean + effects[0], effects[1])
            (lost,) = estimate(-effects[0][:1], effects[1][:1], arms)
            break
    weights = _interpolate(rows.recent, knots)
    plain = _solve(weights, weights, rows.loss, rows.instance)
    raw = () if plain is None else estimate(plain[0], _find_errors(plain[1]))
    return ShowingCurve(
        name,
        len(rows.loss),
        mean,
        tuple(knots.tolist()),
        tuple(as_outcome(loss, outcome) for loss in raw),
        tuple(as_outcome(loss, outcome) for loss in adjusted),
        lost,
    )


def _fit_levels(rows: _Rows, knots: Floats) -> tuple[Floats, Floats] | None:
    """Return the level of each knot less the mean of all events, with its standard error.

    None if it cannot be told, or only within errors as large as losses differ.
    """
    weights = _interpolate(rows.recent, knots)
    forward = _fit_forward(weights[:, 1:], rows)
    if forward is None:
        return None
    steps, covariance = forward
    shape = np.eye(len(knots))[:, 1:] - weights.mean(axis=0)[1:]
    errors = _find_errors(shape @ covariance @ shape.T)
    return None if errors.max() > np.ptp(rows.loss) / TELLING else (shape @ steps, errors)


def _find_errors(covariance: Floats) -> Floats:
    return np.sqrt(np.maximum(np.diag(covariance), 0.0))


def _fit_forward(weights: Floats, rows: _Rows) -> tuple[Floats, Floats] | None:
    """Return what each knot adds to the first one, with its covariance; None if it cannot be told.

    What is known before an event is how far it is from the mean of the past events, or of all
    instances where there are none yet.
    """
    columns = np.hstack([weights, rows.beside])
    table = np.column_stack([columns, rows.freed])
    so_far = np.cumsum(table, axis=0)
    before = so_far - table - np.where(rows.first > 0, so_far[rows.first - 1].T, 0.0).T
    later = np.arange(len(table)) < rows.end - 1
    number = (rows.end - 1 - np.arange(len(table)))[later, None]
    changes = table[later] - (so_far[rows.end[later] - 1] - so_far[later]) / number
    past = (np.arange(len(table)) - rows.first)[:, None]
    usual = (before[:, :-1] + CREDIT * columns.mean(axis=0)) / (past + CREDIT)
    known = (columns - usual)[later] * (number / (number + 1.0))
    fit = _solve(known, changes[:, :-1], changes[:, -1], rows.instance[later])
    if fit is None:
        return None
    size = weights.shape[1]
    return fit[0][:size], fit[1][:size, :size]


def _solve(
    known: Floats, columns: Floats, losses: Floats, instance: Ints
) -> tuple[Floats, Floats] | None:
    """Solve Σ known·(loss − columns·x) = 0; return x and its covariance over instances."""
    size = columns.shape[1]
    starts = np.flatnonzero(np.diff(instance, prepend=-1))
    equations = known.T @ columns
    rows, scale = (np.abs(equations).max(axis=axis, initial=TINY) for axis in (1, 0))
    scaled = equations / rows[:, None] / scale * rows.mean()
    if len(starts) <= size or np.linalg.cond(scaled) > SINGULAR:
        return None
    inverse = np.linalg.inv(equations)
    solution = inverse @ (known.T @ losses)
    scores = np.add.reduceat(known * (losses - columns @ solution)[:, None], starts, axis=0)
    freedom = len(starts) / (len(starts) - size)
    return solution, freedom * inverse @ (scores.T @ scores) @ inverse.T


@kernel
def count_recent(design: Design, events: Events) -> tuple[Floats, Floats]:
    """Return how many showings of the same arm, and of any, came before each event, faded."""
    own, everything = np.zeros(events.item.size), np.zeros(events.item.size)
    counts = np.zeros(design.n_arms)
    for u in range(events.offsets.size - 1):
        counts[:] = 0.0
        first = events.offsets[u]
        for n in range(first, events.offsets[u + 1]):
            fade_counts(design, events, n, first, counts)
            own[n] = counts[events.arm[events.members[events.item[n]]]]
            for j in range(design.n_arms):
                everything[n] += counts[j]
            count_event(design, events, n, counts)
    return own, everything
