"""How many rounds of a user are still to come, from how long others stayed."""

from __future__ import annotations

from typing import Any

import numpy as np

from influential_bandits.numerics.arrays import Floats
from influential_bandits.numerics.compiling import kernel

AGES = 1024  # rounds of a user for which the rounds still to come are estimated
GONE = 8.0  # times its usual pause, after which a user has left
LONGER = 10.0  # an age that nobody has passed is expected to last so many times as long again


@kernel
def estimate_stays(own: Any, users: int, decisions: int, stays: Floats) -> None:
    """Estimate how many rounds are to come after each age, from who has left (Kaplan–Meier)."""
    reached, left = np.zeros(AGES + 2), np.zeros(AGES + 1)
    ages = np.zeros(users, np.int64)
    pauses, many, longest = 0.0, 0, 0
    for u in range(users):
        for k in range(own.pulls.shape[1]):
            ages[u] += own.pulls[u, k]
        if ages[u] > 1:
            pauses += (own.last[u] - own.first[u]) / (ages[u] - 1.0)
            many += 1
    usual = pauses / many if many > 0 else float(decisions)
    for u in range(users):
        age = min(ages[u], AGES)
        longest = max(longest, age)
        reached[age] += 1.0
        pause = usual
        if ages[u] > 1:
            pause = max(usual, (own.last[u] - own.first[u]) / (ages[u] - 1.0))
        if age < AGES and decisions - own.last[u] > GONE * max(pause, 1.0):
            left[age] += 1.0
    for age in range(longest - 1, -1, -1):
        reached[age] += reached[age + 1]
    goes_on = np.zeros(longest + 1)  # chance to play on after each age
    goes_on[0] = 1.0
    for age in range(1, longest + 1):
        goes_on[age] = goes_on[age - 1] * (1.0 - left[age] / reached[age])
    ahead = goes_on[longest] * LONGER * longest
    stays[:] = 0.0
    for age in range(longest - 1, -1, -1):
        ahead += goes_on[age]
        stays[age] = ahead / goes_on[age] if goes_on[age] > 0.0 else 1.0
