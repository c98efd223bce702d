"""What to do about fatigue: how often to show an arm at most, and what that should gain.

A cap says how many showings of an arm a user may have within so many showings, or days. The log is
replayed under caps: where one forbids the arm that was logged, the user gets another one, drawn
from the arms that this user was shown. The gain is what a model says about the difference: what
influence is saved, and what the user loses by another arm. It is linear in the coefficients, so
that their covariance gives the interval. Half of the users choose caps and the other half judge
them, so that caps which suit noise alone show no gain. The whole log chooses better than a half,
and flatters what it chose: the estimate is the middle of the two, and the interval holds both.

Where choices follow taste, that is not enough: a model that is fitted to what users like to see
takes fatigue for too small and other arms for too good. Then no cap is advised.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from influential_bandits.execution.base import Execution
from influential_bandits.learning.impact import Estimate, Impact, mean_regressors
from influential_bandits.learning.logging_policy import describe_taste
from influential_bandits.learning.models import InfluenceModel
from influential_bandits.learning.statistics.design import (
    DAY,
    Design,
    Events,
    event_columns,
)
from influential_bandits.logs.log import EventLog, require_log
from influential_bandits.logs.outcome import read_outcome
from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.numerics.compiling import kernel
from influential_bandits.numerics.streams import RESAMPLING, stream_at, stream_keys, uniform
from influential_bandits.packages import make_frame, optional_module

SPACINGS = (2, 3, 4, 6)  # showings of which at most one is of the arm, where memory goes by events
TIMES = (1, 2, 3, 5, 8, 12)  # showings within a half-life, where memory goes by the clock
SEARCH_EVENTS = 20_000
MOST_EVENTS = 400_000
MOST_CAPPED = 10  # arms that are tried, the most tired first
FREE = 1 << 30  # no cap
CONFUSED = (
    "so that what a cap saves cannot be told from what users lose by it; try one in an A/B test"
)

SEVERAL_ARMS = "its items have several arms each, and a cap is about one"
TOO_FEW = (
    "{} instances are too few to say how sure a gain is; each half of them has to have more than "
    "the {} coefficients of the model"
)

Codes: TypeAlias = npt.NDArray[np.int32]


@dataclasses.dataclass(frozen=True)
class Cap:
    """How often one arm may be shown at most.

    Examples
    --------
    >>> print(Cap("Comedy", 1, 4, None))
    Comedy: at least 3 other showings before the next one
    >>> print(Cap("Comedy", 2, None, 1.0))
    Comedy: at most 2 showings within 1 day
    """

    arm: str
    times: int
    showings: int | None  # of any arm, among which the cap counts
    days: float | None  # or days

    def __str__(self) -> str:
        """Say it as an instruction."""
        if self.showings is not None:
            others = self.showings - 1
            unit = "showing" if others == 1 else "showings"
            return f"{self.arm}: at least {others} other {unit} before the next one"
        days = self.days or 0.0
        span = (
            "1 day" if days == 1.0 else f"{days:g} days" if days > 1.0 else f"{24 * days:g} hours"
        )
        unit = "showing" if self.times == 1 else "showings"
        return f"{self.arm}: at most {self.times} {unit} within {span}"


@dataclasses.dataclass(frozen=True)
class CapAdvice:
    """Caps, and what they should gain together.

    Attributes
    ----------
    caps : tuple of Cap
        Empty if none is clearly expected to help.
    gain : Estimate
        Loss saved for each event of the log, or clicks or stars won.
    moved : float
        Share of the showings that another arm would get.
    doubt : str
        Why no cap is advised, though a model expects one to help; empty if none stands against it.
    in_percent : str
        The gain in percent of what the log had, as in ", +6.8 % clicks".
    """

    outcome: str
    caps: tuple[Cap, ...]
    gain: Estimate
    moved: float
    doubt: str = ""
    in_percent: str = ""

    def __str__(self) -> str:
        """Say caps and gain in a line, or why there are none."""
        if self.doubt:
            return f"No cap on how often an arm is shown is supported by this log: {self.doubt}."
        if not self.caps:
            return "No cap on how often an arm is shown is clearly expected to help."
        words = "; ".join(map(str, self.caps))
        return (
            f"Show less often: {words}. Expected gain for each showing of the log: {self.gain} "
            f"{self.outcome}{self.in_percent}; {100 * self.moved:.0f} % of the showings go to "
            "other arms."
        )

    def to_frame(self, library: str = "pandas") -> Any:
        """Return a data frame of pandas, polars or pyarrow: one row for each cap."""
        names = [field.name for field in dataclasses.fields(Cap)]
        return make_frame({name: [getattr(c, name) for c in self.caps] for name in names}, library)


class Rule(NamedTuple):
    """Caps as compiled code reads them."""

    times: Ints  # (arms,): at most
    showings: Ints  # (arms,): among so many, this one included; 0: by the clock
    seconds: float


class Verdict(NamedTuple):
    """What a model says of caps."""

    gain: float  # per event
    error: float  # the standard error of that
    moved: float  # share of the showings


def advise_caps(
    model: InfluenceModel,
    log: EventLog,
    impact: Impact,
    *,
    seed: int = 0,
    execution: Execution | int | None = None,
) -> CapAdvice:
    """Return caps that should help, with their gain.

    None is advised where choices in the log follow taste, or where that is not ruled out, nor
    where an item has several arms or instances are too few: :attr:`CapAdvice.doubt` says so.

    Parameters
    ----------
    model : InfluenceModel
        A pooled one, as for :func:`measure_impact`.
    log : EventLog
        That the model was fitted to, adjusted or not.
    impact : Impact
        What :func:`measure_impact` found: arms that are clearly tired are tried.
    seed : int
        Of what is shown instead.
    execution : int or Execution, optional
        Where the models of halves are fitted.

    Examples
    --------
    >>> import influential_bandits as ib
    >>> log = ib.data.synthetic_log(
    ...     300, 60, 3, interaction=[[0.5, 0, 0], [0, 0, 0], [0, 0, 0]], memory=0.8, seed=0
    ... )
    >>> model = ib.InfluenceModel("symmetric", fading=0.8, pooling="full").fit(log)
    >>> advice = ib.advise_caps(model, log, ib.measure_impact(model, log))
    >>> [cap.arm for cap in advice.caps]
    ['0']
    """
    log = require_log(log)
    if (np.diff(log.membership.offsets) != 1).any():
        return advise_nothing(impact, SEVERAL_ARMS)
    names = [name for name, cost in impact.arms.items() if cost.sign > 0]
    arms = [log.arm_names.index(name) for name in names]
    whole = _Judge(model, log, seed)
    rule = whole.choose(arms)
    if not (rule.times < FREE).any():
        return advise_nothing(impact)
    if log.n_instances // 2 <= model.design_.size:
        return advise_nothing(impact, TOO_FEW.format(log.n_instances, model.design_.size))
    clone = optional_module("sklearn.base").clone
    parts = [log.take(np.arange(half, log.n_instances, 2)) for half in (0, 1)]
    judges = [_Judge(clone(model).fit(part, execution=execution), part, seed) for part in parts]
    verdicts = [
        judge.measure(chooser.choose(arms))
        for judge, chooser in zip(judges, reversed(judges), strict=True)
    ]
    judged = sum(verdict.gain for verdict in verdicts) / 2.0
    error = math.hypot(*(verdict.error for verdict in verdicts)) / 2.0
    # Halves may differ by more than the model's errors say: by tastes, and by what is drawn.
    error = max(error, abs(verdicts[0].gain - verdicts[1].gain) / 2.0)
    freedom = min(judge.freedom for judge in judges)
    level = (1.0 - impact.confidence) / 2.0
    wide = error * float(optional_module("scipy.stats").t.isf(level, freedom))
    # Caps that a half chose gain less than those of the whole log, and the data that chose caps
    # flatter them: on average the truth lies between the two.
    flattered = whole.measure(rule)
    ends = sorted((judged, flattered.gain))
    gain = Estimate(sum(ends) / 2.0, ends[0] - wide, ends[1] + wide)
    if gain.low <= 0.0:
        return advise_nothing(impact)
    taste = describe_taste(model, log, execution)
    if taste:
        return advise_nothing(impact, f"{taste}, {CONFUSED}")
    caps = [whole.name_cap(rule, arm) for arm in np.flatnonzero(rule.times < FREE).tolist()]
    percent = read_outcome(log.about).in_percent(gain.value, float(log.loss.mean()))
    return CapAdvice(impact.outcome, tuple(caps), gain, flattered.moved, in_percent=percent)


def advise_nothing(impact: Impact, doubt: str = "") -> CapAdvice:
    """Return no caps, and what stands against them."""
    return CapAdvice(impact.outcome, (), Estimate(0.0, 0.0, 0.0), 0.0, doubt)


class _Judge:
    """Replays a log under caps, and says what a model makes of it."""

    def __init__(self, model: InfluenceModel, log: EventLog, seed: int) -> None:
        self.model, self.log, self.seed = model, log, seed
        self.freedom = max(log.n_instances - model.design_.size, 1)
        self.design: Design = model.design_
        self.events = event_columns(log)
        arms = log.n_arms
        self.items = np.zeros(arms, np.int32)
        self.items[log.membership.arm] = np.arange(len(log.membership.arm), dtype=np.int32)
        counts = np.bincount(log.membership.arm[log.item], minlength=arms)
        self.popularity = counts / counts.sum()

    def choose(self, arms: list[int]) -> Rule:
        """Return the caps of these arms that promise most, one arm after the other."""
        rule, best = self.allow_all(), 0.0
        cost = np.diag(self.model.interaction_)
        for arm in sorted(arms, key=lambda arm: -float(cost[arm]))[:MOST_CAPPED]:
            for tried in self.list_rules(rule, arm):
                # Gains of neighbouring caps differ little: the gain less its error prefers what is
                # better known, and moves fewer showings.
                gain, error, _ = self.measure(tried, SEARCH_EVENTS)
                if gain - error > best:
                    rule, best = tried, gain - error
        return rule

    def allow_all(self) -> Rule:
        """Return no caps at all."""
        arms = self.log.n_arms
        return Rule(np.full(arms, FREE), np.zeros(arms, np.int64), self.design.half_life)

    def list_rules(self, rule: Rule, arm: int) -> list[Rule]:
        """Return the caps that may be tried for one arm, beside those of the others."""
        chosen = np.arange(self.log.n_arms) == arm
        if self.design.half_life > 0.0:
            return [rule._replace(times=np.where(chosen, times, rule.times)) for times in TIMES]
        return [
            rule._replace(
                times=np.where(chosen, 1, rule.times),
                showings=np.where(chosen, among, rule.showings),
            )
            for among in SPACINGS
        ]

    def name_cap(self, rule: Rule, arm: int) -> Cap:
        """Return one cap for people."""
        times, among = int(rule.times[arm]), int(rule.showings[arm])
        if among:
            return Cap(self.log.arm_names[arm], times, among, None)
        return Cap(self.log.arm_names[arm], times, None, rule.seconds / DAY)

    def measure(self, rule: Rule, most: int = MOST_EVENTS) -> Verdict:
        """Return the gain by event, its standard error, and the share of showings moved."""
        events, users = self.events, np.arange(self.log.n_instances)
        if len(self.log) > most:
            users = users[:: -(-len(self.log) // most)]
            part = self.log.take(users)
            events = event_columns(part)
        item = events.item.copy()
        replay(events, rule, self.popularity, self.items, np.uint64(self.seed), item)
        item.flags.writeable = False
        design, arms = self.design, self.log.n_arms
        saved = np.zeros(design.size)
        for sign, shown in ((1.0, events), (-1.0, events._replace(item=item))):
            saved += sign * mean_regressors(design, shown, design.size)
        saved[arms : design.start] = 0.0  # the level of a history is given
        error = math.sqrt(max(float(saved @ self.model.population_covariance_ @ saved), 0.0))
        # The sandwich is too small by about as much, where coefficients are many.
        error *= math.sqrt(self.log.n_instances / self.freedom)
        # What users lose by another arm is their own affair: they were shown what they like.
        changed = np.flatnonzero(item != events.item)
        owner = np.repeat(users, np.diff(events.offsets))[changed]
        own = self.model.coefficients_
        old, new = events.arm[events.item[changed]], events.arm[item[changed]]
        taste = float((own[owner, old] - own[owner, new]).sum()) / max(len(item), 1)
        gain = float(saved[design.start :] @ self.model.population_[design.start :]) + taste
        return Verdict(gain, error, len(changed) / max(len(item), 1))


@kernel
def replay(
    events: Events, rule: Rule, popularity: Floats, items: Codes, seed: Any, item: Codes
) -> None:
    """Replace what caps forbid, by what the same history was shown at other times."""
    arms = popularity.size
    habit = np.zeros(arms)
    allowed = np.zeros(arms, np.bool_)
    for u in range(events.offsets.size - 1):
        first, last = events.offsets[u], events.offsets[u + 1]
        first_key, second_key = stream_keys(seed, np.uint64(u), RESAMPLING)
        for j in range(arms):
            habit[j] = popularity[j]
        for n in range(first, last):
            habit[events.arm[events.item[n]]] += 1.0
        for n in range(first, last):
            if is_allowed(events, rule, item, first, n, events.arm[events.item[n]]):
                continue
            total = 0.0
            for j in range(arms):
                allowed[j] = is_allowed(events, rule, item, first, n, j)
                if allowed[j]:
                    total += habit[j]
            if total == 0.0:
                continue
            left = total * uniform(stream_at(first_key, second_key, n - first + 1), 0)
            instead = -1
            for j in range(arms):
                if allowed[j] and (left >= 0.0 or instead < 0):
                    instead = j
                    left -= habit[j]
            item[n] = items[instead]


@kernel
def is_allowed(events: Events, rule: Rule, item: Codes, first: int, n: int, arm: int) -> bool:
    """Return whether a cap lets an arm be shown at event n."""
    if rule.times[arm] >= FREE:
        return True
    seen, m = 0, n - 1
    while m >= first:
        if rule.showings[arm] > 0:
            if n - m >= rule.showings[arm]:
                break
        elif events.time[n] - events.time[m] >= rule.seconds:
            break
        if events.arm[item[m]] == arm:
            seen += 1
            if seen >= rule.times[arm]:
                return False
        m -= 1
    return True
