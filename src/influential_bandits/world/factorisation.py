"""A = L·D·Lᵀ for positive semi-definite A, singular ones included."""

from __future__ import annotations

import numpy as np

from influential_bandits.numerics.arrays import Floats
from influential_bandits.numerics.compiling import kernel


@kernel
def pivoted_ldl(matrix: Floats, tolerance: float) -> tuple[Floats, Floats]:
    """Return L (arms, rank) and D (rank,) with L·diag(D)·Lᵀ = matrix and D > 0.

    Eliminates the arm with the largest part of its diagonal entry left, and stops when all have
    less than ``tolerance`` of theirs: the rank shows, and small arms count beside large ones.
    ½·dᵀAd evaluated as ½·Σ D·(Lᵀd)² is never negative, whatever the rounding.

    Examples
    --------
    >>> pivoted_ldl(np.array([[1.0, 0.5], [0.5, 0.25]]), 1e-15)
    (array([[1. ],
           [0.5]]), array([1.]))
    """
    n = matrix.shape[0]
    rest = np.empty(n)
    for i in range(n):
        rest[i] = matrix[i, i]
    eliminated = np.zeros(n, np.bool_)
    factor = np.zeros((n, n))
    weights = np.zeros(n)
    rank = 0
    while rank < n:
        pivot, most = -1, tolerance
        for i in range(n):
            if not eliminated[i] and rest[i] > most * matrix[i, i]:
                pivot, most = i, rest[i] / matrix[i, i]
        if pivot < 0:
            break
        weights[rank] = rest[pivot]
        eliminated[pivot] = True
        factor[pivot, rank] = 1.0
        for i in range(n):
            if not eliminated[i]:
                entry = matrix[i, pivot]
                for k in range(rank):
                    entry -= factor[i, k] * weights[k] * factor[pivot, k]
                factor[i, rank] = entry / weights[rank]
                rest[i] -= factor[i, rank] * entry
        rank += 1
    return factor[:, :rank].copy(), weights[:rank].copy()
