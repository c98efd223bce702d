"""Functions compiled anew, with all that they call, from the values that they reach just now.

Numba compiles a function once for each signature, and takes the values of its global names for
constants. A helper that was compiled before such a value changed is out of date, and says nothing.
So the code that a fingerprint stands for is made afresh: copies of the functions, of the compiled
functions that they call, and of the values that they read. Later changes reach none of them.
"""

from __future__ import annotations

import gc
import types
from collections.abc import Callable, Mapping
from typing import Any

import numba
import numpy as np
from numba.core.ccallback import CFunc
from numba.core.codegen import JITCodeLibrary, ll
from numba.core.compiler import Compiler, DefaultPassBuilder
from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import Dispatcher
from numba.core.extending import _Intrinsic, register_jitable
from numba.core.typing.templates import builtin_registry
from numba.np.ufunc.dufunc import DUFunc
from numba.np.ufunc.gufunc import GUFunc

from influential_bandits.errors import InvalidInput
from influential_bandits.numerics.fingerprints import (
    fingerprint,
    global_names,
    members_of,
    names_of,
)

LASTING = ("numba", "numpy", "influential_bandits")  # whose values do not change in a process
ALLOCATIONS = 100_000  # between garbage collections: a tenth of compiling went into them
# What holds compiled code that cannot be made again from the values of now.
UNSEEN = {
    DUFunc: "a function decorated with numba.vectorize",
    GUFunc: "a function decorated with numba.guvectorize",
    CFunc: "a function decorated with numba.cfunc",
    _Intrinsic: "an intrinsic",
}


def compile_anew(
    functions: Mapping[str, Callable[..., Any]], **options: Any
) -> dict[str, Callable[..., Any]]:
    """Compile copies of functions, and of all compiled functions that they reach.

    Parameters
    ----------
    functions : mapping
        Plain functions by name; what several of them call is compiled once.
    options
        Of ``numba.njit``, for these functions; ``boundscheck`` is for all that they call as well.

    Returns
    -------
    dict
        Compiled functions by name, to be called by compiled functions only: they become a part of
        their caller, and have no machine code of their own.
    """
    if numba.config.DISABLE_JIT:
        return dict(functions)
    copies = Copies(fingerprint(*functions.values()), options.get("boundscheck"))
    return {name: copies.compile(function, options) for name, function in functions.items()}


def merge_literals(compiled: Any) -> None:
    """Let calls with constants use the code for any number.

    Numba compiles a function apart for each constant that it is called with, and for the first
    value of a variable that changes later. What is a part of its caller is optimised for it there.
    """
    find = compiled.get_call_template

    def find_for_any(arguments: Any, keywords: Any) -> Any:
        return find([numba.types.unliteral(kind) for kind in arguments], keywords)

    compiled.get_call_template = find_for_any


class Copies:
    """What was copied so far, by the identity of the original."""

    def __init__(self, digest: str, boundscheck: bool | None) -> None:
        self.digest = f"{digest[:32]}{'checked' if boundscheck else ''}"
        self.boundscheck = boundscheck
        self.made: dict[int, tuple[object, Any]] = {}  # with the original, so that it stays alive
        self.unfinished: list[int] = []  # functions that led to the one that is copied now

    def compile(self, function: Any, options: Mapping[str, Any], origin: object = None) -> Any:
        """Return a compiled copy of a plain function, or of a compiled one, the origin."""
        options = {**options, "nopython": True, "boundscheck": self.boundscheck}
        cells = tuple(types.CellType() for _ in function.__closure__ or ())
        scope = {"__name__": __name__}  # a module that every process can import, not a user's
        copy = types.FunctionType(function.__code__, scope, function.__name__, None, cells)
        # Symbols of machine code are called after it: one name must not stand for two codes, nor
        # in a process that loads what another has compiled.
        copy.__qualname__ = f"{function.__qualname__}.{self.digest}.{len(self.made)}"
        names = names_of(function.__code__)
        copy.__defaults__ = self.copy_of(function.__defaults__, names)
        copy.__kwdefaults__ = function.__kwdefaults__
        compiled = self.decorate(copy, options)
        original = function if origin is None else origin
        self.made[id(original)] = original, compiled  # before the rest, which may call it
        self.unfinished.append(id(original))
        for name in sorted(global_names(function.__code__) & function.__globals__.keys()):
            scope[name] = self.copy_of(function.__globals__[name], names)
        for cell, empty in zip(function.__closure__ or (), cells, strict=True):
            empty.cell_contents = self.copy_of(cell.cell_contents, names)
        self.unfinished.pop()
        return compiled

    def decorate(self, copy: types.FunctionType, options: dict[str, Any]) -> Any:
        """Return what compiles a copy; other targets than the processor have their own."""
        return numba.jit(pipeline_class=LinkedCompiler, **options)(copy)

    def copy_of(self, value: Any, names: frozenset[str]) -> Any:
        """Return what a copied function reads in place of a value; ``names`` are what it names."""
        if id(value) in self.made:
            if id(value) in self.unfinished:  # functions that call each other are not linked yet
                for part in self.unfinished[self.unfinished.index(id(value)) :]:
                    self.unlink(self.made[part][1])
            return self.made[id(value)][1]
        if isinstance(value, Dispatcher):
            return self._compiled_copy(value)
        if isinstance(value, types.FunctionType):
            return self._registered_copy(value)
        if isinstance(value, types.ModuleType):
            return self._module_copy(value, names)
        if isinstance(value, tuple):
            items = [self.copy_of(item, names) for item in value]
            return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
        _refuse_unseen(value)
        return value.copy(order="K") if isinstance(value, np.ndarray) else value

    def unlink(self, compiled: Any) -> None:
        """Compile a function on its own, as one of several that call each other."""
        compiled._compiler.pipeline_class = Compiler

    def _compiled_copy(self, value: Any) -> Any:
        compiled = self.compile(value.py_func, value.targetoptions, value)
        compiled._compiler.locals = value._compiler.locals
        if getattr(value, "merges_literals", False):
            merge_literals(compiled)
        if not value._can_compile:  # made for the signatures that were given, and no others
            for signature in value.nopython_signatures:
                compiled.compile(signature.args)
            compiled.disable_compile()
        return compiled

    def _registered_copy(self, function: types.FunctionType) -> Any:
        """Return a copy of a plain function that compiled code may call, and others as they are."""
        if (function.__module__ or "").partition(".")[0] in LASTING:
            return function
        for known, kind in builtin_registry.globals:
            if known is function:
                template = kind.templates[0]
                if template._overload_func.__module__ != register_jitable.__module__:
                    raise _unseen(function.__name__, "a function with a numba.extending.overload")
                return self.compile(function, template._jit_options, function)
        return function

    def _module_copy(self, module: types.ModuleType, names: frozenset[str]) -> types.ModuleType:
        """Return a module in which what these names reach is copied; itself, if nothing is."""
        self.made[id(module)] = module, module  # modules import each other
        reached = members_of(module, names)
        copies = {name: self.copy_of(value, names) for name, value in reached.items()}
        del self.made[id(module)]  # another function names other things in it
        if all(copies[name] is reached[name] for name in reached):
            return module
        copy = types.ModuleType(module.__name__)
        vars(copy).update(vars(module) | copies)
        return copy


def _refuse_unseen(value: object) -> None:
    kind = next((words for kind, words in UNSEEN.items() if isinstance(value, kind)), None)
    if type(value).__name__ == "JitClassType":
        kind = "a class decorated with numba's jitclass"
    home = getattr(getattr(value, "_defn", None), "__module__", "")
    if kind is not None and home.partition(".")[0] not in LASTING:
        raise _unseen(getattr(value, "__name__", str(value)), kind)


def _unseen(name: str, kind: str) -> InvalidInput:
    return InvalidInput(
        f"{name} is {kind}: what is compiled here may call functions decorated with numba.njit, "
        "as the values that others read cannot be followed; write it as such a function"
    )


class _LinkedLibrary(JITCodeLibrary):  # type: ignore[misc]
    """Code that is only ever a part of other code: not optimised before, and never executable."""

    def _optimize_functions(self, ll_module: Any) -> None:
        """Make the code small, so that linking it takes little; leave the rest to what calls it."""
        ll_module.data_layout = self._codegen._data_layout
        builder = self._codegen._pass_builder()
        passes = ll.create_new_function_pass_manager()
        passes.add_sroa_pass()
        passes.add_simplify_cfg_pass()
        passes.add_instruction_combine_pass()
        for function in ll_module.functions:
            if not function.is_declaration:
                passes.run(function, builder)

    def finalize(self) -> None:
        """Link what the code calls, and leave the rest to what calls the code."""
        self._raise_if_finalized()
        for library in dict.fromkeys(self._linking_libraries):
            self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalize_dynamic_globals()
        self._finalized = True

    @property
    def codegen(self) -> Any:
        """What sets environments; this library has no place for one."""
        return _NoEnvironments

    def get_pointer_to_function(self, name: str) -> int:
        self._ensure_finalized()
        return 0


class _NoEnvironments:
    """Takes an environment, and does nothing: it is set where the code ends up."""

    @staticmethod
    def set_env(env_name: str, env: object) -> None:
        """Do nothing."""


class LinkedCompiler(Compiler):  # type: ignore[misc]
    """Compiles what is only ever called by other compiled functions, and becomes a part of them."""

    def define_pipelines(self) -> Any:
        self.state.flags.no_cpython_wrapper = True
        _link(self.state)
        return [DefaultPassBuilder.define_nopython_pipeline(self.state)]


class KernelCompiler(Compiler):  # type: ignore[misc]
    """Compiles what Python calls, and with it, as a part of it, what Numba itself writes for it.

    Numba compiles each of its own functions (sums, sorting, new arrays, …) to machine code first,
    of which nothing is used: 146 of the 150 codes that a first fit made. Only functions that
    Python cannot call are treated so, and only while a kernel is compiled.
    """

    def _compile_core(self) -> Any:
        with global_compiler_lock:  # what other threads compile waits
            defined, thresholds = Compiler.define_pipelines, gc.get_threshold()

            def define_linked(compiler: Any) -> Any:
                if compiler.state.flags.no_cpython_wrapper:
                    _link(compiler.state)
                return defined(compiler)

            Compiler.define_pipelines = define_linked
            gc.set_threshold(ALLOCATIONS, *thresholds[1:])
            try:
                return super()._compile_core()
            finally:
                gc.set_threshold(*thresholds)
                Compiler.define_pipelines = defined


def _link(state: Any) -> None:
    """Let a function be compiled to a part of its callers."""
    state.library = _LinkedLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
    state.flags.no_cfunc_wrapper = True
