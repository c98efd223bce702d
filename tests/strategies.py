"""Shared hypothesis strategies: small worlds of every kind, what is played in them, for how long.

Matrices are drawn as A = FFᵀ. In an exact family the entries of F are eighths, so that A and all
its products with counts below 2³⁰ are exact in double precision; in the other families they are
arbitrary doubles, and results are right up to rounding.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse
from hypothesis import strategies as st

import influential_bandits as ib

Floats = npt.NDArray[np.float64]

MAX_ARMS = 8
KINDS = ("dense", "low-rank", "sparse")
FAMILIES = ("generic", "singular", "tied", "few entries", "zero", "eighths", "singular eighths")


@st.composite
def factors(draw, families=FAMILIES, max_arms=MAX_ARMS):
    """F (arms, rank) of a positive semi-definite A = FFᵀ, in many degrees of degeneracy.

    generic: full rank; singular: rank below arms; tied: some arms have the same row; few entries:
    most of F is zero; zero: all of it; (singular) eighths: entries k/8, |k| ≤ 16.
    """
    family = draw(st.sampled_from(families))
    arms = draw(st.integers(1, max_arms))
    rank = draw(st.integers(1, arms)) if "singular" in family else arms
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    if family == "zero":
        return np.zeros((arms, 1))
    if "eighths" in family:
        return random.integers(-16, 17, (arms, rank)) / 8.0
    matrix = random.normal(size=(arms, rank))
    if family == "tied":
        matrix = matrix[random.integers(0, arms, arms)]
    if family == "few entries":
        matrix *= random.random((arms, rank)) < 0.3
    return matrix


def initial_losses(arms):
    """l1 (arms,): arbitrary doubles of moderate size, or few different ones, so that arms tie."""
    spread = st.floats(-10, 10, allow_subnormal=False)
    tied = st.sampled_from([-1.0, 0.0, 0.5, 1.0])
    return st.one_of(
        st.lists(spread, min_size=arms, max_size=arms),
        st.lists(tied, min_size=arms, max_size=arms),
    ).map(np.array)


def memories():
    """γ in (0, 1], the paper's 1 among them."""
    return st.one_of(
        st.just(1.0),
        st.sampled_from([0.5, 0.9, 0.999, 1e-3]),
        st.floats(0.01, 1.0, exclude_max=True),
    )


def fading_memories():
    """γ in (0, 1)."""
    return memories().filter(lambda memory: memory < 1.0)


def interaction(matrix_factors, kind):
    """A = FFᵀ for a given F (arms, rank) as an interaction of a kind."""
    if kind == "low-rank":
        return ib.LowRankInteraction(matrix_factors)
    gram = matrix_factors @ matrix_factors.T
    gram = (gram + gram.T) / 2  # BLAS promises no symmetric bits, and sparse matrices need them
    if kind == "sparse":
        return ib.SparseInteraction(scipy.sparse.csr_array(gram))
    return ib.DenseInteraction(gram)


@st.composite
def instances(draw, kinds=KINDS, families=FAMILIES, memory=None, max_arms=MAX_ARMS):
    """Random instances; memory = 1 unless a strategy for it is given."""
    matrix_factors = draw(factors(families, max_arms))
    kind = draw(st.sampled_from(kinds))
    loss = draw(initial_losses(len(matrix_factors)))
    gamma = 1.0 if memory is None else draw(memory)
    return ib.Instance(interaction(matrix_factors, kind), loss, memory=gamma)


class Alike(NamedTuple):
    """The same world in all representations."""

    dense: ib.Instance
    low_rank: ib.Instance
    sparse: ib.Instance


@st.composite
def alike_instances(draw, families=FAMILIES, memory=None):
    """The same A, l1 and γ as dense, low-rank and sparse instances."""
    matrix_factors = draw(factors(families))
    loss = draw(initial_losses(len(matrix_factors)))
    gamma = 1.0 if memory is None else draw(memory)
    return Alike(
        *(ib.Instance(interaction(matrix_factors, kind), loss, memory=gamma) for kind in KINDS)
    )


@st.composite
def symmetric_matrices(draw, max_arms=MAX_ARMS):
    """Symmetric matrices of arbitrary doubles, subnormal and large ones too; mostly indefinite."""
    arms = draw(st.integers(1, max_arms))
    entry = st.floats(-1e100, 1e100)
    entries = draw(st.lists(entry, min_size=arms**2, max_size=arms**2))
    lower = np.tril(np.array(entries).reshape(arms, arms))
    return lower + np.tril(lower, -1).T


def whole_counts(arms, largest=10**6):
    """How often each arm was pulled, (arms,); often zero."""
    count = st.one_of(st.integers(0, 3), st.integers(0, largest))
    return st.lists(count, min_size=arms, max_size=arms)


def pulls(arms, most=30):
    """A sequence of arms to pull, at least one."""
    return st.lists(st.integers(0, arms - 1), min_size=1, max_size=most)
