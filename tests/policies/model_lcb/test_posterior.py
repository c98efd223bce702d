"""The posterior over (l1, A) in square-root form against dense regression, and over 10⁷ updates."""

import math
import random
from fractions import Fraction

import numba
import numpy as np
import pytest
from dense_posterior import feature, named_unknowns, posterior, prior_variances

from influential_bandits.policies.model_lcb.policy import AFRESH
from influential_bandits.policies.model_lcb.posterior import (
    absorb,
    learn,
    move,
    place,
    predict,
    project,
    respread,
    unknowns,
)

CLOSE = {"rtol": 1e-9, "atol": 1e-11}


@pytest.mark.parametrize("arms", range(1, 8))
def test_every_unknown_has_a_place_of_its_own(arms):
    names = named_unknowns(arms)
    assert unknowns(arms) == len(names) == arms + arms * (arms + 1) // 2
    for i in range(arms):
        assert names[unknowns(i)] == ("l1", i)
        for j in range(arms):
            assert names[place(i, j)] == ("A", max(i, j), min(i, j))


def test_a_new_arm_moves_no_unknown():
    assert named_unknowns(6)[: unknowns(5)] == named_unknowns(5)


class Learner:
    """The arrays that the kernels work on, and the same facts as plain lists."""

    def __init__(self, arms, memory, loss, influence, seed):
        self.arms, self.memory, self.draw = arms, memory, np.random.default_rng(seed)
        self.variances = prior_variances(arms, loss, influence, influence)
        size = unknowns(arms)
        self.root, self.theta = np.diag(np.sqrt(self.variances)), np.zeros(size)
        self.spread, self.variance = np.zeros((size, arms)), np.zeros(arms)
        self.weights = np.zeros(arms)
        respread(self.root, self.weights, self.spread, self.variance)
        self.features, self.losses, self.waiting = [], [], []

    def pull(self):
        arm = int(self.draw.integers(self.arms))
        self.waiting.append((arm, self.weights.copy()))
        self.weights *= self.memory
        self.weights[arm] += 1.0
        move(self.root, self.memory, arm, self.spread, self.variance)

    def hear(self):
        """One of the losses under way, whichever; return what `learn` says and the exact truth."""
        arm, weights = self.waiting.pop(self.draw.integers(len(self.waiting)))
        phi, loss = feature(self.arms, arm, weights), self.draw.normal(scale=3.0)
        before = self.exactly()
        truth = loss - phi @ before.mean, 1.0 + phi @ before.covariance @ phi
        self.features.append(phi)
        self.losses.append(loss)
        said = learn(self.root, self.theta, weights, arm, loss, self.spread, self.variance)
        return said, truth

    def exactly(self):
        return posterior(self.features, self.losses, np.diag(self.variances))


SEQUENCES = [
    (arms, memory, late)
    for arms in range(1, 6)
    for memory, late in ((1.0, 0), (1.0, 7), (0.9, 0), (0.7, 7))
]


@pytest.mark.long
@pytest.mark.parametrize(("arms", "memory", "late"), SEQUENCES)
def test_learning_loss_by_loss_is_dense_regression(arms, memory, late):
    learner = Learner(arms, memory, loss=2.0, influence=0.5, seed=arms + late)
    rss = volume = 0.0
    for t in range(60):
        learner.pull()
        if len(learner.waiting) > late or random.Random(t).random() < 0.3:
            (surprise, alpha), truth = learner.hear()
            np.testing.assert_allclose((surprise, alpha), truth, **CLOSE)
            rss += surprise**2 / alpha
            volume += np.log(alpha)
        exact = learner.exactly()
        np.testing.assert_allclose(learner.theta, exact.mean, **CLOSE)
        np.testing.assert_allclose(learner.root.T @ learner.root, exact.covariance, **CLOSE)
        now = [feature(arms, i, learner.weights) for i in range(arms)]
        np.testing.assert_allclose(
            learner.variance, [phi @ exact.covariance @ phi for phi in now], **CLOSE
        )
        np.testing.assert_allclose(
            learner.spread, np.column_stack([learner.root @ phi for phi in now]), **CLOSE
        )
        means = [predict(learner.theta, learner.weights, i) for i in range(arms)]
        np.testing.assert_allclose(means, [phi @ exact.mean for phi in now], **CLOSE)
        assert (np.triu(learner.root, 1) == 0.0).all()
        assert (np.diag(learner.root) > 0.0).all()
    assert len(learner.losses) > 40
    np.testing.assert_allclose((rss, volume), (exact.rss, exact.volume), **CLOSE)


@pytest.mark.parametrize("arms", [1, 2, 4])
def test_a_spread_computed_afresh_is_the_one_that_was_followed(arms):
    learner = Learner(arms, 0.97, loss=1.0, influence=1.0, seed=arms)
    for _ in range(200):
        learner.pull()
        learner.hear()
    followed, variance = learner.spread.copy(), learner.variance.copy()
    respread(learner.root, learner.weights, learner.spread, learner.variance)
    np.testing.assert_allclose(followed, learner.spread, **CLOSE)
    np.testing.assert_allclose(variance, learner.variance, **CLOSE)


@pytest.mark.parametrize("known", [1, 2, 3])
def test_counts_of_arms_that_came_later_are_zero(known):
    """The memo of a pull is as long as there were arms then."""
    learner = Learner(4, 1.0, loss=1.0, influence=1.0, seed=known)
    weights = np.arange(1.0, 1.0 + known)
    padded = np.append(weights, np.zeros(4 - known))
    for arm in range(4):
        for row in range(unknowns(4)):
            short = project(learner.root, row, weights, arm)
            assert short == project(learner.root, row, padded, arm)
        assert predict(learner.theta, weights, arm) == predict(learner.theta, padded, arm)
    twin = Learner(4, 1.0, loss=1.0, influence=1.0, seed=known)
    learn(learner.root, learner.theta, weights, known - 1, 2.0, learner.spread, learner.variance)
    learn(twin.root, twin.theta, padded, known - 1, 2.0, twin.spread, twin.variance)
    assert np.array_equal(learner.root, twin.root)
    assert np.array_equal(learner.theta, twin.theta)


def test_taking_in_nothing_changes_nothing():
    root = np.tril(np.random.default_rng(0).normal(size=(5, 5)))
    before = root.copy()
    assert absorb(root, np.zeros(5), np.empty(5)) == 1.0
    assert np.array_equal(root, before)


# Ten million updates. Choices, noise and (l1, A) are whole numbers, so that the exact posterior is
# known: sums of whole numbers, and elimination in fractions.

LOSS = (3, -5, 2)
INTERACTION = ((2, -1, 1), (-1, 3, 0), (1, 0, 2))


@numba.njit
def many_updates(rounds, arms, matrix, initial_loss, root, theta, spread, variance, naive):
    """Play by the kernels alone; ``naive`` is P itself, updated as P − (Pφ)(Pφ)ᵀ/(1 + φᵀPφ).

    Return x, and in which round the naive one first had a negative variance (0: never).
    """
    size = theta.size
    x, phi, gain = np.zeros(arms), np.zeros(size), np.zeros(size)
    broken = 0
    for t in range(1, rounds + 1):
        arm, noise = choice_and_noise(t, arms)
        loss = initial_loss[arm] + noise
        phi[:] = 0.0
        phi[unknowns(arm)] = 1.0
        for j in range(arms):
            loss += matrix[arm, j] * x[j]
            phi[place(arm, j)] = x[j]
        learn(root, theta, x, arm, loss, spread, variance)
        x[arm] += 1.0
        if t % AFRESH == 0:
            respread(root, x, spread, variance)
        else:
            move(root, 1.0, arm, spread, variance)
        if broken == 0:
            alpha = 1.0
            for a in range(size):
                gain[a] = 0.0
                for b in range(size):
                    gain[a] += naive[a, b] * phi[b]
                alpha += phi[a] * gain[a]
            for a in range(size):
                for b in range(size):
                    naive[a, b] -= gain[a] * gain[b] / alpha
            for a in range(size):
                if not naive[a, a] > 0.0:
                    broken = t
            if not alpha >= 1.0:
                broken = t
    return x, broken


@numba.njit
def choice_and_noise(t, arms):
    """Arms in a fixed rhythm, so that counts stay near a ray: the worst that a mix can do."""
    bits = (t * 0x9E3779B97F4A7C15) & 0xFFFFFFFF
    bits ^= bits >> 15
    arm = t % 4 if t % 4 < arms else 0
    return arm, (bits >> 3) % 7 - 3


@numba.njit
def pulls_of(rounds, arms):
    chosen, noise = np.zeros(rounds, np.int64), np.zeros(rounds, np.int64)
    for t in range(1, rounds + 1):
        chosen[t - 1], noise[t - 1] = choice_and_noise(t, arms)
    return chosen, noise


def exact_sum(numbers):
    """Σ of int64 below 2⁵³ in size, in Python's whole numbers."""
    full = len(numbers) // 1024 * 1024
    pieces = numbers[:full].reshape(-1, 1024).sum(axis=1)
    return sum(pieces.tolist()) + sum(numbers[full:].tolist())


def exact_equations(rounds, arms):
    """Λ and Σφ·loss over all pulls, as whole numbers."""
    names = named_unknowns(arms)
    chosen, noise = pulls_of(rounds, arms)
    ones = chosen[:, None] == np.arange(arms)
    x = np.cumsum(ones, axis=0, dtype=np.int64) - ones
    gram = [[0] * len(names) for _ in names]
    moments = [0] * len(names)
    for arm in range(arms):
        mine = ones[:, arm]
        loss = LOSS[arm] + noise[mine] + x[mine] @ np.array(INTERACTION[arm][:arms])
        columns = {("l1", arm): np.ones(mine.sum(), np.int64)}
        for j in range(arms):
            columns["A", max(arm, j), min(arm, j)] = x[mine, j]
        for name, column in columns.items():
            row = names.index(name)
            moments[row] += exact_sum(column * loss)
            for other, second in columns.items():
                gram[row][names.index(other)] += exact_sum(column * second)
    return gram, moments


def solved_exactly(matrix, *sides):
    """Gauss-Jordan in fractions; return the solutions, and the logarithm of the determinant."""
    size, logarithm = len(matrix), 0.0
    rows = [
        [Fraction(v) for v in matrix[r]] + [Fraction(side[r]) for side in sides]
        for r in range(size)
    ]
    for r in range(size):
        pivot = rows[r][r]
        assert pivot > 0  # the matrix is positive definite
        logarithm += math.log(pivot)
        rows[r] = [v / pivot for v in rows[r]]
        for other in range(size):
            by = rows[other][r]
            if other != r and by:
                rows[other] = [v - by * w for v, w in zip(rows[other], rows[r], strict=True)]
    return [[rows[r][size + n] for r in range(size)] for n in range(len(sides))], logarithm


def product(first, second):
    return float(sum(Fraction(a) * Fraction(b) for a, b in zip(first, second, strict=True)))


@pytest.mark.long
@pytest.mark.parametrize(("arms", "rounds"), [(2, 10**7), (3, 10**6)])
def test_ten_million_updates_leave_it_definite_and_right(arms, rounds):
    """Rounding errors of n updates add up like a random walk, to about √n·u of |root|·|φ|.

    The same updates of the covariance itself, in the textbook's form, lose a positive diagonal.
    """
    size = unknowns(arms)
    root, theta, naive = np.eye(size), np.zeros(size), np.eye(size)
    spread, variance = np.zeros((size, arms)), np.zeros(arms)
    respread(root, np.zeros(arms), spread, variance)
    matrix = np.array(INTERACTION, float)[:arms, :arms]
    initial_loss = np.array(LOSS, float)[:arms]
    x, broken = many_updates(
        rounds, arms, matrix, initial_loss, root, theta, spread, variance, naive
    )
    assert 0 < broken < rounds
    assert np.isfinite(root).all()
    assert (np.triu(root, 1) == 0.0).all()
    assert (np.diag(root) > 0.0).all()
    eigenvalues = np.linalg.svd(root, compute_uv=False) ** 2
    assert (eigenvalues > 0.0).all()

    gram, moments = exact_equations(rounds, arms)
    for k in range(size):
        gram[k][k] += 1  # the prior
    features = [feature(arms, i, x) for i in range(arms)]
    (mean, *columns), logarithm = solved_exactly(gram, moments, *features)
    walk = 10.0 * math.sqrt(rounds) * 2.0**-53
    assert -2.0 * np.log(np.diag(root)).sum() == pytest.approx(logarithm, abs=1e-3)
    for i, phi in enumerate(features):
        deviation = math.sqrt(product(phi, columns[i]))
        lost = walk * np.linalg.norm(np.abs(root) @ phi)
        assert math.sqrt(variance[i]) == pytest.approx(deviation, abs=lost, rel=1e-6)
        off = predict(theta, x, i) - product(phi, mean)
        assert abs(off) < 0.01 * deviation  # so rounding hides nothing that noise does not
