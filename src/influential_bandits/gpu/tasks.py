"""Batches of runs for a graphics processor; :func:`gpu_tasks` is the entry."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from influential_bandits.errors import GpuError, InvalidPolicy, NotApplicable
from influential_bandits.gpu.kernels import (
    ARGUMENTS,
    SCALARS,
    THREADS_PER_BLOCK,
    Game,
)
from influential_bandits.gpu.launching import Launcher
from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.policies.compiled import Layout
from influential_bandits.policies.contract import Policy
from influential_bandits.policies.influential_lcb import InfluentialLCB
from influential_bandits.policies.lcb import LCB
from influential_bandits.simulation.kernels import CHOSEN_ARM, CHOSEN_ROUND, Output
from influential_bandits.simulation.tasks import Simulation
from influential_bandits.world.dynamics import LOW_RANK, SPARSE
from influential_bandits.world.instance import Instance
from influential_bandits.world.noise import Noise, NoiseSource

SECONDS_PER_LAUNCH = 0.25  # then progress is shown, and Ctrl-C is heard
MOST_RUNS = 1 << 21  # in a batch: several times what the largest graphics processor holds at once
FIRST_ROUNDS = 16  # of the first launch, which shows how long a round takes
COUNTERS = (LCB, InfluentialLCB)  # whose whole numbers count rounds or name arms

Words = npt.NDArray[np.uint64]


def gpu_tasks(simulation: Simulation, device: int, memory: int) -> list[Batch]:
    """Return tasks that play every instance with every seed, in batches that fit the memory."""
    policy, instances, whole = simulation.policy, simulation.instances, simulation.output
    shown = instances if policy.privileged else instances[:1]  # oracles have a layout for each
    layouts = [simulation.lay_out(instance) for instance in shown]
    groups: dict[Any, tuple[Game, list[int]]] = {}
    for i, instance in enumerate(instances):
        game = _make_game(simulation, instance, layouts[i % len(layouts)])
        groups.setdefault(game.likeness, (game, []))[1].append(i)
    return [
        Batch(
            policy,
            game,
            [instances[i] for i in chosen],
            [layouts[i % len(layouts)] for i in chosen],
            simulation.noise,
            simulation.seeds[seeds],
            seeds.start,
            np.array([simulation.numbers[i] for i in chosen], np.uint64),
            [simulation.output_of(i, seeds) for i in chosen],
            simulation.horizon,
            device,
        )
        for game, members in groups.values()
        for chosen, seeds in _parts(game, members, instances, len(simulation.seeds), whole, memory)
    ]


def require_playable(simulation: Simulation) -> None:
    """Raise for what is not played on graphics processors."""
    if simulation.scenario is not None:
        raise NotApplicable(
            "scenarios are not played on graphics processors: leave execution=GpuExecution() out"
        )
    if simulation.check:
        raise NotApplicable(
            "indices are not checked on graphics processors: leave execution=GpuExecution() out "
            "where check=True"
        )


def _make_game(simulation: Simulation, instance: Instance, layout: Layout) -> Game:
    world, output = instance.world, simulation.output
    return Game(
        layout,
        int(world.kind),
        world.values.shape[1] if world.kind == LOW_RANK else 0,
        world.memory < 1.0,
        simulation.noise.source(),
        output.choices.shape[2] > 0,
        output.losses.shape[2] > 0,
        narrow=type(simulation.policy) in COUNTERS and simulation.horizon < 2**31,
    )


def _parts(
    game: Game,
    members: list[int],
    instances: Sequence[Instance],
    seeds: int,
    whole: Output,
    memory: int,
) -> Iterator[tuple[list[int], slice]]:
    """Yield the instances and the seeds of each part that fits."""
    state = game.layout.sizes["int64"] + game.layout.sizes["float64"]
    results = sum(array.itemsize * int(np.prod(array.shape[2:])) for array in whole[1:])
    run = 8 * (state + sum(game.progress_sizes.values()) + 12) + results
    world = max(sum(array.nbytes for array in instances[i].world[1:5]) for i in members)
    known = sum(values.nbytes for values in game.layout.known.values())
    most = min(MOST_RUNS, memory // (run + (world + known + 8) // min(seeds, 1024) + 8))
    if most < 1:
        raise GpuError(
            f"one run takes {run + world + known:,} bytes on the graphics processor, and there is "
            f"room for {memory:,}; keep less at a time"
        )
    if seeds >= most:
        for i in members:
            for start in range(0, seeds, most):
                yield [i], slice(start, min(start + most, seeds))
        return
    many = most // seeds
    for start in range(0, len(members), many):
        yield members[start : start + many], slice(0, seeds)


@dataclass(eq=False)
class Batch:
    """Runs that are played at once: all of some instances with some seeds."""

    policy: Policy
    game: Game
    instances: list[Instance]
    layouts: list[Layout]
    noise: Noise
    seeds: Words
    row: int  # of the first seed among all
    numbers: Words
    outputs: list[Output]
    horizon: int
    device: int

    @property
    def runs(self) -> int:
        """How many runs it plays."""
        return len(self.instances) * len(self.seeds)

    @property
    def bytes_on_card(self) -> int:
        """How much memory it takes on the card."""
        rooms = self._rooms().values()
        world = sum(array.nbytes for array in self.instances[0].world[1:5])
        return (
            sum(math.prod(shape) * np.dtype(dtype).itemsize for shape, dtype in rooms)
            + len(self.instances) * world
        )

    def likeness(self) -> tuple[Any, ...]:
        """Return what batches have in common that can be played as one."""
        layout = self.game.layout
        return (
            self.game.digest,
            repr(self.policy),
            layout.config,
            *(layout.fresh[dtype].tobytes() for dtype in ("int64", "float64")),
            self.noise,
            self.seeds.tobytes(),
            self.row,
            self.outputs[0].checkpoints.tobytes(),
            self.horizon,
            self.device,
        )

    def join(self, others: Sequence[Batch]) -> Batch:
        """Return the batch of the runs of this one and of others like it."""
        all_of_them = (self, *others)
        return replace(
            self,
            instances=[instance for batch in all_of_them for instance in batch.instances],
            layouts=[layout for batch in all_of_them for layout in batch.layouts],
            numbers=np.concatenate([batch.numbers for batch in all_of_them]),
            outputs=[output for batch in all_of_them for output in batch.outputs],
        )

    def prepare(self) -> tuple[Launcher, dict[str, Any]]:
        """Compile the kernel; return what launches it, and the arrays on the card."""
        name, variants = self.policy.label, self.game.variants()
        launcher = Launcher(name, variants, THREADS_PER_BLOCK, self.device)
        arrays = launcher.send(self._arrays()) | launcher.reserve(self._rooms())
        launcher.compile([*self._scalars(0, 0), *(arrays[name] for name in self._names())])
        return launcher, arrays

    def steps(self) -> Iterable[int]:
        """Play; yield the number of rounds done after each launch."""
        launcher, arrays = self.prepare()
        given, runs = [arrays[name] for name in self._names()], self.runs
        rounds, last, launches = min(self.horizon, FIRST_ROUNDS), 0, 0
        while last < self.horizon:
            first, last = last + 1, min(last + rounds, self.horizon)
            took = launcher.launch(runs, [*self._scalars(first, last), *given])
            launches += 1
            finished, wrong = launcher.fetch(arrays["told"])
            if finished < launches * runs or wrong:
                self._explain(launcher, arrays, last)
            yield (last - first + 1) * runs
            more = min(SECONDS_PER_LAUNCH / max(took, 1e-6), 8.0)
            rounds = max(1, min(int(rounds * more), self.horizon))
        self._take(launcher, arrays)

    def _scalars(self, first: int, last: int) -> list[Any]:
        return [np.int64(first), np.int64(last), np.int64(self.row)]

    def _names(self) -> list[str]:
        return [*ARGUMENTS[len(SCALARS) :], *self.game.knowledge]

    def _arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return what the kernel reads, by name."""
        layout, source = self.game.layout, self.noise.source()
        floats = [float(x) if isinstance(x, float) else 0.0 for x in layout.config[1:]]
        scale = source.scale if isinstance(source, NoiseSource) else 0.0
        recorded = source.values if isinstance(source, NoiseSource) else np.zeros((1, 1))
        return {
            **self._worlds(),
            "seeds": self.seeds,
            "numbers": self.numbers,
            "parameters": np.array([*floats, scale]),
            "recorded": recorded if recorded.size else np.zeros((1, 1)),
            "fresh_ints": layout.fresh["int64"] if layout.sizes["int64"] else np.zeros(1, np.int64),
            "fresh_floats": layout.fresh["float64"] if layout.sizes["float64"] else np.zeros(1),
            "marks": self.outputs[0].checkpoints,
            "told": np.zeros(2, np.int64),
        }

    def _rooms(self) -> dict[str, tuple[tuple[int, ...], Any]]:
        """Return shapes and types of what the kernel writes before it reads it, by name."""
        game, horizon = self.game, self.horizon
        runs, marks = self.runs, len(self.outputs[0].checkpoints)
        sizes = game.progress_sizes

        def numbers(size: int) -> tuple[int, int]:
            return (size, runs) if size else (1, 1)

        def state(dtype: str) -> tuple[int, int]:
            size = game.layout.sizes[dtype]
            return (runs, max(size, 1)) if game.in_card else numbers(size)

        return {
            "ints": (state("int64"), np.int64),
            "floats": (state("float64"), np.float64),
            "counts": (numbers(game.n_arms), np.int64),
            "weights": (numbers(sizes["weights"]), np.float64),
            "low": (numbers(sizes["low"]), np.float64),
            "brought_up": (numbers(sizes["brought_up"]), np.int64),
            "loss": (numbers(2 * game.fading), np.float64),
            "kept_counts": ((runs, marks, game.n_arms), np.int64),
            "kept_loss": ((runs if game.fading else 1, marks), np.float64),
            "choices": ((runs, horizon) if game.records_choices else (1, 1), np.int32),
            "losses": ((runs, horizon) if game.records_losses else (1, 1), np.float64),
            "fault": ((runs, 3), np.int64),
            "reached": ((runs,), np.int64),
        }

    def _worlds(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays of all instances, and what oracles know of them."""
        worlds = [instance.world for instance in self.instances]
        columns, offsets = np.zeros(1, np.int64), np.zeros((1, 1), np.int64)
        if self.game.kind == SPARSE:
            starts = np.cumsum([0, *(world.columns.size for world in worlds)])
            values: Floats = np.concatenate([world.values[0] for world in worlds])[None, None]
            columns = np.concatenate([world.columns for world in worlds])
            offsets = np.stack(
                [world.offsets + start for world, start in zip(worlds, starts, strict=False)]
            )
            if values.size == 0:
                values, columns = np.zeros((1, 1, 1)), np.zeros(1, np.int64)
        else:
            values = np.stack([world.values for world in worlds])
        known = {}
        for name, dtype, start, shape, is_known in self.game.fields:
            if is_known:
                stop = start + int(np.prod(shape))
                each = [layout.known[f"known_{dtype}"][start:stop] for layout in self.layouts]
                known[f"known_{name}"] = np.stack(each)
        return {
            "values": values,
            "columns": columns,
            "offsets": offsets,
            "initial_loss": np.stack([world.initial_loss for world in worlds]),
            "memory_left": np.array([world.memory for world in worlds]),
            **known,
        }

    def _explain(self, launcher: Launcher, arrays: dict[str, Any], last: int) -> None:
        """Raise: a policy chose an arm out of range, or a run has stopped."""
        reached: Ints = launcher.fetch(arrays["reached"])
        fault: Ints = launcher.fetch(arrays["fault"])
        wrong = np.flatnonzero(fault[:, CHOSEN_ROUND])
        name = type(self.policy).__name__
        if len(wrong):
            run = int(wrong[0])
            raise InvalidPolicy(
                f"{name} chose arm {fault[run, CHOSEN_ARM]} in round {fault[run, CHOSEN_ROUND]} "
                f"({self._where(run)}); the arms are 0 … {self.game.n_arms - 1}"
            )
        stopped = np.flatnonzero(reached != last)
        raise InvalidPolicy(
            f"{name} failed before round {last + 1} ({self._where(int(stopped[0]))}); play it "
            "without execution=GpuExecution() to see why"
        )

    def _where(self, run: int) -> str:
        instance, seed = divmod(run, len(self.seeds))
        return f"instance {self.numbers[instance]}, seed {self.seeds[seed]}"

    def _take(self, launcher: Launcher, arrays: dict[str, Any]) -> None:
        """Bring the results home."""
        many = len(self.seeds)
        names = ("kept_counts", "kept_loss", "choices", "losses")
        kept = (True, self.game.fading, self.game.records_choices, self.game.records_losses)
        for place, (name, is_kept) in enumerate(zip(names, kept, strict=True), 1):
            if is_kept:
                values = launcher.fetch(arrays[name])
                for i, output in enumerate(self.outputs):
                    output[place][...] = values[i * many : (i + 1) * many]
