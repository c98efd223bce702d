"""Least squares over positive semi-definite matrices, solved to a certified optimum.

minimise ½·aᵀSa − h·a over symmetric K×K matrices A ⪰ 0, where a = svec(A) lists the lower triangle
row by row with off-diagonal entries times √2, so that a·b = trace(AB).

Method: a primal-dual interior point with Mehrotra's corrector. Z = mat(Sa − h) ⪰ 0 is the dual
variable, and the search direction linearises ½(A⁻¹ΔA·Z + Z·ΔA·A⁻¹) + ΔZ = σμA⁻¹ − Z. Certificate:
any A ⪰ 0 bounds the minimum from above, and any Z ⪰ 0 bounds it from below by −½(h+z)ᵀS⁻¹(h+z).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from influential_bandits.numerics.compiling import kernel

# What @ returns in compiled code is not what NumPy's stubs say it returns.
Array: TypeAlias = Any  # of float64

ROOT2 = math.sqrt(2.0)
ITERATIONS = 60


class PsdSolution(NamedTuple):
    """The minimiser, and how far it can be from the optimum at most."""

    matrix: Array  # (K, K)
    objective: float  # ½·aᵀSa − h·a
    gap: float  # objective − lower bound of the minimum, both from feasible points
    iterations: int


@kernel
def svec(matrix: Array) -> Array:
    """Return the lower triangle of a symmetric matrix as a vector, off-diagonals times √2."""
    size = matrix.shape[0]
    out = np.empty(size * (size + 1) // 2)
    n = 0
    for i in range(size):
        for j in range(i):
            out[n] = ROOT2 * matrix[i, j]
            n += 1
        out[n] = matrix[i, i]
        n += 1
    return out


@kernel
def smat(vector: Array, size: int) -> Array:
    """Return the symmetric matrix whose :func:`svec` this is."""
    out = np.empty((size, size))
    n = 0
    for i in range(size):
        for j in range(i):
            out[i, j] = out[j, i] = vector[n] / ROOT2
            n += 1
        out[i, i] = vector[n]
        n += 1
    return out


@kernel
def solve_psd(S: Array, h: Array, size: int, tolerance: float) -> PsdSolution:
    """Minimise ½·aᵀSa − h·a over A ⪰ 0, for a positive definite S.

    Parameters
    ----------
    S : array (m, m)
        Symmetric positive definite, m = K(K+1)/2, in the coordinates of :func:`svec`.
    h : array (m,)
    size : int
        K.
    tolerance : float
        Stop when gap ≤ tolerance·max(|objective|, |lower bound|), or at rounding, whichever is
        larger; the gap that is returned includes a bound of its own rounding.

    Returns
    -------
    PsdSolution
    """
    scale = _equilibration(S, size)
    S = _scale(S, scale)
    h = h * scale
    lower = np.linalg.cholesky(S)
    upper = np.ascontiguousarray(lower.T)
    a = solve_cholesky(lower, upper, h)
    bottom = -0.5 * h @ a  # the minimum without the cone
    A = smat(a, size)
    if np.linalg.eigvalsh(A)[0] >= 0.0:
        return PsdSolution(_unscale(A, scale, size), bottom, 0.0, 0)

    A = _positive_part(A)
    Z = _positive_part(smat(S @ svec(A) - h, size))
    best, best_value, best_gap, floor = A, np.inf, np.inf, bottom
    iterations = 0
    while iterations < ITERATIONS:
        a, z = svec(A), svec(Z)
        image = S @ a
        value = 0.5 * a @ image - h @ a
        lifted = h + z
        floor = max(floor, -0.5 * lifted @ solve_cholesky(lower, upper, lifted))
        if value < best_value:
            best, best_value = A, value
        best_gap = best_value - floor
        if best_gap <= tolerance * max(abs(best_value), abs(floor)) + 1e-15 * abs(bottom):
            break
        iterations += 1
        A, Z, moved = _newton_step(S, size, A, Z, image - h - z)
        if moved < 1e-9:
            break
    gap = max(best_gap, 0.0) + _bound_rounding(S, h, best, Z)
    return PsdSolution(_unscale(best, scale, size), best_value, gap, iterations)


@kernel
def _bound_rounding(S: Array, h: Array, A: Array, Z: Array) -> float:
    """Bound the rounding errors of the objective and of its lower bound."""
    a = np.abs(svec(A))
    terms = (a * np.sqrt(np.diag(S))).sum() ** 2 + np.abs(h) @ a
    terms += A.shape[0] ** 2 * np.abs(A).max() * np.abs(Z).max()
    return 4.0 * (a.size + 3) * 1.1102230246251565e-16 * terms


@kernel
def _newton_step(
    S: Array, size: int, A: Array, Z: Array, residual: Array
) -> tuple[Array, Array, float]:
    """Return the next A and Z and the shorter of the two step lengths."""
    root, inside = factor(A)
    if not inside:  # rounding has reached the boundary
        return A, Z, 0.0
    half = triangular_inverse(root)
    inverse = half.T @ half
    z = svec(Z)
    mu = float(svec(A) @ z) / size
    lower = np.linalg.cholesky(_with_scaling(S, inverse, Z, size))
    upper = np.ascontiguousarray(lower.T)

    dA, dZ = _direction(lower, upper, -residual - z, np.zeros((size, size)), inverse, Z, size)
    step_a, step_z = _longest(A, dA), _longest(Z, dZ)
    ahead = float(svec(A + step_a * dA) @ svec(Z + step_z * dZ)) / size
    centring = min((max(ahead, 0.0) / mu) ** 3, 1.0)
    second_order = inverse @ dA @ dZ
    target = centring * mu * inverse - 0.5 * (second_order + second_order.T)
    dA, dZ = _direction(lower, upper, -residual - z, target, inverse, Z, size)
    # The further the first direction went, the closer to the boundary the second may go.
    beyond = 1.0 / (0.9 + 0.09 * min(step_a, step_z))
    step_a, step_z = _longest(A, beyond * dA), _longest(Z, beyond * dZ)
    return A + step_a * dA, Z + step_z * dZ, min(step_a, step_z)


@kernel
def _direction(
    lower: Array,
    upper: Array,
    right: Array,
    target: Array,
    inverse: Array,
    Z: Array,
    size: int,
) -> tuple[Array, Array]:
    """Return ΔA and ΔZ = target − Z − ½(A⁻¹ΔA·Z + Z·ΔA·A⁻¹)."""
    dA = smat(solve_cholesky(lower, upper, right + svec(target)), size)
    product = inverse @ dA @ Z
    return dA, target - Z - 0.5 * (product + product.T)


@kernel
def _with_scaling(S: Array, P: Array, Z: Array, size: int) -> Array:
    """Return S plus the matrix of ΔA ↦ ½(P·ΔA·Z + Z·ΔA·P) in svec coordinates, lower half."""
    out = S.copy()
    row = 0
    for i in range(size):
        for j in range(i + 1):
            c = 0.25 if i == j else 0.25 * ROOT2
            line = out[row]
            for k in range(i + 1):
                start = k * (k + 1) // 2
                last = k if k < i else j
                p_ik, z_jk, p_jk, z_ik = P[i, k], Z[j, k], P[j, k], Z[i, k]
                for m in range(last + 1):  # entries off the diagonal count √2 times
                    line[start + m] += (c * ROOT2) * (
                        p_ik * Z[j, m] + P[i, m] * z_jk + p_jk * Z[i, m] + P[j, m] * z_ik
                    )
                if last == k:
                    both = p_ik * z_jk + p_jk * z_ik
                    line[start + k] += (2.0 - 2.0 * ROOT2) * c * both
            row += 1
    for n in range(row):
        out[n, n] *= 1.0 + 1e-13  # a hair of safety where S is all but singular
    return out  # numpy's Cholesky reads the lower triangle only


@kernel
def factor(matrix: Array) -> tuple[Array, bool]:
    """Return the Cholesky factor of a small matrix, and whether it is positive definite."""
    size = matrix.shape[0]
    out = np.zeros((size, size))
    for j in range(size):
        pivot = matrix[j, j]
        for k in range(j):
            pivot -= out[j, k] * out[j, k]
        if not pivot > 0.0:
            return out, False
        out[j, j] = math.sqrt(pivot)
        for i in range(j + 1, size):
            total = matrix[i, j]
            for k in range(j):
                total -= out[i, k] * out[j, k]
            out[i, j] = total / out[j, j]
    return out, True


@kernel
def _longest(X: Array, step: Array) -> float:
    """Return how far X may go along a step and stay positive definite, at most 1.

    By bisection: a Cholesky factorisation of a small matrix takes a tenth of its eigenvalues.
    """
    if factor(X + step)[1]:
        return 1.0
    low, high = 0.0, 1.0
    while high - low > 0.01 * high and high > 1e-9:
        middle = 0.5 * (low + high)
        if factor(X + middle * step)[1]:
            low = middle
        else:
            high = middle
    return low


@kernel
def _positive_part(matrix: Array) -> Array:
    """Return the matrix with eigenvalues lifted to a tenth of the largest: a place to start."""
    values, vectors = np.linalg.eigh(matrix)
    floor = 0.1 * max(abs(values[0]), abs(values[-1]), 1e-300)
    return (vectors * np.maximum(values, floor)) @ vectors.T


@kernel
def _scale(S: Array, scale: Array) -> Array:
    out = np.empty_like(S)
    for i in range(scale.size):
        for j in range(scale.size):
            out[i, j] = scale[i] * S[i, j] * scale[j]
    return out


@kernel
def triangular_inverse(lower: Array) -> Array:
    """Return the inverse of a lower triangular matrix."""
    size = lower.shape[0]
    out = np.zeros((size, size))
    for i in range(size):
        for k in range(i):
            factor = lower[i, k]
            for j in range(k + 1):
                out[i, j] -= factor * out[k, j]
        for j in range(i):
            out[i, j] /= lower[i, i]
        out[i, i] = 1.0 / lower[i, i]
    return out


@kernel
def solve_cholesky(lower: Array, upper: Array, right: Array) -> Array:
    """Return the solution of L·Lᵀ·x = right, both factors stored by rows so that loops are fast."""
    x = right.copy()
    size = x.size
    for j in range(size):
        x[j] /= lower[j, j]
        factor = x[j]
        row = upper[j]
        for i in range(j + 1, size):
            x[i] -= factor * row[i]
    for j in range(size - 1, -1, -1):
        x[j] /= lower[j, j]
        factor = x[j]
        row = lower[j]
        for i in range(j):
            x[i] -= factor * row[i]
    return x


@kernel
def _equilibration(S: Array, size: int) -> Array:
    """Return the factors of A = R·Ã·R, in svec coordinates, that bring diagonal entries to one.

    A congruence keeps the cone as it is, so that rare and frequent arms are solved alike.
    """
    r = np.empty(size)
    for i in range(size):
        place = i * (i + 1) // 2 + i
        r[i] = S[place, place] ** -0.25
    out = np.empty(S.shape[0])
    n = 0
    for i in range(size):
        for j in range(i + 1):
            out[n] = r[i] * r[j]
            n += 1
    return out


@kernel
def _unscale(A: Array, scale: Array, size: int) -> Array:
    return smat(svec(A) * scale, size)


@kernel
def svec_scale(arms: int) -> Array:
    """Return entry = scale·svec, (m,): 1 on the diagonal, 1/√2 off it."""
    out = np.empty(arms * (arms + 1) // 2)
    n = 0
    for i in range(arms):
        for _ in range(i):
            out[n] = np.sqrt(0.5)
            n += 1
        out[n] = 1.0
        n += 1
    return out
