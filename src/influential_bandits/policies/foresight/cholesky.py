"""Positive definite matrices as Uᵀ·U with an upper triangle U: rows are worked on as vectors."""

from __future__ import annotations

import math

import numpy as np

from influential_bandits.numerics.arrays import Floats
from influential_bandits.numerics.compiling import inlined
from influential_bandits.numerics.portable import log

ROUNDING = 1e-14  # of an entry of the diagonal: less than that is left by rounding alone
SMALL, LARGE = 1e-100, 1e100  # products of diagonals are multiplied on between these


@inlined
def place(j: int, k: int) -> int:
    """Return where entry j ≥ k of a symmetric matrix lies among those of its lower triangle.

    Examples
    --------
    >>> [place(j, k) for j in range(3) for k in range(j + 1)]
    [0, 1, 2, 3, 4, 5]
    """
    return j * (j + 1) // 2 + k


@inlined
def factorise(matrix: Floats) -> None:
    """Overwrite the upper triangle of M with U, and each column b beside M with Uᵀ⁻¹·b.

    Examples
    --------
    >>> matrix = np.array([[4.0, 2.0, 2.0], [0.0, 10.0, 4.0]])  # [[4, 2], [2, 10]] and (2, 4)
    >>> factorise(matrix)
    >>> matrix.tolist()
    [[2.0, 1.0, 1.0], [0.0, 3.0, 1.0]]
    """
    size, columns = matrix.shape
    least = np.empty(size)
    for j in range(size):
        least[j] = ROUNDING * matrix[j, j]
    for j in range(size):
        root = math.sqrt(max(matrix[j, j], least[j]))
        for k in range(j, columns):
            matrix[j, k] /= root
        for i in range(j + 1, size):
            factor = matrix[j, i]
            for k in range(i, columns):
                matrix[i, k] -= factor * matrix[j, k]


@inlined
def log_determinant(factor: Floats) -> float:
    """Return the log of the determinant of Uᵀ·U."""
    total, product = 0.0, 1.0
    for j in range(factor.shape[0]):
        product *= factor[j, j]
        if not SMALL < product < LARGE:
            total += log(product)
            product = 1.0
    return 2.0 * (total + log(product))


@inlined
def solve(factor: Floats, column: int, solution: Floats) -> None:
    """Write M⁻¹·b, b being a column that was beside M when it was factorised."""
    for j in range(factor.shape[0] - 1, -1, -1):
        value = factor[j, column]
        for k in range(j + 1, factor.shape[0]):
            value -= factor[j, k] * solution[k]
        solution[j] = value / factor[j, j]


@inlined
def invert(factor: Floats, inverse: Floats) -> None:
    """Write the lower triangle of (Uᵀ·U)⁻¹."""
    size = factor.shape[0]
    rows = np.zeros((size, size))  # of U⁻¹
    for j in range(size - 1, -1, -1):
        rows[j, j] = 1.0
        for i in range(j + 1, size):
            for k in range(i, size):
                rows[j, k] -= factor[j, i] * rows[i, k]
        for k in range(j, size):
            rows[j, k] /= factor[j, j]
    for j in range(size):
        for k in range(j + 1):
            value = 0.0
            for m in range(j, size):
                value += rows[j, m] * rows[k, m]
            inverse[place(j, k)] = value


@inlined
def quadratic(matrix: Floats, x: Floats) -> float:
    """Return xᵀMx of a symmetric matrix that is kept as its lower triangle."""
    total, spot = 0.0, 0
    for j in range(x.size):
        off = 0.0
        for k in range(j):
            off += matrix[spot + k] * x[k]
        spot += j
        total += x[j] * (2.0 * off + matrix[spot] * x[j])
        spot += 1
    return total
