"""Families of tests: arms on themselves, arms on each other, and all arms alike.

Each family asks about regressors of its own, by several memories, and is one test of them together.

What each pair of arms does follows, with simultaneous intervals, and what all pairs explain.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from influential_bandits.errors import NotApplicable
from influential_bandits.learning.exposures import Regressors, find_self_exposures, total_exposures
from influential_bandits.learning.influence_test_result import PairEstimate
from influential_bandits.learning.kalman import Model
from influential_bandits.learning.score_regression import (
    NEGLIGIBLE,
    NO_PAIR,
    EventPasses,
    ScoreRegression,
    find_p_value,
    measure_clarity,
)
from influential_bandits.learning.statistics.design import (
    DIAGONAL,
    NONE,
    SYMMETRIC,
    Events,
    interaction_entries,
    predict_histories,
)
from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.world.fading import Fading

NEARLY_ONE = 0.999


@dataclasses.dataclass(frozen=True, eq=False)
class Family:
    """One test of several regressors, with the memory that shows most of them."""

    fading: Fading
    regression: ScoreRegression  # with that memory
    by_memory: list[tuple[Fading, ScoreRegression]]
    labels: Ints  # (asked, 2): the arms of each regressor that was asked about
    tested: int  # how many of them took part
    statistic: float  # Σ t² over them, of arms on themselves those that go the same way
    p_value: float  # accounts for the memories that were tried


def fade(x: Regressors, kind: int, fading: Fading) -> Regressors:
    """Return the regressors with pairs of this kind, which fade so."""
    design = x.design._replace(kind=kind, memory=fading.memory, half_life=fading.seconds)
    return x._replace(design=design)


def search_own(
    x: Regressors, fadings: Sequence[Fading], passes: EventPasses, signs: Floats
) -> Family:
    """Look for influence of arms on themselves."""
    arms = x.design.n_arms
    asked = x.design.start + np.arange(arms)
    return _join_memories(
        [(fading, ScoreRegression(fade(x, DIAGONAL, fading), passes, asked)) for fading in fadings],
        np.stack([np.arange(arms)] * 2, axis=1),
        signs,
    )


def search_cross(
    x: Regressors, fadings: Sequence[Fading], own: Fading, passes: EventPasses, signs: Floats
) -> Family | None:
    """Look for influence of arms on each other, beyond that on themselves.

    What arms do to themselves is taken out with the memory that shows it best, and with the one
    that is tried: else it would leave a trace here. None where nothing is left, as with two arms.
    """
    labels = np.array(interaction_entries(SYMMETRIC, x.design.n_arms))
    different = np.flatnonzero(labels[:, 0] != labels[:, 1])
    exposures = _find_own(x, own)
    tried = []
    for fading in fadings:
        faded = fade(x, SYMMETRIC, fading)
        if fading != own:
            faded = faded._replace(per_arm=exposures)
        tried.append((fading, ScoreRegression(faded, passes, x.design.start + different)))
    try:
        return _join_memories(tried, labels[different], signs)
    except NotApplicable:
        return None


def search_common(
    x: Regressors,
    clocks: Sequence[Fading],
    model: Model,
    own: Family | None,
    passes: EventPasses,
    signs: Floats,
) -> Family | None:
    """Look for influence of showings on all arms alike, as breaks between events let it be seen.

    What arms do to themselves, where it was seen, is taken out with every memory: whoever is shown
    more meets more of everything. None where nothing can be tested.
    """
    seconds = np.array([fading.seconds for fading in clocks])
    known = [_predict_own(x, model, *memory, passes) for memory in own.by_memory] if own else []
    columns = np.hstack([*known, total_exposures(x.events, seconds)])
    design = x.design._replace(controls=x.design.controls + columns.shape[1])
    x = x._replace(design=design, shared=np.ascontiguousarray(np.hstack([x.shared, columns])))
    regression = ScoreRegression(x, passes, design.start - len(clocks) + np.arange(len(clocks)))
    if not regression.tested.any():
        return None
    observed, flipped = (t**2 for t in regression.t_values(signs))
    clearest = clocks[regression.usable[regression.tested][int(observed.argmax())]]
    return Family(
        clearest,
        regression,
        [(clearest, regression)],
        np.zeros((0, 2), np.int64),
        len(observed),
        float(observed.max()),
        find_p_value(observed, flipped),
    )


def _predict_own(
    x: Regressors, model: Model, fading: Fading, regression: ScoreRegression, passes: EventPasses
) -> Floats:
    """Return what arms do to themselves at each event, as estimated, and its trace in predictions.

    The filter takes past fatigue for a level or a taste. It is linear: what it makes of fatigue
    alone is what fatigue adds to its predictions. (events, 3)
    """
    effect = np.zeros(x.design.n_arms)
    effect[regression.usable[regression.tested]] = regression.estimate()
    design = fade(x, DIAGONAL, fading).design._replace(controls=0)
    fatigue, nothing = np.empty(len(x.events.item)), np.zeros(x.design.n_arms)
    own = np.zeros((len(x.events.offsets) - 1, 0))
    predict_histories(design, x.events, own, np.append(nothing, effect), fatigue)
    plain = model._replace(baseline=np.zeros_like(model.baseline))
    traces = passes.predict(plain, x.events._replace(loss=fatigue)).known[:, :2]
    return np.column_stack([fatigue, traces])


def _join_memories(
    tried: list[tuple[Fading, ScoreRegression]], labels: Ints, signs: Floats
) -> Family:
    """Return the test of one family by several memories; those that test nothing are left out.

    What an arm does to itself is asked twice of each memory: which arms tire, and which gain. A sum
    of squares of one direction shows a few arms among many better than one of both. Pairs of
    different arms are relative to others, and have no direction.
    """
    tried = [(fading, regression) for fading, regression in tried if regression.tested.any()]
    if not tried:
        raise NotApplicable(NO_PAIR)
    own = bool((labels[:, 0] == labels[:, 1]).all())
    shown, by_chance = [], []
    for lowest, highest in ((0.0, np.inf), (-np.inf, 0.0)) if own else ((-np.inf, np.inf),):
        for _, regression in tried:
            observed, flipped = regression.t_values(signs)
            shown.append((observed.clip(lowest, highest) ** 2).sum())
            by_chance.append((flipped.clip(lowest, highest) ** 2).sum(1))
    statistics, flips = np.array(shown), np.stack(by_chance, axis=1)
    best = int(measure_clarity(statistics, flips)[0].argmax())
    fading, regression = tried[best % len(tried)]
    return Family(
        fading,
        regression,
        tried,
        labels,
        int(regression.tested.sum()),
        float(statistics[best]),
        find_p_value(statistics, flips),
    )


def _find_own(x: Regressors, fading: Fading) -> Floats:
    """Return what arms met of themselves lately, relative to the habits of the history."""
    design = fade(x, NONE, fading).design
    return find_self_exposures(design, x.popularity, x.events, _widest(x.events), True)


def _widest(events: Events) -> int:
    """Return how many arms an item has at most."""
    return int(np.diff(events.members).max())


def measure_effect(
    regression: ScoreRegression, signs: Floats, confidence: float
) -> tuple[float, float, float]:
    """Return the share of the error that influence explains, and its interval.

    Σ_{u≠v} s_u·S⁻¹·s_v, from the scores s of different units: the squares of each unit, which
    chance alone makes positive, are left out. The interval is that of a wild bootstrap over units,
    with the signal shrunk to the size of the estimate.
    """
    z = regression.scores @ regression.inverse_root().T
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


def estimate_pairs(
    family: Family, signs: Floats, confidence: float, names: tuple[str, ...], scale: float
) -> tuple[PairEstimate, ...]:
    """Return the estimates of all pairs that were tested, the clearest first.

    Estimates are those of the best memory; p-values and intervals account for all pairs of all
    memories. An estimate is the sum of one contribution for each unit, and t its ratio to their
    root sum of squares, which no flip changes. Residuals around the estimate would do for errors as
    well, but a few units that decide about a rare pair fit it too closely.
    """
    regression = family.regression
    parts = _contribute(regression, family.labels)
    labels = family.labels[regression.usable]
    estimate, units = parts.sum(0), len(parts)
    spread = np.sqrt((parts**2).sum(0))
    tested = regression.tested & (spread > NEGLIGIBLE * spread.max(initial=0.0))
    t = np.abs(estimate[tested]) / spread[tested]
    largest = np.max(
        [
            _largest_flipped(_contribute(each, family.labels), each.tested, signs)
            for _, each in family.by_memory
        ],
        axis=0,
    )
    reached = (largest[:, None] >= t * (1.0 - NEGLIGIBLE)).sum(0)
    # Contributions around their mean are what errors are made of; the quantile of t around zero
    # becomes that of t around the mean, so that intervals and p-values agree.
    limit = min(float(np.quantile(largest, confidence)) ** 2, NEARLY_ONE * units)
    error = np.sqrt(np.maximum(spread**2 - estimate**2 / units, 0.0))[tested]
    estimate = scale * estimate[tested]
    width = scale * math.sqrt(limit / (1.0 - limit / units)) * error
    estimates = [
        PairEstimate(names[j], names[i], value, value - half, value + half, p)
        for (i, j), value, half, p in zip(
            labels[tested].tolist(),
            estimate.tolist(),
            width.tolist(),
            ((1 + reached) / (1 + len(signs))).tolist(),
            strict=True,
        )
    ]
    return tuple(estimates[n] for n in np.argsort(-t, kind="stable"))


def _contribute(regression: ScoreRegression, labels: Ints) -> Floats:
    """Return what each unit contributes to the estimate of each pair, (units, pairs).

    A number added to all pairs of different arms would hardly change a loss: what pairs do is
    relative to their mean.
    """
    parts: Floats = regression.scores @ regression.even_inverse()
    if (labels[:, 0] != labels[:, 1]).any():
        parts = parts - parts.mean(axis=1, keepdims=True)
    return parts


def _largest_flipped(parts: Floats, tested: npt.NDArray[np.bool_], signs: Floats) -> Floats:
    """Return the largest |t| of any tested pair for every flip, (flips,)."""
    spread = np.sqrt((parts**2).sum(0))
    clear = tested & (spread > NEGLIGIBLE * spread.max(initial=0.0))
    if not clear.any():
        return np.zeros(len(signs))
    largest: Floats = np.abs(signs @ (parts[:, clear] / spread[clear])).max(1)
    return largest
