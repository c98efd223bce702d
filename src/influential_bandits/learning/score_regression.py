"""The regression behind the test of influence: scores of regressors, freed of what else matters.

Signs are flipped by units: instances, groups of them, or blocks of long histories. Scores of
different instances are independent. Where instances are few, blocks of their histories take their
place: scores are martingale differences, so that blocks are unrelated as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from influential_bandits.errors import NotApplicable
from influential_bandits.execution.base import Execution
from influential_bandits.execution.local import count_threads, map_in_order, resolve_execution
from influential_bandits.execution.progress import Progress
from influential_bandits.learning.controls import PRIOR_EVENTS
from influential_bandits.learning.exposures import Regressors, Units, gather_gram, gather_scores
from influential_bandits.learning.kalman import KNOWN, Model, Predictions, predict_events
from influential_bandits.learning.statistics.design import Events
from influential_bandits.learning.statistics.reduction import local_threads
from influential_bandits.logs.log import EventLog
from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.numerics.compiling import kernel
from influential_bandits.numerics.streams import RESAMPLING, stream_at, stream_keys, uniform
from influential_bandits.packages import optional_module

CHUNK = 50_000  # events
RIDGE = 1e-3  # relative to the variance of each regressor
EVEN_RIDGE = 1e-2  # relative to the mean variance: the same for every entry of A
NEGLIGIBLE = 1e-9
SINGULAR = 1e-10  # eigenvalues and pivots relative to the largest
LARGE = 4000  # regressors; their Gram matrices take too much memory to have one for each thread
NO_PAIR = (
    "too little data: no pair of arms was met often enough by enough instances; the test needs "
    "several instances that meet two or more arms again and again"
)
ENOUGH_INSTANCES = 50  # from here on, instances are units as they are
MOST_UNITS = 2000  # more instances than that are taken together, in groups
MOST_BLOCKS = 200
SHORTEST_BLOCK = 20  # events
FEWEST_UNITS = 12
FITTING_EVENTS = 10_000
FITTING_WORK = 10_000_000  # events times squared arms
SUBSAMPLE = 0  # number of a stream's round for the choice of instances; flips are 1, 2, …


def make_units(log: EventLog, events: Events, labels: Any) -> tuple[Units, Any, str]:
    """Return whose signs are flipped together, the key of each unit, and what units are."""
    usable = np.zeros(log.n_instances, np.int64)
    usable_events(events, log.n_arms, usable)
    instances = np.flatnonzero(usable)
    order = instances[np.argsort(labels[instances], kind="stable")]
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


def draw_fitting_instances(log: EventLog, labels: Any, order: Ints, seed: np.uint64) -> Ints:
    """Return instances drawn at random that have enough events to fit variances by."""
    most = min(FITTING_EVENTS, max(2000, FITTING_WORK // (log.n_arms + 1) ** 2))
    drawn = order[np.argsort(_draw_numbers(seed, labels[order], SUBSAMPLE), kind="stable")]
    enough = int(np.searchsorted(np.cumsum(log.lengths[drawn]), most)) + 1
    return drawn[:enough]


@kernel
def _draw_numbers(seed: Any, keys: Any, t: int) -> Floats:
    out = np.empty(keys.size)
    for u in range(keys.size):
        first, second = stream_keys(seed, keys[u], RESAMPLING)
        out[u] = uniform(stream_at(first, second, t), 0)
    return out


@kernel
def draw_signs(seed: Any, keys: Any, flips: int) -> Floats:
    """Return ±1 for each flip and unit, (flips, units)."""
    out = np.empty((flips, keys.size))
    for u in range(keys.size):
        first, second = stream_keys(seed, keys[u], RESAMPLING)
        for t in range(flips):
            out[t, u] = 1.0 if uniform(stream_at(first, second, t + 1), 0) < 0.5 else -1.0
    return out


@kernel
def usable_events(events: Events, arms: int, out: Ints) -> None:
    """Count, for each instance, the events of an arm that it met before."""
    met = np.zeros(arms, np.bool_)
    for u in range(events.offsets.size - 1):
        met[:] = False
        for n in range(events.offsets[u], events.offsets[u + 1]):
            item = events.item[n]
            again = False
            for p in range(events.members[item], events.members[item + 1]):
                again |= met[events.arm[p]]
                met[events.arm[p]] = True
            out[u] += again


def solve_semidefinite(matrix: Floats, right: Floats) -> Floats:
    """Solve a positive semi-definite system; what the matrix does not see becomes zero."""
    seen = np.diag(matrix) > 0.0
    scale = 1.0 / np.sqrt(np.diag(matrix)[seen])
    scaled = scale[:, None] * matrix[np.ix_(seen, seen)] * scale
    wanted = (right[seen].T * scale).T
    solution = np.zeros(right.shape)
    solution[seen] = (_solve_scaled(scaled, wanted).T * scale).T
    return solution


def _solve_scaled(matrix: Floats, right: Floats) -> Floats:
    """Solve a system whose diagonal is 1: by Cholesky, or by eigenvectors if it is singular."""
    linalg = optional_module("scipy.linalg")
    try:
        factor = linalg.cholesky(matrix, lower=True, check_finite=False)
        if len(factor) == 0 or np.diag(factor).min() ** 2 > SINGULAR:
            exact: Floats = linalg.cho_solve((factor, True), right, check_finite=False)
            return exact
    except np.linalg.LinAlgError:
        pass
    values, vectors = np.linalg.eigh(matrix)
    seen = values > SINGULAR * float(values.max())
    basis = vectors[:, seen]
    solution: Floats = basis @ ((basis.T @ right).T / values[seen]).T
    return solution


class EventPasses:
    """Passes over all events, in ranges of neighbouring instances, with one progress bar."""

    def __init__(
        self,
        events: Events,
        units: Units,
        passes: int,
        execution: Execution | int | None,
        progress: bool | None,
    ) -> None:
        self.units = units
        lengths = np.diff(events.offsets)[units.order]
        ends = np.cumsum(lengths)
        cuts = np.searchsorted(ends, np.arange(CHUNK, int(ends[-1]) + CHUNK, CHUNK), "left") + 1
        marks = [0, *np.unique(np.minimum(cuts, len(lengths))).tolist()]
        self.tasks = list(pairwise(marks))
        self.threads = count_threads(local_threads(resolve_execution(execution)))
        self.bar = Progress("test of influence", passes * len(self.tasks), progress)

    def _in_order(self, size: int) -> Callable[..., Any]:
        threads = self.threads if size < LARGE else 1
        return partial(map_in_order, threads=threads, progress=self.bar)

    def predict(self, model: Model, events: Events) -> Predictions:
        """Return the filter's predictions."""
        return predict_events(model, events, self.units.order, self._in_order(1), self.tasks)

    def gather_gram(self, x: Regressors) -> tuple[Floats, Floats]:
        """Return the Gram matrix of regressors and surprise, and means of absorbed effects."""
        return gather_gram(x, self.units, self._in_order(x.size), self.tasks)

    def gather_scores(self, x: Regressors, coefficients: Floats, means: Floats) -> Floats:
        """Return the scores by unit."""
        in_order = self._in_order(x.size)
        return gather_scores(x, self.units, coefficients, means, in_order, self.tasks)


class ScoreRegression:
    """The regression of losses on all regressors; those asked about are freed of the others.

    Attributes
    ----------
    asked : array of int
        Columns of the regressors asked about.
    usable : array of int
        Which of them vary beyond what the others explain.
    scores : array (units, usable)
        Their scores by unit, without them in the model.
    tested : array (usable,) of bool
        Where several units have a say.
    gram : array (usable, usable)
    error, noise : float
        Σ innovation²/F, and its mean over all events.
    """

    def __init__(self, x: Regressors, passes: EventPasses, asked: Ints) -> None:
        gram, means = passes.gather_gram(x)
        arms = x.design.n_arms
        effects = np.arange(arms + KNOWN, arms + KNOWN + arms * x.n_bases)
        gram[effects, effects] += PRIOR_EVENTS
        fixed = np.setdiff1d(np.arange(x.size), asked)
        free = np.append(asked, x.size)  # the surprise stands last
        explained = solve_semidefinite(gram[np.ix_(fixed, fixed)], gram[np.ix_(fixed, free)])
        left = gram[np.ix_(free, free)] - gram[np.ix_(free, fixed)] @ explained
        self.error = float(left[-1, -1])
        self.noise = self.error / len(x.events.item)
        spread, raw = np.diag(left)[:-1], np.diag(gram)[asked]
        least = NEGLIGIBLE**2 * len(x.events.item)  # less is what rounding leaves of counts
        self.asked = asked
        self.usable = np.flatnonzero((spread > NEGLIGIBLE * raw) & (raw > least))
        self.gram = left[np.ix_(self.usable, self.usable)]
        coefficients = np.zeros(x.size)
        coefficients[fixed] = explained[:, -1]
        scores = passes.gather_scores(x, coefficients, means)
        freed = scores[:, fixed] @ explained[:, self.usable]
        self.scores = scores[:, asked[self.usable]] - freed
        # A regressor that a few units decide alone says nothing when signs are flipped.
        squares = self.scores**2
        several = squares.sum(0) ** 2 >= 4.0 * (squares**2).sum(0)
        self.tested = several & (squares.sum(0) > 0.0)

    def t_values(self, signs: Floats) -> tuple[Floats, Floats]:
        """Return t of what is tested, (tested,), and with flipped signs, (flips, tested).

        Scores are smaller than they were before the other regressors were fitted, the more so the
        fewer units there are. So t takes the model's variance where that is larger.
        """
        scores = self.scores[:, self.tested]
        squares = (scores**2).sum(0)
        modelled = self.noise * np.diag(self.gram)[self.tested]
        observed = scores.sum(0) / np.sqrt(np.maximum(squares, modelled))
        return observed, signs @ (scores / np.sqrt(squares))

    def estimate(self) -> Floats:
        """Return the coefficients of what is tested."""
        gram = self.gram[np.ix_(self.tested, self.tested)]
        return solve_semidefinite(gram, self.scores[:, self.tested].sum(0))

    def inverse_root(self) -> Floats:
        """Return R with RᵀR the inverse Gram matrix; the ridge goes with each one's variance."""
        scale = 1.0 / np.sqrt(np.diag(self.gram))
        ridged = scale[:, None] * self.gram * scale + RIDGE * np.eye(len(scale))
        values, vectors = np.linalg.eigh(ridged)
        return (vectors / np.sqrt(values)).T * scale

    def even_inverse(self) -> Floats:
        """Return the inverse with the same ridge for every entry of A.

        A pair that hardly ever came up would else be estimated by thousands, and the centring would
        spread that over its arms.
        """
        even = EVEN_RIDGE * float(np.diag(self.gram).mean())
        return np.asarray(np.linalg.inv(self.gram + even * np.eye(len(self.gram))), np.float64)


def adjust_by_holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values adjusted for their number."""
    adjusted, largest = [0.0] * len(p_values), 0.0
    for rank, n in enumerate(np.argsort(p_values, kind="stable")):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[n]))
        adjusted[n] = largest
    return adjusted


def measure_clarity(observed: Floats, flipped: Floats) -> Floats:
    """Return how far sums of squares are above what chance makes of them, (1 + flips, statistics).

    In standard deviations of their cube roots, which are nearly normal however many squares were
    added up (Wilson and Hilferty): so sums of one and of many can be compared.
    """
    roots = np.cbrt(np.vstack([observed, flipped]))
    spread = roots.std(axis=0)
    clear: Floats = (roots - roots.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0)
    return clear


def find_p_value(observed: Floats, flipped: Floats) -> float:
    """Return the p-value of the clearest of several statistics.

    ``observed`` is (statistics,), ``flipped`` (flips, statistics). The clearest is compared with
    the clearest of every flip, so that looking at several costs no more than their number of
    independent ones.
    """
    largest = measure_clarity(observed, flipped).max(axis=1)
    # Flips that leave everything as it is must count, whatever the rounding.
    return float((largest >= largest[0] - NEGLIGIBLE * (1.0 + abs(largest[0]))).mean())
