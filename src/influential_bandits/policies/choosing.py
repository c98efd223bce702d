"""What several policies do alike when they choose."""

from __future__ import annotations

from typing import Any

from influential_bandits.numerics.compiling import inlined
from influential_bandits.world.dynamics import Ints


@inlined
def unseen_arm(seen: Ints, pulls: Ints, eligible: Any) -> int:
    """Return the eligible arm without an observation that was pulled least, or −1 if all are seen.

    With feedback at once this is the first arm never pulled. With late feedback the arms take
    turns until their first losses arrive.
    """
    best = -1
    for arm in range(seen.size):
        if eligible is not None and not eligible[arm]:
            continue
        if seen[arm] == 0 and (best < 0 or pulls[arm] < pulls[best]):
            best = arm
    return best
