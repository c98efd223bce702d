"""Synthetic logs: their equations, replayed slowly, and their statistics.

Statistical tests use fixed seeds; each would fail for a right generator with probability 1e-6.
"""

import dataclasses
import math

import numpy as np
import pytest
import scipy.stats

from influential_bandits.datasets.histories import (
    ARM,
    BEGINNING,
    BURST,
    DRIFT,
    GAP,
    HISTORY,
    NOISE,
)
from influential_bandits.datasets.synthetic import (
    PlantedTruth,
    check_offsets,
    check_truth,
    draw_log,
    planted_interaction,
    synthetic_log,
)
from influential_bandits.errors import InvalidInput, InvalidInstance
from influential_bandits.numerics.streams import Stream, normal, stream_at, stream_keys, uniform
from influential_bandits.world.generators import _normals

ERRORS = scipy.stats.norm.isf(0.5e-6)  # standard errors, on both sides
DAY = 86400.0


def history(log, u):
    part = slice(log.offsets[u], log.offsets[u + 1])
    return zip(*(column[part].tolist() for column in (log.arm, log.loss, log.time)), strict=True)


def assert_same_bits(one, other):
    assert one.instances == other.instances
    assert one.arm_names == other.arm_names
    for name in ("offsets", "item", "loss", "time"):
        assert getattr(one, name).tobytes() == getattr(other, name).tobytes(), name


# The equations


def deviations(truth, arms, times):
    """Return d before each event, from the closed form: every past event, faded by its age."""
    d = np.zeros((len(arms), truth.n_arms))
    for n in range(len(arms)):
        for m in range(n):
            if truth.half_life_days is None:
                left = truth.memory ** (n - m - 1)
            else:
                left = 2 ** (-(times[n] - times[m]) / (truth.half_life_days * DAY))
            d[n, arms[m]] += left
    return d


@pytest.mark.parametrize("fading", [{}, {"memory": 0.8}, {"half_life_days": 1.5}], ids=str)
@pytest.mark.parametrize("spread", [0.0, 0.7])
def test_without_noise_the_loss_is_that_of_the_model(fading, spread):
    log = synthetic_log(
        6,
        40,
        4,
        interaction=planted_interaction(4, 0.5, 3),
        initial_loss=[1, 2, 3, 4],
        noise=0.0,
        bursts=0.2,
        spread=spread,
        seed=9,
        **fading,
    )
    truth = log.about["truth"]
    for u in range(6):
        arms, losses, times = map(list, zip(*history(log, u), strict=True))
        influence = deviations(truth, arms, times) @ truth.interaction
        expected = truth.initial_losses[u][arms] + influence[np.arange(40), arms]
        np.testing.assert_allclose(losses, expected, rtol=1e-12)


class SlowHistory:
    """One history event by event, written after the docstring of synthetic_log alone."""

    def __init__(self, truth, u):
        self.truth, self.keys = truth, stream_keys(np.uint64(truth.seed), np.uint64(u), HISTORY)
        rng = self.stream(BEGINNING)
        drawn = np.array([normal(rng, i) for i in range(truth.n_arms)])
        self.l1 = truth.initial_loss + truth.spread * drawn

    def stream(self, n):
        # Compiled functions return plain whole numbers, whose type they would guess from the size.
        return Stream(*map(np.uint64, stream_at(*map(np.uint64, self.keys), n)))

    def softmax(self, past):
        t = self.truth
        steer = np.zeros(t.n_arms)
        for j in {i for i, _ in past}:
            steer[j] = np.mean([x for i, x in past if i == j]) - np.mean([x for _, x in past])
        weight = np.log(t.popularity) - t.taste * (self.l1 - self.l1.mean()) - t.steering * steer
        chance = np.exp(weight - weight.max())
        return chance / chance.sum()

    def events(self, number):
        t, d, now, g, past = self.truth, np.zeros(self.truth.n_arms), 0.0, 0.0, []
        for n in range(1, number + 1):
            rng = self.stream(n)
            burst = n > 1 and uniform(rng, BURST) < t.bursts
            gap = 30.0 if burst else -t.gap * math.log(uniform(rng, GAP))
            now += gap
            if t.half_life_days is not None:
                d = d * 0.5 ** (gap / (t.half_life_days * DAY))
            if not burst:
                arm = int(np.searchsorted(np.cumsum(self.softmax(past)), uniform(rng, ARM)))
            drawn = t.drift * normal(rng, DRIFT)
            g = drawn if n == 1 else t.drift_memory * g + drawn * (1 - t.drift_memory**2) ** 0.5
            loss = self.l1[arm] + t.interaction[arm] @ d + g + t.noise * normal(rng, NOISE)
            if t.grid is not None:
                loss = np.clip(np.round(loss / t.grid) * t.grid, 0.0, 4.5)
            past.append((arm, loss))
            d = t.memory * d + np.eye(t.n_arms)[arm]
            yield arm, loss, now


MODELS = {
    "fading by events": {"memory": 0.9},
    "fading by the clock": {"half_life_days": 2.0, "bursts": 0.4},
    "everything": {
        "memory": 0.95,
        "spread": 0.5,
        "drift": 0.6,
        "drift_memory": 0.8,
        "grid": 0.5,
        "bursts": 0.2,
        "steering": 1.5,
        "taste": 0.7,
        "popularity": [1, 2, 3],
        "gap": 600.0,
    },
}


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_histories_are_those_of_a_slow_obvious_replay(model):
    interaction = planted_interaction(3, 0.4, 5)
    log = synthetic_log(5, 60, 3, interaction=interaction, initial_loss=2, seed=4, **model)
    truth = log.about["truth"]
    for u in range(5):
        slow = SlowHistory(truth, u)
        np.testing.assert_allclose(truth.initial_losses[u], slow.l1, rtol=1e-14)
        made, expected = (np.array(list(h)) for h in (history(log, u), slow.events(60)))
        assert made[:, 0].tolist() == expected[:, 0].tolist()
        np.testing.assert_allclose(made, expected, rtol=1e-9, atol=1e-12)


def test_regression_finds_the_planted_interaction():
    # Least squares on known d: estimates are normal around the truth, with known covariance.
    planted = planted_interaction(3, 0.3, 1)
    log = synthetic_log(
        40, 100, 3, interaction=planted, initial_loss=[1, 2, 3], memory=0.8, noise=0.5
    )
    truth = log.about["truth"]
    d = np.concatenate(
        [deviations(truth, *[c.tolist() for c in (h.arm, h.time)]) for h in log.parts(100)]
    )
    for arm in range(3):
        mine = log.arm == arm
        design = np.column_stack([np.ones(mine.sum()), d[mine]])
        found = np.linalg.lstsq(design, log.loss[mine])[0]
        errors = 0.5 * np.sqrt(np.diag(np.linalg.inv(design.T @ design)))
        expected = np.array([truth.initial_loss[arm], *planted[arm]])
        assert (np.abs(found - expected) < ERRORS * errors).all()


# Statistics


def test_the_noise_is_standard_normal_times_noise():
    log = synthetic_log(100, 200, 2, initial_loss=[1.0, 5.0], noise=0.25)
    z = (log.loss - np.array([1.0, 5.0])[log.arm]) / 0.25
    assert scipy.stats.kstest(z, "norm").pvalue > 1e-6


def test_the_spread_is_between_instances():
    z = synthetic_log(2000, 1, 3, spread=0.5).about["truth"].initial_losses / 0.5
    assert scipy.stats.kstest(z.ravel(), "norm").pvalue > 1e-6
    off = np.corrcoef(z.T)[np.tril_indices(3, -1)]
    assert np.abs(off).max() < ERRORS / math.sqrt(2000) * 1.1  # three correlations at once


def test_the_drift_is_a_stationary_first_order_process():
    log = synthetic_log(20_000, 4, 1, noise=0.0, drift=2.0, drift_memory=0.7)
    g = log.loss.reshape(-1, 4)
    error = ERRORS / math.sqrt(20_000)
    for n in range(4):
        assert abs(g[:, n].std() / 2.0 - 1.0) < error / math.sqrt(2)
    for lag in range(1, 4):
        expected = 0.7**lag
        found = np.corrcoef(g[:, 0], g[:, lag])[0, 1]
        assert abs(found - expected) < error * (1 - expected**2)
    innovation = g[:, 1:] - 0.7 * g[:, :-1]
    assert abs(np.corrcoef(innovation[:, 1], g[:, 0])[0, 1]) < error


def test_bursts_repeat_the_arm_thirty_seconds_later():
    log = synthetic_log(200, 100, 4, bursts=0.3)
    arms, times = log.arm.reshape(200, 100), log.time.reshape(200, 100)
    gaps = np.diff(times)
    burst = np.abs(gaps - 30.0) < 1e-6
    repeated = arms[:, 1:] == arms[:, :-1]
    assert repeated[burst].all()
    for found, expected in ((burst.mean(), 0.3), (repeated.mean(), 0.3 + 0.7 / 4)):
        assert abs(found - expected) < ERRORS * math.sqrt(expected * (1 - expected) / burst.size)
    assert scipy.stats.kstest(gaps[~burst] / DAY, "expon").pvalue > 1e-6


def test_gaps_are_exponential_from_the_beginning():
    log = synthetic_log(5000, 2, 2, gap=10.0)
    assert scipy.stats.kstest(log.time[::2] / 10.0, "expon").pvalue > 1e-6
    assert scipy.stats.kstest(np.diff(log.time.reshape(-1, 2)).ravel() / 10, "expon").pvalue > 1e-6


def repeats_after(log):
    """Return the correlation of the first loss with meeting its arm again at once, and its error.

    All instances are alike, so that the first loss is surprising by its noise alone.
    """
    first = log.offsets[:-1]
    again = log.arm[first + 1] == log.arm[first]
    return np.corrcoef(log.loss[first], again)[0, 1], 1 / math.sqrt(len(first))


def test_steering_makes_a_bad_surprise_less_likely_to_be_repeated():
    found, error = repeats_after(synthetic_log(20_000, 3, 3, steering=0.0))
    assert abs(found) < ERRORS * error
    # After one event its arm's mean is the mean of all, so that steering begins with the third.
    log = synthetic_log(20_000, 3, 2, steering=1.0, popularity=[1, 1])
    arms, losses = log.arm.reshape(-1, 3), log.loss.reshape(-1, 3)
    both = arms[:, 0] != arms[:, 1]
    surprise = (losses[:, 0] - losses[:, 1])[both]
    again = (arms[:, 2] == arms[:, 0])[both]
    chance = 1 / (1 + np.exp(surprise))  # the softmax of two arms
    error = math.sqrt((chance * (1 - chance)).sum())
    assert abs(again.sum() - chance.sum()) < ERRORS * error
    assert np.corrcoef(surprise, again)[0, 1] < -ERRORS / math.sqrt(both.sum())


def test_taste_follows_what_an_instance_likes_anyway():
    log = synthetic_log(20_000, 1, 3, spread=1.0, taste=1.5, noise=0.0, popularity=[1, 2, 5])
    l1 = log.about["truth"].initial_losses
    weight = np.array([1, 2, 5]) * np.exp(-1.5 * l1)
    chance = weight / weight.sum(axis=1, keepdims=True)
    for arm in range(3):
        error = math.sqrt((chance[:, arm] * (1 - chance[:, arm])).sum())
        assert abs((log.arm == arm).sum() - chance[:, arm].sum()) < ERRORS * error
    assert l1[np.arange(20_000), log.arm].mean() < -0.5


def test_popularity_is_the_share_of_the_arms():
    log = synthetic_log(100, 200, 4, popularity=[2, 0, 5, 3])
    counts = np.bincount(log.arm, minlength=4)
    assert counts[1] == 0
    p = scipy.stats.chisquare(counts[[0, 2, 3]], np.array([0.2, 0.5, 0.3]) * len(log)).pvalue
    assert p > 1e-6
    np.testing.assert_allclose(log.about["truth"].popularity, [0.2, 0, 0.5, 0.3])


def test_losses_on_a_grid_are_ratings():
    log = synthetic_log(100, 200, 3, initial_loss=2.0, noise=3.0, grid=0.5)
    assert set(log.loss.tolist()) == {n / 2 for n in range(10)}
    free = synthetic_log(100, 200, 3, initial_loss=2.0, noise=3.0)
    np.testing.assert_array_equal(log.loss, np.clip(np.round(free.loss * 2) / 2, 0, 4.5))


# The same bits

RICH = MODELS["everything"] | {"interaction": planted_interaction(3, 0.2, 2)}


def test_the_same_seed_gives_the_same_bits_and_another_seed_does_not():
    one, same, other = (synthetic_log(20, 30, 3, **RICH, seed=s) for s in (7, 7, 8))
    assert_same_bits(one, same)
    assert not np.array_equal(one.arm, other.arm)
    assert not np.array_equal(one.time, other.time)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_threads_do_not_change_a_bit(threads):
    whole = synthetic_log(30, 40, 3, **RICH)
    cut = draw_log(check_truth(3, **RICH), check_offsets(30, 40), threads, events_per_task=100)
    assert_same_bits(whole, cut)
    one, other = (log.about["truth"].initial_losses for log in (whole, cut))
    assert one.tobytes() == other.tobytes()


def test_the_first_instances_do_not_depend_on_how_many_there_are():
    small, big = (synthetic_log(n, 25, 3, **RICH) for n in (10, 35))
    assert_same_bits(small, big.take(range(10)))


def test_a_longer_history_begins_with_the_shorter_one():
    short, long = (synthetic_log(4, n, 3, **RICH) for n in (10, 50))
    assert_same_bits(short, long.without_last(events=40))


def test_a_planted_interaction_shares_no_randomness_with_the_log_of_its_seed():
    # Both would otherwise be made of the same normal numbers for the first instances.
    l1 = synthetic_log(3, 1, 8, spread=1.0, seed=5).about["truth"].initial_losses
    drawn = np.concatenate([_normals(5, (8, 8), n).ravel() for n in range(3)])
    assert not np.isin(l1, drawn).any()


# The log and its truth


def test_the_log_is_an_ordinary_immutable_one_that_knows_its_truth():
    log = synthetic_log(3, [5, 1, 2], 2, half_life_days=3.0, noise=0.5, seed=11)
    assert log.instances == ("0", "1", "2")
    assert log.arm_names == ("0", "1")
    assert log.lengths.tolist() == [5, 1, 2]
    assert (np.diff(log.time[:5]) > 0).all()
    for column in (log.offsets, log.item, log.loss, log.time):
        assert not column.flags.writeable
    truth = log.about["truth"]
    assert isinstance(truth, PlantedTruth)
    assert (truth.half_life_days, truth.memory, truth.noise, truth.seed) == (3.0, 1.0, 0.5, 11)
    assert truth.interaction.tolist() == [[0, 0], [0, 0]]
    assert truth.n_arms == 2
    assert len(repr(truth)) < 1000
    with pytest.raises(dataclasses.FrozenInstanceError):
        truth.noise = 2.0
    with pytest.raises(ValueError, match="read-only"):
        truth.initial_losses[0, 0] = 1.0


def test_truth_that_would_be_too_large_is_not_kept():
    def kept(n_instances):
        truth, offsets = check_truth(5, spread=1.0), check_offsets(n_instances, 5)
        return draw_log(truth, offsets, None, largest_truth=100).about["truth"]

    assert kept(20).initial_losses.shape == (20, 5)
    assert kept(21).initial_losses is None


def test_planted_interactions_are_definite_and_as_strong_as_asked():
    matrix = planted_interaction(6, 0.25, 3)
    assert matrix.max() == 0.25
    assert (matrix == matrix.T).all()
    assert np.linalg.eigvalsh(matrix).min() > -1e-12
    assert planted_interaction(4, 0.0).tolist() == np.zeros((4, 4)).tolist()


# Extremes


def test_a_single_arm_a_single_event_and_a_single_instance():
    log = synthetic_log(
        1, 1, 1, interaction=[[0.5]], initial_loss=3.0, noise=0.0, steering=2.0, bursts=0.9
    )
    assert (log.arm.tolist(), log.loss.tolist()) == ([0], [3.0])
    longer = synthetic_log(2, 4, 1, interaction=[[0.5]], initial_loss=3.0, noise=0.0, steering=2.0)
    assert longer.loss.tolist() == [3.0, 3.5, 4.0, 4.5] * 2


@pytest.mark.parametrize("sign", [1, -1])
def test_numbers_at_the_end_of_their_ranges_leave_finite_losses_and_lawful_arms(sign):
    huge = 1e100
    log = synthetic_log(
        4,
        50,
        3,
        interaction=np.full((3, 3), sign * huge),
        initial_loss=sign * huge,
        noise=huge,
        spread=huge,
        drift=huge,
        drift_memory=np.nextafter(1, 0),
        bursts=np.nextafter(1, 0),
        steering=sign * huge,
        taste=-sign * huge,
        popularity=[0, 5e-324, huge],
        gap=huge,
        half_life_days=5e-324,
        seed=2**64 - 1,
    )
    assert np.isfinite(log.loss).all()
    assert np.isfinite(log.time).all()
    assert set(log.arm.tolist()) <= {1, 2}


@pytest.mark.parametrize(
    ("settings", "mentions"),
    [
        ({"n_instances": 0}, ("n_instances", "0")),
        ({"n_instances": 2.5}, ("n_instances", "2.5")),
        ({"events": 0}, ("events", "0")),
        ({"events": "netflix"}, ("events", "netflix")),
        ({"events": [3, 4]}, ("events", "(2,)")),
        ({"events": [3.5, 4.0, 1.0]}, ("events", "float64")),
        ({"events": [3, 0, 4]}, ("events", "got 0")),
        ({"events": [3, 2**31, 4]}, ("events", "2147483648")),
        ({"n_arms": 0}, ("n_arms", "0")),
        ({"n_arms": 10_001}, ("n_arms", "10001")),
        ({"n_arms": True}, ("n_arms", "True")),
        ({"interaction": np.eye(3)}, ("interaction", "(3, 3)", "2 × 2")),
        ({"initial_loss": [1, 2, 3]}, ("initial_loss", "(3,)")),
        ({"initial_loss": [1, math.nan]}, ("initial_loss", "finite")),
        ({"initial_loss": "bad"}, ("initial_loss", "bad")),
        ({"memory": 0.0}, ("memory", "(0, 1]", "0.0")),
        ({"memory": 1.1}, ("memory", "1.1")),
        ({"memory": None}, ("memory", "None")),
        ({"memory": 0.9, "half_life_days": 2.0}, ("memory", "half_life_days", "0.9", "2.0")),
        ({"half_life_days": 0.0}, ("half_life_days", "0.0")),
        ({"noise": -1.0}, ("noise", "-1.0")),
        ({"noise": math.nan}, ("noise", "nan")),
        ({"spread": -0.1}, ("spread", "-0.1")),
        ({"spread": "1"}, ("spread", "'1'")),
        ({"drift": math.inf}, ("drift", "inf")),
        ({"drift_memory": 1.0}, ("drift_memory", "[0, 1)", "1.0")),
        ({"grid": 0.0}, ("grid", "0.0")),
        ({"bursts": 1.0}, ("bursts", "[0, 1)", "1.0")),
        ({"steering": True}, ("steering", "True")),
        ({"taste": 1e101}, ("taste", "1e+101")),
        ({"popularity": [1, -1]}, ("popularity", "-1")),
        ({"popularity": [0, 0]}, ("popularity", "zero")),
        ({"popularity": [1, 1, 1]}, ("popularity", "(3,)")),
        ({"gap": 0.0}, ("gap", "0.0")),
        ({"seed": -1}, ("seed", "-1")),
        ({"seed": 2**64}, ("seed",)),
        ({"execution": 0}, ("threads", "0")),
        ({"execution": "all"}, ("execution", "all")),
        ({"events": 2**31 - 1, "n_instances": 2**12}, ("does not fit into memory",)),
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused(settings, mentions, refused):
    with refused(InvalidInput, *mentions):
        synthetic_log(**({"n_instances": 3, "events": 4, "n_arms": 2} | settings))


def test_interactions_that_cannot_be_are_refused(refused):
    with refused(InvalidInstance, "interaction", "1e+100", "1e+101"):
        synthetic_log(3, 4, 2, interaction=1e101 * np.eye(2))
    with refused(InvalidInstance, "not symmetric"):
        synthetic_log(3, 4, 2, interaction=[[1, 0.5], [0, 1]])
    with refused(InvalidInput, "strength", "-1"):
        planted_interaction(3, -1)
