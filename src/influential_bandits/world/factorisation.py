"""A = L·D·Lᵀ for positive semi-definite A, singular ones included, and the nearest such A."""

from __future__ import annotations

import math

import numpy as np

from influential_bandits.numerics.arrays import Floats
from influential_bandits.numerics.compiling import inlined, lazy_kernel

ROTATED = 1e-12  # entries off the diagonal that are none, relative to the largest of the matrix
MOST_SWEEPS = 60  # far more than are ever needed, so that nothing can hang


@lazy_kernel
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


@lazy_kernel
def is_definite(matrix: Floats) -> bool:
    """Tell whether a symmetric matrix has a Cholesky factor, that is: is positive definite.

    Examples
    --------
    >>> is_definite(np.eye(2)), is_definite(np.ones((2, 2)))
    (True, False)
    """
    n = matrix.shape[0]
    lower = np.zeros((n, n))
    for j in range(n):
        for i in range(j, n):
            entry = matrix[i, j]
            for k in range(j):
                entry -= lower[i, k] * lower[j, k]
            if i == j:
                if entry <= 0.0:
                    return False
                lower[j, j] = math.sqrt(entry)
            else:
                lower[i, j] = entry / lower[j, j]
    return True


@lazy_kernel
def clip_eigenvalues(matrix: Floats) -> None:
    """Turn a symmetric matrix, in place, into the nearest positive semi-definite one.

    Its eigenvalues below 0 become 0, which is nearest in the sum of squares. By Jacobi's rotations,
    in a fixed order of + − × ÷ √, so that the bits are the same on every computer.

    Examples
    --------
    >>> matrix = np.array([[0.0, 1.0], [1.0, 0.0]])
    >>> clip_eigenvalues(matrix)
    >>> matrix
    array([[0.5, 0.5],
           [0.5, 0.5]])
    """
    n = matrix.shape[0]
    scale = np.abs(matrix).max()
    if scale == 0.0:
        return
    a = matrix / scale
    vectors = np.eye(n)
    for _ in range(MOST_SWEEPS):
        largest = 0.0
        for p in range(n - 1):
            for q in range(p + 1, n):
                largest = max(largest, abs(a[p, q]))
                _rotate(a, vectors, p, q)
        if largest <= ROTATED:
            break
    for i in range(n):
        for j in range(i + 1):
            entry = 0.0
            for k in range(n):
                if a[k, k] > 0.0:
                    entry += a[k, k] * vectors[i, k] * vectors[j, k]
            matrix[i, j] = matrix[j, i] = scale * entry


@inlined
def _rotate(a: Floats, vectors: Floats, p: int, q: int) -> None:
    """Turn the plane of p and q so that a[p, q] becomes 0."""
    if a[p, q] == 0.0:
        return
    ratio = (a[q, q] - a[p, p]) / (2.0 * a[p, q])
    tangent = 1.0 / (abs(ratio) + math.sqrt(1.0 + ratio * ratio))
    if ratio < 0.0:
        tangent = -tangent
    cosine = 1.0 / math.sqrt(1.0 + tangent * tangent)
    sine = tangent * cosine
    for k in range(a.shape[0]):
        left, right = a[k, p], a[k, q]
        a[k, p] = cosine * left - sine * right
        a[k, q] = sine * left + cosine * right
    for k in range(a.shape[0]):
        left, right = a[p, k], a[q, k]
        a[p, k] = cosine * left - sine * right
        a[q, k] = sine * left + cosine * right
    a[p, q] = a[q, p] = 0.0
    for k in range(a.shape[0]):
        left, right = vectors[k, p], vectors[k, q]
        vectors[k, p] = cosine * left - sine * right
        vectors[k, q] = sine * left + cosine * right
