"""Standard lower confidence bound: the paper's baseline, which fails here (Prop. 2.2)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from influential_bandits.numerics.portable import log
from influential_bandits.policies.choosing import unseen_arm
from influential_bandits.policies.contract import Policy, Shape

__all__ = ["LCB"]


@dataclass(frozen=True)
class LCB(Policy):
    """Pull the arm with the smallest mean − √(2·log t / n), ties to the smallest index.

    Loss form of UCB1 (Auer, Cesa-Bianchi and Fischer, 2002), as in Prop. 2.2. Arms without an
    observation come first.

    Examples
    --------
    >>> import influential_bandits as ib
    >>> ib.simulate(ib.counterexample(), LCB(), horizon=10_000).counts[0, 0, -1]
    array([9103,  897])
    """

    def fields(self, arms: int) -> Mapping[str, tuple[str, Shape]]:
        """Pulls and observations of each arm, and the sum and mean of its losses."""
        return {
            "pulls": ("int64", arms),
            "seen": ("int64", arms),
            "total": ("float64", arms),
            "mean": ("float64", arms),
            "unseen": ("int64", 1),
        }

    @staticmethod
    def init(c: Any, s: Any) -> None:
        """No arm has been observed."""
        s.unseen[0] = c.arms

    @staticmethod
    def select(c: Any, s: Any, t: int, eligible: Any, rng: Any) -> int:
        """Return the arm with the smallest index."""
        if s.unseen[0] > 0:
            arm = unseen_arm(s.seen, s.pulls, eligible)
            if arm >= 0:
                return arm
        radius = 2.0 * log(float(t))
        best = -1
        lowest = math.inf
        for arm in range(c.arms):
            if eligible is not None and not eligible[arm]:
                continue
            index = s.mean[arm] - math.sqrt(radius / s.seen[arm])
            if best < 0 or index < lowest:
                best = arm
                lowest = index
        return best

    @staticmethod
    def pulled(c: Any, s: Any, t: int, arm: int, memo: Any) -> None:
        """Count the pull."""
        s.pulls[arm] += 1

    @staticmethod
    def observed(c: Any, s: Any, t: int, arm: int, memo: Any, loss: float) -> None:
        """Update the mean."""
        if s.seen[arm] == 0:
            s.unseen[0] -= 1
        s.seen[arm] += 1
        s.total[arm] += loss
        s.mean[arm] = s.total[arm] / s.seen[arm]

    @staticmethod
    def arm_added(c: Any, s: Any, arm: int) -> None:
        """One more arm to observe."""
        s.unseen[0] += 1
