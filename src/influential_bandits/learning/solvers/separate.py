"""Each instance alone: least squares from its own history, with a ridge."""

from __future__ import annotations

import numpy as np

from influential_bandits.learning.solvers.penalised import (
    InstanceFits,
    Penalty,
    PopulationEstimate,
    centre_losses,
    penalty_weights,
    solve_penalised,
)
from influential_bandits.learning.statistics.design import (
    Design,
    Events,
    event_columns,
    history_gram,
)
from influential_bandits.logs.log import EventLog
from influential_bandits.numerics.arrays import Floats
from influential_bandits.numerics.compiling import kernel


def fit_separately(log: EventLog, design: Design, definite: bool, penalty: Penalty) -> InstanceFits:
    """Fit each instance of a part on its own."""
    coefficients, free, errors = (np.zeros((log.n_instances, design.size)) for _ in range(3))
    noise, gap = np.zeros(log.n_instances), np.zeros(log.n_instances)
    tables = (coefficients, free, errors, noise, gap)
    determined = _fit_histories(design, event_columns(log), definite, *penalty, *tables)
    return InstanceFits(*tables, bool(determined))


def average_fits(
    fits: InstanceFits, log: EventLog, design: Design, penalty: Penalty
) -> PopulationEstimate:
    """Return the mean of instances that share nothing as the population.

    A single instance, that of ``log``, is the population, and its errors are those of its own fit.
    """
    number = len(fits.noise)
    if number > 1:
        covariance = np.atleast_2d(np.cov(fits.free, rowvar=False)) / number
    else:
        inverse = _inverse_of(design, event_columns(log), 0, *penalty, design.size)
        covariance = np.asarray(fits.noise[0] ** 2 * inverse)
    means = fits.coefficients.mean(axis=0), fits.free.mean(axis=0)
    return PopulationEstimate(*means, covariance, 0.0, 0.0, fits.determined)


@kernel
def _fit_histories(
    design: Design,
    events: Events,
    definite: bool,
    ridge: float,
    shrinkage: float,
    coefficients: Floats,
    free: Floats,
    errors: Floats,
    noise: Floats,
    gap: Floats,
) -> bool:
    """Fit all instances; return whether their statistics determine the interaction."""
    arms, size = design.n_arms, coefficients.shape[1]
    gram = np.empty((size + 1, size + 1))
    determined = True
    for u in range(events.offsets.size - 1):
        number = events.offsets[u + 1] - events.offsets[u]
        if number == 0:
            continue
        history_gram(design, events, u, gram)
        mean = gram[:arms, size].sum() / number
        centre_losses(gram, arms, mean, number)
        weights = penalty_weights(design, np.diag(gram)[:-1].copy(), number, ridge, shrinkage)
        solution, unbound, spread, least, determines = solve_penalised(
            design, gram, weights, definite, ridge, gap[u : u + 1]
        )
        determined &= determines
        freedom = max(number - (size - (weights * spread).sum()), 1.0)
        noise[u] = np.sqrt(max(least, 0.0) / freedom)
        coefficients[u], free[u] = solution, unbound
        coefficients[u, :arms] += mean
        free[u, :arms] += mean
        errors[u] = noise[u] * np.sqrt(spread)
    return determined


@kernel
def _inverse_of(
    design: Design, events: Events, u: int, ridge: float, shrinkage: float, size: int
) -> Floats:
    """Return H⁻¹ of an instance, H = Gram matrix + penalty."""
    gram = np.empty((size + 1, size + 1))
    history_gram(design, events, u, gram)
    number = events.offsets[u + 1] - events.offsets[u]
    weights = penalty_weights(design, np.diag(gram)[:-1].copy(), number, ridge, shrinkage)
    out: Floats = np.zeros((size, size))
    out[:] = np.linalg.inv(gram[:size, :size] + np.diag(weights))
    out[:] = 0.5 * (out + out.T)  # rounding leaves it not quite symmetric
    return out
