"""The second opinion of a plan: four regressors beside the model's own, against dense algebra."""

import numpy as np
import pytest

import influential_bandits as ib
from influential_bandits.learning.logging_policy import describe_logged
from influential_bandits.learning.model_misfit import (
    change_memory,
    count_roots,
    measure_misfit,
    own_exposures,
)
from influential_bandits.learning.models import InfluenceModel
from influential_bandits.learning.plan_evidence import ModelJudge
from influential_bandits.learning.plan_search import Candidate
from influential_bandits.learning.statistics.random_effects import estimate_random_effects

TIRING = np.array([[0.5, 0.1], [0.1, 0.2]])


def draw(instances=40, events=15, **settings):
    settings = {"interaction": TIRING, "memory": 0.8, "spread": 0.5, "seed": 1} | settings
    return ib.data.synthetic_log(instances, events, 2, **settings)


def exposures(log, u, left):
    """How often each arm was met before each event; ``left`` is of an earlier one at a later."""
    first, last = log.offsets[u], log.offsets[u + 1]
    out = np.zeros((last - first, 2))
    for n in range(first, last):
        for m in range(first, n):
            out[n - first, log.item[m]] += left(n, m)
    return out


def dense_regressors(log, memory, half_life, matrix):
    """The model's own regressors and the four others, in plain Python, instance by instance."""
    for u in range(log.n_instances):
        first, last = log.offsets[u], log.offsets[u + 1]
        arm = log.item[first:last]
        met = []
        for power in (1.0, 0.25, 4.0):
            if half_life is None:
                kept = memory**power
                met.append(exposures(log, u, lambda n, m, kept=kept: kept ** (n - m - 1)))
            else:
                life = 86400.0 * half_life / power
                met.append(
                    exposures(
                        log, u, lambda n, m, life=life: 0.5 ** ((log.time[n] - log.time[m]) / life)
                    )
                )
        own, longer, shorter = (each[np.arange(len(arm)), arm] for each in met)
        one, counts = np.eye(2)[arm], met[0]
        pairs = [  # A_00, A_10 = A_01, A_11
            one[:, 0] * counts[:, 0],
            one[:, 0] * counts[:, 1] + one[:, 1] * counts[:, 0],
            one[:, 1] * counts[:, 1],
        ]
        mine = np.column_stack([one, *pairs])
        bent = (matrix[arm] * np.sqrt(counts)).sum(axis=1)
        yield one, mine, np.column_stack([longer, shorter, own**2, bent]), log.loss[first:last]


@pytest.mark.parametrize("half_life", [None, 2.0])
def test_the_coefficients_are_those_of_generalised_least_squares(half_life):
    """With the covariance of random initial losses written out, and errors by instance."""
    fading = {"memory": 0.8} if half_life is None else {"memory": 1.0, "half_life_days": half_life}
    log = draw(**fading)
    how = 0.8 if half_life is None else ib.Fading(half_life=24 * half_life)
    model = InfluenceModel("symmetric", pooling="full", fading=how).fit(log)
    free = model.unconstrained_population_
    found = measure_misfit(log, model.design_, free)
    matrix = np.array([[free[2], free[3]], [free[3], free[4]]])
    regressors = list(dense_regressors(log, 0.8, half_life, matrix))
    left = log.loss - np.concatenate([x @ free for _, x, _, _ in regressors])
    effects = estimate_random_effects(log, model.design_.baseline, left)
    gram, right, parts = np.zeros((9, 9)), np.zeros(9), []
    for one, x, z, y in regressors:
        inverse = np.linalg.inv(np.eye(len(y)) + effects.arm * one @ one.T + effects.common)
        both = np.column_stack([x, z])
        gram += both.T @ inverse @ both
        right += both.T @ inverse @ y
        parts.append((both.T @ inverse, both, y))
    whole = np.linalg.solve(gram, right)
    np.testing.assert_allclose(found.coefficients, whole[5:], rtol=1e-5)
    meat = sum(np.outer(w @ (y - b @ whole), w @ (y - b @ whole)) for w, b, y in parts)
    bread = np.linalg.inv(gram)
    expected = (bread @ meat @ bread)[5:, 5:] * 40 / (40 - 9)
    np.testing.assert_allclose(found.covariance, expected, rtol=1e-4)
    means = np.concatenate([z for _, _, z, _ in regressors]).mean(axis=0)
    np.testing.assert_allclose(found.logged, means, rtol=1e-9)


@pytest.mark.parametrize("memory", [0.5, 0.9])
@pytest.mark.parametrize("by_clock", [False, True])
def test_the_exposures_of_a_plan_are_those_of_playing_it(memory, by_clock):
    schedule = np.array([0, 0, 1, 2, 0])
    own, totals = own_exposures(schedule, np.zeros(3), memory, by_clock, 23)
    arms = np.resize(schedule, 23)
    for n, kept in enumerate((memory**0.25, memory**4, memory)):
        met = np.zeros((23, 3))
        for t in range(23):
            for s in range(t):
                met[t, arms[s]] += kept ** (t - s if by_clock else t - s - 1)
        mine = met[np.arange(23), arms] ** (2 if n == 2 else 1)
        assert own[n] == pytest.approx(mine.mean(), rel=1e-9)
        assert totals[n] == pytest.approx(met.sum(axis=1).mean(), rel=1e-9)
    roots = np.array([np.sqrt(met[arms == i]).sum(axis=0) / 23 for i in range(3)])
    found = count_roots(schedule, np.zeros(3), memory, by_clock, 23)
    np.testing.assert_allclose(found, roots, rtol=1e-9)


def test_where_nothing_fades_other_memories_do():
    assert change_memory(1.0) == (0.95, 0.8)
    longer, shorter = change_memory(0.5)
    assert (longer, shorter) == (0.5**0.25, 0.5**4)


def test_without_an_order_the_mix_is_met_at_random():
    own, totals = own_exposures(None, np.array([0.5, 0.5]), 1.0, False, 10)
    assert totals[2] == pytest.approx(4.5)
    assert own[0] == pytest.approx(0.5 * totals[0])
    roots = count_roots(None, np.array([0.5, 0.5]), 1.0, False, 10)
    np.testing.assert_allclose(roots, 0.5 * np.sqrt(0.5 * np.arange(10)).mean())


def test_a_richer_model_adds_what_its_regressors_say():
    """Beyond what the model's own regressors say of them; the log's own loss is known anyhow."""
    log = draw(60)
    model = InfluenceModel("symmetric", fading=0.8, pooling="full").fit(log)
    misfit = measure_misfit(log, model.design_, model.unconstrained_population_)
    free = model.unconstrained_population_
    logged = describe_logged(model.design_, free, log)
    judge = ModelJudge(model.design_.kind, 2, free, model.population_covariance_, logged, misfit)
    mix, own = np.array([0.3, 0.7]), np.array([2.0, 1.0, 5.0])
    pairs, past = np.array([[0.2, 0.3], [0.4, 1.1]]), float(logged.shuffled.sum())
    roots = np.array([[0.1, 0.3], [0.2, 0.6]])
    met = own, misfit.totals[:3], roots
    what = Candidate(np.array([0, 1, 1]), mix, pairs, past, *met)
    own = np.append(own, (roots * judge.interaction).sum())
    plain, richer = judge.judge(what), judge.judge_richer(what)
    plan = np.array([0.3, 0.7, 0.2, 0.7, 1.1])
    more = -own + plan @ misfit.explained
    assert richer.gain - plain.gain == pytest.approx(more @ misfit.coefficients, rel=1e-9)
    expected = more @ misfit.covariance @ more
    assert richer.variance - plain.variance == pytest.approx(expected, rel=1e-9)
    assert judge._replace(misfit=None).judge_richer(what) == plain


def test_too_few_instances_have_no_second_opinion():
    log = draw(8)
    model = InfluenceModel("symmetric", fading=0.8, pooling="full").fit(log)
    assert measure_misfit(log, model.design_, model.unconstrained_population_) is None


def test_influence_that_saturates_is_seen():
    """By the fourth regressor, four standard errors from zero; none is in a log without it."""
    clear = []
    for power in (1.0, 0.5):
        random = np.random.default_rng(5)
        past, events = np.zeros((300, 2)), []
        for n in range(40):
            arm = random.integers(2, size=300)
            met = 2.0 * (past / 2.0) ** power
            loss = (2.0 * TIRING[arm] * met).sum(axis=1) + random.standard_normal(300)
            events += [(u, n, str(arm[u]), loss[u]) for u in range(300)]
            past = 0.8 * past
            past[np.arange(300), arm] += 1.0
        user, time, arms, losses = zip(*events, strict=True)
        log = ib.EventLog(user, arms, losses, time=time)
        model = InfluenceModel("symmetric", fading=0.8, pooling="full").fit(log)
        found = measure_misfit(log, model.design_, model.unconstrained_population_)
        clear.append(np.abs(found.coefficients) / np.sqrt(np.diag(found.covariance)))
    assert clear[0].max() < 3.0
    assert clear[1][3] > 4.0
