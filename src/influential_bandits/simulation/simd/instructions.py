"""A round of a group, written as vector instructions of LLVM."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils, types
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

from influential_bandits.numerics.streams import GOLDEN, MULTIPLY_1, MULTIPLY_2, S27, S30, S31
from influential_bandits.simulation.simd.layout import ALIGNMENT, lanes_for, weight_slot


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
def draw_centred(typing_context, arms, keys, block, place, t):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN201
    """Write ``centred(stream_at(key_1, key_2, t), 0)`` of each lane into slot ``place``."""
    lanes = lanes_for(arms.count)

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

    return types.none(arms, keys, block, types.int64, types.int64), generate


@intrinsic
def play_round(typing_context, arms, bound, state, block, place, t, common):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN201
    """Play round t of a group with the noise in slot ``place``.

    ``common`` is what all lanes share: bound · t of InfluentialLCB, 2·log t of LCB.
    """

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
        v = Vectors(builder, lanes_for(arms.count))
        slots = Slots(v, v.floats, make_array(signature.args[2])(context, builder, arguments[2]))
        noise = Slots(v, v.floats, make_array(signature.args[3])(context, builder, arguments[3]))
        game = Round(v, slots, arms.count, averaging=bound == types.none)
        game.play(noise.load(arguments[4]), arguments[5], v.spread(arguments[6]))
        return context.get_dummy_value()

    signature = types.none(arms, bound, state, block, types.int64, types.int64, types.float64)
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
        chosen = self._choose(t, common)
        weights = [self.slots.load(self.weights + arm) for arm in range(self.n_arms)]
        loss = self.b.fadd(self._expected_loss(chosen, weights), noise)
        for arm in range(self.n_arms):
            more = self.b.fadd(weights[arm], self.v.same(1.0))
            self._replace(chosen, arm, self.weights, more)
        if self.averaging:
            total = self.b.fadd(self._pick(chosen, self.totals), loss)
            pulls = self._pick(chosen, self.weights)
            self._learn(chosen, self.totals, total)
            self._learn(chosen, self.numbers, self.b.fdiv(total, pulls))
        else:
            self._learn(chosen, self.numbers, self.b.fadd(loss, common))

    def _choose(self, t: Any, common: Any) -> Any:
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
        return self.b.fadd(self._pick(chosen, self.initial), total)

    def _row(self, chosen: Any) -> list[Any]:
        """Return the chosen arm's row of A. Arm by arm: the processor has few mask registers."""
        row = [self.slots.load(column) for column in range(self.n_arms)]
        for arm in range(1, self.n_arms):
            here = self._is(chosen, arm)
            for column in range(self.n_arms):
                entry = self.slots.load(arm * self.n_arms + column)
                row[column] = self.b.select(here, entry, row[column])
        return row

    def _pick(self, chosen: Any, start: int) -> Any:
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
