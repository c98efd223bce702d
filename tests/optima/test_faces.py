"""Indefinite instances: the best of all faces is the global minimum."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import influential_bandits as ib
from influential_bandits.optima import path as path_module
from influential_bandits.optima.path import optimum
from influential_bandits.optima.regret import regret

SETTINGS = settings(max_examples=60, deadline=None, derandomize=True, database=None)


def indefinite(kind, arms, seed):
    """Return a random instance whose entries are small whole numbers times powers of two."""
    random = np.random.default_rng([arms, seed])
    half = random.integers(-3, 4, (arms, arms)).astype(float)
    if kind == "duplicated":
        same = random.integers(0, max(1, arms - 1), arms)
        half = half[np.ix_(same, same)]
    matrix = half + half.T
    if kind == "nearly definite":
        matrix += 5 * np.eye(arms)
    elif kind == "scaled":
        sizes = 2.0 ** random.integers(-3, 4, arms)
        matrix *= sizes * sizes[:, None]
    return ib.Instance(matrix, random.integers(-3, 4, arms), definite=False)


kinds = st.sampled_from(["generic", "duplicated", "nearly definite", "scaled"])
seeds = st.integers(0, 2**32 - 1)


@SETTINGS
@given(kind=kinds, arms=st.integers(1, 5), seed=seeds, horizon=st.sampled_from([1, 3, 10, 1000]))
def test_the_loss_is_the_smallest_of_all_stationary_points(
    rational_problem, kind, arms, seed, horizon
):
    instance = indefinite(kind, arms, seed)
    problem = rational_problem(instance)
    loss, x, _ = problem.optimum(horizon)
    best = optimum(instance, horizon)
    # Inverses of at most 6 × 6 in double precision, with condition numbers of up to 10⁴ or so.
    assert abs(problem.loss(best.counts) - loss) <= 1e-11 * max(problem.magnitude(x), 1)
    assert best.loss == pytest.approx(float(loss), abs=1e-11 * float(max(problem.magnitude(x), 1)))
    assert best.counts.sum() == pytest.approx(horizon, rel=1e-13)
    assert best.counts.min() >= 0


def test_the_minimum_of_a_saddle_is_at_a_corner():
    # ½·xᵀAx = 2·x_0·x_1 is smallest where one of the two is 0.
    best = optimum(ib.Instance([[0.0, 2.0], [2.0, 0.0]], [1.0, 0.0], definite=False), 10)
    assert best.counts.tolist() == [0.0, 10.0]
    assert (best.loss, best.multiplier) == (0.0, 0.0)
    assert best.certificate.method == "all faces"


@pytest.mark.parametrize("horizon", [10, 10**3, 10**6, 10**9])
def test_a_minimum_near_a_corner_is_not_taken_for_the_corner(horizon):
    # ∇ = (−0.875 − T/4, −2 − x_0/4) is equal at x_1 = 4.5; the corner (T, 0) is worse by 2.53.
    instance = ib.Instance([[-0.25, -0.25], [-0.25, 0.0]], [-1.0, -2.0], definite=False)
    best = optimum(instance, horizon)
    assert best.counts.tolist() == [horizon - 4.5, 4.5]
    assert best.certificate.dual == 0.0
    gradient = instance.linear_term + instance.interaction.to_dense() @ best.counts
    assert gradient.min() >= best.multiplier


@pytest.mark.parametrize("horizon", [100, 10**6, 10**9])
def test_regret_is_as_accurate_as_on_definite_instances(rational_problem, horizon):
    """1e-9 at T = 10⁶ and 1e-6 at T = 10⁹, far from the optimum and near it."""
    tolerance = 1e-6 if horizon == 10**9 else 1e-9
    for seed in range(15):
        random = np.random.default_rng(seed)
        half = random.normal(size=(3, 3))
        instance = ib.Instance(half + half.T, random.normal(size=3), definite=False)
        problem = rational_problem(instance)
        _, x, _ = problem.optimum(horizon)
        near = [int(value) for value in x]
        near[int(np.argmax(near))] += horizon - sum(near)
        for counts in (near, [horizon // 2, horizon // 4, horizon // 4]):
            exact = float(problem.regret(counts))
            assert regret(instance, counts) == pytest.approx(exact, rel=tolerance), seed


@SETTINGS
@given(
    kind=kinds,
    arms=st.integers(1, 6),
    seed=seeds,
    counts=st.lists(st.integers(0, 10**9), min_size=6, max_size=6),
)
def test_regret_is_never_negative(kind, arms, seed, counts):
    assert regret(indefinite(kind, arms, seed), counts[:arms]) >= 0.0


def test_sixteen_arms_are_refused_and_told_what_can_be_had():
    half = np.random.default_rng(0).normal(size=(16, 16))
    large = ib.Instance(half + half.T, np.zeros(16), definite=False)
    message = r"indefinite.* up to 15 arms, not 16; use total_loss\(\)"
    with pytest.raises(ib.errors.NotApplicable, match=message):
        optimum(large, 10)
    with pytest.raises(ib.errors.NotApplicable, match=message):
        regret(large, np.ones(16))
    fifteen = ib.Instance((half + half.T)[:15, :15], np.zeros(15), definite=False)
    best = optimum(fifteen, 10)
    random = np.random.default_rng(1).dirichlet(np.full(15, 0.2), size=20_000)
    assert best.loss <= fifteen.total_loss(10 * random).min()


@pytest.mark.parametrize(
    ("entry", "losses", "point"),
    [
        (2.0, [1.0, 0.0], [5.0, 5.0, 10.5]),  # gradients that differ in use
        (2.0, [1.0, 0.0], [10.0, 0.0, 20.0]),  # a multiplier that is none
        (2.0, [1.0, 0.0], [9.0, 0.0, 1.0]),  # a sum that is not T
        (-0.5, [1.0, 1.0], [10.0, 1.0]),  # at (10, 0) the gradient is (1, 1 − 5): arm 1 is cheaper
    ],
)
def test_a_point_that_is_no_minimum_is_not_returned(entry, losses, point, monkeypatch):
    instance = ib.Instance([[0.0, entry], [entry, 0.0]], losses, definite=False)
    face = np.arange(len(point) - 1), np.array([[number, 0.0] for number in point])
    monkeypatch.setattr(path_module, "best_face", lambda *_: face)
    with pytest.raises(ib.errors.NotCertified, match="no optimum could be proved for T = 10"):
        optimum(instance, 10)
