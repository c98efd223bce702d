"""Worlds played pull by pull, against the same in rational arithmetic."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import (
    alike_instances,
    instances,
    memories,
    pulls,
)

import influential_bandits as ib
from influential_bandits.errors import InvalidInput
from influential_bandits.numerics.streams import NOISE, Stream, normal, stream_at, stream_keys

EXACT_FAMILIES = ("eighths", "singular eighths", "zero")
GAUSSIAN = ib.GaussianNoise(1.0)


@st.composite
def played(draw, **options):
    """An instance and a sequence of pulls."""
    instance = draw(instances(**options))
    return instance, draw(pulls(instance.n_arms))


@st.composite
def shuffled(draw, **options):
    """An instance and two orders of the same pulls."""
    instance, sequence = draw(played(**options))
    return instance, sequence, draw(st.permutations(sequence))


def counts_of(instance, sequence):
    return np.bincount(sequence, minlength=instance.n_arms).tolist()


def blank(noise, seed=0, instance_number=0):
    """A world without losses, in which a pull shows the noise alone."""
    return ib.Environment(ib.Instance([[0.0]], [0.0]), noise, seed, instance_number)


# Proposition 2.1


@given(shuffled(families=EXACT_FAMILIES))
def test_played_losses_add_up_to_the_total_loss_in_every_order(case):
    instance, *orders = case
    whole = ib.Instance(instance.interaction, np.round(instance.initial_loss))
    for order in orders:
        environment = ib.Environment(whole)
        # Multiples of 1/128 of moderate size: nothing is rounded.
        total = sum(environment.pull(arm) for arm in order)
        assert total == whole.total_loss(counts_of(whole, order))


# The dynamics


@given(played())
def test_losses_are_initial_losses_plus_interaction_times_counts(exact_world, rounding, case):
    instance, sequence = case
    environment, exact = ib.Environment(instance), exact_world(instance)
    roundings = instance.interaction.values.shape[1] + instance.n_arms + 3  # as in test_instance.py
    for n, arm in enumerate(sequence):
        counts = counts_of(instance, sequence[:n])
        assert environment.counts.tolist() == counts
        expected, magnitude = exact.losses_after(counts), exact.magnitudes_after(counts)
        losses = environment.expected_losses()
        for i in range(instance.n_arms):
            assert abs(Fraction(losses[i]) - expected[i]) <= roundings * rounding * magnitude[i]
        assert environment.pull(arm) == losses[arm]
        assert environment.round == n + 1


@given(played(memory=memories()))
@settings(max_examples=150)
def test_influence_fades_as_the_recursion_says(exact_world, rounding, case):
    instance, sequence = case
    environment, exact = ib.Environment(instance), exact_world(instance)
    for n, arm in enumerate(sequence):
        # Each round fades and adds (two roundings), or fades n times at once by a power (n
        # roundings) and adds; the dot product has those of the property above.
        roundings = 3 * n + instance.interaction.values.shape[1] + instance.n_arms + 3
        losses = environment.expected_losses()
        for computed, loss, magnitude in zip(
            losses, exact.losses(), exact.magnitudes(), strict=True
        ):
            assert abs(Fraction(computed) - loss) <= roundings * rounding * magnitude
        assert environment.pull(arm) == losses[arm]
        exact.pull(arm)


@given(alike_instances(families=EXACT_FAMILIES), st.data())
def test_representations_of_an_exact_matrix_play_alike_to_the_last_bit(alike, data):
    sequence = data.draw(pulls(alike.dense.n_arms))
    environments = [ib.Environment(instance) for instance in alike]
    for arm in sequence:
        losses = {environment.pull(arm) for environment in environments}
        assert len(losses) == 1


# Noise and seeds


@given(played(memory=memories()), st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_a_pull_shows_the_expected_loss_plus_the_noise_of_its_round(case, seed, number):
    instance, sequence = case
    environment = ib.Environment(instance, GAUSSIAN, seed, number)
    keys = stream_keys(np.uint64(seed), np.uint64(number), NOISE)
    for t, arm in enumerate(sequence, start=1):
        expected = environment.expected_losses()[arm]
        stream = Stream(*map(np.uint64, stream_at(np.uint64(keys[0]), np.uint64(keys[1]), t)))
        assert environment.pull(arm) == expected + normal(stream, 0)


def test_seeds_and_instance_numbers_choose_the_noise():
    def noise(**choice):
        environment = blank(GAUSSIAN, **choice)
        return tuple(environment.pull(0) for _ in range(3))

    assert noise(seed=1) == noise(seed=1)
    assert noise(seed=1.0) == noise(seed=np.int64(1)) == noise(seed=1)
    different = [noise(seed=s, instance_number=n) for s in (0, 1, 2**64 - 1) for n in (0, 1)]
    assert len(set(different)) == len(different)


# Refusals


@pytest.mark.parametrize("arm", [-1, 2, 1.5, math.nan, "0", None, [0]])
def test_an_arm_that_does_not_exist_is_refused_and_nothing_changes(arm, refused):
    environment = ib.Environment(ib.counterexample())
    environment.pull(1)
    with refused(InvalidInput, "arm", repr(arm)):
        environment.pull(arm)
    assert environment.round == 1
    assert environment.counts.tolist() == [0, 1]
    assert environment.pull(1) == 3.0


@pytest.mark.parametrize("what", ["seed", "instance_number"])
@pytest.mark.parametrize("bad", [-1, 2**64, 0.5, "0", None, True])
def test_seeds_that_are_no_64_bit_numbers_are_refused(what, bad, refused):
    with refused(InvalidInput, what, str(bad)):
        ib.Environment(ib.counterexample(), **{what: bad})


def test_counts_are_a_copy():
    environment = ib.Environment(ib.counterexample())
    environment.counts[:] = 7
    assert environment.counts.tolist() == [0, 0]


def test_recorded_noise_ends_and_nothing_changes(refused):
    environment = blank(ib.RecordedNoise([0.25, -0.5]))
    assert [environment.pull(0), environment.pull(0)] == [0.25, -0.5]
    for _ in range(2):
        with refused(InvalidInput, "2 rounds", "3"):
            environment.pull(0)
    assert environment.round == 2
