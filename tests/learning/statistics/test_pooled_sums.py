"""Sufficient statistics of many instances against dense formulas, in rationals where it matters.

Statistical tests use fixed seeds; each would fail for a right estimator with probability 1e-6.
"""

from fractions import Fraction
from functools import partial

import numpy as np
import pytest
import scipy.optimize
from event_logs import (
    KINDS,
    UNIT,
    logs,
    logs_and_designs,
    random_log,
    seeds,
    slow_regression,
    weights_of,
)
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from rational import rational, solved

from influential_bandits.learning.statistics.design import SYMMETRIC, Design, event_columns
from influential_bandits.learning.statistics.pooled_sums import (
    add_score_squares,
    arm_sums,
    effect_variances,
    instance_effects,
    instance_scores,
    pooled_gram,
)
from influential_bandits.learning.statistics.random_effects import (
    RandomEffects,
    _deviance,
    _gather_cells,
    estimate_random_effects,
)
from influential_bandits.learning.statistics.reduction import add_over_parts
from influential_bandits.logs.log import EventLog, make_sorted_log
from influential_bandits.logs.membership import Membership

effects = st.builds(
    RandomEffects,
    st.sampled_from([1e-6, 0.01, 1.0, 30.0, 1e6]),
    st.sampled_from([0.0, 1e-3, 1.0, 1e4]),
    st.just(1.0),
)


def rational_rows(matrix):
    return [rational(row) for row in matrix]


def identity(n):
    return [[Fraction(int(i == j)) for j in range(n)] for i in range(n)]


def covariance(arms, variances):
    """arm·I + common·11ᵀ."""
    arm, common = Fraction(variances.arm), Fraction(variances.common)
    return [[arm * int(i == j) + common for j in range(arms)] for i in range(arms)]


def precision(own, variances):
    """N + Ω, exactly."""
    arms = len(own)
    omega = solved(covariance(arms, variances), identity(arms))
    return [[Fraction(own[i, j]) + omega[i][j] for j in range(arms)] for i in range(arms)]


def condition(matrix, variances):
    """Return ‖M⁻¹‖ and the condition of M = N + Ω, where Ω is a difference of terms near 1/arm."""
    numbers = np.array(matrix, float)
    inverse = np.array(solved(matrix, identity(len(matrix))), float)
    size = np.linalg.norm(inverse, 2)
    return size, (np.linalg.norm(numbers, 2) + 2 / variances.arm) * size


# Means


@given(logs())
def test_arm_means(log):
    means = add_over_parts(partial(arm_sums, arms=log.n_arms), log.parts(5)).means
    w = weights_of(log)
    never = ~w.any(axis=0)
    w[:, never] = 1.0
    weight = np.maximum(w.sum(axis=0), 1e-300)
    size = np.abs(log.loss) @ w / weight
    # Sums over the events, and over the arms where they stand for all events.
    allowed = 4 * (log.n_events + log.n_arms + 2) * UNIT * size
    assert (np.abs(means - log.loss @ w / weight) <= allowed).all()


def test_arm_means_of_no_events():
    assert (arm_sums(random_log(0, 2, [0, 0]), 2).means == 0.0).all()
    assert add_over_parts(partial(arm_sums, arms=3), []) is None


# Variance components


def first_arms(log):
    table = log.membership
    return table.arm[table.offsets[log.item]]


def groups(log):
    """Return the instance and the cell (instance and arm) of each event."""
    who = np.repeat(np.arange(log.n_instances), log.lengths)
    cells = {}
    what = [cells.setdefault(key, len(cells)) for key in zip(who, first_arms(log), strict=True)]
    return who, np.array(what, int)


class TwoLevels:
    """Losses y ~ N(mean of the arm, σ²·(I + arm·[same cell] + common·[same instance])), densely."""

    def __init__(self, log, values):
        who, what = groups(log)
        self.y = values
        self.cell = 1.0 * (what[:, None] == what)
        self.instance = 1.0 * (who[:, None] == who)
        met = np.unique(first_arms(log))
        self.X = 1.0 * (first_arms(log)[:, None] == met)

    def marginal(self, arm, common):
        return np.eye(len(self.y)) + arm * self.cell + common * self.instance

    def deviance(self, arm, common):
        """Return −2·log-likelihood up to a constant, means and σ² at their best, and that σ²."""
        V = self.marginal(arm, common)
        right = np.linalg.solve(V, self.X)
        left = self.y - self.X @ np.linalg.solve(self.X.T @ right, right.T @ self.y)
        noise = left @ np.linalg.solve(V, left) / len(left)
        return len(left) * np.log(noise) + np.linalg.slogdet(V)[1], noise

    def least(self):
        """Return the least deviance, from many starts, variances between e⁻¹⁴ and e⁶."""
        starts = [(a, b) for a in (-12.0, -3.0, 0.0, 3.0) for b in (-12.0, -3.0, 0.0, 3.0)]
        best = min(starts, key=lambda x: self.deviance(*np.exp(x))[0])
        found = scipy.optimize.minimize(
            lambda x: self.deviance(*np.exp(x))[0],
            best,
            method="L-BFGS-B",
            bounds=[(-14.0, 6.0)] * 2,
        )
        return min(found.fun, self.deviance(*np.exp(best))[0])

    def errors(self, noise, arm, common):
        """Return standard errors of noise, arm's and common's variance: the Fisher information.

        ½·tr(V⁻¹V_jV⁻¹V_k) of V = noise·I + arm·cell + common·instance, variances all absolute.
        """
        inverse = np.linalg.inv(noise * self.marginal(arm / noise, common / noise))
        ways = [inverse, inverse @ self.cell, inverse @ self.instance]
        information = [[0.5 * np.sum(one * other.T) for other in ways] for one in ways]
        return np.sqrt(np.diag(np.linalg.inv(information)))


@given(
    logs(min_instances=2),
    st.sampled_from([1e-6, 0.01, 1.0, 30.0]),
    st.sampled_from([0.0, 1e-3, 1.0, 30.0]),
)
def test_the_deviance_is_that_of_the_dense_likelihood(log, arm, common):
    baseline = np.linspace(-1, 1, log.n_arms)
    dense = TwoLevels(log, log.loss - baseline[first_arms(log)])
    assume(len(dense.y) > dense.X.shape[1])
    expected, noise = dense.deviance(arm, common)
    cells, squares = _gather_cells(event_columns(log), log.loss, baseline)
    assume(noise > 1e-6 * squares)
    ours = _deviance(cells, log.n_arms, squares, arm, common)
    # Sums of squares are subtracted that are as large as all of them; the means have a tiny ridge,
    # that matters as far as their normal equations are small.
    V = dense.marginal(arm, common)
    values = np.linalg.eigvalsh(dense.X.T @ np.linalg.solve(V, dense.X))
    ridge = 1e-12 * (1.0 + values[-1]) / values[0]
    rounding = 50 * len(V) * UNIT * np.linalg.cond(V) * values[-1] / values[0]
    relative = (ridge + rounding) * squares / (noise * len(V))
    assert abs(ours[1] - noise) <= relative * noise
    assert abs(ours[0] - expected) <= len(V) * (2 * relative + rounding)


@pytest.mark.parametrize("single", [True, False])
@pytest.mark.parametrize("seed", range(10))
def test_random_effects_of_more_instances_maximise_the_likelihood(seed, single):
    log = random_log(seed, 3, [9, 3, 12, 5, 1, 7, 10, 4], single=single)
    ours = estimate_random_effects(log, np.zeros(3))
    dense = TwoLevels(log, log.loss)
    # The search stops when the deviance changes by 1e-4, and a few times that before the top.
    assert dense.deviance(ours.arm, ours.common)[0] <= dense.least() + 1e-3


@given(logs(min_instances=2), seeds)
@settings(max_examples=30)
def test_residuals_take_the_place_of_losses(log, seed):
    assume(len(log) > 0)
    left = np.random.default_rng(seed).normal(size=len(log))
    found = estimate_random_effects(log, np.ones(log.n_arms), left)
    columns = (log.instances, log.offsets, log.item, left, None, log.membership)
    same = make_sorted_log(*columns, {})
    expected = estimate_random_effects(same, np.zeros(log.n_arms))
    assert found == expected


def test_the_baseline_does_not_matter():
    """The means of arms are profiled out."""
    log = random_log(3, 3, [9, 14, 6, 12, 8])
    one = estimate_random_effects(log, np.zeros(3))
    other = estimate_random_effects(log, np.array([5.0, -2.0, 1.0]))
    # Up to where the search stops: √(1e-4 · 2 / information) in logarithms, information ~ 1.
    np.testing.assert_allclose(other, one, rtol=2e-2, atol=1e-4)


PLANTED = [(0.8, 0.0, 0.0), (0.5, 0.7, 0.0), (0.5, 0.0, 2.0), (0.5, 0.7, 2.0)]


@pytest.mark.long
@pytest.mark.parametrize(("spread", "level", "steering"), PLANTED)
def test_planted_variances_are_recovered(spread, level, steering):
    """Unbalanced: histories of 2 to 32 events, arms of different popularity, or chosen by loss."""
    means = np.array([1.0, 2.0, -1.0])
    log = two_level_log(120, means, spread, level, steering, seed=7)
    ours = estimate_random_effects(log, means)
    dense = TwoLevels(log, log.loss)
    # With choices steered by past losses, the likelihood of the losses is the same product of
    # conditional densities, and so is its information at the truth, up to the choices met.
    errors = dense.errors(0.25, spread**2, level**2)
    found = np.array([ours.noise, ours.arm * ours.noise, ours.common * ours.noise])
    # Two-sided 1e-6 / 3 of a normal distribution. Maximum likelihood is too small by about one mean
    # of an arm in 120 instances, a tenth of an error.
    truth = np.array([0.25, spread**2, level**2])
    assert (np.abs(found - truth) <= (5.1 + 0.1) * errors).all(), (found - truth) / errors
    assert (errors[:2] < 0.25 * truth[:2]).all()  # so that the test says something


def two_level_log(instances, means, spread, level, steering, seed):
    """Losses of instances that differ by arm and in level; lower past means are chosen more."""
    random = np.random.default_rng(seed)
    who, arms, losses = [], [], []
    for u in range(instances):
        own = means + spread * random.normal(size=3) + level * random.normal()
        total, number = np.zeros(3), np.zeros(3)
        for _ in range(2 + 6 * (u % 6)):
            past = np.where(number > 0, total / np.maximum(number, 1), 0.0)
            odds = np.array([0.6, 0.3, 0.1]) * np.exp(-steering * past)
            arm = random.choice(3, p=odds / odds.sum())
            loss = own[arm] + 0.5 * random.normal()
            total[arm] += loss
            number[arm] += 1
            who.append(u)
            arms.append(arm)
            losses.append(loss)
    return EventLog(who, arms, losses, membership=Membership.of_arms(["0", "1", "2"]))


def test_instances_of_one_arm_differ_in_one_way():
    """Between arms or in level: only the sum of the two variances shows."""
    log = random_log(0, 1, [15, 6, 27, 12])
    ours = estimate_random_effects(log, np.zeros(1))
    dense = TwoLevels(log, log.loss)
    best = scipy.optimize.minimize_scalar(
        lambda x: dense.deviance(np.exp(x), 0.0)[0], bounds=(-14, 6), method="bounded"
    )
    assert dense.deviance(ours.arm + ours.common, 0.0)[0] <= best.fun + 1e-3
    assert ours.noise == pytest.approx(dense.deviance(ours.arm, ours.common)[1], rel=1e-9)


def test_random_effects_of_degenerate_logs():
    one_instance = estimate_random_effects(random_log(0, 3, [12]), np.zeros(3))
    assert one_instance.common == 0.0
    nothing = estimate_random_effects(random_log(0, 2, [0, 0]), np.zeros(2))
    assert nothing == (1e-6, 0.0, 0.0)


@pytest.mark.parametrize("value", [0.0, 0.1, -3.0, 1e6, 1e-9])
@pytest.mark.parametrize("baseline", [0.0, 0.1])
@pytest.mark.parametrize("lengths", [[3], [1], [4, 7, 1]])
def test_constant_losses_have_no_noise(value, baseline, lengths):
    log = random_log(0, 2, lengths)
    who = np.repeat(np.arange(len(lengths)), lengths)
    log = EventLog(who, log.item, np.full(len(log), value), membership=log.membership)
    found = estimate_random_effects(log, np.full(2, baseline))
    assert np.isfinite(found).all()
    # But for the tiny ridge of 1e-12 on the means, which keeps that share of the squares.
    assert 0.0 <= found.noise <= 1e-11 * (value - baseline) ** 2
    assert min(found) >= 0.0
    # From their means, nothing but the rounding of these is left.
    found = estimate_random_effects(log, arm_sums(log, 2).means)
    assert 0.0 <= found.noise <= (8 * len(log) * UNIT * value) ** 2


def test_one_event_has_finite_effects():
    log = random_log(2, 2, [1])
    assert np.isfinite(estimate_random_effects(log, np.zeros(2))).all()


# Pooled statistics


def slow_pooled(log, design, variances):
    """Return Σ G − G_lᵀ(N + Ω)⁻¹G_l, and a bound of the rounding errors there and in the kernel."""
    arms = design.n_arms
    total = np.zeros((design.size + 1,) * 2)
    allowed = np.zeros_like(total)
    for u in range(log.n_instances):
        x, magnitude, rounding = slow_regression(design, log, u)
        gram, size = x.T @ x, magnitude.T @ magnitude
        middle = precision(gram[:arms, :arms], variances)
        inverse = np.array(solved(middle, identity(arms)), float)
        total += gram - gram[:arms].T @ inverse @ gram[:arms]
        # Sums are over all events; solving with N + Ω loses its condition number.
        steps = rounding + 2 * (log.n_events + 2 * log.n_instances * arms + 10) * UNIT
        norm, lost = condition(middle, variances)
        rows = np.linalg.norm(size[:arms], axis=0)
        explained = norm * np.outer(rows, rows)
        allowed += 2 * steps * size + (4 * steps + 8 * arms * UNIT) * lost * explained
    return total, allowed


@pytest.mark.parametrize("single", [True, False])
@given(data=st.data(), variances=effects)
@settings(max_examples=150)
def test_pooled_gram(single, data, variances):
    log, design = data.draw(logs_and_designs(single=single))
    ours = pooled_gram([log], design, variances, execution=1)
    expected, allowed = slow_pooled(log, design, variances)
    assert (np.abs(ours - expected) <= allowed).all()
    # Halves are mirrored or added alike, up to the order of two factors.
    assert (np.abs(ours - ours.T) <= allowed).all()


@pytest.mark.parametrize("single", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_moderate_variances_lose_no_digits(kind, single):
    """Here the bound itself is near the rounding of the terms, and every entry is compared."""
    log = random_log(11, 4, [12, 0, 9, 1], single=single)
    design = Design(4, kind, 0.9, 0.0, 1, 0.5, np.array([0.5, -1.0, 2.0, 0.0]))
    variances = RandomEffects(0.5, 0.25, 1.0)
    ours = pooled_gram([log], design, variances, execution=1)
    expected, allowed = slow_pooled(log, design, variances)
    assert allowed.max() < 1e-8 * np.abs(expected).max()
    assert (np.abs(ours - expected) <= allowed).all()


@pytest.mark.parametrize(
    ("arms", "lengths"),
    [(3, [8, 5, 0, 12]), (12, [1, 3, 0, 2, 40, 2])],
    ids=["few arms", "many arms, of which most instances met few"],
)
def test_both_paths_agree(arms, lengths):
    """An item of several arms that nobody met sends the same events the general way."""
    log = random_log(4, arms, lengths)
    table = log.membership
    items = {name: list(table.weights(name)) for name in table.items}
    items |= {"both": table.arm_names[:2]}
    general = make_sorted_log(
        log.instances,
        log.offsets,
        log.item,
        log.loss,
        log.time,
        Membership(items, table.arm_names),
        {},
    )
    assert not general.membership.single
    for kind in KINDS:
        design = Design(arms, kind, 1.0, 0.0, 1, 0.5, np.zeros(arms))
        variances = RandomEffects(0.7, 0.2, 1.0)
        allowed = slow_pooled(log, design, variances)[1] if arms == 3 else 1e-10
        one = pooled_gram([log], design, variances, execution=1)
        two = pooled_gram([general], design, variances, execution=1)
        assert (np.abs(one - two) <= allowed).all()
        assert (one == one.T).all()


def test_squares_of_scores_are_added_whether_they_are_few_numbers_or_many():
    random = np.random.default_rng(0)
    scores = random.normal(size=(30, 40))
    scores[::3, 5:] = 0.0
    scores[7] = 0.0
    out = np.ones((40, 40))
    add_score_squares(scores.copy(), out)
    assert np.allclose(np.triu(out), np.triu(scores.T @ scores + 1.0), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("single", [True, False])
def test_threads_do_not_change_a_bit(single):
    log = random_log(2, 4, [11, 0, 30, 7, 50, 12, 0, 23] * 5, single=single)
    assert len(list(log.parts(40))) > 10
    design = Design(4, SYMMETRIC, 0.9, 0.0, 1, 0.5, np.zeros(4))
    variances = RandomEffects(0.5, 0.1, 1.0)
    one, two, three = (
        pooled_gram([log], design, variances, threads, chunk=40).tobytes() for threads in (1, 2, 3)
    )
    assert one == two == three


def test_chunks_are_as_large_as_they_may_be():
    log = random_log(0, 2, [5, 5, 0, 6, 5, 11, 1, 0])
    assert [part.n_instances for part in log.parts(10)] == [3, 1, 1, 1, 2]


def test_no_events_have_no_statistics():
    design = Design(2, SYMMETRIC, 1.0, 0.0, 0, 0.0, np.zeros(2))
    for parts in ([], [random_log(0, 2, [0, 0])], [random_log(0, 2, [0], single=False)]):
        assert (pooled_gram(parts, design, RandomEffects(1.0, 1.0, 1.0)) == 0.0).all()


# Instances


@given(logs(), effects, seeds)
def test_instance_effects_are_best_predictions(log, variances, seed):
    """B = VWᵀ(I + WVWᵀ)⁻¹r with V = arm·I + common·11ᵀ, in rational arithmetic."""
    log = log.take(np.arange(min(log.n_instances, 2)))
    residual = np.random.default_rng(seed).normal(size=log.n_events)
    ours = np.full((log.n_instances, log.n_arms), np.nan)
    instance_effects(event_columns(log), residual, variances.arm, variances.common, ours)
    V = np.array(covariance(log.n_arms, variances), object)
    for u in range(log.n_instances):
        part = slice(log.offsets[u], log.offsets[u + 1])
        w = weights_of(log)[part]
        if len(w) == 0:
            assert (ours[u] == 0.0).all()
            continue
        W = np.array(rational_rows(w), object)
        r = np.array(rational_rows(residual[part, None]), object)
        marginal = np.array(identity(len(w)), object) + W @ V @ W.T
        expected = (V @ W.T @ np.array(solved(marginal.tolist(), r.tolist()), object))[:, 0]
        norm, lost = condition(precision(w.T @ w, variances), variances)
        steps = 4 * (len(w) + log.n_arms + 10) * UNIT
        allowed = steps * lost * norm * np.linalg.norm(w.T @ np.abs(residual[part]))
        assert np.linalg.norm(ours[u] - expected.astype(float)) <= allowed


@given(logs_and_designs(), seeds)
def test_instance_scores(log_and_design, seed):
    log, design = log_and_design
    random = np.random.default_rng(seed)
    residual = random.normal(size=log.n_events)
    before = random.normal(size=(log.n_instances, design.size))
    ours = before.copy()
    instance_scores(design, event_columns(log), residual, design.size, ours)
    for u in range(log.n_instances):
        x, magnitude, rounding = slow_regression(design, log, u)
        r = residual[log.offsets[u] : log.offsets[u + 1]]
        size = np.abs(before[u]) + np.abs(r) @ magnitude[:, :-1]
        allowed = (rounding + 2 * (len(x) + 2) * UNIT) * size
        assert (np.abs(ours[u] - (before[u] + r @ x[:, :-1])) <= allowed).all()


@given(logs_and_designs(), effects, seeds)
@settings(max_examples=60)
def test_effect_variances(log_and_design, variances, seed):
    """Arm by arm: what own events leave open of b, and the errors of β that b does not take up."""
    log, design = log_and_design
    random = np.random.default_rng(seed)
    root = random.normal(size=(design.size, design.size))
    shared, noise, spread = root @ root.T, 0.7, variances.arm + variances.common
    ours = np.full((log.n_instances, design.n_arms), np.nan)
    effect_variances(design, event_columns(log), spread, noise, shared, design.size, ours)
    for u in range(log.n_instances):
        x, magnitude, rounding = slow_regression(design, log, u)
        w = weights_of(log)[log.offsets[u] : log.offsets[u + 1]]
        for i in range(design.n_arms):
            share = 1.0 / (w[:, i] @ w[:, i] + 1.0 / spread)
            row = np.eye(design.size)[i] - share * (w[:, i] @ x[:, :-1])
            size = np.eye(design.size)[i] + share * (w[:, i] @ magnitude[:, :-1])
            expected = noise**2 * share + row @ shared @ row
            allowed = noise**2 * share + size @ np.abs(shared) @ size
            steps = 2 * rounding + 4 * (len(x) + design.size + 10) * UNIT
            assert abs(ours[u, i] - expected) <= steps * allowed
