"""Policies for arms that change by themselves, all in loss form: forget, or detect and restart."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from influential_bandits.checks import LARGEST_HORIZON, whole_number
from influential_bandits.errors import InvalidInput
from influential_bandits.numerics.arrays import Floats
from influential_bandits.numerics.compiling import inlined
from influential_bandits.numerics.double_double import two_sum
from influential_bandits.numerics.portable import log, whole_power
from influential_bandits.policies.contract import Policy, Shape
from influential_bandits.policies.selection import (
    Averages,
    Counts,
    average,
    count,
    is_offered,
    lowest_arm,
    real_setting,
)

LARGEST_WINDOW = 2**24
LEAST_WEIGHT = 1e-300  # an arm that weighs less counts as never observed


@dataclass(frozen=True)
class SlidingWindowLCB(Counts, Policy):
    """Pull the arm with the smallest mean − B·√(ξ·log min(t, τ) / n) over the last τ rounds.

    Loss form of SW-UCB: Garivier and Moulines (2011), "On upper-confidence bound policies for
    switching bandit problems". Arms without an observation in the window come first.

    The window holds the pulls of the last τ rounds. A late loss counts from its arrival until its
    pull leaves the window, and not at all if the pull has left already. A round costs O(K).

    Parameters
    ----------
    window : int
        τ, in rounds.
    xi : float
        ξ, in the paper above ½, and 0.6 in its experiments.
    loss_range : float
        B, the width of the interval that holds the losses.

    Examples
    --------
    >>> import influential_bandits as ib
    >>> run = ib.simulate(ib.counterexample(), SlidingWindowLCB(window=20), horizon=100)
    >>> run.counts[0, 0, -1]
    array([88, 12])
    """

    window: int = 1000
    xi: float = 0.6
    loss_range: float = 1.0

    def __post_init__(self) -> None:
        window = whole_number("window", self.window, 1, LARGEST_WINDOW)
        object.__setattr__(self, "window", window)
        real_setting(self, "xi")
        real_setting(self, "loss_range")

    def fields(self, n_arms: int) -> Mapping[str, tuple[str, Shape]]:
        """Counts (of observations in the window), sums in two parts, and the window as a ring."""
        return {
            **super().fields(n_arms),
            "total": ("float64", n_arms),
            "rest": ("float64", n_arms),
            "ring_arm": ("int64", self.window),  # 1 + arm, or 0 where the loss is not known
            "ring_loss": ("float64", self.window),
            "newest": ("int64", 1),  # round of the last pull
        }

    @staticmethod
    def select(c: Any, s: Any, t: int, eligible: Any, rng: Any) -> int:
        radius = c.xi * log(float(min(t, c.window)))
        return lowest_arm(_window_index, c, s, radius, eligible)

    @staticmethod
    def pulled(c: Any, s: Any, t: int, arm: int, memo: Any) -> None:
        s.pulls[arm] += 1
        s.newest[0] = t
        place = t % c.window
        leaving = s.ring_arm[place] - 1
        if leaving >= 0:
            s.ring_arm[place] = 0
            s.seen[leaving] -= 1
            _add(s.total, s.rest, leaving, -s.ring_loss[place])
            if s.seen[leaving] == 0:
                s.unseen[0] += 1
                s.total[leaving] = 0.0
                s.rest[leaving] = 0.0

    @staticmethod
    def observed(c: Any, s: Any, t: int, arm: int, memo: Any, loss: float) -> None:
        """Take the loss into the window, unless its pull has left."""
        if t <= s.newest[0] - c.window:
            return
        place = t % c.window
        s.ring_arm[place] = 1 + arm
        s.ring_loss[place] = loss
        count(s, arm)
        _add(s.total, s.rest, arm, loss)


@dataclass(frozen=True)
class DiscountedLCB(Counts, Policy):
    """Pull the arm with the smallest mean − 2B·√(ξ·log(Σn) / n), the past discounted.

    Loss form of D-UCB (Kocsis and Szepesvári, 2006): Garivier and Moulines (2011), "On
    upper-confidence bound policies for switching bandit problems". A pull d rounds before the last
    one has weight γᵈ in the mean and in n. Arms without an observation come first.

    A late loss counts from its arrival, with the weight that its pull has by then. A round costs
    O(K).

    Parameters
    ----------
    discount : float
        γ, in (0, 1].
    xi : float
        ξ, in the paper above ½, and 0.6 here.
    loss_range : float
        B, the width of the interval that holds the losses.

    Examples
    --------
    >>> import influential_bandits as ib
    >>> run = ib.simulate(ib.counterexample(), DiscountedLCB(discount=0.9), horizon=100)
    >>> run.counts[0, 0, -1]
    array([85, 15])
    """

    discount: float = 0.99
    xi: float = 0.6
    loss_range: float = 1.0

    def __post_init__(self) -> None:
        real_setting(self, "discount", most=1.0)
        real_setting(self, "xi")
        real_setting(self, "loss_range")

    def fields(self, n_arms: int) -> Mapping[str, tuple[str, Shape]]:
        """Counts (seen: whether the weight is not negligible), and discounted counts and means."""
        return {
            **super().fields(n_arms),
            "weight": ("float64", n_arms),
            "mean": ("float64", n_arms),
            "newest": ("int64", 1),  # round of the last pull
        }

    @staticmethod
    def select(c: Any, s: Any, t: int, eligible: Any, rng: Any) -> int:
        total = 0.0
        for arm in range(c.n_arms):
            total += s.weight[arm]
        radius = c.xi * log(max(total, 1.0))
        return lowest_arm(_discounted_index, c, s, radius, eligible)

    @staticmethod
    def pulled(c: Any, s: Any, t: int, arm: int, memo: Any) -> None:
        s.pulls[arm] += 1
        s.newest[0] = t
        for other in range(c.n_arms):
            s.weight[other] *= c.discount
            if s.seen[other] == 1 and s.weight[other] < LEAST_WEIGHT:
                s.weight[other] = 0.0
                s.seen[other] = 0
                s.unseen[0] += 1

    @staticmethod
    def observed(c: Any, s: Any, t: int, arm: int, memo: Any, loss: float) -> None:
        weight = whole_power(c.discount, s.newest[0] - t)
        if weight < LEAST_WEIGHT:
            return
        if s.seen[arm] == 0:
            count(s, arm)
        s.weight[arm] += weight
        s.mean[arm] += (loss - s.mean[arm]) * (weight / s.weight[arm])


@dataclass(frozen=True)
class MUCB(Averages, Policy):
    """Pull the arm with the smallest mean − B·√(2·log(t − r) / n) since the restart r.

    Loss form of M-UCB: Cao, Wen, Kveton and Xie (2019), "Nearly optimal adaptive procedure with
    change detection for piecewise-stationary bandits". In the first K of every ⌊K/γ⌋ rounds since
    the restart the arms take turns, so that no change stays unseen. When the sums of the two halves
    of an arm's last w losses differ by more than b = B·√(w/2 · log(2K·T²)), all is forgotten.

    Late losses enter in the order of arrival; those of pulls before the restart are dropped. A
    round costs O(K), the state K·w numbers.

    Parameters
    ----------
    window : int
        w, an even number of losses of an arm.
    exploration : float
        γ in (0, 1], the share of rounds in which the arms take turns.
    planned_rounds : int
        T in the threshold b: about how many rounds shall see no false alarm.
    loss_range : float
        B, the width of the interval that holds the losses.

    Examples
    --------
    >>> import influential_bandits as ib
    >>> run = ib.simulate(ib.counterexample(), MUCB(window=10, planned_rounds=100), horizon=100)
    >>> run.counts[0, 0, -1]
    array([86, 14])
    """

    window: int = 200
    exploration: float = 0.05
    planned_rounds: int = 100_000
    loss_range: float = 1.0

    def __post_init__(self) -> None:
        window = whole_number("window", self.window, 2, LARGEST_WINDOW)
        if window % 2 == 1:
            raise InvalidInput(f"window must be even, got {window}")
        object.__setattr__(self, "window", window)
        rounds = whole_number("planned_rounds", self.planned_rounds, 1, LARGEST_HORIZON)
        object.__setattr__(self, "planned_rounds", rounds)
        real_setting(self, "exploration", above=1e-9, most=1.0)
        real_setting(self, "loss_range")

    def fields(self, n_arms: int) -> Mapping[str, tuple[str, Shape]]:
        """Averages since the restart, and each arm's last losses with how their halves differ."""
        return {
            **super().fields(n_arms),
            "ring": ("float64", (n_arms, self.window)),
            "difference": ("float64", n_arms),  # newer half − older half, in two parts
            "rest": ("float64", n_arms),
            "newest": ("int64", 1),  # round of the last pull
            "restart": ("int64", 1),  # r, the last round before the averages
        }

    @staticmethod
    def select(c: Any, s: Any, t: int, eligible: Any, rng: Any) -> int:
        since = t - s.restart[0]
        turn = (since - 1) % int(c.n_arms / c.exploration)
        if turn < c.n_arms and is_offered(eligible, turn):
            return turn
        return lowest_arm(_restarted_index, c, s, 2.0 * log(float(since)), eligible)

    @staticmethod
    def pulled(c: Any, s: Any, t: int, arm: int, memo: Any) -> None:
        s.pulls[arm] += 1
        s.newest[0] = t

    @staticmethod
    def observed(c: Any, s: Any, t: int, arm: int, memo: Any, loss: float) -> None:
        if t <= s.restart[0]:
            return
        average(s, arm, loss)
        last = s.seen[arm] - 1
        _add(s.difference, s.rest, arm, loss)
        if last >= c.window // 2:
            moved = s.ring[arm, (last - c.window // 2) % c.window]
            _add(s.difference, s.rest, arm, -2.0 * moved)
        if last >= c.window:
            _add(s.difference, s.rest, arm, s.ring[arm, last % c.window])
        s.ring[arm, last % c.window] = loss
        if s.seen[arm] < c.window:
            return
        rounds = float(c.planned_rounds)
        bound = c.loss_range * math.sqrt(0.5 * c.window * log(2.0 * c.n_arms * rounds * rounds))
        if abs(s.difference[arm] + s.rest[arm]) > bound:
            s.restart[0] = s.newest[0]
            s.unseen[0] = c.n_arms
            for other in range(c.n_arms):
                s.seen[other] = 0
                s.total[other] = 0.0
                s.difference[other] = 0.0
                s.rest[other] = 0.0


@inlined
def _window_index(c: Any, s: Any, radius: float, arm: int) -> float:
    n = s.seen[arm]
    return (s.total[arm] + s.rest[arm]) / n - c.loss_range * math.sqrt(radius / n)


@inlined
def _discounted_index(c: Any, s: Any, radius: float, arm: int) -> float:
    return s.mean[arm] - 2.0 * c.loss_range * math.sqrt(radius / s.weight[arm])


@inlined
def _restarted_index(c: Any, s: Any, radius: float, arm: int) -> float:
    return s.mean[arm] - c.loss_range * math.sqrt(radius / s.seen[arm])


@inlined
def _add(total: Floats, rest: Floats, arm: int, loss: float) -> None:
    """Add to a sum what rounding would lose too, so that losses can be taken out of it again."""
    total[arm], error = two_sum(total[arm], loss)
    rest[arm] += error
