"""What influence costs, in the units of the log: by showing, in all, and where."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from influential_bandits.checks import abbreviate, is_real
from influential_bandits.display import Bars
from influential_bandits.errors import InvalidInput, NotApplicable
from influential_bandits.learning.click_curve import count_lost_clicks
from influential_bandits.learning.loss_model import require_fitted
from influential_bandits.learning.models import InfluenceModel
from influential_bandits.learning.statistics.design import (
    Design,
    Events,
    event_columns,
    fade_counts,
    interaction_entries,
    predict_losses,
    regressors,
    take_event,
)
from influential_bandits.learning.statistics.pooled_sums import arm_sums
from influential_bandits.logs.log import EventLog, require_log
from influential_bandits.logs.outcome import Outcome, read_outcome
from influential_bandits.numerics.arrays import Floats
from influential_bandits.numerics.compiling import kernel
from influential_bandits.packages import make_frame, optional_module
from influential_bandits.summaries.interval_text import round_to_interval
from influential_bandits.world.fading import require_fading

if TYPE_CHECKING:
    from matplotlib.axes import Axes


NEGLIGIBLE = 0.01  # share of the outcome; what influence moves less than that is called negligible
SHOWN = 5  # arms and pairs in the summary
SHOWN_ARMS = 12  # in a picture


@dataclasses.dataclass(frozen=True)
class Estimate:
    """A number with its interval.

    Examples
    --------
    >>> print(Estimate(0.0312, 0.021, 0.0414))
    0.031 (0.021 … 0.041)
    """

    value: float
    low: float
    high: float

    @property
    def sign(self) -> int:
        """1 or −1 if the whole interval lies on one side of zero, else 0."""
        return int(self.low > 0.0) - int(self.high < 0.0)

    def scale(self, factor: float) -> Estimate:
        """Return the same in other units."""
        low, high = sorted((factor * self.low, factor * self.high))
        return Estimate(factor * self.value, low, high)

    def __str__(self) -> str:
        """Round to what the interval supports."""
        if not self.high > self.low:
            return f"{self.value:.3g} (no interval)"
        value, low, high = round_to_interval(self.value, self.low, self.high)
        return f"{value} ({low} … {high})"


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Impact:
    """What influence costs; positive numbers are worse, whatever the outcome is called.

    Attributes
    ----------
    outcome : str
        What is lost or gained: clicks, points of the rating, or "loss".
    per_showing : Estimate
        What one showing of an arm adds to the loss of the same arm's next one, the mean over
        showings.
    arms : dict of str and Estimate
        The same, arm by arm; these intervals and those of pairs hold for all of them at once.
    pairs : dict of pair of str and Estimate
        What a showing of one arm adds to the loss of another.
    lost : Estimate
        What influence adds to the loss of an event, the mean over all events.
    share : Estimate
        The same relative to the outcome: of all rewards there would be without influence, or of the
        mean size of a loss.
    half_gone : str
        When half of it is left, in words.
    spread : float
        Standard deviation of the mean loss of an instance.

    Examples
    --------
    >>> import influential_bandits as ib
    >>> log = ib.data.synthetic_log(
    ...     300, 60, 2, interaction=[[0.3, 0], [0, 0.3]], initial_loss=1, memory=0.8, seed=0
    ... )
    >>> model = ib.InfluenceModel("symmetric", fading=0.8, pooling="full").fit(log)
    >>> print(ib.measure_impact(model, log).headline())
    fatigue: one more showing costs the next one of the same arm 0.311 (0.294 … 0.329) loss; ...
    """

    outcome: str
    per_showing: Estimate
    arms: dict[str, Estimate]
    pairs: dict[tuple[str, str], Estimate]
    lost: Estimate
    share: Estimate
    half_gone: str
    spread: float
    confidence: float

    @property
    def direction(self) -> str:
        """Return "fatigue", "boost", "mixed", "negligible" or "unclear"."""
        if max(abs(self.share.low), abs(self.share.high)) < NEGLIGIBLE:
            return "negligible"
        singles = {estimate.sign for estimate in (*self.arms.values(), *self.pairs.values())} - {0}
        sign = (
            self.lost.sign or self.per_showing.sign or (singles.pop() if len(singles) == 1 else 0)
        )
        if sign:
            return "fatigue" if sign > 0 else "boost"
        return "mixed" if singles else "unclear"

    def headline(self) -> str:
        """Say direction, size and duration in one sentence."""
        if self.direction == "negligible":
            return (
                f"negligible: influence moves {_percent(self.share)} of all {self.outcome}, less "
                f"than {100 * NEGLIGIBLE:.0f} %"
            )
        if self.direction == "unclear":
            return (
                f"unclear: influence takes {_percent(self.share)} of {self.outcome}, which may be "
                "nothing"
            )
        verb, size = ("costs", self.per_showing)
        if self.per_showing.value < 0.0:
            verb, size = "gives", self.per_showing.scale(-1.0)
        taken, share = ("takes", self.share)
        if self.share.value < 0.0:
            taken, share = "adds", self.share.scale(-1.0)
        parts = [
            f"one more showing {verb} the next one of the same arm {size} {self.outcome}",
            self.half_gone,
            f"in all, influence {taken} {_percent(share)} of {self.outcome}",
        ]
        if not self.per_showing.sign:
            parts = [parts[2], self.half_gone]
        return f"{self.direction}: {'; '.join(parts)}"

    def users_needed(self, gain: float, power: float = 0.8, level: float = 0.05) -> int:
        """Return how many instances each side of an A/B test needs to see a gain per event.

        Instances of this log's length, half of them each side.

        Examples
        --------
        >>> import influential_bandits as ib
        >>> log = ib.data.synthetic_log(300, 60, 2, spread=0.5, seed=0)
        >>> model = ib.InfluenceModel("symmetric", fading=0.8, pooling="full").fit(log)
        >>> ib.measure_impact(model, log).users_needed(0.05)
        989
        """
        if not (is_real(gain) and gain > 0.0):
            raise InvalidInput(f"gain must be a number above 0, got {abbreviate(gain)}")
        normal = optional_module("scipy.stats").norm
        reach = float(normal.isf(level / 2.0) + normal.ppf(power))
        return math.ceil(2.0 * (reach * self.spread / gain) ** 2)

    def __repr__(self) -> str:
        """Say the headline."""
        return f"Impact({self.headline()!r})"

    def __str__(self) -> str:
        """Say the headline, the arms and the pairs that are clear."""
        lines = [self.headline()]
        clear = sorted(
            ((name, cost) for name, cost in self.arms.items() if cost.sign),
            key=lambda pair: -abs(pair[1].value),
        )
        lines += [f"  {name} on itself: {cost}" for name, cost in clear[:SHOWN]]
        others = sorted(
            ((names, cost) for names, cost in self.pairs.items() if cost.sign),
            key=lambda pair: -abs(pair[1].value),
        )
        lines += [f"  {a} and {b}: {cost}" for (a, b), cost in others[:SHOWN]]
        return "\n".join(lines)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw what one more showing of each arm costs its next one, the largest first."""
        return self.picture.draw(ax)

    @property
    def picture(self) -> Bars:
        """What one more showing of each arm costs its next one, the largest first, as data."""
        arms = sorted(self.arms, key=lambda arm: -abs(self.arms[arm].value))[:SHOWN_ARMS]
        return Bars(
            "own",
            f"What one showing of an arm costs its next one, in {self.outcome}",
            arms,
            [self.arms[arm].value for arm in arms],
            f"cost in {self.outcome}",
            [self.arms[arm].low for arm in arms],
            [self.arms[arm].high for arm in arms],
            "Above zero is fatigue. Intervals hold for all at once.",
        )

    def to_frame(self, library: str = "pandas") -> Any:
        """Return a data frame of pandas, polars or pyarrow: a row for each arm, then each pair."""
        own = {(name, name): estimate for name, estimate in self.arms.items()}
        rows = [
            {"arm": arm, "other": other, **dataclasses.asdict(estimate)}
            for (arm, other), estimate in (own | self.pairs).items()
        ]
        names = ("arm", "other", "value", "low", "high")
        return make_frame({name: [row[name] for row in rows] for name in names}, library)


def measure_impact(model: InfluenceModel, log: EventLog, *, confidence: float = 0.95) -> Impact:
    """Return what influence costs by a pooled model, on the events of a log.

    Parameters
    ----------
    model : InfluenceModel
        Fitted with ``pooling="full"``; "symmetric" rather than "psd", which has no arm that is
        liked better again and again.
    log : EventLog
        The log as it was read; the model may have been fitted to the adjusted one.
    confidence : float
        Of the intervals.

    Returns
    -------
    Impact

    Examples
    --------
    >>> import influential_bandits as ib
    >>> log = ib.data.synthetic_log(200, 60, 2, initial_loss=1, memory=0.8, seed=0)
    >>> model = ib.InfluenceModel("symmetric", fading=0.8, pooling="full").fit(log)
    >>> measure_impact(model, log).share.low < 0 < measure_impact(model, log).share.high
    True
    """
    log = require_log(log)
    require_fitted(model)
    if not isinstance(model, InfluenceModel) or model.pooling == "none":
        raise NotApplicable("an impact is that of a pooled InfluenceModel; fit one with pooling")
    if log.arm_names != model.arm_names_:
        raise InvalidInput(
            f"log must have the arms of the model, {', '.join(model.arm_names_[:5])}, got {log!r}"
        )
    design, theta = model.design_, model.population_
    typical, lost = np.zeros(design.size), np.zeros(design.size)
    shares = arm_sums(log, log.n_arms).shares
    for n, (i, j) in enumerate(interaction_entries(design.kind, design.n_arms), design.start):
        typical[n] = shares[i] if i == j else 0.0
    lost[design.start :] = mean_regressors(design, event_columns(log), design.size)[design.start :]
    outcome = read_outcome(log.about)
    mean = float(log.loss.mean())
    level = outcome.of_loss(mean) if outcome.more_is_better else float(np.abs(log.loss).mean())
    cost = _bend(_combine(model, lost, confidence), theta, design, log)
    lengths = np.maximum(log.lengths, 1)
    owner = np.repeat(np.arange(log.n_instances), log.lengths)
    means = np.bincount(owner, log.loss, log.n_instances) / lengths
    return Impact(
        outcome.unit,
        _combine(model, typical, confidence),
        *_list_costs(model, confidence),
        cost,
        _find_share(cost, outcome.more_is_better, level),
        str(require_fading(model.fading)),
        float(means[log.lengths > 0].std()),
        confidence,
    )


def _list_costs(
    model: InfluenceModel, confidence: float
) -> tuple[dict[str, Estimate], dict[tuple[str, str], Estimate]]:
    """Return what arms do to themselves, and to each other; intervals hold for all at once."""
    design, names = model.design_, model.arm_names_
    variances, arms, pairs = np.diag(model.population_covariance_), {}, {}
    entries = interaction_entries(design.kind, design.n_arms)
    for n, (i, j) in enumerate(entries, design.start):
        value, variance = float(model.population_[n]), float(variances[n])
        cost = _surround(value, variance, confidence, len(entries))
        if i == j:
            arms[names[i]] = cost
        else:
            pairs[names[j], names[i]] = cost
    return arms, pairs


def _combine(model: InfluenceModel, weights: Floats, confidence: float) -> Estimate:
    """Return a weighted sum of the population's coefficients."""
    variance = float(weights @ model.population_covariance_ @ weights)
    return _surround(float(weights @ model.population_), variance, confidence)


def _surround(value: float, variance: float, confidence: float, several: int = 1) -> Estimate:
    """Return a number with the interval that so many of them hold at once."""
    normal = optional_module("scipy.stats").norm
    quantile = float(normal.isf((1.0 - confidence) / (2.0 * several)))
    width = math.sqrt(max(variance, 0.0)) * quantile
    return Estimate(value, value - width, value + width)


def _bend(line: Estimate, theta: Floats, design: Design, log: EventLog) -> Estimate:
    """Return the cost of an event where losses are one of two numbers; others stay as they are.

    The curve is that of the influence fitted, made larger or smaller until its mean on the line is
    an end of the interval.
    """
    worst, best = float(log.loss.max()), float(log.loss.min())
    two = worst > best and bool(((log.loss == worst) | (log.loss == best)).all())
    if not line.sign or not two:
        return line
    influence = np.zeros(design.size)
    influence[design.start :] = theta[design.start :]
    cost = predict_losses(log, design, influence) / (worst - best)
    table = log.membership
    arm = table.arm[table.offsets[:-1]][log.item].astype(np.int64)
    sizes = np.array([line.value, line.low, line.high]) / line.value
    clicked = (worst - log.loss) / (worst - best)
    value, low, high = (worst - best) * count_lost_clicks(clicked, arm, cost, sizes)
    return Estimate(float(value), float(low), float(high))


def _find_share(cost: Estimate, more_is_better: bool, level: float) -> Estimate:
    """Return the cost relative to the outcome there would be without it, or to the mean loss."""
    if not level > 0.0:
        return Estimate(0.0, 0.0, 0.0)
    if not more_is_better:
        return cost.scale(1.0 / level)
    least = NEGLIGIBLE * level  # a line may say that there would be nothing at all without a boost
    shares = [each / max(level + each, least) for each in (cost.value, cost.low, cost.high)]
    return Estimate(*shares)


def as_outcome(loss: Estimate, outcome: Outcome) -> Estimate:
    """Return a mean loss as an outcome, with its interval."""
    low, high = sorted(outcome.of_loss(end) for end in (loss.low, loss.high))
    return Estimate(outcome.of_loss(loss.value), low, high)


def _percent(share: Estimate) -> str:
    return str(share.scale(100.0)).replace(" (", " % (", 1)


@kernel
def mean_regressors(design: Design, events: Events, size: int) -> Floats:
    """Return the mean of all regressors over all events, (size,)."""
    out = np.zeros(size)
    counts, dense = np.zeros(design.n_arms), np.zeros(size)
    index, value = np.empty(size + 2, np.int64), np.empty(size + 2)
    for u in range(events.offsets.size - 1):
        counts[:] = 0.0
        level, first = 0.0, events.offsets[u]
        for n in range(first, events.offsets[u + 1]):
            fade_counts(design, events, n, first, counts)
            used = regressors(design, events, n, counts, level, index, value, dense)
            for a in range(used):
                out[index[a]] += value[a] / events.item.size
            level = take_event(design, events, n, counts, level)
    return out
