"""What the logging policy did: against sums that are slow and obviously right."""

import numpy as np
import pytest
from fadings import fading_of

import influential_bandits as ib
from influential_bandits.learning.logging_policy import (
    LoggedRounds,
    TasteSigns,
    describe_logged,
    measure_taste,
    suspect_taste,
)

FADING = [{"memory": 0.7}, {"memory": 1.0}, {"half_life_days": 2.0}]


def slow_rounds(log, memory=1.0, half_life_days=None):
    """Pairs, pairs in random order, and products of shares, event by event."""
    arms = log.n_arms
    pairs, shuffled, squares = np.zeros((3, arms, arms))
    for label in log.instances:
        history = log.history(label)
        chosen = np.eye(arms)[history.item]
        mix = chosen.mean(axis=0)
        for n in range(len(history)):
            ages = n - 1 - np.arange(n)
            left = memory**ages
            if half_life_days is not None:
                left = 0.5 ** ((history.time[n] - history.time[:n]) / 86400.0 / half_life_days)
            pairs += np.outer(chosen[n], left @ chosen[:n])
            shuffled += left.sum() * np.outer(mix, mix)
            squares += np.outer(mix, mix)
    return pairs / len(log), shuffled / len(log), squares / len(log)


@pytest.mark.parametrize("fading", FADING, ids=str)
def test_logged_rounds_are_means_over_the_events(fading):
    log = ib.data.synthetic_log(9, [3, 8, 1, 20, 5, 7, 2, 9, 4], 3, seed=1, spread=1.0, **fading)
    model = ib.InfluenceModel("symmetric", pooling="full", fading=fading_of(**fading)).fit(log)
    found = describe_logged(model.design_, model.population_, log)
    for mine, slow in zip(found[4:], slow_rounds(log, **fading), strict=True):
        np.testing.assert_allclose(mine, slow, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(found.mix, np.bincount(log.item, minlength=3) / len(log))
    assert found.loss == pytest.approx(log.loss.mean(), rel=1e-12)
    told = model.initial_loss_ @ found.mix + (model.interaction_ * found.pairs).sum()
    assert found.modelled == pytest.approx(told, rel=1e-9)


def test_a_model_of_a_log_that_was_drawn_at_random_is_calibrated_and_of_taste_is_not():
    for seed in range(3):
        for taste in (0.0, 2.0):
            log = ib.data.synthetic_log(300, 40, 4, spread=0.5, taste=taste, seed=seed)
            model = ib.InfluenceModel("symmetric", fading=0.8, pooling="full").fit(log)
            found = describe_logged(model.design_, model.population_, log)
            assert found.calibrated or taste > 0.0
            assert taste == 0.0 or found.gap < -found.error, "people who choose well lose less"


@pytest.mark.long
@pytest.mark.parametrize("fading", FADING, ids=str)
def test_first_meetings_tell_taste_from_choices_that_follow_losses(fading):
    """Ten logs each: six standard errors and more, or, of all ten, about normal."""
    A = ib.data.planted_interaction(4, 0.02 if fading == FADING[1] else 0.2, seed=0)
    ratios = {"taste": [], "steering": []}
    for seed in range(10):
        for name, found in ratios.items():
            settings = fading | {name: 1.5, "interaction": A}
            log = ib.data.synthetic_log(300, 40, 4, spread=0.5, seed=seed, **settings)
            alike = ib.StationaryModel(pooling="full").fit(log)
            how = (alike.design_, alike.population_, alike.initial_losses_)
            signs = measure_taste(log, *how)
            found.append(signs.slope / signs.slope_error)
            assert signs.gap < -2.0 * signs.gap_error, "both lose less than anybody would"
    assert min(ratios["taste"]) > 3.0
    assert abs(np.mean(ratios["steering"])) < 3.3 / np.sqrt(10)


def test_where_all_arms_are_met_at_once_nothing_is_said_of_taste():
    log = ib.EventLog(["ann", "bob"], ["x", "x"], [1.0, 2.0])
    alike = ib.StationaryModel(pooling="full").fit(log)
    signs = measure_taste(log, alike.design_, alike.population_, alike.initial_losses_)
    assert (signs.slope, signs.slope_error) == (0.0, 0.0)


def test_what_the_whole_log_knows_more_must_not_be_taste():
    """Where the log is far better than its model, a first sign that says nothing is not enough."""
    vague, clear = TasteSigns(0.0, 0.2, -0.05, 0.05), TasteSigns(0.0, 0.002, -0.05, 0.05)
    nothing = np.zeros((2, 2))
    shares = (np.full(2, 0.5), nothing, nothing, nothing)
    better, like_it = (LoggedRounds(0.9, 1.0, error, *shares) for error in (0.02, 0.2))
    assert not suspect_taste([vague], like_it)
    assert suspect_taste([vague], better)
    assert not suspect_taste([clear], better)
