"""The paper's instances, and random families of them.

Random instances come from the package's own streams, not from NumPy's generators, whose normal
numbers may change between versions: a seed names the same instance for good.
"""

from __future__ import annotations

import itertools
import math

import numpy as np

from influential_bandits.checks import real_number, whole_number
from influential_bandits.errors import InvalidInput
from influential_bandits.numerics.arrays import Floats
from influential_bandits.numerics.compiling import kernel, lazy_kernel
from influential_bandits.numerics.streams import (
    INSTANCE,
    Key,
    normal,
    stream_at,
    stream_keys,
    uniform,
)
from influential_bandits.world.dynamics import ordered_dot
from influential_bandits.world.instance import Instance
from influential_bandits.world.interaction import DenseInteraction, LowRankInteraction

DENSE_ARMS = 20_000  # a dense matrix of that size takes 3 GB
FIRST_ATTEMPT = 1000  # streams from here on are drawn until a matrix is indefinite
CLEARLY = 1e-3  # eigenvalues beyond that have their sign for sure


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


def random_instance(n_arms: int, seed: int, rank: int | None = None) -> Instance:
    """Return a random instance as in Sec. 4.1: A = BᵀB / max|BᵀB|, entries of B and l1 ~ N(0, 1).

    Parameters
    ----------
    n_arms : int
        K ≥ 1.
    seed : int
        Names the instance, for good.
    rank : int, optional
        B has this many rows instead of K, and A = FFᵀ is kept in factors: many arms are fine.

    Examples
    --------
    >>> random_instance(n_arms=3, seed=0)
    Instance(3 arms, dense interaction, max|A| = 1)
    >>> random_instance(n_arms=100_000, seed=0, rank=16)
    Instance(100000 arms, low-rank interaction (rank 16), max|A| = 1)
    """
    if rank is None:
        n_arms, seed = _check_dense(n_arms, seed)
        b = _normals(seed, (n_arms, n_arms), 0)
        return Instance(_normalised_gram(b), _normals(seed, (1, n_arms), 1)[0])
    n_arms = whole_number("n_arms", n_arms, 1)
    seed = whole_number("seed", seed, 0)
    rank = whole_number("rank", rank, 1)
    factors = _normals(seed, (n_arms, rank), 0)
    interaction = LowRankInteraction(factors / np.sqrt(_largest_square(factors)))
    return Instance(interaction, _normals(seed, (1, n_arms), 1)[0])


def instance_with_support(n_arms: int, support: int, seed: int) -> Instance:
    """Return a random instance whose best mix p* uses exactly the first ``support`` arms.

    p* is the point of the simplex that minimises ½·pᵀAp; its support decides whether regret can
    stay small (:func:`difficulty`). A is the Gram matrix of vectors vᵢ, and Σ p*ᵢ·vᵢ is the point
    of their convex hull nearest to the origin. The first ``support`` vectors are placed around a
    point at height 1, the others higher. The largest entry of A is 1, and l1 ~ N(0, 1).

    Examples
    --------
    >>> instance_with_support(n_arms=5, support=2, seed=0)
    Instance(5 arms, dense interaction, max|A| = 1)
    """
    n_arms, seed = _check_dense(n_arms, seed)
    support = whole_number("support", support, 1)
    if support > n_arms:
        raise InvalidInput(f"support must be at most n_arms = {n_arms}, got {support}")
    vectors = _normals(seed, (n_arms, n_arms), 2)
    mix = 0.2 + _uniforms(seed, support, 3)
    mix /= math.fsum(mix)
    around = vectors[:support, 1:]
    around -= (mix[:, None] * around).sum(axis=0)
    vectors[:support, 0] = 1.0
    vectors[support:, 0] = 1.2 + _uniforms(seed, n_arms - support, 4)
    return Instance(_normalised_gram(vectors.T.copy()), _normals(seed, (1, n_arms), 1)[0])


def block_instance(n_arms: int, blocks: int, seed: int, within: float = 0.8) -> Instance:
    """Return a random instance whose arms come in blocks that tire together, as genres may.

    Arm i has a strength sᵢ in (½, 1) and its block a random direction u on the unit sphere of as
    many dimensions as there are blocks: A_ij = sᵢ·sⱼ·(within·uᵢ·uⱼ + (1 − within)·[i = j]), divided
    by its largest entry. Arms of one block fatigue each other; two blocks fatigue each other or let
    each other recover, by the angle of their directions. Arms are dealt to blocks in turn; l1 ~
    N(0, 1).

    Parameters
    ----------
    n_arms, blocks : int
        1 ≤ blocks ≤ n_arms.
    seed : int
        Names the instance, for good.
    within : float in [0, 1]
        How much of its fatigue an arm shares with its block.

    Examples
    --------
    >>> instance = block_instance(n_arms=6, blocks=2, seed=0)
    >>> bool(instance.interaction.to_dense()[0, 2] > 0)  # arms 0, 2 and 4 are a block
    True
    """
    n_arms, seed = _check_dense(n_arms, seed)
    blocks = whole_number("blocks", blocks, 1)
    if blocks > n_arms:
        raise InvalidInput(f"blocks must be at most n_arms = {n_arms}, got {blocks}")
    within = real_number("within", within, 0.0, 1.0)
    strengths = 0.5 + 0.5 * _uniforms(seed, n_arms, 5)
    directions = _normals(seed, (blocks, blocks), 6)
    vectors = np.zeros((n_arms, blocks + n_arms))
    for arm in range(n_arms):
        shared = directions[arm % blocks]
        shared = shared / np.sqrt(ordered_dot(shared, shared))
        vectors[arm, :blocks] = strengths[arm] * math.sqrt(within) * shared
        vectors[arm, blocks + arm] = strengths[arm] * math.sqrt(1.0 - within)
    return Instance(_normalised_gram(vectors.T.copy()), _normals(seed, (1, n_arms), 1)[0])


def recovery_instance(n_arms: int, seed: int) -> Instance:
    """Return a random instance where a pull tires its own arm and lets all others recover.

    Off its diagonal A is −w with independent w ~ U(0, 1); on it, A_ii = Σ w + U(0, 1), so that A is
    positive definite; then A is divided by its largest entry. The inverse of such a matrix has no
    negative entry, so the best mix uses every arm: all of these are easy (:func:`difficulty`).

    Examples
    --------
    >>> matrix = recovery_instance(n_arms=3, seed=0).interaction.to_dense()
    >>> (matrix > 0).tolist()
    [[True, False, False], [False, True, False], [False, False, True]]
    """
    n_arms, seed = _check_dense(n_arms, seed)
    weights = np.zeros((n_arms, n_arms))
    below = np.tril_indices(n_arms, -1)
    weights[below] = _uniforms(seed, len(below[0]), 7)
    weights += weights.T
    own = _uniforms(seed, n_arms, 8)
    matrix = np.diag([math.fsum([*row, more]) for row, more in zip(weights, own, strict=True)])
    matrix -= weights
    interaction = DenseInteraction(matrix / np.abs(matrix).max())
    return Instance(interaction, _normals(seed, (1, n_arms), 1)[0])


def indefinite_instance(n_arms: int, seed: int) -> Instance:
    """Return a random instance with an indefinite interaction (Sec. 5.1): some mixes reinforce.

    A = (M + Mᵀ) / max|M + Mᵀ| with entries of M ~ N(0, 1), drawn again until A has eigenvalues of
    both signs; l1 ~ N(0, 1). The loss may fall without bound, like −T².

    Parameters
    ----------
    n_arms : int
        K ≥ 2; certified optima need at most 15.
    seed : int
        Names the instance, for good.

    Examples
    --------
    >>> indefinite_instance(n_arms=3, seed=0)
    Instance(3 arms, dense interaction, max|A| = 1, indefinite)
    """
    n_arms, seed = _check_dense(n_arms, seed, least=2)
    loss = _normals(seed, (1, n_arms), 1)[0]
    for attempt in itertools.count(FIRST_ATTEMPT):
        half = _normals(seed, (n_arms, n_arms), attempt)
        matrix = half + half.T
        matrix /= np.abs(matrix).max()
        eigenvalues = np.linalg.eigvalsh(matrix)
        if eigenvalues[0] < -CLEARLY < CLEARLY < eigenvalues[-1]:
            break
    return Instance(matrix, loss, definite=False)


@lazy_kernel
def _gram(b: Floats) -> Floats:
    """Return BᵀB in a fixed order of operations."""
    columns = b.T.copy()
    n = columns.shape[0]
    gram = np.empty((n, n))
    for i in range(n):
        for j in range(i + 1):
            gram[i, j] = gram[j, i] = ordered_dot(columns[i], columns[j])
    return gram


@lazy_kernel
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


def _check_dense(n_arms: int, seed: int, least: int = 1) -> tuple[int, int]:
    """Return the number of arms of a dense matrix and the seed, or say what is wrong with them."""
    n_arms = whole_number("n_arms", n_arms, least)
    if n_arms > DENSE_ARMS:
        raise InvalidInput(
            f"a dense matrix of {n_arms:,} arms is too large; see random_instance(rank=…)"
        )
    return n_arms, whole_number("seed", seed, 0)
