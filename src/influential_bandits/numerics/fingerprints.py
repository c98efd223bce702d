"""Fingerprints: what tells one piece of code from another, with everything that it reaches."""

from __future__ import annotations

import dis
import enum
import hashlib
import types
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numba.core.dispatcher import Dispatcher


@cache
def package_digest() -> str:
    """Return a digest of the contents of all source files: equal on machines with equal code."""
    root = Path(__file__).resolve().parent.parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


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
    for part in _parts(plain, {}):
        digest.update(part.encode())
        digest.update(b"\0")
    return digest.hexdigest()


@cache
def global_names(code: types.CodeType) -> frozenset[str]:
    """Return the global names that code, and the functions in it, read."""
    own = {i.argval for i in dis.get_instructions(code) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    return frozenset(own.union(*(global_names(inner) for inner in _inner(code))))


@cache
def names_of(code: types.CodeType) -> frozenset[str]:
    """Return all names in code and in the functions in it, those of attributes among them."""
    return frozenset(code.co_names).union(*(names_of(inner) for inner in _inner(code)))


def members_of(module: types.ModuleType, names: frozenset[str]) -> dict[str, Any]:
    """Return what a module has under these names, in their order; some load a name when asked."""
    return {name: getattr(module, name) for name in sorted(names) if hasattr(module, name)}


def _inner(code: types.CodeType) -> list[types.CodeType]:
    return [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]


Seen = dict[Any, int]  # functions and modules that were met, numbered


def _parts(value: object, seen: Seen) -> Iterator[str]:
    """Yield strings that together identify a value as compiled code sees it."""
    value = getattr(value, "_dispatcher", value)  # a universal function holds a compiled one
    yield repr(sorted(getattr(value, "targetoptions", {}).items()))
    if isinstance(value, Dispatcher):
        compiled: Any = value
        only = "" if compiled._can_compile else compiled.nopython_signatures
        yield f"{sorted(map(repr, compiled._compiler.locals.items()))} {only}"
    value = getattr(value, "py_func", value)
    if isinstance(value, types.FunctionType):
        yield from _function_parts(value, seen)
    elif isinstance(value, types.ModuleType):
        yield f"{value.__name__} {getattr(value, '__version__', '')}"
    elif isinstance(value, (tuple, list)):
        yield f"{type(value).__name__} {len(value)} {getattr(value, '_fields', '')}"
        for item in value:
            yield from _parts(item, seen)
    elif isinstance(value, dict):
        yield f"dict {len(value)}"
        for key, item in value.items():
            yield repr(key)
            yield from _parts(item, seen)
    elif isinstance(value, frozenset):
        yield f"frozenset {sorted(map(repr, value))}"
    elif isinstance(value, np.ndarray):
        order = "F" if value.flags.f_contiguous and not value.flags.c_contiguous else ""
        yield f"{value.dtype} {value.shape} {order}{value.tobytes().hex()}"
    elif isinstance(value, type):
        members = [(m.name, m.value) for m in value] if issubclass(value, enum.Enum) else ""
        fields = [getattr(value, name, "") for name in ("_fields", "_field_defaults")]
        yield f"{value.__module__}.{value.__qualname__} {fields}{members}"
    else:
        text = repr(value)
        yield f"{type(value).__qualname__} {'' if ' at 0x' in text else text}"


def _function_parts(function: types.FunctionType, seen: Seen) -> Iterator[str]:
    if id(function) in seen:
        yield f"function {seen[id(function)]}"
        return
    seen[id(function)] = len(seen)
    yield function.__qualname__
    yield from _parts(function.__defaults__, seen)
    yield from _parts(function.__kwdefaults__, seen)
    yield from _code_parts(function.__code__, function.__doc__, seen)
    names = names_of(function.__code__)
    for name in sorted(global_names(function.__code__)):
        yield name
        yield from _reached(function.__globals__.get(name), names, seen)
    for cell in function.__closure__ or ():
        yield from _reached(cell.cell_contents, names, seen)


def _code_parts(code: types.CodeType, doc: str | None, seen: Seen) -> Iterator[str]:
    yield code.co_code.hex()
    yield code.co_exceptiontable.hex()
    yield " ".join((*code.co_varnames, "|", *code.co_names, "|", *code.co_freevars))
    yield f"{code.co_argcount} {code.co_posonlyargcount} {code.co_kwonlyargcount}"
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _code_parts(constant, None, seen)
        elif constant is None or constant is not doc:
            yield from _parts(constant, seen)


def _reached(value: object, names: frozenset[str], seen: Seen) -> Iterator[str]:
    """Yield the parts of a value and, if it is a module, of what these names reach through it."""
    yield from _parts(value, seen)
    if isinstance(value, types.ModuleType) and (id(value), names) not in seen:
        seen[id(value), names] = len(seen)
        for name, member in members_of(value, names).items():
            yield name
            yield from _reached(member, names, seen)
