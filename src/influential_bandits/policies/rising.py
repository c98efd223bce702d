"""Policies for rising arms, whose losses fall ever more slowly, all in loss form."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from influential_bandits.numerics.compiling import inlined
from influential_bandits.numerics.portable import log
from influential_bandits.policies.contract import Policy, Shape
from influential_bandits.policies.dyadic_windows import (
    add_to_blocks,
    block_fields,
)
from influential_bandits.policies.selection import Counts, count, lowest_arm, real_setting


@dataclass(frozen=True)
class Rising(Counts):
    """What extrapolates from an arm's last two blocks of h losses.

    An arm counts as seen when it has blocks; ``seen`` holds 1 + log₂ h, and the arms without
    blocks come first, in turns.
    """

    epsilon: float = 0.25
    alpha: float = 4.0
    sigma: float = 1.0

    def __post_init__(self) -> None:
        real_setting(self, "epsilon", most=0.5)
        real_setting(self, "alpha")
        real_setting(self, "sigma")

    def fields(self, n_arms: int) -> Mapping[str, tuple[str, Shape]]:
        """Counts, and blocks of the losses and of what tells when they were (see ``observed``)."""
        names = ("older", "newer", "older_moment", "newer_moment")
        return {
            **super().fields(n_arms),
            "losses": ("int64", n_arms),
            **block_fields(n_arms, *names),
        }


@dataclass(frozen=True)
class REdUCB(Rising, Policy):
    """Pull the arm with the smallest loss extrapolated to its t-th pull, less a confidence width.

    With L(l) an arm's l-th loss and windows of h losses, the last of them the e-th, the index is
    the mean over l = e−h+1 … e of L(l) + (t − l)·(L(l) − L(l−h))/h, minus
    σ·(t − e + h − 1)·√(10α·log t / h³). It is a lower bound if losses fall ever more slowly
    with the arm's own pulls. Loss form of R-ed-UCB: Metelli, Trovò, Pirola and Restelli (2022),
    "Stochastic rising bandits".

    There h = ⌊ε·n⌋ and e = n, for n losses, which takes a memory of all losses. Here h is the
    largest power of two up to ε·n, and e the largest multiple of h up to n, as if the last n − e
    losses were still to come; so that the state is O(K·log T), and an update O(1) on average. Late
    losses count in the order of arrival. Arms with ε·n < 1 come first, in turns.

    Parameters
    ----------
    epsilon : float
        ε in (0, ½], the share of an arm's losses in a window.
    alpha : float
        α, in the theory above 2.
    sigma : float
        Standard deviation (sub-Gaussian) of a loss around its mean.

    Examples
    --------
    >>> import influential_bandits as ib
    >>> run = ib.simulate(ib.counterexample(), REdUCB(sigma=0.01), horizon=100)
    >>> run.counts[0, 0, -1]
    array([96,  4])
    """

    @staticmethod
    def select(c: Any, s: Any, t: int, eligible: Any, rng: Any) -> int:
        return lowest_arm(_rested_index, c, s, t, eligible)

    @staticmethod
    def observed(c: Any, s: Any, t: int, arm: int, memo: Any, loss: float) -> None:
        """Take the loss into the blocks, and the loss times its number."""
        _observe(c, s, arm, loss, loss * (s.losses[arm] + 1))


@dataclass(frozen=True)
class RLessUCB(Rising, Policy):
    """Pull the arm with the smallest loss extrapolated to round t, less a confidence width.

    The line goes through the means of an arm's last two blocks of h losses, over the mean rounds of
    their pulls; the width and the parameters are those of :class:`REdUCB`. The index is a lower
    bound if losses fall ever more slowly with time. Loss form of R-less-UCB: Metelli, Trovò, Pirola
    and Restelli (2022), "Stochastic rising bandits".

    There the slopes of h pairs of losses are averaged, which takes a memory of all losses; the
    line through the means is a lower bound too, and the state O(K·log T). Slopes are by round; by
    pull, as in the authors' program, the index would be that of :class:`REdUCB`. Blocks are formed
    as there, and count as h rounds apart at least: they are, unless late losses came in out of
    order. Arms with ε·n < 1 come first, in turns.

    Examples
    --------
    >>> import influential_bandits as ib
    >>> run = ib.simulate(ib.counterexample(), RLessUCB(sigma=0.01), horizon=100)
    >>> run.counts[0, 0, -1]
    array([96,  4])
    """

    @staticmethod
    def select(c: Any, s: Any, t: int, eligible: Any, rng: Any) -> int:
        return lowest_arm(_restless_index, c, s, t, eligible)

    @staticmethod
    def observed(c: Any, s: Any, t: int, arm: int, memo: Any, loss: float) -> None:
        """Take the loss into the blocks, and the round of its pull."""
        _observe(c, s, arm, loss, float(t))


@inlined
def _observe(c: Any, s: Any, arm: int, loss: float, moment: float) -> None:
    s.losses[arm] += 1
    n = s.losses[arm]
    add_to_blocks(s.older, s.newer, arm, n, loss)
    add_to_blocks(s.older_moment, s.newer_moment, arm, n, moment)
    if c.epsilon * n >= float(1 << s.seen[arm]):
        count(s, arm)


@inlined
def _rested_index(c: Any, s: Any, t: int, arm: int) -> float:
    level = s.seen[arm] - 1
    h = float(1 << level)
    older, newer = s.older[arm, level], s.newer[arm, level]
    # Σ (t − l)·(L(l) − L(l−h)) over the newer block, where Σ l·L(l−h) is the older block's moment
    # and h times its sum
    rise = t * (newer - older) - (s.newer_moment[arm, level] - s.older_moment[arm, level])
    return newer / h + (rise + h * older) / (h * h) - _width(c, s, t, arm)


@inlined
def _restless_index(c: Any, s: Any, t: int, arm: int) -> float:
    level = s.seen[arm] - 1
    h = float(1 << level)
    mean = s.newer[arm, level] / h
    when = s.newer_moment[arm, level] / h
    apart = max(when - s.older_moment[arm, level] / h, h)
    return mean + (t - when) * (mean - s.older[arm, level] / h) / apart - _width(c, s, t, arm)


@inlined
def _width(c: Any, s: Any, t: int, arm: int) -> float:
    level = s.seen[arm] - 1
    h = float(1 << level)
    ahead = t - float((s.losses[arm] >> level) << level) + h - 1.0
    return c.sigma * ahead * math.sqrt(10.0 * c.alpha * log(float(t)) / (h * h * h))
