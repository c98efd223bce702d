"""Classic policies for arms that do not change, all in loss form."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from influential_bandits.checks import LARGEST_LOSS
from influential_bandits.errors import InvalidInput
from influential_bandits.numerics.compiling import inlined
from influential_bandits.numerics.portable import exp, log
from influential_bandits.numerics.streams import normal, uniform
from influential_bandits.policies.contract import Policy, Shape
from influential_bandits.policies.selection import (
    Averages,
    average,
    is_offered,
    lowest_arm,
    mean_of,
    random_arm,
    real_setting,
)

LEAST_PROBABILITY = 2.0**-52  # of a choice: finer than the uniform numbers that make it


@dataclass(frozen=True)
class EpsilonGreedy(Averages, Policy):
    """Pull the arm with the smallest mean loss; with probability ε any arm.

    With ``decreasing`` the probability is min(1, ε·K/t), the εₙ-greedy of Auer, Cesa-Bianchi and
    Fischer (2002), "Finite-time analysis of the multiarmed bandit problem", where ε is their c/d²
    and may be above 1. Arms without an observation come first.

    Parameters
    ----------
    epsilon : float
        Probability of a random arm, or the factor of a decreasing one.
    decreasing : bool

    Examples
    --------
    >>> import influential_bandits as ib
    >>> run = ib.simulate(ib.counterexample(), EpsilonGreedy(epsilon=0.0), horizon=100)
    >>> run.counts[0, 0, -1]
    array([81, 19])
    """

    epsilon: float = 0.1
    decreasing: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.decreasing, bool):
            raise InvalidInput(f"decreasing must be True or False, got {self.decreasing!r}")
        most = LARGEST_LOSS if self.decreasing else 1.0
        real_setting(self, "epsilon", most=most, closed=True)

    @staticmethod
    def select(c: Any, s: Any, t: int, eligible: Any, rng: Any) -> int:
        epsilon = c.epsilon
        if c.decreasing:
            epsilon *= c.n_arms / t
        if s.unseen[0] == 0 and uniform(rng, 0) < epsilon:
            return random_arm(uniform(rng, 1), c.n_arms, eligible)
        return lowest_arm(mean_of, c, s, 0.0, eligible)


@dataclass(frozen=True)
class GaussianThompson(Averages, Policy):
    """Pull the arm with the smallest draw from its posterior N(mean, σ²/n) of the loss.

    Thompson sampling for normal losses of known variance under Jeffreys' prior, which is flat:
    Korda, Kaufmann and Munos (2013), "Thompson sampling for 1-dimensional exponential family
    bandits". Arms without an observation come first.

    Parameters
    ----------
    sigma : float
        Standard deviation of a loss around its mean.

    Examples
    --------
    >>> import influential_bandits as ib
    >>> run = ib.simulate(ib.counterexample(), GaussianThompson(), horizon=100, seeds=[7])
    >>> run.counts[0, 0, -1]
    array([78, 22])
    """

    sigma: float = 1.0

    def __post_init__(self) -> None:
        real_setting(self, "sigma")

    @staticmethod
    def select(c: Any, s: Any, t: int, eligible: Any, rng: Any) -> int:
        return lowest_arm(_draw, c, s, rng, eligible)


@dataclass(frozen=True)
class MOSS(Averages, Policy):
    """Pull the arm with the smallest mean − loss_range·√((1+α)/2 · max(0, log(t/(K·n))) / n).

    Loss form of the anytime MOSS of Degenne and Perchet (2016), "Anytime optimal algorithms in
    stochastic multi-armed bandits", after Audibert and Bubeck (2009). Arms without an observation
    come first.

    Parameters
    ----------
    alpha : float
        α, the paper's 1.35.
    loss_range : float
        Width of the interval that holds the losses.

    Examples
    --------
    >>> import influential_bandits as ib
    >>> ib.simulate(ib.counterexample(), MOSS(), horizon=100).counts[0, 0, -1]
    array([79, 21])
    """

    alpha: float = 1.35
    loss_range: float = 1.0

    def __post_init__(self) -> None:
        real_setting(self, "alpha", closed=True)
        real_setting(self, "loss_range")

    @staticmethod
    def select(c: Any, s: Any, t: int, eligible: Any, rng: Any) -> int:
        return lowest_arm(_moss_index, c, s, t / c.n_arms, eligible)


@dataclass(frozen=True)
class UCBV(Averages, Policy):
    """Pull the arm with the smallest mean − √(2ζ·V·log t / n) − 3ζ·bias·loss_range·log t / n.

    Loss form of UCB-V, V being the empirical variance: Audibert, Munos and Szepesvári (2009),
    "Exploration-exploitation tradeoff using variance estimates in multi-armed bandits". Arms
    without an observation come first.

    Parameters
    ----------
    zeta : float
        ζ, the paper's 1.2; for its regret bound, above 1.
    bias : float
        Weight of the last term, the paper's c = 1.
    loss_range : float
        Width of the interval that holds the losses, the paper's b.

    Examples
    --------
    >>> import influential_bandits as ib
    >>> ib.simulate(ib.counterexample(), UCBV(), horizon=100).counts[0, 0, -1]
    array([65, 35])
    """

    zeta: float = 1.2
    bias: float = 1.0
    loss_range: float = 1.0

    def __post_init__(self) -> None:
        real_setting(self, "zeta")
        real_setting(self, "bias", closed=True)
        real_setting(self, "loss_range")

    def fields(self, n_arms: int) -> Mapping[str, tuple[str, Shape]]:
        return {**super().fields(n_arms), "squares": ("float64", n_arms)}

    @staticmethod
    def select(c: Any, s: Any, t: int, eligible: Any, rng: Any) -> int:
        return lowest_arm(_ucbv_index, c, s, c.zeta * log(float(t)), eligible)

    @staticmethod
    def observed(c: Any, s: Any, t: int, arm: int, memo: Any, loss: float) -> None:
        before = loss - s.mean[arm]
        average(s, arm, loss)
        if s.seen[arm] > 1:
            s.squares[arm] += max(before * (loss - s.mean[arm]), 0.0)


@dataclass(frozen=True)
class EXP3(Policy):
    """Pull arm i with a probability that falls exponentially in its estimated total loss.

    The probability is proportional to exp(−η·L̂ᵢ), η = √(log K / (t·K)), and a pull adds its loss
    over its probability to L̂ᵢ: loss form of EXP3 (Auer, Cesa-Bianchi, Freund and Schapire, 2002)
    with the anytime rate of Bubeck and Cesa-Bianchi (2012), "Regret analysis of stochastic and
    nonstochastic multi-armed bandit problems", Theorem 3.1.

    Losses are taken to lie in [low, high] and mapped to [0, 1] by a straight line. One outside
    counts as the nearer end, so choose the ends wide: where losses grow without bound there is no
    guarantee, and EXP3 no longer tells apart the arms beyond ``high``.

    A late loss is weighted by the probability at its pull. That is taken among all arms in use,
    as if all had been eligible, and never below 2⁻⁵² (an arm that was forced). A new arm starts
    level with the best.

    Parameters
    ----------
    low, high : float
        Ends of the interval of the losses.

    Examples
    --------
    >>> import influential_bandits as ib
    >>> run = ib.simulate(ib.counterexample(), EXP3(high=200.0), horizon=100, seeds=[7])
    >>> run.counts[0, 0, -1]
    array([55, 45])
    """

    low: float = 0.0
    high: float = 1.0

    def __post_init__(self) -> None:
        real_setting(self, "low", above=-LARGEST_LOSS, closed=True)
        real_setting(self, "high", above=self.low)

    def fields(self, n_arms: int) -> Mapping[str, tuple[str, Shape]]:
        """Estimates of each arm's total loss, and which arms are in use."""
        return {"estimate": ("float64", n_arms), "in_use": ("int64", n_arms)}

    def memo_size(self, n_arms: int) -> int:
        """The probability of the pull."""
        return 1

    @staticmethod
    def init(c: Any, s: Any) -> None:
        s.in_use[:] = 1

    @staticmethod
    def select(c: Any, s: Any, t: int, eligible: Any, rng: Any) -> int:
        rate, least = _exp3_rate(c, t), _least_estimate(s, eligible)
        left = uniform(rng, 0) * _total_weight(s, rate, least, eligible)
        chosen = -1
        for arm in range(c.n_arms):
            if is_offered(eligible, arm):
                weight = exp(-rate * (s.estimate[arm] - least))
                if weight > 0.0 or chosen < 0:
                    chosen = arm
                left -= weight
                if left < 0.0:
                    break
        return chosen

    @staticmethod
    def pulled(c: Any, s: Any, t: int, arm: int, memo: Any) -> None:
        rate, least = _exp3_rate(c, t), _least_estimate(s, s.in_use)
        weight = exp(-rate * (s.estimate[arm] - least))
        memo[0] = max(weight / _total_weight(s, rate, least, s.in_use), LEAST_PROBABILITY)

    @staticmethod
    def observed(c: Any, s: Any, t: int, arm: int, memo: Any, loss: float) -> None:
        unit = (min(max(loss, c.low), c.high) - c.low) / (c.high - c.low)
        s.estimate[arm] += unit / memo[0]

    @staticmethod
    def arm_added(c: Any, s: Any, arm: int) -> None:
        s.estimate[arm] = _least_estimate(s, s.in_use)
        s.in_use[arm] = 1

    @staticmethod
    def arm_retired(c: Any, s: Any, arm: int) -> None:
        s.in_use[arm] = 0


@inlined
def _draw(c: Any, s: Any, rng: Any, arm: int) -> float:
    return s.mean[arm] + c.sigma * normal(rng, arm) / math.sqrt(float(s.seen[arm]))


@inlined
def _moss_index(c: Any, s: Any, rounds_per_arm: float, arm: int) -> float:
    n = s.seen[arm]
    ratio = max(rounds_per_arm / n, 1.0)
    return s.mean[arm] - c.loss_range * math.sqrt(0.5 * (1.0 + c.alpha) * log(ratio) / n)


@inlined
def _ucbv_index(c: Any, s: Any, radius: float, arm: int) -> float:
    n = s.seen[arm]
    variance = s.squares[arm] / n
    width = 3.0 * c.bias * c.loss_range * radius / n
    return s.mean[arm] - math.sqrt(2.0 * variance * radius / n) - width


@inlined
def _exp3_rate(c: Any, t: int) -> float:
    return math.sqrt(log(float(c.n_arms)) / (float(t) * c.n_arms))


@inlined
def _least_estimate(s: Any, eligible: Any) -> float:
    least = math.inf
    for arm in range(s.estimate.size):
        if is_offered(eligible, arm):
            least = min(least, s.estimate[arm])
    return least


@inlined
def _total_weight(s: Any, rate: float, least: float, eligible: Any) -> float:
    total = 0.0
    for arm in range(s.estimate.size):
        if is_offered(eligible, arm):
            total += exp(-rate * (s.estimate[arm] - least))
    return total
