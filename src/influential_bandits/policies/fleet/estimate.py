"""What a fleet knows of its population, in the user's units."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.policies.fleet.states import (
    ARM,
    COMMON,
    DRIFT,
    MEMORY,
    NOISE_VARIANCE,
    OBSERVED,
    ORIGIN,
    SPREAD,
    WAITING,
    Rules,
    Shared,
)
from influential_bandits.policies.model_lcb.marginal_likelihood import FLOOR
from influential_bandits.policies.model_lcb.posterior import place, unknowns

SCALES = 2.0 ** np.arange(6.0, -20.5, -0.5)  # of entries of A, in units of σ


@dataclass(frozen=True, eq=False)
class SharedEstimate:
    """The population as a fleet sees it: means, errors, and how much users differ."""

    initial_loss: Floats  # (arms,): posterior mean of μ
    interaction: Floats  # (arms, arms): posterior mean of A
    interaction_errors: Floats  # (arms, arms): standard deviations of its entries, over how large
    # entries of A may be, too: that pairs are taken for 0 does not mean that this is certain
    memory: float  # γ, as given or as estimated
    sigma: float  # standard deviation of the noise
    taste: float  # standard deviation of users' initial losses, from arm to arm
    level: float  # and of their level
    interaction_spread: float  # standard deviation of entries of users' own A; 0: users share it
    losses: int  # that this is known from
    drift: float = 0.0  # standard deviation of the drift of users' levels; 0: they stay as they are
    drift_memory: float = 0.0  # their correlation from one loss to the next


def summarise(rules: Rules, shared: Shared) -> SharedEstimate:
    """Return what the sums say."""
    arms = range(rules.n_arms)
    memory = int(shared.numbers[MEMORY])
    theta = shared.theta[memory]
    sigma = math.sqrt(shared.scales[NOISE_VARIANCE])
    drift, noise, keep = 0.0, 1.0, 0.0
    if len(rules.drifts):
        drift, noise, keep = rules.drifts[shared.numbers[DRIFT]].tolist()
    errors = sigma * np.sqrt(np.maximum(np.diag(shared.covariance), 0.0))
    groups = [place(i, i) for i in arms], [place(i, j) for i in arms for j in range(i)]
    if len(shared.known) == 0 and shared.numbers[OBSERVED] >= 2 * rules.n_arms:
        for group in groups:
            errors[group] = find_errors(shared, np.array(group, np.int64))
    return SharedEstimate(
        np.array([theta[unknowns(i)] for i in arms]) + shared.scales[ORIGIN],
        np.array([[theta[place(i, j)] for j in arms] for i in arms]),
        np.array([[errors[place(i, j)] for j in arms] for i in arms]),
        float(rules.memories[memory]),
        sigma * math.sqrt(noise),
        sigma * math.sqrt(shared.scales[ARM]),
        sigma * math.sqrt(shared.scales[COMMON]),
        sigma * math.sqrt(shared.scales[SPREAD]),
        int(shared.numbers[OBSERVED]),
        sigma * math.sqrt(drift),
        keep,
    )


def complete_gram(shared: Shared, memory: int) -> Floats:
    """Return Σ x̃x̃ᵀ/α of a memory, (p, p), with the losses that are still to be added."""
    half = shared.gram[memory]
    waiting = shared.rows[memory, : shared.numbers[WAITING]]
    gram: Floats = np.tril(half) + np.tril(half, -1).T
    gram += waiting.T @ (waiting / shared.alphas[: len(waiting), None])
    return gram


def find_errors(shared: Shared, group: Ints) -> Floats:
    """Return deviations of entries from the means in use, over the scale that they have in common.

    A fleet plays with the scale τ of these entries that makes its losses likeliest. Here every τ
    counts by its marginal likelihood, times a half-t prior of four degrees of freedom in units of
    σ: the deviations are those of the mixture, around the means in use. Other scales stay.

    With the other unknowns eliminated, the entries have the precision S + 1/τ² and the right-hand
    side b: one decomposition of S serves every τ.
    """
    memory = int(shared.numbers[MEMORY])
    theta, variance = shared.theta[memory, group], shared.scales[NOISE_VARIANCE]
    if len(group) == 0:
        return np.zeros(0)
    gram = complete_gram(shared, memory)
    right, squares = shared.right[memory], shared.squares[memory]
    others = np.setdiff1d(np.arange(len(right)), group)
    inner = gram[np.ix_(others, others)] + np.diag(shared.precision[others])
    cross = gram[np.ix_(others, group)]
    solved = np.linalg.solve(inner, np.column_stack([cross, right[others]]))
    spread, axes = np.linalg.eigh(gram[np.ix_(group, group)] - cross.T @ solved[:, :-1])
    target = axes.T @ (right[group] - cross.T @ solved[:, -1])
    squares -= right[others] @ solved[:, -1]
    precision = SCALES[:, None] ** -2.0 + np.maximum(spread, 0.0)  # (scales, entries)
    means = target / precision
    seen = float(shared.numbers[OBSERVED])
    left = np.maximum(squares - means @ target, FLOOR * shared.squares[memory])
    if not (left > 0.0).all():  # nothing but zeros was seen
        return np.sqrt(variance * np.diag(shared.covariance)[group])
    likelihood = np.log(precision).sum(axis=1) + 2.0 * len(group) * np.log(SCALES)
    likelihood = -0.5 * (likelihood + seen * np.log(left / seen))
    likelihood += np.log(SCALES) - 2.5 * np.log1p(SCALES**2 / 4.0)
    weights = np.exp(likelihood - likelihood.max())
    weights /= weights.sum()
    within = variance * (axes**2 @ (weights @ (1.0 / precision)))
    return np.sqrt(within + weights @ (means @ axes.T - theta) ** 2)
