"""A user's own initial losses, given (μ, A): how its losses weigh, and what it was exposed to.

With N the numbers of losses of each arm, S the sums of their residuals and Ω the inverse of
arm·I + common·11ᵀ, the mean of b_u is (N + Ω)⁻¹S; it is the formula of
``learning/statistics/pooled_sums.py``, one user and one loss at a time.
"""

from __future__ import annotations

import numpy as np

from influential_bandits.checks import HOUR
from influential_bandits.numerics.arrays import Floats
from influential_bandits.numerics.compiling import kernel
from influential_bandits.numerics.portable import halve
from influential_bandits.policies.fleet.states import Counts, Own, Rules
from influential_bandits.policies.model_lcb.posterior import place, unknowns


@kernel
def weigh_effects(seen: Counts, arm: float, common: float, i: int, out: Floats) -> None:
    """Write row i of (N + Ω)⁻¹, that is E + f·(E1)(E1)ᵀ with E = 1/(N + 1/arm) diagonal.

    Entries of other arms without a loss stay zero: they weigh sums that are zero.
    """
    n_arms = seen.size
    precision = 1.0 / arm
    own = 1.0 / (seen[i] + precision)
    for k in range(n_arms):
        out[k] = 0.0
    if common > 0.0:
        coupling = precision * common / (arm + n_arms * common)
        left = arm / (arm + n_arms * common)  # 1 − coupling·1ᵀE1, summed without cancellation
        for k in range(n_arms):
            if seen[k] > 0:
                left += coupling * seen[k] * arm / (seen[k] + precision)
        by = coupling / left * own
        for k in range(n_arms):
            if seen[k] > 0 or k == i:
                out[k] = by / (seen[k] + precision)
    out[i] += own


@kernel
def fill_exposures(
    exact: bool, exposures: Floats, seen: Counts, pulls: Counts, out: Floats, only: int = -1
) -> None:
    """Write, for each arm k and j, the sum over the losses of k of the faded pulls of j before.

    With ``only`` ≥ 0, of that arm k alone.

    Kept one by one, they are exact. Otherwise two numbers are kept for each arm: the exposures to
    itself, and to all arms. Both stay as they are. What is left for the other arms is shared among
    them by how often they were pulled, and by when: arms pulled earlier on average than k were met
    more often before k. Where memory lasts, this keeps W_kj + W_jk as it is, too.
    """
    n_arms = seen.size
    first, last = (0, n_arms) if only < 0 else (only, only + 1)
    if exact:
        for k in range(first, last):
            for j in range(n_arms):
                out[k, j] = exposures[k, j]
        return
    usual = np.zeros(n_arms)  # how many pulls lay before a loss of each arm
    latest = 0.0
    for k in range(n_arms):
        if seen[k] > 0:
            usual[k] = exposures[k, 1] / seen[k]
            latest = max(latest, usual[k])
    for k in range(first, last):
        if seen[k] == 0:
            for j in range(n_arms):
                out[k, j] = 0.0
            continue
        total = 0.0
        for j in range(n_arms):
            out[k, j] = 0.0
            if j != k and pulls[j] > 0:
                later = 0.0
                if seen[j] > 0 and latest > 0.0:
                    later = 0.5 * (usual[k] - usual[j]) / latest
                out[k, j] = pulls[j] * max(0.5 + later, 0.05)
                total += out[k, j]
        rest = exposures[k, 1] - exposures[k, 0]
        for j in range(n_arms):
            out[k, j] = out[k, j] * rest / total if total > 0.0 else 0.0
        out[k, k] = exposures[k, 0]


@kernel
def shift_sums(
    seen: Counts,
    exposures: Floats,
    before: Floats,
    after: Floats,
    sums: Floats,
    out: Floats,
    only: int = -1,
) -> None:
    """Write the sums of residuals as of another (μ, A) than that of ``sums``.

    With ``only`` ≥ 0, of that arm alone.
    """
    n_arms = seen.size
    first, last = (0, n_arms) if only < 0 else (only, only + 1)
    for k in range(first, last):
        total = sums[k]
        if seen[k] > 0:
            own = unknowns(k)
            total -= seen[k] * (after[own] - before[own])
            for j in range(n_arms):
                if exposures[k, j] != 0.0:
                    entry = place(k, j)
                    total -= exposures[k, j] * (after[entry] - before[entry])
        out[k] = total


@kernel
def fill_features(arm: int, weights: Floats, out: Floats) -> None:
    """Write x, what the loss of an arm has of each unknown."""
    for a in range(out.size):
        out[a] = 0.0
    out[unknowns(arm)] = 1.0
    for j in range(weights.size):
        out[place(arm, j)] = weights[j]


@kernel
def remove_own_part(seen: Counts, exposures: Floats, weighed: Floats, x: Floats) -> None:
    """Turn x into x̃: what is left of the unknowns once the user's past losses are known."""
    n_arms = seen.size
    for k in range(n_arms):
        if seen[k] > 0 and weighed[k] != 0.0:
            x[unknowns(k)] -= weighed[k] * seen[k]
            for j in range(n_arms):
                x[place(k, j)] -= weighed[k] * exposures[k, j]


@kernel
def count_pull(rules: Rules, own: Own, u: int, arm: int, memo: Floats) -> None:
    """Count a pull of a user; the faded counts before it go into ``memo``, (memories·arms,)."""
    n_arms = rules.n_arms
    own.pulls[u, arm] += 1
    for m in range(rules.memories.size):
        faded, gamma = own.faded[u, m], rules.memories[m]
        for j in range(n_arms):
            memo[m * n_arms + j] = faded[j]
            if gamma < 1.0:
                faded[j] *= gamma
        faded[arm] += 1.0


@kernel
def wait(rules: Rules, own: Own, u: int, at: float) -> float:
    """Let time pass for a user until ``at``; return what is left of the influence of its pulls.

    Time never runs backwards: an earlier time than that of its latest pull counts as that one.
    """
    kept = halve(max(at - own.time[u], 0.0) / HOUR / rules.half_life)
    own.time[u] = max(at, own.time[u])
    if kept < 1.0:
        for m in range(rules.memories.size):
            for j in range(rules.n_arms):
                own.faded[u, m, j] *= kept
    return kept


@kernel
def add_exposure(rules: Rules, own: Own, u: int, m: int, arm: int, weights: Floats) -> None:
    """Note what a pull whose loss came in had been exposed to."""
    kept = own.exposures[u, m, arm]
    total = 0.0
    for j in range(weights.size):
        total += weights[j]
        if rules.exact:
            kept[j] += weights[j]
    if not rules.exact:
        kept[0] += weights[arm]
        kept[1] += total
