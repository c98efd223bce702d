"""The paper's instances, and random families of them.

Random instances come from the package's own streams, not from NumPy's generators, whose normal
numbers may change between versions: a seed names the same instance for good.
"""

from __future__ import annotations

import math

import numpy as np

from influential_bandits.checks import whole_number
from influential_bandits.errors import InvalidInput
from influential_bandits.numerics.compiling import kernel
from influential_bandits.numerics.streams import (
    INSTANCE,
    Key,
    normal,
    stream_at,
    stream_keys,
    uniform,
)
from influential_bandits.world.dynamics import Floats, ordered_dot
from influential_bandits.world.instance import Instance
from influential_bandits.world.interaction import DenseInteraction, LowRankInteraction

__all__ = ["counterexample", "instance_with_support", "linear_lower_bound", "random_instance"]

DENSE_ARMS = 20_000  # a dense matrix of that size takes 3 GB


def counterexample() -> Instance:
    """Return the instance on which LCB has near-quadratic regret (Prop. 2.2); meant for no noise.

    Examples
    --------
    >>> counterexample().interaction.to_dense()
    array([[1., 1.],
           [1., 2.]])
    """
    return Instance([[1.0, 1.0], [1.0, 2.0]], [1.0, 1.0])


def linear_lower_bound(first_arm: int = 0) -> Instance:
    """Return the instance with regret ≥ T/4 + 1/8 for every policy that starts with ``first_arm``.

    Prop. 2.3 (b = 0), for arm 0, and its mirror image for arm 1.

    Examples
    --------
    >>> linear_lower_bound(0).linear_term
    array([0., 0.])
    """
    if first_arm not in (0, 1):
        raise InvalidInput(f"first_arm must be 0 or 1, got {first_arm!r}")
    matrix, loss = np.array([[1.0, 0.5], [0.5, 0.25]]), np.array([0.5, 0.125])
    if first_arm == 1:
        matrix, loss = matrix[::-1, ::-1], loss[::-1]
    return Instance(matrix, loss)


def random_instance(arms: int, seed: int, rank: int | None = None) -> Instance:
    """Return a random instance as in Sec. 4.1: A = BᵀB / max|BᵀB|, entries of B and l1 ~ N(0, 1).

    Parameters
    ----------
    arms : int
        K ≥ 1.
    seed : int
        Names the instance, for good.
    rank : int, optional
        B has this many rows instead of K, and A = FFᵀ is kept in factors: many arms are fine.

    Examples
    --------
    >>> random_instance(arms=3, seed=0)
    Instance(3 arms, dense interaction, max|A| = 1)
    >>> random_instance(arms=100_000, seed=0, rank=16)
    Instance(100000 arms, low-rank interaction (rank 16), max|A| = 1)
    """
    arms = whole_number("arms", arms, 1)
    seed = whole_number("seed", seed, 0)
    if rank is None:
        _require_dense(arms)
        b = _normals(seed, (arms, arms), 0)
        return Instance(_normalised_gram(b), _normals(seed, (1, arms), 1)[0])
    rank = whole_number("rank", rank, 1)
    factors = _normals(seed, (arms, rank), 0)
    interaction = LowRankInteraction(factors / np.sqrt(_largest_square(factors)))
    return Instance(interaction, _normals(seed, (1, arms), 1)[0])


def instance_with_support(arms: int, support: int, seed: int) -> Instance:
    """Return a random instance whose best mix p* uses exactly the first ``support`` arms.

    p* is the point of the simplex that minimises ½·pᵀAp; its support decides whether regret can
    stay small (:func:`difficulty`). A is the Gram matrix of vectors vᵢ, and Σ p*ᵢ·vᵢ is the point
    of their convex hull nearest to the origin. The first ``support`` vectors are placed around a
    point at height 1, the others higher. The largest entry of A is 1, and l1 ~ N(0, 1).

    Examples
    --------
    >>> instance_with_support(arms=5, support=2, seed=0)
    Instance(5 arms, dense interaction, max|A| = 1)
    """
    arms = whole_number("arms", arms, 1)
    support = whole_number("support", support, 1)
    seed = whole_number("seed", seed, 0)
    _require_dense(arms)
    if support > arms:
        raise InvalidInput(f"support must be at most arms = {arms}, got {support}")
    vectors = _normals(seed, (arms, arms), 2)
    mix = 0.2 + _uniforms(seed, support, 3)
    mix /= math.fsum(mix)
    around = vectors[:support, 1:]
    around -= (mix[:, None] * around).sum(axis=0)
    vectors[:support, 0] = 1.0
    vectors[support:, 0] = 1.2 + _uniforms(seed, arms - support, 4)
    return Instance(_normalised_gram(vectors.T.copy()), _normals(seed, (1, arms), 1)[0])


@kernel
def _gram(b: Floats) -> Floats:
    """Return BᵀB in a fixed order of operations."""
    columns = b.T.copy()
    n = columns.shape[0]
    gram = np.empty((n, n))
    for i in range(n):
        for j in range(i + 1):
            gram[i, j] = gram[j, i] = ordered_dot(columns[i], columns[j])
    return gram


@kernel
def _largest_square(factors: Floats) -> float:
    """Return the largest entry of FFᵀ, which is on its diagonal."""
    largest = 0.0
    for i in range(factors.shape[0]):
        largest = max(largest, ordered_dot(factors[i], factors[i]))
    return largest


def _normalised_gram(b: Floats) -> DenseInteraction:
    gram = _gram(b)
    return DenseInteraction(gram / np.abs(gram).max())


@kernel
def _fill_normals(out: Floats, seed: Key, number: int) -> None:
    first_key, second_key = stream_keys(seed, number, INSTANCE)
    for row in range(out.shape[0]):
        stream = stream_at(first_key, second_key, row)
        for column in range(out.shape[1]):
            out[row, column] = normal(stream, column)


@kernel
def _fill_uniforms(out: Floats, seed: Key, number: int) -> None:
    first_key, second_key = stream_keys(seed, number, INSTANCE)
    for i in range(out.size):
        out[i] = uniform(stream_at(first_key, second_key, i), 0)


def _normals(seed: int, shape: tuple[int, int], number: int) -> Floats:
    out = np.empty(shape)
    _fill_normals(out, np.uint64(seed), number)
    return out


def _uniforms(seed: int, size: int, number: int) -> Floats:
    out = np.empty(size)
    _fill_uniforms(out, np.uint64(seed), number)
    return out


def _require_dense(arms: int) -> None:
    if arms > DENSE_ARMS:
        raise InvalidInput(
            f"a dense matrix of {arms:,} arms is too large; see random_instance(rank=…)"
        )
