"""Small work by the interpreter, as long as compiling would take longer."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import cache
from types import FunctionType
from typing import Any

import numpy as np
from numba.core.dispatcher import Dispatcher

from influential_bandits.numerics.fingerprints import names_of

FEW = 400  # numbers in all arguments: with more, one call could take as long as compiling
PATIENCE = 0.25  # seconds that a function is interpreted in all; compiling takes several


def compile_when_it_pays(dispatcher: Any, stand_ins: Iterable[tuple[Any, Any]]) -> None:
    """Let the interpreter run a function of ours while its work is small and it is not on disk.

    ``stand_ins`` are pairs of what only compiled code can call, and what the interpreter calls.
    """
    compile_for = dispatcher._compile_for_args
    spent = 0.0
    interpreted: Callable[..., Any] | None = None

    def run(*arguments: Any) -> Any:
        nonlocal spent
        assert interpreted is not None
        start = time.thread_time()
        with np.errstate(all="ignore"):  # as in compiled code
            result = interpreted(*arguments)
        spent += time.thread_time() - start
        return result

    def choose(*arguments: Any) -> Any:
        """Return what is called: numba asks when it has no code for the types of the arguments."""
        nonlocal interpreted
        if spent > PATIENCE or _count_numbers(arguments) > FEW:
            return compile_for(*arguments)
        types = tuple(map(dispatcher.typeof_pyval, arguments))
        if dispatcher._cache.is_kept(types, dispatcher.targetctx):
            return compile_for(*arguments)
        if interpreted is None:
            interpreted = _copy(dispatcher.py_func, tuple(stand_ins))
        return run

    dispatcher._compile_for_args = choose


def _count_numbers(values: Iterable[Any]) -> int:
    """Return how many numbers there are in arrays, also in those of tuples."""
    return sum(
        _count_numbers(value) if isinstance(value, tuple) else np.size(value) for value in values
    )


@cache
def _copy(function: FunctionType, stand_ins: tuple[tuple[Any, Any], ...]) -> FunctionType:
    """Return a function that calls the plain Python of whatever compiled function it names."""
    scope = {"__builtins__": function.__globals__["__builtins__"]}
    copy = FunctionType(
        function.__code__, scope, function.__name__, function.__defaults__, function.__closure__
    )
    for name in names_of(function.__code__):
        if name in function.__globals__:
            value = function.__globals__[name]
            for compiled, plain in stand_ins:
                value = plain if value is compiled else value
            if isinstance(value, Dispatcher):
                value = copy if value.py_func is function else _copy(value.py_func, stand_ins)
            scope[name] = value
    return copy
