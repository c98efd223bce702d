"""Code of the user's that is compiled here: how its class must be written, and what it may reach.

Policies and noises are frozen dataclasses of numbers, whose static methods are compiled. The same
seed must make the same results, so that these may not read what is not theirs.
"""

from __future__ import annotations

import dataclasses
import dis
import inspect
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from influential_bandits.checks import abbreviate
from influential_bandits.errors import InvalidInput

STRANGERS = {
    "random": "global random numbers",
    "numpy.random": "global random numbers",
    "secrets": "random numbers of the system",
    "time": "a clock",
    "datetime": "a clock",
}


def require_declared(code: type, error: type[InvalidInput]) -> None:
    """Raise if a class names parameters, and is not decorated as a dataclass."""
    declared = {field.name for field in dataclasses.fields(code)}
    for name, kind in vars(code).get("__annotations__", {}).items():
        if name not in declared and "ClassVar" not in str(kind):
            raise error(
                f"{code.__name__}.{name} is no parameter yet: decorate the class with "
                "@dataclass(frozen=True)"
            )


def require_function(code: type, base: type, name: str, error: type[InvalidInput]) -> None:
    """Raise unless a function is a static method that takes what that of ``base`` takes."""
    if not isinstance(inspect.getattr_static(code, name), staticmethod):
        raise error(f"{code.__name__}.{name} must be a @staticmethod: {show_call(base, name)}")
    expected = list(inspect.signature(getattr(base, name)).parameters)
    signature = inspect.signature(getattr(code, name))
    given = list(signature.parameters)
    try:
        signature.bind(*expected)
    except TypeError:
        fits = False
    else:  # other names are fine, but not those of other places
        pairs = zip(given, expected, strict=False)
        fits = all(mine == theirs or mine not in expected for mine, theirs in pairs)
    if not fits:
        raise error(
            f"{code.__name__}.{name}({', '.join(given)}) does not fit its call: it must be "
            f"{show_call(base, name)}"
        )


def show_call(base: type, name: str) -> str:
    """Return how a function is written, as that of the base is."""
    return f"{name}({', '.join(inspect.signature(getattr(base, name)).parameters)})"


def plain_numbers(
    owner: str, given: Mapping[str, Any], error: type[InvalidInput], hint: str = ""
) -> dict[str, bool | int | float]:
    """Return parameters as Python's own numbers, as compiled code takes them."""
    plain: dict[str, bool | int | float] = {}
    for name, value in given.items():
        number = value.item() if isinstance(value, np.generic) else value
        if not isinstance(number, (bool, int, float)):
            raise error(
                f"{owner}: parameter {name} must be a number, got {abbreviate(value)}{hint}"
            )
        if isinstance(number, int) and not -(2**63) <= number < 2**63:
            raise error(
                f"{owner}: parameter {name} must fit 64 bits, got {abbreviate(number)}; "
                "make it a float, or smaller"
            )
        plain[name] = number
    return plain


def require_reproducible(
    owner: str, function: Callable[..., Any], error: type[InvalidInput]
) -> None:
    """Raise if a function reads random numbers of others, a clock, or leaves compiled code.

    Looks at every function that the code reaches, also through modules and helpers of helpers.
    """
    for path, what in _reached(function, set()):
        through = "".join(f" through {name}" for name in path)
        raise error(
            f"{owner} uses {what}{through}: the same seed would not make the same results; take "
            "random numbers from rng, as in ib.random.uniform(rng, 0) or ib.random.normal(rng, 0)"
        )


def _reached(value: object, seen: set[int]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield what of the forbidden a function reaches: through which helpers, and what it is."""
    if isinstance(value, (tuple, list)):
        for item in value:
            yield from _reached(item, seen)
    function = getattr(getattr(value, "_dispatcher", value), "py_func", value)
    if not isinstance(function, types.FunctionType) or id(function) in seen:
        return
    seen.add(id(function))
    captured = {
        name: cell.cell_contents
        for name, cell in zip(
            function.__code__.co_freevars, function.__closure__ or (), strict=True
        )
        if _is_filled(cell)
    }
    for name, found in _values(function.__code__, function.__globals__, captured):
        stranger = _stranger(found)
        if stranger is not None:
            yield (), f"{name} ({stranger})"
        else:
            for path, what in _reached(found, seen):
                yield (name, *path), what


def _values(
    code: types.CodeType, scope: dict[str, Any], captured: dict[str, Any]
) -> Iterator[tuple[str, object]]:
    """Yield the values that names of some code stand for, attributes of modules among them."""
    module: object = None
    text = ""
    for instruction in dis.get_instructions(code):
        name = instruction.argval
        if instruction.opname == "LOAD_GLOBAL" and name in scope:
            module, text = scope[name], name
        elif instruction.opname == "LOAD_DEREF" and name in captured:
            module, text = captured[name], name
        elif instruction.opname in {"LOAD_ATTR", "LOAD_METHOD"} and isinstance(
            module, types.ModuleType
        ):
            module, text = getattr(module, name, None), f"{text}.{name}"
        else:
            module = None
            continue
        yield text, module
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _values(constant, scope, captured)


def _stranger(value: object) -> str | None:
    """Return what is wrong with a value, or None."""
    if type(value).__name__ == "_ObjModeContextType":
        return "interpreted code"
    name = value.__name__ if isinstance(value, types.ModuleType) else _home(value)
    for stranger, what in STRANGERS.items():
        if name == stranger or name.startswith(f"{stranger}."):
            return what
    return None


def _home(value: object) -> str:
    """Return the module that a function or a class comes from, or the class of a value."""
    owner = getattr(value, "__self__", None)
    if owner is not None and not isinstance(owner, types.ModuleType):
        value = type(owner)  # random.random is a method of a generator
    elif not isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)):
        value = type(value)
    return str(value.__module__)


def _is_filled(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - an empty cell has no contents
    except ValueError:
        return False
    return True
