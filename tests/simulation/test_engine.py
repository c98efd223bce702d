"""simulate: the same bits however the work is cut, and one clear sentence for bad input."""

import json
import math
from dataclasses import dataclass

import forked
import numpy as np
import pytest
from python_process import run_python
from strategies import KINDS, interaction

import influential_bandits as ib
from influential_bandits.errors import InvalidInput, InvalidPolicy
from influential_bandits.simulation.engine import simulate_policy

NOISE = ib.GaussianNoise(1.0)


@dataclass(frozen=True)
class Fixed(ib.Policy):
    """Pull one arm until some round, then another."""

    first: int = 0
    then: int = 0
    until: int = 10**9

    @staticmethod
    def select(c, s, t, eligible, rng):
        return c.first if t <= c.until else c.then


def same(*runs):
    """Whether runs have the same numbers, to the last bit."""
    return all(
        np.array_equal(getattr(runs[0], name), getattr(other, name))
        for other in runs[1:]
        for name in ("counts", "choices", "expected_loss", "checkpoints", "seeds")
    )


def worlds(memory=1.0):
    paper = [ib.random_instance(n_arms=4, seed=seed) for seed in range(3)]
    return [ib.Instance(i.interaction, i.initial_loss, memory=memory) for i in paper]


@pytest.mark.parametrize("memory", [1.0, 0.9])
@pytest.mark.parametrize("policy", [ib.LCB(), ib.InfluentialLCB(), ib.Uniform()], ids=repr)
def test_the_number_of_threads_does_not_change_a_bit(policy, memory):
    runs = [
        ib.simulate(
            worlds(memory), policy, 400, NOISE, range(5), record="choices", execution=threads
        )
        for threads in (1, 2, 3, None)
    ]
    assert same(*runs)


@pytest.mark.parametrize("memory", [1.0, 0.9])
@pytest.mark.parametrize("rounds", [1, 7, 400, 1000])
def test_the_size_of_a_step_does_not_change_a_bit(rounds, memory):
    """A step may hold several runs, or a run take several steps."""
    given, settings = (worlds(memory), ib.InfluentialLCB(), 300, NOISE), {"record": "choices"}
    whole = ib.simulate(*given, range(5), **settings)
    cut = simulate_policy(*given, seeds=range(5), **settings, rounds_per_step=rounds)
    assert same(whole, cut)


@pytest.mark.parametrize("number", [1, 3, np.int64(3), 3.0])
def test_a_number_of_seeds_counts_from_zero(number):
    run = ib.simulate(worlds(1.0), ib.Uniform(), 20, seeds=number)
    assert run.seeds.tolist() == [*range(int(number))]


@pytest.mark.parametrize("parts", [[[3], [1, 4], [15, 9]], [[9, 3, 1], [15], [4]]])
def test_seeds_can_be_split_over_calls(parts):
    seeds = [3, 1, 4, 15, 9]
    whole = ib.simulate(worlds(0.8), ib.Uniform(), 200, NOISE, seeds, record="choices")
    for part in parts:
        run = ib.simulate(worlds(0.8), ib.Uniform(), 200, NOISE, part, record="choices")
        places = [seeds.index(seed) for seed in part]
        assert np.array_equal(run.choices, whole.choices[:, places])
        assert np.array_equal(run.expected_loss, whole.expected_loss[:, places])


def test_instances_can_be_split_over_calls():
    instances = worlds()
    whole = ib.simulate(instances, ib.LCB(), 200, NOISE, range(3), record="choices")
    for i, instance in enumerate(instances):
        run = ib.simulate(
            instance, ib.LCB(), 200, NOISE, range(3), record="choices", instance_numbers=[i]
        )
        assert np.array_equal(run.choices[0], whole.choices[i])
    rest = ib.simulate(
        instances[:0:-1], ib.LCB(), 200, NOISE, range(3), record="choices", instance_numbers=[2, 1]
    )
    assert np.array_equal(rest.choices, whole.choices[:0:-1])


def test_seeds_may_be_any_iterable():
    instance = ib.counterexample()
    runs = [
        ib.simulate(instance, ib.Uniform(), 50, seeds=seeds, record="choices")
        for seeds in ([7], (7,), iter([7]), np.array([7]), {7}, range(7, 8))
    ]
    assert same(*runs)
    assert runs[0].seeds.dtype == np.uint64


@pytest.mark.parametrize(
    ("horizon", "expected"),
    [
        (1, [1]),
        (2, [1, 2]),
        (9, [1, 2, 5, 9]),
        (10, [1, 2, 5, 10]),
        (60, [1, 2, 5, 10, 20, 50, 60]),
        (1000, [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]),
    ],
)
def test_default_checkpoints_are_log_spaced_and_end_at_the_horizon(horizon, expected):
    run = ib.simulate(ib.counterexample(), ib.LCB(), horizon)
    assert run.checkpoints.tolist() == expected
    assert run.checkpoints.dtype == np.int64
    assert (run.counts.sum(axis=-1) == expected).all()


@pytest.mark.parametrize("marks", [[1], [100], [3, 50, 99], range(1, 101)])
def test_given_checkpoints_keep_the_counts_of_their_rounds(marks):
    run = ib.simulate(worlds(), ib.Uniform(), 100, NOISE, range(2), marks, record="choices")
    assert run.checkpoints.tolist() == list(marks)
    for n, mark in enumerate(marks):
        for i in range(3):
            for s in range(2):
                counts = np.bincount(run.choices[i, s, :mark], minlength=4)
                assert np.array_equal(run.counts[i, s, n], counts)


def test_a_run_without_record_keeps_no_choices_and_the_same_counts():
    recorded = ib.simulate(worlds(), ib.LCB(), 100, NOISE, range(2), record="choices")
    bare = ib.simulate(worlds(), ib.LCB(), 100, NOISE, range(2))
    assert bare.choices is None
    assert recorded.choices.shape == (3, 2, 100)
    assert recorded.choices.dtype == np.int32
    assert np.array_equal(bare.counts, recorded.counts)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("memory", [0.9, 0.3])
def test_with_fading_influence_the_expected_loss_is_the_sum_along_the_arms(kind, memory):
    """In plain Python: deviation ← γ·deviation + A[arm]."""
    made = interaction(np.random.default_rng(1).normal(size=(4, 2)), kind)
    matrix, initial_loss = made.to_dense(), [0.5, -1.0, 0.25, 0.0]
    instance = ib.Instance(made, initial_loss, memory=memory)
    run = ib.simulate(instance, ib.InfluentialLCB(), 300, NOISE, range(2), record="choices")
    for s in range(2):
        deviation, losses = np.zeros(4), []
        for arm in run.choices[0, s]:
            losses.append(initial_loss[arm] + deviation[arm])
            deviation = memory * deviation + matrix[arm]
        expected = [math.fsum(losses[:mark]) for mark in run.checkpoints]
        assert run.expected_loss[0, s] == pytest.approx(expected, rel=1e-12, abs=1e-12)
        assert run.loss()[0, s] == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_lasting_and_fading_instances_can_be_played_together():
    lasting, fading = ib.counterexample(), ib.Instance([[1, 1], [1, 2]], [1, 1], memory=0.5)
    run = ib.simulate([lasting, fading], ib.LCB(), 100)
    assert np.array_equal(run.loss()[:1], ib.simulate(lasting, ib.LCB(), 100).loss())
    alone = ib.simulate(fading, ib.LCB(), 100, instance_numbers=[1])
    assert np.array_equal(run.loss()[1:], alone.loss())


def test_recorded_noise_has_a_row_for_each_seed():
    rows = np.random.default_rng(0).normal(size=(5, 80))
    together = ib.simulate(
        worlds(), ib.LCB(), 80, ib.RecordedNoise(rows), seeds=range(5), record="choices"
    )
    for n, row in enumerate(rows):
        alone = ib.simulate(
            worlds(), ib.LCB(), 80, ib.RecordedNoise(row), seeds=[n], record="choices"
        )
        assert np.array_equal(together.choices[:, n], alone.choices[:, 0])
    batched = simulate_policy(
        worlds(),
        ib.LCB(),
        80,
        ib.RecordedNoise(rows),
        seeds=range(5),
        record="choices",
        rounds_per_step=160,  # two seeds a batch
    )
    assert same(together, batched)


def test_long_horizons_take_constant_memory():
    """A run keeps its checkpoints only."""
    horizon = 2 * 10**7
    run = ib.simulate(ib.Instance([[0.0]], [0.0]), Fixed(), horizon)
    assert run.counts.nbytes < 1000
    assert run.counts[0, 0, -1, 0] == horizon


BAD = {
    "horizon 0": ({"horizon": 0}, "horizon must be at least 1, got 0"),
    "horizon text": ({"horizon": "10"}, "horizon must be a whole number, got '10'"),
    "horizon huge": ({"horizon": 2**60}, "horizon must be below"),
    "policy text": ({"policy": "Nobody"}, "unknown policy 'Nobody'"),
    "policy class": ({"policy": ib.LCB}, r"unknown policy .*construct it, as in LCB\(\)"),
    "policy None": ({"policy": None}, "unknown policy None"),
    "policy base": ({"policy": ib.Policy()}, "Policy does not define select"),
    "noise number": ({"noise": 1.0}, "noise must be a Noise"),
    "noise class": ({"noise": ib.GaussianNoise}, "noise must be a Noise"),
    "noise text": ({"noise": "gaussian"}, "noise must be a Noise"),
    "noise short": ({"noise": ib.RecordedNoise([0.0] * 9)}, "9 rounds, but the horizon is 10"),
    "noise rows": (
        {"noise": ib.RecordedNoise(np.zeros((3, 10))), "seeds": range(2)},
        "3 rows, but there are 2 seeds",
    ),
    "no seeds": ({"seeds": []}, "seeds must be whole numbers, got"),
    "equal seeds": ({"seeds": [1, 2, 1]}, "seeds must differ"),
    "negative seed": ({"seeds": [0, -1]}, "seed must be at least 0, got -1"),
    "seed 2**64": ({"seeds": [2**64]}, "seed must be below"),
    "seeds text": ({"seeds": "ab"}, "seed must be a whole number, got 'a'"),
    "no checkpoints": ({"checkpoints": []}, "checkpoints must increase within 1 … 10"),
    "checkpoint 0": ({"checkpoints": [0, 5]}, "checkpoint must be at least 1, got 0"),
    "checkpoint 11": ({"checkpoints": [5, 11]}, r"within 1 … 10, got \[5, 11\]"),
    "checkpoints fall": ({"checkpoints": [5, 4]}, r"must increase within 1 … 10, got \[5, 4\]"),
    "checkpoints number": ({"checkpoints": 5}, "checkpoints must"),
    "record": ({"record": "loss"}, 'record must be None, "choices", "losses" or both, got .loss'),
    "threads 0": ({"execution": 0}, "threads must be at least 1, got 0"),
    "threads True": ({"execution": True}, "execution must be a number of threads"),
    "no instances": ({"instances": []}, "instances must be one Instance or several"),
    "instances number": ({"instances": 5}, "instances must be one Instance or several, got 5"),
    "instances matrix": (
        {"instances": [[1, 1], [1, 2]]},
        "instances must be one Instance or several",
    ),
    "mixed K": (
        {"instances": [ib.counterexample(), ib.random_instance(3, seed=0)]},
        r"same number of arms, got \[2, 3\]",
    ),
    "few numbers": ({"instance_numbers": []}, "instance_numbers must be 1"),
    "many numbers": ({"instance_numbers": [1, 2]}, "instance_numbers must be 1"),
    "negative number": ({"instance_numbers": [-1]}, "instance number must be at least 0"),
    "number of instances": ({"instance_numbers": 3}, "instance_numbers must"),
}


@pytest.mark.parametrize(("wrong", "message"), BAD.values(), ids=BAD.keys())
def test_bad_input_gets_one_clear_sentence(wrong, message):
    good = {"instances": ib.counterexample(), "policy": ib.LCB(), "horizon": 10}
    with pytest.raises(ib.errors.InvalidInput, match=message) as refusal:
        ib.simulate(**good | wrong)
    assert len(str(refusal.value).splitlines()) == 1


@pytest.mark.parametrize("arm", [2, -1, 10**12])
@pytest.mark.parametrize("until", [0, 1, 36])
def test_a_policy_that_chooses_an_arm_out_of_range_is_named_with_round_and_value(arm, until):
    policy = Fixed(first=1, then=arm, until=until)
    message = rf"Fixed chose arm {arm} in round {until + 1} \(instance 4, seed 5\).*0 … 1"
    with pytest.raises(ib.errors.InvalidPolicy, match=message):
        ib.simulate(ib.counterexample(), policy, 100, seeds=[5, 6], instance_numbers=[4])
    if until > 0:
        ib.simulate(ib.counterexample(), policy, until)


@pytest.mark.parametrize("name", ["init", "select", "pulled", "observed"])
def test_a_policy_function_that_is_a_method_is_refused(name):
    def select(c, s, t, eligible, rng):
        return 0

    body = {"select": staticmethod(select), name: lambda self, *arguments: 0}
    policy = dataclass(frozen=True)(type("Methodical", (ib.Policy,), body))()
    with pytest.raises(
        ib.errors.InvalidPolicy, match=rf"Methodical.{name} must be a @staticmethod"
    ):
        ib.simulate(ib.counterexample(), policy, 10)


def test_parameters_may_be_numpy_numbers():
    run = ib.simulate(ib.counterexample(), Fixed(first=np.int64(1)), 10)
    assert run.counts[0, 0, -1].tolist() == [0, 10]


COUNT = """
import json
import numpy as np
import scipy.sparse
from numba.core import event
import influential_bandits as ib
from influential_bandits.simulation.kernels import advance_runs

policy = ib.InfluentialLCB()
ib.simulate(ib.random_instance(n_arms=3, seed=0), policy, 50, ib.GaussianNoise(1.0))
low_rank = ib.random_instance(5, seed=1, rank=2)  # making one may compile, playing it must not
many = ib.random_instance(50, seed=1)
others = {
    "other seeds": lambda: ib.simulate(
        ib.random_instance(3, seed=0), policy, 50, ib.GaussianNoise(1.0), seeds=range(7)
    ),
    "another K": lambda: ib.simulate(ib.random_instance(5, seed=1), policy, 70),
    "a tree": lambda: ib.simulate(many, policy, 70),
    "one arm": lambda: ib.simulate(ib.random_instance(1, seed=1), policy, 70),
    "low rank": lambda: ib.simulate(low_rank, policy, 70),
    "sparse": lambda: ib.simulate(
        ib.Instance(scipy.sparse.eye_array(4), np.zeros(4)), policy, 70
    ),
    "fading": lambda: ib.simulate(ib.Instance(np.eye(2), [0, 0], memory=0.5), policy, 70),
    "no noise": lambda: ib.simulate(ib.random_instance(3, seed=0), policy, 50),
    "uniform noise": lambda: ib.simulate(
        ib.random_instance(3, seed=0), policy, 50, ib.UniformNoise(0.5)
    ),
    "recorded noise": lambda: ib.simulate(
        ib.random_instance(3, seed=0), policy, 50, ib.RecordedNoise(np.zeros(50))
    ),
    "record": lambda: ib.simulate(ib.counterexample(), policy, 50, record="choices"),
    "another scale": lambda: ib.simulate(ib.counterexample(), ib.InfluentialLCB(3), 50),
    "an estimated scale": lambda: ib.simulate(
        ib.counterexample(), ib.InfluentialLCB("estimate"), 50
    ),
}
report = {}
for name, call in others.items():
    before = len(advance_runs.signatures)
    with event.install_recorder("numba:compile") as recorder:
        call()
    # What the disk cache holds is loaded instead of compiled, but is a version all the same.
    report[name] = [len(recorder.buffer), len(advance_runs.signatures) - before]
print(json.dumps(report))
"""


@pytest.fixture(scope="module")
def compilations():
    """Compilations and new versions of the loop that other calls need after a first one."""
    return json.loads(run_python(COUNT, start=forked.run))


def test_a_second_call_compiles_nothing(compilations):
    assert compilations == {call: [0, 0] for call in compilations}


# --- several policies ---


def test_several_policies_are_played_as_each_alone():
    world, noise = ib.random_instance(n_arms=3, seed=2), ib.GaussianNoise(1.0)
    policies = [ib.LCB(), ib.InfluentialLCB(influence_bound=2.0), ib.InfluentialLCB()]
    settings = {"record": "choices", "checkpoints": [10, 50]}
    runs = ib.simulate(world, policies, 50, noise, iter([3, 4]), **settings)
    assert list(runs) == ["LCB", "InfluentialLCB(influence_bound=2.0)", "InfluentialLCB"]
    for policy, run in zip(policies, runs.values(), strict=True):
        assert same(run, ib.simulate(world, policy, 50, noise, [3, 4], **settings))
    named = ib.simulate(world, {"a": ib.LCB(), 2: ib.LCB()}, 50, noise, [3, 4], **settings)
    assert list(named) == ["a", "2"]
    assert same(named["a"], named["2"])
    assert same(named["a"], runs["LCB"])


@pytest.mark.parametrize(
    ("policies", "mention"),
    [
        ([], "got none"),
        ({}, "got none"),
        ([ib.LCB(), ib.LCB()], "two of the policies are called LCB"),
        ([ib.LCB(), ib.InfluentialLCB], "construct it"),
        ({"a": ib.LCB}, "construct it"),
    ],
    ids=str,
)
def test_several_policies_are_checked_before_the_first_one_plays(policies, mention, refused):
    with refused(InvalidInput if "none" in mention else InvalidPolicy, mention):
        ib.simulate(ib.counterexample(), policies, 10)
