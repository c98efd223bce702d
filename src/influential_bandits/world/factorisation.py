"""A = FFᵀ for positive semi-definite A, singular ones included."""

from __future__ import annotations

import math

import numpy as np

from influential_bandits.numerics.compiling import kernel
from influential_bandits.world.dynamics import Floats


@kernel
def pivoted_cholesky(matrix: Floats, tolerance: float) -> Floats:
    """Return F (arms, rank) with FFᵀ = matrix up to ``tolerance`` times its largest diagonal entry.

    Eliminates the largest remaining diagonal entry first and stops when none is left, so that the
    rank shows. ½·dᵀAd evaluated as ½·‖Fᵀd‖² is never negative, whatever the rounding.

    Examples
    --------
    >>> pivoted_cholesky(np.array([[1.0, 0.5], [0.5, 0.25]]), 1e-15)
    array([[1. ],
           [0.5]])
    """
    n = matrix.shape[0]
    rest = np.empty(n)
    for i in range(n):
        rest[i] = matrix[i, i]
    threshold = max(tolerance * rest.max(), 0.0)
    eliminated = np.zeros(n, np.bool_)
    factor = np.zeros((n, n))
    rank = 0
    while rank < n:
        pivot = int(rest.argmax())
        if rest[pivot] <= threshold:
            break
        root = math.sqrt(rest[pivot])
        eliminated[pivot] = True
        factor[pivot, rank] = root
        rest[pivot] = 0.0
        for i in range(n):
            if not eliminated[i]:
                entry = matrix[i, pivot]
                for k in range(rank):
                    entry -= factor[i, k] * factor[pivot, k]
                factor[i, rank] = entry / root
                rest[i] -= factor[i, rank] * factor[i, rank]
        rank += 1
    return factor[:, : max(rank, 1)].copy()
