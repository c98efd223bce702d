"""A graphics processor: the same bits as processors, and how many rounds a second.

Bars are absolute, and were set for one NVIDIA H200. Times are those of ``simulate``, from Python,
with everything copied; kernels are compiled beforehand, but where compiling is what is measured.
"""

import multiprocessing
import os
import subprocess
import sys
import tempfile
import time

import numpy as np

import influential_bandits as ib
from benchmarks.timing import Bar, Row, within
from influential_bandits.errors import GpuError, MissingExtra
from influential_bandits.studies.arena.families import FAMILIES, FIRST_INSTANCE
from influential_bandits.studies.arena.runs import can_play, list_default_policies

HORIZON = 10_000
INSTANCES = 8  # of a family: as few as are played on a graphics processor
PATIENCE = 600.0  # seconds for all comparisons
LONG = (ib.FEWA, ib.RAWUCB, ib.REdUCB, ib.RLessUCB)  # policies that take long to compile
UNIFORM, GAUSSIAN = ib.UniformNoise(1.0), ib.GaussianNoise(1.0)

# policy, arms, noise, horizon, runs, least rounds a second, those aimed at
SPEEDS = [
    (ib.InfluentialLCB(), 3, UNIFORM, 400_000, 1 << 19, 1e11, 3e11),
    (ib.InfluentialLCB(), 3, GAUSSIAN, 200_000, 1 << 19, 4e10, 1e11),
    (ib.LCB(), 3, UNIFORM, 100_000, 1 << 19, 1e11, 3e11),
    (ib.LCB(), 3, GAUSSIAN, 100_000, 1 << 19, 4e10, 1e11),
    (ib.InfluentialLCB(), 10, UNIFORM, 40_000, 1 << 19, 1e10, None),
    (ib.InfluentialLCB(), 10, GAUSSIAN, 40_000, 1 << 19, 1e10, None),
    (ib.ModelLCB(), 3, GAUSSIAN, 10_000, 1 << 16, 2e8, 1e9),
]
COMPILE_LIMIT = 60.0  # seconds, of ModelLCB

COMPILE = """
import time, influential_bandits as ib
gpu = ib.GpuExecution()
worlds = [ib.random_instance(n_arms=3, seed=i) for i in range(8)]
start = time.perf_counter()
ib.simulate(worlds, ib.{policy}(), 3, ib.GaussianNoise(1.0), execution=gpu, progress=False)
print(time.perf_counter() - start)
"""


def rows(quick):
    try:
        gpu = ib.GpuExecution()
    except (GpuError, MissingExtra) as error:
        print(f"no graphics processor is measured: {error}", file=sys.stderr)
        return
    yield from compile_rows()
    for policy, arms, noise, horizon, runs, least, aim in SPEEDS:
        yield speed_row(gpu, policy, arms, noise, horizon // (10 if quick else 1), runs, least, aim)
    yield from bit_rows(1000 if quick else HORIZON)


def speed_row(gpu, policy, arms, noise, horizon, runs, least, aim):
    """Row of the rounds a second of many instances, each with many seeds."""
    worlds = [ib.random_instance(n_arms=arms, seed=i) for i in range(64)]

    def play(rounds):
        return ib.simulate(
            worlds,
            policy,
            rounds,
            noise,
            seeds=runs // len(worlds),
            checkpoints=[rounds],
            execution=gpu,
            progress=False,
        )

    play(10)
    times = []
    for _ in range(3):
        start = time.perf_counter()
        play(horizon)
        times.append(time.perf_counter() - start)
    speed = runs * horizon / min(times)
    kind = "uniform" if noise is UNIFORM else "Gaussian"
    what = f"{policy.label}, K = {arms}, {kind} noise, {runs:,} runs of {horizon:,} rounds"
    note = "" if aim is None else f"aim {aim / 1e9:g}: {'met' if speed >= aim else 'missed'}"
    bar = Bar("≥", 1, "× limit")
    return Row(what, speed / 1e9, "G rounds/s", "limit", least / 1e9, speed / least, bar, note)


def compile_rows():
    """Rows of how long the first run of ModelLCB takes in a process: compiled, and from disk."""
    with tempfile.TemporaryDirectory() as folder:
        for note in ("compiled", "from disk"):
            environment = os.environ | {"NUMBA_CACHE_DIR": folder}
            code = COMPILE.format(policy="ModelLCB")
            done = subprocess.run(
                [sys.executable, "-c", code],
                env=environment,
                capture_output=True,
                text=True,
                check=True,
            )
            seconds = float(done.stdout.split()[-1])
            limit = COMPILE_LIMIT if note == "compiled" else 5.0
            yield within(f"ModelLCB, first run in a process, {note}", seconds, "s", limit)


def bit_rows(horizon, patience=PATIENCE):
    """Rows of how many families of the arena are played to the same bits, for each policy.

    Compiling takes most of the time, so that every core takes a part of the policies. What is not
    finished in time is called so.
    """
    tasks = sorted(jobs(horizon), key=cost, reverse=True)
    found = {policy.label: {} for policy in list_default_policies()}
    for place, names, _ in tasks:
        label = list_default_policies()[place].label
        found[label].update(dict.fromkeys(names, "not finished in time"))
    context = multiprocessing.get_context("spawn")
    told, waiting = context.SimpleQueue(), context.SimpleQueue()
    for task in tasks:
        waiting.put(task)
    workers = [
        context.Process(target=work_off, args=(waiting, told), daemon=True)
        for _ in range(max(1, min(len(os.sched_getaffinity(0)), 16)))
    ]
    for _ in workers:
        waiting.put(None)
    for worker in workers:
        worker.start()
    start = time.monotonic()
    while time.monotonic() - start < patience:
        alive = any(worker.is_alive() for worker in workers)  # asked before what they have told
        if not told.empty():
            label, name, said = told.get()
            found[label][name] = said
            passed = time.monotonic() - start
            print(f"{passed:5.0f} s  {label}, {name}: {said}", file=sys.stderr, flush=True)
        elif alive:
            time.sleep(0.1)
        else:
            break
    for worker in workers:
        worker.kill()
    for label, results in found.items():
        if not results:
            continue
        wrong = {name: said for name, said in results.items() if said != "equal"}
        note = "; ".join(f"{name}: {said}" for name, said in wrong.items())
        equal, all_of_them = len(results) - len(wrong), len(results)
        yield Row(
            f"{label}, families played to the same bits, T = {horizon:,}",
            equal,
            "families",
            "all that it plays",
            all_of_them,
            equal / all_of_them,
            Bar("≥", 1, "of them"),
            note,
        )


def jobs(horizon):
    """Yield policies with families for which they are compiled alike."""
    alike = {}
    for family in FAMILIES.values():
        world = family.make(0)
        key = world.n_arms, world.memory < 1.0, type(world.interaction), type(family.noise)
        alike.setdefault(key, []).append(family.name)
    for place, policy in enumerate(list_default_policies()):
        able = [
            [name for name in names if can_play(policy, FAMILIES[name].make(0))]
            for names in alike.values()
        ]
        if isinstance(policy, ib.ModelLCB):  # takes longer than all others
            yield from ((place, names, horizon) for names in able if names)
        else:
            yield place, [name for names in able for name in names], horizon


def cost(job):
    """How long a job takes, roughly: the longest come first."""
    place, names, _ = job
    policy = list_default_policies()[place]
    largest = max(FAMILIES[name].make(0).n_arms for name in names)
    if isinstance(policy, ib.ModelLCB):
        return 1000 + largest
    return (100 if isinstance(policy, LONG) else 1) * len(names)


def work_off(waiting, told):
    """Compare job after job, and tell what came of it, family by family."""
    gpu = ib.GpuExecution()
    while (job := waiting.get()) is not None:
        place, names, horizon = job
        policy = list_default_policies()[place]
        for name in names:
            told.put((policy.label, name, compare(gpu, policy, FAMILIES[name], horizon)))


def compare(gpu, policy, family, horizon):
    """Return whether both play the same: every choice, and every loss to its last bit."""
    runs = []
    for execution in (gpu, 1):
        try:
            run = ib.simulate(
                [family.make(n) for n in range(INSTANCES)],
                policy,
                horizon,
                family.noise,
                record=["choices", "losses"],
                execution=execution,
                progress=False,
                instance_numbers=[FIRST_INSTANCE + n for n in range(INSTANCES)],
            )
        except Exception as error:  # noqa: BLE001 - it is a row of the table
            return f"{type(error).__name__}: {' '.join(str(error).split()):.200}"
        runs.append(run)
    pairs = [
        [getattr(run, name) for run in runs]
        for name in ("counts", "choices", "losses", "expected_loss")
    ]
    wrong = [
        name
        for name, (ours, theirs) in zip(
            ("counts", "choices", "losses", "expected losses"), pairs, strict=True
        )
        if ours is not theirs and not np.array_equal(ours, theirs)
    ]
    return f"{', '.join(wrong)} differ" if wrong else "equal"
