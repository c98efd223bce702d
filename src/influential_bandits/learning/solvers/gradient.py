"""The paper's own fit beside ours: gradient descent with momentum on A = BBᵀ.

The paper says neither step length nor number of steps. Here the step is half of the inverse of the
largest curvature at the start, the momentum 0.9, and B starts at small random numbers. The
objective is not convex in B, and directions of small curvature hardly move in thousands of steps,
so that stopping early acts as a regularisation that nobody chose.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from influential_bandits.learning.solvers.penalised import (
    Penalty,
    centre_losses,
    penalty_weights,
    solve_penalised,
)
from influential_bandits.learning.statistics.design import (
    Design,
    event_columns,
    history_gram,
    interaction_matrices,
)
from influential_bandits.learning.statistics.reduction import single_threaded_algebra
from influential_bandits.logs.log import EventLog
from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.numerics.compiling import kernel

MOMENTUM = 0.9


class Descent(NamedTuple):
    """How a descent went: what was left to gain, as a share of all squared error, and how big A."""

    steps: Ints  # (marks,)
    excess: Floats  # (marks,): (objective − certified optimum) / ½·Σ(loss − mean)²
    norm: Floats  # (marks,): Frobenius norm of A


def trace_descent(
    log: EventLog, design: Design, penalty: Penalty, marks: npt.ArrayLike
) -> list[Descent]:
    """Return how far the descent is from the certified optimum after so many steps, by instance."""
    descents = []
    steps = np.asarray(marks, np.int64)
    with single_threaded_algebra():
        for u in np.flatnonzero(log.lengths).tolist():
            gram, weights = _statistics(log, design, penalty, u)
            best = solve_penalised(design, gram, weights, True, penalty.ridge, np.zeros(1))[0]
            path = _descend(design, gram, weights, steps, _start(design))
            norms = np.sqrt((interaction_matrices(design, path) ** 2).sum(axis=(1, 2)))
            descents.append(Descent(steps, _excess(gram, weights, path, best), norms))
    return descents


def _statistics(log: EventLog, design: Design, penalty: Penalty, u: int) -> tuple[Floats, Floats]:
    gram = np.empty((design.size + 1, design.size + 1))
    history_gram(design, event_columns(log), u, gram)
    number = int(log.lengths[u])
    mean = float(gram[: design.n_arms, -1].sum() / number) if log.membership.normalised else 0.0
    centre_losses(gram, design.n_arms, mean, number)
    return gram, penalty_weights(design, np.diag(gram)[:-1].copy(), number, *penalty)


def _start(design: Design) -> Floats:
    return 1e-3 * np.random.default_rng(0).standard_normal((design.n_arms, design.n_arms))


def _excess(gram: Floats, weights: Floats, path: Floats, best: Floats) -> Floats:
    """Return objective − optimum of each row of the path, relative; quadratic, so exact."""
    H = gram[:-1, :-1] + np.diag(weights)
    steps = path - best
    slope = H @ best - gram[:-1, -1]
    gained = steps @ slope + 0.5 * np.einsum("ij,jk,ik->i", steps, H, steps)
    return np.maximum(gained, 0.0) / max(0.5 * gram[-1, -1], 1e-300)


@kernel
def _descend(design: Design, gram: Floats, weights: Floats, marks: Ints, B: Any) -> Floats:
    """Return the coefficients after each number of steps in ``marks``, (marks, size)."""
    size = gram.shape[0] - 1
    arms, start = design.n_arms, design.n_arms + design.controls
    H = np.ascontiguousarray(gram[:size, :size]) + np.diag(weights)
    g = gram[:size, size].copy()
    theta = np.zeros(size)
    # The step is the same for both parts; the interaction's curvature is the larger one.
    step = 0.5 / np.linalg.eigvalsh(H)[-1]
    velocity, velocity_B = np.zeros(start), np.zeros((arms, arms))
    slope = np.zeros((arms, arms))
    out = np.empty((marks.size, size))
    taken = 0
    for mark in range(marks.size):
        while taken < marks[mark]:
            _write(B @ B.T, theta[start:])
            gradient = H @ theta - g
            n = start
            for i in range(arms):
                for j in range(i + 1):
                    half = gradient[n] if i == j else 0.5 * gradient[n]
                    slope[i, j] = slope[j, i] = half
                    n += 1
            velocity = MOMENTUM * velocity - step * gradient[:start]
            velocity_B = MOMENTUM * velocity_B - step * 2.0 * (slope @ B)
            theta[:start] += velocity
            B = B + velocity_B
            taken += 1
        _write(B @ B.T, theta[start:])
        out[mark] = theta
    return out


@kernel
def _write(A: Any, out: Floats) -> None:
    """Write the lower triangle of A, row by row."""
    n = 0
    for i in range(A.shape[0]):
        for j in range(i + 1):
            out[n] = A[i, j]
            n += 1
