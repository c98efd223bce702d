"""Policies that know the instance: what could be reached, and what not knowing costs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from influential_bandits.optima.integer import integer_optimum
from influential_bandits.policies.contract import Policy, Shape
from influential_bandits.world.dynamics import World, add_row
from influential_bandits.world.instance import (
    Instance,
    require_lasting_memory,
    require_no_clock,
)


@dataclass(frozen=True)
class FrankWolfeOracle(Policy):
    """Pull the arm with the smallest true expected loss, ties to the smallest index.

    The loss of an arm is its entry of the gradient ∇L(x) = b + A·x, up to a constant. The smallest
    entry is the corner of the simplex to which the Frank-Wolfe method moves: this policy is that
    method, and influential LCB a noisy and delayed version of it (Sec. 2). Greedy, it is not the
    best policy: it looks at the state it is in, not at the horizon.

    Examples
    --------
    >>> import influential_bandits as ib
    >>> ib.simulate(ib.counterexample(), FrankWolfeOracle(), horizon=1000).counts[0, 0, -1]
    array([1000,    0])
    """

    privileged = ("instance",)

    def fields(self, n_arms: int) -> Mapping[str, tuple[str, Shape]]:
        """How far the losses are from the initial ones, in two parts so that sums do not drift."""
        return {"high": ("float64", n_arms), "low": ("float64", n_arms)}

    def knowledge(self, instance: Instance, horizon: int) -> Mapping[str, npt.NDArray[Any]]:
        require_no_clock(instance, "FrankWolfeOracle")
        world = instance.world
        return {
            "kind": np.array([world.kind]),
            "values": world.values,
            "columns": world.columns,
            "offsets": world.offsets,
            "initial_loss": world.initial_loss,
            "memory": np.array([world.memory]),
        }

    @staticmethod
    def select(c: Any, s: Any, t: int, eligible: Any, rng: Any) -> int:
        best = -1
        lowest = math.inf
        for arm in range(c.n_arms):
            if eligible is not None and not eligible[arm]:
                continue
            loss = s.initial_loss[arm] + (s.high[arm] + s.low[arm])
            if best < 0 or loss < lowest:
                best = arm
                lowest = loss
        return best

    @staticmethod
    def pulled(c: Any, s: Any, t: int, arm: int, memo: Any) -> None:
        world = World(s.kind[0], s.values, s.columns, s.offsets, s.initial_loss, s.memory[0])
        add_row(world, arm, s.high, s.low)


@dataclass(frozen=True)
class OptimalOracle(Policy):
    """Play the best whole counts for the horizon, arm by arm.

    Examples
    --------
    >>> import influential_bandits as ib
    >>> run = ib.simulate(ib.random_instance(n_arms=3, seed=1), OptimalOracle(), horizon=1000)
    >>> bool(run.regret(against="integer")[0, 0, -1] == 0)
    True
    """

    privileged = ("instance", "horizon")
    horizon_aware = True

    def fields(self, n_arms: int) -> Mapping[str, tuple[str, Shape]]:
        return {"pulls": ("int64", n_arms)}

    def knowledge(self, instance: Instance, horizon: int) -> Mapping[str, npt.NDArray[Any]]:
        return {"plan": integer_optimum(instance, horizon).counts}

    @staticmethod
    def select(c: Any, s: Any, t: int, eligible: Any, rng: Any) -> int:
        most = -1
        for arm in range(c.n_arms):
            if eligible is not None and not eligible[arm]:
                continue
            if s.pulls[arm] < s.plan[arm]:
                return arm
            if most < 0 or s.plan[arm] > s.plan[most]:
                most = arm
        return most

    @staticmethod
    def pulled(c: Any, s: Any, t: int, arm: int, memo: Any) -> None:
        s.pulls[arm] += 1


@dataclass(frozen=True)
class EachArmOnceOracle(OptimalOracle):
    """Pull each arm once, then play the best completion: the price of not knowing the instance.

    Any policy that starts without knowledge must look at every arm. After one pull of each, the
    losses are l1 + A·1, and the rest is an influential bandit of T − K rounds with these.

    Examples
    --------
    >>> import influential_bandits as ib
    >>> run = ib.simulate(ib.random_instance(n_arms=3, seed=1), EachArmOnceOracle(), horizon=1000)
    >>> bool((run.counts[0, 0, -1] >= 1).all())
    True
    """

    def knowledge(self, instance: Instance, horizon: int) -> Mapping[str, npt.NDArray[Any]]:
        require_lasting_memory(instance, "the best completion")
        n_arms = instance.n_arms
        if horizon <= n_arms:
            return {"plan": (np.arange(n_arms) < horizon).astype(np.int64)}
        ones = np.ones(n_arms, np.int64)
        losses = instance.losses(ones)
        afterwards = Instance(instance.interaction, losses, instance.arm_names, definite=False)
        return {"plan": ones + integer_optimum(afterwards, horizon - n_arms).counts}

    @staticmethod
    def select(c: Any, s: Any, t: int, eligible: Any, rng: Any) -> int:
        most = -1
        left = -1
        for arm in range(c.n_arms):
            if eligible is not None and not eligible[arm]:
                continue
            if s.pulls[arm] == 0 and s.plan[arm] > 0:
                return arm
            if left < 0 and s.pulls[arm] < s.plan[arm]:
                left = arm
            if most < 0 or s.plan[arm] > s.plan[most]:
                most = arm
        return left if left >= 0 else most
