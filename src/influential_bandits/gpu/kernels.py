"""The kernel of a game: one run a thread, with all that is known beforehand as constants.

Policy, world and noise are the functions that processors run, and so is the loop over rounds
(:func:`play_rounds`). What is made here is what lies around them: where a thread finds its run, and
where the numbers of the run lie meanwhile. Few numbers lie in registers, more in the memory of the
thread, which the hardware interleaves so that threads read side by side.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numba
import numpy as np

from influential_bandits.gpu.device_code import DeviceCode, reaches, same
from influential_bandits.gpu.estimates import choose_by_estimates, root_estimate
from influential_bandits.gpu.registers import array_makers
from influential_bandits.gpu.scratch import Room, scratch_arrays
from influential_bandits.gpu.toolkit import cuda, is_simulated, jit
from influential_bandits.numerics.portable import log, log_of_round
from influential_bandits.numerics.streams import NOISE, POLICY, stream_keys
from influential_bandits.policies import compiled
from influential_bandits.policies.compiled import Layout
from influential_bandits.policies.selection import lowest_bound, waiting_arm
from influential_bandits.simulation.kernels import CHOSEN_ROUND, Output, play_rounds
from influential_bandits.world.dynamics import DENSE, LOW_RANK, SPARSE, Progress, World
from influential_bandits.world.noise import (
    NoiseSource,
    OwnSource,
    Source,
    observed_loss,
    plain_loss,
)

MOST_IN_REGISTERS = 12  # elements of an array; every access takes a selection among all
MOST_NUMBERS = 110  # of a run that lies in registers: a thread has room for 127
ROOM_OF_THREAD = 1 << 12  # numbers of an array that a policy makes in the memory of a thread
ROOM_OF_HYPOTHESES = 512  # numbers of an array with three axes: Foresight has 8 · 5 · 8 at most
FEW_ARMS = 4  # up to here the interaction is held in registers as well
ROUNDS_OF_TABLE = 512  # a power of two
BYTES_OF_THREAD = 1 << 14  # state in the memory of a thread; more lies in that of the card

THREADS_PER_BLOCK = 128
REGISTERS = 80  # of a thread with few arms: six blocks fit

# What each launch of a kernel gets, in this order; see Batch for the shapes.
SCALARS = ("first", "last", "row")
ARGUMENTS = (
    *SCALARS,
    "values",
    "columns",
    "offsets",
    "initial_loss",
    "memory_left",
    "seeds",
    "numbers",
    "parameters",
    "recorded",
    "fresh_ints",
    "fresh_floats",
    "ints",
    "floats",
    "counts",
    "weights",
    "low",
    "brought_up",
    "loss",
    "marks",
    "kept_counts",
    "kept_loss",
    "choices",
    "losses",
    "fault",
    "reached",
    "told",
)


@dataclass(frozen=True)
class Game:
    """All that a kernel is compiled for.

    Worlds of one game have the same kind and shape, and layouts of the same table.
    """

    layout: Layout
    kind: int  # of the interaction: DENSE, LOW_RANK or SPARSE
    rank: int  # of a low-rank interaction, otherwise 0
    fading: bool
    source: Source
    records_choices: bool = False
    records_losses: bool = False
    narrow: bool = False  # whole numbers of the state, if in registers, stay below 2³¹
    registers: bool = True  # hold small arrays in registers, if the state is small
    heap: bool = False  # let a policy make arrays on the heap of the graphics processor

    @property
    def n_arms(self) -> int:
        """Number of arms."""
        return int(self.layout.config[0])

    @property
    def likeness(self) -> tuple[Any, ...]:
        """What instances of one simulation must have in common to be played by one kernel."""
        layout = self.layout
        return self.kind, self.rank, self.fading, layout.tag.digest, layout.table.tobytes()

    @cached_property
    def fields(self) -> list[tuple[str, str, int, tuple[int, ...], bool]]:
        """Name, type, start, shape of each field, and whether it is an oracle's knowledge."""
        table = []
        for name, (buffer, where, shape) in self.layout.slices.items():
            known = buffer.startswith("known_")
            table.append((name, buffer.removeprefix("known_"), where.start, shape, known))
        return table

    @cached_property
    def knowledge(self) -> list[str]:
        """The fields that an oracle knows, as further arguments of the kernel."""
        return [f"known_{name}" for name, *_, known in self.fields if known]

    @cached_property
    def in_card(self) -> bool:
        """Whether the state lies in the memory of the card, being too large for a thread's."""
        size = self.layout.sizes
        return 8 * (size["int64"] + size["float64"]) > BYTES_OF_THREAD

    @cached_property
    def table(self) -> int:
        """How many logarithms of rounds a block holds at a time; 0 if nobody asks for them."""
        select = self.layout.tag.functions["select"]
        return ROUNDS_OF_TABLE if reaches(select, log_of_round) else 0

    @property
    def max_registers(self) -> int | None:
        """How many registers a thread may take."""
        few = self.narrow and self.registers and self.n_arms <= FEW_ARMS
        return REGISTERS if few else None

    @property
    def shared_bytes(self) -> int:
        """How much memory the threads of a block share."""
        return 8 * self.table

    @cached_property
    def progress_sizes(self) -> dict[str, int]:
        """How many numbers :class:`Progress` has, by name."""
        lazy = self.kind == SPARSE and self.fading
        return {
            "counts": self.n_arms,
            "weights": self.rank if self.kind == LOW_RANK else self.n_arms,
            "low": self.rank,
            "brought_up": self.n_arms if lazy else 0,
        }

    def variants(self) -> Iterator[Game]:
        """Yield ways to compile this, the fastest first; policies may do what one does not know."""
        room = _room(self)
        if self.layout.tag.is_own and room.two_axes > ROOM_OF_THREAD:
            yield replace(self, registers=False, heap=True)
            return
        if _fits_registers(self):
            yield self
        yield replace(self, registers=False)
        if not self.layout.tag.is_own:
            yield replace(self, registers=False, heap=True)

    @cached_property
    def source_code(self) -> str:
        """The kernel, as a function of Python."""
        return "\n".join(_write(self)) + "\n"

    @cached_property
    def digest(self) -> str:
        """What tells this kernel from all others."""
        tags = [self.layout.tag.digest]
        if isinstance(self.source, OwnSource):
            tags.append(self.source.tag.digest)
        return hashlib.sha256(repr((self.source_code, tags, self.heap)).encode()).hexdigest()

    def function(self) -> Any:
        """Return the kernel as a function that numba-cuda compiles."""
        scope = _scope(self)
        exec(compile(self.source_code, f"<kernel {self.digest[:12]}>", "exec"), scope)
        play = scope["play"]
        play.__module__ = __name__
        play.__qualname__ = play.__name__ = f"play_{self.digest[:16]}"
        return play


def _scope(game: Game) -> dict[str, Any]:
    """Return what the names in the source of a kernel stand for."""
    makers = array_makers()
    tag = game.layout.tag
    scope: dict[str, Any] = {
        "cuda": cuda(),
        "int64": numba.int64,
        "float64": numba.float64,
        "DOUBLE": numba.float64,
        "registers": makers.registers,
        "counters": makers.counters,
        "shaped": makers.shaped,
        "State": tag.state,
        "Parameters": tag.config,
        "World": World,
        "Progress": Progress,
        "Output": Output,
        "NoiseSource": NoiseSource,
        "OwnSource": OwnSource,
        "TAG": tag,
        "NOISE_TAG": getattr(game.source, "tag", None),
    }
    if is_simulated():
        scope |= {"int64": np.int64, "float64": np.float64, "DOUBLE": np.dtype(np.float64)}
        scope |= {"init": compiled.init, "play_rounds": play_rounds, "stream_keys": stream_keys}
        return scope | {"log": log}
    scope |= {"TAG": 0, "NOISE_TAG": 0}
    code = DeviceCode(game.digest)
    code.stand_in(compiled.read_only, same)
    code.stand_in(compiled.as_arm, _as_arm)
    if tag.is_own and not game.heap:
        for value, stand_in in scratch_arrays(_room(game)):
            code.replace(value, stand_in)
    if game.table:
        scope["log"] = code.function(log)
        code.replace_copies(log_of_round, _table_of_logarithms(game.table))
    waiting, exact = code.function(waiting_arm), code.function(lowest_bound)
    estimated = choose_by_estimates(exact, waiting, root_estimate())
    code.replace_copies(lowest_bound, jit(estimated, device=True, forceinline=True))
    policy = {name: code.function(tag.functions[name]) for name in tag.functions}
    for name, call in _calls(policy).items():
        code.stand_in(getattr(compiled, name), call)
    own = isinstance(game.source, OwnSource)
    observe = game.source.tag.observed_loss if own else plain_loss  # type: ignore[union-attr]
    code.replace(observed_loss, code.function(observe))
    scope["init"] = code.function(compiled.init)
    scope["play_rounds"] = code.function(play_rounds)
    scope["stream_keys"] = code.function(stream_keys)
    return scope


def _room(game: Game) -> Room:
    """Return the room for arrays that a policy makes: as large as any of its state."""
    shapes = [shape for _, _, _, shape, _ in game.fields]
    n_arms = game.n_arms
    return Room(
        max([n_arms, 16, *(shape[0] for shape in shapes if len(shape) == 1)]),
        max([n_arms**2, 128, *(math.prod(shape) for shape in shapes if len(shape) == 2)]),
        ROOM_OF_HYPOTHESES,
    )


def _table_of_logarithms(rounds: int) -> Any:
    """Return what stands for ``log_of_round``: the table that the threads of a block share."""
    numba_cuda, kind = cuda(), numba.float64

    def log_of_round(t: int) -> float:
        return numba_cuda.shared.array(0, kind)[t & (rounds - 1)]

    return jit(log_of_round, device=True, forceinline=True)


def _as_arm(chosen: Any) -> int:
    return np.int64(chosen)  # type: ignore[return-value]


def _calls(policy: dict[str, Any]) -> dict[str, Any]:
    """Return the functions of a policy as loops call them, with a tag that says nothing here."""
    first, choose = policy["init"], policy["select"]
    pull, learn = policy["pulled"], policy["observed"]

    def init(tag: Any, c: Any, s: Any) -> None:
        first(c, s)

    def select(tag: Any, c: Any, s: Any, t: int, eligible: Any, rng: Any) -> int:
        return np.int64(choose(c, s, t, eligible, rng))  # type: ignore[return-value]

    def pulled(tag: Any, c: Any, s: Any, t: int, arm: int, memo: Any) -> None:
        pull(c, s, t, arm, memo)

    def observed(tag: Any, c: Any, s: Any, t: int, arm: int, memo: Any, loss: float) -> None:
        learn(c, s, t, arm, memo, loss)

    return {"init": init, "select": select, "pulled": pulled, "observed": observed}


def _numbers(game: Game, use: bool) -> tuple[list[str], list[str], list[str]]:
    """Return lines that bring all numbers of a run to its thread, and back, and fields of s."""
    load, save, names = [], [], []
    for name, dtype, start, shape, known in game.fields:
        if known:
            names.append(f"shaped(known_{name}[number], {shape})")
            continue
        lines = _bring(name, dtype, start, shape, game, use)
        load += lines[0]
        save += lines[1]
        names.append(f"s_{name}")
    for name, size in game.progress_sizes.items():
        dtype = "int64" if name in ("counts", "brought_up") else "float64"
        lines = _own(f"p_{name}", name, dtype, 0, size, use, game.narrow)
        load += lines[0]
        save += lines[1]
    load += _place("memo", "float64", game.layout.memo_size, use)
    load += _world(game, use)
    return load, save, names


def _write(game: Game) -> list[str]:
    """Return the lines of the kernel's source."""
    load, save, names = _numbers(game, game.registers and _fits_registers(game))
    config = [str(game.n_arms)]
    for place, value in enumerate(game.layout.config[1:]):
        config.append(f"parameters[{place}]" if isinstance(value, float) else repr(value))
    state = ", ".join(names)
    trailing = "," if len(names) == 1 else ""
    outputs = [
        "marks",
        "kept_counts[run]",
        "kept_loss[run]" if game.fading else "nothing",
        "choices[run]" if game.records_choices else "no_choices",
        "losses[run]" if game.records_losses else "nothing",
    ]
    body = [
        *_begin(game),
        "number, seed = run // seeds.shape[0], run % seeds.shape[0]",
        "nothing = shaped(cuda.local.array(1, float64), (0,))",
        "no_choices = shaped(cuda.local.array(1, int64), (0,))",
        *load,
        f"c = Parameters({', '.join(config)})",
        f"s = State({state}{trailing})" if names else "s = State()",
        "progress = Progress(p_counts, p_weights, p_low, p_brought_up)",
        *_noise(game),
        f"noise_keys = stream_keys(seeds[seed], numbers[number], {NOISE})",
        f"policy_keys = stream_keys(seeds[seed], numbers[number], {POLICY})",
        "if begins and playing:",
        "    for k in range(3):",
        "        fault[run, k] = 0",
        "    init(TAG, c, s)",
        f"output = Output({', '.join(outputs)})",
        "total, rest = 0.0, 0.0",
        *(
            ["if not begins:", "    total, rest = loss[0, run], loss[1, run]"]
            if game.fading
            else []
        ),
        *_play(game),
        "if not is_run:",
        "    return",
        *(["loss[0, run] = total", "loss[1, run] = rest"] if game.fading else []),
        *save,
        "reached[run] = last",
        "cuda.atomic.add(told, 0, 1)",
        f"if fault[run, {CHOSEN_ROUND}] > 0:",
        "    cuda.atomic.add(told, 1, 1)",
    ]
    arguments = ", ".join([*ARGUMENTS, *game.knowledge])
    return [f"def play({arguments}):", *("    " + line for line in body)]


def _begin(game: Game) -> list[str]:
    """Return lines that find the run of a thread; all threads of a block help to fill a table."""
    lines = [
        "run = cuda.grid(1)",
        "place = cuda.threadIdx.x",
        "is_run = playing = run < numbers.shape[0] * seeds.shape[0]",
        "begins = first == 1",
    ]
    if not game.table:
        return [*lines, "if not is_run:", "    return"]
    return [*lines, "if not is_run:", "    run = 0"]


def _play(game: Game) -> list[str]:
    """Return lines that play the rounds, as many at a time as the table has room for."""
    call = [
        "total, rest = play_rounds(",
        "    TAG, c, s, world, progress, noise, memo, noise_keys, policy_keys, row + seed,",
        "    (total, rest), output, FIRST, LAST, fault[run], run, None, None,",
        ")",
    ]
    if not game.table:
        return [line.replace("FIRST, LAST", "first, last") for line in call]
    mask = game.table - 1
    return [
        "logarithms = cuda.shared.array(0, DOUBLE)",
        "start = first",
        "while start <= last:",
        f"    stop = min(last, start | {mask})",
        "    cuda.syncthreads()",
        "    t = start + place",
        "    while t <= stop:",
        f"        logarithms[t & {mask}] = log(float64(t))",
        "        t += cuda.blockDim.x",
        "    cuda.syncthreads()",
        "    if playing:",
        *("        " + line.replace("FIRST, LAST", "start, stop") for line in call),
        f"        playing = fault[run, {CHOSEN_ROUND}] == 0",
        "    start = stop + 1",
    ]


def _fits_registers(game: Game) -> bool:
    """Tell whether all numbers of a run can lie in registers."""
    sizes = [math.prod(shape) for _, _, _, shape, known in game.fields if not known]
    sizes += [*game.progress_sizes.values(), game.layout.memo_size]
    if game.kind == DENSE and game.n_arms <= FEW_ARMS:
        sizes.append(game.n_arms * (game.n_arms + 1))
    return sum(sizes) <= MOST_NUMBERS


def _place(name: str, dtype: str, size: int, use: bool, narrow: bool = False) -> list[str]:
    """Return the line that makes room for some numbers of a thread."""
    if size == 0:
        return [f"{name} = shaped(cuda.local.array(1, {dtype}), (0,))"]
    where = "cuda.local.array"
    if use and size <= MOST_IN_REGISTERS:
        where = "counters" if narrow and dtype == "int64" else "registers"
    return [f"{name} = {where}({size}, {dtype})"]


def _own(
    name: str, buffer: str, dtype: str, start: int, size: int, use: bool, narrow: bool = False
) -> tuple[list[str], list[str]]:
    """Return lines that bring numbers of a run to its thread, and back to the card's memory."""
    load = _place(name, dtype, size, use, narrow)
    if size == 0:
        return load, []
    fresh = f"fresh_{buffer}[{start} + k]" if buffer in ("ints", "floats") else "0"
    load += [
        f"for k in range({size}):",
        f"    {name}[k] = {fresh} if begins else {buffer}[{start} + k, run]",
    ]
    return load, [f"for k in range({size}):", f"    {buffer}[{start} + k, run] = {name}[k]"]


def _bring(
    name: str, dtype: str, start: int, shape: tuple[int, ...], game: Game, use: bool
) -> tuple[list[str], list[str]]:
    """Return lines that bring a field of the state to its thread, and back."""
    buffer = f"{dtype[:-2]}s"
    size = math.prod(shape)
    if game.in_card and size > 0:
        begin = [
            "if begins and playing:",
            f"    for k in range({start}, {start + size}):",
            f"        {buffer}[run, k] = fresh_{buffer}[k]",
        ]
        return [*begin, f"s_{name} = shaped({buffer}[run, {start}:], {shape})"], []
    if len(shape) == 1:
        return _own(f"s_{name}", buffer, dtype, start, size, use, game.narrow)
    load, save = _own(f"flat_{name}", buffer, dtype, start, size, use=False)
    return [*load, f"s_{name} = shaped(flat_{name}, {shape})"], save


def _world(game: Game, use: bool) -> list[str]:
    """Return lines that find the world of a run."""
    k = game.n_arms
    lines = []
    if game.kind == DENSE and use and k <= FEW_ARMS:
        lines += [
            f"entries = cuda.shared.array(({k}, {k}, {THREADS_PER_BLOCK}), float64)[:, :, place]",
            f"initial = cuda.shared.array(({k}, {THREADS_PER_BLOCK}), float64)[:, place]",
            f"for i in range({k}):",
            f"    for j in range({k}):",
            "        entries[i, j] = values[number, i, j]",
            f"for i in range({k}):",
            "    initial[i] = initial_loss[number, i]",
        ]
    else:
        columns = {DENSE: k, LOW_RANK: game.rank}.get(game.kind)
        view = "values[0]" if columns is None else f"shaped(values[number], ({k}, {columns}))"
        lines += [f"entries = {view}", f"initial = shaped(initial_loss[number], ({k},))"]
    offsets = "offsets[number]" if game.kind == SPARSE else "offsets[0]"
    memory = "memory_left[number]" if game.fading else "1.0"
    lines.append(f"world = World({game.kind}, entries, columns, {offsets}, initial, {memory})")
    return lines


def _noise(game: Game) -> list[str]:
    """Return the line that makes the noise of a run."""
    if isinstance(game.source, OwnSource):
        values = "".join(f"{value!r}, " for value in game.source.values)
        return [f"noise = OwnSource(NOISE_TAG, ({values}))"]
    scale = f"parameters[{len(game.layout.config) - 1}]"
    return [f"noise = NoiseSource({game.source.kind}, {scale}, recorded)"]
