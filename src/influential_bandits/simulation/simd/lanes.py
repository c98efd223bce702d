"""Replicas in SIMD lanes: many runs with few arms, played side by side in vector registers.

A round of a run with few arms is a chain of a dozen dependent operations: the processor mostly
waits. Runs do not depend on each other, so that a *group* of 8 or 16 of them advances together,
each in its own *lane* of the vector registers: every instruction does its work for all of them.

**Layout.** All that a group knows lies in one flat array of *slots*. A slot is one float64 for each
lane, so that number ``slot * lanes + lane`` belongs to one run, and a slot is what a register or
two hold. Each lane has an interaction and initial losses of its own: the runs of a group may
belong to different instances.

**Without branches.** Lanes choose different arms but run the same instructions. What depends on the
choice is *picked*: each arm's value is loaded and the lane of the chosen arm keeps it. The number
of arms is part of the compiled code's type (as the length of a tuple), so that a round is
straight-line code, written as vector instructions of LLVM: how a round is compiled does not depend
on what the automatic vectoriser recognises.

**Noise first.** Noise does not depend on choices. It is drawn for a block of rounds, in loops which
the compiler vectorises by itself, and then the block is played.

**The same bits.** Each lane does the operations of ``kernels.advance_runs`` in the same order, none
fused: sums as in ``ordered_dot``, comparisons as in ``lowest_arm``. Tests compare all counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any, cast

import numba
import numpy as np
import numpy.typing as npt
from llvmlite import ir  # type: ignore[import-untyped]
from llvmlite.binding import get_host_cpu_features  # type: ignore[import-untyped]
from numba.core import cgutils, types
from numba.extending import intrinsic, register_jitable
from numba.np.arrayobj import make_array

from influential_bandits.execution.base import Task
from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.numerics.compiling import borrowed, inlined, kernel
from influential_bandits.numerics.portable import (
    CENTRAL,
    central_quantile,
    log,
    tail_quantile,
)
from influential_bandits.numerics.streams import (
    GOLDEN,
    MULTIPLY_1,
    MULTIPLY_2,
    NOISE,
    S27,
    S30,
    S31,
    stream_keys,
)
from influential_bandits.policies.contract import Policy
from influential_bandits.policies.influential_lcb import InfluentialLCB
from influential_bandits.policies.lcb import LCB
from influential_bandits.world.dynamics import DENSE
from influential_bandits.world.instance import Instance
from influential_bandits.world.noise import GAUSSIAN, RECORDED, UNIFORM, Noise, NoiseSource, Source

Words = npt.NDArray[np.uint64]

MOST_ARMS = 12  # picking takes K² loads; at 12 lanes are still 3 to 4 times as fast
WIDE_ARMS = 5  # up to here the registers hold what a round of 16 lanes needs, beyond of 8
LEAST_ROUNDS = 1 << 22  # of all runs; fewer take no longer than compiling for one more K
GROUP_COST = 5  # runs that the general loop plays in the time of a group (measured: 1.6 to 4.6)
ROUNDS_PER_STEP = 1 << 21  # of all runs in a task: 4 to 60 ms
BYTES_PER_TASK = 1 << 24
ROUNDS_PER_BLOCK = 64  # whose noise is drawn at once; it stays in the first-level cache
ALIGNMENT = 64  # bytes of a vector register


# When lanes are used.


def lanes_apply(
    policy: Policy,
    instances: Sequence[Instance],
    noise: Noise,
    horizon: int,
    seeds: int,
    threads: int,
) -> bool:
    """Tell whether runs can be played in lanes, and whether that pays.

    A subclass may choose otherwise than its base, hence the exact types.
    """
    known = type(policy) is LCB or (
        type(policy) is InfluentialLCB and policy.influence_bound != "estimate"
    )
    n_arms, runs = instances[0].n_arms, len(instances) * seeds
    return (
        known
        and not numba.config.DISABLE_JIT
        and n_arms <= MOST_ARMS
        and wide_registers()
        and _can_be_laned(noise.source())
        and horizon * runs >= LEAST_ROUNDS
        and _pays(runs, lanes_for(n_arms), threads)
        and all(i.memory == 1.0 and i.world.kind == DENSE for i in instances)
    )


def _can_be_laned(noise: Source) -> bool:
    return isinstance(noise, NoiseSource) and noise.kind != RECORDED


@cache
def wide_registers() -> bool:
    """Tell whether a register holds four numbers or more; with two, many arms lose time."""
    features = get_host_cpu_features()
    return bool(features.get("avx2") or features.get("avx512f"))


def _pays(runs: int, lanes: int, threads: int) -> bool:
    """Compare how long the busiest thread takes: a group is not shared among threads."""
    groups = -(-runs // lanes)
    return -(-groups // threads) * GROUP_COST < -(-runs // threads)


def lane_tasks(
    policy: Policy,
    instances: Sequence[Instance],
    noise: Noise,
    seeds: Words,
    numbers: Sequence[int],
    counts: Ints,
    checkpoints: Ints,
    horizon: int,
) -> list[Task]:
    """Return tasks that play every instance with every seed in lanes.

    Parameters
    ----------
    counts : array (instances, seeds, checkpoints, arms)
        Where the results go.
    numbers : sequence of int
        The instances' numbers, for their random streams.
    """
    n_arms, runs = instances[0].n_arms, len(instances) * len(seeds)
    lanes = lanes_for(n_arms)
    most = min(ROUNDS_PER_STEP // horizon, BYTES_PER_TASK // (8 * slots_for(n_arms)))
    size = max(1, most // lanes) * lanes
    of_run = counts.reshape(runs, len(checkpoints), n_arms)
    own_numbers = np.array(numbers, np.uint64)
    return [
        LaneTask(
            policy,
            instances,
            noise,
            seeds,
            own_numbers,
            range(start, min(start + size, runs)),
            of_run[start : start + size],
            checkpoints,
            horizon,
        )
        for start in range(0, runs, size)
    ]


class LaneTask:
    """Some runs of all, played in lanes group after group, step by step until the horizon.

    Parameters
    ----------
    policy : LCB or InfluentialLCB
    instances : sequence of Instance
        Dense, with memory 1.
    noise : Noise
        Not recorded.
    seeds : array (seeds,) of uint64
    numbers : array (instances,) of uint64
    runs : range
        Which runs are played here: run n has instance n // seeds and seed n % seeds.
    counts : array (runs, checkpoints, arms)
        Where the results of these runs go.
    checkpoints : array (checkpoints,)
        Increasing rounds.
    horizon : int
    """

    def __init__(
        self,
        policy: Policy,
        instances: Sequence[Instance],
        noise: Noise,
        seeds: Words,
        numbers: Words,
        runs: range,
        counts: Ints,
        checkpoints: Ints,
        horizon: int,
    ) -> None:
        self.policy, self.instances, self.noise = policy, instances, noise
        self.seeds, self.numbers, self.runs = seeds, numbers, runs
        self.counts, self.checkpoints, self.horizon = counts, checkpoints, horizon
        self.n_arms = instances[0].n_arms
        self.lanes = lanes_for(self.n_arms)

    def steps(self) -> Iterable[int]:
        """Play; yield the number of rounds done after each step."""
        play = self._player()
        rounds = max(1, ROUNDS_PER_STEP // len(self.runs))
        for before in range(0, self.horizon, rounds):
            last = min(before + rounds, self.horizon)
            play(before + 1, last)
            yield (last - before) * len(self.runs)

    def results(self) -> Ints:
        """Return what was played."""
        return self.counts

    def accept(self, results: Ints) -> None:
        """Take what was played elsewhere."""
        self.counts[...] = results

    def __getstate__(self) -> dict[str, Any]:
        """Travel light: with the instances of these runs only, and without counts to be filled."""
        first, last = (run // len(self.seeds) for run in (self.runs[0], self.runs[-1]))
        before = first * len(self.seeds)
        return self.__dict__ | {
            "instances": self.instances[first : last + 1],
            "numbers": self.numbers[first : last + 1],
            "runs": range(self.runs.start - before, self.runs.stop - before),
            "counts": self.counts.shape,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Make room for the counts again."""
        self.__dict__.update(state)
        self.counts = np.zeros(state["counts"], np.int64)

    def _player(self) -> Callable[[int, int], None]:
        """Return what plays from one round to another."""
        noise = cast(NoiseSource, self.noise.source())  # lanes are for no others
        state, keys = self._fresh_state(), self._keys()
        scale = (
            float(self.policy.influence_bound) if isinstance(self.policy, InfluentialLCB) else None
        )
        scratch = aligned((3, ROUNDS_PER_BLOCK * self.lanes), np.float64)
        n_arms, counts, marks = (0,) * self.n_arms, self.counts, self.checkpoints

        def play(first: int, last: int) -> None:
            advance_lanes(n_arms, scale, noise, state, keys, scratch, counts, marks, first, last)

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
        given = np.stack([_constants(i) for i in self.instances[first : last + 1]])
        state = aligned((len(of_lane), slots_for(self.n_arms) * self.lanes), np.float64)
        slots = state.reshape(len(of_lane), -1, self.lanes)
        slots[:, : given.shape[1]] = given[of_lane - first].swapaxes(1, 2)
        return state

    def _keys(self) -> Words:
        """Return the noise keys of each group, (groups, 2 · lanes): the first ones, the second."""
        of_lane = self._by_lane()
        keys = aligned((len(of_lane), 2 * self.lanes), np.uint64)
        fill_keys(
            self.seeds[of_lane % len(self.seeds)], self.numbers[of_lane // len(self.seeds)], keys
        )
        return keys


def _constants(instance: Instance) -> Floats:
    """Return what never changes, in the order of the slots: A row by row, initial losses."""
    return np.concatenate([instance.world.values.ravel(), instance.world.initial_loss])


def aligned(shape: tuple[int, int], dtype: type) -> npt.NDArray[Any]:
    """Return zeros that start where a vector register can be loaded in one piece."""
    size = shape[0] * shape[1]
    spare = ALIGNMENT // 8
    flat: npt.NDArray[Any] = np.zeros(size + spare, dtype)
    start = (-flat.ctypes.data % ALIGNMENT) // 8
    return flat[start : start + size].reshape(shape)


# The slots of a group of K arms: A (K·K), initial losses (K), counts (K), the numbers that choose
# (K; last loss + scale · round, or mean loss), sums of losses (K; LCB only).


@register_jitable
def lanes_for(n_arms: int) -> int:
    """Return how many runs a group has."""
    return 16 if n_arms <= WIDE_ARMS else 8


@register_jitable
def slots_for(n_arms: int) -> int:
    """Return how many slots a group needs."""
    return n_arms * (n_arms + 4)


@register_jitable
def weight_slot(n_arms: int, arm: int) -> int:
    """Return the slot in which the pulls of an arm are counted."""
    return n_arms * (n_arms + 1) + arm


@kernel
def fill_keys(seeds: Words, numbers: Words, keys: Words) -> None:
    """Write the keys of the noise of (seed, instance number), each (groups, lanes)."""
    groups, lanes = seeds.shape
    for group in range(groups):
        for lane in range(lanes):
            first, second = stream_keys(seeds[group, lane], numbers[group, lane], NOISE)
            keys[group, lane] = first
            keys[group, lanes + lane] = second


# The loop.


@kernel
def advance_lanes(
    n_arms: tuple[int, ...],
    scale: float | None,
    noise: NoiseSource,
    state: Floats,
    keys: Words,
    scratch: Floats,
    counts: Ints,
    marks: Ints,
    first: int,
    last: int,
) -> None:
    """Play rounds ``first`` … ``last`` of every group.

    ``arms`` is a tuple of that length; ``scale`` is InfluentialLCB's, and None for LCB.
    """
    lanes = lanes_for(len(n_arms))
    scratch = borrowed(scratch)
    block = scratch[0]
    for group in range(state.shape[0]):
        own_state, own_keys = borrowed(state)[group], borrowed(keys)[group]
        checkpoint = np.searchsorted(marks, first)
        t = first
        while t <= last:
            stop = min(last, t + ROUNDS_PER_BLOCK - 1)
            if checkpoint < marks.size:
                stop = min(stop, marks[checkpoint])
            draw_noise(n_arms, noise, own_keys, scratch, t, stop)
            for now in range(t, stop + 1):
                if scale is None:
                    play_round(n_arms, scale, own_state, block, now - t, now, 2.0 * log(float(now)))
                else:
                    play_round(n_arms, scale, own_state, block, now - t, now, scale * now)
            if checkpoint < marks.size and stop == marks[checkpoint]:
                keep_counts(len(n_arms), lanes, own_state, counts, group * lanes, checkpoint)
                checkpoint += 1
            t = stop + 1


@inlined
def keep_counts(
    n_arms: int, lanes: int, state: Floats, counts: Ints, run: int, checkpoint: Any
) -> None:
    """Copy the counts of a group whose first run is ``run``; idle lanes have no place."""
    for lane in range(min(lanes, counts.shape[0] - run)):
        for arm in range(n_arms):
            pulls = state[weight_slot(n_arms, arm) * lanes + lane]
            counts[run + lane, checkpoint, arm] = np.int64(pulls)


@inlined
def draw_noise(
    n_arms: tuple[int, ...], noise: NoiseSource, keys: Words, scratch: Floats, first: int, last: int
) -> None:
    """Write the noise of some rounds into ``scratch[0]``, a slot for each round."""
    if noise.kind in (UNIFORM, GAUSSIAN):
        block = scratch[0]
        for t in range(first, last + 1):
            draw_centred(n_arms, keys, block, t - first, t)
        size = (last - first + 1) * lanes_for(len(n_arms))
        if noise.kind == UNIFORM:
            for i in range(size):
                block[i] = noise.scale * (2.0 * block[i])
        else:
            make_normal(noise.scale, block, scratch[1], scratch[2], size)


@inlined
def make_normal(scale: float, block: Floats, tails: Floats, places: Floats, size: int) -> None:
    """Turn centred uniform numbers into normal ones, ``scale * normal_quantile(q)``, in place.

    The few in the tails take twice as long as the others. They are gathered, so that both loops
    have one kind of work and vectorise.
    """
    many = 0
    for i in range(size):
        tails[many] = block[i]
        places[many] = i
        many += abs(block[i]) > CENTRAL
    for i in range(size):
        block[i] = scale * central_quantile(block[i])
    for n in range(many):
        tails[n] = scale * tail_quantile(tails[n])
    for n in range(many):
        block[np.int64(places[n])] = tails[n]


# The vector instructions.


class Vectors:
    """Writes instructions that work on all lanes of a group at once.

    Operations of the builder (``fadd``, ``select``, …) take vectors as they take numbers.
    """

    def __init__(self, builder: Any, lanes: int) -> None:
        self.builder, self.lanes = builder, lanes
        self.floats = ir.VectorType(ir.DoubleType(), lanes)
        self.words = ir.VectorType(ir.IntType(64), lanes)

    def same(self, value: float) -> Any:
        """Return a constant in all lanes."""
        return ir.Constant(self.floats, [float(value)] * self.lanes)

    def word(self, value: int | np.uint64) -> Any:
        """Return a whole constant in all lanes."""
        return ir.Constant(self.words, [int(value)] * self.lanes)

    def spread(self, number: Any) -> Any:
        """Return one number of the program in all lanes."""
        one, place = ir.VectorType(number.type, self.lanes), ir.IntType(32)
        single = self.builder.insert_element(
            ir.Constant(one, ir.Undefined), number, ir.Constant(place, 0)
        )
        everywhere = ir.Constant(ir.VectorType(place, self.lanes), [0] * self.lanes)
        return self.builder.shuffle_vector(single, single, everywhere)

    def root(self, x: Any) -> Any:
        """Return the square root of each lane, correctly rounded."""
        name = f"llvm.sqrt.v{self.lanes}f64"
        function = cgutils.get_or_insert_function(
            self.builder.module, ir.FunctionType(self.floats, [self.floats]), name
        )
        return self.builder.call(function, [x])


class Slots:
    """The slots of an array in compiled code."""

    def __init__(self, vectors: Vectors, kind: Any, array: Any) -> None:
        self.builder = vectors.builder
        self.start = self.builder.bitcast(array.data, kind.as_pointer())

    def _address(self, slot: Any) -> Any:
        place = slot if isinstance(slot, ir.Value) else ir.Constant(ir.IntType(64), slot)
        return self.builder.gep(self.start, [place])

    def load(self, slot: Any) -> Any:
        """Return a slot."""
        loaded = self.builder.load(self._address(slot))
        loaded.align = ALIGNMENT
        return loaded

    def store(self, value: Any, slot: Any) -> None:
        """Change a slot."""
        self.builder.store(value, self._address(slot)).align = ALIGNMENT


@intrinsic
def draw_centred(typing_context, n_arms, keys, block, place, t):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN201
    """Write ``centred(stream_at(key_1, key_2, t), 0)`` of each lane into slot ``place``."""
    lanes = lanes_for(n_arms.count)

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
        b, v = builder, Vectors(builder, lanes)
        key = Slots(v, v.words, make_array(signature.args[1])(context, b, arguments[1]))
        drawn = Slots(v, v.floats, make_array(signature.args[2])(context, b, arguments[2]))

        def mix(x: Any) -> Any:
            x = b.mul(b.xor(x, b.lshr(x, v.word(S30))), v.word(MULTIPLY_1))
            x = b.mul(b.xor(x, b.lshr(x, v.word(S27))), v.word(MULTIPLY_2))
            return b.xor(x, b.lshr(x, v.word(S31)))

        counter = b.mul(arguments[4], ir.Constant(ir.IntType(64), int(GOLDEN)))
        state = mix(b.add(v.spread(counter), key.load(0)))
        bits = mix(b.xor(state, key.load(1)))
        whole = b.sitofp(b.ashr(bits, v.word(12)), v.floats)
        uniform = b.fmul(b.fadd(whole, v.same(0.5)), v.same(2.220446049250313e-16))
        drawn.store(uniform, arguments[3])
        return context.get_dummy_value()

    return types.none(n_arms, keys, block, types.int64, types.int64), generate


@intrinsic
def play_round(typing_context, n_arms, scale, state, block, place, t, common):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN201
    """Play round t of a group with the noise in slot ``place``.

    ``common`` is what all lanes share: scale · t of InfluentialLCB, 2·log t of LCB.
    """

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
        v = Vectors(builder, lanes_for(n_arms.count))
        slots = Slots(v, v.floats, make_array(signature.args[2])(context, builder, arguments[2]))
        noise = Slots(v, v.floats, make_array(signature.args[3])(context, builder, arguments[3]))
        game = Round(v, slots, n_arms.count, averaging=scale == types.none)
        game.play(noise.load(arguments[4]), arguments[5], v.spread(arguments[6]))
        return context.get_dummy_value()

    signature = types.none(n_arms, scale, state, block, types.int64, types.int64, types.float64)
    return signature, generate


class Round:
    """Writes the instructions of one round; ``averaging`` for LCB, otherwise InfluentialLCB."""

    def __init__(self, vectors: Vectors, slots: Slots, n_arms: int, averaging: bool) -> None:
        self.v, self.b, self.slots = vectors, vectors.builder, slots
        self.n_arms, self.averaging = n_arms, averaging
        self.initial = n_arms * n_arms
        self.weights = weight_slot(n_arms, 0)
        self.numbers = self.weights + n_arms
        self.totals = self.numbers + n_arms

    def play(self, noise: Any, t: Any, common: Any) -> None:
        """Choose, observe, and learn."""
        chosen = self._chosen(t, common)
        weights = [self.slots.load(self.weights + arm) for arm in range(self.n_arms)]
        loss = self.b.fadd(self._expected_loss(chosen, weights), noise)
        for arm in range(self.n_arms):
            more = self.b.fadd(weights[arm], self.v.same(1.0))
            self._replace(chosen, arm, self.weights, more)
        if self.averaging:
            total = self.b.fadd(self._picked(chosen, self.totals), loss)
            pulls = self._picked(chosen, self.weights)
            self._learn(chosen, self.totals, total)
            self._learn(chosen, self.numbers, self.b.fdiv(total, pulls))
        else:
            self._learn(chosen, self.numbers, self.b.fadd(loss, common))

    def _chosen(self, t: Any, common: Any) -> Any:
        """Return the arm of each lane: each arm once, then the first with the lowest index.

        An arm takes over if its index is *less*, as in the general loop also if one is NaN.
        """
        b, v = self.b, self.v
        best, lowest = v.word(0), self._index(0, common)
        for arm in range(1, self.n_arms):
            index = self._index(arm, common)
            less = b.fcmp_ordered("<", index, lowest)
            lowest = b.select(less, index, lowest)
            best = b.select(less, v.word(arm), best)
        opening = b.icmp_signed("<=", t, ir.Constant(t.type, self.n_arms))
        return b.select(opening, v.spread(b.sub(t, ir.Constant(t.type, 1))), best)

    def _index(self, arm: int, common: Any) -> Any:
        number = self.slots.load(self.numbers + arm)
        if not self.averaging:
            return number
        pulls = self.slots.load(self.weights + arm)
        return self.b.fsub(number, self.v.root(self.b.fdiv(common, pulls)))

    def _expected_loss(self, chosen: Any, weights: list[Any]) -> Any:
        """Return initial loss + row of A · weights of the chosen arm, summed like ordered_dot."""
        row = self._row(chosen)
        products = [self.b.fmul(*pair) for pair in zip(row, weights, strict=True)]
        whole = self.n_arms - self.n_arms % 4
        partial = [self.v.same(0.0)] * 4
        for i in range(whole):
            partial[i % 4] = self.b.fadd(partial[i % 4], products[i])
        total = self.b.fadd(self.b.fadd(*partial[:2]), self.b.fadd(*partial[2:]))
        for i in range(whole, self.n_arms):
            total = self.b.fadd(total, products[i])
        return self.b.fadd(self._picked(chosen, self.initial), total)

    def _row(self, chosen: Any) -> list[Any]:
        """Return the chosen arm's row of A. Arm by arm: the processor has few mask registers."""
        row = [self.slots.load(column) for column in range(self.n_arms)]
        for arm in range(1, self.n_arms):
            here = self._is(chosen, arm)
            for column in range(self.n_arms):
                entry = self.slots.load(arm * self.n_arms + column)
                row[column] = self.b.select(here, entry, row[column])
        return row

    def _picked(self, chosen: Any, start: int) -> Any:
        """Return the chosen arm's slot of those that begin at ``start``."""
        value = self.slots.load(start)
        for arm in range(1, self.n_arms):
            other = self.slots.load(start + arm)
            value = self.b.select(self._is(chosen, arm), other, value)
        return value

    def _learn(self, chosen: Any, start: int, value: Any) -> None:
        """Write a value into the chosen arm's slot of those that begin at ``start``."""
        for arm in range(self.n_arms):
            self._replace(chosen, arm, start, value)

    def _replace(self, chosen: Any, arm: int, start: int, value: Any) -> None:
        before = self.slots.load(start + arm)
        after = self.b.select(self._is(chosen, arm), value, before)
        self.slots.store(after, start + arm)

    def _is(self, chosen: Any, arm: int) -> Any:
        return self.b.icmp_signed("==", chosen, self.v.word(arm))
