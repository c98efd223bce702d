"""Choices by estimates: the lowest bound, computed exactly only where estimates leave it open.

The choice is the same to the last case, and so are all bits that depend on it: bounds themselves
are kept nowhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from influential_bandits.gpu.estimates import ROOT_ERROR

ROUNDING = 2.0**-50  # of sums and differences, generously


def choose_by_estimates(
    exact: Callable[..., int], waiting: Callable[..., int], root: Callable[[float, float], float]
) -> Callable[..., int]:
    """Return what stands for ``lowest_bound``, given that, ``waiting_arm``, and the estimate."""

    def lowest_bound(c: Any, s: Any, radius: float, eligible: Any) -> int:
        if eligible is not None:
            return exact(c, s, radius, eligible)
        arm = waiting(s, None)
        if arm >= 0:
            return arm
        quarter = 0.25 * radius
        best = 0
        lowest = s.mean[0] - root(quarter, float(s.seen[0]))
        if c.n_arms == 1:
            return 0
        second = s.mean[1] - root(quarter, float(s.seen[1]))
        if second < lowest:
            best, lowest, second = 1, second, lowest
        for arm in range(2, c.n_arms):
            value = s.mean[arm] - root(quarter, float(s.seen[arm]))
            if value < lowest:
                best, lowest, value = arm, value, lowest
            second = min(second, value)
        # Roots are at most √radius, as every arm was seen, and that is below 1 + radius.
        doubt = 2.0 * ROOT_ERROR * (1.0 + radius) + ROUNDING * abs(lowest)
        if second - lowest > doubt:  # false as well where a number is none
            return best
        return exact(c, s, radius, eligible)

    return lowest_bound
