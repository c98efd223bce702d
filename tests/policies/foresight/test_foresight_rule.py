"""The rule of Foresight: its formulas against integrals, and what it does in play."""

import numpy as np
import pytest
import scipy.integrate
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

import influential_bandits as ib
from influential_bandits.policies.foresight.rule import expected_gain, upper_tail
from influential_bandits.studies.compare.families import FAMILIES


@given(st.floats(0.0, 8.0))
def test_the_upper_tail_is_that_of_the_normal_distribution(z):
    density, above = upper_tail(z)
    assert density == pytest.approx(scipy.stats.norm.pdf(z), rel=1e-12)
    assert above == pytest.approx(scipy.stats.norm.sf(z), rel=1e-10)


@given(st.floats(0.0, 6.0), st.floats(0.1, 3.0), st.floats(0.0, 10.0))
def test_the_expected_gain_is_its_integral(gap, deviation, closing):
    def gain(x):
        x = deviation * x - gap
        if x <= 0.0:
            return 0.0
        return x * x / (2.0 * closing) if x < closing else x - 0.5 * closing

    kinks = [gap / deviation, min((gap + closing) / deviation, 40.0)]
    expected = scipy.integrate.quad(
        lambda x: gain(x) * scipy.stats.norm.pdf(x), 0.0, 40.0, points=kinks, limit=200
    )[0]
    ours = expected_gain(gap, deviation, closing)
    assert ours == pytest.approx(expected, rel=1e-4, abs=1e-8 * deviation)


def loss_a_round(policy, family, n_instances, horizon):
    worlds = [FAMILIES[family].make(2_000_000 + n) for n in range(n_instances)]
    run = ib.simulate(worlds, policy, horizon, FAMILIES[family].noise, checkpoints=[horizon])
    return run.loss()[:, 0, 0] / horizon


def test_where_influence_fades_it_has_less_loss_than_policies_that_ignore_it():
    """Paired over 60 instances; the difference is some ten of its standard errors."""
    ours = loss_a_round(ib.Foresight(), "fading-0.9", 60, 300)
    theirs = loss_a_round(ib.LCB(), "fading-0.9", 60, 300)
    difference = ours - theirs
    assert difference.mean() < -4.0 * difference.std() / np.sqrt(60)


def test_arms_that_tire_take_turns():
    instance = ib.Instance(np.eye(3), np.zeros(3), memory=0.5)
    run = ib.simulate(instance, ib.Foresight(), 600, ib.GaussianNoise(0.3), seeds=[4])
    shares = run.counts[0, 0, -1] / 600
    assert np.all(np.abs(shares - 1 / 3) < 0.05)


@pytest.mark.parametrize("factor", [2.0**-30, 2.0**20])
def test_the_unit_of_losses_changes_no_choice(factor):
    instance = ib.random_instance(3, 11)
    scaled = ib.Instance(factor * instance.interaction.to_dense(), factor * instance.initial_loss)
    pair = [
        ib.simulate(world, ib.Foresight(), 300, ib.GaussianNoise(sigma)).counts
        for world, sigma in ((instance, 1.0), (scaled, factor))
    ]
    np.testing.assert_array_equal(*pair)


def test_in_the_last_round_that_was_told_nothing_is_looked_at_for_later():
    """Arm 1 is known well; arm 0 was seen once: with rounds ahead it is seen again."""
    for seed in range(12):
        chosen = {}
        for horizon in (40, 10**6):
            agent = ib.Agent(ib.Foresight(horizon=horizon), 2)
            draw = np.random.default_rng(seed)
            for _ in range(39):
                ticket = agent.pull(eligible=[agent.round == 0, agent.round > 0])
                agent.observe(ticket, 0.2 if ticket.arm == 0 else 0.5 * draw.normal())
            chosen[horizon] = agent.select()
        assert chosen == {40: agent.expected_losses().argmin(), 10**6: 0}


def test_arms_far_apart_are_left_again_where_there_is_no_noise():
    """Levels lie hundreds of σ apart; none is so unlikely that influence has to explain it."""
    worlds = [FAMILIES["random-3-exact"].make(500_000 + number) for number in (85, 133, 158)]
    run = ib.simulate(worlds, ib.Foresight(), 300, ib.NoNoise())
    assert np.all(run.regret()[:, 0, -1] < 200.0)


def test_an_arm_that_comes_later_is_tried():
    agent = ib.Agent(ib.Foresight(), ["a", "b"], seed=0)
    draw = np.random.default_rng(1)
    for _ in range(50):
        ticket = agent.pull()
        agent.observe(ticket, 1.0 + 0.1 * draw.normal())
    agent.add_arm("c")
    arms = []
    for _ in range(50):
        ticket = agent.pull()
        arms.append("abc"[ticket.arm])
        agent.observe(ticket, (0.0 if ticket.arm == 2 else 1.0) + 0.1 * draw.normal())
    assert arms.count("c") > 30


def test_more_arms_than_pairs_are_kept_for_can_come():
    agent = ib.Agent(ib.Foresight(), 24, seed=0)
    for _ in range(30):
        agent.observe(agent.pull(), 1.0)
    agent.add_arm()
    for _ in range(5):
        agent.observe(agent.pull(), 1.0)
    assert agent.n_arms == 25


@pytest.mark.long
def test_regret_grows_with_the_rounds_up_to_a_million():
    """Sums of squares of counts then have 17 digits; one more would let regret explode."""
    worlds = [FAMILIES["random-3"].make(2_600_000 + number) for number in range(4)]
    run = ib.simulate(
        worlds, ib.Foresight(), 10**6, ib.GaussianNoise(1.0), checkpoints=[10**5, 10**6]
    )
    early, late = run.regret()[:, 0].T
    assert np.all(late < 12.0 * early + 10.0)
