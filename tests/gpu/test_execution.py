"""GpuExecution without a graphics processor, and studies side by side on a simulated one."""

import pytest
from python_process import run_python
from typer.testing import CliRunner

import influential_bandits as ib
from influential_bandits.cli import app
from influential_bandits.errors import GpuError, InvalidInput, MissingExtra
from influential_bandits.execution import local
from influential_bandits.gpu import execution as gpu
from influential_bandits.gpu import toolkit


def test_without_the_package_it_names_the_extra(monkeypatch, refused):
    monkeypatch.setattr("influential_bandits.packages.find_spec", lambda name: None)
    toolkit.cuda.cache_clear()
    with refused(MissingExtra, "pip install numba-cuda[cu13]", "the extra gpu"):
        ib.GpuExecution()


def test_without_a_graphics_processor_it_says_so(monkeypatch, refused):
    class Nothing:
        @property
        def gpus(self):
            raise RuntimeError("CUDA driver library cannot be found")

    monkeypatch.setattr(toolkit, "cuda", Nothing)
    monkeypatch.setattr(gpu, "free_memory", lambda: 0)
    with refused(GpuError, "no graphics processor", "driver library cannot be found", "--engine"):
        ib.GpuExecution()


def test_a_number_that_no_graphics_processor_has_is_refused(monkeypatch, refused):
    class One:
        gpus = ("the only one",)

    monkeypatch.setattr(toolkit, "cuda", One)
    with refused(GpuError, "no graphics processor 3", "has 1"):
        ib.GpuExecution(3)
    with refused(InvalidInput, "device"):
        ib.GpuExecution(-1)


def test_a_study_of_few_runs_is_for_cores(monkeypatch):
    class One:
        gpus = ("the only one",)

    monkeypatch.setattr(toolkit, "cuda", One)
    monkeypatch.setattr(gpu, "require_device", lambda number: "the only one")
    monkeypatch.setattr(gpu, "free_memory", lambda: 1 << 30)
    monkeypatch.setattr(gpu, "is_simulated", lambda: False)
    monkeypatch.setattr(local, "count_threads", lambda threads: 4)
    card = ib.GpuExecution()
    assert card.for_study(4 * gpu.RUNS_PER_CORE) is card
    assert card.for_study() is card
    cores = card.for_study(4 * gpu.RUNS_PER_CORE - 1)
    assert isinstance(cores, ib.LocalExecution)
    assert cores.threads == 4


@pytest.mark.parametrize("option", ["--jobs=2", "--scheduler=tcp://x:1"])
def test_options_of_other_engines_are_refused(option):
    pytest.importorskip("numba_cuda", reason="the extra gpu")
    result = CliRunner().invoke(app, ["reproduce", "--engine", "gpu", option])
    assert result.exit_code != 0
    assert isinstance(result.exception, InvalidInput)


STUDY = """
import sys, tempfile
from pathlib import Path
import numpy as np
import influential_bandits as ib
from influential_bandits.gpu.execution import GpuExecution, PIECES_AT_ONCE

def work(task, where):
    if task == 5:
        raise ValueError("five")
    run = ib.simulate(
        ib.random_instance(3, task), ib.LCB(), 20, ib.GaussianNoise(1.0), seeds=2, execution=where,
        progress=False, instance_numbers=[task],
    )
    return run.counts.tolist()

where = GpuExecution()
found = {outcome.task: outcome for outcome in where.outcomes(work, range(12))}
expected = {task: work(task, 1) for task in range(12) if task != 5}
assert isinstance(found.pop(5).error, ValueError)
assert {task: outcome.result for task, outcome in found.items()} == expected
assert where.room == where.memory, "the memory is shared by pieces at work alone"
started = []
def slow(task, where):
    started.append(task)
    return task
few = where.outcomes(slow, iter(range(10**9)))
next(few)
few.close()
assert len(started) <= 2 * PIECES_AT_ONCE
assert list(where.map(lambda x: 2 * x, range(5))) == [0, 2, 4, 6, 8]
print("done")
"""


def test_pieces_of_a_study_are_played_side_by_side():
    pytest.importorskip("numba_cuda", reason="the extra gpu")
    told = run_python(STUDY, NUMBA_ENABLE_CUDASIM="1", NUMBA_DISABLE_JIT="1")
    assert told == "done\n"
