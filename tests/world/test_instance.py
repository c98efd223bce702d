"""Instances: what is accepted, what they answer, that they never change, and their files."""

import copy
import json
import math
import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from strategies import (
    factors,
    initial_losses,
    instances,
    memories,
    symmetric_matrices,
    whole_counts,
)

import influential_bandits as ib
from influential_bandits.errors import InvalidInput, InvalidInstance, NotApplicable
from influential_bandits.world.instance import remember

INDEFINITE = [[1.0, 2.0], [2.0, 1.0]]
EXACT_FAMILIES = ("eighths", "singular eighths", "zero")


@st.composite
def instances_and_counts(draw, **options):
    instance = draw(instances(**options))
    return instance, draw(whole_counts(instance.n_arms))


# Refusals


@pytest.mark.parametrize(
    ("loss", "mentions"),
    [
        ([1.0], ["2 arms", "(1,)"]),
        ([1.0, 2.0, 3.0], ["2 arms", "(3,)"]),
        ([[1.0, 2.0]], ["2 arms", "(1, 2)"]),
        (1.0, ["2 arms", "()"]),
        ([], ["2 arms", "(0,)"]),
        *(([0.0, bad], ["(1,)", str(bad)]) for bad in (math.nan, math.inf, -math.inf)),
        *((bad, ["array of numbers"]) for bad in ("ab", ["a", "b"], [[1.0], [2.0, 3.0]], object())),
    ],
)
def test_losses_that_do_not_fit_the_arms_or_are_no_numbers_are_refused(loss, mentions, refused):
    with refused(InvalidInstance, "initial_loss", *mentions):
        ib.Instance(np.eye(2), loss)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_an_indefinite_interaction_is_refused_unless_admitted(kind, refused):
    matrix = scipy.sparse.csr_array(np.array(INDEFINITE)) if kind == "sparse" else INDEFINITE
    with refused(InvalidInstance, "positive semi-definite", "eigenvalue is -1", "definite=False"):
        ib.Instance(matrix, [0.0, 0.0])
    admitted = ib.Instance(matrix, [0.0, 0.0], definite=False)
    assert not admitted.definite


@pytest.mark.parametrize(
    ("names", "mention"),
    [
        (["a"], "1 name"),
        (["a", "b", "c"], "3 names"),
        (["a", "a"], "'a' occurs twice"),
        (["a", 2], "strings"),
        ("ab", "'ab'"),
        (3, "3"),
    ],
    ids=["too few", "too many", "twice", "no string", "one string", "a number"],
)
def test_names_that_do_not_name_each_arm_once_are_refused(names, mention, refused):
    with refused(InvalidInstance, "arm", mention):
        ib.Instance(np.eye(2), [0.0, 0.0], arm_names=names)


@pytest.mark.parametrize("memory", [0.0, -0.5, 1.5, math.nan, math.inf, "1", None, True, [1.0]])
def test_a_memory_outside_of_its_interval_is_refused(memory, refused):
    with refused(InvalidInstance, "memory", "above 0 and at most 1", str(memory)):
        ib.Instance(np.eye(2), [0.0, 0.0], memory=memory)


@pytest.mark.parametrize("memory", [1, 1.0, 0.5, np.float32(0.25), 5e-324])
def test_a_memory_inside_of_its_interval_is_accepted(memory):
    assert ib.Instance([[1.0]], [0.0], memory=memory).memory == float(memory)


@pytest.mark.parametrize("method", ["losses", "total_loss"])
@pytest.mark.parametrize(
    ("counts", "mention"),
    [
        ([1.0], "(1,)"),
        ([1.0, 2.0, 3.0], "(3,)"),
        (1.0, "()"),
        ([1.0, -1.0], "not negative"),
        ([1.0, math.nan], "finite"),
        ([1.0, math.inf], "finite"),
        (["a", "b"], "['a', 'b']"),
        (None, "counts"),
    ],
)
def test_counts_that_cannot_be_are_refused(method, counts, mention, refused):
    with refused(InvalidInput, "counts", mention):
        getattr(ib.counterexample(), method)(counts)


def test_losses_take_one_vector_of_counts(refused):
    with refused(InvalidInput, "one vector", "(3, 2)"):
        ib.counterexample().losses(np.ones((3, 2)))


@pytest.mark.parametrize(
    "ask",
    [
        lambda instance: instance.losses([1, 1]),
        lambda instance: instance.total_loss([1, 1]),
        lambda instance: instance.linear_term,
    ],
    ids=["losses", "total_loss", "linear_term"],
)
def test_what_holds_without_fading_only_says_so_when_influence_fades(ask, refused):
    with refused(NotApplicable, "memory = 1", "memory = 0.9"):
        ask(ib.Instance(np.eye(2), [0.0, 0.0], memory=0.9))


# Answers


@given(instances_and_counts(families=EXACT_FAMILIES))
def test_answers_about_exact_matrices_have_no_rounding_but_of_the_losses(exact_world, given_pair):
    instance, counts = given_pair
    whole = ib.Instance(instance.interaction, np.round(instance.initial_loss))
    exact = exact_world(whole)
    # Multiples of 1/128 below 2⁴⁶ are exact in double precision.
    assert [Fraction(x) for x in whole.losses(counts)] == exact.losses_after(counts)
    if sum(counts) < 10**5:
        assert Fraction(whole.total_loss(counts)) == exact.total_loss(counts)


@given(instances_and_counts())
def test_losses_are_initial_losses_plus_interaction_times_counts(exact_world, rounding, given_pair):
    instance, counts = given_pair
    exact = exact_world(instance)
    # Each loss takes at most max(arms, rank) products, as many sums, one more sum with l1 and one
    # with the low parts; to first order each of them rounds once, relative to the magnitudes.
    roundings = instance.interaction.values.shape[1] + instance.n_arms + 3
    losses = instance.losses(counts)
    assert losses.shape == (instance.n_arms,)
    for computed, loss, magnitude in zip(
        losses, exact.losses_after(counts), exact.magnitudes_after(counts), strict=True
    ):
        assert abs(Fraction(computed) - loss) <= roundings * rounding * magnitude


@given(instances_and_counts())
def test_total_loss_is_that_of_proposition_2_1(exact_world, rounding, given_pair):
    instance, counts = given_pair
    exact = exact_world(instance)
    # Those of the losses and of the linear term, and arms more products and sums.
    roundings = 2 * instance.interaction.values.shape[1] + 3 * instance.n_arms + 8
    error = abs(Fraction(instance.total_loss(counts)) - exact.total_loss(counts))
    assert error <= roundings * rounding * exact.total_magnitude(counts)


@given(instances())
def test_linear_term_is_the_initial_loss_less_half_of_the_diagonal(exact_world, rounding, instance):
    exact = exact_world(instance)
    # The diagonal of FFᵀ takes rank products and sums; halving is exact, and one difference.
    roundings = 2 * instance.interaction.values.shape[1] + 1
    for i, b in enumerate(instance.linear_term):
        expected = exact.initial_loss[i] - exact.A[i][i] / 2
        magnitude = abs(exact.initial_loss[i]) + exact.A[i][i]
        assert abs(Fraction(b) - expected) <= roundings * rounding * magnitude


@given(instances_and_counts(), st.integers(0, 3), st.integers(1, 3))
def test_total_losses_of_many_counts_are_those_of_each(given_pair, rows, columns):
    instance, counts = given_pair
    stack = np.multiply.outer(np.arange(rows * columns).reshape(rows, columns), counts)
    totals = instance.total_loss(stack)
    assert totals.shape == (rows, columns)
    for place in np.ndindex(rows, columns):
        assert totals[place] == instance.total_loss(stack[place])


def test_a_hundred_thousand_arms_of_low_rank_answer_exactly_in_little_memory():
    arms, rank = 100_000, 16
    eighths = np.random.default_rng(0).integers(-16, 17, (arms, rank))
    f, loss, counts = eighths / 8, np.zeros(arms), np.ones(arms)
    few = ib.Instance(ib.LowRankInteraction(f[:10]), loss[:10])
    few.total_loss(counts[:10])  # compile, which takes memory of its own
    ib.Environment(few).pull(0)
    ib.Environment(few).expected_losses()
    tracemalloc.start()
    try:
        instance = ib.Instance(ib.LowRankInteraction(f), loss)
        losses, total = instance.losses(counts), instance.total_loss(counts)
        environment = ib.Environment(instance)
        environment.pull(arms - 1)
        environment.expected_losses()
        repr(instance)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # F itself, a mask of its finite entries, and a few vectors of arms: not arms².
    assert peak <= 3 * f.nbytes
    # In units of 1/64 everything is whole and below 2⁵³.
    sums = eighths.sum(axis=0)
    assert np.array_equal(64 * losses, eighths @ sums)
    assert 128 * total == sums @ sums - (eighths**2).sum()


def test_names_default_to_numbers():
    assert ib.counterexample().arm_names == ("0", "1")
    assert ib.Instance(np.eye(2), [0, 0], arm_names=["x", "y"]).arm_names == ("x", "y")


def test_an_answer_that_took_effort_is_made_once():
    instance = ib.counterexample()
    made = []
    for _ in range(2):
        assert remember(instance, "something", lambda: made.append(1) or "made") == "made"
    assert made == [1]


# Immutability


def test_no_attribute_of_an_instance_can_be_assigned_or_deleted():
    instance, given = ib.counterexample(), ("interaction", "initial_loss", "memory", "arm_names")
    for field in (*given, "n_arms", "definite", "linear_term", "world"):
        with pytest.raises(AttributeError):
            setattr(instance, field, getattr(instance, field))
    with pytest.raises(AttributeError):
        del instance.memory


def test_later_changes_of_what_was_given_have_no_effect():
    matrix, loss, names = np.eye(2), np.zeros(2), ["a", "b"]
    instance = ib.Instance(matrix, loss, arm_names=names)
    matrix[0, 0], loss[0], names[0] = 5.0, 5.0, "c"
    assert instance == ib.Instance(np.eye(2), np.zeros(2), arm_names=["a", "b"])
    assert matrix.flags.writeable
    assert loss.flags.writeable


def test_answers_belong_to_the_caller():
    instance = ib.counterexample()
    instance.losses([1, 1])[:] = 0.0
    assert instance.losses([1, 1]).tolist() == [3.0, 4.0]


# Equality, hash, repr


@given(instances(memory=memories()))
def test_equal_numbers_make_equal_instances_with_equal_hashes(instance):
    again = ib.Instance(
        copy.deepcopy(instance.interaction), instance.initial_loss.copy(), memory=instance.memory
    )
    assert again == instance
    assert hash(again) == hash(instance)


def test_repr_says_size_kind_and_scale():
    assert repr(ib.counterexample()) == "Instance(2 arms, dense interaction, max|A| = 2)"
    low_rank = ib.Instance(ib.LowRankInteraction([[0.5], [0.25], [0.0]]), [0.0] * 3)
    assert repr(low_rank) == "Instance(3 arms, low-rank interaction (rank 1), max|A| = 0.25)"


def test_repr_says_what_is_unusual():
    eye = scipy.sparse.eye_array(2)
    vouched = ib.Instance(ib.SparseInteraction(eye, vouched=True), [0.0, 0.0])
    assert "vouched" in repr(vouched)
    assert "vouched" not in repr(ib.Instance(eye, [0.0, 0.0]))
    indefinite = ib.Instance(INDEFINITE, [0.0, 0.0], definite=False)
    assert "indefinite" in repr(indefinite)
    assert "indefinite" not in repr(ib.Instance(np.eye(2), [0.0, 0.0], definite=False))
    assert "memory = 0.5" in repr(ib.Instance([[1.0]], [0.0], memory=0.5))
    assert "memory" not in repr(ib.counterexample())
    assert "rock, pop" in repr(ib.Instance(np.eye(2), [0.0, 0.0], arm_names=["rock", "pop"]))


def test_repr_stays_short_for_many_names():
    many = ib.Instance(
        np.eye(50), np.zeros(50), arm_names=[f"a rather long name {i}" for i in range(50)]
    )
    assert len(repr(many)) < 250
    assert "…" in repr(many)


# Files


@st.composite
def anything(draw):
    """Instances with awkward numbers and names, indefinite ones too."""
    loss = st.floats(-1e100, 1e100)
    matrix = draw(symmetric_matrices())
    made = draw(
        st.sampled_from(
            [
                ib.DenseInteraction(matrix),
                ib.LowRankInteraction(draw(factors())),
                ib.SparseInteraction(matrix),
                ib.SparseInteraction(matrix, vouched=True),
            ]
        )
    )
    arms = made.n_arms
    names = st.lists(st.text(max_size=5), min_size=arms, max_size=arms, unique=True)
    return ib.Instance(
        made,
        draw(st.one_of(initial_losses(arms), st.lists(loss, min_size=arms, max_size=arms))),
        arm_names=draw(st.one_of(st.none(), names)),
        memory=draw(memories()),
        definite=False,
    )


@given(anything())
def test_json_gives_back_every_bit(instance):
    again = ib.Instance.from_json(json.loads(json.dumps(instance.to_json(), allow_nan=False)))
    assert again == instance
    assert again.initial_loss.tobytes() == instance.initial_loss.tobytes()
    assert again.interaction.values.tobytes() == instance.interaction.values.tobytes()
    assert type(again.interaction) is type(instance.interaction)
    assert again.arm_names == instance.arm_names
    assert again.memory == instance.memory
    assert again.interaction.vouched == instance.interaction.vouched
    assert repr(again) == repr(instance)


@pytest.mark.parametrize(
    "content", ["[]", "3", "null", "{}", '{"format": "influential-bandits/trajectory/1"}']
)
def test_a_file_of_something_else_is_refused(content, tmp_path, refused):
    path = tmp_path / "instance.json"
    path.write_text(content, encoding="utf-8")
    with refused(InvalidInstance, "format", "influential-bandits/instance/1"):
        ib.Instance.load(path)


@pytest.mark.parametrize("field", ["interaction", "initial_loss", "arm_names", "memory"])
def test_a_file_that_lacks_an_entry_is_refused(field, refused):
    data = ib.counterexample().to_json()
    del data[field]
    with refused(InvalidInstance, field):
        ib.Instance.from_json(data)


@pytest.mark.parametrize(
    ("field", "bad"),
    [
        ("interaction", None),
        ("interaction", 3),
        ("interaction", [1.0]),
        ("interaction", {}),
        ("interaction", {"kind": "dense"}),
        ("interaction", {"kind": "dense", "matrix": [[1.0, 0.5], [0.0, 1.0]]}),
        ("interaction", {"kind": "dense", "matrix": None}),
        ("interaction", {"kind": "low-rank", "factors": "x"}),
        ("initial_loss", None),
        ("initial_loss", [1.0]),
        ("initial_loss", {"0": 1.0}),
        ("arm_names", 3),
        ("arm_names", ["a", "a"]),
        ("memory", "x"),
        ("memory", 2.0),
        ("memory", None),
    ],
)
def test_a_file_with_a_bad_entry_is_refused(field, bad, refused):
    with refused(InvalidInstance):
        ib.Instance.from_json({**ib.counterexample().to_json(), field: bad})
