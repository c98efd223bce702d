"""What the test of influence found: p-values, effect and pairs, to print and to export."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

from influential_bandits.checks import abbreviate, is_real
from influential_bandits.display import Bars
from influential_bandits.errors import InvalidInput
from influential_bandits.learning.kalman import Components
from influential_bandits.learning.placebo import Placebo
from influential_bandits.packages import make_frame
from influential_bandits.summaries.interval_text import round_to_interval, tell_apart
from influential_bandits.world.fading import Fading

if TYPE_CHECKING:
    from matplotlib.axes import Axes


SHOWN_PAIRS = 12  # in a picture
ON_THEMSELVES, ON_EACH_OTHER, ALIKE = "arms on themselves", "arms on each other", "all arms alike"


@dataclasses.dataclass(frozen=True)
class PairEstimate:
    """Influence of one arm on another, relative to other pairs; or on itself, relative to others.

    Examples
    --------
    >>> pair = PairEstimate("Comedy", "Comedy", 0.06, 0.02, 0.1, 0.001)
    >>> print(pair)
    Comedy on itself: 0.060 (0.020 … 0.100), p = 0.001
    """

    arm: str
    other: str
    estimate: float  # what a showing just before adds to the loss
    low: float  # of the interval, which holds for all pairs of its kind at once
    high: float
    p_adjusted: float  # for all pairs of its kind

    def __str__(self) -> str:
        """Say it in a line."""
        arms = f"{self.arm} on itself" if self.arm == self.other else f"{self.arm} and {self.other}"
        value, low, high = round_to_interval(self.estimate, self.low, self.high)
        return f"{arms}: {value} ({low} … {high}), p = {_rounded(self.p_adjusted)}"


@dataclasses.dataclass(frozen=True)
class ScoreTest:
    """One of the tests: arms on themselves, on each other, or all arms alike.

    Examples
    --------
    >>> ScoreTest(pairs=6, statistic=11.5, p_value=0.07, p_adjusted=0.14).p_value
    0.07
    """

    pairs: int  # how many effects were looked at
    statistic: float  # Σ t² over them, or over those that go the same way
    p_value: float  # accounts for the memories that were tried
    p_adjusted: float  # by Holm, for all tests of the log


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class InfluenceTest:
    """What :func:`influence_test` found.

    Attributes
    ----------
    self_influence, cross_influence, common : ScoreTest
        Three places to look for influence. Arms on themselves. Arms on each other, beyond what they
        do to themselves; None where arms were tested on themselves alone, or two arms leave nothing
        to tell. Showings of any arm on all arms alike, beyond what arms do to themselves where that
        was seen; it needs times with breaks, which tell it from drift, and is None without.
    effect, effect_low, effect_high : float
        Share of the variance of the one-step-ahead error that arms on themselves explain, or arms
        on each other where these show most; corrected for what as many pairs explain by chance (so
        it may be negative), and its interval.
    pairs : tuple of PairEstimate
        Arms on themselves, the clearest first, then pairs of different arms. What an arm does to
        itself is relative to what the other arms do to it; what two arms do to each other is beyond
        that, and relative to the mean of all pairs: what raises all losses alike is hard to tell
        from drift. Intervals and p-values hold for all pairs of a kind (Westfall and Young's
        max-|t|).
    components : Components
        Variances of tastes, levels and drift relative to the noise, as fitted.
    fading : Fading
        How the influence that showed most fades, out of ``memories_tried``; estimates are for it.
        Hand it on to a model: ``InfluenceModel("symmetric", fading=test.fading)``.
    controls : tuple of str
        What was taken out before, see :func:`adjust_losses`.
    placebos : tuple of Placebo
        What arms that cannot have acted seem to do.
    blind_spots : tuple of str
        What this log cannot tell apart, in words.
    n_events, n_instances : int
        Of the log.
    units, unit_kind : int and str
        How many signs were flipped, and of what: "instances", "groups of instances" or "blocks of
        histories".

    Examples
    --------
    >>> import influential_bandits as ib
    >>> log = ib.data.synthetic_log(
    ...     100,
    ...     80,
    ...     3,
    ...     interaction=[[0.3, 0, 0], [0, 0, 0], [0, 0, 0]],
    ...     memory=0.8,
    ...     drift=0.5,
    ...     spread=0.3,
    ...     bursts=0.3,
    ...     steering=1.0,
    ... )
    >>> test = ib.influence_test(log)
    >>> test.p_value
    0.003
    >>> print(test.pairs[0].arm, test.pairs[0].other)
    0 0
    """

    arm_names: tuple[str, ...]
    n_events: int
    n_instances: int
    units: int
    unit_kind: str
    self_influence: ScoreTest
    cross_influence: ScoreTest | None
    common: ScoreTest | None
    effect: float
    effect_low: float
    effect_high: float
    pairs: tuple[PairEstimate, ...]
    components: Components
    fading: Fading
    memories_tried: int
    controls: tuple[str, ...]
    placebos: tuple[Placebo, ...]
    permutations: int
    confidence: float
    seed: int

    @property
    def families(self) -> dict[str, ScoreTest]:
        """The tests that were made, by what acts on what."""
        tests = {
            ON_THEMSELVES: self.self_influence,
            ON_EACH_OTHER: self.cross_influence,
            ALIKE: self.common,
        }
        return {name: test for name, test in tests.items() if test is not None}

    @property
    def clearest(self) -> str:
        """Which of the families shows most; the verdict is about it."""
        return min(self.families, key=lambda name: self.families[name].p_value)

    @property
    def p_value(self) -> float:
        """Of any influence: that of the clearest family, adjusted for looking at several."""
        return self.families[self.clearest].p_adjusted

    @property
    def detected(self) -> bool:
        """Whether something was seen, at the level 1 − confidence."""
        return self._is_seen(self.families[self.clearest])

    def _is_seen(self, test: ScoreTest) -> bool:
        return test.p_adjusted <= 1.0 - self.confidence + 1e-12

    @property
    def seen(self) -> tuple[str, ...]:
        """The families in which something was seen, at the level 1 − confidence together."""
        return tuple(name for name, test in self.families.items() if self._is_seen(test))

    @property
    def clear_pairs(self) -> tuple[PairEstimate, ...]:
        """The pairs that stand out of a family in which something was seen."""
        return tuple(
            pair
            for pair in self.pairs
            if pair.p_adjusted <= 1.0 - self.confidence
            and (ON_THEMSELVES if pair.arm == pair.other else ON_EACH_OTHER) in self.seen
        )

    @property
    def doubts(self) -> tuple[Placebo, ...]:
        """Placebo checks that fire: then what was seen may be something else than influence."""
        return tuple(check for check in self.placebos if check.fires)

    def events_needed(
        self, effect: float | None = None, power: float = 0.8, level: float = 0.05
    ) -> int | None:
        """Return how many events it takes to see an effect, in a log like this one.

        From the noncentral chi-square distribution with one degree of freedom for each pair.

        Parameters
        ----------
        effect : float, optional
            Share of the error's variance that influence explains; by default the observed one.
        power : float
            Probability of seeing it.
        level : float
            Probability of a false alarm in any of the tests.

        Returns
        -------
        int or None
            None if the observed effect is not positive: then no number would do.

        Examples
        --------
        >>> import influential_bandits as ib
        >>> ib.influence_test(ib.data.synthetic_log(60, 40, 3)).events_needed(0.001)
        14035
        """
        wanted = self.effect if effect is None else effect
        if not (is_real(wanted) and wanted < 1.0) or (effect is not None and not wanted > 0.0):
            raise InvalidInput(
                f"effect must be a share of the variance in (0, 1), got {abbreviate(effect)}"
            )
        for name, value in (("power", power), ("level", level)):
            if not (is_real(value) and 0.0 < value < 1.0):
                raise InvalidInput(
                    f"{name} must be a probability in (0, 1), got {abbreviate(value)}"
                )
        if wanted <= 0.0:
            return None
        strength = _noncentrality(self.self_influence.pairs, power, level / len(self.families))
        return math.ceil(strength * (1.0 - wanted) / wanted)

    def summary(self) -> str:
        """Return the verdict and what it rests on, in plain words."""
        lines = [self._verdict()]
        number = len(self.families)
        for name, test in self.families.items():
            adjusted = f" ({_rounded(test.p_adjusted)} Holm-adjusted for {number} tests)"
            lines.append(f"  {name}: p = {_rounded(test.p_value)}{adjusted if number > 1 else ''}")
        if self.cross_influence is None:
            reason = "two arms cannot tell it from the above"
            if len(self.arm_names) > 2:
                reason = "not tested (all_pairs=True; --all-pairs)"
            lines.append(f"  arms on each other: {reason}")
        lines += [f"  {pair}" for pair in self.clear_pairs[:5]]
        tried = (
            f", the clearest of {self.memories_tried} memories" if self.memories_tried > 1 else ""
        )
        lines.append(f"  memory: {self.fading}{tried}")
        lines.append(f"  controlled for: {', '.join(self.controls) or 'nothing'}")
        lines += [f"  placebo, {check}" for check in self.placebos]
        lines += [f"  this log cannot tell apart {spot}" for spot in self.blind_spots]
        effects = sum(test.pairs for test in self.families.values())
        lines.append(
            f"  {self.n_events:,} events of {self.n_instances:,} instances, {effects} effects; "
            f"signs of {self.units:,} {self.unit_kind} flipped {self.permutations:,} times"
        )
        return "\n".join(lines)

    @property
    def blind_spots(self) -> tuple[str, ...]:
        """What this log cannot tell apart, in words."""
        spots = []
        if not {"trend", "hour", "weekday"} & set(self.controls):
            spots.append("influence from the calendar and the hour: it has no times for them")
        if "item" not in self.controls:
            spots.append(
                "fatigue from the order of items, if the best of an arm come first: it has no items"
            )
        if self.common is None:
            spots.append("fatigue of all arms alike from drift: it has no breaks to see it by")
        if self.doubts:
            spots.append("influence from what moves choices and losses together")
        return tuple(spots)

    def _verdict(self) -> str:
        p = f"p = {_rounded(self.p_value)}"
        percent = f"{self.confidence:.0%}".replace("%", " %")
        shares = (100 * self.effect, 100 * self.effect_low, 100 * self.effect_high)
        value, low, high = tell_apart(*shares, ".2g")
        effect, interval = f"{value} % of the error", f"{percent} interval {low} … {high} %"
        if self.detected and self.doubts:
            return (
                f"losses follow past arms ({p}), but {self.doubts[0].name} seem to act as well: "
                f"not proof of influence; {self.doubts[0].meaning}"
            )
        if self.detected and self.clearest == ALIKE:
            return f"influence beyond drift: showings act on all arms alike ({p})"
        if self.detected:
            size = "small but real" if self.effect < 0.01 else "real"
            size = size if self.effect_low > 0.0 else "faint"
            return f"influence beyond drift, {self.clearest}: {size}, {effect} ({interval}), {p}"
        needed = self.events_needed(0.001)
        return (
            f"no influence beyond drift was seen ({p}; {effect}, {interval}); an effect of 0.1 % "
            f"would need about {needed:,} events"
        )

    def __repr__(self) -> str:
        """Say the size and the result."""
        return (
            f"InfluenceTest({self.n_events:,} events, {self.n_instances:,} instances, "
            f"{len(self.arm_names)} arms, p = {_rounded(self.p_value)})"
        )

    def __str__(self) -> str:
        """Return the summary."""
        return self.summary()

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the clearest pairs of arms; their intervals hold for all of them at once."""
        return self.picture.draw(ax)

    @property
    def picture(self) -> Bars:
        """The clearest pairs of arms with their intervals, as data."""
        shown = self.pairs[:SHOWN_PAIRS]
        return Bars(
            "pairs",
            "The clearest pairs",
            [p.arm if p.arm == p.other else f"{p.arm} – {p.other}" for p in shown],
            [p.estimate for p in shown],
            "change of loss by a recent pull, relative to other pairs",
            [p.low for p in shown],
            [p.high for p in shown],
            "A single name is an arm's influence on itself; above zero is fatigue. All are "
            "relative to others, which is how the test knows them from drift; what a showing costs "
            "stands below. Intervals hold for all pairs at once.",
        )

    def to_frame(self, library: str = "pandas") -> Any:
        """Return a data frame of pandas, polars or pyarrow: a row for each pair, clearest first."""
        names = [field.name for field in dataclasses.fields(PairEstimate)]
        return make_frame({name: [getattr(p, name) for p in self.pairs] for name in names}, library)

    def to_json(self) -> dict[str, Any]:
        """Return p-values, effect and pairs as plain numbers, lists and texts."""
        return {
            "detected": self.detected,
            "p_value": self.p_value,
            "clearest": self.clearest,
            "families": {name: dataclasses.asdict(each) for name, each in self.families.items()},
            "effect": {"value": self.effect, "low": self.effect_low, "high": self.effect_high},
            "events_needed": self.events_needed(),
            "pairs": [dataclasses.asdict(pair) for pair in self.pairs],
            "placebos": [
                {key: getattr(check, key) for key in ("name", "p_value", "share", "fires")}
                for check in self.placebos
            ],
            "controls": list(self.controls),
            "permutations": self.permutations,
            "seed": self.seed,
        }


def _noncentrality(pairs: int, power: float, level: float) -> float:
    """Return how far a chi-square has to be moved to be seen with this power."""
    from scipy.optimize import brentq
    from scipy.stats import chi2, ncx2

    threshold = float(chi2.isf(level, pairs))

    def find_shortfall(strength: float) -> float:
        return float(ncx2.sf(threshold, pairs, strength)) - power

    if power <= level:
        return 0.0
    high = 1.0
    while find_shortfall(high) < 0.0:
        high *= 2.0
    return float(brentq(find_shortfall, 0.0, high))


def _rounded(p: float) -> str:
    return f"{p:.2g}"
