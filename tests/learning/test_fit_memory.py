"""The memory of a fit: said beforehand, in time, and near what is measured."""

import json
import subprocess
import sys

import numpy as np
import pytest

from influential_bandits import free_memory as memory
from influential_bandits.errors import NotApplicable
from influential_bandits.execution.local import LocalExecution
from influential_bandits.learning.fitting import measure_fit, require_memory_for
from influential_bandits.learning.influence_test import influence_test
from influential_bandits.learning.models import DriftModel, InfluenceModel, StationaryModel
from influential_bandits.learning.selection import choose, ladder, validate
from influential_bandits.logs.log import EventLog

ARMS = 40
MEASURED = """
import ctypes, json, sys
from pathlib import Path
from influential_bandits import InfluenceModel, LocalExecution
from influential_bandits.data import synthetic_log
from influential_bandits.learning.fitting import measure_fit

def peak():
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return {name: 1024 * int(status[name].split()[0]) for name in ("VmHWM", "VmRSS")}

log, small = (synthetic_log(2, 60, arms, seed=0) for arms in (int(sys.argv[1]), 3))
where = LocalExecution(threads=2)
for kind, pooling in (("psd", "full"), ("symmetric", "full"), ("psd", "none")):
    model = InfluenceModel(kind, fading=0.8, pooling=pooling)
    model.fit(small, execution=where)
    need = measure_fit(model, log.n_arms, log.n_instances, where)
    ctypes.CDLL(None).malloc_trim(0)  # what earlier fits left would not be taken anew
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = peak()["VmRSS"]
    model.fit(log, execution=where)
    print(json.dumps([kind, pooling, need, peak()["VmHWM"] - before]))
"""


@pytest.mark.long
def test_the_formula_is_near_what_is_measured():
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, str(ARMS)], capture_output=True, text=True, check=True
    )
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(rows) == 3
    for kind, pooling, need, measured in rows:
        assert 0.4 * need < measured < 1.1 * need, (kind, pooling, need / 2**20, measured / 2**20)


def test_the_formula_grows_as_the_equations_do():
    def measure(arms, instances=1, threads=1, kind="psd", pooling="full"):
        model = InfluenceModel(kind, pooling=pooling)
        return measure_fit(model, arms, instances, LocalExecution(threads))

    assert measure(200) / measure(100) == pytest.approx(16, rel=0.1)
    assert measure(240) > 70 * 2**30
    assert measure(100, kind="symmetric") < measure(100)
    workers = [measure(30, 8, n, pooling="none") for n in (1, 2, 8, 16)]
    assert workers[0] < workers[1] < workers[2] == workers[3]


@pytest.fixture(scope="module")
def many_arms():
    names = [f"arm {n % 300}" for n in range(900)]
    return EventLog(np.repeat(["ann", "bob", "cleo"], 300), names, np.arange(900.0) % 7)


@pytest.fixture
def no_fits(monkeypatch):
    """Say that 16 GB are there, and fail if anything is computed."""
    monkeypatch.setattr(memory, "available_memory", lambda: 16.0 * 2**30)

    def fail(*_, **__):
        raise AssertionError("nothing should be computed")

    monkeypatch.setattr("influential_bandits.learning.loss_model.scan_log", fail)


@pytest.mark.parametrize("kind", ["psd", "symmetric"])
@pytest.mark.parametrize("pooling", ["none", "full"])
def test_too_many_arms_are_refused_before_anything_is_computed(kind, pooling, many_arms, no_fits):
    told = r"300 arms with 45,150 interactions to 3 instances would take about .* [GT]B of mem"
    with pytest.raises(NotApplicable, match=told + r".*16.0 GB are.*--interaction diagonal"):
        InfluenceModel(kind, pooling=pooling).fit(many_arms)


def test_comparisons_are_refused_before_the_first_fit(many_arms, no_fits):
    for use in (
        lambda: validate(many_arms, ladder()),
        lambda: choose(many_arms, [StationaryModel(), InfluenceModel("symmetric", pooling="full")]),
    ):
        with pytest.raises(NotApplicable, match="300 arms with 45,150 interactions"):
            use()


@pytest.mark.long
def test_models_of_few_coefficients_are_fitted(many_arms, monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 2.0 * 2**30)
    model = InfluenceModel("diagonal", pooling="full").fit(many_arms)
    assert model.interaction_.shape == (300, 300)
    assert DriftModel(pooling="full").fit(many_arms).initial_loss_.shape == (300,)


def test_arms_without_interactions_have_a_limit_too(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 2.0**20)
    with pytest.raises(NotApplicable, match=r"the fit of 4,000 arms would .*: merge rare arms"):
        require_memory_for(StationaryModel(), 4000, 1, LocalExecution(1))


def test_the_test_of_influence_says_its_memory_too(monkeypatch):
    names = [f"{n % 50}" for n in range(4000)]
    log = EventLog(np.repeat(np.arange(40), 100), names, np.random.default_rng(0).normal(size=4000))
    monkeypatch.setattr(memory, "available_memory", lambda: 2.0**20)
    with pytest.raises(NotApplicable, match="the test of 1,275 pairs of arms would take about"):
        influence_test(log, all_pairs=True)


def test_fits_that_run_out_of_memory_say_so(monkeypatch):
    log = EventLog(["ann"] * 4, ["a", "b"] * 2, [1.0, 2.0, 3.0, 4.0])

    def fail(*_, **__):
        raise MemoryError

    monkeypatch.setattr("influential_bandits.learning.fitting.estimate_random_effects", fail)
    with pytest.raises(NotApplicable, match=r"the fit of 2 arms .*more memory than there is"):
        InfluenceModel().fit(log)
