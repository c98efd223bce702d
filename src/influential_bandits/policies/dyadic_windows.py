"""An arm's losses summed in blocks of 1, 2, 4, … of them: windows of all sizes in O(log n).

Block number m of level j is the sum of values m·2ʲ + 1 … (m + 1)·2ʲ. Of each level the last two
complete blocks are kept, ``older`` and ``newer``. Together they are the window of the efficient
algorithms of Seznec et al.: 2ʲ⁺¹ values, the last of them fewer than 2ʲ values ago.
"""

from __future__ import annotations

from typing import Any

from influential_bandits.numerics.arrays import Floats
from influential_bandits.numerics.compiling import inlined
from influential_bandits.policies.contract import Shape

LEVELS = 53  # an arm is pulled fewer than 2⁵³ times


def block_fields(n_arms: int, *names: str) -> dict[str, tuple[str, Shape]]:
    """Return fields for the last two blocks of each arm and level."""
    return dict.fromkeys(names, ("float64", (n_arms, LEVELS)))


@inlined
def add_to_blocks(older: Floats, newer: Floats, arm: int, n: int, value: float) -> None:
    """Take an arm's n-th value, n ≥ 1, in O(1) on average."""
    level = 0
    older[arm, 0] = newer[arm, 0]
    newer[arm, 0] = value
    while n % 2 == 0 and level + 1 < LEVELS:
        total = older[arm, level] + newer[arm, level]
        level += 1
        n //= 2
        older[arm, level] = newer[arm, level]
        newer[arm, level] = total


@inlined
def window_mean(s: Any, arm: int, level: int) -> float:
    """Return the mean of the window of 2^level values of an arm that has as many."""
    if level == 0:
        return s.newer[arm, 0]
    total = s.older[arm, level - 1] + s.newer[arm, level - 1]
    return total / float(1 << level)
