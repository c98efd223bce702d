"""What a loss may depend on, event by event, against the closed forms written out."""

import numpy as np
import pytest
from event_logs import (
    HOUR,
    KINDS,
    UNIT,
    entries_of,
    logs_and_designs,
    random_log,
    seeds,
    slow_regression,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from influential_bandits import EventLog
from influential_bandits.learning.statistics.design import (
    SYMMETRIC,
    Design,
    as_matrix,
    event_columns,
    history_gram,
    interaction_entries,
    interaction_size,
    place,
    predict_histories,
    predict_losses,
)

# Coefficients


@pytest.mark.parametrize("arms", [1, 2, 5])
@pytest.mark.parametrize("kind", KINDS)
def test_labels_places_and_matrices_agree(kind, arms):
    labels, entries = interaction_entries(kind, arms), entries_of(kind, arms)
    assert interaction_size(kind, arms) == len(labels) == len(entries)
    numbers = 1.0 + np.arange(2 * len(labels)).reshape(2, -1)
    matrices = as_matrix(kind, arms, numbers)
    assert matrices.shape == (2, arms, arms)
    expected = np.zeros((2, arms, arms))
    for n, (label, spots) in enumerate(zip(labels, entries, strict=True)):
        assert label == spots[0]
        for i, j in spots:
            assert place(kind, i, j) == n
            expected[:, i, j] = numbers[:, n]
    assert (matrices == expected).all()


def test_matrices_of_no_leading_axes():
    assert (as_matrix(SYMMETRIC, 2, np.array([1.0, 2.0, 3.0])) == [[1, 2], [2, 3]]).all()


@pytest.mark.parametrize(("kind", "size"), list(zip(KINDS, [4, 7, 10], strict=True)))
def test_size_counts_initial_losses_controls_and_interaction(kind, size):
    assert Design(3, kind, 1.0, 0.0, 1, 0.5, np.zeros(3)).size == size


# Regressors


def gram(design, log, u):
    out = np.full((design.size + 1,) * 2, np.nan)  # whatever is there is to be overwritten
    history_gram(design, event_columns(log), u, out)
    return out


@given(logs_and_designs())
@settings(max_examples=150)
def test_gram_matrix(log_and_design):
    log, design = log_and_design
    for u in range(log.n_instances):
        x, magnitude, rounding = slow_regression(design, log, u)
        ours = gram(design, log, u)
        assert (ours == ours.T).all()
        # Both factors of a product are rounded, and a sum of n products n times more, twice.
        allowed = (2 * rounding + 2 * (len(x) + 2) * UNIT) * (magnitude.T @ magnitude)
        assert (np.abs(ours - x.T @ x) <= allowed).all()


@given(logs_and_designs(), seeds)
def test_predictions(log_and_design, seed):
    log, design = log_and_design
    coefficients = np.random.default_rng(seed).normal(size=(log.n_instances, design.size))
    everything = np.full(log.n_events, np.nan)
    nothing = np.full(design.size, np.nan)
    predict_histories(design, event_columns(log), coefficients, nothing, everything)
    for u in range(log.n_instances):
        x, magnitude, rounding = slow_regression(design, log, u)
        part = slice(log.offsets[u], log.offsets[u + 1])
        allowed = (rounding + 2 * design.size * UNIT) * (
            magnitude[:, :-1] @ np.abs(coefficients[u])
        )
        assert (np.abs(everything[part] - x[:, :-1] @ coefficients[u]) <= allowed).all()


@given(logs_and_designs(), seeds)
def test_predictions_with_shared_coefficients(log_and_design, seed):
    log, design = log_and_design
    random = np.random.default_rng(seed)
    shared, own = random.normal(size=design.size), random.integers(0, design.size + 1)
    coefficients = np.tile(shared, (log.n_instances, 1))
    coefficients[:, :own] = random.normal(size=(log.n_instances, own))
    whole = predict_losses(log, design, coefficients)
    assert (predict_losses(log, design, coefficients[:, :own], shared) == whole).all()
    coefficients[:] = shared
    assert (predict_losses(log, design, shared) == predict_losses(log, design, coefficients)).all()


@given(seeds, st.sampled_from(KINDS), st.booleans())
@settings(max_examples=20)
def test_predictions_do_not_look_ahead(seed, kind, single):
    log = random_log(seed, 3, [9], single=single)
    design = Design(3, kind, 0.9, 0.0, 1, 0.5, np.zeros(3))
    coefficients = np.random.default_rng(seed).normal(size=(1, design.size))
    whole, beginning = np.empty(9), np.empty(5)
    predict_histories(design, event_columns(log), coefficients, coefficients[0], whole)
    changed = event_columns(log.without_last(events=4))
    last = np.arange(5) == 4  # the last known, and so in the future of all predictions
    changed = changed._replace(loss=changed.loss + last)
    predict_histories(design, changed, coefficients, coefficients[0], beginning)
    assert (whole[:5] == beginning).all()


@pytest.mark.parametrize("single", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_without_times_memory_goes_by_events(kind, single):
    log = random_log(3, 3, [6, 5], single=single)
    timeless = event_columns(log)._replace(time=np.zeros(0))
    design = Design(3, kind, 0.5, 0.0, 0, 0.0, np.zeros(3))
    out = np.empty((design.size + 1,) * 2)
    history_gram(design, timeless, 1, out)
    assert (out == gram(design, log, 1)).all()


def test_an_example_by_hand():
    """Arms 0, 1, 0 with losses 1, 2, 4; memory ½ makes d (0, 0), (1, 0), (½, 1)."""
    log = EventLog(["u"] * 3, ["0", "1", "0"], [1.0, 2.0, 4.0])
    design = Design(2, SYMMETRIC, 0.5, 0.0, 1, 0.75, np.array([2.0, 1.0]))
    # Surprises −1 and 1; the level is 0, then −¼, then −¾·¼ + ¼·1 = 1/16.
    x = np.array(
        [
            # l1[0], l1[1], level, A00, A10, A11, loss
            [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0],
            [0.0, 1.0, -0.25, 0.0, 1.0, 0.0, 2.0],
            [1.0, 0.0, 0.0625, 0.5, 1.0, 0.0, 4.0],
        ]
    )
    assert (gram(design, log, 0) == x.T @ x).all()
    design = design._replace(half_life=12 * HOUR)
    clock = [0.0, 12 * HOUR, 24 * HOUR]
    log = EventLog(["u"] * 3, ["0", "1", "0"], [1.0, 2.0, 4.0], clock)
    x[:, 3:5] = [[0.0, 0.0], [0.0, 0.5], [0.25, 0.5]]
    assert (gram(design, log, 0) == x.T @ x).all()
