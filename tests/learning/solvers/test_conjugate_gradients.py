"""The pooled fit without its matrix, against the equations written out."""

import numpy as np
import pytest
from event_logs import designs, logs, random_log
from hypothesis import given, settings
from hypothesis import strategies as st

from influential_bandits import InfluenceModel, LocalExecution
from influential_bandits.data import synthetic_log
from influential_bandits.learning.solvers import conjugate_gradients
from influential_bandits.learning.solvers.conjugate_gradients import (
    PooledEquations,
    suits_iteration,
)
from influential_bandits.learning.solvers.penalised import penalty_weights
from influential_bandits.learning.solvers.pooled import fit_pooled_population
from influential_bandits.learning.statistics.design import SYMMETRIC, Design
from influential_bandits.learning.statistics.pooled_sums import pooled_gram
from influential_bandits.learning.statistics.random_effects import RandomEffects

variances = st.builds(
    RandomEffects,
    st.floats(1e-3, 1e3),
    st.one_of(st.just(0.0), st.floats(1e-3, 1e3)),
    st.just(1.0),
)


def solve_both(log, design, effects, ridge):
    """Return the coefficients by iteration and from the matrix, and the matrix with its penalty."""

    def weigh(square):
        return penalty_weights(design, square, max(len(log), 1), ridge, 1e-9)

    gram = pooled_gram([log], design, effects, execution=1)
    weights = weigh(np.diag(gram)[:-1].copy())
    matrix = gram[:-1, :-1] + np.diag(weights)
    with PooledEquations(log, design, 1) as equations:
        found = equations.solve(effects, weigh)
    return found, np.linalg.solve(matrix, gram[:-1, -1]), matrix


@given(st.data(), variances, st.floats(1.0, 1e4))
@settings(max_examples=80)
def test_the_equations_are_those_of_the_matrix(data, effects, ridge):
    log = data.draw(logs(single=True))
    design = data.draw(designs(log.n_arms))._replace(kind=SYMMETRIC)
    found, expected, matrix = solve_both(log, design, effects, ridge)
    assert found is not None
    # What is not determined (arms that nobody met) has the tiniest of penalties alone: the
    # equations hold there, though solutions differ. So errors are measured by the matrix.
    off, scale = found - expected, abs(expected @ matrix @ expected)
    assert off @ matrix @ off <= 1e-12 * scale + 1e-20


@pytest.mark.parametrize("half_life", [0.0, 30 * 3600.0])
@pytest.mark.parametrize("controls", [0, 1])
def test_coefficients_of_many_arms_agree(half_life, controls):
    log = random_log(5, 20, [60, 0, 1, 45, 80] * 40)
    design = Design(20, SYMMETRIC, 0.9, half_life, controls, 0.5, np.linspace(-1.0, 1.0, 20))
    found, expected, _ = solve_both(log, design, RandomEffects(0.3, 0.2, 1.0), 10.0)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8 * np.abs(expected).max())


def test_threads_do_not_change_a_bit(monkeypatch):
    monkeypatch.setattr(conjugate_gradients, "RANGE", 100)
    log = random_log(2, 6, [11, 0, 30, 7, 50, 12, 0, 23] * 8)
    design = Design(6, SYMMETRIC, 0.9, 0.0, 1, 0.5, np.zeros(6))

    def solve(threads):
        with PooledEquations(log, design, threads) as equations:
            return equations.solve(
                RandomEffects(0.5, 0.1, 1.0), lambda square: np.full(square.size, 2.0)
            )

    assert (solve(1) == solve(3)).all()


def test_models_of_many_arms_predict_alike(monkeypatch):
    log = synthetic_log(120, 60, 36, seed=3)
    model = InfluenceModel("symmetric", fading=0.8, pooling="full", ridge=100.0, drift=True)
    by_iteration = model.fit_to_predict(log).predict(log)
    monkeypatch.setattr(conjugate_gradients, "FEWEST", 10**9)
    by_matrix = model.fit_to_predict(log).predict(log)
    np.testing.assert_allclose(by_iteration, by_matrix, rtol=0, atol=1e-7)


def test_what_is_not_found_is_solved_by_the_matrix(monkeypatch):
    log = random_log(5, 36, [40] * 20)
    design = Design(36, SYMMETRIC, 0.9, 0.0, 1, 0.5, np.zeros(36))
    effects, here = RandomEffects(0.3, 0.2, 1.0), LocalExecution(1)
    settings = (design, False, 10.0, effects, log, len(log), here)
    assert suits_iteration(log, design, 10.0)
    found, _ = fit_pooled_population([log], *settings, errors=False)
    monkeypatch.setattr(conjugate_gradients, "MOST_STEPS", 1)
    again, _ = fit_pooled_population([log], *settings, errors=False)
    assert not (found.population == again.population).all()
    np.testing.assert_allclose(found.population, again.population, rtol=0, atol=1e-8)


def test_few_arms_and_items_of_several_arms_take_the_matrix():
    few, many = (Design(n, SYMMETRIC, 0.9, 0.0, 1, 0.5, np.zeros(n)) for n in (5, 36))
    assert not suits_iteration(random_log(1, 5), few, 10.0)
    assert not suits_iteration(random_log(1, 36, single=False), many, 10.0)
    assert not suits_iteration(random_log(1, 36), many, 0.1)
