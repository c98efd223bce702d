"""What is to be played, cut into tasks: one policy, in several worlds, with several seeds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import InitVar, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from influential_bandits.errors import InfluentialBanditsError, InvalidPolicy
from influential_bandits.execution.base import Task
from influential_bandits.numerics.streams import NOISE, POLICY, key_table
from influential_bandits.policies.compiled import Layout
from influential_bandits.policies.contract import Policy
from influential_bandits.policies.messages import explain
from influential_bandits.simulation.kernels import (
    CHOSEN_ARM,
    CHOSEN_ROUND,
    CHOSEN_RUN,
    Output,
    Runs,
    advance_runs,
)
from influential_bandits.simulation.scenario import Scenario
from influential_bandits.simulation.scenario_player import (
    ScenarioPlayer,
    compile_rules,
    count_places,
)
from influential_bandits.simulation.simd.tasks import lane_tasks
from influential_bandits.world.dynamics import start_progress
from influential_bandits.world.instance import Instance
from influential_bandits.world.noise import Noise

if TYPE_CHECKING:
    from influential_bandits.numerics.arrays import Ints

SECONDS_PER_STEP = 0.05  # a thread looks up about that often
BYTES_PER_BATCH = 1 << 26  # state of the runs that a thread plays side by side


@dataclass(frozen=True, eq=False)
class Simulation:
    """One policy in several worlds with several seeds; an execution cuts it into tasks."""

    policy: Policy
    instances: tuple[Instance, ...]
    noise: Noise
    seeds: npt.NDArray[np.uint64]
    numbers: list[int]  # of the instances, for their random streams
    output: Output  # of all: (instances, seeds, …)
    horizon: int
    scenario: Scenario | None
    arms_at_start: int
    check: bool
    rounds_per_step: int
    lanes: bool | None

    @property
    def runs(self) -> int:
        """How many runs there are."""
        return len(self.instances) * len(self.seeds)

    def lay_out(self, instance: Instance) -> Layout:
        """Lay out the policy's state; oracles are told the instance and the horizon."""
        known = (instance, self.horizon) if self.policy.privileged else ()
        return Layout(self.policy, self.arms_at_start, *known, checked=self.check)

    def output_of(self, i: int | slice, seeds: slice = slice(None)) -> Output:
        """Return where the results of some seeds of an instance go, or of several instances."""
        arrays: Any = (array[i, seeds] for array in self.output[1:])
        return Output(self.output[0], *arrays)

    def part(self, instances: slice, seeds: slice = slice(None)) -> Simulation:
        """Return the simulation of some of the instances with some of the seeds."""
        return replace(
            self,
            instances=self.instances[instances],
            seeds=self.seeds[seeds],
            numbers=self.numbers[instances],
            output=self.output_of(instances, seeds),
        )

    def __getstate__(self) -> dict[str, Any]:
        """Travel light: results are all zero before the work, and have a way of their own."""
        marks, *arrays = self.output
        return {**self.__dict__, "output": (marks, [(a.shape, a.dtype) for a in arrays])}

    def __setstate__(self, state: dict[str, Any]) -> None:
        marks, sizes = state["output"]
        output = Output(marks, *(np.zeros(*size) for size in sizes))
        self.__dict__.update(state, output=output)

    def tasks_for_cores(self, threads: int) -> Sequence[Task]:
        """Return tasks for the cores of a computer: in SIMD lanes where that pays."""
        keeps_all = self.output.choices.size + self.output.losses.size > 0
        general = self.lanes is False or self.scenario is not None or keeps_all or self.check
        tasks = None if general else lane_tasks(self, threads)
        return list(self._chains()) if tasks is None else tasks

    def _chains(self) -> Iterator[Chain]:
        """Yield batches of runs for the general loop."""
        layout = None
        for i, instance in enumerate(self.instances):
            if layout is None or self.policy.privileged:
                layout = self.lay_out(instance)
            batch = self._batch_size(layout, instance)
            for start in range(0, len(self.seeds), batch):
                seeds = slice(start, min(start + batch, len(self.seeds)))
                yield Chain(self.part(slice(i, i + 1), seeds), start, layout)

    def _batch_size(self, layout: Layout, instance: Instance) -> int:
        """Return how many runs to play side by side: work for a step, within little memory."""
        progress = sum(array.nbytes for array in start_progress(instance.world))
        state = 8 * (layout.sizes["int64"] + layout.sizes["float64"] + layout.memo_size)
        if self.scenario is not None:
            places = count_places(compile_rules(self.scenario, self.horizon))
            state += 8 * (6 + layout.memo_size) * places
        most = BYTES_PER_BATCH // (progress + state)
        return max(1, min(self.rounds_per_step // self.horizon, most))


@dataclass(eq=False)
class Chain:
    """A batch of runs in one world, played step by step until the horizon."""

    simulation: Simulation  # of one instance, with the seeds of the batch
    row: int  # of the first seed among all
    known_layout: InitVar[Layout | None] = None  # of the policy and the instance, if at hand

    def __post_init__(self, known_layout: Layout | None) -> None:
        self.output = self.simulation.output_of(0)
        self.layout = known_layout or self.simulation.lay_out(self.simulation.instances[0])

    def steps(self) -> Iterable[int]:
        """Play; yield the number of rounds done after each step."""
        play = self._player()
        fault = np.zeros(3, np.int64)
        largest = max(1, self.simulation.rounds_per_step // len(self.simulation.seeds))
        rounds = max(1, largest >> 10)
        last = 0
        while last < self.simulation.horizon:
            first, last = last + 1, min(last + rounds, self.simulation.horizon)
            started = time.perf_counter()
            try:
                play(first, last, fault)
            except InfluentialBanditsError:
                raise
            except Exception as error:
                raise explain(
                    self.simulation.policy, self.layout, error, self._moment(last)
                ) from error
            if fault[CHOSEN_ROUND]:
                raise self._out_of_range(fault)
            yield (last - first + 1) * len(self.simulation.seeds)
            if time.perf_counter() - started < SECONDS_PER_STEP:
                rounds = min(2 * rounds, largest)
            else:
                rounds = max(1, rounds // 2)

    def results(self) -> Output:
        """Return what was played."""
        return self.output

    def accept(self, results: Output) -> None:
        """Take what was played elsewhere."""
        for mine, theirs in zip(self.output[1:], results[1:], strict=True):
            mine[...] = theirs

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel without the layout, which follows from the rest."""
        return Chain, (self.simulation, self.row)

    def _player(self) -> Callable[[int, int, Ints], None]:
        """Return what plays from one round to another."""
        layout, world, runs = self.layout, self.simulation.instances[0].world, self._fresh_runs()
        self._runs = runs  # what to look at if a round fails
        if self.simulation.scenario is not None:
            return ScenarioPlayer(self, self.simulation.scenario, runs).play
        noise, output, row = self.simulation.noise.source(), self.output, self.row
        tag, config, shared = layout.tag, layout.config, layout.arrays()

        def play(first: int, last: int, fault: Ints) -> None:
            rounds = first, last
            advance_runs(
                tag, config, shared, world, noise, runs, output, row, *rounds, fault, None, None
            )

        return play

    def _fresh_runs(self) -> Runs:
        many = len(self.simulation.seeds)
        start = start_progress(self.simulation.instances[0].world)
        keys = [
            key_table(self.simulation.seeds, np.uint64(self.simulation.numbers[0]), purpose)
            for purpose in (NOISE, POLICY)
        ]
        return Runs(
            ints=np.tile(self.layout.fresh["int64"], (many, 1)),
            floats=np.tile(self.layout.fresh["float64"], (many, 1)),
            memo=np.zeros((many, self.layout.memo_size)),
            counts=np.zeros((many, start.counts.size), np.int64),
            weights=np.zeros((many, start.weights.size)),
            low=np.zeros((many, start.low.size)),
            last=np.zeros((many, start.last.size), np.int64),
            loss=np.zeros((many, 2)),
            noise_keys=keys[0],
            policy_keys=keys[1],
        )

    def _moment(self, last: int) -> str:
        """Return when a run failed: the first that has not got as far as the last round."""
        played = self._runs.counts.sum(axis=1)  # runs are played one after the other
        run = int(np.argmax(played < last))
        return f" in round {played[run] + 1} ({self._name_run(run)})"

    def _name_run(self, run: int) -> str:
        return f"instance {self.simulation.numbers[0]}, seed {self.simulation.seeds[run]}"

    def _out_of_range(self, fault: Ints) -> InvalidPolicy:
        simulation, run = self.simulation, int(fault[CHOSEN_RUN])
        allowed = f"the arms are 0 … {simulation.instances[0].n_arms - 1}"
        if simulation.scenario is not None:
            allowed += f", and not all of them need be on offer in {simulation.scenario}"
        return InvalidPolicy(
            f"{type(simulation.policy).__name__} chose arm {fault[CHOSEN_ARM]} in round "
            f"{fault[CHOSEN_ROUND]} ({self._name_run(run)}); {allowed}"
        )
