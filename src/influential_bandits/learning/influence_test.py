"""Is there influence beyond drift and taste? A test whose level holds where choices follow losses.

Every loss is predicted from the past of its own history (see :mod:`.innovations`), and what remains
is compared with regressors of influence that are known before the event. Sums of such products over
units (instances, or blocks of long histories) are as likely positive as negative if there is no
influence: flipping the signs of whole units gives the distribution to compare with. Neither bursts
of one arm nor choices that depend on past losses disturb it, as they disturb shuffled histories.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from influential_bandits.checks import is_real, shown, whole_number
from influential_bandits.errors import InvalidInput, NotApplicable
from influential_bandits.execution.local import checked_threads, map_in_order
from influential_bandits.execution.progress import Progress
from influential_bandits.learning.fit_memory import TEST, FitMemory, require_fit_memory
from influential_bandits.learning.kalman import (
    CONTROLS,
    Components,
    Model,
    Units,
    add_moments,
    fitted_components,
    gathered_gram,
    gathered_scores,
    size_of,
    usable_events,
    with_components,
)
from influential_bandits.learning.statistics.design import (
    DAY,
    Events,
    Kind,
    as_matrix,
    events_of,
    labels_of,
)
from influential_bandits.logs.log import EventLog, require_log
from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.numerics.compiling import kernel
from influential_bandits.numerics.streams import RESAMPLING, stream_at, stream_keys, uniform

__all__ = ["InfluenceTest", "Look", "PairEstimate", "influence_test"]

MOST_ARMS = 100  # the Gram matrix of all pairs has about K⁴/4 entries
ENOUGH_INSTANCES = 50  # from here on, instances are units as they are
MOST_UNITS = 2000  # more instances than that are taken together, in groups
MOST_BLOCKS = 200
SHORTEST_BLOCK = 20  # events
FEWEST_UNITS = 12
FITTING_EVENTS = 20_000
FITTING_WORK = 10_000_000  # events times squared arms
CHUNK = 50_000  # events
RIDGE = 1e-3  # relative to the variance of each regressor
EVEN_RIDGE = 1e-2  # relative to the mean variance: the same for every entry of A
NEGLIGIBLE = 1e-9
NEARLY_ONE = 0.999
NO_PAIR = (
    "too little data: no pair of arms was met often enough by enough instances; the test needs "
    "several instances that meet two or more arms again and again"
)
SUBSAMPLE = 0  # number of a stream's round for the choice of instances; flips are 1, 2, …


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
class Look:
    """One way of looking: all pairs, arms on themselves, or arms on each other.

    Examples
    --------
    >>> Look(pairs=6, statistic=11.5, p_value=0.07, p_adjusted=0.14).p_value
    0.07
    """

    pairs: int  # how many took part
    statistic: float  # Σ t² over them
    p_value: float
    p_adjusted: float  # by Holm, for looking three times


@dataclasses.dataclass(frozen=True, eq=False)
class InfluenceTest:
    """What :func:`influence_test` found.

    Attributes
    ----------
    overall, self_influence, cross_influence : Look
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
    >>> from influential_bandits.datasets.synthetic import synthetic_log
    >>> log = synthetic_log(
    ...     100,
    ...     80,
    ...     arms=3,
    ...     interaction=[[0.3, 0, 0], [0, 0, 0], [0, 0, 0]],
    ...     memory=0.8,
    ...     drift=0.5,
    ...     spread=0.3,
    ...     bursts=0.3,
    ...     steering=1.0,
    ... )
    >>> found = influence_test(log)
    >>> found.p_value
    0.001
    >>> print(found.pairs[0].arm, found.pairs[0].other)
    0 0
    """

    arms: tuple[str, ...]
    events: int
    instances: int
    units: int
    unit_kind: str
    overall: Look
    self_influence: Look
    cross_influence: Look
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
        >>> from influential_bandits.datasets.synthetic import synthetic_log
        >>> influence_test(synthetic_log(60, 40, arms=3)).events_needed(0.001)
        13611
        """
        wanted = self.effect if effect is None else effect
        if not (is_real(wanted) and wanted < 1.0) or (effect is not None and not wanted > 0.0):
            raise InvalidInput(
                f"effect must be a share of the variance in (0, 1), got {shown(effect)}"
            )
        for name, value in (("power", power), ("level", level)):
            if not (is_real(value) and 0.0 < value < 1.0):
                raise InvalidInput(f"{name} must be a probability in (0, 1), got {shown(value)}")
        if wanted <= 0.0:
            return None
        strength = _noncentrality(self.overall.pairs, power, level)
        return math.ceil(strength * (1.0 - wanted) / wanted)

    def summary(self) -> str:
        """Return the verdict and what it rests on, in plain words."""
        lines = [self._verdict()]
        for what, look in (
            ("arms on themselves", self.self_influence),
            ("arms on each other", self.cross_influence),
        ):
            if look.pairs:
                p, adjusted = _rounded(look.p_value), _rounded(look.p_adjusted)
                lines.append(f"  {what}: p = {p} ({adjusted} adjusted for looking three times)")
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

    def __str__(self) -> str:
        """Return the summary."""
        return self.summary()

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain numbers, lists and texts."""
        plain = dataclasses.asdict(self)
        plain["interaction"] = self.interaction.tolist()
        plain["measured"] = self.measured.tolist()
        plain["arms"] = list(self.arms)
        plain["components"] = self.components._asdict()
        plain["pairs"] = [dataclasses.asdict(pair) for pair in self.pairs]
        plain["p_value"] = self.p_value
        plain["events_needed"] = self.events_needed()
        return plain


def influence_test(
    log: EventLog,
    *,
    memory: float = 0.8,
    half_life: float | None = None,
    permutations: int = 999,
    seed: int = 0,
    confidence: float = 0.95,
    threads: int | None = None,
    progress: bool | None = None,
) -> InfluenceTest:
    """Test whether arms influence later losses, beyond drift, taste and what an arm costs anyway.

    It runs on the threads of this computer: every permutation looks at all instances together, so
    that there is nothing to send away. Draw instances at random from logs that are too large.

    Parameters
    ----------
    log : EventLog
        At least 12 instances that met an arm twice, or a few long histories. Instances are taken to
        be independent of each other.
    memory : float in (0, 1]
        γ, how much of the influence is left after each event.
    half_life : float, optional
        Days after which half of the influence is left, instead of ``memory``; needs times.
    permutations : int
        How many times signs are flipped; the smallest p-value is 1/(permutations + 1).
    seed : int
        Of the flips. They belong to the labels of instances, not to their order.
    confidence : float
        Of the intervals, and 1 − confidence is the level of the verdict in words.
    threads : int, optional
        By default all cores. Does not change a bit of the result.
    progress : bool, optional
        Whether to show a progress bar; by default if it takes long, on a terminal.

    Returns
    -------
    InfluenceTest

    Raises
    ------
    NotApplicable
        If the log has too little data, one arm only, or losses without any noise.

    Notes
    -----
    The level is approximate for two reasons. Scores of units are symmetric under the null
    hypothesis only approximately, the better the more units there are. And where people mostly
    choose what they like, choices tell about their losses; controls account for it to first order.
    Estimates of pairs are shrunk somewhat, because the filter takes a part of lasting influence for
    taste and drift.

    Examples
    --------
    >>> from influential_bandits.datasets.synthetic import synthetic_log
    >>> log = synthetic_log(100, 60, arms=3, drift=0.5, bursts=0.3, steering=1.0, seed=1)
    >>> print(influence_test(log))
    no influence beyond drift was seen (p = ...
    """
    log = require_log(log)
    flips = whole_number("permutations", permutations, 19, 1_000_000)
    seed = whole_number("seed", seed)
    if not (is_real(confidence) and 0.0 < confidence < 1.0):
        raise InvalidInput(f"confidence must be a number in (0, 1), got {shown(confidence)}")
    events, scale = _standardised(log)
    model = _model(log, events, memory, half_life)
    labels = _digests(log.instances)
    units, keys, kind = _units(log, events, labels)
    chosen = _subsample(log, labels, units.order, np.uint64(seed))
    components = fitted_components(log, model, events, chosen)
    model = with_components(model, components)
    regression = _Regression(model, events, units, threads, progress)
    signs = _signs(np.uint64(seed), keys, flips)
    looks = _looks(regression, signs)
    effect = _effect(regression, signs, confidence)
    pairs, matrix, measured = _pairs(regression, signs, confidence, log.arm_names, scale)
    return InfluenceTest(
        log.arm_names,
        log.n_events,
        log.n_instances,
        units.number,
        kind,
        *looks,
        *effect,
        matrix,
        measured,
        pairs,
        components._replace(noise=components.noise * scale**2),
        float(memory),
        None if half_life is None else float(half_life),
        flips,
        float(confidence),
        seed,
    )


def _model(log: EventLog, events: Events, memory: float, half_life: float | None) -> Model:
    """Return the model without variances, or say what is wrong with the question."""
    arms = log.n_arms
    if not (is_real(memory) and 0.0 < memory <= 1.0):
        raise InvalidInput(f"memory must be a number in (0, 1], got {shown(memory)}")
    if half_life is not None:
        if not (is_real(half_life) and 0.0 < half_life < math.inf):
            raise InvalidInput(
                f"half_life must be a positive number of days, got {shown(half_life)}"
            )
        if log.time is None:
            raise InvalidInput("half_life needs times, and the log has none; use memory instead")
    if arms == 1:
        raise NotApplicable(
            "with a single arm, influence cannot be told from drift: every event is met with the "
            "same arm; a test needs two arms or more"
        )
    if arms > MOST_ARMS:
        raise NotApplicable(
            f"the log has {arms} arms, so {arms * (arms + 1) // 2:,} pairs; the test takes at most "
            f"{MOST_ARMS} arms: merge rare ones"
        )
    size = arms * (arms + 1) // 2
    require_fit_memory(
        [FitMemory(8.0 * TEST * size**2, 0.0)],
        f"the test of {size:,} pairs of arms",
        "merge rare arms into one",
    )
    gram, total = np.zeros((arms, arms)), np.zeros(arms)
    add_moments(events, gram, total)
    popularity = gram.sum(axis=1) / len(log)
    baseline = _solved(gram, total)
    if 1.0 - float(baseline @ total) / len(log) <= NEGLIGIBLE:
        raise NotApplicable(
            "losses have no noise: every arm always costs the same, and there is nothing to explain"
        )
    seconds = 0.0 if half_life is None else DAY * float(half_life)
    return Model(arms, float(memory), seconds, baseline, popularity, 1.0, 1.0, 0.0, 0.0)


def _standardised(log: EventLog) -> tuple[Events, float]:
    """Return the log's columns, losses with mean 0 and variance 1, and their unit."""
    largest = float(np.abs(log.loss).max())
    scale = float(log.loss.std())
    if scale <= 1e-12 * largest:
        raise NotApplicable(
            f"losses have no noise: all are {log.loss[0]:.6g}, and there is nothing to explain"
        )
    return events_of(log)._replace(loss=(log.loss - log.loss.mean()) / scale), scale


def _units(log: EventLog, events: Events, labels: Any) -> tuple[Units, Any, str]:
    """Return whose signs are flipped together, the key of each unit, and what units are."""
    usable = np.zeros(log.n_instances, np.int64)
    usable_events(events, log.n_arms, usable)
    found = np.flatnonzero(usable)
    order = found[np.argsort(labels[found], kind="stable")]
    lengths = log.lengths[order]
    ranks = np.arange(len(order))
    if len(order) >= ENOUGH_INSTANCES:
        number = min(len(order), MOST_UNITS)
        first = ranks * number // len(order)
        starts = np.searchsorted(first, np.arange(number))
        kind = "instances" if number == len(order) else "groups of instances"
        return Units(order, first, np.ones_like(first), number), labels[order[starts]], kind
    length = max(SHORTEST_BLOCK, math.ceil(lengths.sum() / MOST_BLOCKS))
    blocks = np.maximum(lengths // length, 1)
    number = int(blocks.sum())
    if number < FEWEST_UNITS:
        raise NotApplicable(
            f"too little data: {number} independent pieces of history, and at least {FEWEST_UNITS} "
            f"are needed: as many instances that met an arm twice, or "
            f"{FEWEST_UNITS * SHORTEST_BLOCK} events of one instance"
        )
    first = np.cumsum(blocks) - blocks
    inside = np.arange(number) - np.repeat(first, blocks)
    keys = np.repeat(labels[order], blocks) + inside.astype(np.uint64)
    return Units(order, first, blocks, number), keys, "blocks of histories"


def _digests(labels: tuple[str, ...]) -> npt.NDArray[np.uint64]:
    """Return 64 bits of each label, which do not depend on where it stands."""
    digests = (hashlib.blake2b(label.encode(), digest_size=8).digest() for label in labels)
    return np.frombuffer(b"".join(digests), "<u8").astype(np.uint64)


def _subsample(log: EventLog, labels: Any, order: Ints, seed: np.uint64) -> Ints:
    """Return instances drawn at random that have enough events to fit variances by."""
    most = min(FITTING_EVENTS, max(2000, FITTING_WORK // (log.n_arms + 1) ** 2))
    drawn = order[np.argsort(_draws(seed, labels[order], SUBSAMPLE), kind="stable")]
    enough = int(np.searchsorted(np.cumsum(log.lengths[drawn]), most)) + 1
    return drawn[:enough]


@kernel
def _draws(seed: Any, keys: Any, t: int) -> Floats:
    out = np.empty(keys.size)
    for u in range(keys.size):
        first, second = stream_keys(seed, keys[u], RESAMPLING)
        out[u] = uniform(stream_at(first, second, t), 0)
    return out


@kernel
def _signs(seed: Any, keys: Any, flips: int) -> Floats:
    """Return ±1 for each flip and unit, (flips, units)."""
    out = np.empty((flips, keys.size))
    for u in range(keys.size):
        first, second = stream_keys(seed, keys[u], RESAMPLING)
        for t in range(flips):
            out[t, u] = 1.0 if uniform(stream_at(first, second, t + 1), 0) < 0.5 else -1.0
    return out


def _solved(matrix: Floats, right: Floats) -> Floats:
    """Solve a positive semi-definite system; what the matrix does not see becomes zero."""
    scale = np.sqrt(np.diag(matrix))
    scale = np.where(scale > 0.0, 1.0 / np.where(scale > 0.0, scale, 1.0), 0.0)
    values, vectors = np.linalg.eigh(scale[:, None] * matrix * scale)
    kept = values > 1e-10 * max(float(values.max()), 1e-300)
    basis = scale[:, None] * vectors[:, kept]
    solution: Floats = basis @ ((basis.T @ right).T / values[kept]).T
    return solution


class _Regression:
    """The regression of losses on controls and pairs: pairs are freed of what controls explain."""

    def __init__(
        self,
        model: Model,
        events: Events,
        units: Units,
        threads: int | None,
        progress: bool | None,
    ) -> None:
        arms = model.arms
        self.arms, size, fixed = arms, size_of(arms), arms + CONTROLS
        tasks = _tasks(events, units)
        workers = checked_threads(threads) if size < 2000 else 1  # memory: size² for each
        bar = Progress("test of influence", 2 * len(tasks), progress)
        in_order = partial(map_in_order, threads=workers, progress=bar)
        gram = gathered_gram(model, events, units, in_order, tasks)
        self.controls = _solved(gram[:fixed, :fixed], gram[:fixed, fixed:])
        left = gram[fixed:, fixed:] - gram[fixed:, :fixed] @ self.controls
        self.error = float(left[-1, -1])  # Σ innovation²/F
        spread, raw = np.diag(left)[:-1], np.diag(gram)[fixed:-1]
        least = NEGLIGIBLE**2 * len(events.item)  # less is what rounding leaves of counts
        self.usable = np.flatnonzero((spread > NEGLIGIBLE * raw) & (raw > least))
        if not len(self.usable):
            raise NotApplicable(NO_PAIR)
        self.gram = left[np.ix_(self.usable, self.usable)]
        self._invert()
        self._gather(model, events, units, in_order, tasks, fixed, size)

    def _invert(self) -> None:
        """Invert the Gram matrix of usable pairs, with a small ridge.

        For the effect, the ridge goes with each pair's variance, as the units of counts must not
        matter. For the estimates it is the same for every entry: a pair that hardly ever came up
        would else be estimated by thousands, and the centring would spread that over its arms.
        """
        scale = 1.0 / np.sqrt(np.diag(self.gram))
        ridged = scale[:, None] * self.gram * scale + RIDGE * np.eye(len(scale))
        values, vectors = np.linalg.eigh(ridged)
        self.root = (vectors / np.sqrt(values)).T * scale  # root.T @ root is the ridged inverse
        even = EVEN_RIDGE * float(np.diag(self.gram).mean())
        self.inverse: Any = np.linalg.inv(self.gram + even * np.eye(len(scale)))

    def _gather(
        self,
        model: Model,
        events: Events,
        units: Units,
        in_order: Any,
        tasks: list[tuple[int, int]],
        fixed: int,
        size: int,
    ) -> None:
        """Gather scores by unit, without influence."""
        coefficients = np.zeros(size)
        coefficients[:fixed] = self.controls[:, -1]
        scores = gathered_scores(model, events, units, coefficients, in_order, tasks)
        explained = scores[:, :fixed] @ self.controls[:, self.usable]
        self.scores = scores[:, fixed + self.usable] - explained
        # A pair that a few units decide alone says nothing when signs are flipped.
        squares = self.scores**2
        several = squares.sum(0) ** 2 >= 4.0 * (squares**2).sum(0)
        self.tested = several & (squares.sum(0) > 0.0)
        if not self.tested.any():
            raise NotApplicable(NO_PAIR)

    @cached_property
    def labels(self) -> Ints:
        """Arms (i, j) of the usable pairs, (pairs, 2)."""
        return np.array(labels_of(Kind.SYMMETRIC, self.arms))[self.usable]


def _tasks(events: Events, units: Units) -> list[tuple[int, int]]:
    """Return ranges of neighbouring instances of about CHUNK events each."""
    lengths = np.diff(events.offsets)[units.order]
    ends = np.cumsum(lengths)
    cuts = np.searchsorted(ends, np.arange(CHUNK, int(ends[-1]) + CHUNK, CHUNK), "left") + 1
    marks = [0, *np.unique(np.minimum(cuts, len(lengths))).tolist()]
    return list(pairwise(marks))


def _looks(regression: _Regression, signs: Floats) -> tuple[Look, Look, Look]:
    scores = regression.scores[:, regression.tested]
    scaled = scores / np.sqrt((scores**2).sum(0))
    observed, flipped = scaled.sum(0) ** 2, (signs @ scaled) ** 2
    own = regression.labels[regression.tested, 0] == regression.labels[regression.tested, 1]
    found = []
    for chosen in (np.ones_like(own), own, ~own):
        statistic = float(observed[chosen].sum())
        # Flips that leave everything as it is must count, whatever the rounding.
        reached = flipped[:, chosen].sum(1) >= statistic * (1.0 - NEGLIGIBLE)
        p = (1 + int(reached.sum())) / (1 + len(signs)) if chosen.any() else 1.0
        found.append((int(chosen.sum()), statistic, p))
    holm, largest = [0.0] * 3, 0.0
    for rank, n in enumerate(np.argsort([p for _, _, p in found], kind="stable")):
        largest = max(largest, min(1.0, (3 - rank) * found[n][2]))
        holm[n] = largest
    first, second, third = (
        Look(*look, adjusted) for look, adjusted in zip(found, holm, strict=True)
    )
    return first, second, third


def _effect(
    regression: _Regression, signs: Floats, confidence: float
) -> tuple[float, float, float]:
    """Return the share of the error that influence explains, and its interval.

    Σ_{u≠v} s_u·S⁻¹·s_v, from the scores s of different units: the squares of each unit, which
    chance alone makes positive, are left out. The interval is that of a wild bootstrap over units,
    with the signal shrunk to the size of the estimate.
    """
    z = regression.scores @ regression.root.T
    units, total = len(z), z.sum(0)
    size = float(total @ total)
    effect = size - float((z**2).sum())
    centre = total / units * math.sqrt(max(effect, 0.0) / size if size > 0.0 else 0.0)
    moved = signs @ (z - total / units)
    around = ((units * centre + moved) ** 2).sum(1) - 2.0 * moved @ centre
    noise = float(((z - total / units) ** 2).sum())
    errors = around - noise - units**2 * float(centre @ centre)
    tail = (1.0 - confidence) / 2.0
    low, high = np.quantile(errors, [tail, 1.0 - tail])
    error = regression.error
    return effect / error, (effect - float(high)) / error, (effect - float(low)) / error


def _pairs(
    regression: _Regression,
    signs: Floats,
    confidence: float,
    names: tuple[str, ...],
    scale: float,
) -> tuple[tuple[PairEstimate, ...], Floats, npt.NDArray[np.bool_]]:
    """Return the estimates of all pairs that were tested, the matrix, and where it was measured.

    An estimate is the sum of one contribution for each unit, and t its ratio to their root sum of
    squares, which no flip changes. Residuals around the estimate would do for errors as well, but a
    few units that decide about a rare pair fit it too closely.
    """
    labels, arms = regression.labels, regression.arms
    parts = regression.scores @ regression.inverse @ _centring(labels, arms).T
    estimate, units = parts.sum(0), len(parts)
    spread = np.sqrt((parts**2).sum(0))
    tested = regression.tested & (spread > 0.0)
    if not tested.any():
        raise NotApplicable(NO_PAIR)
    t = np.abs(estimate[tested]) / spread[tested]
    largest = np.abs(signs @ (parts[:, tested] / spread[tested])).max(1)
    reached = (largest[:, None] >= t * (1.0 - NEGLIGIBLE)).sum(0)
    # Contributions around their mean are what errors are made of; the quantile of t around zero
    # becomes that of t around the mean, so that intervals and p-values agree.
    limit = min(float(np.quantile(largest, confidence)) ** 2, NEARLY_ONE * units)
    error = np.sqrt(np.maximum(spread**2 - estimate**2 / units, 0.0))[tested]
    estimate = scale * estimate
    width = scale * math.sqrt(limit / (1.0 - limit / units)) * error
    found = [
        PairEstimate(names[j], names[i], value, value - half, value + half, p)
        for (i, j), value, half, p in zip(
            labels[tested].tolist(),
            estimate[tested].tolist(),
            width.tolist(),
            ((1 + reached) / (1 + len(signs))).tolist(),
            strict=True,
        )
    ]
    everything = np.zeros((2, arms * (arms + 1) // 2))
    everything[0, regression.usable[tested]] = estimate[tested]
    everything[1, regression.usable[tested]] = 1.0
    matrix, measured = as_matrix(Kind.SYMMETRIC, arms, everything)
    by_clarity = np.argsort(-t, kind="stable")
    return tuple(found[n] for n in by_clarity), matrix, measured > 0.0


def _centring(labels: Ints, arms: int) -> Floats:
    """Return the map from entries A_ij of the pairs to those of the doubly centred matrix."""
    pairs = np.arange(len(labels))
    row_means = np.zeros((arms, len(labels)))
    row_means[labels[:, 0], pairs] = 1.0
    row_means[labels[:, 1], pairs] = 1.0
    met = np.unique(labels)
    row_means /= len(met)
    mean = row_means[met].mean(0)
    return np.eye(len(labels)) - row_means[labels[:, 0]] - row_means[labels[:, 1]] + mean


def _noncentrality(pairs: int, power: float, level: float) -> float:
    """Return how far a chi-square has to be moved to be seen with this power."""
    from scipy.optimize import brentq
    from scipy.stats import chi2, ncx2

    threshold = float(chi2.isf(level, pairs))

    def missing(strength: float) -> float:
        return float(ncx2.sf(threshold, pairs, strength)) - power

    if power <= level:
        return 0.0
    high = 1.0
    while missing(high) < 0.0:
        high *= 2.0
    return float(brentq(missing, 0.0, high))


def _rounded(p: float) -> str:
    return f"{p:.2g}"
