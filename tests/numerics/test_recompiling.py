"""Compiled code follows every value that it reads, however the value gets there."""

import enum
import gc
import textwrap
import types
from collections import namedtuple

import numba
import numpy as np
import pytest
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.errors import TypingError
from numba.extending import intrinsic, overload, register_jitable

from influential_bandits.errors import InvalidInput
from influential_bandits.numerics.compiling import kernel
from influential_bandits.numerics.fingerprints import fingerprint
from influential_bandits.numerics.recompiling import compile_anew

Pair = namedtuple("Pair", ["low", "high"])


def module(name="settings", **content):
    made = types.ModuleType(name)
    vars(made).update(content)
    return made


def kind(value):
    return enum.IntEnum("Kind", {"FIRST": value}, module="elsewhere")


def run(function):
    """What the function returns when it is compiled anew, as the values are now."""
    return call(compile_anew({"f": function})["f"])


def call(part, *arguments):
    """Call linked code as the package does, from compiled code; but keep nothing on disk."""

    def run(*arguments):
        return part(*arguments)

    compiled = kernel(run)
    compiled._cache.disable()
    return compiled(*arguments)


# A program in which f() returns VALUE; then how the value 1 becomes 2 in it.
WAYS = {
    "a global number": ("VALUE = 1\ndef f(): return VALUE", "VALUE = 2"),
    "a global of a helper": (
        "VALUE = 1\n@njit\ndef g(): return VALUE\ndef f(): return g()",
        "VALUE = 2",
    ),
    "a global of a helper's helper": (
        "VALUE = 1\n@njit\ndef h(): return VALUE\n@njit\ndef g(): return h()\ndef f(): return g()",
        "VALUE = 2",
    ),
    "a global of a helper that was given signatures": (
        "VALUE = 1\n@njit('int64()')\ndef g(): return VALUE\ndef f(): return g()",
        "VALUE = 2",
    ),
    "a global of a helper that is inlined": (
        "VALUE = 1\n@njit(inline='always')\ndef g(): return VALUE\ndef f(): return g()",
        "VALUE = 2",
    ),
    "a global of a registered function": (
        "VALUE = 1\n@register_jitable\ndef g(): return VALUE\ndef f(): return g()",
        "VALUE = 2",
    ),
    "a global of functions that call each other": (
        """
        VALUE = 1
        @njit
        def even(n):
            if n == 0:
                return VALUE
            return odd(n - 1)
        @njit
        def odd(n):
            if n == 0:
                return 0
            return even(n - 1)
        def f(): return even(2)
        """,
        "VALUE = 2",
    ),
    "a captured value of a helper": (
        """
        def make():
            value = 1
            def change(new):
                nonlocal value
                value = new
            return njit(lambda: value), change
        g, change = make()
        def f(): return g()
        """,
        "change(2)",
    ),
    "a helper that another takes over": (
        "@njit\ndef g(): return 1\ndef f(): return g()",
        "@njit\ndef g(): return 2",
    ),
    "a default": (
        "@njit\ndef g(x=1): return x\ndef f(): return g()",
        "g.py_func.__defaults__ = (2,)",
    ),
    "an array, changed in place": (
        "VALUES = np.array([1, 3])\n@njit\ndef g(): return VALUES[0]\ndef f(): return g()",
        "VALUES[0] = 2",
    ),
    "a tuple": (
        "VALUES = (1, 3)\n@njit\ndef g(): return VALUES[0]\ndef f(): return g()",
        "VALUES = (2, 3)",
    ),
    "a named tuple": (
        "PAIR = Pair(1, 3)\n@njit\ndef g(): return PAIR.low\ndef f(): return g()",
        "PAIR = Pair(2, 3)",
    ),
    "an enumeration": (
        "Kind = kind(1)\n@njit\ndef g(): return Kind.FIRST.value\ndef f(): return g()",
        "Kind = kind(2)",
    ),
    "an attribute of a module": (
        "settings = module(VALUE=1)\n@njit\ndef g(): return settings.VALUE\ndef f(): return g()",
        "settings.VALUE = 2",
    ),
    "two attributes of a module, read by two functions": (
        """
        settings = module(FIRST=0, VALUE=1)
        @njit
        def g(): return settings.VALUE
        def f(): return settings.FIRST + g()
        """,
        "settings.VALUE = 2",
    ),
    "an attribute of a module in a package": (
        """
        package = module(settings=module(VALUE=1))
        @njit
        def g(): return package.settings.VALUE
        def f(): return g()
        """,
        "package.settings.VALUE = 2",
    ),
    "a global of a helper in a module": (
        """
        VALUE = 1
        @njit
        def g(): return VALUE
        helpers = module(g=g)
        def f(): return helpers.g()
        """,
        "VALUE = 2",
    ),
    "a global of a helper in a module under another name": (
        """
        VALUE = 1
        @njit
        def g(): return VALUE
        helpers = module(g=g)
        def f():
            here = helpers
            return here.g()
        """,
        "VALUE = 2",
    ),
    "which of two helpers a third name stands for": (
        """
        @njit
        def one(): return 1
        @njit
        def two(): return 2
        third = one
        def f(): return third() + 0 * (one() + two())
        """,
        "third = two",
    ),
    "a value in an inner function": (
        """
        VALUE = 1
        @njit
        def g():
            def inner(): return VALUE
            return inner()
        def f(): return g()
        """,
        "VALUE = 2",
    ),
    "a value in a handler": (
        """
        VALUE = 1
        @njit
        def g():
            try:
                raise ValueError
            except Exception:
                return VALUE
        def f(): return g()
        """,
        "VALUE = 2",
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_value_that_changes_is_seen(way):
    program, change = WAYS[way]
    scope = {
        "np": np,
        "njit": numba.njit,
        "register_jitable": register_jitable,
        "Pair": Pair,
        "kind": kind,
        "module": module,
    }
    exec(textwrap.dedent(program), scope)
    before = fingerprint(scope["f"])
    assert run(scope["f"]) == 1  # compiles the helpers, too
    exec(change, scope)
    assert run(scope["f"]) == 2
    assert fingerprint(scope["f"]) != before


@pytest.mark.parametrize(
    "change", ["VALUE = 2", "VALUES[0] = 2", "settings.VALUE = 2"], ids=["name", "array", "module"]
)
def test_what_was_made_stays_as_it_was_even_if_it_is_compiled_later(change):
    scope = {
        "np": np,
        "njit": numba.njit,
        "VALUE": 1,
        "VALUES": np.array([1]),
        "settings": module(VALUE=1, g=numba.njit(lambda: 0)),
    }
    exec("@njit\ndef g(): return VALUE * VALUES[0] * settings.VALUE + settings.g()", scope)
    exec("def f(): return g()", scope)
    part = compile_anew({"f": scope["f"]})["f"]
    exec(change, scope)
    assert call(part) == 1


def plainly(x):
    raise AssertionError


@overload(plainly)
def _plainly(x):
    return lambda x: x + 1


@intrinsic
def one(context):
    def generate(context, builder, signature, arguments):
        return context.get_constant(numba.int64, 1)

    return numba.int64(), generate


@numba.experimental.jitclass([("x", numba.int64)])
class Box:
    def __init__(self, x):
        self.x = x


@pytest.mark.parametrize(
    ("helper", "words"),
    [
        (numba.vectorize(lambda x: x + 1), "numba.vectorize"),
        (numba.guvectorize("int64[:], int64[:]", "(n)->(n)")(lambda x, y: None), "guvectorize"),
        (numba.cfunc("int64(int64)")(lambda x: x + 1), "numba.cfunc"),
        (plainly, "overload"),
        (one, "intrinsic"),
        (Box, "jitclass"),
    ],
    ids=["vectorize", "guvectorize", "cfunc", "overload", "intrinsic", "jitclass"],
)
def test_code_whose_values_cannot_be_followed_is_refused(helper, words, refused):
    scope = {"helper": helper}
    exec("def f(): return helper(1)", scope)
    with refused(InvalidInput, words, "njit"):
        compile_anew({"f": scope["f"]})


def test_a_helper_keeps_the_signatures_and_the_types_of_variables_that_it_was_given():
    halves = numba.njit("float64(float64)")(lambda x: x / 2)
    rounded = numba.njit(locals={"y": numba.int64})(lambda x: x)
    scope = {"halves": halves, "rounded": rounded}
    exec("def g(x):\n    y = x\n    return y\ndef f(): return halves(3)", scope)
    assert run(scope["f"]) == 1.5
    scope["rounded"] = numba.njit(locals={"y": numba.int64})(scope["g"])
    exec("def f(): return rounded(1.5)", scope)
    assert run(scope["f"]) == 1


def test_indices_are_checked_in_helpers_too():
    element = numba.njit(lambda array, i: array[i])
    scope = {"element": element}
    exec("def f(array): return element(array, 7)", scope)
    part = compile_anew({"f": scope["f"]}, boundscheck=True)["f"]
    with pytest.raises(IndexError):
        call(part, np.zeros(3))


def test_an_error_in_linked_code_arrives_with_its_values():
    """Exceptions with values need Python's objects, which linked code finds where it ends up."""
    scope = {"njit": numba.njit}
    exec("@njit\ndef g(x):\n    raise ValueError('bad', x)\ndef f(x): return g(x)", scope)
    part = compile_anew({"f": scope["f"]})["f"]
    with pytest.raises(ValueError, match="bad"):
        call(part, 3)


def test_what_numba_writes_for_a_kernel_is_a_part_of_it_and_still_serves_others(monkeypatch):
    made = []
    finish = JITCodeLibrary._finalize_specific
    monkeypatch.setattr(
        JITCodeLibrary, "_finalize_specific", lambda code: made.append(code.name) or finish(code)
    )
    numbers = np.array([3, 9, 1], np.int16)
    compiled = kernel(lambda numbers, size: np.append(np.sort(numbers), np.zeros(size, np.int16)))
    compiled._cache.disable()  # made here, not found on disk
    assert compiled(numbers, 2).tolist() == [1, 3, 9, 0, 0]
    assert len(made) == 1, made
    with pytest.raises(ValueError, match="negative"):
        compiled(numbers, -1)
    assert numba.njit(lambda numbers: np.sort(numbers)[0])(numbers) == 1


def test_numba_is_as_it_was_after_code_that_cannot_be_compiled():
    before = Compiler.define_pipelines, gc.get_threshold()
    with pytest.raises(TypingError):
        kernel(lambda number: number.nowhere)(1)
    assert (Compiler.define_pipelines, gc.get_threshold()) == before
