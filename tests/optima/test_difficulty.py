"""The verdict: easy, hard or borderline, by the exact rule, with the reason in words."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import KINDS, interaction

import influential_bandits as ib
from influential_bandits.optima.difficulty import difficulty


def positive_on_the_simplex(matrix):
    """Tell, in rational arithmetic, whether dᵀAd > 0 for all d ≠ 0 with Σd = 0."""
    n = len(matrix) - 1
    form = [
        [matrix[i][j] - matrix[i][n] - matrix[n][j] + matrix[n][n] for j in range(n)]
        for i in range(n)
    ]
    for k in range(n):
        if form[k][k] <= 0:
            return False
        for i in range(k + 1, n):
            factor = form[i][k] / form[k][k]
            form[i] = [a - factor * b for a, b in zip(form[i], form[k], strict=True)]
    return True


@settings(max_examples=12, deadline=None, derandomize=True, database=None)
@given(arms=st.integers(1, 5), seed=st.integers(0, 2**32 - 1))
def test_the_verdict_follows_the_exact_rule(make_instance, rational_problem, family, arms, seed):
    instance = make_instance(family, arms, seed)
    problem = rational_problem(instance)
    definite = positive_on_the_simplex(problem.A)
    problem.b = [0] * arms
    _, mix, level = problem.optimum(1)
    gaps = [slope - level for slope in problem.gradient(mix)]
    if max(gaps) > 0:  # A·p* and with it the gaps are the same for every minimiser p*
        verdict = "hard"
    elif definite and min(mix) > 0:
        verdict = "easy"
    else:
        verdict = "borderline"
    found = difficulty(instance)
    if family == "nearly singular" and min(mix) < 1e-11:
        return  # a share this small counts as none
    assert found.verdict == verdict
    assert found.definite_directions == definite
    assert found.leaning in ("easy", "hard")
    assert verdict in ("borderline", found.leaning)
    scale = instance.interaction.max_abs
    np.testing.assert_allclose(found.gaps, np.array(gaps, float), atol=2e-12 * scale)
    if definite:
        np.testing.assert_allclose(found.mix, np.array(mix, float), atol=1e-11)
    assert np.array_equal(found.support, np.flatnonzero(found.mix))
    assert found.mix.sum() == pytest.approx(1.0, abs=1e-11)


@pytest.mark.parametrize("arms", [1, 2, 3, 5, 10])
def test_prescribed_supports_are_found_and_only_the_full_one_is_easy(arms):
    for support in range(1, arms + 1):
        for seed in range(5):
            found = difficulty(ib.instance_with_support(arms, support, seed))
            assert found.support.tolist() == list(range(support))
            assert found.verdict == ("easy" if support == arms else "hard")
            assert (found.gaps[:support] == 0).all()
            assert (found.gaps[support:] > 0).all()


def test_the_counterexample_is_borderline_because_arm_one_does_not_grow():
    found = difficulty(ib.counterexample())
    assert (found.verdict, found.leaning) == ("borderline", "hard")
    assert found.reason.startswith("arm 1 belongs to the best counts but does not grow with T")
    assert found.mix.tolist() == [1.0, 0.0]
    assert found.gaps.tolist() == [0.0, 0.0]
    assert found.definite_directions


@pytest.mark.parametrize("first", [0, 1])
def test_the_linear_lower_bound_is_hard_with_a_quarter_of_t_per_pull(first):
    found = difficulty(ib.linear_lower_bound(first))
    assert (found.verdict, found.leaning) == ("hard", "hard")
    assert found.gaps[first] == 0.25
    assert found.support.tolist() == [1 - first]
    assert f"arm {first} costs 0.25·T" in found.reason


def test_without_influence_regret_is_linear_unless_all_losses_are_equal():
    found = difficulty(ib.Instance(np.zeros((3, 3)), [1.0, 0.25, 2.0], arm_names=["a", "b", "c"]))
    assert (found.verdict, found.leaning) == ("borderline", "hard")
    assert "each pull of arm c costs 1.75, whatever T" in found.reason
    assert not found.definite_directions
    same = difficulty(ib.Instance(np.zeros((3, 3)), [1.0, 1.0, 1.0]))
    assert (same.verdict, same.leaning) == ("borderline", "easy")


def test_six_arms_of_rank_two_around_the_origin_are_borderline_and_lean_hard():
    angles = np.arange(6) * np.pi / 3
    factors = np.column_stack([np.cos(angles), np.sin(angles)])
    losses = 0.5 + np.array([0.0, 0.3, 0.1, 0.7, 0.2, 0.5])
    for made in (factors @ factors.T, ib.LowRankInteraction(factors)):
        found = difficulty(ib.Instance(made, losses))
        assert (found.verdict, found.leaning) == ("borderline", "hard")
        assert "whatever T" in found.reason
        assert not found.definite_directions
        assert (found.gaps == 0).all()


def test_duplicates_of_easy_arms_lean_easy_since_either_copy_will_do():
    base = ib.instance_with_support(3, 3, 0)
    same = [0, 1, 2, 0, 2]
    matrix = base.interaction.to_dense()[np.ix_(same, same)]
    found = difficulty(ib.Instance(matrix, base.initial_loss[same]))
    assert (found.verdict, found.leaning) == ("borderline", "easy")
    assert "stand in for others" in found.reason
    dearer = difficulty(ib.Instance(matrix, base.initial_loss[same] + [0, 0, 0, 0, 0.5]))
    assert (dearer.verdict, dearer.leaning) == ("borderline", "hard")
    assert "arm 4 costs 0.5" in dearer.reason


def test_the_reason_names_the_worst_arm():
    instance = ib.Instance(
        [[1.0, 2.0, 1.5], [2.0, 9.0, 3.0], [1.5, 3.0, 4.0]],
        [0, 0, 0],
        arm_names=["tea", "rum", "ale"],
    )
    found = difficulty(instance)  # p* = tea, with gaps 1 and ½
    assert found.reason == "each pull of arm rum costs 1·T in the long run, and nothing repays it"
    assert found.gaps.tolist() == [0.0, 1.0, 0.5]


def test_every_representation_gets_the_same_verdict():
    for seed in range(20):
        random = np.random.default_rng(seed)
        arms, rank = int(random.integers(1, 6)), int(random.integers(1, 6))
        factors = random.integers(-2, 3, (arms, rank)).astype(float)
        losses = random.integers(0, 3, arms)
        found = [difficulty(ib.Instance(interaction(factors, kind), losses)) for kind in KINDS]
        assert len({(f.verdict, f.leaning, f.definite_directions) for f in found}) == 1


def test_verdicts_do_not_depend_on_the_unit_of_loss():
    for seed in range(12):
        instance = ib.random_instance(4, seed)
        expected = difficulty(instance)
        for unit in (2.0**-40, 2.0**40):
            scaled = ib.Instance(
                unit * instance.interaction.to_dense(), unit * instance.initial_loss
            )
            found = difficulty(scaled)
            assert (found.verdict, found.leaning) == (expected.verdict, expected.leaning)
            np.testing.assert_allclose(found.mix, expected.mix, atol=1e-12)


def test_an_arm_without_influence_beside_a_mix_without_cost_is_no_definite_direction():
    # p = (0.4, 0.4, 0.2) has A·p = 0, and so has arm 3: they can be exchanged at will.
    matrix = np.zeros((4, 4))
    matrix[:3, :3] = [[10.0, -8.0, -4.0], [-8.0, 8.0, 0.0], [-4.0, 0.0, 8.0]]
    order = [0, 1, 3, 2]
    found = difficulty(ib.Instance(matrix[np.ix_(order, order)], [0.0, 1.0, 0.0, -2.0]))
    assert found.verdict == "borderline"
    assert not found.definite_directions


def test_the_gap_of_a_badly_scaled_arm_is_seen():
    # p* is nearly all arm 0, and A·p* = 1e-8·(1, 3, 1): small beside max|A|, but not beside λ.
    matrix = np.array([[1e-8, 3e-8, 0.0], [3e-8, 1e-6, 0.0], [0.0, 0.0, 1e6]])
    found = difficulty(ib.Instance(matrix, [0.0, 0.0, 0.0]))
    assert found.verdict == "hard"
    assert "arm 1 costs 2e-08·T" in found.reason


def test_fading_memory_and_indefinite_interactions_are_refused():
    with pytest.raises(ib.errors.NotApplicable, match="difficulty needs memory = 1"):
        difficulty(ib.Instance(np.eye(2), [0, 0], memory=0.5))
    with pytest.raises(ib.errors.NotApplicable, match="positive semi-definite"):
        difficulty(ib.Instance([[0, 1], [1, 0]], [0, 0], definite=False))
