"""What fits give: coefficients of instances, and of the population they come from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from influential_bandits.numerics.arrays import Floats

__all__ = [
    "InstanceFits",
    "InstanceSummary",
    "PopulationEstimate",
    "allocate_fits",
    "average_fits",
    "join_fits",
]


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
    """What a model knows of instances whose own coefficients are kept beside it, in files."""

    instances: int
    noise: float  # standard deviation, of all instances together
    covariance: Floats  # (size, size): of the instances' coefficients


def allocate_fits(instances: int, size: int) -> tuple[Any, Any, Any, Any, Any]:
    """Return arrays for the coefficients, the same without cone, errors, noise and gap."""
    first, second, third = (np.zeros((instances, size)) for _ in range(3))
    return first, second, third, np.zeros(instances), np.zeros(instances)


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


def average_fits(fits: InstanceFits, covariance: Floats | None = None) -> PopulationEstimate:
    """Return the mean of instances that share nothing as the population."""
    number = len(fits.noise)
    if covariance is None and number > 1:
        covariance = np.atleast_2d(np.cov(fits.free, rowvar=False)) / number
    elif covariance is None:
        covariance = np.diag(fits.errors.sum(axis=0) ** 2)
    means = fits.coefficients.mean(axis=0), fits.free.mean(axis=0)
    return PopulationEstimate(*means, covariance, 0.0, 0.0, fits.determined)
