"""Sufficient statistics of many instances against dense formulas, in rationals where it matters.

Statistical tests use fixed seeds; each would fail for a right estimator with probability 1e-6.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
from event_logs import (
    KINDS,
    UNIT,
    entries_of,
    logs,
    logs_and_designs,
    random_log,
    seeds,
    slow_regression,
    weights_of,
)
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from influential_bandits.datasets.synthetic import synthetic_log
from influential_bandits.learning import pooling
from influential_bandits.learning.design import Design, Kind, events_of
from influential_bandits.learning.pooling import (
    RandomEffects,
    arm_means,
    chunks,
    instance_effects,
    instance_scores,
    pooled_gram,
    random_effects,
)
from influential_bandits.logs.log import EventLog
from influential_bandits.logs.membership import Membership

effects = st.builds(
    RandomEffects,
    st.sampled_from([1e-6, 0.01, 1.0, 30.0, 1e6]),
    st.sampled_from([0.0, 1e-3, 1.0, 1e4]),
    st.just(1.0),
)


def solved(matrix, right):
    """Solve a linear system over the rationals by elimination."""
    n = len(matrix)
    table = [[*row, *extra] for row, extra in zip(matrix, right, strict=True)]
    for k in range(n):
        pivot = next(i for i in range(k, n) if table[i][k])
        table[k], table[pivot] = table[pivot], table[k]
        table[k] = [x / table[k][k] for x in table[k]]
        for i in range(n):
            if i != k and table[i][k]:
                factor = table[i][k]
                table[i] = [x - factor * y for x, y in zip(table[i], table[k], strict=True)]
    return [row[n:] for row in table]


def rational(matrix):
    return [[Fraction(x) for x in row] for row in np.asarray(matrix).tolist()]


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
    means = arm_means(log.parts(5), log.n_arms)
    w = weights_of(log)
    never = ~w.any(axis=0)
    w[:, never] = 1.0
    weight = np.maximum(w.sum(axis=0), 1e-300)
    size = np.abs(log.loss) @ w / weight
    # Sums over the events, and over the arms where they stand for all events.
    allowed = 4 * (log.n_events + log.n_arms + 2) * UNIT * size
    assert (np.abs(means - log.loss @ w / weight) <= allowed).all()


def test_arm_means_of_no_events():
    assert (arm_means([random_log(0, 2, [0, 0])], 2) == 0.0).all()
    assert (arm_means([], 3) == 0.0).all()


# Variance components


def first_arms(log):
    table = log.membership
    return table.arm[table.offsets[log.item]]


def groups(log):
    """Return the instance and the cell (instance and arm) of each event."""
    who = np.repeat(np.arange(log.n_instances), log.lengths)
    cells = {}
    what = [cells.setdefault(key, len(cells)) for key in zip(who, first_arms(log), strict=True)]
    return np.unique(who, return_inverse=True)[1], np.array(what, int)


def averaging(labels):
    """The projection that replaces every number by the mean of its group."""
    same = labels[:, None] == labels[None, :]
    return same / same.sum(axis=1)


class AnalysisOfVariance:
    """Henderson's first method as quadratic forms yᵀQy of dense matrices."""

    def __init__(self, log):
        who, what = groups(log)
        n = len(who)
        cells, instances, everyone = averaging(what), averaging(who), np.full((n, n), 1 / n)
        self.cell = 1.0 * (what[:, None] == what)  # covariances of the three components
        self.instance = 1.0 * (who[:, None] == who)
        within, between, across = np.eye(n) - cells, cells - instances, instances - everyone
        self.degrees = [round(np.trace(form)) for form in (within, between, across)]
        self.scales = [self.degrees[0], np.sum(between * self.cell), np.sum(across * self.instance)]
        self.defined = min(self.degrees) > 0 and self.scales[1] > 1e-9
        if self.defined:
            self.taken = np.sum(across * self.cell) / self.scales[2]  # of arm's, from common's
            self.noise = within / self.scales[0]
            self.arm = (between - self.degrees[1] * self.noise) / self.scales[1]
            self.common = (across - self.degrees[2] * self.noise) / self.scales[2]
            self.common -= self.taken * self.arm


@given(logs(min_instances=2))
def test_random_effects(log):
    assume(log.n_events > 0)
    forms = AnalysisOfVariance(log)
    assume(forms.defined)
    baseline = np.linspace(-1, 1, log.n_arms)
    ours = random_effects(log.parts(9), baseline)
    y = log.loss - baseline[first_arms(log)]
    noise = y @ forms.noise @ y
    assume(noise > 1e-6)
    arm, common = y @ forms.arm @ y, y @ forms.common @ y
    if arm < 0.0:  # it is set to 0, and nothing is taken off the levels for it
        common += forms.taken * arm
    # A sum of squares is off by the rounding of n terms, and each estimate takes up what the ones
    # before it were off by.
    squares = 20 * log.n_events * UNIT * (y @ y)
    error = squares / forms.scales[0]
    assert abs(ours.noise - noise) <= error
    relative = 2 * error / noise
    error = (squares + forms.degrees[1] * error) / forms.scales[1]
    assert abs(ours.arm - max(arm / noise, 1e-6)) <= error / noise + relative * ours.arm
    error = forms.taken * error + (squares + forms.degrees[2] * noise * relative) / forms.scales[2]
    assert abs(ours.common - max(common / noise, 0.0)) <= error / noise + relative * ours.common


def test_forms_are_unbiased():
    """The dense formulas themselves: yᵀQy has the mean trace(QV) for y of covariance V."""
    forms = AnalysisOfVariance(random_log(5, 3, [9, 4, 7, 12]))
    parts = (np.eye(len(forms.cell)), forms.cell, forms.instance)
    means = [[np.sum(q * v) for v in parts] for q in (forms.noise, forms.arm, forms.common)]
    assert np.abs(np.array(means) - np.eye(3)).max() <= 1e-12


def margin(form, spread):
    """Bound |yᵀQy − mean| for y ~ N(0, V), with probability 1 − 1e-6 (Laurent and Massart)."""
    root = np.linalg.cholesky(spread)
    values = np.linalg.eigvalsh(root.T @ ((form + form.T) / 2) @ root)
    t = math.log(2e6)
    return 2 * math.sqrt(t * (values @ values)) + 2 * t * np.abs(values).max()


@pytest.mark.parametrize(("spread", "level"), [(0.8, 0.0), (0.5, 0.7)])
def test_planted_variances_are_recovered(spread, level):
    """Unbalanced: histories of 2 to 17 events, arms of different popularity."""
    log = synthetic_log(
        30,
        2 + 3 * (np.arange(30) % 6),
        arms=3,
        initial_loss=[1.0, 2.0, -1.0],
        popularity=[0.6, 0.3, 0.1],
        noise=0.5,
        spread=spread,
        seed=7,
    ).take(np.arange(30))
    levels = np.random.default_rng(0).normal(size=30) * level
    log.loss[:] += np.repeat(levels, log.lengths)
    ours = random_effects([log], np.array([1.0, 2.0, -1.0]))
    forms = AnalysisOfVariance(log)
    truth = 0.25 * np.eye(log.n_events) + spread**2 * forms.cell + level**2 * forms.instance
    assert abs(ours.noise - 0.25) <= margin(forms.noise, truth) < 0.25
    assert abs(ours.arm * ours.noise - spread**2) <= margin(forms.arm, truth)
    assert abs(ours.common * ours.noise - level**2) <= margin(forms.common, truth)


def test_random_effects_of_degenerate_logs():
    one_arm = random_effects([random_log(0, 1, [5, 6, 7])], np.zeros(1))
    assert one_arm.arm == 1e-6  # instances of one arm do not say what differs between arms
    assert one_arm.common > 0.0
    one_instance = random_effects([random_log(0, 3, [12])], np.zeros(3))
    assert one_instance.common == 0.0
    nothing = random_effects([random_log(0, 2, [0, 0])], np.zeros(2))
    assert nothing == (1e-6, 0.0, 0.0)
    assert random_effects([], np.zeros(2)) == nothing


def test_noise_is_never_negative():
    log = random_log(0, 1, [3])
    log.loss[:] = 0.1
    assert random_effects([log], np.zeros(1)).noise >= 0.0


# Pooled statistics


def slow_pooled(log, design, variances):
    """Return Σ G − G_lᵀ(N + Ω)⁻¹G_l, and a bound of the rounding errors there and in the kernel."""
    arms = design.arms
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
    ours = pooled_gram([log], design, variances, threads=1)
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
    ours = pooled_gram([log], design, variances, threads=1)
    expected, allowed = slow_pooled(log, design, variances)
    assert allowed.max() < 1e-8 * np.abs(expected).max()
    assert (np.abs(ours - expected) <= allowed).all()


def test_both_paths_agree():
    """An item of several arms that nobody met sends the same events the general way."""
    log = random_log(4, 3, [8, 5, 0, 12])
    table = log.membership
    items = {name: list(table.weights(name)) for name in table.items} | {"both": table.arms[:2]}
    general = EventLog._of_sorted(
        log.instances,
        log.offsets,
        log.item,
        log.loss,
        log.time,
        Membership(items, table.arms),
        {},
    )
    assert not general.membership.single
    for kind in KINDS:
        design = Design(3, kind, 1.0, 0.0, 1, 0.5, np.zeros(3))
        variances = RandomEffects(0.7, 0.2, 1.0)
        allowed = slow_pooled(log, design, variances)[1]
        one = pooled_gram([log], design, variances, threads=1)
        two = pooled_gram([general], design, variances, threads=1)
        assert (np.abs(one - two) <= allowed).all()


@pytest.mark.parametrize("single", [True, False])
def test_threads_do_not_change_a_bit(single, monkeypatch):
    monkeypatch.setattr(pooling, "CHUNK", 40)
    log = random_log(2, 4, [11, 0, 30, 7, 50, 12, 0, 23] * 5, single=single)
    assert len(chunks(log)) > 10
    design = Design(4, Kind.SYMMETRIC, 0.9, 0.0, 1, 0.5, np.zeros(4))
    variances = RandomEffects(0.5, 0.1, 1.0)
    one, two, three = (
        pooled_gram([log], design, variances, threads=threads).tobytes() for threads in (1, 2, 3)
    )
    assert one == two == three


@given(logs(max_arms=1), st.integers(1, 15))
@settings(max_examples=30)
def test_chunks_cover_all_instances(log, size):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pooling, "CHUNK", size)
        ranges = chunks(log)
    assert [u for low, high in ranges for u in range(low, high)] == list(range(log.n_instances))
    for low, high in ranges:
        assert high - low == 1 or log.offsets[high] - log.offsets[low] <= size


def test_chunks_are_as_large_as_they_may_be(monkeypatch):
    monkeypatch.setattr(pooling, "CHUNK", 10)
    log = random_log(0, 2, [5, 5, 0, 6, 5, 11, 1, 0])
    assert chunks(log) == [(0, 3), (3, 4), (4, 5), (5, 6), (6, 8)]


@pytest.mark.parametrize("single", [True, False])
def test_order_and_division_of_instances_do_not_matter(single):
    log = random_log(6, 3, [5, 12, 0, 7, 3, 9], single=single)
    design = Design(3, Kind.FREE, 0.9, 0.0, 1, 0.5, np.zeros(3))
    variances = RandomEffects(0.5, 2.0, 1.0)
    allowed = 2 * slow_pooled(log, design, variances)[1]
    one = pooled_gram([log], design, variances, threads=1)
    turned = pooled_gram([log.take([4, 0, 5, 2, 1, 3])], design, variances, threads=1)
    parted = pooled_gram(log.parts(10), design, variances, threads=1)
    assert (np.abs(one - turned) <= allowed).all()
    assert (np.abs(one - parted) <= allowed).all()


@pytest.mark.parametrize("single", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_order_of_arms_permutes_coefficients(kind, single):
    log = random_log(8, 4, [9, 0, 12, 5], single=single)
    order = [2, 0, 3, 1]  # what was arm order[k] is arm k
    table = log.membership
    items = {name: list(table.weights(name)) for name in table.items}
    names = [table.arms[i] for i in order]
    other = EventLog._of_sorted(
        log.instances, log.offsets, log.item, log.loss, log.time, Membership(items, names), {}
    )
    baseline = np.array([0.5, -1.0, 2.0, 0.0])
    design = Design(4, kind, 0.9, 0.0, 1, 0.5, baseline)
    variances = RandomEffects(0.5, 2.0, 1.0)
    allowed = 2 * slow_pooled(log, design, variances)[1]
    one = pooled_gram([log], design, variances, threads=1)
    two = pooled_gram([other], design._replace(baseline=baseline[order]), variances, threads=1)
    old = {frozenset(spots): n for n, spots in enumerate(entries_of(kind, 4))}
    moved = [
        5 + old[frozenset((order[i], order[j]) for i, j in spots)] for spots in entries_of(kind, 4)
    ]
    new = [*order, 4, *moved, design.size]
    assert (np.abs(two - one[np.ix_(new, new)]) <= allowed[np.ix_(new, new)]).all()


def test_no_events_have_no_statistics():
    design = Design(2, Kind.SYMMETRIC, 1.0, 0.0, 0, 0.0, np.zeros(2))
    for parts in ([], [random_log(0, 2, [0, 0])], [random_log(0, 2, [0], single=False)]):
        assert (pooled_gram(parts, design, RandomEffects(1.0, 1.0, 1.0)) == 0.0).all()


# Instances


@given(logs(), effects, seeds)
def test_instance_effects_are_best_predictions(log, variances, seed):
    """B = VWᵀ(I + WVWᵀ)⁻¹r with V = arm·I + common·11ᵀ, in rational arithmetic."""
    log = log.take(np.arange(min(log.n_instances, 2)))
    residual = np.random.default_rng(seed).normal(size=log.n_events)
    ours = np.full((log.n_instances, log.n_arms), np.nan)
    instance_effects(events_of(log), residual, variances.arm, variances.common, ours)
    V = np.array(covariance(log.n_arms, variances), object)
    for u in range(log.n_instances):
        part = slice(log.offsets[u], log.offsets[u + 1])
        w = weights_of(log)[part]
        if len(w) == 0:
            assert (ours[u] == 0.0).all()
            continue
        W = np.array(rational(w), object)
        r = np.array(rational(residual[part, None]), object)
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
    instance_scores(design, events_of(log), residual, design.size, ours)
    for u in range(log.n_instances):
        x, magnitude, rounding = slow_regression(design, log, u)
        r = residual[log.offsets[u] : log.offsets[u + 1]]
        size = np.abs(before[u]) + np.abs(r) @ magnitude[:, :-1]
        allowed = (rounding + 2 * (len(x) + 2) * UNIT) * size
        assert (np.abs(ours[u] - (before[u] + r @ x[:, :-1])) <= allowed).all()
