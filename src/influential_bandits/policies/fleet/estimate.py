"""What a fleet knows of its population, in the user's units."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from influential_bandits.numerics.arrays import Floats
from influential_bandits.policies.foresight.cholesky import place
from influential_bandits.policies.foresight.hypotheses import (
    FIRST_LEVEL_SPREAD,
    MEANS,
    MEMORIES,
    MOST_ARMS,
    STEP,
)
from influential_bandits.policies.foresight.rule import FIRST_DIFFERENCE
from influential_bandits.policies.foresight.users import Rules, Shared


@dataclass(frozen=True, eq=False)
class SharedEstimate:
    """The population as a fleet sees it: means, errors, and how much users differ.

    With more than 24 arms, an arm's influence on others is that of all others together.
    """

    initial_loss: Floats  # (arms,): expected mean of users' initial losses
    interaction: Floats  # (arms, arms): expected A
    interaction_errors: Floats  # (arms, arms): standard deviations of its entries
    memory: float  # γ, as given or as expected
    sigma: float  # standard deviation of the noise
    taste: float  # standard deviation of users' initial losses around their mean
    interaction_spread: float  # of entries of users' own A; 0: users share it
    losses: int  # that this is known from


def summarise(rules: Rules, shared: Shared) -> SharedEstimate:
    """Return the averages over the hypotheses, and what they leave open."""
    n_arms, size = rules.n_arms, shared.coefficients.shape[1]
    mean, square = np.zeros((n_arms, size)), np.zeros((n_arms, size))
    noise = memory = taste = unlike = 0.0
    diagonal = [place(j, j) for j in range(size)]
    for h in np.flatnonzero(shared.weight):
        weight, variant = shared.weight[h], int(shared.variant[h])
        variance = shared.rest[h] / max(int(shared.observations[0]) - 1, 1)
        precision = shared.common_precision[h].reshape(MEANS, MEANS)
        precision = np.tril(precision) + np.tril(precision, -1).T + 1e-300 * np.eye(MEANS)
        common = np.linalg.lstsq(precision, shared.common_moment[h], rcond=None)[0]
        rows = slice(h * n_arms, (h + 1) * n_arms)
        response = shared.response[rows].reshape(n_arms, size, MEANS)
        expected = shared.coefficients[rows] + response @ common
        within = np.einsum("ijk,kl,ijl->ij", response, np.linalg.pinv(precision), response)
        mean += weight * expected
        square += weight * (
            expected**2 + variance * (shared.covariance[rows][:, diagonal] + within)
        )
        noise += weight * variance
        of_users = variant % (rules.tastes * rules.differences)
        number = variant // (rules.tastes * rules.differences)
        memory += weight * (MEMORIES[number] if rules.memories > 1 else rules.memory)
        taste += weight * FIRST_LEVEL_SPREAD * STEP ** (of_users // rules.differences)
        different = of_users % rules.differences
        if different > 0:
            unlike += weight * FIRST_DIFFERENCE * STEP ** (2 * (different - 1))
    sigma = math.sqrt(noise)
    errors = np.sqrt(np.maximum(square - mean**2, 0.0))
    if n_arms > MOST_ARMS:
        mean, errors = _spread_out(mean), _spread_out(errors)
    interaction = mean[:, 1:]
    return SharedEstimate(
        mean[:, 0],
        0.5 * (interaction + interaction.T),
        errors[:, 1:],
        float(memory),
        sigma,
        float(sigma * taste),
        float(sigma * unlike),
        int(shared.observations[0]),
    )


def _spread_out(values: Floats) -> Floats:
    """Return (arms, 1 + arms) of levels, own influence and that of others, (arms, 3)."""
    n_arms = len(values)
    table = np.repeat(values[:, 2:], n_arms, axis=1)
    np.fill_diagonal(table, values[:, 1])
    return np.hstack([values[:, :1], table])
