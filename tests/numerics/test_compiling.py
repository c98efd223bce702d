"""Compiled code is never out of date: fingerprints of functions, and the cache of the package."""

import os
import shutil
import subprocess
import sys
import types
from collections import namedtuple
from pathlib import Path

import numba
import numpy as np
import pytest

import influential_bandits
from influential_bandits.numerics.compiling import borrowed
from influential_bandits.numerics.fingerprints import fingerprint

PACKAGE = Path(influential_bandits.__file__).parent


def function(source, **scope):
    """The function f of a source text, with some global values."""
    exec(source, scope)
    return scope["f"]


def module(name="constants", **values):
    made = types.ModuleType(name)
    vars(made).update(values)
    return made


def helper(constant):
    return numba.njit(lambda x: x + constant)


def pair(*fields):
    return namedtuple("Pair", fields, module="elsewhere")


# What compiled code is made of: (source, global values) before and after a change.
CHANGES = {
    "a constant": (("def f(x): return x + 1", {}), ("def f(x): return x + 2", {})),
    "the type of a constant": (("def f(x): return x * 1", {}), ("def f(x): return x * 1.0", {})),
    "the sign of a zero": (("def f(x): return x * 0.0", {}), ("def f(x): return x * -0.0", {})),
    "an operation": (("def f(x): return x + 3", {}), ("def f(x): return x - 3", {})),
    "a constant of an inner function": (
        ("def f(x):\n    def g(y): return y + 1\n    return g(x)", {}),
        ("def f(x):\n    def g(y): return y + 2\n    return g(x)", {}),
    ),
    "a text in a comprehension": (
        ("def f(x): return ['a' for _ in range(x)][0]", {}),
        ("def f(x): return ['b' for _ in range(x)][0]", {}),
    ),
    "a set of constants": (
        ("def f(x): return x in {1, 2}", {}),
        ("def f(x): return x in {3, 2}", {}),
    ),
    "two global numbers swapped": (
        ("def f(x): return LOW - HIGH", {"LOW": 1, "HIGH": 2}),
        ("def f(x): return LOW - HIGH", {"LOW": 2, "HIGH": 1}),
    ),
    "how a global tuple is nested": (
        ("def f(x): return TABLE[1]", {"TABLE": ((1, 2), 3)}),
        ("def f(x): return TABLE[1]", {"TABLE": (1, (2, 3))}),
    ),
    "the fields of a global named tuple": (
        ("def f(x): return PAIR.low", {"PAIR": pair("low", "high")(1, 2)}),
        ("def f(x): return PAIR.low", {"PAIR": pair("high", "low")(1, 2)}),
    ),
    "a called universal function": (
        ("def f(x): return g(x)", {"g": numba.vectorize(lambda x: x + 1)}),
        ("def f(x): return g(x)", {"g": numba.vectorize(lambda x: x + 2)}),
    ),
    "a name that hides a builtin": (
        ("def f(x): return abs(x)", {}),
        ("def f(x): return abs(x)", {"abs": helper(1)}),
    ),
}


@pytest.mark.parametrize("what", CHANGES)
def test_fingerprint_changes_with(what):
    (before, scope_before), (after, scope_after) = CHANGES[what]
    first, second = function(before, **scope_before), function(after, **scope_after)
    # Otherwise numba could not compile it, or the change would change nothing.
    assert bits(numba.njit(first)(1)) != bits(numba.njit(second)(1))
    assert fingerprint(first) != fingerprint(second)


def bits(result):
    """What tells −0.0 from 0.0 and 1 from 1.0."""
    return repr(result)


SAME = {
    "nothing": ("def f(x): return x + 1", "def f(x): return x + 1"),
    "a comment": ("def f(x):\n    return x + 1", "def f(x):\n    # why\n\n    return x + 1"),
    "a docstring": (
        'def f(x):\n    """One."""\n    return x + 1',
        'def f(x):\n    """Two."""\n    return x + 1',
    ),
    "the place in the file": ("def f(x): return x + 1", "\n\n\n\ndef f(x): return x + 1"),
}


@pytest.mark.parametrize("what", SAME)
def test_fingerprint_does_not_change_with(what):
    before, after = SAME[what]
    assert fingerprint(function(before)) == fingerprint(function(after))


def test_fingerprint_does_not_depend_on_other_functions_of_the_file():
    alone = function("def f(x): return x + 1")
    beside = function("OTHER = 3\ndef g(x): return x + OTHER\ndef f(x): return x + 1")
    assert fingerprint(alone) == fingerprint(beside)


def test_compiled_and_plain_functions_have_the_same_fingerprint():
    plain = function("def f(x): return x + 1")
    assert fingerprint(plain) == fingerprint(numba.njit(plain))


def test_fingerprint_of_functions_that_call_each_other_ends():
    source = "def f(n): return 1 if n == 0 else {call}(n - 1)\ndef g(n): return f(n) + {constant}"
    one, other, same = (
        function(source.format(call="g", constant=constant)) for constant in (1, 2, 1)
    )
    assert fingerprint(one) == fingerprint(same)
    assert fingerprint(one) != fingerprint(other)


def test_fingerprint_depends_on_the_order_of_functions():
    one, two = function("def f(x): return x + 1"), function("def f(x): return x + 2")
    assert fingerprint(one, two) != fingerprint(two, one)


@numba.njit
def through_a_borrowed_view(array):
    view = borrowed(array)
    view[0] = 7.0
    return view.sum(), view.shape[0], view.strides[0]


@pytest.mark.parametrize("step", [1, 3])
def test_a_borrowed_view_shows_and_changes_the_array_itself(step):
    array = np.arange(12.0)[::step]
    total, length, stride = through_a_borrowed_view(array)
    assert array[0] == 7.0
    assert total == array.sum()
    assert (length, stride) == (array.size, array.strides[0])


def test_arrays_in_tuples_are_borrowed_and_other_values_stay():
    code = (
        "def f(values):\n    x, (y, n), none = borrowed(values)\n    y[0] = n\n    return x.sum()"
    )
    x, y = np.arange(3.0), np.zeros(2)
    assert numba.njit(function(code, borrowed=borrowed))((x, (y, 5), None)) == 3.0
    assert y.tolist() == [5.0, 0.0]


# Each run prints a number that came through a compiled function of another file, and how many
# compiled functions of that file were found in the cache.
NORMAL_DRAW = """
import numpy as np
from influential_bandits.numerics.streams import Stream, normal
print(normal(Stream(np.uint64(1), np.uint64(2)), 0).hex(), sum(normal.stats.cache_hits.values()))
"""
GRAM_ENTRY = """
import numpy as np
from influential_bandits.world.generators import _gram
large = np.full((1, 500), 3.0)  # less would be interpreted
print(float(_gram(large)[0, 0]).hex(), sum(_gram.stats.cache_hits.values()))
"""
EDITS = {
    "numerics/portable.py": (NORMAL_DRAW, "return q * num / den", "return 2.0 * q * num / den"),
    "world/dynamics.py": (GRAM_ENTRY, "total += a[i] * b[i]", "total -= a[i] * b[i]"),
}


@pytest.fixture
def package_copy(tmp_path):
    """A package to edit, and a function that runs a script with it in a process of its own."""
    copy = tmp_path / "influential_bandits"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))

    def run(script):
        path = tmp_path / "script.py"
        path.write_text(script, encoding="utf-8")
        done = subprocess.run(
            [sys.executable, path],
            env={
                **os.environ,
                "PYTHONPATH": str(tmp_path),
                "NUMBA_CACHE_DIR": str(tmp_path / "cache"),
            },
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        number, hits = done.stdout.split()
        return float.fromhex(number), int(hits)

    return copy, run


@pytest.mark.long
@pytest.mark.parametrize("file", EDITS)
def test_an_edit_of_a_file_is_seen_by_compiled_code_of_other_files(file, package_copy):
    script, before, after = EDITS[file]
    copy, run = package_copy
    first, hits = run(script)
    assert hits == 0
    assert run(script) == (first, 1)  # it is the cache that could be out of date

    path = copy / file
    source = path.read_text(encoding="utf-8")
    assert before in source
    path.write_text(source.replace(before, after), encoding="utf-8")
    second, hits = run(script)
    assert second != first
    assert hits == 0
