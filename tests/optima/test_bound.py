"""Theorem 2.6, for any scale and any bound on the noise."""

import math

import numpy as np
import pytest

import influential_bandits as ib
from influential_bandits.optima.bound import regret_bound


def an_instance(arms=3, loss=0.75, scale=1.0):
    losses = np.zeros(arms)
    losses[-1] = -loss
    return ib.Instance(scale * np.eye(arms), losses)


@pytest.mark.parametrize("arms", [1, 2, 3, 20])
@pytest.mark.parametrize("horizon", [1, 2, 1000, 10**6])
def test_the_paper_s_statement_is_the_one_for_unit_scale_and_noise(arms, horizon):
    instance, norm = an_instance(arms), 0.75
    expected = ((5 * arms + 3) / 2 + 2 * norm) * horizon
    expected += (2 * arms + 2 * norm + 4) * horizon * math.log(horizon)
    assert regret_bound(instance, horizon) == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize(("scale", "noise"), [(1.0, 0.0), (2.0, 0.5), (0.25, 3.0), (7.0, 1.0)])
def test_scale_and_noise_enter_as_the_proof_says(scale, noise):
    instance = an_instance(arms=4, loss=1.5, scale=0.25)
    t = 5000
    linear = (5 * 4 + 3) * scale / 2 + 2 * 1.5
    logarithmic = 2 * 4 * scale + 2 * scale + 2 * noise + 2 * 1.5
    expected = linear * t + logarithmic * t * math.log(t)
    assert regret_bound(instance, t, influence_bound=scale, noise_bound=noise) == pytest.approx(
        expected, rel=1e-14
    )


def test_horizons_may_be_an_array():
    instance = ib.random_instance(3, 0)
    grid = np.array([[1, 10], [100, 10**9]])
    bounds = regret_bound(instance, grid)
    assert bounds.shape == (2, 2)
    for index in np.ndindex(2, 2):
        assert bounds[index] == regret_bound(instance, int(grid[index]))
    assert isinstance(regret_bound(instance, 10), float)
    assert (np.diff(regret_bound(instance, [1, 2, 3, 4])) > 0).all()


def test_a_scale_below_the_largest_influence_is_refused_with_both_numbers():
    with pytest.raises(
        ib.errors.NotApplicable,
        match=r"max\|A\| ≤ influence_bound.*max\|A\| = 2 and influence_bound = 1$",
    ):
        regret_bound(ib.counterexample(), 100)
    assert regret_bound(ib.counterexample(), 100, influence_bound=2.0) > 0
    assert regret_bound(an_instance(scale=1.0 + 1e-15), 100) > 0  # a rounded 1 is a 1


def test_fading_memory_and_indefinite_interactions_are_refused():
    fading = ib.Instance(np.eye(2), [0, 0], memory=0.5)
    indefinite = ib.Instance([[0.0, 1.0], [1.0, 0.0]], [0, 0], definite=False)
    for instance, need in ((fading, "memory = 1"), (indefinite, "a positive semi-definite")):
        with pytest.raises(ib.errors.NotApplicable, match=rf"Theorem 2\.6 needs {need}"):
            regret_bound(instance, 10)


HORIZONS = [0, -1, 2.5, [1, 2.5], math.nan, math.inf, [10, 0], [[1, math.nan]], "ten"]


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("influence_bound", [0.0, -1.0, math.nan, math.inf, "estimate"], "must be positive"),
        ("noise_bound", [-0.1, math.nan, math.inf], "must not be negative"),
        ("horizon", HORIZONS, "must be"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(name, values, message):
    for value in values:
        with pytest.raises(ib.errors.InvalidInput, match=f"{name} {message}"):
            regret_bound(an_instance(), **{"horizon": 10, name: value})
