"""The paper's instances and the random families.

Statistical tests use fixed seeds; each would fail for a right generator with probability 1e-6.
"""

import hashlib
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
GOLDEN = {  # digests of all numbers, in hexadecimal
    "random_instance(3, 0)": "6bc68646ea1f1e0b51099b23250ea26d",
    "random_instance(2, 2**64 - 1)": "dd8b035f0c5eb8a46355ad226698c4e2",
    "random_instance(3, 1, rank=1)": "5cc643b3400f38b3e1fd0412f18463b0",
    "instance_with_support(3, 2, 5)": "daaa9df546922c1c7d6026f5cd4baae4",
    "block_instance(3, 2, 5)": "6fdab80d43d9d0bb268de03a63bf165a",
    "recovery_instance(3, 5)": "02d8abaa35296ca00f0bcae56eac04af",
    "indefinite_instance(2, 2**64 - 1)": "35ae38bf0d3e1ca98e93b28a3351911c",
}


@pytest.mark.parametrize("call", GOLDEN)
def test_instances_never_change(call):
    instance = eval(f"ib.{call}")
    numbers = [*instance.interaction.values.ravel().tolist(), *instance.initial_loss.tolist()]
    text = " ".join(number.hex() for number in numbers)
    assert hashlib.sha256(text.encode()).hexdigest()[:32] == GOLDEN[call]


def test_a_hundred_thousand_random_arms_are_fine():
    instance = ib.random_instance(n_arms=100_000, seed=0, rank=16)
    assert instance.interaction.values.shape == (100_000, 16)
    assert instance.interaction.max_abs == pytest.approx(1.0, abs=20 * EPSILON)


@pytest.mark.parametrize(
    ("arguments", "mentions"),
    [
        ({"n_arms": 0, "seed": 0}, ("arms", "at least 1", "0")),
        ({"n_arms": 3, "seed": -1}, ("seed", "-1")),
        ({"n_arms": 3, "seed": 2**64}, ("seed", str(2**64))),
        ({"n_arms": 3, "seed": 0, "rank": 0}, ("rank", "at least 1", "0")),
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
