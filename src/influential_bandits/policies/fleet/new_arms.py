"""A new arm of a fleet: where its numbers lie, and what is known of it before its first loss."""

from __future__ import annotations

from typing import Any

import numpy as np

from influential_bandits.memory import require_memory
from influential_bandits.numerics.arrays import Floats
from influential_bandits.policies.fleet.states import (
    ARM,
    AUDIT,
    MEMORY,
    NOISE_VARIANCE,
    SPREAD,
    SPREAD_TRIALS,
    Apart,
    Own,
    Rules,
    Shared,
)
from influential_bandits.policies.model_lcb.posterior import place, unknowns


def add_arm(
    rules: Rules, shared: Shared, own: Own, apart: Apart
) -> tuple[Rules, Shared, Own, Apart]:
    """Return all arrays with one more arm; the unknowns of a new arm come last.

    What is known of the others stays as it is. The new arm starts from the prior: where that came
    from a log, as the other arms are on average, with their spread.
    """
    n_arms = rules.n_arms
    needed = sum(array.nbytes for array in own) * (n_arms + 1) // n_arms
    require_memory(needed, f"another arm of {len(own.epoch):,} users", "forget users who have left")
    centre, variance = _describe_new_arm(n_arms, shared)
    wider = _widen_shared(shared, centre, variance)
    return (
        rules._replace(n_arms=n_arms + 1),
        wider,
        _widen_own(own, rules.exact),
        _widen_apart(apart, shared, centre, variance),
    )


def _describe_new_arm(n_arms: int, shared: Shared) -> tuple[Floats, Floats]:
    """Return mean and variance, in σ², of μ and of the row of A of a new arm, (arms + 2,) each."""
    groups = (
        [unknowns(i) for i in range(n_arms)],
        [place(i, j) for i in range(n_arms) for j in range(i)] or [place(0, 0)],
        [place(i, i) for i in range(n_arms)],
    )
    order = [0, *[1] * n_arms, 2]  # μ, A_k0, …, A_kk
    if len(shared.known) == 0:
        variances = [1.0 / shared.precision[group[0]] for group in groups]
        return np.zeros(len(order)), np.array([variances[g] for g in order])
    theta = shared.theta[shared.numbers[MEMORY]]
    unsure = np.diag(shared.covariance)
    means, variances = [], []
    for group in groups:
        found = theta[group]
        apart = found - found.mean() if len(group) > 1 else found  # of one arm nothing else is said
        own = float(np.mean(apart**2)) / shared.scales[NOISE_VARIANCE]
        means.append(float(found.mean()))
        variances.append(max(own + float(unsure[group].mean()), 1e-12))
    return np.array([means[g] for g in order]), np.array([variances[g] for g in order])


def _pad(array: Any, *axes: int, by: int = 1) -> Any:
    """Return an array with zeros at the end of some axes."""
    axes = tuple(axis % array.ndim for axis in axes)
    return np.pad(array, [(0, by * (axis in axes)) for axis in range(array.ndim)])


def _widen_shared(shared: Shared, centre: Floats, variance: Floats) -> Shared:
    more = len(centre)
    before = len(shared.centre)
    new = slice(before, before + more)
    diagonal = np.arange(before, before + more)
    wider: dict[str, Any] = {
        "gram": _pad(shared.gram, 1, 2, by=more),
        "covariance": _pad(shared.covariance, 0, 1, by=more),
        "known": _pad(shared.known, 1, 2, by=more),
    }
    for name in ("rows", "right", "theta", "centre", "precision", "epochs"):
        wider[name] = _pad(getattr(shared, name), -1, by=more)
    for name in ("theta", "centre", "epochs"):
        wider[name][..., new] = centre
    wider["precision"][new] = 1.0 if len(shared.known) else 1.0 / variance  # or the share of known
    wider["covariance"][diagonal, diagonal] = variance
    wider["known"][:, diagonal, diagonal] = 1.0 / variance
    return shared._replace(**wider)


def _widen_own(own: Own, exact: bool) -> Own:
    wider = {name: _pad(getattr(own, name), -1) for name in ("pulls", "seen", "faded", "sums")}
    wider["exposures"] = _pad(own.exposures, *((2, 3) if exact else (2,)))
    return own._replace(**wider)


def _widen_apart(apart: Apart, shared: Shared, centre: Floats, variance: Floats) -> Apart:
    more, before = len(centre), apart.theta.shape[1]
    diagonal = np.arange(before, before + more)
    slots = len(apart.owner)
    spread = np.full((slots, more), shared.scales[SPREAD])
    spread[:AUDIT] = np.array(SPREAD_TRIALS)[:, None]
    spread[:, 0] = shared.scales[ARM]  # of initial losses, it is how tastes differ
    wider: dict[str, Any] = {
        "theta": _pad(apart.theta, 1, by=more),
        "centre": _pad(apart.centre, 1, by=more),
        "precision": _pad(apart.precision, 1, by=more),
        "covariance": _pad(apart.covariance, 1, 2, by=more),
    }
    wider["theta"][:, before:] = centre
    wider["centre"][:, before:] = centre
    wider["covariance"][:, diagonal, diagonal] = variance + spread
    wider["precision"][:, before:] = 1.0 / (variance + spread)
    return apart._replace(**wider)
