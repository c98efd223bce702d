"""The paper's instances and the random families.

Statistical tests use fixed seeds; each would fail for a right generator with probability 1e-6.
"""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import influential_bandits as ib
from influential_bandits.errors import InvalidInput
from influential_bandits.numerics.streams import INSTANCE, Stream, normal, stream_at, stream_keys

ERROR_RATE = 1e-6
EPSILON = np.finfo(float).eps
seeds = st.one_of(st.integers(0, 100), st.integers(0, 2**64 - 1))


# The paper's instances


def test_the_counterexample_is_that_of_proposition_2_2():
    instance = ib.counterexample()
    assert instance.interaction.to_dense().tolist() == [[1.0, 1.0], [1.0, 2.0]]
    assert instance.initial_loss.tolist() == [1.0, 1.0]
    assert instance.memory == 1.0


@pytest.mark.parametrize("first_arm", [0, 1])
def test_the_linear_lower_bound_and_its_mirror_have_no_linear_term(first_arm):
    instance = ib.linear_lower_bound(first_arm)
    assert instance.linear_term.tolist() == [0.0, 0.0]
    assert instance.interaction.to_dense()[first_arm, first_arm] == 1.0
    assert instance.interaction.to_dense()[1 - first_arm, 1 - first_arm] == 0.25
    assert instance.interaction.to_dense()[0, 1] == 0.5
    assert ib.linear_lower_bound().interaction == ib.linear_lower_bound(0).interaction


@pytest.mark.parametrize("bad", [2, -1, 0.5, "0", None])
def test_the_linear_lower_bound_has_two_arms_only(bad, refused):
    with refused(InvalidInput, "first_arm", "0 or 1", repr(bad)):
        ib.linear_lower_bound(bad)


# Random instances


def drawn(seed, number, rows, columns):
    """The normal numbers of one part of an instance, one by one."""
    first, second = stream_keys(np.uint64(seed), np.uint64(number), INSTANCE)
    streams = (
        Stream(*map(np.uint64, stream_at(np.uint64(first), np.uint64(second), row)))
        for row in range(rows)
    )
    return np.array([[normal(stream, column) for column in range(columns)] for stream in streams])


@given(st.integers(1, 8), seeds)
def test_a_random_instance_is_made_as_in_section_4_1(arms, seed):
    instance = ib.random_instance(arms, seed)
    b = drawn(seed, 0, arms, arms)
    gram = b.T @ b
    size = np.abs(b).T @ np.abs(b) / np.abs(gram).max()
    # Two sums of K products in different orders, and two quotients.
    error = np.abs(instance.interaction.to_dense() - gram / np.abs(gram).max())
    assert (error <= 2 * (arms + 1) * EPSILON * size.max()).all()
    assert np.array_equal(instance.initial_loss, drawn(seed, 1, 1, arms)[0])


@given(st.integers(1, 30), seeds)
@example(1, 0)
def test_the_largest_entry_of_a_random_instance_is_one(arms, seed):
    matrix = ib.random_instance(arms, seed).interaction.to_dense()
    assert np.abs(matrix).max() == 1.0
    assert np.array_equal(matrix, matrix.T)


@given(st.integers(1, 12), st.integers(1, 4), seeds)
def test_a_random_instance_of_given_rank_has_it(arms, rank, seed):
    instance = ib.random_instance(arms, seed, rank=rank)
    factors = instance.interaction.values
    assert instance.interaction.name == "low-rank"
    assert factors.shape == (arms, rank)
    assert np.linalg.matrix_rank(factors) == min(arms, rank)
    # Rounding in a root, a quotient and a sum of squares.
    assert instance.interaction.max_abs == pytest.approx(1.0, abs=(rank + 4) * EPSILON)
    f = drawn(seed, 0, arms, rank)
    # The same numbers up to one factor: a quotient and a product each.
    assert factors * np.abs(f).max() == pytest.approx(f * np.abs(factors).max(), rel=4 * EPSILON)


def test_a_seed_names_an_instance():
    assert ib.random_instance(3, 7) == ib.random_instance(n_arms=3.0, seed=np.int64(7))
    different = {ib.random_instance(3, seed) for seed in (*range(20), 2**63, 2**64 - 1)}
    assert len(different) == 22
    assert ib.random_instance(3, 7, rank=2) == ib.random_instance(3, 7, rank=2)


# Never change these: a seed names the same instance in every version.
GOLDEN = {
    "random_instance(3, 0)": (
        [
            "0x1.0d41d583ae458p-4",
            "-0x1.4fb3faebace8ap-4",
            "-0x1.3ed580a9e6974p-5",
            "-0x1.4fb3faebace8ap-4",
            "0x1.2278a0f3a5fa4p-1",
            "0x1.62c4654caf3b6p-1",
            "-0x1.3ed580a9e6974p-5",
            "0x1.62c4654caf3b6p-1",
            "0x1.0000000000000p+0",
        ],
        ["-0x1.0a24c82fd0749p+0", "-0x1.bc70bc6b9f558p-1", "0x1.98ce3656694c3p+0"],
    ),
    "random_instance(2, 2**64 - 1)": (
        [
            "0x1.bdaa60d51a19bp-3",
            "0x1.d93c9beb5827fp-2",
            "0x1.d93c9beb5827fp-2",
            "0x1.0000000000000p+0",
        ],
        ["-0x1.9f7e5da29bcc4p-1", "0x1.32409d1d0eea6p+0"],
    ),
    "random_instance(3, 1, rank=1)": (
        ["0x1.9995e88d3e71bp-3", "0x1.d2ad12fe8ffb0p-2", "0x1.0000000000000p+0"],
        ["0x1.5c191fa40f938p-1", "-0x1.e3649caf29200p-4", "0x1.377b5aa9fb871p-1"],
    ),
    "instance_with_support(3, 2, 5)": (
        [
            "0x1.5e75f98671d8ap-1",
            "0x1.c9a24dd0206f3p-8",
            "0x1.9dc7f070ed610p-3",
            "0x1.c9a24dd0206f3p-8",
            "0x1.8bfedfde0e024p-2",
            "0x1.299a892bc764bp-1",
            "0x1.9dc7f070ed610p-3",
            "0x1.299a892bc764bp-1",
            "0x1.0000000000000p+0",
        ],
        ["-0x1.8dacd9482a475p-2", "-0x1.fe2c8f2b3a71fp-1", "-0x1.ee0dd5af4e542p-1"],
    ),
    "block_instance(3, 2, 5)": (
        [
            "0x1.1ae44c5e78c1bp-1",
            "0x1.889f0c4bf6cb2p-2",
            "0x1.3076a38655d77p-1",
            "0x1.889f0c4bf6cb2p-2",
            "0x1.5a6c1d981b7bcp-1",
            "0x1.0819a37858ac9p-1",
            "0x1.3076a38655d77p-1",
            "0x1.0819a37858ac9p-1",
            "0x1.0000000000000p+0",
        ],
        ["-0x1.8dacd9482a475p-2", "-0x1.fe2c8f2b3a71fp-1", "-0x1.ee0dd5af4e542p-1"],
    ),
    "recovery_instance(3, 5)": (
        [
            "0x1.d3bbd9c3bc6b3p-2",
            "-0x1.6f3a3328c0529p-3",
            "-0x1.5185923ac7b3ep-3",
            "-0x1.6f3a3328c0529p-3",
            "0x1.0000000000000p+0",
            "-0x1.9ec5cc87e43a5p-8",
            "-0x1.5185923ac7b3ep-3",
            "-0x1.9ec5cc87e43a5p-8",
            "0x1.104a6f3374795p-1",
        ],
        ["-0x1.8dacd9482a475p-2", "-0x1.fe2c8f2b3a71fp-1", "-0x1.ee0dd5af4e542p-1"],
    ),
    "indefinite_instance(2, 2**64 - 1)": (
        [
            "-0x1.e87137bc78c14p-3",
            "0x1.0000000000000p+0",
            "0x1.0000000000000p+0",
            "0x1.0114f636131ecp-4",
        ],
        ["-0x1.9f7e5da29bcc4p-1", "0x1.32409d1d0eea6p+0"],
    ),
}


@pytest.mark.parametrize("call", GOLDEN)
def test_instances_never_change(call):
    matrix, loss = GOLDEN[call]
    instance = eval(f"ib.{call}")
    assert [x.hex() for x in instance.interaction.values.ravel().tolist()] == matrix
    assert [x.hex() for x in instance.initial_loss.tolist()] == loss


def test_a_hundred_thousand_random_arms_are_fine():
    instance = ib.random_instance(n_arms=100_000, seed=0, rank=16)
    assert instance.interaction.values.shape == (100_000, 16)
    assert instance.interaction.max_abs == pytest.approx(1.0, abs=20 * EPSILON)


@pytest.mark.parametrize(
    ("arguments", "mentions"),
    [
        ({"n_arms": 0, "seed": 0}, ("arms", "at least 1", "0")),
        ({"n_arms": -3, "seed": 0}, ("arms", "-3")),
        ({"n_arms": 2.5, "seed": 0}, ("arms", "whole", "2.5")),
        ({"n_arms": "3", "seed": 0}, ("arms", "'3'")),
        ({"n_arms": 3, "seed": -1}, ("seed", "-1")),
        ({"n_arms": 3, "seed": 2**64}, ("seed", str(2**64))),
        ({"n_arms": 3, "seed": None}, ("seed", "None")),
        ({"n_arms": 3, "seed": 0, "rank": 0}, ("rank", "at least 1", "0")),
        ({"n_arms": 3, "seed": 0, "rank": 1.5}, ("rank", "whole", "1.5")),
        ({"n_arms": 100_000, "seed": 0}, ("100,000", "rank=")),
    ],
    ids=str,
)
def test_arguments_of_a_random_instance_that_make_no_sense_are_refused(
    arguments, mentions, refused
):
    with refused(InvalidInput, *mentions):
        ib.random_instance(**arguments)


# Prescribed support


def solved(matrix, right):
    """Solve a system of rational numbers and demand that its matrix is positive definite.

    Without exchanging rows, all pivots are positive for positive definite matrices only.
    """
    n = len(matrix)
    rows = [[*matrix[i], right[i]] for i in range(n)]
    for column in range(n):
        pivot = rows[column][column]
        assert pivot > 0
        rows[column] = [x / pivot for x in rows[column]]
        for r in range(n):
            if r != column:
                factor = rows[r][column]
                rows[r] = [x - factor * y for x, y in zip(rows[r], rows[column], strict=True)]
    return [row[n] for row in rows]


@st.composite
def supports(draw):
    arms = draw(st.integers(1, 12))
    return arms, draw(st.integers(1, arms))


@given(supports(), seeds)
@settings(max_examples=40)
@example((1, 1), 0)
@example((12, 12), 0)
@example((12, 1), 0)
def test_the_best_mix_uses_exactly_the_prescribed_arms(sizes, seed):
    arms, support = sizes
    matrix = ib.instance_with_support(arms, support, seed).interaction.to_dense()
    exact = [[Fraction(x) for x in row] for row in matrix.tolist()]
    block = [row[:support] for row in exact[:support]]
    # The optimality conditions of min ½·pᵀAp on the simplex, without any rounding: one slope λ on
    # the support, a larger one elsewhere. A block that is positive definite makes p unique.
    scaled = solved(block, [Fraction(1)] * support)
    assert min(scaled) > 0
    mix = [x / sum(scaled) for x in scaled]
    slope = 1 / sum(scaled)
    assert slope > 0
    for i in range(support, arms):
        assert sum(exact[i][j] * mix[j] for j in range(support)) > slope


@given(supports(), seeds)
def test_an_instance_with_support_is_scaled_like_the_others(sizes, seed):
    instance = ib.instance_with_support(*sizes, seed)
    assert instance.n_arms == sizes[0]
    assert instance.interaction.max_abs == 1.0
    assert instance.definite
    assert np.array_equal(instance.initial_loss, drawn(seed, 1, 1, sizes[0])[0])
    assert instance == ib.instance_with_support(*sizes, seed)


@pytest.mark.parametrize(
    ("arguments", "mentions"),
    [
        ({"n_arms": 3, "support": 4, "seed": 0}, ("support", "3", "4")),
        ({"n_arms": 3, "support": 0, "seed": 0}, ("support", "at least 1", "0")),
        ({"n_arms": 3, "support": 1.5, "seed": 0}, ("support", "whole", "1.5")),
        ({"n_arms": 0, "support": 1, "seed": 0}, ("arms", "at least 1", "0")),
        ({"n_arms": 3, "support": 1, "seed": -1}, ("seed", "-1")),
        ({"n_arms": 100_000, "support": 1, "seed": 0}, ("100,000",)),
    ],
    ids=str,
)
def test_a_support_that_makes_no_sense_is_refused(arguments, mentions, refused):
    with refused(InvalidInput, *mentions):
        ib.instance_with_support(**arguments)


# Blocks, recovery and indefinite interactions


@given(st.integers(1, 12), st.data(), seeds)
def test_blocks_share_their_fatigue(arms, data, seed):
    blocks = data.draw(st.integers(1, arms))
    instance = ib.block_instance(arms, blocks, seed, within=0.6)
    a = instance.interaction.to_dense()
    assert np.abs(a).max() == 1.0
    assert instance.definite
    strength = np.sqrt(np.diag(a))
    correlation = a / np.outer(strength, strength)
    block = np.arange(arms) % blocks
    same = (block[:, None] == block) & ~np.eye(arms, dtype=bool)
    np.testing.assert_allclose(correlation[same], 0.6, atol=1e-9)
    assert (np.abs(correlation[~same & ~np.eye(arms, dtype=bool)]) <= 0.6 + 1e-9).all()
    assert strength.min() >= 0.5 - 1e-9
    assert instance == ib.block_instance(arms, blocks, seed, within=0.6)


def test_blocks_may_share_nothing_or_all():
    alone = ib.block_instance(6, 2, 0, within=0.0).interaction.to_dense()
    assert np.count_nonzero(alone) == 6
    assert np.linalg.matrix_rank(ib.block_instance(6, 2, 0, within=1.0).interaction.to_dense()) == 2


@given(st.integers(1, 12), seeds)
def test_where_others_recover_every_instance_is_easy(arms, seed):
    instance = ib.recovery_instance(arms, seed)
    a = instance.interaction.to_dense()
    off = a[~np.eye(arms, dtype=bool)]
    assert (off <= 0).all()
    assert (np.diag(a) > 0).all()
    assert np.abs(a).max() == 1.0
    assert ib.difficulty(instance).verdict == "easy"


@given(st.integers(2, 10), seeds)
def test_indefinite_interactions_have_eigenvalues_of_both_signs(arms, seed):
    instance = ib.indefinite_instance(arms, seed)
    a = instance.interaction.to_dense()
    values = np.linalg.eigvalsh(a)
    assert values[0] < -1e-4 < 1e-4 < values[-1]
    assert np.abs(a).max() == 1.0
    assert not instance.definite


def test_the_new_families_share_the_initial_losses_of_their_seed():
    paper = ib.random_instance(4, 9).initial_loss.tolist()
    for other in (
        ib.block_instance(4, 2, 9),
        ib.recovery_instance(4, 9),
        ib.indefinite_instance(4, 9),
    ):
        assert other.initial_loss.tolist() == paper


@pytest.mark.parametrize(
    ("call", "mentions"),
    [
        (lambda: ib.block_instance(3, 4, 0), "blocks must be at most n_arms = 3"),
        (lambda: ib.block_instance(3, 0, 0), "blocks"),
        (lambda: ib.block_instance(3, 2, 0, within=1.5), "within"),
        (lambda: ib.block_instance(3, 2, 0, within="much"), "within"),
        (lambda: ib.recovery_instance(0, 0), "arms"),
        (lambda: ib.recovery_instance(3, -1), "seed"),
        (lambda: ib.recovery_instance(10**6, 0), "too large"),
        (lambda: ib.indefinite_instance(1, 0), "arms must be at least 2"),
    ],
)
def test_families_that_make_no_sense_are_refused(call, mentions, refused):
    with refused(InvalidInput, mentions):
        call()
