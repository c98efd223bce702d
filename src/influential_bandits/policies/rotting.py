"""Policies for rotting arms, whose losses can only grow, all in loss form."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from influential_bandits.numerics.compiling import inlined
from influential_bandits.numerics.portable import log
from influential_bandits.policies.contract import Policy, Shape
from influential_bandits.policies.dyadic_windows import (
    LEVELS,
    add_to_blocks,
    block_fields,
    window_mean,
)
from influential_bandits.policies.selection import (
    Counts,
    count,
    is_offered,
    lowest_arm,
    real_setting,
    waiting_arm,
)


class Windows(Counts):
    """The part of a policy that keeps the mean of each arm's last 1, 2, 4, … losses."""

    def fields(self, n_arms: int) -> Mapping[str, tuple[str, Shape]]:
        """Counts, and the last two blocks of losses of each level."""
        return {**super().fields(n_arms), **block_fields(n_arms, "older", "newer")}

    @staticmethod
    def observed(c: Any, s: Any, t: int, arm: int, memo: Any, loss: float) -> None:
        """Take the loss into the windows."""
        count(s, arm)
        add_to_blocks(s.older, s.newer, arm, s.seen[arm], loss)


@dataclass(frozen=True)
class RAWUCB(Windows, Policy):
    """Pull the arm whose largest mean_h − σ·√(2α·log t / h) over windows h is the smallest.

    mean_h is the mean of the arm's last h losses: as losses only grow, each window gives a lower
    bound of the next loss. Loss form of RAW-UCB: Seznec, Ménard, Lazaric and Valko (2020), "A
    single algorithm for both restless and rested rotting bandits", in the efficient version
    EFF-RAW-UCB: h = 1, 2, 4, …, a window of h renewed every h/2 losses. Arms without an
    observation come first.

    A window holds the losses that came in last. A round costs O(K·log t), the state O(K·log T).

    Parameters
    ----------
    alpha : float
        α, 4 in the theory and 1.4 in the paper's experiments.
    sigma : float
        Standard deviation (sub-Gaussian) of a loss around its mean.

    Examples
    --------
    >>> import influential_bandits as ib
    >>> ib.simulate(ib.counterexample(), RAWUCB(), horizon=100).counts[0, 0, -1]
    array([85, 15])
    """

    alpha: float = 4.0
    sigma: float = 1.0

    def __post_init__(self) -> None:
        real_setting(self, "alpha")
        real_setting(self, "sigma")

    @staticmethod
    def select(c: Any, s: Any, t: int, eligible: Any, rng: Any) -> int:
        radius = c.sigma * math.sqrt(2.0 * c.alpha * log(float(t)))
        return lowest_arm(_rawucb_index, c, s, radius, eligible)


@dataclass(frozen=True)
class FEWA(Windows, Policy):
    """Filter the arms on mean losses over windows 1, 2, 4, …; pull the first one seen too seldom.

    On the window h those arms stay whose mean is within 2·σ·√(2·log(K·t^α) / h) of the
    smallest; an arm that stays and has no longer window is pulled, of several the one observed
    least. Loss form of FEWA: Seznec, Locatelli, Carpentier, Lazaric and Valko (2019), "Rotting
    bandits are not harder than stochastic ones", in the efficient version EFF-FEWA: a window of h
    is renewed every h/2 losses. Arms without an observation come first.

    A window holds the losses that came in last. A round costs O(K·log t), the state O(K·log T).

    Parameters
    ----------
    alpha : float
        α, 5 in the theory and 0.06 in the paper's experiments.
    sigma : float
        Standard deviation (sub-Gaussian) of a loss around its mean.

    Examples
    --------
    >>> import influential_bandits as ib
    >>> ib.simulate(ib.counterexample(), FEWA(alpha=0.06), horizon=100).counts[0, 0, -1]
    array([84, 16])
    """

    alpha: float = 5.0
    sigma: float = 1.0

    def __post_init__(self) -> None:
        real_setting(self, "alpha")
        real_setting(self, "sigma")

    @staticmethod
    def select(c: Any, s: Any, t: int, eligible: Any, rng: Any) -> int:
        arm = waiting_arm(s, eligible)
        if arm >= 0:
            return arm
        confidence = log(float(c.n_arms)) + c.alpha * log(float(t))
        width = 2.0 * c.sigma * math.sqrt(2.0 * confidence)
        kept = np.empty(c.n_arms, np.bool_)
        for arm in range(c.n_arms):
            kept[arm] = is_offered(eligible, arm)
        best = -1
        for level in range(LEVELS):
            bound = math.inf
            for arm in range(c.n_arms):
                if kept[arm]:
                    bound = min(bound, window_mean(s, arm, level))
            bound += width / math.sqrt(float(1 << level))
            for arm in range(c.n_arms):
                if kept[arm]:
                    kept[arm] = window_mean(s, arm, level) <= bound
                    if kept[arm] and s.seen[arm] < 2 << level:
                        if best < 0 or s.seen[arm] < s.seen[best]:
                            best = arm
            if best >= 0:
                break
        return best


@inlined
def _rawucb_index(c: Any, s: Any, radius: float, arm: int) -> float:
    index = -math.inf
    level = 0
    while 1 << level <= s.seen[arm]:
        index = max(index, window_mean(s, arm, level) - radius / math.sqrt(float(1 << level)))
        level += 1
    return index
