"""When runs are played in lanes, and the tasks that do so; :func:`lane_tasks` is the entry."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, cast

import numba
import numpy as np
from llvmlite.binding import get_host_cpu_features  # type: ignore[import-untyped]

from influential_bandits.execution.base import Task
from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.policies.contract import Policy
from influential_bandits.policies.influential_lcb import InfluentialLCB
from influential_bandits.policies.lcb import LCB
from influential_bandits.simulation.simd.kernels import advance_lanes, fill_keys
from influential_bandits.simulation.simd.layout import (
    ROUNDS_PER_BLOCK,
    Words,
    allocate_aligned,
    lanes_for,
    slots_for,
)
from influential_bandits.world.dynamics import DENSE
from influential_bandits.world.instance import Instance
from influential_bandits.world.noise import RECORDED, Noise, NoiseSource

if TYPE_CHECKING:
    from influential_bandits.simulation.tasks import Simulation

MOST_ARMS = 12  # picking takes K² loads; at 12 lanes are still 3 to 4 times as fast
LEAST_ROUNDS = 1 << 22  # of all runs; fewer take no longer than compiling for one more K
GROUP_COST = 5  # runs that the general loop plays in the time of a group (measured: 1.6 to 4.6)
BYTES_PER_TASK = 1 << 24


def lane_tasks(simulation: Simulation, threads: int) -> list[Task] | None:
    """Return tasks that play every instance with every seed in lanes; None where that is no gain.

    ``simulation.lanes`` may ask for them also where they are no gain.
    """
    if not _can_be_laned(simulation.policy, simulation.instances, simulation.noise):
        return None
    n_arms, runs = simulation.instances[0].n_arms, simulation.runs
    lanes = lanes_for(n_arms)
    if not (simulation.lanes is True or _pays(simulation.horizon, runs, lanes, threads)):
        return None
    most = min(
        simulation.rounds_per_step // simulation.horizon, BYTES_PER_TASK // (8 * slots_for(n_arms))
    )
    size = max(1, most // lanes) * lanes
    return [
        _make_task(simulation, start, min(start + size, runs)) for start in range(0, runs, size)
    ]


def _make_task(simulation: Simulation, start: int, stop: int) -> LaneTask:
    """Return the task of runs start … stop − 1, with their instances alone."""
    several = len(simulation.seeds)
    first, last = start // several, (stop - 1) // several
    part = simulation.part(slice(first, last + 1))
    return LaneTask(part, range(start - first * several, stop - first * several))


def _can_be_laned(policy: Policy, instances: Sequence[Instance], noise: Noise) -> bool:
    """Tell whether runs can be played in lanes.

    A subclass may choose otherwise than its base, hence the exact types.
    """
    known = type(policy) is LCB or (
        type(policy) is InfluentialLCB and policy.influence_bound != "estimate"
    )
    source = noise.source()
    return (
        known
        and not numba.config.DISABLE_JIT
        and instances[0].n_arms <= MOST_ARMS
        and isinstance(source, NoiseSource)
        and source.kind != RECORDED
        and all(i.memory == 1.0 and i.world.kind == DENSE for i in instances)
    )


@cache
def wide_registers() -> bool:
    """Tell whether a register holds four numbers or more; with two, many arms lose time."""
    features = get_host_cpu_features()
    return bool(features.get("avx2") or features.get("avx512f"))


def _pays(horizon: int, runs: int, lanes: int, threads: int) -> bool:
    """Compare how long the busiest thread takes: a group is not shared among threads."""
    groups = -(-runs // lanes)
    return (
        horizon * runs >= LEAST_ROUNDS
        and wide_registers()
        and -(-groups // threads) * GROUP_COST < -(-runs // threads)
    )


@dataclass(eq=False)
class LaneTask:
    """Some runs of all, played in lanes group after group, step by step until the horizon."""

    simulation: Simulation  # of LCB or InfluentialLCB, in dense worlds with memory 1
    runs: range  # those played here: run n has instance n // seeds and seed n % seeds

    def __post_init__(self) -> None:
        self.seeds = self.simulation.seeds
        self.n_arms = self.simulation.instances[0].n_arms
        self.lanes = lanes_for(self.n_arms)
        # (runs, checkpoints, arms), a view: where the results of these runs go
        counts = self.simulation.output.counts
        self.counts: Ints = counts.reshape(-1, *counts.shape[2:])[self.runs.start : self.runs.stop]

    def steps(self) -> Iterable[int]:
        """Play; yield the number of rounds done after each step."""
        play = self._player()
        rounds = max(1, self.simulation.rounds_per_step // len(self.runs))
        for before in range(0, self.simulation.horizon, rounds):
            last = min(before + rounds, self.simulation.horizon)
            play(before + 1, last)
            yield (last - before) * len(self.runs)

    def results(self) -> Ints:
        """Return what was played."""
        return self.counts

    def accept(self, results: Ints) -> None:
        """Take what was played elsewhere."""
        self.counts[...] = results

    def __reduce__(self) -> tuple[Any, ...]:
        return LaneTask, (self.simulation, self.runs)

    def _player(self) -> Callable[[int, int], None]:
        """Return what plays from one round to another."""
        simulation, policy = self.simulation, self.simulation.policy
        noise = cast(NoiseSource, simulation.noise.source())  # lanes are for no others
        state, keys = self._fresh_state(), self._keys()
        known = isinstance(policy, InfluentialLCB)
        bound = float(policy.influence_bound) if known else None  # type: ignore[attr-defined]
        scratch = allocate_aligned((3, ROUNDS_PER_BLOCK * self.lanes), np.float64)
        arms, counts, marks = (0,) * self.n_arms, self.counts, simulation.output.checkpoints

        def play(first: int, last: int) -> None:
            advance_lanes(arms, bound, noise, state, keys, scratch, counts, marks, first, last)

        return play

    def _by_lane(self) -> Ints:
        """Return the runs, (groups, lanes); idle lanes repeat the last one."""
        groups = -(-len(self.runs) // self.lanes)
        runs = np.arange(self.runs.start, self.runs.start + groups * self.lanes)
        return np.minimum(runs, self.runs.stop - 1).reshape(groups, self.lanes)

    def _fresh_state(self) -> Floats:
        """Return the slots of each group, (groups, slots · lanes), before the first round."""
        of_lane = self._by_lane() // len(self.seeds)
        first, last = of_lane[0, 0], of_lane[-1, -1]
        given = np.stack([_constants(i) for i in self.simulation.instances[first : last + 1]])
        state = allocate_aligned((len(of_lane), slots_for(self.n_arms) * self.lanes), np.float64)
        slots = state.reshape(len(of_lane), -1, self.lanes)
        slots[:, : given.shape[1]] = given[of_lane - first].swapaxes(1, 2)
        return state

    def _keys(self) -> Words:
        """Return the noise keys of each group, (groups, 2 · lanes): the first ones, the second."""
        of_lane = self._by_lane()
        keys = allocate_aligned((len(of_lane), 2 * self.lanes), np.uint64)
        instances, seeds = np.divmod(of_lane, len(self.seeds))
        numbers = np.array(self.simulation.numbers, np.uint64)
        fill_keys(self.seeds[seeds], numbers[instances], keys)
        return keys


def _constants(instance: Instance) -> Floats:
    """Return what never changes, in the order of the slots: A row by row, initial losses."""
    return np.concatenate([instance.world.values.ravel(), instance.world.initial_loss])
