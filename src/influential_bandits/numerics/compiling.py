"""How this package compiles: one decorator, and a fingerprint of what a function really runs."""

from __future__ import annotations

import enum
import hashlib
import types
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numba
import numpy as np
from numba.core import cgutils
from numba.core import types as numba_types
from numba.extending import intrinsic
from numba.np.arrayobj import make_array, populate_array

__all__ = ["borrowed", "fingerprint", "inlined", "kernel", "package_digest"]

Function = TypeVar("Function", bound=Callable[..., Any])


def _package_stamp() -> str:
    """Return a digest that changes whenever any source file of the package does."""
    root = Path(__file__).resolve().parent.parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        status = path.stat()
        digest.update(f"{path.relative_to(root)} {status.st_mtime_ns} {status.st_size}\n".encode())
    return digest.hexdigest()


PACKAGE_STAMP = _package_stamp()


@cache
def package_digest() -> str:
    """Return a digest of the contents of all source files: equal on machines with equal code."""
    root = Path(__file__).resolve().parent.parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def kernel(function: Function) -> Function:
    """Compile without the interpreter lock, without fused or reordered arithmetic, and cached.

    Numba's cache looks at the function's own file only, and would run old code after an edit of a
    file that it calls into. Here the cache is good for one state of the whole package.
    """
    return _compiled(function, forceinline=False)


def inlined(function: Function) -> Function:
    """Compile like :func:`kernel`, as a part of its callers: for what runs in every round."""
    return _compiled(function, forceinline=True)


def _compiled(function: Function, forceinline: bool) -> Function:
    dispatcher = numba.njit(
        nogil=True, cache=True, error_model="numpy", fastmath=False, forceinline=forceinline
    )(function)
    dispatcher._cache._cache_file._source_stamp = PACKAGE_STAMP
    return dispatcher


@intrinsic
def borrowed(typing_context, array):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN201
    """Return a view without an owner: passing it around costs no atomic reference counting.

    In compiled code only, and only while the caller holds the array itself. Counting the references
    of a dozen state arrays at every call would take twenty times as long as the calls themselves.
    """
    if not isinstance(array, numba_types.Array):
        return None

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
        source = make_array(signature.args[0])(context, builder, arguments[0])
        view = make_array(signature.return_type)(context, builder)
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

    return array(array), generate


def fingerprint(*functions: Callable[..., Any]) -> str:
    """Return a digest of the functions' code and of everything that their code can reach.

    Two functions of the same fingerprint compile to the same machine code: the digest covers byte
    code, constants, default values, captured and global values, and called functions, recursively.
    Comments and line numbers do not count.

    Examples
    --------
    >>> def one():
    ...     return 1
    >>> def two():
    ...     return 2
    >>> fingerprint(one) == fingerprint(two)
    False
    """
    digest = hashlib.sha256()
    plain = tuple(getattr(function, "py_func", function) for function in functions)
    for part in _parts(plain, set()):
        digest.update(part.encode())
        digest.update(b"\0")
    return digest.hexdigest()


def _parts(value: object, seen: set[int]) -> Iterator[str]:
    """Yield strings that together identify a value as compiled code sees it."""
    value = getattr(value, "_dispatcher", value)  # a universal function holds a compiled one
    options = getattr(value, "targetoptions", None)
    if isinstance(options, dict):
        yield repr(sorted(options.items()))
    value = getattr(value, "py_func", value)
    if isinstance(value, types.FunctionType):
        if id(value) in seen:
            yield "seen"
            return
        seen.add(id(value))
        yield value.__qualname__
        yield from _parts(value.__defaults__, seen)
        yield from _code_parts(value.__code__, value.__globals__, value.__doc__, seen)
        for cell in value.__closure__ or ():
            yield from _parts(cell.cell_contents, seen)
    elif isinstance(value, types.ModuleType):
        yield f"{value.__name__} {getattr(value, '__version__', '')}"
    elif isinstance(value, (tuple, list)):
        yield f"{type(value).__name__} {len(value)} {getattr(value, '_fields', '')}"
        for item in value:
            yield from _parts(item, seen)
    elif isinstance(value, frozenset):
        yield f"frozenset {sorted(map(repr, value))}"
    elif isinstance(value, np.ndarray):
        yield f"{value.dtype} {value.shape} {value.tobytes().hex()}"
    elif isinstance(value, type):
        members = [(m.name, m.value) for m in value] if issubclass(value, enum.Enum) else ""
        yield f"{value.__module__}.{value.__qualname__} {getattr(value, '_fields', '')}{members}"
    else:
        text = repr(value)
        yield f"{type(value).__qualname__} {'' if ' at 0x' in text else text}"


def _code_parts(
    code: types.CodeType, scope: dict[str, Any], doc: str | None, seen: set[int]
) -> Iterator[str]:
    yield code.co_code.hex()
    yield " ".join(code.co_varnames)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _code_parts(constant, scope, None, seen)
        elif constant is None or constant is not doc:
            yield from _parts(constant, seen)
    for name in code.co_names:
        yield name
        yield from _reached(scope.get(name), code.co_names, seen)


def _reached(value: object, names: tuple[str, ...], seen: set[int]) -> Iterator[str]:
    """Yield the parts of a value and, if it is a module, of what these names reach through it."""
    yield from _parts(value, seen)
    if isinstance(value, types.ModuleType) and id(value) not in seen:
        seen.add(id(value))
        for name in names:
            yield from _reached(getattr(value, name, None), names, seen)
