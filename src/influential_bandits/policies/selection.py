"""What several policies do alike: keep averages, and choose among the arms on offer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numba

from influential_bandits.checks import LARGEST_LOSS, real_number
from influential_bandits.numerics.arrays import Ints
from influential_bandits.numerics.compiling import count_one, inlined
from influential_bandits.policies.contract import Shape


class Counts:
    """The part of a policy that counts pulls and observations; to be inherited before Policy."""

    def fields(self, n_arms: int) -> Mapping[str, tuple[str, Shape]]:
        """Pulls and observations of each arm, and how many arms have none."""
        return {"pulls": ("int64", n_arms), "seen": ("int64", n_arms), "unseen": ("int64", 1)}

    @staticmethod
    def init(c: Any, s: Any) -> None:
        """Note that no arm has been observed."""
        s.unseen[0] = c.n_arms

    @staticmethod
    def pulled(c: Any, s: Any, t: int, arm: int, memo: Any) -> None:
        """Count the pull."""
        count_one(s.pulls, arm)

    @staticmethod
    def arm_added(c: Any, s: Any, arm: int) -> None:
        """Note one more arm to observe."""
        s.unseen[0] += 1


class Averages(Counts):
    """The part of a policy that keeps the mean of each arm's losses."""

    def fields(self, n_arms: int) -> Mapping[str, tuple[str, Shape]]:
        """Pulls and observations of each arm, and the sum and mean of its losses."""
        return {**super().fields(n_arms), "total": ("float64", n_arms), "mean": ("float64", n_arms)}

    @staticmethod
    def observed(c: Any, s: Any, t: int, arm: int, memo: Any, loss: float) -> None:
        """Update the mean."""
        average(s, arm, loss)


@inlined
def count(s: Any, arm: int) -> None:
    """Count one more observation of an arm."""
    if s.seen[arm] == 0:
        s.unseen[0] -= 1
    s.seen[arm] += 1


@inlined
def average(s: Any, arm: int, loss: float) -> None:
    """Count one more observation of an arm and update its mean."""
    if s.seen[arm] == 0:
        s.unseen[0] -= 1
    seen, total = s.seen[arm] + 1, s.total[arm] + loss
    s.seen[arm] = seen
    s.total[arm] = total
    s.mean[arm] = total / seen


@inlined
def is_offered(eligible: Any, arm: int) -> bool:
    """Tell whether an arm may be chosen; ``eligible`` is None (all may) or has a flag for each."""
    if eligible is None:
        return True
    return bool(eligible[arm])


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


@inlined
def waiting_arm(s: Any, eligible: Any) -> int:
    """Return the arm that :func:`unseen_arm` names, at no cost once all are seen."""
    if s.unseen[0] == 0:
        return -1
    return unseen_arm(s.seen, s.pulls, eligible)


@inlined
def random_arm(u: float, n_arms: int, eligible: Any) -> int:
    """Return the eligible arm that a number u, uniform in (0, 1), points to."""
    if eligible is None:
        return min(int(u * n_arms), n_arms - 1)
    choices = 0
    for arm in range(n_arms):
        if eligible[arm]:
            choices += 1
    chosen = min(int(u * choices), choices - 1)
    for arm in range(n_arms):
        if eligible[arm]:
            if chosen == 0:
                return arm
            chosen -= 1
    return -1


# Not cached by itself, as a function among the arguments never hits the cache; its callers are.
@numba.njit(forceinline=True, error_model="numpy")
def lowest_arm(index: Any, c: Any, s: Any, common: Any, eligible: Any) -> int:
    """Return the eligible arm with the smallest ``index(c, s, common, arm)``, the first if equal.

    Arms without an observation go first. ``common`` is what the indices of a round share.
    """
    arm = waiting_arm(s, eligible)
    if arm >= 0:
        return arm
    best = -1
    lowest = math.inf
    for arm in range(c.n_arms):
        if eligible is not None and not eligible[arm]:
            continue
        value = index(c, s, common, arm)
        if best < 0 or value < lowest:
            best = arm
            lowest = value
    return best


@inlined
def lowest_bound(c: Any, s: Any, radius: float, eligible: Any) -> int:
    """Return the eligible arm with the smallest mean − √(radius / observations); see above.

    Graphics processors compute it to some ten digits first, and exactly where that leaves a doubt.
    """
    return lowest_arm(_bound, c, s, radius, eligible)


@inlined
def _bound(c: Any, s: Any, radius: float, arm: int) -> float:
    return s.mean[arm] - math.sqrt(radius / s.seen[arm])


@inlined
def mean_of(c: Any, s: Any, common: Any, arm: int) -> float:
    """Return the mean loss of an arm: the index of a greedy choice."""
    return s.mean[arm]


def real_setting(
    policy: object,
    name: str,
    above: float = 0.0,
    most: float = LARGEST_LOSS,
    *,
    closed: bool = False,
) -> None:
    """Make a setting of a policy a float in (above, most], or [above, most] if closed."""
    number = real_number(name, getattr(policy, name), above, most, above=not closed)
    object.__setattr__(policy, name, number)
