"""The optimum under bounds of shares: proved, as good as others find, refused if there is none."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

import influential_bandits as ib
from influential_bandits.errors import InvalidInput, NotApplicable
from influential_bandits.optima.bounded import Shares, bounded_optimum, require_shares
from influential_bandits.optima.bounded_schedules import count_rounds, search_bounded_schedule
from influential_bandits.optima.schedules import schedule_loss, search_schedule


def draw_problem(seed, arms):
    """An instance, and shares that can be kept."""
    random = np.random.default_rng(seed)
    factor = random.normal(size=(arms, int(random.integers(1, arms + 1))))
    matrix = factor @ factor.T / arms
    instance = ib.Instance(matrix + matrix.T, random.normal(size=arms), definite=True)
    least = random.uniform(0.0, 0.8 / arms, arms) * (random.random(arms) < 0.5)
    most = np.minimum(1.0, least + random.uniform(1.0 / arms, 4.0 / arms, arms))
    return instance, Shares(least, most)


@given(seed=st.integers(0, 2**32 - 1), arms=st.integers(2, 12))
def test_a_definite_optimum_is_proved_and_no_worse_than_another_solver_finds(seed, arms):
    instance, shares = draw_problem(seed, arms)
    found = bounded_optimum(instance, 100, shares)
    assert found.certificate.is_optimal()
    assert found.counts.sum() == pytest.approx(100.0, rel=1e-12)
    assert (found.counts >= 100 * shares.least - 1e-9).all()
    assert (found.counts <= 100 * shares.most + 1e-9).all()
    b, matrix = instance.linear_term, instance.interaction.to_dense()
    other = minimize(
        lambda x: b @ x + 0.5 * x @ matrix @ x,
        np.full(arms, 100.0 / arms),
        jac=lambda x: b + matrix @ x,
        bounds=list(zip(100 * shares.least, 100 * shares.most, strict=True)),
        constraints={"type": "eq", "fun": lambda x: x.sum() - 100.0, "jac": lambda x: 0 * x + 1},
        method="SLSQP",
    )
    assert found.loss <= other.fun + 1e-6 * (1.0 + abs(other.fun))


@pytest.mark.parametrize("seed", range(5))
def test_without_bounds_it_is_the_optimum(seed):
    instance, _ = draw_problem(seed, 5)
    found = bounded_optimum(instance, 70, Shares(np.zeros(5), np.ones(5)))
    assert found.loss == pytest.approx(ib.optimum(instance, 70).loss, rel=1e-9, abs=1e-9)


def test_indefinite_interactions_are_refused(refused):
    shares = Shares(np.zeros(3), np.ones(3))
    with refused(NotApplicable, "indefinite", "psd"):
        bounded_optimum(ib.indefinite_instance(3, seed=0), 40, shares)


@pytest.mark.parametrize(
    ("shares", "mentions"),
    [
        ({"a": (0.6, 0.9), "b": (0.5, 1.0)}, ["least shares", "110%", "'a', 'b'"]),
        ({"a": (0, 0.3), "b": (0, 0.3), "c": (0, 0.3)}, ["most shares", "90%"]),
        ({"hat": (0.1, 0.3)}, ["'hat'", "'a', 'b', 'c'"]),
        ({"a": (0.3, 0.1)}, ["'a'", "least and the most"]),
        ({"a": 0.3}, ["'a'", "(0.1, 0.3)"]),
        ({"a": (0.1, 2)}, ["'a'", "from 0 to 1"]),
        ([0.1, 0.2], ["by arm"]),
    ],
    ids=str,
)
def test_shares_that_nothing_can_keep_to_are_refused(shares, mentions, refused):
    with refused(InvalidInput, *mentions):
        require_shares(shares, ["a", "b", "c"])


# Schedules


@pytest.mark.parametrize("repeats", [True, False])
def test_bounded_schedules_are_mostly_the_best_of_all_and_keep_their_counts(repeats):
    """Of 200 such searches 187 find the best, and the worst misses 7 % of the spread of all."""
    apart = np.abs(np.subtract.outer(np.arange(7), np.arange(7)))
    weight = np.where(apart > 0, 0.7**apart, 0.0)
    if repeats:
        weight = (weight + 0.7 ** (7 - apart) * np.where(apart > 0, 1.0, 2.0)) / (1.0 - 0.7**7)
    least, most = np.array([1, 1, 0]), np.array([3, 4, 3])
    every = np.array(list(itertools.product(range(3), repeat=7)))
    number = (every[:, :, None] == np.arange(3)).sum(axis=1)
    allowed = every[((number >= least) & (number <= most)).all(axis=1)]
    missed = []
    for seed in range(40):
        random = np.random.default_rng(seed)
        factor, loss = random.normal(size=(3, 3)), random.normal(size=3)
        matrix, keep = factor @ factor.T, np.array([0.7])
        start = search_schedule(matrix, loss, keep, 7, repeats=repeats)
        found = search_bounded_schedule(matrix, loss, keep, start, least, most, repeats=repeats)
        pairs = matrix[allowed[:, :, None], allowed[:, None, :]]
        losses = loss[allowed].sum(axis=1) + 0.5 * (weight * pairs).sum(axis=(1, 2))
        (place,) = np.flatnonzero((allowed == found).all(axis=1))
        missed.append((losses[place] - losses.min()) / np.ptp(losses))
    assert np.sum(np.array(missed) < 1e-9) >= 34
    assert max(missed) < 0.1


def test_the_loss_that_is_searched_is_that_of_playing():
    """All rounds but one are fixed by their counts, so that one change is all there is to find."""
    matrix, loss = np.array([[1.0, 0.4], [0.4, 0.2]]), np.array([0.0, 0.3])
    world = ib.Instance(0.7 * matrix, loss, memory=0.7)
    least, most = np.array([4, 1]), np.array([4, 1])
    for repeats, rounds in ((True, 500), (False, 5)):
        start = np.zeros(5, np.int64)
        keep = np.array([0.7])
        found = search_bounded_schedule(matrix, loss, keep, start, least, most, repeats=repeats)
        others = [np.roll([1, 0, 0, 0, 0], n) for n in range(5)]
        best = min(schedule_loss(world, other, rounds) for other in others)
        assert schedule_loss(world, found, rounds) <= best + (0.5 if repeats else 1e-9)


def test_shares_that_no_number_of_rounds_has_are_refused(refused):
    shares = require_shares({"a": (0.15, 0.19)}, ["a", "b"])
    with refused(InvalidInput, "5 rounds", "'a'", "more rounds"):
        count_rounds(shares, 5, ("a", "b"))
    narrow = Shares(np.full(3, 0.32), np.full(3, 0.35))
    with refused(InvalidInput, "4 rounds"):
        count_rounds(narrow, 4, ("a", "b", "c"))


@given(seed=st.integers(0, 2**32 - 1))
def test_no_schedule_with_such_shares_is_better_than_the_bound(seed):
    random = np.random.default_rng(seed)
    factor = random.normal(size=(3, 3))
    memory = random.uniform(0.1, 0.95)
    instance = ib.Instance(factor @ factor.T, random.normal(size=3), memory=memory)
    schedule = random.integers(0, 3, 12)
    mix = np.bincount(schedule, minlength=3) / 12
    bound = ib.fading_lower_bound(instance, 12, shares=Shares(mix, mix))
    loss = schedule_loss(instance, schedule, 12) / 12
    assert bound <= loss + 1e-9 * (1.0 + abs(loss))
    named = {str(arm): (share, share) for arm, share in enumerate(mix.tolist())}
    assert bound == ib.fading_lower_bound(instance, 12, shares=named)
    assert bound >= ib.fading_lower_bound(instance, 12) - 1e-9 * (1.0 + abs(bound))
