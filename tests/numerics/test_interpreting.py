"""Small work is interpreted until compiling pays, to the same bits."""

import numpy as np
import pytest
import strategies
from hypothesis import given, settings

import influential_bandits as ib
from influential_bandits.numerics import interpreting
from influential_bandits.numerics.code_cache import CodeCache
from influential_bandits.numerics.compiling import STAND_INS, lazy_kernel
from influential_bandits.optima.critical_line import follow_path, solve_support
from influential_bandits.optima.path import certify


def compare(kernel, *arguments):
    """Call a kernel twice, by the interpreter and compiled; return what both gave."""
    with np.errstate(all="ignore"):
        found = interpreting._copy(kernel.py_func, STAND_INS)(*arguments)
    kernel.compile(tuple(map(kernel.typeof_pyval, arguments)))
    assert bits(found) == bits(kernel(*arguments))
    return found


def bits(values):
    parts = values if isinstance(values, tuple) else (values,)
    return [np.asarray(part).tobytes() for part in parts]


@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(strategies.instances(kinds=["dense"]))
def test_the_interpreter_follows_the_same_path_to_the_bit(instance):
    world, b = instance.world, instance.linear_term
    events, times, _ = compare(follow_path, world, b, instance.n_arms, 2.0**53)
    horizon = 2.0 * times[-1] + 1.0
    path = ib.optimal_path(instance)
    segment = path.segment(horizon)
    assert events.size == times.size
    *_, sound = compare(solve_support, world, b, segment.support)
    assert sound
    compare(certify, world, b, segment.support, segment.point(horizon), horizon)


@pytest.fixture
def mean(monkeypatch):
    """A kernel that is not on disk, whatever earlier runs have left there."""
    monkeypatch.setattr(CodeCache, "is_kept", lambda *_: False)

    @lazy_kernel
    def mean(values):
        return values.sum() / values.size

    return mean


def test_few_numbers_are_interpreted_and_many_are_compiled(mean):
    assert mean(np.arange(3.0)) == 1.0
    assert mean.signatures == []
    assert mean(np.arange(2.0 * interpreting.FEW + 1.0)) == interpreting.FEW
    assert len(mean.signatures) == 1


def test_patience_ends(mean, monkeypatch):
    monkeypatch.setattr(interpreting, "PATIENCE", 0.0)
    for _ in range(100):  # one call may be too short for the clock
        mean(np.arange(300.0))
    assert len(mean.signatures) == 1


def test_what_is_on_disk_is_not_interpreted(mean, monkeypatch):
    monkeypatch.setattr(CodeCache, "is_kept", lambda *_: True)
    mean(np.arange(3.0))
    assert len(mean.signatures) == 1


def test_arithmetic_is_that_of_compiled_code(mean):
    assert np.isnan(mean(np.empty(0))), "and no warning"
