"""Functions of the package, and of users, compiled for graphics processors.

The functions are the same that processors run; what differs is what their globals stand for. Views
need no trick to be cheap, as nothing counts references there, and small arrays that a function
makes for itself lie in the memory of the thread.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import numba

from influential_bandits.gpu.registers import array_makers
from influential_bandits.gpu.toolkit import is_simulated, jit
from influential_bandits.numerics.compiling import borrowed, count_one
from influential_bandits.numerics.fingerprints import global_names
from influential_bandits.numerics.recompiling import Copies


class DeviceCode(Copies):
    """Copies of functions for graphics processors, with all that they call."""

    def __init__(self, digest: str) -> None:
        super().__init__(digest, None)
        self.instead: dict[types.CodeType, Any] = {}
        self.stand_in(borrowed, same)
        self.replace_copies(count_one, array_makers().count_one)

    def replace(self, value: object, by: Any) -> None:
        """Let a value stand for another in all copies made from now on."""
        self.made[id(value)] = value, by

    def stand_in(self, value: object, function: Callable[..., Any]) -> None:
        """Let a plain function stand for a value that only processors can use."""
        self.replace(value, jit(function, device=True, forceinline=True))

    def replace_copies(self, compiled: Any, by: Any) -> None:
        """Let a value stand for a compiled function and for all copies of it."""
        self.instead[_plain(compiled).__code__] = by

    def copy_of(self, value: Any, names: frozenset[str]) -> Any:
        code = getattr(getattr(value, "py_func", None), "__code__", None)
        return self.instead[code] if code in self.instead else super().copy_of(value, names)

    def decorate(self, copy: types.FunctionType, options: dict[str, Any]) -> Any:
        """Return a device function; what is inlined on processors is so here."""
        inline = bool(options.get("forceinline", False))
        return jit(copy, device=True, forceinline=inline)

    def unlink(self, compiled: Any) -> None:
        """Do nothing: device functions are on their own."""

    def function(self, function: Callable[..., Any], inline: bool = True) -> Any:
        """Return a device function of a plain or compiled function."""
        if is_simulated() or numba.config.DISABLE_JIT:
            return function
        plain = getattr(function, "py_func", function)
        if id(function) in self.made:
            return self.made[id(function)][1]
        return self.compile(plain, {"forceinline": inline}, function)


def reaches(function: Any, target: Any) -> bool:
    """Tell whether a compiled function calls another one or a copy of it, also by others."""
    wanted, seen = _plain(target).__code__, set()
    waiting = [function]
    while waiting:
        plain = _plain(waiting.pop())
        if not isinstance(plain, types.FunctionType) or plain.__code__ in seen:
            continue
        if plain.__code__ is wanted:
            return True
        seen.add(plain.__code__)
        waiting += [plain.__globals__.get(name) for name in global_names(plain.__code__)]
    return False


def _plain(function: Any) -> Any:
    """Return the function that was compiled, or that the interpreter runs in its place."""
    return getattr(function, "py_func", getattr(function, "__wrapped__", function))


def same(value: Any) -> Any:
    """Return the value: what :func:`borrowed` is here."""
    return value
