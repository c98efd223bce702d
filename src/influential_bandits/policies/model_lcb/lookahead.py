"""The best counts for the rounds ahead, and what a pull costs them where influence fades."""

from __future__ import annotations

import numpy as np

from influential_bandits.numerics.arrays import Floats
from influential_bandits.numerics.compiling import inlined, kernel
from influential_bandits.numerics.portable import whole_power

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


@inlined
def add_later_costs(
    losses: Floats,
    initial: Floats,
    interaction: Floats,
    memory: float,
    rounds: float,
    allowed: Floats,
    costs: Floats,
) -> None:
    """Write what a pull of each arm costs now and later, where influence fades (memory < 1).

    A pull of arm i costs its loss, and raises the losses of the rounds to come: by A_ij now, and
    by γ times less in each further one. With the best mix p of these rounds that adds up to
    (A·p)_i·(1 − γ^(rounds − 1))/(1 − γ). Always to pull the arm with the smallest sum plays a
    schedule: an arm that was just pulled is dear, and a rested one is cheap.

    The mix is that of the lower bound of docs/explanation/fading.md, the programme of
    :func:`plan_ahead` with another number of rounds. What the pulls so far have left in the losses
    counts as much as it does on average over the rounds ahead.
    """
    n_arms = losses.size
    left = whole_power(memory, int(rounds))
    reach = (1.0 - left) / (1.0 - memory)
    stays = reach / rounds
    onward = (1.0 - left / memory) / (1.0 - memory)
    length = 4.0 * rounds / ((1.0 - memory * memory) * rounds + (1.0 + memory) * (1.0 + memory))
    base, plan, slope = np.empty(n_arms), np.empty(n_arms), np.empty(n_arms)
    for i in range(n_arms):
        base[i] = initial[i] + stays * (losses[i] - initial[i])
        base[i] += interaction[i, i] * (0.5 - 1.0 / (1.0 + memory))
    plan_ahead(base, interaction, length, allowed, plan, slope)
    for i in range(n_arms):
        later = 0.0
        for j in range(n_arms):
            later += interaction[i, j] * plan[j]
        costs[i] = losses[i] + later * (onward / length)
