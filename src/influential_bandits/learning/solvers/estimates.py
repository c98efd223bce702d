"""What fits give: coefficients of instances, and of the population they come from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from influential_bandits.numerics.arrays import Floats


class InstanceFits(NamedTuple):
    """Coefficients of instances, and how sure they are."""

    coefficients: Floats  # (instances, size)
    free: Floats  # (instances, size): the same without the cone
    errors: Floats  # (instances, size): posterior standard deviations
    noise: Floats  # (instances,): standard deviation of what is left
    gap: Floats  # (instances,): duality gap of positive semi-definite fits, relative
    determined: bool  # whether the statistics determine the interaction without a ridge


class PopulationEstimate(NamedTuple):
    """What instances share, or their mean."""

    population: Floats  # (size,)
    free: Floats  # (size,): the same without the cone
    covariance: Floats  # (size, size): of the population's coefficients
    noise: float
    gap: float
    determined: bool


class InstanceSummary(NamedTuple):
    """What a model knows of instances whose own coefficients it does not hold."""

    instances: int
    noise: float  # standard deviation, of all instances together
    covariance: Floats  # (size, size): of the instances' coefficients


class Moments(NamedTuple):
    """What the initial losses of instances add up to."""

    instances: int
    losses: Floats  # (arms,): sums, measured from a centre
    squares: Floats  # (arms, arms)
    errors: Floats  # (arms,): sums of squares


def measure_moments(fits: InstanceFits, centre: Floats) -> Moments:
    """Add up the initial losses of instances."""
    losses, errors = (table[:, : len(centre)] for table in (fits.coefficients, fits.errors))
    losses = losses - centre
    squares = losses.T @ losses
    return Moments(len(fits.noise), losses.sum(axis=0), squares, (errors**2).sum(axis=0))


def measure_spread(total: Moments) -> Floats:
    """Return how much the initial losses of instances differ, (arms, arms).

    Estimates are pulled together, by as much as is not known of each instance: that is added.
    """
    number = total.instances
    if number == 1:
        return np.zeros_like(total.squares)
    spread: Floats = total.squares - np.outer(total.losses, total.losses) / number
    return spread / (number - 1) + np.diag(total.errors / number)


def join_fits(fits: Iterable[InstanceFits]) -> InstanceFits:
    """Return the fits of several parts as one; coefficients that are free stay the same array."""
    parts = list(fits)
    same = all(part.free is part.coefficients for part in parts)
    *arrays, determined = zip(*parts, strict=True)
    joined = [
        np.concatenate(array) if n != 1 or not same else None for n, array in enumerate(arrays)
    ]
    joined[1] = joined[0] if same else joined[1]
    return InstanceFits._make([*joined, all(determined)])
