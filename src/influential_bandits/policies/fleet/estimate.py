"""What a fleet knows of its population, in the user's units."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from influential_bandits.numerics.arrays import Floats
from influential_bandits.policies.fleet.states import (
    ARM,
    COMMON,
    MEMORY,
    NOISE_VARIANCE,
    OBSERVED,
    ORIGIN,
    SPREAD,
    Rules,
    Shared,
)
from influential_bandits.policies.model_lcb.posterior import place, unknowns


@dataclass(frozen=True, eq=False)
class SharedEstimate:
    """The population as a fleet sees it: means, errors, and how much users differ."""

    initial_loss: Floats  # (arms,): posterior mean of μ
    interaction: Floats  # (arms, arms): posterior mean of A
    interaction_errors: Floats  # (arms, arms): standard deviations of its entries
    memory: float  # γ, as given or as estimated
    sigma: float  # standard deviation of the noise
    taste: float  # standard deviation of users' initial losses, from arm to arm
    level: float  # and of their level
    interaction_spread: float  # standard deviation of entries of users' own A; 0: users share it
    losses: int  # that this is known from


def summarise(rules: Rules, shared: Shared) -> SharedEstimate:
    """Return what the sums say."""
    arms = range(rules.n_arms)
    memory = int(shared.numbers[MEMORY])
    theta = shared.theta[memory]
    sigma = math.sqrt(shared.scales[NOISE_VARIANCE])
    errors = sigma * np.sqrt(np.maximum(np.diag(shared.covariance), 0.0))
    return SharedEstimate(
        np.array([theta[unknowns(i)] for i in arms]) + shared.scales[ORIGIN],
        np.array([[theta[place(i, j)] for j in arms] for i in arms]),
        np.array([[errors[place(i, j)] for j in arms] for i in arms]),
        float(rules.memories[memory]),
        sigma,
        sigma * math.sqrt(shared.scales[ARM]),
        sigma * math.sqrt(shared.scales[COMMON]),
        sigma * math.sqrt(shared.scales[SPREAD]),
        int(shared.numbers[OBSERVED]),
    )
