"""Bayesian linear regression of losses on (l1, A) written out densely: slow and plain.

The unknowns are named, ("l1", i) and ("A", i, j) with j ≤ i, and lie in the order of a list: where
the package puts them is then something to test.
"""

from typing import NamedTuple

import numpy as np


def named_unknowns(arms):
    """l1_0, A_00, l1_1, A_10, A_11, …: arm by arm, so that a new arm's come last."""
    names = []
    for i in range(arms):
        names.append(("l1", i))
        names.extend(("A", i, j) for j in range(i + 1))
    return names


def feature(arms, arm, weights):
    """φ with φ·θ = l1_arm + Σ_j A_arm,j·weights_j; counts of arms that came later are zero."""
    names = named_unknowns(arms)
    phi = np.zeros(len(names))
    phi[names.index(("l1", arm))] = 1.0
    for j, weight in enumerate(weights):
        phi[names.index(("A", max(arm, j), min(arm, j)))] += weight
    return phi


def ray_feature(arms, arm, weights):
    """φ of an arm with an intercept, its own pulls and those of all others."""
    phi = np.zeros(3 * arms)
    phi[3 * arm : 3 * arm + 3] = 1.0, weights[arm], sum(weights) - weights[arm]
    return phi


def prior_variances(arms, loss, own, others):
    """D in units of σ²: ρ_l² for every l1, ρ_d² on the diagonal of A, ρ_o² off it."""
    return np.array(
        [
            loss**2 if name[0] == "l1" else own**2 if name[1] == name[2] else others**2
            for name in named_unknowns(arms)
        ]
    )


def prior_covariance(arms, loss, own, others, loss_tie=0, influence_tie=0):
    """D with common means: k > 0 ties values of deviation ρ to a mean of deviation ρ, within ρ/4^k.

    The l1 have one mean, the diagonal of A another, and what lies off it a third.
    """
    names = named_unknowns(arms)
    group = [0 if name[0] == "l1" else 1 if name[1] == name[2] else 2 for name in names]
    ties, scales = (loss_tie, influence_tie, influence_tie), (loss, own, others)
    covariance = np.zeros((len(names), len(names)))
    for i, g in enumerate(group):
        covariance[i, i] = (scales[g] / 4.0 ** ties[g]) ** 2
        for j, h in enumerate(group):
            if g == h and ties[g] > 0:
                covariance[i, j] += scales[g] ** 2
    return covariance


def ray_covariance(arms, *scales_and_ties):
    return np.diag(ray_variances(arms, *scales_and_ties[:3]))


def ray_variances(arms, loss, own, others):
    return np.tile([loss**2, own**2, others**2 / arms], arms)


class Posterior(NamedTuple):
    """The exact answer, by solving the normal equations."""

    mean: np.ndarray
    covariance: np.ndarray  # in units of σ²
    volume: float  # log(|D|·|Λ + D⁻¹|)
    rss: float  # Σ(loss − φ·mean)² + meanᵀD⁻¹mean


def posterior(features, losses, covariance, mean=None):
    """Regress with the prior N(mean, σ²·covariance), everything dense."""
    size = len(covariance)
    phi, y = np.reshape(features, (-1, size)), np.asarray(losses, float)
    mean = np.zeros(size) if mean is None else mean
    inverse = np.linalg.inv(covariance)
    precision = phi.T @ phi + inverse
    centre = mean + np.linalg.solve(precision, phi.T @ (y - phi @ mean))
    left = y - phi @ centre
    rss = left @ left + (centre - mean) @ inverse @ (centre - mean)
    volume = np.linalg.slogdet(precision)[1] + np.linalg.slogdet(covariance)[1]
    return Posterior(centre, np.linalg.inv(precision), volume, rss)
