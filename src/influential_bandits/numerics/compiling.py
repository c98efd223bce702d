"""How this package compiles: three decorators, and views that cost nothing."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numba.core import cgutils
from numba.core import types as numba_types
from numba.extending import intrinsic
from numba.np.arrayobj import make_array, populate_array

from influential_bandits.numerics.code_cache import CodeCache
from influential_bandits.numerics.compile_notice import announce_compiling
from influential_bandits.numerics.interpreting import compile_when_it_pays
from influential_bandits.numerics.recompiling import (
    KernelCompiler,
    LinkedCompiler,
    merge_literals,
)

types: Any = numba_types  # made of registries, which type checkers cannot see into
Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(function: Function) -> Function:
    """Compile without the interpreter lock, without fused or reordered arithmetic, and cached.

    Numba's own cache looks at the function's own file only, and would run old code after an edit of
    a file that it calls into; a :class:`CodeCache` is good for one state of the whole package.
    """
    return _compiled(function, forceinline=False)


def lazy_kernel(function: Function) -> Function:
    """Compile like :func:`kernel`, but only once it pays; until then, the interpreter does it.

    For what takes seconds to compile and milliseconds to interpret where arms are few, as in most
    first steps. The bits are the same.
    """
    dispatcher = _compiled(function, forceinline=False)
    if COMPILED:
        compile_when_it_pays(dispatcher, STAND_INS)
    return dispatcher


def inlined(function: Function) -> Function:
    """Compile like :func:`kernel`, as a part of its callers: for what runs in every round."""
    return _compiled(function, forceinline=True)


def _compiled(function: Function, forceinline: bool) -> Function:
    if numba.config.DISABLE_JIT:
        return _interpreted(function)
    options = {"nogil": True, "error_model": "numpy", "fastmath": False, "forceinline": forceinline}
    dispatcher = numba.njit(**options, pipeline_class=KernelCompiler)(function)
    dispatcher._cache = CodeCache(function)
    dispatcher.merges_literals = True
    # What compiled code calls becomes a part of it, and is optimised there, once.
    part = numba.njit(**options, pipeline_class=LinkedCompiler)(function)
    merge_literals(part)
    dispatcher.get_call_template = part.get_call_template
    dispatcher.get_overload = part.get_overload
    announce_compiling()
    return dispatcher


def _interpreted(function: Function) -> Function:
    """Return what runs the function by the interpreter, with the arithmetic of compiled code."""

    @wraps(function)
    def run(*arguments: Any) -> Any:
        with np.errstate(all="ignore"):
            return function(*arguments)

    return cast("Function", run)


def _borrow(typing_context, value):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    """Return views without an owner: passing them around costs no atomic reference counting.

    Of an array, or of all arrays in tuples; only while the caller holds the arrays themselves.
    Counting the references of a dozen state arrays at every call would take twenty times as long as
    the calls themselves.
    """

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
        return _without_owner(context, builder, signature.args[0], arguments[0])

    return value(value), generate


def _without_owner(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    if isinstance(kind, types.BaseTuple):
        parts = [
            _without_owner(context, builder, part, builder.extract_value(value, n))
            for n, part in enumerate(kind.types)
        ]
        return context.make_tuple(builder, kind, parts)
    if not isinstance(kind, types.Array):
        return value
    source, view = make_array(kind)(context, builder, value), make_array(kind)(context, builder)
    populate_array(
        view,
        data=source.data,
        shape=cgutils.unpack_tuple(builder, source.shape),
        strides=cgutils.unpack_tuple(builder, source.strides),
        itemsize=source.itemsize,
        meminfo=None,
        parent=None,
    )
    return view._getvalue()


def _borrow_part(typing_context, array, start, size):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    """Return ``size`` numbers of an array of one axis, like :func:`_borrow`.

    A slice would be compiled with all that it allows: steps, negative places, ends beyond the end.
    """
    return types.Array(array.dtype, 1, "C")(array, start, size), _make_view


def _borrow_table(typing_context, array, start, rows, columns):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    """Return rows·columns numbers of an array of one axis as a table, like :func:`_borrow`."""
    return types.Array(array.dtype, 2, "C")(array, start, rows, columns), _make_view


def _make_view(context, builder, signature, arguments):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    """Generate the view of an array from a place on; the lengths of its axes come last."""
    array, start, *shape = arguments
    source = make_array(signature.args[0])(context, builder, array)
    view = make_array(signature.return_type)(context, builder)
    strides = [source.itemsize]
    for length in shape[:0:-1]:
        strides.insert(0, builder.mul(strides[0], length))
    populate_array(
        view,
        data=builder.gep(source.data, [start]),
        shape=shape,
        strides=strides,
        itemsize=source.itemsize,
        meminfo=None,
        parent=None,
    )
    return view._getvalue()


def _view(array: Any) -> Any:
    return array


def _view_part(array: Any, start: int, size: int) -> Any:
    return array[start : start + size]


def _view_table(array: Any, start: int, rows: int, columns: int) -> Any:
    return array[start : start + rows * columns].reshape((rows, columns))


COMPILED = not numba.config.DISABLE_JIT
borrowed: Any = intrinsic(_borrow) if COMPILED else _view
borrowed_part: Any = intrinsic(_borrow_part) if COMPILED else _view_part
borrowed_table: Any = intrinsic(_borrow_table) if COMPILED else _view_table
# What the interpreter calls instead of them, in code that is compiled elsewhere.
STAND_INS = ((borrowed, _view), (borrowed_part, _view_part), (borrowed_table, _view_table))


@inlined
def count_one(counts: Any, place: int) -> None:
    """Count one more in a place of an array of counts; graphics processors know a short way."""
    counts[place] += 1
