"""Uniform: at random, each arm alike."""

import numpy as np
import pytest

import influential_bandits as ib


@pytest.mark.parametrize("arms", [2, 3, 7])
def test_each_arm_is_equally_likely(arms):
    """Chi-squared below its 1 − 1e-6 quantile; seeded, so that it holds for good or not at all."""
    quantile = {2: 23.93, 3: 27.63, 7: 38.26}[arms]
    run = ib.simulate(ib.random_instance(arms, seed=0), ib.Uniform(), 2000, seeds=range(20))
    counts = run.counts[0, :, -1].sum(axis=0)
    expected = counts.sum() / arms
    assert ((counts - expected) ** 2 / expected).sum() < quantile


def test_each_eligible_arm_is_equally_likely():
    """As above, 1 − 1e-6: two degrees of freedom."""
    counts = np.zeros(5)
    mask = np.array([True, False, True, False, True])
    agent = ib.Agent(ib.Uniform(), 5, seed=1)
    for _ in range(3000):
        counts[agent.pull(eligible=mask).arm] += 1
    assert counts[~mask].sum() == 0
    assert ((counts[mask] - 1000) ** 2 / 1000).sum() < 27.63


def test_choices_depend_on_seed_and_instance_but_not_on_noise():
    instances = [ib.random_instance(3, seed=0)] * 2
    quiet = ib.simulate(instances, ib.Uniform(), 200, seeds=[1, 2], record="choices").choices
    noisy = ib.simulate(
        instances, ib.Uniform(), 200, ib.GaussianNoise(5.0), seeds=[1, 2], record="choices"
    ).choices
    assert np.array_equal(quiet, noisy)
    streams = quiet.reshape(4, -1)
    for i in range(4):
        for j in range(i):
            # 200 independent choices of 3 agree in 67 ± 6.7; all four fail with p < 1e-9.
            assert (streams[i] == streams[j]).sum() < 120
