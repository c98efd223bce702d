"""Regressors of influence, controls and placebos against slow sums."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slow_regression import (
    model_of,
    one_by_one,
    random_log,
    slow_contrast,
    slow_pairs,
    units_of,
    weights_of,
)

from influential_bandits.learning import exposures
from influential_bandits.learning.exposures import (
    COARSE_PLACES,
    PLACES,
    Regressors,
    add_known_columns,
)
from influential_bandits.learning.kalman import KNOWN, Predictions
from influential_bandits.learning.placebo import find_first_exposures, find_later_exposures
from influential_bandits.learning.statistics.design import (
    DIAGONAL,
    SYMMETRIC,
    Design,
    event_columns,
    interaction_entries,
)

BASES = 3


def regressors_of(log, half_life=0.0, absorbed=False, placebo=False, seed=0, kind=SYMMETRIC):
    """Regressors of a log with random predictions, controls and placebos."""
    rng = np.random.default_rng(seed)
    size, model = len(log), model_of(log)
    predictions = Predictions(
        rng.normal(size=size), rng.uniform(1.0, 2.0, size), rng.normal(size=(size, KNOWN))
    )
    basis = np.stack([rng.integers(0, 2, size), np.full(size, 2)], 1).astype(np.int32)
    shared = rng.normal(size=(size, 2))
    before = KNOWN + log.n_arms * BASES + 2
    effects = rng.integers(-1, 3, size).astype(np.int32) if absorbed else np.zeros(0, np.int32)
    widest = int(np.diff(log.membership.offsets).max())
    return Regressors(
        Design(log.n_arms, kind, 0.8, half_life, before, 0.0, model.baseline),
        model.popularity,
        event_columns(log),
        predictions,
        basis,
        rng.normal(size=(size, 2)),
        BASES,
        shared,
        effects,
        rng.normal(size=(size, widest)) if placebo else np.zeros((0, 0)),
    )


def slow_rows(log, x):
    """Return all regressors of every event, and last its surprise."""
    w, arms, size = weights_of(log), log.n_arms, len(log)
    effects = np.zeros((size, arms, BASES))
    for n in range(size):
        for c in range(2):
            effects[n, :, x.basis[n, c]] += w[n] * x.value[n, c]
    parts = [w, x.predictions.known, effects.reshape(size, -1), x.shared]
    pairs = slow_pairs(log, x.popularity, x.design.memory, x.design.half_life)
    if x.design.kind == DIAGONAL:
        pairs = pairs[:, [i == j for i, j in interaction_entries(SYMMETRIC, arms)]]
    parts.append(pairs)
    if len(x.per_arm):
        per_arm = np.zeros((size, arms))
        table = log.membership
        for n in range(size):
            low, high = table.offsets[log.item[n]], table.offsets[log.item[n] + 1]
            per_arm[n, table.arm[low:high]] = table.weight[low:high] * x.per_arm[n, : high - low]
        parts.append(per_arm)
    return np.hstack([*parts, x.predictions.surprise[:, None]])


@given(
    st.integers(0, 10**6),
    st.booleans(),
    st.sampled_from([0.0, 4e4]),
    st.integers(1, 3),
    st.booleans(),
    st.booleans(),
    st.sampled_from([SYMMETRIC, DIAGONAL]),
)
@settings(max_examples=50)
def test_gram_and_scores_are_those_of_the_formulas(
    seed, several, half_life, blocks, absorbed, placebo, kind
):
    log = random_log(seed, several=several)
    x = regressors_of(log, half_life, absorbed, placebo, seed, kind)
    units = units_of(log, blocks)
    rows, variances = slow_rows(log, x), x.predictions.variance
    if absorbed:  # an effect takes out weighted means, and events without one have no say
        variances = np.where(x.absorbed < 0, np.inf, variances)
        for effect in range(3):
            here = x.absorbed == effect
            if here.any():
                rows[here] -= np.average(rows[here], axis=0, weights=1.0 / variances[here])
    tasks = [(n, n + 1) for n in range(len(units.order))]
    gram, means = exposures.gather_gram(x, units, one_by_one, tasks)
    np.testing.assert_allclose(gram, rows.T @ (rows / variances[:, None]), atol=1e-8)
    coefficients = np.random.default_rng(seed).normal(size=rows.shape[1] - 1)
    scores = exposures.gather_scores(x, units, coefficients, means, one_by_one, tasks)
    expected = np.zeros_like(scores)
    for first, u in zip(units.first, units.order, strict=True):
        length = int(log.lengths[u])
        for n in range(length):
            event = log.offsets[u] + n
            z, y = rows[event, :-1], rows[event, -1]
            residual = (y - coefficients @ z) / variances[event]
            expected[first + n * blocks // length] += residual * z
    np.testing.assert_allclose(scores, expected, atol=1e-8)


def test_contrasts_sum_to_zero_over_arms():
    log = random_log(1, several=False)
    pairs = slow_pairs(log, model_of(log).popularity)
    np.testing.assert_allclose(pairs.sum(1), 0.0, atol=1e-12)


def slow_own(log, time, popularity, half_life, others=None):
    """Return x_i of every event of arm i less its mean so far; of the arms that others met."""
    out = np.zeros(len(log))
    w = weights_of(log)
    for u, (low, high) in enumerate(zip(log.offsets[:-1], log.offsets[1:], strict=True)):
        xs = []
        for n in range(high - low):
            if others is None:
                met, times = w[low : low + n], time[low : low + n]
            else:
                start, end = log.offsets[others[u]], log.offsets[others[u] + 1]
                before = time[start:end] < time[low + n]
                met, times = w[start:end][before], time[start:end][before]
            clock = np.append(times, time[low + n])
            xs.append(slow_contrast(met, len(met), popularity, 0.8, half_life, clock))
            (i,) = np.flatnonzero(w[low + n])
            past = w[low : low + n, i] > 0
            if past.any():
                out[low + n] = xs[n][i] - np.mean([xs[k][i] for k in np.flatnonzero(past)])
    return out


@pytest.mark.parametrize("half_life", [0.0, 4e4])
def test_first_showings_have_what_comes_after_them_and_repeats_have_nothing(half_life):
    log = random_log(2, instances=3, several=False)
    x = regressors_of(log, half_life)
    found = find_first_exposures(x, 1)[:, 0]
    w, expected = weights_of(log), np.zeros(len(log))
    for low, high in zip(log.offsets[:-1], log.offsets[1:], strict=True):
        for n in range(low, high):
            (i,) = np.flatnonzero(w[n])
            if not w[low:n, i].any():
                later = np.arange(high - 1, n, -1)
                clock = -np.append(log.time[later], log.time[n])
                each = slow_contrast(w[later], len(later), x.popularity, 0.8, half_life, clock)
                expected[n] = each[i]
    np.testing.assert_allclose(found, expected, atol=1e-12)
    assert 0 < (found != 0.0).sum() < len(log) / 2


@pytest.mark.parametrize("half_life", [0.0, 4e4])
def test_own_later_and_others_exposures_are_those_of_the_formulas(half_life):
    log = random_log(2, instances=3, several=False)
    x = regressors_of(log, half_life)
    common = (x.design, x.popularity)
    own = exposures.find_self_exposures(*common, x.events, 1, True)[:, 0]
    np.testing.assert_allclose(own, slow_own(log, log.time, x.popularity, half_life), atol=1e-12)
    partner = np.array([1, 2, 0])
    others = exposures.find_partner_exposures(*common, x.events, partner, 1)[:, 0]
    slow = slow_own(log, log.time, x.popularity, half_life, partner)
    np.testing.assert_allclose(others, slow, atol=1e-12)
    backwards = np.concatenate(
        [
            np.arange(b - 1, a - 1, -1)
            for a, b in zip(log.offsets[:-1], log.offsets[1:], strict=True)
        ]
    )
    turned = type(log)(
        np.repeat(np.arange(3), log.lengths),
        log.item[backwards],
        log.loss[backwards],
        time=-log.time[backwards],
        membership=log.membership,
    )
    later = np.empty(len(log))
    later[backwards] = slow_own(turned, turned.time, x.popularity, half_life)
    np.testing.assert_allclose(find_later_exposures(x, 1)[:, 0], later, atol=1e-12)


def test_all_showings_together_fade_by_the_clock():
    log = random_log(3, instances=2, several=False)
    found = exposures.total_exposures(event_columns(log), np.array([3e4]))[:, 0]
    for low, high in zip(log.offsets[:-1], log.offsets[1:], strict=True):
        totals = [(2.0 ** (-(log.time[n] - log.time[low:n]) / 3e4)).sum() for n in range(low, high)]
        for n in range(1, high - low):
            assert found[low + n] == pytest.approx(totals[n] - np.mean(totals[:n]))


def test_every_prediction_has_a_column_by_arm_and_by_place():
    log = random_log(3)
    x = regressors_of(log)
    more = add_known_columns(x)
    known = x.predictions.known / np.sqrt((x.predictions.known**2).mean(0))
    np.testing.assert_allclose(more.value[:, -KNOWN:], known)
    np.testing.assert_array_equal(more.value[:, :-KNOWN], x.value)
    assert (more.basis[:, -KNOWN:] == x.n_bases + np.arange(KNOWN)).all()
    added = more.shared[:, x.shared.shape[1] :]
    places, along = added[:, : PLACES - 1], added[:, PLACES - 1 :]
    assert along.shape[1] == KNOWN * (COARSE_PLACES - 1)
    firsts = log.offsets[:-1][log.lengths > 0]
    np.testing.assert_array_equal(added[firsts], 0.0)  # what others differ from
    assert ((places >= 0.0) & (places <= 1.0)).all()
    assert (places.sum(1) <= 1.0 + 1e-12).all()
    columns = x.design.n_arms * KNOWN + added.shape[1]
    assert more.design.controls == x.design.controls + columns
    for k in range(KNOWN):
        each = along[:, k * (COARSE_PLACES - 1) : (k + 1) * (COARSE_PLACES - 1)]
        far = places[:, -1] == 1.0  # at the last mark, both sets of hats are one
        np.testing.assert_allclose(each[far].sum(1), known[far, k])
