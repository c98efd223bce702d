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

from influential_bandits.numerics.compiling import borrowed
from influential_bandits.numerics.gpu.toolkit import is_simulated, jit
from influential_bandits.numerics.recompiling import Copies

__all__ = ["DeviceCode"]


class DeviceCode(Copies):
    """Copies of functions for graphics processors, with all that they call."""

    def __init__(self, digest: str) -> None:
        super().__init__(digest, None)
        self.stand_in(borrowed, same)

    def replace(self, value: object, by: Any) -> None:
        """Let a value stand for another in all copies made from now on."""
        self.made[id(value)] = value, by

    def stand_in(self, value: object, function: Callable[..., Any]) -> None:
        """Let a plain function stand for a value that only processors can use."""
        self.replace(value, jit(function, device=True, forceinline=True))

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


def same(value: Any) -> Any:
    """Return the value: what :func:`borrowed` is here."""
    return value
