"""Graphics processors: the code that they get, and its logic; bits are checked by benchmarks/gpu.

Continuous integration has no graphics processor. Code is compiled to PTX without one, and numba's
CUDA simulator plays kernels by the interpreter; each in a process of its own.
"""

import json
import math
from types import SimpleNamespace

import numpy as np
import pytest
from python_process import run_python

from influential_bandits.gpu.estimates import choose_by_estimates, make_root

pytest.importorskip("numba_cuda", reason="the extra gpu")

PTX = """
import json, re, sys
from types import SimpleNamespace
import numba, numpy as np
from numba.cuda import dispatcher
import influential_bandits as ib
from influential_bandits.gpu import toolkit
from influential_bandits.gpu.tasks import gpu_tasks
from influential_bandits.simulation.kernels import Output
from influential_bandits.simulation.tasks import Simulation

toolkit.cuda()


def to_ptx(kernel, arguments, capability):  # needs no graphics processor
    dispatcher.get_current_device = lambda: SimpleNamespace(compute_capability=capability)
    with toolkit.without_contraction():
        return str(toolkit.cuda().compile_ptx(kernel, arguments, cc=capability)[0])


def compile(policy, arms, noise):
    worlds = [ib.random_instance(n_arms=arms, seed=i) for i in range(2)]
    seeds, marks = np.arange(3, dtype=np.uint64), np.array([10])
    output = Output(
        marks,
        np.zeros((2, 3, 1, arms), np.int64),
        np.zeros((2, 3, 0)),
        np.zeros((2, 3, 0), np.int32),
        np.zeros((2, 3, 0)),
    )
    simulation = Simulation(
        policy, tuple(worlds), noise, seeds, [0, 1], output, 10, None, arms, False, 1, None
    )
    (batch,) = gpu_tasks(simulation, 0, 1 << 30)
    arrays = batch._arrays()
    arrays |= {name: np.zeros(*room) for name, room in batch._rooms().items()}
    types = [numba.int64] * 3 + [numba.typeof(arrays[name]) for name in batch._names()]
    game = next(batch.game.variants())
    code = to_ptx(game.function(), tuple(types), (9, 0))
    return {
        "entries": code.count(".entry"),
        "fused": len(re.findall(r"\\bfma\\.\\w+\\.f64", code)),
        "free": len(re.findall(r"\\b(?:mul|add|sub)\\.f64", code)),
        "rounded": len(re.findall(r"\\b(?:mul|add|sub)\\.rn\\.f64", code)),
        "memory": "local_depot" in code,
    }


print(json.dumps([compile(*case) for case in (CASES)]))
"""


def run(code, **environment):
    return json.loads(run_python(code, **environment).splitlines()[-1])


def compile_ptx(cases, prelude=""):
    return run(prelude + PTX.replace("(CASES)", f"[{cases}]"))


def test_kernels_compile_without_fused_operations():
    (found,) = compile_ptx("(ib.LCB(), 3, ib.GaussianNoise(1.0))")
    assert found["entries"] == 1
    assert found["fused"] == found["free"] == 0
    assert found["rounded"] > 50, "the normal quantile alone has as many"
    assert not found["memory"], "few arms lie in registers"


@pytest.mark.long
def test_without_that_option_operations_would_be_fused():
    allowed = (
        "from contextlib import nullcontext\n"
        "from influential_bandits.gpu import toolkit\n"
        "toolkit.without_contraction = nullcontext\n"
    )
    (found,) = compile_ptx("(ib.LCB(), 3, ib.GaussianNoise(1.0))", allowed)
    assert found["fused"] > 20


def test_the_linker_does_not_optimise():
    code = (
        "import json\n"
        "from influential_bandits.gpu import toolkit\n"
        "def nothing(): pass\n"
        "options = [{}, {'device': True, 'forceinline': True}, {'max_registers': 64}]\n"
        "print(json.dumps([toolkit.jit(nothing, **o).targetoptions['lto'] for o in options]))"
    )
    assert run(code) == [False, False, False]


def test_kernels_are_kept_on_disk_unless_they_cannot_be(tmp_path):
    code = (
        "import json\n"
        "from types import SimpleNamespace\n"
        "from influential_bandits.gpu import launching, toolkit\n"
        "toolkit.cuda()\n"
        "class Linked:\n"
        "    def __reduce__(self):\n"
        "        raise RuntimeError('Cannot pickle CUDACodeLibrary with linking files')\n"
        "class Kept(launching.KernelCache):\n"
        "    def _name(self, sig):\n"
        "        return self.file_name(sig)\n"
        "launching._rebuilt = lambda states: states\n"
        "context = SimpleNamespace(refresh=lambda: None)\n"
        "told = []\n"
        "for states in ({'code': Linked()}, {'code': 'ptx'}):\n"
        "    cache = Kept('digest')\n"
        "    cache.save_overload('types', SimpleNamespace(_reduce_states=lambda: states))\n"
        "    told.append(cache.load_overload('types', context))\n"
        "print(json.dumps([*told, Kept('another').load_overload('types', context)]))"
    )
    told = run(code, NUMBA_CACHE_DIR=str(tmp_path))
    assert told == [None, {"code": "ptx"}, None]


@pytest.mark.long
def test_large_policies_compile_without_fused_operations():
    cases = "(ib.Foresight(), 3, ib.UniformNoise(1.0)), (ib.FEWA(), 20, ib.NoNoise())"
    for found in compile_ptx(cases):
        assert found["entries"] == 1
        assert found["fused"] == found["free"] == 0


def test_estimates_choose_what_exact_bounds_choose():
    """An inverse root of 19 bits, and bounds that differ by a few units in the last place."""
    generator, doubts = np.random.default_rng(3), []

    def find_lowest(c, s, radius, eligible):
        return int(np.argmin(s.mean - np.sqrt(radius / s.seen)))

    def exact(*arguments):
        doubts.append(arguments)
        return find_lowest(*arguments)

    def rough(x):
        mantissa, exponent = math.frexp(x**-0.5)
        return math.ldexp(round(mantissa * 2**19) / 2**19, exponent)

    choose = choose_by_estimates(exact, lambda s, eligible: -1, make_root(rough))
    for case in range(2000):
        arms, radius = int(generator.integers(1, 6)), float(generator.uniform(0.1, 40.0))
        seen = generator.integers(1, 10**6, arms)
        mean = np.sqrt(radius / seen) + generator.uniform(-5.0, 5.0)
        apart = generator.choice([0.0, 1e-16, 1e-14, 1e-11, 1e-9, 1e-3])
        s = SimpleNamespace(mean=mean + apart * generator.normal(size=arms), seen=seen)
        given = SimpleNamespace(n_arms=arms), s, radius, None
        assert choose(*given) == find_lowest(*given), f"case {case}"
    assert 500 < len(doubts) < 1500, "close bounds are computed exactly, others are not"


SIMULATED = """
import json
from dataclasses import dataclass
import numpy as np, scipy.sparse
import influential_bandits as ib

gpu = ib.GpuExecution()
worlds = [ib.random_instance(n_arms=3, seed=i) for i in range(2)]
fading = [ib.Instance(w.interaction, w.initial_loss, memory=m) for w in worlds for m in (1.0, 0.9)]
bands = scipy.sparse.diags_array([[0.5] * 5, [1.0] * 6, [0.5] * 5], offsets=[-1, 0, 1]).tocsr()
sparse = [ib.Instance(bands * (1 + m), np.arange(6.0), memory=m) for m in (1.0, 0.9)]
factors = ib.LowRankInteraction(np.arange(10.0).reshape(5, 2) / 10)
low_rank = [ib.Instance(factors, np.arange(5.0), memory=m) for m in (1.0, 0.9)]
recorded = ib.RecordedNoise(np.arange(80.0).reshape(2, 40) % 7)


@dataclass(frozen=True)
class Clicks(ib.Noise):
    factor: float = 0.5

    @staticmethod
    def observe(c, t, arm, expected, rng):
        return ib.random.uniform(rng, 0) < c.factor * expected


@dataclass(frozen=True)
class Wrong(ib.Policy):
    late: int = 30

    @staticmethod
    def select(c, s, t, eligible, rng):
        return 7 if t == c.late else 0


@dataclass(frozen=True)
class Means(ib.Policy):
    def fields(self, n_arms):
        return {"mean": ("float64", n_arms), "table": ("float64", (n_arms, 2))}

    def memo_size(self, n_arms):
        return 1

    @staticmethod
    def select(c, s, t, eligible, rng):
        values = np.empty(c.n_arms)
        values[:] = s.mean + s.table[:, 1] * ib.random.normal(rng, 0)
        return int(np.argmin(values))

    @staticmethod
    def pulled(c, s, t, arm, memo):
        memo[0] += t

    @staticmethod
    def observed(c, s, t, arm, memo, loss):
        s.mean[arm] += (loss - s.mean[arm]) / memo[0]
        s.table[arm, 1] = loss


normal = ib.GaussianNoise(1.0)
small = ib.GpuExecution(memory=3000)
cases = {
    "lcb": (worlds, ib.LCB(), normal, gpu, {}),
    "influential": (worlds, ib.InfluentialLCB(), ib.UniformNoise(1.0), gpu, {}),
    "opening": (worlds, ib.InfluentialLCB("estimate", "paper"), normal, gpu, {}),
    "model": (worlds, ib.Foresight(), normal, gpu, {}),
    "randomised": (worlds, ib.EXP3(), normal, gpu, {}),
    "tree": ([ib.random_instance(n_arms=40, seed=1)], ib.InfluentialLCB(), normal, gpu, {}),
    "oracle": (worlds, ib.OptimalOracle(), normal, gpu, {}),
    "recorded choices": (worlds, ib.LCB(), normal, gpu, {"record": ["choices", "losses"]}),
    "fading": (fading, ib.Foresight(), normal, gpu, {}),
    "sparse": (sparse, ib.LCB(), normal, gpu, {}),
    "low rank": (low_rank, ib.LCB(), normal, gpu, {}),
    "recorded noise": (worlds, ib.LCB(), recorded, gpu, {}),
    "own noise": (worlds, ib.LCB(), Clicks(), gpu, {}),
    "own policy": (worlds, Means(), normal, gpu, {}),
    "small card": (worlds, ib.LCB(), normal, small, {"record": "choices"}),
    "numbers": (worlds, ib.LCB(), normal, gpu, {"instance_numbers": [9, 4], "checkpoints": [3]}),
}
told = {}
for name, (instances, policy, noise, where, more) in cases.items():
    runs = [
        ib.simulate(
            instances, policy, 40, noise, seeds=2, execution=execution, progress=False, **more
        )
        for execution in (where, 1)
    ]
    pairs = [
        [getattr(run, array) for run in runs]
        for array in ("counts", "expected_loss", "choices", "losses")
    ]
    told[name] = all(a is b or np.array_equal(a, b) for a, b in pairs)
    told[name + " played"] = bool((runs[0].counts[:, :, -1].sum(axis=2) > 0).all())
for name, play in {
    "wrong": lambda: ib.simulate(worlds, Wrong(), 40, seeds=[3, 8], execution=gpu),
    "scenario": lambda: ib.simulate(
        worlds, ib.LCB(), 40, scenario=ib.Scenario(delay=2), execution=gpu
    ),
    "check": lambda: ib.simulate(worlds, ib.LCB(), 40, check=True, execution=gpu),
    "tiny": lambda: ib.simulate(worlds, ib.LCB(), 40, execution=ib.GpuExecution(memory=100)),
    "greedy": lambda: ib.GpuExecution(memory=1 << 60),
}.items():
    try:
        play()
    except ib.errors.InfluentialBanditsError as error:
        told[name] = f"{type(error).__name__}: {error}"
print(json.dumps(told))
"""


def test_the_simulator_plays_the_same_bits():
    told = run(SIMULATED, NUMBA_ENABLE_CUDASIM="1", NUMBA_DISABLE_JIT="1")
    errors = {name: told.pop(name) for name in ("wrong", "scenario", "check", "tiny", "greedy")}
    assert len(told) == 32
    assert [name for name, same in told.items() if not same] == []
    assert errors["wrong"] == (
        "InvalidPolicy: Wrong chose arm 7 in round 30 (instance 0, seed 3); the arms are 0 … 2"
    )
    assert errors["scenario"].startswith("NotApplicable: scenarios are not played on graphics")
    assert errors["check"].startswith("NotApplicable: indices are not checked on graphics")
    assert errors["tiny"].startswith("GpuError: one run takes")
    assert errors["greedy"].startswith("InvalidInput: memory must be at most")
