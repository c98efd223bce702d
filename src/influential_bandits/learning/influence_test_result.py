"""What the test of influence found: p-values, effect and pairs, to print and to export."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import numpy.typing as npt

from influential_bandits.checks import abbreviate, is_real
from influential_bandits.errors import InvalidInput
from influential_bandits.learning.kalman import Components
from influential_bandits.numerics.arrays import Floats

__all__ = ["InfluenceTest", "PairEstimate", "ScoreTest"]


@dataclasses.dataclass(frozen=True)
class PairEstimate:
    """Influence of one arm on another, relative to the other pairs.

    Examples
    --------
    >>> pair = PairEstimate("Comedy", "Comedy", 0.06, 0.02, 0.1, 0.001)
    >>> print(pair)
    Comedy on itself: 0.06 (0.02 … 0.1), p = 0.001
    """

    arm: str
    other: str
    estimate: float  # entry of the doubly centred interaction
    low: float  # of the simultaneous interval
    high: float
    p_adjusted: float  # for all pairs together

    def __str__(self) -> str:
        """Say it in a line."""
        who = f"{self.arm} on itself" if self.arm == self.other else f"{self.arm} and {self.other}"
        interval = f"{self.low:.3g} … {self.high:.3g}"
        return f"{who}: {self.estimate:.3g} ({interval}), p = {_rounded(self.p_adjusted)}"


@dataclasses.dataclass(frozen=True)
class ScoreTest:
    """One of the three tests: all pairs, arms on themselves, or arms on each other.

    Examples
    --------
    >>> ScoreTest(pairs=6, statistic=11.5, p_value=0.07, p_adjusted=0.14).p_value
    0.07
    """

    pairs: int  # how many took part
    statistic: float  # Σ t² over them
    p_value: float
    p_adjusted: float  # by Holm, for three tests


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class InfluenceTest:
    """What :func:`influence_test` found.

    Attributes
    ----------
    overall, self_influence, cross_influence : ScoreTest
        All pairs of arms; arms on themselves; arms on each other. The null hypothesis is the same
        for all three, no influence at all: the last two look for it in different places, and strong
        self-influence also leaves a trace in the third.
    effect, effect_low, effect_high : float
        Share of the variance of the one-step-ahead error that influence explains, corrected for
        what as many pairs explain by chance (so it may be negative), and its interval.
    interaction : array (arms, arms) of float
        The estimate of A, doubly centred: A − row means − column means + mean, over the arms that
        could be measured. Counts relative to shares sum to zero, so that a constant added to all of
        A changes nothing, and what raises all losses alike is hard to tell from drift; differences
        of differences can be told. Zero where nothing could be measured.
    measured : array (arms, arms) of bool
        Which entries of ``interaction`` the log tells something about.
    pairs : tuple of PairEstimate
        All measured pairs, the clearest first, with simultaneous intervals and p-values adjusted
        for the number of pairs (Westfall and Young's max-|t|).
    components : Components
        Variances of tastes, levels and drift relative to the noise, as fitted.
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
    >>> found = ib.influence_test(log)
    >>> found.p_value
    0.001
    >>> print(found.pairs[0].arm, found.pairs[0].other)
    0 0
    """

    arm_names: tuple[str, ...]
    events: int
    instances: int
    units: int
    unit_kind: str
    overall: ScoreTest
    self_influence: ScoreTest
    cross_influence: ScoreTest
    effect: float
    effect_low: float
    effect_high: float
    interaction: Floats
    measured: npt.NDArray[np.bool_]
    pairs: tuple[PairEstimate, ...]
    components: Components
    memory: float
    half_life: float | None
    permutations: int
    confidence: float
    seed: int

    @property
    def p_value(self) -> float:
        """Of the overall test."""
        return self.overall.p_value

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
            Probability of a false alarm.

        Returns
        -------
        int or None
            None if the observed effect is not positive: then no number would do.

        Examples
        --------
        >>> import influential_bandits as ib
        >>> ib.influence_test(ib.data.synthetic_log(60, 40, 3)).events_needed(0.001)
        13611
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
        strength = _noncentrality(self.overall.pairs, power, level)
        return math.ceil(strength * (1.0 - wanted) / wanted)

    def summary(self) -> str:
        """Return the verdict and what it rests on, in plain words."""
        lines = [self._verdict()]
        for what, part in (
            ("arms on themselves", self.self_influence),
            ("arms on each other", self.cross_influence),
        ):
            if part.pairs:
                p, adjusted = _rounded(part.p_value), _rounded(part.p_adjusted)
                lines.append(f"  {what}: p = {p} ({adjusted} Holm-adjusted for three tests)")
        clear = [pair for pair in self.pairs if pair.p_adjusted <= 1.0 - self.confidence]
        lines += [f"  {pair}" for pair in clear[:5]]
        lines.append(
            f"  {self.events:,} events of {self.instances:,} instances, {self.overall.pairs} pairs "
            f"of arms; signs of {self.units:,} {self.unit_kind} flipped {self.permutations:,} times"
        )
        return "\n".join(lines)

    def _verdict(self) -> str:
        p = f"p = {_rounded(self.p_value)}"
        percent = f"{self.confidence:.0%}".replace("%", " %")
        effect = f"{100 * self.effect:.2g} % of the error"
        interval = (
            f"{percent} interval {100 * self.effect_low:.2g} … {100 * self.effect_high:.2g} %"
        )
        if self.p_value <= 1.0 - self.confidence:
            size = "small but real" if self.effect < 0.01 else "real"
            size = size if self.effect_low > 0.0 else "faint"
            return f"influence beyond drift: {size}, {effect} ({interval}), {p}"
        needed = self.events_needed(0.001)
        return (
            f"no influence beyond drift was seen ({p}; {effect}, {interval}); an effect of 0.1 % "
            f"would need about {needed:,} events"
        )

    def __repr__(self) -> str:
        """Say the size and the result."""
        return (
            f"InfluenceTest({self.events:,} events, {self.instances:,} instances, "
            f"{len(self.arm_names)} arms, p = {_rounded(self.p_value)})"
        )

    def __str__(self) -> str:
        """Return the summary."""
        return self.summary()

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain numbers, lists and texts."""
        plain = dataclasses.asdict(self)
        plain["interaction"] = self.interaction.tolist()
        plain["measured"] = self.measured.tolist()
        plain["arm_names"] = list(self.arm_names)
        plain["components"] = self.components._asdict()
        plain["pairs"] = [dataclasses.asdict(pair) for pair in self.pairs]
        plain["p_value"] = self.p_value
        plain["events_needed"] = self.events_needed()
        return plain


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
