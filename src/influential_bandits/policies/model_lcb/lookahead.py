"""The best counts for the rounds ahead, as a plan that a policy can follow."""

from __future__ import annotations

from influential_bandits.numerics.arrays import Floats
from influential_bandits.numerics.compiling import kernel

MOST_STEPS = 200
TOLERANCE = 1e-3  # relative difference of the losses of planned arms


@kernel
def plan_ahead(
    losses: Floats, interaction: Floats, rounds: float, allowed: Floats, plan: Floats, slope: Floats
) -> None:
    """Minimise Σ losses·z + ½zᵀAz − ½diag(A)·z over z ≥ 0, Σz = rounds; the minimiser is ``plan``.

    From the allowed arm with the smallest loss, pulls are moved from the planned arm with the
    highest marginal loss to the arm with the smallest, as many as pay, until they agree.
    """
    n_arms = losses.size
    best = -1
    for i in range(n_arms):
        plan[i] = 0.0
        if allowed[i] > 0.0 and (best < 0 or losses[i] < losses[best]):
            best = i
    plan[best] = rounds
    for i in range(n_arms):
        slope[i] = losses[i] - 0.5 * interaction[i, i] + rounds * interaction[i, best]
    for _ in range(MOST_STEPS):
        low, high = -1, -1
        for i in range(n_arms):
            if allowed[i] > 0.0 and (low < 0 or slope[i] < slope[low]):
                low = i
            if plan[i] > 0.0 and (high < 0 or slope[i] > slope[high]):
                high = i
        excess = slope[high] - slope[low]
        if excess <= TOLERANCE * (abs(slope[high]) + abs(slope[low])):
            break
        bend = interaction[high, high] + interaction[low, low] - 2.0 * interaction[high, low]
        step = plan[high]
        if bend > 0.0 and excess / bend < step:
            step = excess / bend
            plan[high] -= step
        else:
            plan[high] = 0.0
        plan[low] += step
        for i in range(n_arms):
            slope[i] += step * (interaction[i, low] - interaction[i, high])
