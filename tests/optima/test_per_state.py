"""The quantity that is not the regret, against a plain loop."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import instances, memories, pulls

import influential_bandits as ib
from influential_bandits.optima.per_state import per_state_excess


def plain(world, arms):
    """Σ (loss of the pulled arm − smallest loss) after every round, in exact fractions."""
    total, totals = Fraction(0), []
    for arm in arms:
        lowest = min(world.losses())
        total += world.pull(arm) - lowest
        totals.append(total)
    return totals


@given(data=st.data())
def test_it_is_the_sum_over_states(data, exact_world):
    instance = data.draw(instances(memory=memories()))
    arms = data.draw(pulls(instance.n_arms))
    expected = plain(exact_world(instance), arms)
    every = range(1, len(arms) + 1)
    # Losses stay below 10⁴ here: 30 pulls, entries of A below about 300.
    assert per_state_excess(instance, arms, every) == pytest.approx(
        [float(total) for total in expected], rel=1e-9, abs=1e-9
    )


def test_checkpoints_pick_rounds():
    instance, arms = ib.random_instance(3, 5), np.arange(60) % 3
    whole = per_state_excess(instance, arms, np.arange(1, 61))
    assert per_state_excess(instance, arms, [1, 7, 60]).tolist() == whole[[0, 6, 59]].tolist()
    assert per_state_excess(instance, arms, []).tolist() == []


def test_the_best_arm_of_every_state_costs_nothing():
    instance = ib.random_instance(4, 3)
    environment = instance.initial_loss.copy()
    matrix, arms = instance.interaction.to_dense(), []
    for _ in range(50):
        arms.append(int(environment.argmin()))
        environment += matrix[arms[-1]]
    assert per_state_excess(instance, arms, [50])[0] == pytest.approx(0.0, abs=1e-10)


def test_it_is_not_the_regret_on_the_instance_of_proposition_2_3():
    """One pull of arm 0 costs T/4 + 1/8 in the end, but only 3/8 in its own state."""
    instance = ib.linear_lower_bound()
    for rounds in (4, 100, 10_000):
        arms = [0] + [1] * (rounds - 1)
        (excess,) = per_state_excess(instance, arms, [rounds])
        assert excess == pytest.approx(0.375)
        assert ib.regret(instance, [1, rounds - 1]) == pytest.approx(rounds / 4 + 1 / 8)
