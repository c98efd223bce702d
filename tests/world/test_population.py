"""Populations: what is accepted, that users are drawn as stated, and in which order they come."""

import json
import math

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import influential_bandits as ib
from influential_bandits.errors import InvalidInput, InvalidInstance
from influential_bandits.numerics.streams import VISITS, stream_at, stream_keys, uniform

SHARED = np.array([[0.4, 0.1, 0.0], [0.1, 0.3, -0.1], [0.0, -0.1, 0.5]])
MEAN = np.array([0.5, -0.2, 0.1])
COVARIANCE = np.array([[0.5, 0.2, 0.0], [0.2, 0.4, -0.1], [0.0, -0.1, 0.3]])
SETTINGS = {
    "interaction_spread": 0.1,
    "stay": 7,
    "stay_law": "geometric",
    "concurrency": 3,
    "returning": 0.25,
    "delay": 4,
    "delay_law": "geometric",
    "memory": 0.9,
    "arm_names": ["a", "b", "c"],
}


def population(**settings):
    return ib.Population(SHARED, MEAN, COVARIANCE, **settings)


# Refusals


@pytest.mark.parametrize(
    ("name", "value", "mention"),
    [
        ("interaction", [[1.0, 0.5], [0.0, 1.0]], "symmetric"),
        ("interaction", [[1.0, 2.0], [2.0, 1.0]], "positive semi-definite"),
        ("initial_loss", [1.0], "(1,)"),
        ("covariance", [[1.0, 2.0], [2.0, 1.0]], "positive semi-definite"),
        ("covariance", -0.1, "positive semi-definite"),
        ("covariance", [[1.0, 0.5], [0.0, 1.0]], "symmetric"),
        ("covariance", [0.1, 0.2], "(2,)"),
        ("interaction_spread", -0.1, "-0.1"),
        ("unlike", 1, "true or false"),
        ("stay", 0, "at least 1"),
        ("stay_law", "uniform", "geometric"),
        ("concurrency", 0, "at least 1"),
        ("returning", 1.1, "1.1"),
        ("delay", -1, "at least 0"),
        ("delay_law", None, "fixed"),
        ("memory", 0.0, "above 0"),
        ("arm_names", ["a", "a"], "twice"),
    ],
)
def test_what_describes_no_population_is_refused(name, value, mention, refused):
    settings = {"interaction": np.eye(2), "initial_loss": [0.0, 0.0]} | {name: value}
    of_a_world = ("interaction", "initial_loss", "covariance", "memory", "arm_names")
    error = InvalidInstance if name in of_a_world else InvalidInput
    with refused(error, name.removesuffix("_names"), mention):
        ib.Population(**settings)


def test_unlike_users_have_nothing_to_spread_around(refused):
    with refused(InvalidInput, "unlike", "interaction_spread = 0.1"):
        population(unlike=True, interaction_spread=0.1)


def test_an_indefinite_interaction_can_be_admitted():
    made = ib.Population([[1.0, 2.0], [2.0, 1.0]], [0.0, 0.0], definite=False)
    assert not made.definite
    assert "indefinite" in repr(made)
    assert not made.draw(1).instances()[0].definite


@pytest.mark.parametrize("number", [0, -1, 2.5, "3", 2**31])
def test_a_number_of_users_that_is_none_is_refused(number, refused):
    with refused(InvalidInput, "n_users"):
        population().draw(number)


def test_more_rounds_than_memory_holds_are_refused_before_they_are_drawn(refused):
    with refused(InvalidInput, "1,000 users", "TB", "shorter"):
        population(stay=10**12).draw(1000)


# The object


def test_numbers_are_kept_and_none_can_be_changed():
    made = population(**SETTINGS)
    assert made.interaction.tolist() == SHARED.tolist()
    assert made.initial_loss.tolist() == MEAN.tolist()
    assert made.covariance.tolist() == COVARIANCE.tolist()
    for array in (made.interaction, made.initial_loss, made.covariance):
        assert not array.flags.writeable
    for name in SETTINGS:
        with pytest.raises(AttributeError):
            setattr(made, name, 1)
    assert (made.n_arms, made.arm_names, made.memory) == (3, ("a", "b", "c"), 0.9)


def test_a_number_is_the_variance_of_each_arm():
    assert ib.Population(SHARED, MEAN, 0.25).covariance.tolist() == (0.25 * np.eye(3)).tolist()


@pytest.mark.parametrize(
    ("change", "mention"),
    [
        ({"format": "something"}, "no population file"),
        ({"stay": "long"}, "stay"),
        ({"colour": 1}, "colour"),
        ({"interaction": None}, "interaction"),
        ({"covariance": [[1.0]]}, "(1, 1)"),
        ({"initial_loss": ...}, "no 'initial_loss' entry"),
    ],
)
def test_damaged_files_are_refused_and_named(change, mention, tmp_path, refused):
    path = tmp_path / "population.json"
    data = population().to_json() | change
    path.write_text(json.dumps({name: value for name, value in data.items() if value is not ...}))
    with refused(InvalidInstance, "population.json", mention):
        ib.Population.load(path)


def test_repr_says_what_is_unusual():
    assert repr(population()) == "Population(3 arms, max|A| = 0.5, stay = 100)"
    assert repr(population(**SETTINGS)) == (
        "Population(3 arms, max|A| = 0.5, spread 0.1 of A, stay = 7 (geometric), 3 at a time, "
        "returning = 0.25, delay = 4 (geometric), memory = 0.9)"
    )
    assert "half-life = 3 hours" in repr(population(half_life=3.0, rounds_per_hour=6.0))


# Users


@given(
    st.integers(1, 20),
    st.integers(1, 20),
    st.sampled_from([{}, {"unlike": True}, {"interaction_spread": 0.5}]),
    st.integers(0, 2**64 - 1),
)
def test_a_user_is_the_same_whoever_else_comes(few, more, settings, seed):
    made = population(stay=5, stay_law="geometric", **settings)
    first, longer = made.draw(few, seed), made.draw(few + more, seed)
    assert longer.initial_loss[:few].tobytes() == first.initial_loss.tobytes()
    assert longer.stays[:few].tobytes() == first.stays.tobytes()
    shared = 1 if not settings else few
    assert first.interaction.shape == (shared, 3, 3)
    assert longer.interaction[:shared].tobytes() == first.interaction.tobytes()
    rounds = min(len(first.delays), len(longer.delays))
    assert longer.delays[:rounds].tobytes() == first.delays[:rounds].tobytes()


def test_initial_losses_have_the_stated_mean_and_covariance():
    users = 40_000
    losses = population().draw(users, seed=3).initial_loss
    # Each of 3 means and 6 covariances is normal around the truth, the covariances with variance
    # (C_ii·C_jj + C_ij²)/n. All are within 4.5 standard errors with probability 1 − 6e-5.
    variances = np.diag(COVARIANCE)
    assert (np.abs(losses.mean(axis=0) - MEAN) <= 4.5 * np.sqrt(variances / users)).all()
    errors = np.sqrt((np.outer(variances, variances) + COVARIANCE**2) / users)
    assert (np.abs(np.cov(losses.T) - COVARIANCE) <= 4.5 * errors).all()


def test_a_singular_covariance_keeps_users_on_its_line():
    direction = np.array([1.0, -2.0, 0.5])
    losses = ib.Population(SHARED, np.zeros(3), np.outer(direction, direction)).draw(50)
    along = losses.initial_loss[:, :1] * direction
    assert np.abs(losses.initial_loss - along).max() <= 1e-14 * np.abs(along).max()
    assert losses.initial_loss[:, 0].std() > 0.5


def test_own_interactions_spread_around_the_shared_one_as_stated():
    users, spread = 4000, 0.02
    # The smallest eigenvalue, 0.24, is 6 norms of the perturbation: nothing is clipped.
    own = population(interaction_spread=spread, stay=1).draw(users, seed=1).interaction
    assert (own == own.transpose(0, 2, 1)).all()
    entries = own[:, *np.tril_indices(3)]
    truth = SHARED[np.tril_indices(3)]
    # Six means and six deviations, all within 4.5 standard errors with probability 1 − 8e-5.
    assert (np.abs(entries.mean(axis=0) - truth) <= 4.5 * spread / math.sqrt(users)).all()
    deviations = entries.std(axis=0)
    assert (np.abs(deviations - spread) <= 4.5 * spread / math.sqrt(2 * users)).all()
    # Uncorrelated with each other: 15 correlations of standard error 1/√n.
    correlations = np.corrcoef(entries.T) - np.eye(6)
    assert np.abs(correlations).max() <= 4.5 / math.sqrt(users)


def test_own_interactions_are_those_unclipped_with_negative_eigenvalues_at_zero():
    tilted = ib.Population(np.diag([1.0, 0.01, 0.0]), MEAN, interaction_spread=0.3)
    own = tilted.draw(200).interaction
    admitted = ib.Population(  # an indefinite shared one clips nothing
        np.diag([1.0, 0.01, -1e-9]), MEAN, interaction_spread=0.3, definite=False
    )
    raw = admitted.draw(200).interaction
    raw[:, 2, 2] += 1e-9
    values, vectors = np.linalg.eigh(raw)
    nearest = (vectors * np.maximum(values, 0.0)[:, None, :]) @ vectors.transpose(0, 2, 1)
    # Both err by some roundings of entries of size 2, and by the rounding of the shifted entry.
    assert np.abs(own - nearest).max() <= 1e-12
    assert (values[:, 0] < -0.01).any()
    assert (values[:, 0] > 0.0).any()
    for instance in tilted.draw(200).instances():
        assert instance.definite


@pytest.mark.parametrize("arms", [1, 2, 5, 20])
def test_unlike_users_have_random_interactions_of_the_stated_size(arms):
    made = ib.Population(0.25 * np.eye(arms), np.zeros(arms), unlike=True, stay=1)
    users = made.draw(300)
    # A product and a quotient of roundings each.
    assert np.abs(users.interaction.max(axis=(1, 2)) - 0.25).max() <= 4 * np.finfo(float).eps
    assert all(instance.definite for instance in users.instances())
    if arms > 1:
        beside = users.interaction[:, 0, 1]
        # A sign test: a correlation in A shared by users would show as one sign.
        assert abs((beside > 0).sum() - 150) <= 4.5 * math.sqrt(300) / 2


def test_instances_are_the_users_worlds():
    users = population(**SETTINGS).draw(6)
    for number, instance in enumerate(users.instances()):
        assert instance.interaction.to_dense().tolist() == users.interaction[number].tolist()
        assert instance.initial_loss.tolist() == users.initial_loss[number].tolist()
        assert (instance.memory, instance.arm_names) == (0.9, ("a", "b", "c"))
    alike = population().draw(4).instances()
    assert len(alike) == 4
    assert len({id(instance.interaction) for instance in alike}) == 1
    assert alike[0].arm_names == ("0", "1", "2")


# Stays, visits and delays


def test_stays_are_fixed_or_geometric_with_the_stated_mean():
    assert population(stay=7).draw(5).stays.tolist() == [7] * 5
    assert population(stay=1, stay_law="geometric").draw(5).stays.tolist() == [1] * 5
    users, mean = 40_000, 7
    stays = population(stay=mean, stay_law="geometric").draw(users, seed=2).stays
    assert stays.min() == 1
    # P(stay > n) = (1 − 1/7)ⁿ; five shares within 4.5 standard errors, with probability 1 − 4e-5.
    for n in (1, 2, 5, 10, 20):
        share = (1 - 1 / mean) ** n
        error = math.sqrt(share * (1 - share) / users)
        assert abs((stays > n).mean() - share) <= 4.5 * error


def test_delays_are_fixed_or_geometric_with_the_stated_mean():
    assert not population().draw(3).delays.any()
    assert set(population(delay=5).draw(3).delays.tolist()) == {5}
    delays = population(delay=5, delay_law="geometric").draw(400, seed=2).delays
    assert len(delays) == 40_000
    # P(delay ≥ n) = (5/6)ⁿ, as above.
    for n in (1, 2, 5, 10, 20):
        share = (5 / 6) ** n
        error = math.sqrt(share * (1 - share) / len(delays))
        assert abs((delays >= n).mean() - share) <= 4.5 * error


@numba.njit
def random_numbers(seed, t):
    keys = stream_keys(seed, np.uint64(0), VISITS)
    stream = stream_at(keys[0], keys[1], t)
    return uniform(stream, 0), uniform(stream, 1)


def slow_order(stays, concurrency, returning, seed):
    """Who comes when, with lists; and how many were away at most."""
    coming, left = list(range(len(stays))), list(stays)
    there, away, visits, most = coming[:concurrency], [], [], 0
    del coming[:concurrency]
    while there:
        seat, pause = random_numbers(np.uint64(seed), len(visits))
        place = int(seat * len(there))
        user = there[place]
        visits.append(user)
        left[user] -= 1
        if left[user] and not pause < returning:
            continue
        if left[user]:
            away.append(user)
        if coming and len(away) <= concurrency:
            there[place] = coming.pop(0)
        elif away:
            there[place] = away.pop(0)
        else:
            there[place] = there[-1]
            there.pop()
        most = max(most, len(away))
    return visits, most


@given(
    st.integers(1, 12),
    st.integers(1, 15),
    st.sampled_from([0.0, 0.1, 0.5, 1.0]),
    st.integers(1, 6),
    st.integers(0, 1000),
)
def test_visits_are_those_of_the_rule_written_with_lists(users, present, returning, stay, seed):
    made = population(concurrency=present, returning=returning, stay=stay, stay_law="geometric")
    drawn = made.draw(users, seed)
    visits, most = slow_order(drawn.stays, present, returning, seed)
    assert drawn.visits.tolist() == visits
    assert drawn.visits.dtype == np.int32
    assert len(drawn.delays) == len(visits)
    assert np.bincount(drawn.visits, minlength=users).tolist() == drawn.stays.tolist()
    assert most <= present


@given(st.integers(1, 5), st.sampled_from([0.0, 0.3]), st.integers(0, 100))
def test_fewer_users_come_in_the_same_order_until_a_newcomer_is_missing(present, returning, seed):
    few, more = 30, 60
    made = population(stay=6, concurrency=present, returning=returning, stay_law="geometric")
    short, long = made.draw(few, seed), made.draw(more, seed)
    same = short.visits == long.visits[: len(short.visits)]
    agree = len(same) if same.all() else int(np.argmin(same))
    seen = np.bincount(long.visits[:agree], minlength=more)
    # By then all of the few have come, and only those present or away have rounds left.
    assert (seen[:few] >= long.stays[:few]).sum() >= few - 2 * present
