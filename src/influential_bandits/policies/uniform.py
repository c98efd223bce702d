"""The policy that ignores everything it sees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from influential_bandits.numerics.streams import uniform
from influential_bandits.policies.contract import Policy
from influential_bandits.policies.selection import random_arm


@dataclass(frozen=True)
class Uniform(Policy):
    """Pull an eligible arm at random, each with the same probability.

    Examples
    --------
    >>> import influential_bandits as ib
    >>> ib.simulate(ib.counterexample(), Uniform(), horizon=100, seeds=[7]).counts[0, 0, -1]
    array([44, 56])
    """

    @staticmethod
    def select(c: Any, s: Any, t: int, eligible: Any, rng: Any) -> int:
        return random_arm(uniform(rng, 0), c.n_arms, eligible)
