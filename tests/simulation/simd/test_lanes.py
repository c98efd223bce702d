"""Runs in lanes and runs in the general loop are the same to the last bit; who is played where."""

import json
from dataclasses import dataclass

import forked
import numpy as np
import pytest
import scipy.sparse
from python_process import run_python

import influential_bandits as ib
from influential_bandits.numerics.portable import normal_quantile
from influential_bandits.numerics.streams import NOISE, key_table
from influential_bandits.simulation import engine
from influential_bandits.simulation.kernels import Output
from influential_bandits.simulation.simd import kernels, layout
from influential_bandits.simulation.simd import tasks as lanes
from influential_bandits.simulation.tasks import Chain, Simulation
from influential_bandits.world.noise import noise_at

ARMS = (1, 2, 3, 7, lanes.MOST_ARMS)
POLICIES = {"LCB": ib.LCB(), "InfluentialLCB": ib.InfluentialLCB(0.7)}
NOISES = {
    "none": ib.NoNoise(),
    "uniform": ib.UniformNoise(0.8),
    "Gaussian": ib.GaussianNoise(1.3),
}
each_policy = pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
each_noise = pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)


class Watched(ib.LocalExecution):
    """Play here, and keep what was given to play."""

    def run(self, tasks, progress):
        self.tasks = tasks
        super().run(tasks, progress)


class Idle(ib.LocalExecution):
    """Take tasks and play none."""

    def run(self, tasks, _progress):
        self.tasks = tasks


def assert_same(instances, policy, horizon, noise, seeds=1, marks=None, threads=None, **options):
    """Play in lanes and in the general loop; return the former."""
    runs = []
    for in_lanes in (True, False):
        where = Watched(threads)
        run = engine.simulate_policy(
            instances,
            policy,
            horizon,
            noise,
            seeds=seeds,
            checkpoints=marks,
            execution=where,
            lanes=in_lanes,
            **options,
        )
        assert {isinstance(task, lanes.LaneTask) for task in where.tasks} == {in_lanes}
        runs.append(run)
    np.testing.assert_array_equal(*(run.counts for run in runs))
    return runs[0]


def random_instances(arms, number):
    """Instances with losses of both signs; every other one has a matrix of low rank."""
    made = []
    for n in range(number):
        random = np.random.default_rng(100 * arms + n)
        factors = random.normal(size=(arms, arms if n % 2 else 1)) * 0.4
        made.append(ib.Instance(factors @ factors.T, random.normal(size=arms)))
    return made


def degenerate_instances(arms):
    """Ties, nothing that changes, zeros of both signs, and numbers as large as they may be."""
    zeros, ones = np.zeros((arms, arms)), np.ones((arms, arms))
    signs = np.where(np.arange(arms) % 2, -1.0, 1.0)
    alternating = 1e100 * np.outer(np.ones(arms), signs)
    return [
        ib.Instance(zeros, np.zeros(arms)),
        ib.Instance(zeros, -0.0 * np.ones(arms)),
        ib.Instance(zeros, np.full(arms, -3.0)),
        ib.Instance(ones, np.ones(arms)),
        ib.Instance(ones, 1e16 * signs),
        ib.Instance(np.eye(arms), np.zeros(arms)),
        ib.Instance(np.outer(signs, signs), -signs),
        ib.Instance(1e100 * np.eye(arms), 1e100 * signs),
        ib.Instance(1e-310 * np.eye(arms), 1e-310 * signs),
        ib.Instance(
            np.tril(alternating) + np.tril(alternating, -1).T, np.zeros(arms), definite=False
        ),
    ]


@each_policy
@pytest.mark.parametrize("arms", ARMS)
def test_random_instances_are_played_alike(arms, policy):
    """Groups mix instances, and the last one has idle lanes."""
    for noise in NOISES.values():
        run = assert_same(random_instances(arms, 7), policy, 700, noise, seeds=[5, 0, 2**64 - 1])
        assert (run.counts.sum(axis=-1) == run.checkpoints).all()


@each_policy
@pytest.mark.parametrize("arms", ARMS)
def test_degenerate_instances_are_played_alike(arms, policy):
    for noise in (
        ib.NoNoise(),
        ib.UniformNoise(0.0),
        ib.GaussianNoise(0.0),
        ib.UniformNoise(1e100),
    ):
        assert_same(degenerate_instances(arms), policy, 300, noise, seeds=range(2))


@pytest.mark.long
@each_policy
@each_noise
@pytest.mark.parametrize("runs", [1, 7, 15, 16, 17, 33])
def test_any_number_of_runs_fits(runs, noise, policy):
    for arms in (3, 7):
        instance = random_instances(arms, 1)
        assert_same(instance, policy, 200, noise, seeds=range(runs))
        assert_same(random_instances(arms, runs), policy, 200, noise)


@each_policy
@pytest.mark.parametrize("arms", [1, 2, 3, 6, 12])
def test_horizons_shorter_and_little_longer_than_the_opening(arms, policy):
    for horizon in (1, 2, arms - 1, arms, arms + 1, arms + 2):
        if horizon > 0:
            everywhere = range(1, horizon + 1)
            instances = random_instances(arms, 2)
            noise = ib.GaussianNoise(0.5)
            assert_same(instances, policy, horizon, noise, range(9), everywhere)


BLOCK = layout.ROUNDS_PER_BLOCK


@each_noise
@pytest.mark.parametrize(
    "marks",
    [[1], [400], [2, 3, 5], [BLOCK], [BLOCK - 1, BLOCK, BLOCK + 1], [1, 2 * BLOCK, 399, 400]],
)
def test_checkpoints_may_be_anywhere(marks, noise):
    for policy in POLICIES.values():
        assert_same(random_instances(3, 3), policy, 400, noise, range(6), marks)


@each_policy
@pytest.mark.parametrize("rounds", [1, 50, 340, 1000, 10**5])
def test_the_size_of_a_step_does_not_change_a_bit(rounds, policy):
    """Down to a step for each round, and one group a task."""
    noise, size = ib.GaussianNoise(1.0), {"rounds_per_step": rounds}
    assert_same(random_instances(3, 5), policy, 150, noise, range(8), threads=2, **size)


def test_instance_numbers_name_the_streams():
    numbers = [7, 2**64 - 1, 0]
    policy, noise = ib.InfluentialLCB(), ib.UniformNoise(1.0)
    assert_same(random_instances(4, 3), policy, 300, noise, range(5), instance_numbers=numbers)


@each_policy
@pytest.mark.parametrize("late", [2**31 - 5, 2**33, 2**52])
def test_late_rounds_are_played_alike(policy, late):
    """Play an opening, then go on as if in a late round."""
    (instance,), noise = random_instances(3, 1), ib.GaussianNoise(1.0)
    seeds, marks = np.arange(16, dtype=np.uint64), np.array([late + 200])
    nothing, horizon = np.zeros((1, 16, 0)), late + 200
    players = []
    for counts in np.zeros((2, 1, 16, 1, 3), np.int64):
        output = Output(marks, counts, nothing, nothing.astype(np.int32), nothing)
        simulation = Simulation(
            policy, (instance,), noise, seeds, [0], output, horizon, None, 3, False, 1, None
        )
        players.append(Chain(simulation, 0) if players else lanes.LaneTask(simulation, range(16)))
    in_lanes, in_general = (player._player() for player in players)
    fault = np.zeros(3, np.int64)
    for first, last in ((1, 100), (late, late + 200)):
        in_lanes(first, last)
        in_general(first, last, fault)
    assert not fault.any()
    ours, theirs = (player.simulation.output.counts for player in players)
    assert ours.sum() == 16 * 301
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("noise", [ib.UniformNoise(0.7), ib.GaussianNoise(0.7)])
def test_the_noise_of_a_block_is_that_of_its_rounds(noise):
    seeds, numbers = np.arange(16, dtype=np.uint64), np.full(16, 3, np.uint64)
    keys = layout.allocate_aligned((1, 32), np.uint64)
    kernels.fill_keys(seeds[None], numbers[None], keys)
    scratch = layout.allocate_aligned((3, 16 * BLOCK), np.float64)
    source = noise.source()
    for first in (1, 2**31 - 9, 2**52):
        last = first + BLOCK - 1
        kernels.draw_noise((0, 0), source, keys[0], scratch, first, last)
        for n, pair in enumerate(key_table(seeds, np.uint64(3), NOISE)):
            expected = [noise_at(source, *pair, 0, t) for t in range(first, last + 1)]
            assert scratch[0].reshape(-1, 16)[:, n].tolist() == expected


@pytest.mark.parametrize("share", [0.0, 0.15, 1.0])
def test_normal_numbers_are_those_of_the_quantile_in_all_three_of_its_branches(share):
    """Few, some or all in the tails; on the borders between the branches; next to ±½."""
    random = np.random.default_rng(1)
    numbers = random.uniform(-0.425, 0.425, 1024)
    tails = random.uniform(size=1024) < share
    numbers[tails] = np.where(random.uniform(size=1024) < 0.5, -1, 1)[tails] * (
        0.5 - 10.0 ** random.uniform(-15.9, -1.2, 1024)[tails]
    )
    border = 0.5 - np.exp(-25.0)
    edges = [0.425, np.nextafter(0.425, 1), 0.5 - 2.0**-53, 2.0**-53, border, border + 1e-16]
    numbers[-12:] = [*edges, *(-edge for edge in edges)]
    block, others = numbers.copy(), np.zeros((2, 1024))
    kernels.make_normal(0.3, block, others[0], others[1], 1024)
    expected = np.array([0.3 * normal_quantile(q) for q in numbers])
    assert block.tobytes() == expected.tobytes()


@dataclass(frozen=True)
class Mine(ib.InfluentialLCB):
    """A subclass may override what it likes."""


PAYS = {
    "instances": ib.random_instance(3, seed=0),
    "policy": ib.LCB(),
    "horizon": 300_000,
    "noise": ib.UniformNoise(),
    "seeds": range(16),
    "execution": 1,
}
SPARSE = ib.Instance(scipy.sparse.eye_array(3), np.zeros(3))
LOW_RANK = ib.Instance(ib.LowRankInteraction(np.ones((3, 1))), np.zeros(3))
FADING = ib.Instance(np.eye(3), np.zeros(3), memory=0.9)
CHOICES = {
    "as it is": ({}, True),
    "InfluentialLCB": ({"policy": ib.InfluentialLCB(2)}, True),
    "Gaussian noise": ({"noise": ib.GaussianNoise()}, True),
    "no noise": ({"noise": None}, True),
    "several instances": ({"instances": [ib.counterexample()] * 16, "seeds": [3]}, True),
    "twelve arms": ({"instances": ib.random_instance(12, seed=0)}, True),
    "two groups for two threads": ({"seeds": range(32), "execution": 2}, True),
    "six runs": ({"seeds": range(6), "horizon": 10**6}, True),
    "five runs": ({"seeds": range(5), "horizon": 10**6}, False),
    "more threads than groups": ({"seeds": range(16), "execution": 4}, False),
    "few rounds": ({"horizon": 1000}, False),
    "thirteen arms": ({"instances": ib.random_instance(13, seed=0)}, False),
    "a subclass": ({"policy": Mine()}, False),
    "an estimated scale": ({"policy": ib.InfluentialLCB("estimate")}, False),
    "another policy": ({"policy": ib.Uniform()}, False),
    "an oracle": ({"policy": ib.FrankWolfeOracle()}, False),
    "recorded noise": ({"noise": ib.RecordedNoise(np.zeros(300_000))}, False),
    "recorded choices": ({"record": "choices"}, False),
    "a scenario": ({"scenario": ib.Scenario(delay=3)}, False),
    "sparse": ({"instances": SPARSE}, False),
    "low rank": ({"instances": LOW_RANK}, False),
    "fading": ({"instances": FADING}, False),
    "one of them fading": ({"instances": [ib.random_instance(3, seed=0), FADING]}, False),
}


def played_in_lanes(settings):
    where = Idle(settings["execution"])
    ib.simulate(**settings | {"execution": where})
    (answer,) = {isinstance(task, lanes.LaneTask) for task in where.tasks}
    return answer


@pytest.mark.parametrize(("change", "in_lanes"), CHOICES.values(), ids=CHOICES)
def test_simulate_takes_lanes_where_they_apply_and_pay(monkeypatch, change, in_lanes):
    monkeypatch.setattr(lanes, "wide_registers", lambda: True)
    assert played_in_lanes(PAYS | change) == in_lanes


def test_narrow_registers_are_left_to_the_general_loop(monkeypatch):
    monkeypatch.setattr(lanes, "wide_registers", lambda: False)
    assert not played_in_lanes(PAYS)


def lane_tasks(instance, horizon, seeds):
    where = Idle(1)
    engine.simulate_policy(instance, ib.LCB(), horizon, seeds=seeds, execution=where, lanes=True)
    return where.tasks


def test_each_group_of_a_long_run_is_a_task_so_that_threads_share_them():
    tasks = lane_tasks(ib.random_instance(3, seed=0), 10**7, range(40))
    assert [len(task.runs) for task in tasks] == [16, 16, 8]


def test_many_short_runs_are_cut_into_tasks_of_bounded_memory():
    tasks = lane_tasks(ib.random_instance(12, seed=0), 50, range(100_000))
    assert sum(len(task.runs) for task in tasks) == 100_000
    assert max(task._fresh_state().nbytes for task in tasks) <= lanes.BYTES_PER_TASK
    assert len(tasks) < 200, "a compiled call should have some work"


def test_a_long_run_can_be_stopped_in_between():
    """A step ends long before the horizon, and says how much was done."""
    counts = np.zeros((3, 1, 2), np.int64)
    seeds, marks, nothing = np.arange(3, dtype=np.uint64), np.array([2**40]), np.zeros((1, 3, 0))
    output = Output(marks, counts[None], nothing, nothing.astype(np.int32), nothing)
    world, noise = ib.counterexample(), ib.NoNoise()
    simulation = Simulation(
        ib.LCB(), (world,), noise, seeds, [0], output, 2**40, None, 2, False, 1000, True
    )
    task = lanes.LaneTask(simulation, range(3))
    steps = iter(task.steps())
    assert next(steps) == 3 * (1000 // 3)
    assert not counts.any()


COUNT = """
import json
from numba.core import event
import influential_bandits as ib
from influential_bandits.simulation.engine import simulate_policy
from influential_bandits.simulation.simd import kernels

with event.install_recorder("numba:compile") as recorder:
    for noise in (ib.NoNoise(), ib.UniformNoise(1.0), ib.GaussianNoise(1.0)):
        for policy in (ib.LCB(), ib.InfluentialLCB(), ib.InfluentialLCB(2)):
            simulate_policy(ib.counterexample(), policy, 50, noise, seeds=20, lanes=True)
print(json.dumps([len(recorder.buffer), len(kernels.advance_lanes.signatures)]))
"""


@pytest.mark.long
def test_a_second_process_compiles_nothing_and_noises_share_their_code():
    _, second = (json.loads(run_python(COUNT, start=forked.run)) for _ in range(2))
    assert second == [0, 2]
