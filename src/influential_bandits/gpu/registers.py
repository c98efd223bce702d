"""Small arrays in registers: every access names all elements, and selects among them.

Registers have no addresses. An array whose index is known only when the program runs lies in
memory, unless reading it means to take all elements and select one, and writing it to write all,
the others as they were. For a dozen elements that is many times as fast as memory, and where a loop
over arms is unrolled the selections vanish.
"""

from __future__ import annotations

import operator
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils
from numba.core import types as numba_types

from influential_bandits.gpu.toolkit import is_simulated
from influential_bandits.packages import optional_module

types: Any = numba_types  # made of registries, which type checkers cannot see into


class RegisterArray(numba_types.Type):
    """The type of such an array: its shape is a part of it.

    ``stored`` is the type of the registers, for whole numbers that are known to need fewer bits:
    selections of 64 bits take two instructions.
    """

    def __init__(self, dtype: Any, shape: tuple[int, ...], stored: Any = None) -> None:
        self.dtype, self.shape = dtype, shape
        self.stored = dtype if stored is None else stored
        super().__init__(name=f"RegisterArray({dtype}, {shape}, {self.stored})")

    @property
    def size(self) -> int:
        """How many elements there are."""
        return int(np.prod(self.shape))


@cache
def array_makers() -> SimpleNamespace:
    """Return what makes arrays in code of kernels; shapes must be constant.

    ``registers(shape, dtype)`` makes an array of a thread's own in registers, and
    ``counters(shape, dtype)`` one of whole numbers below 2³¹; ``shaped(array, shape)`` is a view of
    the elements from the first one on, one after the other, whose shape the compiler knows;
    ``count_one(array, place)`` is that of processors, for these arrays and all others.
    """
    if is_simulated():
        return SimpleNamespace(registers=np.zeros, counters=np.zeros, shaped=_shaped_by_interpreter)
    _teach_typing()
    _teach_lowering()
    return SimpleNamespace(
        registers=_make_registers(None),
        counters=_make_registers(types.int32),
        shaped=_make_shaped(),
        count_one=_make_count_one(),
    )


def _shaped_by_interpreter(array: Any, shape: tuple[int, ...]) -> Any:
    return np.asarray(array).reshape(-1)[: int(np.prod(shape))].reshape(shape)


def _make_shaped() -> Any:
    extending = optional_module("numba.cuda.extending")
    arrays = optional_module("numba.cuda.np.arrayobj")

    @extending.intrinsic
    def shaped(typing_context, array, shape):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
        lengths = _shape_of(shape)
        if lengths is None or not isinstance(array, types.Array):
            return None
        kind = types.Array(array.dtype, len(lengths), "C")

        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
            source = arrays.make_array(signature.args[0])(context, builder, arguments[0])
            view = arrays.make_array(kind)(context, builder)
            steps = [8 * int(np.prod(lengths[axis + 1 :])) for axis in range(len(lengths))]
            arrays.populate_array(
                view,
                data=source.data,
                shape=[context.get_constant(types.intp, length) for length in lengths],
                strides=[context.get_constant(types.intp, step) for step in steps],
                itemsize=context.get_constant(types.intp, 8),
                meminfo=None,
                parent=None,
            )
            return view._getvalue()

        return kind(array, shape), generate

    return shaped


def _shape_of(shape: Any) -> tuple[int, ...] | None:
    parts = shape.types if isinstance(shape, types.BaseTuple) else (shape,)
    if not all(isinstance(part, types.IntegerLiteral) for part in parts):
        return None
    return tuple(part.literal_value for part in parts)


def _make_registers(stored: Any) -> Any:
    extending = optional_module("numba.cuda.extending")

    @extending.intrinsic
    def registers(typing_context, shape, dtype):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
        lengths = _shape_of(shape)
        if lengths is None:
            return None
        made = RegisterArray(dtype.dtype, lengths, stored)

        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
            return _allocate(context, builder, made)

        return made(shape, dtype), generate

    return registers


def _make_count_one() -> Any:
    """Return what counts in a place: for registers, one sum of each element and no selection."""
    extending = optional_module("numba.cuda.extending")

    @extending.intrinsic
    def count_in_registers(typing_context, counts, place):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
            kind, index = signature.args
            places = _places(context, builder, kind, index, arguments[1])
            for number, slot in enumerate(_slots(context, builder, kind, arguments[0])):
                here = _is_here(builder, kind, places, number)
                if isinstance(
                    kind.stored, types.Float
                ):  # no count is −0.0, which this would change
                    double = ir.DoubleType()
                    more = builder.select(here, ir.Constant(double, 1.0), ir.Constant(double, 0.0))
                    builder.store(builder.fadd(builder.load(slot), more), slot)
                else:
                    before = builder.load(slot)
                    builder.store(builder.add(before, builder.zext(here, before.type)), slot)
            return context.get_dummy_value()

        return types.none(counts, place), generate

    def count_one(counts, place):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
        raise NotImplementedError

    def in_registers(counts, place):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
        count_in_registers(counts, place)

    def in_memory(counts, place):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
        counts[place] += 1

    @extending.overload(count_one, jit_options={"forceinline": True, "lto": False})
    def choose(counts, place):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
        return in_registers if isinstance(counts, RegisterArray) else in_memory

    return count_one


def _teach_typing() -> None:
    """Tell numba-cuda what can be done with such an array."""
    extending = optional_module("numba.cuda.extending")
    templates = optional_module("numba.cuda.typing.templates")
    registry = optional_module("numba.cuda.cudadecl").registry

    @extending.register_model(RegisterArray)
    class Model(extending.models.StructModel):  # type: ignore[misc, name-defined]
        def __init__(self, manager: Any, kind: RegisterArray) -> None:
            super().__init__(manager, kind, [("data", types.CPointer(kind.stored))])

    @registry.register_global(operator.getitem)
    class GetItem(templates.AbstractTemplate):  # type: ignore[misc, name-defined]
        def generic(self, arguments: Any, keywords: Any) -> Any:
            array, index = arguments
            if not isinstance(array, RegisterArray):
                return None
            places = _indices(index)
            if places is None or len(places) > len(array.shape):
                return None
            rest = array.shape[len(places) :]
            result = RegisterArray(array.dtype, rest, array.stored) if rest else array.dtype
            return result(array, index)

    @registry.register_global(operator.setitem)
    class SetItem(templates.AbstractTemplate):  # type: ignore[misc, name-defined]
        def generic(self, arguments: Any, keywords: Any) -> Any:
            array, index, _ = arguments
            if not isinstance(array, RegisterArray):
                return None
            if isinstance(index, types.SliceType) and not index.has_step:
                return types.none(array, index, array.dtype) if len(array.shape) == 1 else None
            places = _indices(index)
            if places is None or len(places) != len(array.shape):
                return None
            return types.none(array, index, array.dtype)

    @registry.register_global(len)
    class Length(templates.AbstractTemplate):  # type: ignore[misc, name-defined]
        def generic(self, arguments: Any, keywords: Any) -> Any:
            (array,) = arguments
            return types.intp(array) if isinstance(array, RegisterArray) else None

    @registry.register_attr
    class Attributes(templates.AttributeTemplate):  # type: ignore[misc, name-defined]
        key = RegisterArray

        def resolve_size(self, array: RegisterArray) -> Any:
            return types.intp

        def resolve_shape(self, array: RegisterArray) -> Any:
            return types.UniTuple(types.intp, len(array.shape))


def _indices(index: Any) -> tuple[Any, ...] | None:
    parts = tuple(index.types) if isinstance(index, types.BaseTuple) else (index,)
    return parts if all(isinstance(part, types.Integer) for part in parts) else None


def _teach_lowering() -> None:
    """Tell numba-cuda how it is done."""
    registry = optional_module("numba.cuda.cudaimpl").registry

    def lower(*key: Any) -> Any:
        return registry.lower(*key)

    @lower(operator.getitem, RegisterArray, types.Integer)
    @lower(operator.getitem, RegisterArray, types.BaseTuple)
    def get_item(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind, index = signature.args
        places = _places(context, builder, kind, index, arguments[1])
        slots = _slots(context, builder, kind, arguments[0])
        inner = int(np.prod(kind.shape[len(places) :]))
        picked = [
            _pick(builder, kind, places, [builder.load(slot) for slot in slots[k::inner]])
            for k in range(inner)
        ]
        if not isinstance(signature.return_type, RegisterArray):
            return context.cast(builder, picked[0], kind.stored, kind.dtype)
        row = _allocate(context, builder, signature.return_type)
        for value, slot in zip(
            picked, _slots(context, builder, signature.return_type, row), strict=True
        ):
            builder.store(value, slot)
        return row

    @lower(operator.setitem, RegisterArray, types.Integer, types.Any)
    @lower(operator.setitem, RegisterArray, types.BaseTuple, types.Any)
    def set_item(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind, index, given = signature.args
        value = _stored(context, builder, kind, arguments[2], given)
        places = _places(context, builder, kind, index, arguments[1])
        for number, slot in enumerate(_slots(context, builder, kind, arguments[0])):
            here = _is_here(builder, kind, places, number)
            builder.store(builder.select(here, value, builder.load(slot)), slot)
        return context.get_dummy_value()

    @lower(operator.setitem, RegisterArray, types.SliceType, types.Any)
    def set_slice(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind, index, given = signature.args
        value = _stored(context, builder, kind, arguments[2], given)
        part = context.make_helper(builder, index, arguments[1])
        slicing = optional_module("numba.cuda.cpython.slicing")
        slicing.fix_slice(builder, part, context.get_constant(types.intp, kind.size))
        for number, slot in enumerate(_slots(context, builder, kind, arguments[0])):
            here = context.get_constant(types.intp, number)
            within = builder.and_(
                builder.icmp_signed(">=", here, part.start),
                builder.icmp_signed("<", here, part.stop),
            )
            builder.store(builder.select(within, value, builder.load(slot)), slot)
        return context.get_dummy_value()

    @lower(len, RegisterArray)
    def length(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return context.get_constant(types.intp, signature.args[0].shape[0])

    @registry.lower_getattr(RegisterArray, "size")
    def size(context: Any, builder: Any, kind: Any, value: Any) -> Any:
        return context.get_constant(types.intp, kind.size)

    @registry.lower_getattr(RegisterArray, "shape")
    def shape(context: Any, builder: Any, kind: Any, value: Any) -> Any:
        lengths = [context.get_constant(types.intp, length) for length in kind.shape]
        return context.make_tuple(builder, types.UniTuple(types.intp, len(lengths)), lengths)


def _stored(context: Any, builder: Any, kind: RegisterArray, value: Any, given: Any) -> Any:
    """Return a value as the registers hold it."""
    whole = context.cast(builder, value, given, kind.dtype)
    return (
        whole
        if kind.stored == kind.dtype
        else context.cast(builder, whole, kind.dtype, kind.stored)
    )


def _allocate(context: Any, builder: Any, kind: RegisterArray) -> Any:
    """Return an array whose elements no instruction addresses but by constants."""
    element = context.get_data_type(kind.stored)
    room = cgutils.alloca_once(builder, ir.ArrayType(element, max(kind.size, 1)))
    made = cgutils.create_struct_proxy(kind)(context, builder)
    made.data = builder.bitcast(room, element.as_pointer())
    return made._getvalue()


def _slots(context: Any, builder: Any, kind: RegisterArray, value: Any) -> list[Any]:
    """Return the address of each element."""
    data = cgutils.create_struct_proxy(kind)(context, builder, value=value).data
    return [builder.gep(data, [ir.Constant(ir.IntType(32), k)]) for k in range(kind.size)]


def _places(context: Any, builder: Any, kind: RegisterArray, index: Any, value: Any) -> list[Any]:
    """Return the indices as 32 bits, those from the end turned around as Python does."""
    parts = (
        list(zip(index.types, cgutils.unpack_tuple(builder, value), strict=True))
        if isinstance(index, types.BaseTuple)
        else [(index, value)]
    )
    places = []
    narrow = ir.IntType(32)
    for (part, given), length in zip(parts, kind.shape, strict=False):
        place = context.cast(builder, given, part, types.int64)
        short = builder.trunc(place, narrow)
        if part.signed:
            below = builder.icmp_signed("<", place, ir.Constant(place.type, 0))
            wrapped = builder.add(short, ir.Constant(narrow, length))
            short = builder.select(below, wrapped, short)
        places.append(short)
    return places


def _is_here(builder: Any, kind: RegisterArray, places: list[Any], number: int) -> Any:
    """Return whether indices name an element, or the row that it begins."""
    inner = int(np.prod(kind.shape[len(places) :]))
    spot = np.unravel_index(number // inner, kind.shape[: len(places)])
    tests = [
        builder.icmp_signed("==", place, ir.Constant(place.type, int(k)))
        for place, k in zip(places, spot, strict=True)
    ]
    here = tests[0]
    for test in tests[1:]:
        here = builder.and_(here, test)
    return here


def _pick(builder: Any, kind: RegisterArray, places: list[Any], values: list[Any]) -> Any:
    """Return the value that the indices name."""
    inner = int(np.prod(kind.shape[len(places) :]))
    picked = values[0]
    for number, value in enumerate(values[1:], 1):
        here = _is_here(builder, kind, places, number * inner)
        picked = builder.select(here, value, picked)
    return picked
