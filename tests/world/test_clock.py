"""Influence that fades by the clock: against its definition, and what has no clock."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import instances

import influential_bandits as ib
from influential_bandits.errors import InvalidInput, InvalidInstance, NotApplicable

HOUR = 3600.0
TIRING = ib.Instance([[1.0, 0.5], [0.5, 1.0]], [0.0, 0.2], half_life=12)


def with_half_life(instance, half_life):
    settings = {"memory": instance.memory, "definite": False, "half_life": half_life}
    return ib.Instance(instance.interaction, instance.initial_loss, **settings)


def slow_losses(instance, pulls, at):
    """Every pull in every later round, by definition: memory^rounds · 2^(−hours/half-life)."""
    matrix, now = np.asarray(instance.interaction.to_dense()), -math.inf
    losses, met = [], []
    for arm, when in zip(pulls, at, strict=True):
        now = max(now, when)
        loss = instance.initial_loss.copy()
        for age, (other, then) in enumerate(reversed(met)):
            hours = (now - then) / HOUR
            loss += matrix[other] * instance.memory**age * 2.0 ** (-hours / instance.half_life)
        losses.append(loss)
        met.append((arm, now))
    return losses


@given(
    instances(max_arms=4),
    st.lists(st.tuples(st.integers(0, 3), st.floats(-1e4, 1e6)), max_size=12),
    st.floats(0.01, 1e3),
)
def test_a_pull_costs_what_is_left_of_all_pulls_before(instance, visits, half_life):
    world = with_half_life(instance, half_life)
    pulls = [arm % world.n_arms for arm, _ in visits]
    at = np.cumsum([pause for _, pause in visits]).tolist()  # some steps lead backwards
    environment = ib.Environment(world)
    scale = 1e-9 * (1.0 + len(pulls) * world.interaction.max_abs + np.abs(world.initial_loss).max())
    for arm, when, expected in zip(pulls, at, slow_losses(world, pulls, at), strict=True):
        before = environment.expected_losses(at=when)
        assert before == pytest.approx(expected, rel=0, abs=scale)
        assert environment.expected_losses(at=when).tobytes() == before.tobytes()  # only a look
        assert environment.pull(arm, at=when) == before[arm]


@given(instances(max_arms=4), st.lists(st.integers(0, 3), max_size=12))
def test_without_time_or_without_end_nothing_fades(instance, pulls):
    """To the bit: all at one moment, an infinite half-life, and a world that knows no clock."""
    worlds = [instance, with_half_life(instance, math.inf), with_half_life(instance, 1.0)]
    plain, endless, still = (ib.Environment(world) for world in worlds)
    for n, arm in enumerate(pulls):
        one = arm % instance.n_arms
        assert plain.pull(one) == endless.pull(one, at=1e5 * n) == still.pull(one, at=7.0)


def test_time_that_is_long_leaves_nothing():
    environment = ib.Environment(TIRING)
    environment.pull(0, at=0.0)
    assert environment.pull(0, at=1e9 * HOUR) == 0.0
    environment.pull(0, at=0.0)  # a clock that was set back
    assert environment.time == 1e9 * HOUR


@pytest.mark.parametrize("wrong", [0.0, -1.0, math.nan, "a day", True])
def test_what_is_no_half_life_is_refused(refused, wrong):
    with refused(InvalidInstance, "half_life"):
        ib.Instance([[1.0]], [0.0], half_life=wrong)
    for make in (
        lambda: ib.Foresight(half_life=wrong),
        lambda: ib.LossPrior.around([[1.0]], [0.0], 0.1, 1.0, half_life=wrong),
    ):
        with refused(InvalidInput, "half_life"):
            make()


@pytest.mark.parametrize("wrong", [math.nan, math.inf, "noon", True])
def test_what_is_no_time_is_refused(refused, wrong):
    for call in (
        lambda: ib.Environment(TIRING).pull(0, at=wrong),
        lambda: ib.Environment(TIRING).expected_losses(at=wrong),
        lambda: ib.Agent(ib.LCB(), 2).pull(at=wrong),
        lambda: ib.Agent(ib.LCB(), 2).select(at=wrong),
        lambda: ib.Fleet(arms=2).pull("ann", at=wrong),
    ):
        with refused(InvalidInput, "at must be a time"):
            call()


def test_a_world_by_the_clock_must_be_told_times(refused):
    with refused(InvalidInput, "at="):
        ib.Environment(TIRING).pull(0)
    with refused(NotApplicable, "half-life 12 hours", "Scenario"):
        ib.simulate(TIRING, ib.LCB(), 10)
    with refused(InvalidInput, "Foresight(half_life=2.0)", "Scenario"):
        ib.simulate(ib.counterexample(), ib.Foresight(half_life=2), 10)


@pytest.mark.parametrize(
    "call",
    [
        lambda: TIRING.losses([1, 1]),
        lambda: TIRING.total_loss([1, 1]),
        lambda: ib.optimum(TIRING, 10),
        lambda: ib.difficulty(TIRING),
        lambda: ib.fading_lower_bound(TIRING),
        lambda: ib.simulate(TIRING, ib.FrankWolfeOracle(), 10, scenario=ib.Scenario(session=2)),
        lambda: ib.simulate(TIRING, ib.LCB(), 10, scenario=ib.Scenario(session=2)).regret(),
    ],
)
def test_what_counts_rounds_has_no_answer(refused, call):
    with refused(NotApplicable, "by the clock"):
        call()


def test_the_half_life_is_said_and_checked():
    assert "12 hours" in repr(TIRING)
    assert "half_life" not in ib.Instance(TIRING.interaction, TIRING.initial_loss).to_json()
    with pytest.raises(InvalidInstance):
        ib.Instance.from_json(TIRING.to_json() | {"half_life": -1})
