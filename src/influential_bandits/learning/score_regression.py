"""The regression behind the test of influence: scores of pairs of arms, freed of the controls."""

from __future__ import annotations

from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np

from influential_bandits.errors import NotApplicable
from influential_bandits.execution.base import Execution
from influential_bandits.execution.local import count_threads, map_in_order, resolve_execution
from influential_bandits.execution.progress import Progress
from influential_bandits.learning.kalman import (
    CONTROLS,
    Model,
    Units,
    gather_gram,
    gather_scores,
)
from influential_bandits.learning.statistics.design import SYMMETRIC, Events, interaction_entries
from influential_bandits.learning.statistics.reduction import local_threads
from influential_bandits.numerics.arrays import Floats, Ints

__all__ = ["NEGLIGIBLE", "NO_PAIR", "ScoreRegression", "solve_semidefinite"]

CHUNK = 50_000  # events
RIDGE = 1e-3  # relative to the variance of each regressor
EVEN_RIDGE = 1e-2  # relative to the mean variance: the same for every entry of A
NEGLIGIBLE = 1e-9
NO_PAIR = (
    "too little data: no pair of arms was met often enough by enough instances; the test needs "
    "several instances that meet two or more arms again and again"
)


def solve_semidefinite(matrix: Floats, right: Floats) -> Floats:
    """Solve a positive semi-definite system; what the matrix does not see becomes zero."""
    scale = np.sqrt(np.diag(matrix))
    scale = np.where(scale > 0.0, 1.0 / np.where(scale > 0.0, scale, 1.0), 0.0)
    values, vectors = np.linalg.eigh(scale[:, None] * matrix * scale)
    kept = values > 1e-10 * max(float(values.max()), 1e-300)
    basis = scale[:, None] * vectors[:, kept]
    solution: Floats = basis @ ((basis.T @ right).T / values[kept]).T
    return solution


class ScoreRegression:
    """The regression of losses on controls and pairs: pairs are freed of what controls explain."""

    def __init__(
        self,
        model: Model,
        events: Events,
        units: Units,
        execution: Execution | int | None,
        progress: bool | None,
    ) -> None:
        arms = model.design.n_arms
        self.arms, size, fixed = arms, model.design.size, arms + CONTROLS
        tasks = _tasks(events, units)
        threads = local_threads(resolve_execution(execution))
        workers = count_threads(threads) if size < 2000 else 1  # memory: size² for each
        bar = Progress("test of influence", 2 * len(tasks), progress)
        in_order = partial(map_in_order, threads=workers, progress=bar)
        gram = gather_gram(model, events, units, in_order, tasks)
        self.controls = solve_semidefinite(gram[:fixed, :fixed], gram[:fixed, fixed:])
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
        scores = gather_scores(model, events, units, coefficients, in_order, tasks)
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
        return np.array(interaction_entries(SYMMETRIC, self.arms))[self.usable]


def _tasks(events: Events, units: Units) -> list[tuple[int, int]]:
    """Return ranges of neighbouring instances of about CHUNK events each."""
    lengths = np.diff(events.offsets)[units.order]
    ends = np.cumsum(lengths)
    cuts = np.searchsorted(ends, np.arange(CHUNK, int(ends[-1]) + CHUNK, CHUNK), "left") + 1
    marks = [0, *np.unique(np.minimum(cuts, len(lengths))).tolist()]
    return list(pairwise(marks))
