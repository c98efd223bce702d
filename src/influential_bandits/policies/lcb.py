"""Standard lower confidence bound: the paper's baseline, which fails here (Prop. 2.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from influential_bandits.numerics.portable import log_of_round
from influential_bandits.policies.contract import Policy
from influential_bandits.policies.selection import Averages, lowest_bound


@dataclass(frozen=True)
class LCB(Averages, Policy):
    """Pull the arm with the smallest mean − √(2·log t / n), ties to the smallest index.

    Loss form of UCB1 (Auer, Cesa-Bianchi and Fischer, 2002), as in Prop. 2.2. Arms without an
    observation come first.

    Examples
    --------
    >>> import influential_bandits as ib
    >>> ib.simulate(ib.counterexample(), LCB(), horizon=10_000).counts[0, 0, -1]
    array([9103,  897])
    """

    @staticmethod
    def select(c: Any, s: Any, t: int, eligible: Any, rng: Any) -> int:
        return lowest_bound(c, s, 2.0 * log_of_round(t), eligible)
