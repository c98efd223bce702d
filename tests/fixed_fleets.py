"""Fleets whose variances stay as they are, so that their posterior is that of one model."""

import numpy as np

import influential_bandits as ib
from influential_bandits.policies.fleet.states import ARM, COMMON, NEXT_CHOICE
from influential_bandits.policies.model_lcb.posterior import place, unknowns

USERS = ("ann", "bob", "cy", "di")


def fixed_fleet(arms, arm=0.5, common=0.0, **settings):
    """Return a fleet that chooses neither variances, nor the scale of A."""
    fleet = ib.Fleet(ib.FleetLCB(memory=1.0, **settings), arms=arms, history=True)
    fleet._shared.numbers[NEXT_CHOICE] = 2**60
    fleet._shared.scales[[ARM, COMMON]] = arm, common
    return fleet


def features(n_arms, arm, counts, size):
    """Return what the loss of an arm after these pulls has of each unknown, (size,)."""
    x = np.zeros(size)
    x[unknowns(arm)] = 1.0
    for j in range(n_arms):
        x[place(arm, j)] = counts[j]
    return x
