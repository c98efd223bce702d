"""Arrays that functions of the package make for themselves, in the memory of the thread.

On a processor ``np.empty`` asks the heap. A graphics processor has one too, on which thousands of
threads wait for each other. The package's own functions therefore get room beforehand, as much as
the largest array of the state; to ask for more ends the run, and an error says so. It is for
functions known not to keep such an array beyond the call that made it, nor one of a loop's pass in
the next; those of users take the heap.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils
from numba.core import types as numba_types

from influential_bandits.packages import optional_module

types: Any = numba_types  # made of registries, which type checkers cannot see into


class Room(NamedTuple):
    """How many elements there is room for."""

    one_axis: int
    two_axes: int
    three_axes: int


def scratch_arrays(room: Room) -> list[tuple[Any, Any]]:
    """Return what stands for ``np.empty``, ``np.zeros`` and ``np.ones``."""
    return [
        (np.empty, _make(room, None)),
        (np.zeros, _make(room, 0)),
        (np.ones, _make(room, 1)),
    ]


def _make(room: Room, fill: int | None) -> Any:
    extending = optional_module("numba.cuda.extending")
    arrays = optional_module("numba.cuda.np.arrayobj")

    @extending.intrinsic
    def make(typing_context, shape, dtype=None):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
        axes = len(shape) if isinstance(shape, types.BaseTuple) else 1
        if axes > len(room):
            return None
        plain = dtype is None or isinstance(dtype, (types.Omitted, types.NoneType))
        element = types.float64 if plain else dtype.dtype
        kind = types.Array(element, axes, "C")

        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
            asked = signature.args[0]
            lengths = (
                list(zip(asked.types, cgutils.unpack_tuple(builder, arguments[0]), strict=True))
                if isinstance(asked, types.BaseTuple)
                else [(asked, arguments[0])]
            )
            sizes = [context.cast(builder, value, part, types.intp) for part, value in lengths]
            return _array(context, builder, arrays, kind, sizes, room[axes - 1], fill)

        given = (shape, types.none if plain else dtype)
        return kind(*given), generate

    return make


def _array(
    context: Any,
    builder: Any,
    arrays: Any,
    kind: Any,
    sizes: list[Any],
    room: int,
    fill: int | None,
) -> Any:
    """Return an array in room that the calling function has from its beginning."""
    element = context.get_data_type(kind.dtype)
    place = cgutils.alloca_once(builder, ir.ArrayType(element, room))
    data = builder.bitcast(place, element.as_pointer())
    size = functools.reduce(builder.mul, sizes)
    with builder.if_then(
        builder.icmp_signed(">", size, ir.Constant(size.type, room)), likely=False
    ):
        context.call_conv.return_user_exc(builder, MemoryError, ("too little room",))
    if fill is not None:
        value = context.get_constant(kind.dtype, fill)
        with cgutils.for_range(builder, size) as loop:
            builder.store(value, builder.gep(data, [loop.index]))
    width = context.get_abi_sizeof(element)
    item = context.get_constant(types.intp, width)
    steps = [item]
    for length in sizes[:0:-1]:
        steps.insert(0, builder.mul(length, steps[0]))
    made = arrays.make_array(kind)(context, builder)
    arrays.populate_array(
        made, data=data, shape=sizes, strides=steps, itemsize=item, meminfo=None, parent=None
    )
    return made._getvalue()
