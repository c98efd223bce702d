"""What fits give: coefficients of instances, and of the population they come from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

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
    """What fits of instances add up to."""

    instances: int
    coefficients: Floats  # (own,): sums, measured from a centre
    squares: Floats  # (own, own)
    free: Floats  # (own,): sums of the same without the cone
    free_squares: Floats  # (own, own)
    errors: Floats  # (own,): sums of squares
    noise: float  # sum of variances
    undetermined: int  # parts whose statistics do not determine the interaction


def measure_moments(fits: InstanceFits, centre: Floats) -> Moments:
    """Add up fits of instances, of whose coefficients the first ones differ between instances."""
    own, free, errors = (table[:, : len(centre)] for table in fits[:3])
    own, free = own - centre, free - centre
    return Moments(
        len(fits.noise),
        own.sum(axis=0),
        own.T @ own,
        free.sum(axis=0),
        free.T @ free,
        (errors**2).sum(axis=0),
        float((fits.noise**2).sum()),
        int(not fits.determined),
    )


def average_moments(total: Moments, centre: Floats) -> tuple[PopulationEstimate, Floats, float]:
    """Return the mean of instances that share nothing, how much instances differ, and the noise.

    Estimates are pulled together, by as much as is not known of each instance: that is added.
    """
    number = total.instances
    mean, free = centre + total.coefficients / number, centre + total.free / number
    noise = float(np.sqrt(total.noise / number))
    between = np.zeros_like(total.squares)
    covariance = np.diag(total.errors)
    if number > 1:
        between = _covariance(number, total.coefficients, total.squares)
        between += np.diag(total.errors / number)
        covariance = _covariance(number, total.free, total.free_squares) / number
    return PopulationEstimate(mean, free, covariance, 0.0, 0.0, True), between, noise


def _covariance(number: int, sums: Floats, squares: Floats) -> Floats:
    return (squares - np.outer(sums, sums) / number) / (number - 1)


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
