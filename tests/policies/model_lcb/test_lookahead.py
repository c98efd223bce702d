"""The plan for the rounds ahead against the certified optimum."""

import numpy as np
import pytest

import influential_bandits as ib
from influential_bandits.policies.model_lcb.lookahead import TOLERANCE, plan_ahead


def planned(losses, interaction, rounds, allowed=None):
    arms = len(losses)
    plan, slope = np.full(arms, np.nan), np.full(arms, np.nan)
    mask = np.ones(arms) if allowed is None else np.asarray(allowed, float)
    plan_ahead(np.asarray(losses, float), interaction, float(rounds), mask, plan, slope)
    return plan


def random_world(arms, seed):
    draw = np.random.default_rng(seed)
    half = draw.normal(size=(arms, arms))
    return draw.normal(size=arms) * 10.0 ** draw.integers(-1, 3), half @ half.T


def assert_a_mix(plan, rounds, allowed=None):
    assert (plan >= 0.0).all()
    assert plan.sum() == pytest.approx(rounds, rel=1e-9)
    if allowed is not None:
        assert (plan[~np.asarray(allowed)] == 0.0).all()


@pytest.mark.parametrize("arms", range(1, 7))
def test_the_plan_is_the_optimum(arms):
    """Marginal losses agree to TOLERANCE: so the loss is within TOLERANCE·|slope|·T, by convexity.

    After MOST_STEPS the plan is what there is: how often that leaves more, and how much, is stated.
    """
    far = 0
    for seed in range(50):
        losses, interaction = random_world(arms, seed)
        rounds = [1, 10, 1000, 10**5][seed % 4]
        instance = ib.Instance(interaction, losses)
        plan = planned(losses, instance.interaction.to_dense(), rounds)
        assert_a_mix(plan, rounds)
        best, slope = ib.optimum(instance, rounds), losses + interaction @ plan
        slope -= 0.5 * np.diag(interaction)
        excess = instance.total_loss(plan) - best.loss
        scale = rounds * np.abs(slope).max()
        assert -1e-9 * scale <= excess <= 0.02 * scale
        far += excess > 2.0 * TOLERANCE * scale
    assert far <= 2


@pytest.mark.parametrize("arms", range(2, 7))
def test_only_arms_that_are_allowed_are_planned(arms):
    for seed in range(30):
        losses, interaction = random_world(arms, seed)
        allowed = np.random.default_rng(seed).random(arms) < 0.5
        allowed[seed % arms] = True
        plan = planned(losses, interaction, 1000, allowed)
        assert_a_mix(plan, 1000, allowed)
        alone = planned(losses[allowed], interaction[np.ix_(allowed, allowed)].copy(), 1000)
        np.testing.assert_allclose(plan[allowed], alone, rtol=1e-9)


@pytest.mark.parametrize("arms", range(1, 7))
def test_an_indefinite_interaction_ends_in_some_mix(arms):
    """There the loss need not be convex; the plan is a mix, no worse than the best arm alone."""
    for seed in range(30):
        draw = np.random.default_rng(seed)
        half = draw.normal(size=(arms, arms))
        losses, interaction = draw.normal(size=arms), half + half.T
        plan = planned(losses, interaction, 500)
        assert_a_mix(plan, 500)
        alone = np.zeros(arms)
        alone[np.argmin(losses)] = 500.0
        instance = ib.Instance(interaction, losses, definite=False)
        assert instance.total_loss(plan) <= instance.total_loss(alone) + 1e-6


@pytest.mark.parametrize("arms", [1, 3])
def test_without_influence_everything_goes_to_the_smallest_loss(arms):
    losses = np.arange(arms, 0, -1.0)
    plan = planned(losses, np.zeros((arms, arms)), 100)
    assert plan.tolist() == [0.0] * (arms - 1) + [100.0]


def test_equal_arms_that_tire_alone_share():
    plan = planned(np.ones(4), np.eye(4), 1000)
    np.testing.assert_allclose(plan, 250.0, rtol=2 * TOLERANCE)


def test_all_zeros_end_at_once():
    assert planned(np.zeros(3), np.zeros((3, 3)), 7).tolist() == [7.0, 0.0, 0.0]
