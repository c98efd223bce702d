"""Is there influence beyond drift and taste? A test whose level holds where choices follow losses.

Every loss is predicted from the past of its own history (see :mod:`.kalman`), and what remains
is compared with regressors of influence that are known before the event. Sums of such products
over units (instances, or blocks of long histories) are as likely positive as negative if there is
no influence: flipping the signs of whole units gives the distribution to compare with. Neither
bursts of one arm nor choices that depend on past losses disturb it, as they disturb shuffled
histories.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from influential_bandits.checks import abbreviate, is_real, whole_number
from influential_bandits.errors import InvalidInput, NotApplicable
from influential_bandits.execution.base import Execution
from influential_bandits.learning.fit_memory import TEST, FitMemory, require_fit_memory
from influential_bandits.learning.influence_test_result import (
    InfluenceTest,
    PairEstimate,
    ScoreTest,
)
from influential_bandits.learning.kalman import (
    CONTROLS,
    Model,
    Units,
    add_moments,
    fit_components,
    usable_events,
    with_components,
)
from influential_bandits.learning.score_regression import (
    NEGLIGIBLE,
    NO_PAIR,
    ScoreRegression,
    solve_semidefinite,
)
from influential_bandits.learning.statistics.design import (
    DAY,
    SYMMETRIC,
    Design,
    Events,
    as_matrix,
    event_columns,
)
from influential_bandits.learning.statistics.log_scan import rank_labels
from influential_bandits.logs.log import EventLog, require_log
from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.numerics.compiling import kernel
from influential_bandits.numerics.streams import RESAMPLING, stream_at, stream_keys, uniform

__all__ = ["influence_test"]

MOST_ARMS = 100  # the Gram matrix of all pairs has about K⁴/4 entries
ENOUGH_INSTANCES = 50  # from here on, instances are units as they are
MOST_UNITS = 2000  # more instances than that are taken together, in groups
MOST_BLOCKS = 200
SHORTEST_BLOCK = 20  # events
FEWEST_UNITS = 12
FITTING_EVENTS = 20_000
FITTING_WORK = 10_000_000  # events times squared arms
NEARLY_ONE = 0.999
SUBSAMPLE = 0  # number of a stream's round for the choice of instances; flips are 1, 2, …


def influence_test(
    log: EventLog,
    *,
    memory: float = 0.8,
    half_life: float | None = None,
    permutations: int = 999,
    seed: int = 0,
    confidence: float = 0.95,
    execution: Execution | int | None = None,
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
    execution : int or LocalExecution, optional
        On how many threads; by default on all cores. Does not change a bit of the result.
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
    >>> import influential_bandits as ib
    >>> log = ib.data.synthetic_log(100, 60, 3, drift=0.5, bursts=0.3, steering=1.0, seed=1)
    >>> print(ib.influence_test(log))
    no influence beyond drift was seen (p = ...
    """
    log = require_log(log)
    flips = whole_number("permutations", permutations, 19, 1_000_000)
    seed = whole_number("seed", seed)
    if not (is_real(confidence) and 0.0 < confidence < 1.0):
        raise InvalidInput(f"confidence must be a number in (0, 1), got {abbreviate(confidence)}")
    events, scale = _standardised(log)
    model = _model(log, events, memory, half_life)
    labels = rank_labels(log.instances)
    units, keys, kind = _units(log, events, labels)
    chosen = _subsample(log, labels, units.order, np.uint64(seed))
    components = fit_components(log, model, events, chosen)
    model = with_components(model, components)
    regression = ScoreRegression(model, events, units, execution, progress)
    signs = _signs(np.uint64(seed), keys, flips)
    tests = _score_tests(regression, signs)
    effect = _effect(regression, signs, confidence)
    pairs, matrix, measured = _pairs(regression, signs, confidence, log.arm_names, scale)
    return InfluenceTest(
        log.arm_names,
        log.n_events,
        log.n_instances,
        units.number,
        kind,
        *tests,
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
        raise InvalidInput(f"memory must be a number in (0, 1], got {abbreviate(memory)}")
    if half_life is not None:
        if not (is_real(half_life) and 0.0 < half_life < math.inf):
            raise InvalidInput(
                f"half_life must be a positive number of days, got {abbreviate(half_life)}"
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
    baseline = solve_semidefinite(gram, total)
    if 1.0 - float(baseline @ total) / len(log) <= NEGLIGIBLE:
        raise NotApplicable(
            "losses have no noise: every arm always costs the same, and there is nothing to explain"
        )
    seconds = 0.0 if half_life is None else DAY * float(half_life)
    design = Design(arms, SYMMETRIC, float(memory), seconds, CONTROLS, 0.0, baseline)
    return Model(design, popularity, 1.0, 1.0, 0.0, 0.0)


def _standardised(log: EventLog) -> tuple[Events, float]:
    """Return the log's columns, losses with mean 0 and variance 1, and their unit."""
    largest = float(np.abs(log.loss).max())
    scale = float(log.loss.std())
    if scale <= 1e-12 * largest:
        raise NotApplicable(
            f"losses have no noise: all are {log.loss[0]:.6g}, and there is nothing to explain"
        )
    return event_columns(log)._replace(loss=(log.loss - log.loss.mean()) / scale), scale


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


def _score_tests(
    regression: ScoreRegression, signs: Floats
) -> tuple[ScoreTest, ScoreTest, ScoreTest]:
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
        ScoreTest(*each, adjusted) for each, adjusted in zip(found, holm, strict=True)
    )
    return first, second, third


def _effect(
    regression: ScoreRegression, signs: Floats, confidence: float
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
    regression: ScoreRegression,
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
    matrix, measured = as_matrix(SYMMETRIC, arms, everything)
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
