"""Placebo checks: what cannot be influence, put in the place of influence.

If arms that come later, or that somebody else met, say as much about a loss as the arms met before
it, then something moves choices and losses together, and no test of influence can be trusted. The
same holds if the first loss of an arm, before any repeat is possible, goes with what comes after.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from influential_bandits.learning.exposures import (
    Regressors,
    drop_repeats,
    find_partner_exposures,
    find_self_exposures,
    without_pairs,
)
from influential_bandits.learning.score_regression import (
    EventPasses,
    ScoreRegression,
    find_p_value,
)
from influential_bandits.learning.statistics.design import Events, read_only
from influential_bandits.numerics.arrays import Floats, Ints

PASSES = 8  # over all events
SAME_DIRECTION = 0.2  # of the influence seen: what a placebo must explain to speak against it


@dataclasses.dataclass(frozen=True)
class Placebo:
    """One check: arms that cannot have acted on a loss, tested as if they had.

    Examples
    --------
    >>> found = Placebo("arms met later", 0.001, 0.6, True, "something moves both")
    >>> print(found)
    arms met later: p = 0.001, 60 % of what past arms show; something moves both
    """

    name: str
    p_value: float
    share: float  # of what past arms show, 0 if they point elsewhere
    fires: bool
    meaning: str

    def __str__(self) -> str:
        """Say it in a line."""
        line = f"{self.name}: p = {self.p_value:.2g}"
        if not self.fires:
            return line
        return f"{line}, {100 * self.share:.0f} % of what past arms show; {self.meaning}"


def check_placebos(
    x: Regressors, passes: EventPasses, signs: Floats, level: float
) -> tuple[Placebo, ...]:
    """Return the checks that the log allows, for the memory of these regressors."""
    widest = int(np.diff(x.events.members).max())
    own = find_self_exposures(x.design, x.popularity, x.events, widest, True)
    shown = _regress(x._replace(design=without_pairs(x.design), per_arm=own), passes)
    checks = [
        _check(
            "arms met later",
            x._replace(per_arm=find_later_exposures(x, widest)),
            passes,
            signs,
            level,
            shown,
            "something moves choices and losses together, such as the interest of a session, or "
            "later choices follow losses",
        ),
        _check(
            "first showings, before any repeat is possible",
            x._replace(per_arm=find_first_exposures(x, widest)),
            passes,
            signs,
            level,
            shown,
            "the first loss of an arm goes with how often it is shown right after, though it "
            "cannot have been repeated yet",
        ),
    ]
    if len(x.events.time):
        partner = _choose_partners(x.events, passes.units.order)
        others = find_partner_exposures(x.design, x.popularity, x.events, partner, widest)
        checks.append(
            _check(
                "arms that others met at the same times",
                x._replace(per_arm=others),
                passes,
                signs,
                level,
                shown,
                "something common to all instances moves choices and losses, such as the calendar",
            )
        )
    return tuple(checks)


def _regress(x: Regressors, passes: EventPasses) -> ScoreRegression:
    return ScoreRegression(x, passes, np.arange(x.design.size, x.size))


def _check(
    name: str,
    x: Regressors,
    passes: EventPasses,
    signs: Floats,
    level: float,
    shown: ScoreRegression,
    meaning: str,
) -> Placebo:
    regression = _regress(x, passes)
    if not regression.tested.any():
        return Placebo(name, 1.0, 0.0, False, meaning)
    observed, flipped = (t**2 for t in regression.t_values(signs))
    p = find_p_value(observed.sum(keepdims=True), flipped.sum(1, keepdims=True))
    share = _share(regression, shown)
    return Placebo(name, p, share, p <= level and share >= SAME_DIRECTION, meaning)


def _share(regression: ScoreRegression, shown: ScoreRegression) -> float:
    """Return how much of what past arms show the placebo shows too, in the same direction."""
    both = np.intersect1d(
        regression.usable[regression.tested], shown.usable[shown.tested], assume_unique=True
    )
    if not len(both):
        return 0.0
    placebo, past = (
        each.estimate()[np.searchsorted(each.usable[each.tested], both)]
        for each in (regression, shown)
    )
    weight = np.diag(shown.gram)[np.searchsorted(shown.usable, both)]
    return max(0.0, float((weight * placebo * past).sum() / (weight * past**2).sum()))


def find_later_exposures(x: Regressors, widest: int) -> Floats:
    """Return exposures to the arms after each event: those of histories that run backwards."""
    turned, backwards = _turn(x.events)
    return find_self_exposures(x.design, x.popularity, turned, widest, True)[backwards]


def find_first_exposures(x: Regressors, widest: int) -> Floats:
    """Return exposures to an arm after its first event in a history, and zero for all others.

    At a first event nothing of the arm has been shown, so that past exposures are the same for all.
    Means of other events are not taken off: they would bring repeats in again.
    """
    turned, backwards = _turn(x.events)
    out: Floats = find_self_exposures(x.design, x.popularity, turned, widest, False)[backwards]
    drop_repeats(x.events, x.design.n_arms, out)
    return out


def _turn(events: Events) -> tuple[Events, Ints]:
    """Return histories that run backwards, and the numbers of events in that order."""
    backwards = _reverse(events.offsets)
    time = -events.time[backwards] if len(events.time) else events.time
    turned = events._replace(
        item=read_only(events.item[backwards]),
        loss=read_only(events.loss[backwards]),
        time=read_only(time),
    )
    return turned, backwards


def _reverse(offsets: Ints) -> Ints:
    """Return the numbers of events with every history backwards; its own inverse."""
    lengths = np.diff(offsets)
    ends = np.repeat(offsets[1:] - 1, lengths)
    return ends - (np.arange(int(offsets[-1])) - np.repeat(offsets[:-1], lengths))


def _choose_partners(events: Events, order: Ints) -> Ints:
    """Return for every instance another one that was there at about the same time, or −1."""
    partner = np.full(len(events.offsets) - 1, -1)
    start = events.time[events.offsets[order]]
    by_time = order[np.argsort(start, kind="stable")]
    if len(by_time) > 1:
        partner[by_time[:-1]] = by_time[1:]
        partner[by_time[-1]] = by_time[-2]
    return partner
