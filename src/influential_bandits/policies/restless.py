"""Policies for restless arms, which have a state that moves by unknown laws, in loss form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from influential_bandits.numerics.compiling import inlined
from influential_bandits.numerics.portable import log
from influential_bandits.policies.contract import Policy, Shape
from influential_bandits.policies.selection import (
    Averages,
    average,
    is_offered,
    lowest_arm,
    mean_of,
    real_setting,
)


@dataclass(frozen=True)
class DSEE(Averages, Policy):
    """Explore in ever longer runs of each arm, and exploit the arm of smallest mean in between.

    Loss form of the deterministic sequencing of exploration and exploitation for restless bandits:
    Liu, Liu and Zhao (2013), "Learning in a changing world: restless multi-armed bandit with
    unknown dynamics". The n-th exploration epoch pulls each arm 4ⁿ⁻¹ times in a row, the n-th
    exploitation epoch lasts 2·4ⁿ⁻¹ rounds. When an epoch ends, exploitation follows if each arm
    has been explored more than D·log t times.

    What carries over is the schedule: long runs of one arm, so that means are those of an arm at
    work. The paper's guarantee does not: there a run brings an arm to a stationary state, while
    under influence losses drift for as long as arms are pulled.

    The mean is that of scheduled exploration, and of an arm's first loss in any case. A scheduled
    arm that is not eligible is replaced by the best that is. A loss that comes in late, in an
    exploitation epoch, may change the arm of that epoch.

    Parameters
    ----------
    exploration : float
        D; the theory needs it large enough for the arms' gaps and mixing times.

    Examples
    --------
    >>> import influential_bandits as ib
    >>> ib.simulate(ib.counterexample(), DSEE(), horizon=100).counts[0, 0, -1]
    array([95,  5])
    """

    exploration: float = 1.0

    def __post_init__(self) -> None:
        real_setting(self, "exploration")

    def fields(self, n_arms: int) -> Mapping[str, tuple[str, Shape]]:
        """Averages, and where in which epoch the next round is."""
        return {
            **super().fields(n_arms),
            "explorations": ("int64", 1),  # epochs begun
            "exploitations": ("int64", 1),
            "exploring": ("int64", 1),
            "position": ("int64", 1),
        }

    def memo_size(self, n_arms: int) -> int:
        """Whether the pull was scheduled exploration."""
        return 1

    @staticmethod
    def init(c: Any, s: Any) -> None:
        s.unseen[0] = c.n_arms
        s.explorations[0] = 1
        s.exploring[0] = 1

    @staticmethod
    def select(c: Any, s: Any, t: int, eligible: Any, rng: Any) -> int:
        arm = _scheduled(s)
        if arm >= 0 and is_offered(eligible, arm):
            return arm
        return lowest_arm(mean_of, c, s, 0.0, eligible)

    @staticmethod
    def pulled(c: Any, s: Any, t: int, arm: int, memo: Any) -> None:
        s.pulls[arm] += 1
        if arm == _scheduled(s):
            memo[0] = 1.0
        s.position[0] += 1
        if s.exploring[0] == 1:
            length = c.n_arms * _run(s.explorations[0])
        else:
            length = 2 * _run(s.exploitations[0])
        if s.position[0] < length:
            return
        s.position[0] = 0
        explored = (_run(s.explorations[0] + 1) - 1) // 3
        if explored > c.exploration * log(float(t + 1)):
            s.exploring[0] = 0
            s.exploitations[0] += 1
        else:
            s.exploring[0] = 1
            s.explorations[0] += 1

    @staticmethod
    def observed(c: Any, s: Any, t: int, arm: int, memo: Any, loss: float) -> None:
        """Update the mean, if the pull was to explore or nothing is known of the arm."""
        if memo[0] == 1.0 or s.seen[arm] == 0:
            average(s, arm, loss)


@inlined
def _run(epoch: int) -> int:
    """Return how often an arm is pulled in a row in an exploration epoch, 4^(epoch−1)."""
    return 1 << min(2 * (epoch - 1), 60)


@inlined
def _scheduled(s: Any) -> int:
    """Return the arm that exploration wants next, or −1 while exploiting."""
    if s.exploring[0] == 0:
        return -1
    return s.position[0] // _run(s.explorations[0])
