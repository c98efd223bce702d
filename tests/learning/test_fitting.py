"""Fits in parts: the same bits everywhere, a population alone, and memory said beforehand."""

import json
from itertools import pairwise
from pathlib import Path

import distributed
import numpy as np
import pytest
from command_line import run_command
from hypothesis import given
from hypothesis import strategies as st
from python_process import run_python
from sklearn.base import clone

import influential_bandits as ib
from influential_bandits import free_memory as memory
from influential_bandits.errors import InvalidInput, NotApplicable, Unfinished
from influential_bandits.execution.local import LocalExecution
from influential_bandits.learning.fitting import fit_scan, measure_fit, require_memory_for
from influential_bandits.learning.influence_test import influence_test
from influential_bandits.learning.models import DriftModel, InfluenceModel, StationaryModel
from influential_bandits.learning.selection import choose, ladder, validate
from influential_bandits.learning.statistics.log_scan import (
    HistorySample,
    SampleSize,
    choose_lowest,
    rank_labels,
    sample_instances,
    scan_log,
)
from influential_bandits.learning.statistics.reduction import tree_sum
from influential_bandits.logs.log import EventLog, concatenate_logs

ARRAYS = (
    "coefficients_",
    "unconstrained_",
    "standard_errors_",
    "noise_",
    "population_",
    "unconstrained_population_",
    "population_covariance_",
)
POOLINGS = ["none", "full"]
OPTIONS = {"instance": "user", "arm": "ad", "time": "time", "loss": "loss"}
INTERACTION = [[0.3, -0.1, 0.0], [-0.1, 0.2, 0.0], [0.0, 0.0, 0.1]]
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


class Part:
    """A partition as a file of its own; what it costs to be loaded can be set."""

    def __init__(self, path, name, loads=None):
        self.path, self.name, self.loads = Path(path), name, loads

    def load(self):
        """Read the log; after so many loads, fail."""
        count = self.path.with_suffix(f".{self.name}.count")
        if self.loads is not None:
            done = int(count.read_text()) if count.exists() else 0
            count.write_text(str(done + 1))
            if done >= self.loads:
                raise InvalidInput("the file is damaged")
        return ib.read_log(self.path, **OPTIONS, arm_names=["a", "b", "c"])


class Parts:
    """A log in such partitions."""

    def __init__(self, partitions):
        self.partitions = tuple(partitions)
        self.arm_names = ("a", "b", "c")
        self.n_instances = sum(part.load().n_instances for part in partitions if part.loads is None)
        self.about = {"source": "test"}


def frame_of(log):
    frame = log.to_frame().rename(columns={"instance": "user", "item": "ad"})
    return frame.assign(ad=frame.ad.map(dict(zip(log.arm_names, "abc", strict=True))))


@pytest.fixture(scope="module")
def whole():
    return ib.data.synthetic_log(
        40, 30, 3, interaction=INTERACTION, memory=0.8, spread=0.5, drift=0.3, seed=4
    )


@pytest.fixture(scope="module")
def folder(whole, tmp_path_factory):
    """The log in seven files of whole users, of different sizes."""
    path = tmp_path_factory.mktemp("log")
    cuts = [0, 3, 10, 11, 20, 28, 33, 40]
    for n, (low, high) in enumerate(pairwise(cuts)):
        frame_of(whole.take(np.arange(low, high))).to_parquet(path / f"part-{n}.parquet")
    return path


@pytest.fixture(scope="module")
def partitioned(folder):
    return Parts([Part(path, path.stem) for path in sorted(folder.glob("*.parquet"))])


@pytest.fixture(scope="module")
def cluster():
    """Two processes, and a dashboard on any free port: the usual one may be taken."""
    settings = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"}
    with (
        distributed.LocalCluster(processes=True, silence_logs=40, **settings) as processes,
        ib.DaskExecution(processes.scheduler_address) as execution,
    ):
        yield execution


def model_of(pooling, **settings):
    return ib.InfluenceModel(fading=0.8, drift=True, pooling=pooling, **settings)


def bits(model):
    plain = {name: np.asarray(getattr(model, name)).tobytes() for name in ARRAYS}
    return plain, model.effects_, model.instances_, model.gap_, model.status_


# Sums along a tree
def halved(values):
    """Add up neighbours, then their sums, and so on: the tree, obviously."""
    while len(values) > 1:
        pairs = [values[n : n + 2] for n in range(0, len(values), 2)]
        values = [pair[0] + pair[1] if len(pair) == 2 else pair[0] for pair in pairs]
    return values[0]


numbers = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=70)


@given(numbers)
def test_a_tree_sum_adds_neighbours_first(values):
    assert tree_sum((value,) for value in values) == (halved(values),)


def test_a_tree_sum_holds_few_sums():
    held = []

    class Counted(tuple):
        def __new__(cls, *values):
            held.append(1)
            return super().__new__(cls, values)

        def __del__(self):
            held.pop()

        _fields = ("value",)

    most = 0

    def results():
        nonlocal most
        for n in range(1000):
            yield Counted(n)
            most = max(most, len(held))

    assert tuple(tree_sum(results())) == (499_500,)
    assert most <= 13


def test_nothing_has_no_sum():
    assert tree_sum([]) is None


# Samples
@given(st.integers(0, 99), st.integers(1, 60), st.integers(1, 7))
def test_samples_of_parts_make_the_sample_of_all(seed, most, cuts):
    size = SampleSize(most, 200, 3)
    log = ib.data.synthetic_log(50, 9, 2, seed=seed)
    expected = log.take(choose_lowest(rank_labels(log.instances, seed), log.lengths, size))
    drawn = HistorySample(size)
    for numbers in np.array_split(np.arange(50), cuts):
        part = log.take(numbers)
        ranks = rank_labels(part.instances, seed)
        few = choose_lowest(ranks, part.lengths, size)
        drawn.add(ranks[few], part.take(few))
    found = drawn.log()
    assert found.instances == expected.instances
    assert found.loss.tobytes() == expected.loss.tobytes()
    assert found.n_instances == min(most, max(3, 200 // 9))


def test_a_sample_depends_on_the_seed_and_on_labels_alone(whole):
    one, other = (set(sample_instances(whole, seed, 10).instances) for seed in (0, 1))
    assert len(one) == len(other) == 10
    assert one != other
    turned = whole.take(np.arange(40)[::-1])
    assert set(sample_instances(turned, 0, 10).instances) == one


def test_ranks_look_uniform():
    ranks = rank_labels(map(str, range(10_000)), 5) / 2.0**64
    assert len(set(ranks)) == 10_000
    # The largest distance from the uniform law exceeds this with probability 1e-6 (Kolmogorov).
    assert np.abs(np.sort(ranks) - np.arange(10_000) / 10_000).max() < 2.7 / 100


def test_the_scan_of_partitions_is_that_of_the_whole_log(whole, partitioned):
    here = ib.LocalExecution(2)
    one, parts = scan_log(whole, 0, here), scan_log(partitioned, 0, here)
    np.testing.assert_allclose(parts.sums.means, one.sums.means, rtol=1e-13)
    assert parts.sums[2:] == one.sums[2:] == (1200, 40, 0)
    assert parts.sample.instances == one.sample.instances
    assert parts.sample.loss.tobytes() == one.sample.loss.tobytes()


def test_few_of_many_instances_are_sent(partitioned, monkeypatch):
    size = SampleSize(2, fewest=1)
    monkeypatch.setattr(SampleSize, "threshold", lambda *_: np.uint64(2**62))
    sent = []
    add = HistorySample.add
    monkeypatch.setattr(HistorySample, "add", lambda *a: (sent.append(a[2].n_instances), add(*a)))
    found = scan_log(partitioned, 0, ib.LocalExecution(1), size=size)
    everyone = concatenate_logs([part.load() for part in partitioned.partitions])
    ranks = rank_labels(everyone.instances, 0)
    expected = everyone.take(choose_lowest(ranks, everyone.lengths, size))
    assert found.sample.instances == expected.instances
    assert sum(sent) < 20


def test_the_threshold_lets_enough_through():
    size = SampleSize(100)
    assert size.threshold(None) == size.threshold(120) == 2**64 - 1
    share = float(size.threshold(10_000)) / 2**64
    # Binomial with mean 180 and deviation 13.3: below 100 with a probability of 1e-9.
    assert share == pytest.approx(0.018)


# The same bits everywhere
@pytest.mark.long
@pytest.mark.parametrize("pooling", POOLINGS, ids=str)
def test_a_log_in_memory_gives_the_same_bits_everywhere(whole, cluster, pooling):
    """Sums of many chunks, as of a log thousands of times as large."""
    found = []
    for where in (ib.LocalExecution(1), ib.LocalExecution(2), cluster):
        found.append(model_of(pooling))
        fit_scan(found[-1], scan_log(whole, 0, where, chunk=70), whole.arm_names, where)
    for model in found[1:]:
        assert bits(model) == bits(found[0])


@pytest.mark.long
@pytest.mark.parametrize("pooling", POOLINGS, ids=str)
def test_partitions_give_the_same_bits_everywhere(partitioned, cluster, pooling):
    found = [
        model_of(pooling).fit(partitioned, execution=where)
        for where in (ib.LocalExecution(1), ib.LocalExecution(2), cluster)
    ]
    for model in found[1:]:
        assert bits(model) == bits(found[0])


@pytest.mark.parametrize("pooling", POOLINGS, ids=str)
def test_partitions_agree_with_the_whole_log(whole, partitioned, pooling):
    # Sums of a thousand terms in another order differ by 1e-13; equations are well-conditioned.
    model = model_of(pooling, interaction="symmetric")
    one, parts = clone(model).fit(whole), clone(model).fit(partitioned)
    assert parts.instances_ == one.instances_
    for name in ARRAYS:
        scale = np.abs(getattr(one, name)).max()
        assert np.abs(getattr(parts, name) - getattr(one, name)).max() <= 1e-9 * scale, name


def test_separate_fits_of_partitions_are_exact_where_nothing_is_shared(whole, partitioned):
    model = ib.InfluenceModel(fading=0.8)
    one = model.fit(whole).coefficients_.tobytes()
    assert model.fit(partitioned).coefficients_.tobytes() == one


@pytest.mark.long
def test_validation_gives_the_same_bits_on_a_cluster(whole, cluster):
    models = ib.ladder()
    one, other = ib.validate(whole, models), ib.validate(whole, models, execution=cluster)
    assert one.squares.tobytes() == other.squares.tobytes()
    candidates = [ib.DriftModel(shrinkage) for shrinkage in (0.5, 2.0)]
    chosen = [ib.choose(whole, candidates, execution=where)[0] for where in (None, cluster)]
    assert bits(chosen[0]) == bits(chosen[1])


@pytest.mark.parametrize(("loads", "pooling"), [(0, "full"), (1, "none")], ids=["scan", "fit"])
def test_a_damaged_partition_stops_a_fit_by_name(partitioned, refused, loads, pooling):
    first, *others = partitioned.partitions
    damaged = Part(first.path, f"part-{pooling}", loads=loads)
    first.path.with_suffix(f".{damaged.name}.count").unlink(missing_ok=True)
    with refused(Unfinished, damaged.name, "damaged"):
        model_of(pooling).fit(Parts([damaged, *others]))


# The population alone
def test_the_population_alone_can_do_what_a_population_can(partitioned, whole, tmp_path):
    memory = model_of("full").fit(partitioned)
    model_of("full").fit(partitioned, keep_instances=False).save(tmp_path / "model.json")
    model = ib.InfluenceModel.load(tmp_path / "model.json")
    assert model.instances_ == ()
    assert model.instance_summary_.instances == 40
    for name in ARRAYS[4:]:
        np.testing.assert_allclose(getattr(model, name), getattr(memory, name), atol=1e-12)
    assert model.noise().sigma == pytest.approx(memory.noise().sigma, rel=1e-12)
    assert model.gap_ == memory.gap_
    one, other = model.prior(), memory.prior()
    np.testing.assert_allclose(one.mean, other.mean, atol=1e-12)
    np.testing.assert_allclose(one.covariance, other.covariance, atol=1e-12)
    some = partitioned.partitions[0].load()
    plans = [ib.plan(each, some, 50) for each in (model, memory)]
    np.testing.assert_allclose(plans[0].mix, plans[1].mix, atol=1e-9)
    assert np.isfinite(model.predict(some)).all()
    with pytest.raises(InvalidInput, match="keep_instances"):
        model.interval(instance="0")
    with pytest.raises(InvalidInput, match="pooling='full'"):
        model_of("none").fit(whole, keep_instances=False)


@pytest.mark.long
def test_a_population_alone_has_the_same_bits_everywhere(partitioned, cluster):
    one, other = (
        model_of("full").fit(partitioned, execution=where, keep_instances=False)
        for where in (ib.LocalExecution(1), cluster)
    )
    assert bits(one) == bits(other)
    for mine, theirs in zip(one.instance_summary_, other.instance_summary_, strict=True):
        assert np.asarray(mine).tobytes() == np.asarray(theirs).tobytes()


def test_settings_of_a_log_in_parts_are_chosen_on_a_sample(whole, partitioned):
    model = model_of("full")
    best, validation = ib.choose(partitioned, model, settings=["ridge"])
    expected, same = ib.choose(whole, model, settings=["ridge"])
    assert best.ridge == expected.ridge
    assert validation.squares.tobytes() == same.squares.tobytes()
    assert best.instances_ == whole.instances


# The command
def test_the_command_fits_a_whole_log_on_a_cluster(folder, cluster, tmp_path):
    address = cluster._client.scheduler.address
    common = ["fit", folder, "--memory", "0.8", "--ridge", "10"]
    there = ["--engine", "dask", "--scheduler", address, "--out", tmp_path / "there.json"]
    assert run_command(*common, *there).returncode == 0
    assert run_command(*common, "--out", tmp_path / "here.json").returncode == 0
    assert (tmp_path / "there.json").read_text() == (tmp_path / "here.json").read_text()


def test_the_command_finds_columns_in_the_names_of_folders(whole, tmp_path):
    for user, label in enumerate(whole.instances[:5]):
        home = tmp_path / "log" / f"user={label}"
        home.mkdir(parents=True)
        frame = frame_of(whole.take(np.array([user]))).drop(columns="user")
        frame.to_parquet(home / "events.parquet")
    options = ["--memory", "0.8", "--ridge", "10", "--jobs", "1"]
    done = run_command("fit", tmp_path / "log", *options, "--out", tmp_path / "m.json")
    assert done.returncode == 0
    assert "5 instances" in done.stderr


def test_the_command_refuses_what_does_not_fit(tmp_path, folder):
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "a.parquet").write_bytes(b"PAR1 half a file")
    for arguments, words in (
        ([tmp_path / "log"], "a.parquet"),
        ([folder, "--scheduler", "tcp://127.0.0.1:1"], "--engine dask"),
    ):
        done = run_command("fit", *arguments)
        assert done.returncode == 2
        assert words in done.stderr


@pytest.mark.long
def test_the_formula_is_near_what_is_measured():
    rows = [json.loads(line) for line in run_python(MEASURED, ARMS).splitlines()]
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
