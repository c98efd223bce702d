"""A = L·D·Lᵀ, against rational arithmetic and for singular matrices."""

import numpy as np
import pytest
from hypothesis import given
from strategies import factors, symmetric_matrices

from influential_bandits.world.factorisation import (
    clip_eigenvalues,
    is_definite,
    pivoted_ldl,
)

EPSILON = np.finfo(float).eps


def gram(f):
    matrix = f @ f.T
    return (matrix + matrix.T) / 2


@given(factors())
def test_the_factors_give_back_the_matrix(f):
    matrix = gram(f)
    arms = len(f)
    left, weights = pivoted_ldl(matrix, arms * EPSILON)
    assert left.shape == (arms, weights.size)
    assert (weights > 0).all()
    # Eliminated entries err by at most K roundings of size max|A| in each of K steps; what is left
    # when all pivots are below K·ε·max|A| is no larger than that (|A_ij|² ≤ A_ii·A_jj), again up
    # to the rounding of the elimination.
    tolerance = 2 * arms**2 * EPSILON * matrix.max(initial=0.0)
    assert np.abs(left @ np.diag(weights) @ left.T - matrix).max() <= tolerance


@pytest.mark.parametrize("rank", [1, 2, 3, 5])
def test_the_rank_shows(rank):
    f = np.random.default_rng(rank).integers(-4, 5, (6, rank)) / 4
    assert np.linalg.matrix_rank(f) == rank
    assert pivoted_ldl(gram(f), 6 * EPSILON)[1].size == rank


def test_a_matrix_of_zeros_has_rank_zero():
    left, weights = pivoted_ldl(np.zeros((3, 3)), EPSILON)
    assert left.shape == (3, 0)
    assert weights.shape == (0,)


def test_what_is_left_of_a_diagonal_entry_never_grows_from_pivot_to_pivot():
    matrix = gram(np.random.default_rng(3).normal(size=(8, 8)))
    left, weights = pivoted_ldl(matrix, EPSILON)
    pivots = [int(np.flatnonzero(left[:, k] == 1.0)[0]) for k in range(8)]
    assert sorted(pivots) == list(range(8))
    assert (np.diff(weights / matrix[pivots, pivots]) <= 0).all()


@given(symmetric_matrices())
def test_clipped_matrices_are_those_of_a_library_for_eigenvalues(matrix):
    matrix = np.ascontiguousarray(matrix)
    values, vectors = np.linalg.eigh(matrix)
    nearest = (vectors * np.maximum(values, 0.0)) @ vectors.T
    clipped = matrix.copy()
    clip_eigenvalues(clipped)
    assert (clipped == clipped.T).all()
    # Rotations stop at entries of 1e-12·max|A|; K of them in a row move an eigenvalue by no more
    # than K times that, and a clipped matrix by no more than the matrix (the projection onto a
    # convex set), K² entries together. Rounding is far below.
    arms = len(matrix)
    assert np.abs(clipped - nearest).max() <= 2e-12 * arms**2 * np.abs(matrix).max(initial=0.0)
    assert np.linalg.eigvalsh(clipped)[0] >= -(arms**2) * EPSILON * np.abs(matrix).max()


@pytest.mark.parametrize("size", [1e-100, 1.0, 1e100])
def test_clipping_knows_no_unit(size):
    matrix = size * np.array([[1.0, 2.0], [2.0, 1.0]])
    clip_eigenvalues(matrix)
    assert np.allclose(matrix, 1.5 * size, rtol=1e-14, atol=0.0)


def test_what_is_definite_has_a_factor():
    assert is_definite(np.array([[2.0, 1.0], [1.0, 1.0]]))
    assert not is_definite(np.array([[1.0, 2.0], [2.0, 1.0]]))
    assert not is_definite(np.zeros((2, 2)))
