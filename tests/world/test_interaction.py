"""Interactions: what is accepted, and the same matrix in three representations."""

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from strategies import KINDS, factors, interaction

import influential_bandits as ib
from influential_bandits.errors import InvalidInstance
from influential_bandits.world.interaction import as_interaction, interaction_from_json

EPSILON = np.finfo(float).eps
EXACT_FAMILIES = ("eighths", "singular eighths", "zero")

given_factors = given(factors())
given_exact_factors = given(factors(EXACT_FAMILIES))
given_kind_and_factors = given(st.sampled_from(KINDS), factors())


def csr(matrix):
    return scipy.sparse.csr_array(np.array(matrix, float))


# Refusals


@pytest.mark.parametrize("make", [ib.DenseInteraction, ib.SparseInteraction])
@pytest.mark.parametrize(
    ("matrix", "mention"),
    [
        (np.zeros((2, 3)), "(2, 3)"),
        (np.zeros(3), "(3,)"),
        (np.float64(1.0), "()"),
        (np.zeros((2, 2, 2)), "(2, 2, 2)"),
    ],
    ids=["oblong", "vector", "number", "cube"],
)
def test_a_matrix_that_is_not_square_is_refused(make, matrix, mention, refused):
    with refused(InvalidInstance, "interaction", mention):
        make(matrix)


@pytest.mark.parametrize(
    "make",
    [
        lambda: ib.DenseInteraction(np.zeros((0, 0))),
        lambda: ib.SparseInteraction(np.zeros((0, 0))),
        lambda: ib.SparseInteraction(scipy.sparse.csr_array((0, 0))),
        lambda: ib.LowRankInteraction(np.zeros((0, 2))),
    ],
    ids=["dense", "sparse from dense", "sparse", "low-rank"],
)
def test_no_arms_are_refused_for_being_none(make, refused):
    with refused(InvalidInstance, "arms", "at least 1"):
        make()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(
    "make",
    [ib.DenseInteraction, ib.SparseInteraction, lambda m: ib.SparseInteraction(csr(m))],
    ids=["dense", "sparse from dense", "sparse"],
)
def test_entries_that_are_not_finite_are_refused(make, bad, refused):
    with refused(InvalidInstance, "interaction", "finite"):
        make([[1.0, bad], [bad, 1.0]])


def test_the_entry_that_is_not_finite_is_named(refused):
    with refused(InvalidInstance, "(1, 0)", "nan"):
        ib.DenseInteraction([[1.0, 0.0], [np.nan, 1.0]])
    with refused(InvalidInstance, "factors", "(1, 0)", "inf"):
        ib.LowRankInteraction([[1.0], [np.inf]])


@pytest.mark.parametrize("given", ["abc", [["a", "b"], ["c", "d"]], [[1.0, 2.0], [3.0]], object()])
@pytest.mark.parametrize("make", [ib.DenseInteraction, ib.SparseInteraction, ib.LowRankInteraction])
def test_what_is_no_array_of_numbers_is_refused(make, given, refused):
    with refused(InvalidInstance, "array of numbers"):
        make(given)


@pytest.mark.parametrize("make", [ib.DenseInteraction, ib.LowRankInteraction, ib.SparseInteraction])
def test_complex_numbers_are_refused(make, refused):
    with refused(InvalidInstance, "numbers"):
        make(np.array([[1.0 + 1.0j]]))


def test_asymmetry_is_refused_and_located(refused):
    with refused(InvalidInstance, "symmetric", "A[0,1]", "A[1,0]", "0.3"):
        ib.DenseInteraction([[1.0, 0.5], [0.2, 1.0]])
    with refused(InvalidInstance, "symmetric", "0.3"):
        ib.SparseInteraction(csr([[1.0, 0.5], [0.2, 1.0]]))
    with refused(InvalidInstance, "symmetric"):
        ib.SparseInteraction(csr([[1.0, 0.5], [0.0, 1.0]]))


def test_factors_must_be_a_matrix(refused):
    with refused(InvalidInstance, "(arms, rank)", "(3,)"):
        ib.LowRankInteraction([1.0, 2.0, 3.0])
    with refused(InvalidInstance, "rank", "(3, 0)"):
        ib.LowRankInteraction(np.zeros((3, 0)))


def test_a_sparse_vector_is_refused(refused):
    with refused(InvalidInstance, "matrix", "(2,)"):
        ib.SparseInteraction(scipy.sparse.coo_array(np.array([1.0, 2.0])))


def test_many_sparse_arms_must_be_vouched_for(refused):
    many = ib.SparseInteraction.CHECKED_ARMS + 1
    with refused(InvalidInstance, f"{many:,}", "vouched=True"):
        ib.SparseInteraction(scipy.sparse.eye_array(many))
    vouched = ib.SparseInteraction(scipy.sparse.eye_array(many), vouched=True)
    assert vouched.definite
    assert vouched.vouched


# Tolerances


def test_asymmetry_of_rounding_size_is_averaged_away():
    a, b = 0.1, 0.1 + 8 * EPSILON
    # The stated tolerance is 4·K·ε·max|A| = 8·ε here.
    accepted = ib.DenseInteraction([[1.0, a], [b, 1.0]])
    assert accepted.values[0, 1] == accepted.values[1, 0] == (a + b) / 2
    with pytest.raises(InvalidInstance, match="symmetric"):
        ib.DenseInteraction([[1.0, 0.1], [0.1 + 17 * EPSILON, 1.0]])


@pytest.mark.parametrize("arms", [2, 3, 10, 50])
@pytest.mark.parametrize("seed", range(5))
def test_a_rounded_gram_matrix_of_deficient_rank_counts_as_semi_definite(arms, seed):
    random = np.random.default_rng(seed)
    for rows in {1, arms - 1, arms // 2 + 1}:
        b = random.normal(size=(rows, arms))
        assert ib.DenseInteraction(b.T @ b).definite
    twins = random.normal(size=(1000, arms)) * 1e3
    twins[:, 0] = twins[:, -1]
    assert ib.DenseInteraction(twins.T @ twins).definite


@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e99])
def test_a_clearly_negative_eigenvalue_is_indefinite_at_every_scale(scale):
    # Eigenvalues 2 and −1e-6, far beyond the tolerance −4·ε.
    low = -1e-6
    matrix = np.array([[1 + low / 2, 1 - low / 2], [1 - low / 2, 1 + low / 2]])
    for made in (ib.DenseInteraction(matrix * scale), ib.SparseInteraction(csr(matrix * scale))):
        assert not made.definite


@pytest.mark.parametrize(("parts", "expected"), [(3, True), (5, False)])
def test_the_tolerance_is_the_stated_one(parts, expected):
    # The eigenvalues of a diagonal matrix are exact; K²·ε·max|A| = 4·ε here.
    assert ib.DenseInteraction([[1.0, 0.0], [0.0, -parts * EPSILON]]).definite is expected


# The same matrix in three representations


@given_exact_factors
def test_representations_of_an_exact_matrix_agree_exactly(f):
    gram = f @ f.T
    for kind in KINDS:
        made = interaction(f, kind)
        assert made.n_arms == len(f)
        assert np.array_equal(made.to_dense(), gram)
        assert np.array_equal(made.diagonal, np.diagonal(gram))
        assert made.max_abs == np.abs(gram).max()
        assert made.definite


@given(factors())
def test_representations_agree_up_to_rounding(f):
    arms, rank = f.shape
    size = np.abs(f) @ np.abs(f).T
    # Each entry takes at most arms + rank products and as many sums.
    bound = 2 * (arms + rank) * EPSILON
    dense, low_rank, sparse = (interaction(f, kind) for kind in KINDS)
    for other in (low_rank, sparse):
        assert (np.abs(other.to_dense() - dense.to_dense()) <= bound * size).all()
        assert (np.abs(other.diagonal - dense.diagonal) <= bound * np.diagonal(size)).all()
        assert abs(other.max_abs - dense.max_abs) <= bound * size.max()


@given_kind_and_factors
def test_rows_are_those_of_the_matrix(kind, f):
    made = interaction(f, kind)
    chosen = [len(f) - 1, 0]
    # A row of FFᵀ may be summed in another order than the whole matrix.
    bound = 2 * f.shape[1] * EPSILON * (np.abs(f) @ np.abs(f).T)
    assert made.rows(chosen).shape == (2, len(f))
    assert (np.abs(made.rows(chosen) - made.to_dense()[chosen]) <= bound[chosen]).all()


@given_factors
def test_squares_give_the_quadratic_form(f):
    size = np.abs(f) @ np.abs(f).T
    direction = np.linspace(-1.0, 1.0, len(f)) if len(f) > 1 else np.ones(1)
    for kind in ("dense", "low-rank"):
        made = interaction(f, kind)
        left, weights = made.squares
        form = (weights * (left.T @ direction) ** 2).sum()
        # Elimination stops when what is left is below K·ε of the largest entry, in K² entries,
        # and its own rounding errors are at most K times as large again.
        tolerance = 4 * len(f) ** 3 * EPSILON * size.max()
        assert form >= 0
        assert form == pytest.approx(direction @ made.to_dense() @ direction, abs=tolerance)


def test_sparse_matrices_of_every_format_give_the_same_interaction():
    matrix = csr([[2.0, 0.0, 1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 2.0]])
    expected = ib.SparseInteraction(matrix)
    for name in ("bsr", "coo", "csc", "csr", "dia", "dok", "lil"):
        assert ib.SparseInteraction(matrix.asformat(name)) == expected
    assert ib.SparseInteraction(scipy.sparse.csr_matrix(matrix)) == expected
    assert ib.SparseInteraction(matrix.toarray()) == expected


def test_duplicates_are_added_and_explicit_zeros_dropped():
    entries = ([1.0, 1.0, 0.0, 0.0, 3.0], ([0, 0, 0, 1, 1], [0, 0, 1, 0, 1]))
    made = ib.SparseInteraction(scipy.sparse.coo_array(entries, shape=(2, 2)))
    assert made == ib.SparseInteraction([[2.0, 0.0], [0.0, 3.0]])
    assert made.values.tolist() == [[2.0, 3.0]]


def test_unsorted_indices_do_not_matter():
    sorted_matrix = csr([[2.0, 1.0], [1.0, 2.0]])
    unsorted = scipy.sparse.csr_array(
        (np.array([1.0, 2.0, 2.0, 1.0]), np.array([1, 0, 1, 0]), np.array([0, 2, 4])), shape=(2, 2)
    )
    assert ib.SparseInteraction(unsorted) == ib.SparseInteraction(sorted_matrix)


def test_whatever_is_given_becomes_the_fitting_interaction():
    dense = ib.DenseInteraction([[1.0]])
    assert as_interaction(dense) is dense
    assert isinstance(as_interaction([[1]]), ib.DenseInteraction)
    assert isinstance(as_interaction(csr([[1.0]])), ib.SparseInteraction)


# Immutability


def arrays_of(made):
    yield from (made.values, made.columns, made.offsets, made.diagonal)
    yield from made.squares or ()


@pytest.mark.parametrize("kind", KINDS)
def test_no_array_of_an_interaction_can_be_written(kind):
    for array in arrays_of(interaction(np.eye(2), kind)):
        if array.size:
            with pytest.raises(ValueError, match="read-only"):
                array[(0,) * array.ndim] = 5


@pytest.mark.parametrize("make", [ib.DenseInteraction, ib.LowRankInteraction, ib.SparseInteraction])
def test_later_changes_of_the_given_array_have_no_effect(make):
    given = np.eye(2)
    made = make(given)
    given[0, 0] = 5.0
    assert made.to_dense()[0, 0] == 1.0


def test_later_changes_of_the_given_sparse_matrix_have_no_effect():
    given = csr(np.eye(2))
    made = ib.SparseInteraction(given)
    given.data[0] = 5.0
    given.indices[1] = 0
    assert made.to_dense().tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_the_given_sparse_matrix_is_left_as_it_was():
    data, indices, offsets = np.array([0.0, 1.0, 2.0]), np.array([1, 0, 1]), np.array([0, 2, 3])
    given = scipy.sparse.csr_array((data.copy(), indices.copy(), offsets.copy()), shape=(2, 2))
    ib.SparseInteraction(given)
    assert given.data.tolist() == data.tolist()
    assert given.indices.tolist() == indices.tolist()
    assert given.indptr.tolist() == offsets.tolist()
    assert given.data.flags.writeable


# Equality, hash and files


def test_zeros_of_both_signs_are_equal_and_hash_alike():
    for make in (ib.DenseInteraction, ib.LowRankInteraction):
        one, other = make([[0.0]]), make([[-0.0]])
        assert one == other
        assert hash(one) == hash(other)


def test_an_unknown_kind_is_refused(refused):
    with refused(InvalidInstance, "kind", "'tensor'"):
        interaction_from_json({"kind": "tensor"})


# --- as an array ---


@pytest.mark.parametrize("kind", KINDS)
def test_an_interaction_is_an_array_for_numpy(kind):
    factors = np.array([[1.0, 0.5], [0.0, 2.0], [1.0, 1.0]])
    made, dense = interaction(factors, kind), factors @ factors.T
    array = np.asarray(made)
    assert array.dtype == np.float64
    assert np.array_equal(array, dense)
    array[0, 0] = 7.0
    assert np.asarray(made)[0, 0] == 1.25, "a copy"
    assert np.asarray(made, np.float32).dtype == np.float32
    assert np.array(made, copy=True).shape == (3, 3)
    with pytest.raises(ValueError, match="without a copy"):
        np.array(made, copy=False)


def test_a_matrix_too_large_to_be_meant_says_what_it_would_take(refused):
    wide = ib.LowRankInteraction(np.ones((100_000, 1)))
    with refused(ib.errors.InvalidInput, "100,000 arms", "74.5 GiB", "rows()"):
        np.asarray(wide)


@pytest.mark.parametrize(
    ("field", "bad"),
    [
        ("n_arms", "x"),
        ("n_arms", -1),
        ("values", ["x", 1.0, 1.0, 1.0, 1.0]),
        ("values", [1.0]),
        ("columns", [0.5, 1, 0, 1, 2]),
        ("offsets", [0, -(2**31), 4, 0]),
        ("offsets", [0, 2, 4, -1]),
        ("offsets", [0, 2, -1, 0]),
        ("offsets", [0, 4, 2, 5]),
        ("offsets", [1, 2, 4, 5]),
        ("offsets", [0, 2, 4]),
    ],
    ids=str,
)
def test_rows_of_a_sparse_file_are_where_they_can_be(field, bad):
    """SciPy takes such offsets on trust, and reads and writes wherever they lead."""
    matrix = ib.SparseInteraction(
        scipy.sparse.csr_array([[0.3, -0.1, 0], [-0.1, 0.2, 0], [0, 0, 0.1]])
    )
    with pytest.raises(InvalidInstance, match="broken"):
        interaction_from_json(matrix.to_json() | {field: bad})


def test_a_sparse_matrix_that_was_broken_by_hand_is_refused():
    for name, values in (
        ("indptr", [0, -5, 2, 3]),
        ("indices", [0, 1, 99]),
        ("indices", [0, 1, -1]),
    ):
        matrix = scipy.sparse.csr_array(np.eye(3))
        setattr(matrix, name, np.array(values, np.int32))
        with pytest.raises(InvalidInstance, match="broken sparse matrix"):
            ib.SparseInteraction(matrix)


@pytest.mark.parametrize("vouched", ["false", 0, None, {"value": False}])
def test_only_a_truth_value_vouches(vouched):
    data = ib.SparseInteraction(scipy.sparse.eye_array(2)).to_json() | {"vouched": vouched}
    with pytest.raises(InvalidInstance, match="true or false"):
        interaction_from_json(data)


def test_a_sparse_matrix_of_complex_numbers_is_refused(refused):
    with refused(InvalidInstance, "complex128"):
        ib.SparseInteraction(scipy.sparse.eye_array(2, dtype=complex))
