"""Estimates that hold where choices follow taste: exact without noise, honest with it."""

import numpy as np
import pytest

import influential_bandits as ib
from influential_bandits.learning.forward_deviations import estimate_forward
from influential_bandits.learning.statistics.design import DIAGONAL, KINDS, Design
from influential_bandits.logs.membership import Membership

A = np.array([[0.3, 0.1, -0.05], [0.1, 0.2, 0.0], [-0.05, 0.0, 0.1]])
FADING = [{"memory": 0.7}, {"memory": 1.0}, {"half_life_days": 2.0}]


def design_of(kind="symmetric", memory=1.0, half_life_days=None):
    return Design(3, KINDS[kind], memory, 86400.0 * (half_life_days or 0.0), 0, 0.9, np.zeros(3))


def estimate(log, past=3.0, **settings):
    return estimate_forward(log, design_of(**settings), past)


@pytest.mark.parametrize("fading", FADING, ids=str)
def test_without_noise_influence_and_initial_losses_are_exact_whatever_the_taste(fading):
    settings = {"interaction": A, "noise": 0.0, "spread": 1.0, "taste": 1.0, "bursts": 0.2}
    log = ib.data.synthetic_log(100, 60, 3, seed=0, **settings, **fading)
    truth = log.about["truth"]
    found = estimate(log, **fading)
    everybody = np.array([len(set(log.history(u).item.tolist())) == 3 for u in log.instances])
    np.testing.assert_allclose(found.interaction, np.broadcast_to(A, (11, 3, 3)), atol=1e-6)
    if everybody.all():
        np.testing.assert_allclose(found.initial_loss[0], truth.initial_losses.mean(0), atol=1e-5)
    assert found.loss[0] == pytest.approx(log.loss.mean(), rel=1e-12)


def test_without_noise_the_diagonal_is_exact_where_there_is_no_more():
    log = ib.data.synthetic_log(
        100, 60, 3, interaction=np.diag([0.3, 0.2, 0.1]), memory=0.7, noise=0.0, spread=1.0, seed=0
    )
    found = estimate(log, kind="diagonal", memory=0.7)
    assert design_of("diagonal").kind == DIAGONAL
    np.testing.assert_allclose(found.interaction[0], np.diag([0.3, 0.2, 0.1]), atol=1e-6)


def test_the_pooled_fit_is_fooled_by_taste_and_forward_deviations_are_not():
    """A thousand people: pooled entries of the diagonal are off by ten standard errors."""
    log = ib.data.synthetic_log(1000, 50, 3, memory=0.7, spread=0.7, taste=2.0, seed=1)
    model = ib.InfluenceModel("symmetric", fading=0.7, pooling="full").fit(log)
    found = estimate(log, memory=0.7)
    entries = found.interaction.reshape(11, -1)
    errors = np.sqrt(0.9 * ((entries[1:] - entries[1:].mean(axis=0)) ** 2).sum(axis=0))
    assert np.abs(entries[0] / errors).max() < 4.5, "t with 9 degrees of freedom, nine entries"
    assert np.diag(model.interaction_).max() < -0.02


def test_those_who_never_met_an_arm_are_guessed_to_like_it_less():
    settings = {"spread": 1.0, "taste": 2.0, "popularity": [0.47, 0.47, 0.06], "seed": 2}
    log = ib.data.synthetic_log(2000, 20, 3, memory=0.7, noise=0.3, **settings)
    truth = log.about["truth"].initial_losses
    met = np.array([2 in log.history(u).item for u in log.instances])
    assert met.mean() < 0.8
    found = estimate(log, memory=0.7)
    naive = truth[met, 2].mean()
    assert abs(found.initial_loss[0, 2] - truth[:, 2].mean()) < 0.5 * abs(
        naive - truth[:, 2].mean()
    )
    assert found.unmet[2] > 0.02
    assert found.unmet[2] > found.unmet[0]


def test_logs_that_say_too_little_get_no_estimate():
    few = ib.data.synthetic_log(19, 30, 3, memory=0.7, seed=0)
    assert estimate(few, memory=0.7) is None
    never = ib.data.synthetic_log(50, 30, 3, memory=0.7, popularity=[0.5, 0.5, 0.0], seed=0)
    assert estimate(never, memory=0.7) is None
    table = Membership({"x": ["a", "b", "c"], "y": ["a", "b", "c"]})
    users = np.repeat([str(u) for u in range(40)], 10)
    several = ib.EventLog(users, np.zeros(400, int), np.ones(400), membership=table)
    assert estimate(several, memory=0.7) is None


def test_deviations_are_those_of_all_later_events_of_the_same_arm():
    """The equations of two histories by hand, slowly."""
    log = ib.data.synthetic_log(20, 12, 3, memory=0.7, spread=0.5, seed=4)
    found = estimate(log, memory=0.7)
    shares = np.bincount(log.item, minlength=3) / len(log)
    pairs = [(i, j) for i in range(3) for j in range(i + 1)]
    left, right = np.zeros((6, 6)), np.zeros(6)

    def regressor(arm, values):
        out = np.zeros((3, 3))
        out[arm] = values
        return np.array([out[i, j] if i == j else out[i, j] + out[j, i] for i, j in pairs])

    for label in log.instances:
        history = log.history(label)
        counts = np.zeros((13, 3))
        for n, arm in enumerate(history.item):
            counts[n + 1] = 0.7 * counts[n] + np.eye(3)[arm]
        for n, arm in enumerate(history.item):
            later = [m for m in range(n + 1, 12) if history.item[m] == arm]
            if not later:
                continue
            share = (np.bincount(history.item[:n], minlength=3) + shares) / (n + 1)
            ahead = np.mean([0.7**k for k in range(1, 12 - n)])
            known = (1.0 - ahead) * (counts[n] - share / 0.3)
            weight = len(later) / (len(later) + 1)
            deviation = counts[n] - counts[later].mean(axis=0)
            left += weight * np.outer(regressor(arm, known), regressor(arm, deviation))
            loss = history.loss[n] - history.loss[later].mean()
            right += weight * loss * regressor(arm, known)
    slow = np.zeros((3, 3))
    for value, (i, j) in zip(np.linalg.solve(left, right), pairs, strict=True):
        slow[i, j] = slow[j, i] = value
    np.testing.assert_allclose(found.interaction[0], slow, rtol=1e-5, atol=1e-6)
