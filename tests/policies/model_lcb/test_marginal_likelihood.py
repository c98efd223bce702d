"""The choice of ModelLCB's prior: marginal likelihoods against dense algebra and densities."""

import math

import numpy as np
import pytest
import scipy.stats
from dense_posterior import (
    feature,
    posterior,
    prior_covariance,
    ray_covariance,
    ray_feature,
)

from influential_bandits.policies.model_lcb import marginal_likelihood as evidence
from influential_bandits.policies.model_lcb.belief import EVIDENCE
from influential_bandits.policies.model_lcb.belief import MEMORIES as CANDIDATES
from influential_bandits.policies.model_lcb.marginal_likelihood import (
    LARGEST,
    MOST_TIED,
    MOST_TRIALS,
    NONE,
    RAY,
    climb,
    evaluate,
)
from influential_bandits.policies.model_lcb.posterior import learn, respread, unknowns

MEMORIES = (1.0, 0.9, 0.5)
CLOSE = {"rtol": 1e-8, "atol": 1e-8}


def prior_of(arms, choice, *, ray=False):
    """D, written out."""
    _, *scales, loss_tie, influence_tie = choice
    make = ray_covariance if ray else prior_covariance
    return make(arms, *(2.0**scale for scale in scales), loss_tie, influence_tie)


class Play:
    """Random pulls in a world, kept as sums for both kinds of features, and as plain lists."""

    def __init__(self, arms, rounds, seed, influence=1.0, memory=0, noise=1.0):
        draw = np.random.default_rng(seed)
        half = draw.normal(size=(arms, arms))
        self.arms, self.interaction = arms, influence * half @ half.T / arms
        triangle = (arms + 1) * (arms + 2) // 2
        self.gram = np.zeros((arms, triangle * len(MEMORIES)))
        self.moments = np.zeros((arms, (arms + 1) * len(MEMORIES)))
        self.ray_gram, self.ray_moments = np.zeros((arms, 6)), np.zeros((arms, RAY))
        self.pulls, self.losses, self.squares = [], [], 0.0
        initial_loss, x = draw.normal(size=arms), np.zeros((len(MEMORIES), arms))
        for _ in range(rounds):
            arm = int(draw.integers(arms))
            loss = initial_loss[arm] + self.interaction[arm] @ x[memory] + noise * draw.normal()
            self.add(arm, x, loss)
            x *= np.array(MEMORIES)[:, None]
            x[:, arm] += 1.0

    def add(self, arm, x, loss):
        """Keep the loss of an arm pulled at counts x (memories, arms)."""
        weights = x.T.ravel().copy()
        evidence.add_exact(self.gram, self.moments, arm, weights, len(MEMORIES), loss)
        others = x[0].sum() - x[0, arm]
        evidence.add_ray(self.ray_gram, self.ray_moments, arm, x[0, arm], others, loss)
        self.pulls.append((arm, x.copy()))
        self.losses.append(loss)
        self.squares += loss * loss

    def features(self, memory, *, ray=False):
        if ray:
            return [ray_feature(self.arms, arm, x[0]) for arm, x in self.pulls]
        return [feature(self.arms, arm, x[memory]) for arm, x in self.pulls]

    def densely(self, choice, *, ray=False):
        features = self.features(choice[0], ray=ray)
        return posterior(features, self.losses, prior_of(self.arms, choice, ray=ray))

    def arrays(self, *, ray=False):
        """What `evaluate` and `climb` take: sums, memories, and room to work in."""
        size = RAY if ray else unknowns(self.arms)
        room = np.full((size, size), np.nan), np.full(size, np.nan)
        no_prior = np.zeros((0, 0)), np.zeros(0)
        if ray:
            return (self.ray_gram, self.ray_moments, *no_prior, 0), room
        return (self.gram, self.moments, *no_prior, 3), room

    def evaluated(self, choice, *, ray=False):
        sums, room = self.arrays(ray=ray)
        return evaluate(*sums, self.squares, np.array(choice), *room)

    def support(self, choice, *, ray=False):
        sums, room = self.arrays(ray=ray)
        seen = len(self.losses)
        return evidence.support(*sums, self.squares, seen, np.array(choice), *room)

    def climbed(self, start, *, ray=False, fixed=False, most=MOST_TRIALS):
        sums, room = self.arrays(ray=ray)
        choice = np.array(start)
        best = climb(*sums, self.squares, len(self.losses), fixed, most, choice, *room)
        return best, tuple(choice.tolist())


START = (0, 0, -1, -1, 0, 0)
CHOICES = [
    START,
    (1, 3, 2, 4, 0, 0),
    (2, -2, -5, -9, 0, 0),
    (0, 2, -1, -3, 2, 0),
    (1, 0, 3, 1, 1, 2),
]


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("arms", range(1, 6))
def test_volume_and_rss_of_exact_features_are_those_of_dense_regression(arms, choice):
    play = Play(arms, 50, seed=arms, memory=choice[0])
    truth = play.densely(choice)
    np.testing.assert_allclose(play.evaluated(choice), (truth.volume, truth.rss), **CLOSE)


@pytest.mark.parametrize("choice", [(0, *scales) for _, *scales in CHOICES])
@pytest.mark.parametrize("arms", [1, 2, 7])
def test_volume_and_rss_of_ray_features_are_those_of_dense_regression(arms, choice):
    play = Play(arms, 50, seed=arms)
    truth = play.densely(choice, ray=True)
    np.testing.assert_allclose(play.evaluated(choice, ray=True), (truth.volume, truth.rss), **CLOSE)


@pytest.mark.parametrize("ray", [False, True], ids=["exact", "ray"])
def test_the_evidence_is_the_density_of_the_losses(ray):
    """p(losses | choice, σ) is normal; over the prior 1/σ² of σ², ∝ |D|^−½|Λ + D⁻¹|^−½·rss^(−n/2).

    The marginal over σ is approached by Student's t with ever fewer degrees of freedom: with ν of
    them, the density is ∝ |V|^−½·(1 + yᵀV⁻¹y/ν)^(−(ν+n)/2), V = I + ΦDΦᵀ.
    """
    play = Play(3, 30, seed=1)
    y, differences = np.array(play.losses), []
    untied = [START, (0, 3, 2, 4, 0, 0), (0, -2, -5, -9, 0, 0), (0, 0, NONE, NONE, 0, 0)]
    tied = [(0, 1, -1, -3, 1, 2), (0, 0, NONE, NONE, 2, 0)]
    for choice in untied if ray else untied + tied:
        phi = np.array(play.features(0, ray=ray))
        shape = np.eye(len(y)) + phi @ prior_of(3, choice, ray=ray) @ phi.T
        volume, rss = play.evaluated(choice, ray=ray)
        assert volume == pytest.approx(np.linalg.slogdet(shape)[1], rel=1e-9)
        assert rss == pytest.approx(y @ np.linalg.solve(shape, y), rel=1e-8)
        student = scipy.stats.multivariate_t(None, 1e-9 * shape, df=1e-9).logpdf(y)
        differences.append(student + 0.5 * (volume + len(y) * math.log(rss)))
    np.testing.assert_allclose(differences, differences[0], rtol=0, atol=1e-6)


def neighbours(choice, *, fixed=False, ray=False):
    scales = ((1,),) if fixed else ((1,), (2, 3), (3,))
    for moved in scales if ray else (*scales, (4,), (5,)):
        for up in (-1, 1):
            step = up if moved[0] >= 4 else 2 * up
            other = [number + step * (k in moved) for k, number in enumerate(choice)]
            if max(map(abs, other)) <= LARGEST and all(0 <= t <= MOST_TIED for t in other[4:]):
                yield tuple(other)


@pytest.mark.parametrize("ray", [False, True], ids=["exact", "ray"])
@pytest.mark.parametrize("fixed", [False, True])
def test_no_neighbour_is_better_where_the_climb_ends(ray, fixed):
    for seed in range(10):
        influence, start = 4.0 ** (seed - 5), START
        play = Play(3, 60, seed=seed, influence=influence)
        best, end = play.climbed(start, ray=ray, fixed=fixed, most=10_000)
        assert best == play.support(end, ray=ray)
        assert best >= play.support(start, ray=ray)
        if fixed:
            assert end[2:4] == start[2:4]
        around = neighbours(end, fixed=fixed, ray=ray)
        assert all(best >= play.support(other, ray=ray) for other in around)


def test_a_climb_stops_after_so_many_trials():
    play = Play(2, 200, seed=0)
    _, far = play.climbed((0, 20, -1, -1, 0, 0), fixed=True, most=10_000)
    _, near = play.climbed((0, 20, -1, -1, 0, 0), fixed=True, most=2)
    assert far[1] < 16 <= near[1]


def test_scales_stay_in_their_range():
    play = Play(2, 100, seed=0, influence=1e12, noise=1e-12)
    _, end = play.climbed(START, most=10_000)
    assert max(map(abs, end)) <= LARGEST


def prefers_no_influence(play):
    best, end = play.climbed(START)
    return play.support((0, end[1], NONE, NONE, end[4], 0)) > best


def test_no_influence_is_preferred_where_there_is_none_and_only_there():
    """Of 40 worlds with A = 0 nearly all; of 40 in which A moves losses far beyond noise, none."""
    still = [prefers_no_influence(Play(3, 200, seed=s, influence=0.0)) for s in range(40)]
    assert sum(still) >= 36
    moved = [prefers_no_influence(Play(3, 1000, seed=s, influence=0.5)) for s in range(40)]
    assert not any(moved)


def alike(arms, rounds, seed):
    """A world whose arms differ by little in l1, and pulls that move nothing."""
    play = Play(arms, 0, seed)
    draw = np.random.default_rng(seed)
    levels, x = 5.0 + 0.1 * draw.normal(size=arms), np.zeros((len(MEMORIES), arms))
    for _ in range(rounds):
        arm = int(draw.integers(arms))
        play.add(arm, x, levels[arm] + draw.normal())
        x *= np.array(MEMORIES)[:, None]
        x[:, arm] += 1.0
    return play


def test_arms_that_are_alike_are_tied_and_others_are_not():
    """Levels of 5 ± 0.1 σ are tied in all of 20 worlds; levels of 0 ± σ in 2 of 20 at most."""
    close = [alike(5, 200, seed).climbed(START)[1][4] for seed in range(20)]
    assert min(close) > 0
    apart = [Play(5, 200, seed, influence=0.0).climbed(START)[1][4] for seed in range(20)]
    assert sum(tie > 0 for tie in apart) <= 2


def test_the_weights_of_fading_candidates_are_what_the_test_of_memory_pays_for():
    """EVIDENCE is odds of 100, times 50 for σ within e^50, times the sum of exp(−odds)."""
    steps = range(-LARGEST, LARGEST + 1, 2)
    total = sum(
        math.exp(-evidence._reluctance(a) - evidence._reluctance(b) - evidence._reluctance(d))
        for a in steps
        for b in steps
        for d in steps
    )
    tied = sum(math.exp(-evidence._tie_odds(k)) for k in range(MOST_TIED + 1))
    assert 100.0 * 50.0 * ((len(CANDIDATES) - 1) * total * tied**2) <= EVIDENCE


@pytest.mark.parametrize("arms", range(1, 6))
def test_the_posterior_from_sums_is_the_one_learned_loss_by_loss(arms):
    choice = np.array((1, 2, -3, -4, 0, 0))
    play = Play(arms, 80, seed=arms)
    size = unknowns(arms)
    sums, (factor, solved) = play.arrays()
    volume, rss = evaluate(*sums, play.squares, choice, factor, solved)
    root, theta = np.full((size, size), np.nan), np.full(size, np.nan)
    root[np.triu_indices(size, 1)] = 0.0  # what lies above the diagonal is never touched
    evidence.invert(factor, solved, root, theta)

    step_root = np.sqrt(prior_covariance(arms, 2.0**2, 2.0**-3, 2.0**-4))
    step_theta, spread, variance = np.zeros(size), np.zeros((size, arms)), np.zeros(arms)
    respread(step_root, np.zeros(arms), spread, variance)
    step_volume = step_rss = 0.0
    for (arm, x), loss in zip(play.pulls, play.losses, strict=True):
        surprise, alpha = learn(step_root, step_theta, x[1], arm, loss, spread, variance)
        step_rss += surprise**2 / alpha
        step_volume += math.log(alpha)
    np.testing.assert_allclose(root, step_root, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(theta, step_theta, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose((volume, rss), (step_volume, step_rss), **CLOSE)


def test_rounding_leaves_a_positive_rss():
    """Without noise the fit is perfect: squares − explained is what rounding makes of it."""
    for seed in range(10):
        play = Play(2, 300, seed=seed, noise=0.0)
        _, rss = play.evaluated((0, LARGEST, LARGEST, LARGEST, 0, 0))
        assert 0.0 < rss <= 1e-9 * play.squares
