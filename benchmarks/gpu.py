"""A graphics processor: the same bits as processors, and how many rounds a second.

Bars are absolute, and were set for one NVIDIA H200. Times are those of ``simulate``, from Python,
with everything copied; kernels are compiled beforehand, but where compiling is what is measured.
``python -m benchmarks.gpu bits --policies Foresight --families block`` does a part of it.
"""

import argparse
import hashlib
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

import influential_bandits as ib
from benchmarks.timing import Bar, Row, within
from influential_bandits.errors import GpuError, MissingExtra
from influential_bandits.gpu import kernels
from influential_bandits.studies.compare.families import FAMILIES, FIRST_INSTANCE
from influential_bandits.studies.compare.instance_runs import can_play, list_default_policies

HORIZON = 10_000
INSTANCES = 8  # of a family: as few as are played on a graphics processor
PATIENCE = 600.0  # seconds for all comparisons
PLAYED_AT_ONCE = 32  # policies on a family
LONG = (ib.FEWA, ib.RAWUCB, ib.REdUCB, ib.RLessUCB)  # policies that take long to compile
UNIFORM, GAUSSIAN = ib.UniformNoise(1.0), ib.GaussianNoise(1.0)

# policy, arms, noise, horizon, runs, least rounds a second, those aimed at
SPEEDS = [
    (ib.InfluentialLCB(), 3, UNIFORM, 400_000, 1 << 19, 1e11, 3e11),
    (ib.InfluentialLCB(), 3, GAUSSIAN, 200_000, 1 << 19, 4e10, 1e11),
    (ib.LCB(), 3, UNIFORM, 400_000, 1 << 19, 1e11, 3e11),
    (ib.LCB(), 3, GAUSSIAN, 200_000, 1 << 19, 4e10, 1e11),
    (ib.InfluentialLCB(), 10, UNIFORM, 40_000, 1 << 19, 1e10, None),
    (ib.InfluentialLCB(), 10, GAUSSIAN, 40_000, 1 << 19, 1e10, None),
    (ib.Foresight(), 3, GAUSSIAN, 10_000, 1 << 16, 2e8, 1e9),
]
COMPILE_LIMIT = 60.0  # seconds, of Foresight

COMPILE = """
import time, influential_bandits as ib
gpu = ib.GpuExecution()
worlds = [ib.random_instance(n_arms=3, seed=i) for i in range(8)]
start = time.perf_counter()
ib.simulate(worlds, ib.{policy}(), 3, ib.GaussianNoise(1.0), execution=gpu, progress=False)
print(time.perf_counter() - start)
"""


def rows(quick):
    if has_device():
        yield from compile_rows()
        yield from speed_rows(quick)
        yield from bit_rows(jobs(1000 if quick else HORIZON))


def has_device():
    """Tell whether there is a graphics processor; if not, say why."""
    try:
        ib.GpuExecution()
    except (GpuError, MissingExtra) as error:
        print(f"no graphics processor is measured: {error}", file=sys.stderr)
        return False
    return True


def speed_rows(quick):
    """Rows of rounds a second."""
    gpu = ib.GpuExecution()
    for policy, arms, noise, horizon, runs, least, aim in SPEEDS:
        yield speed_row(gpu, policy, arms, noise, horizon // (10 if quick else 1), runs, least, aim)


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
    """Rows of how long the first run of Foresight takes in a process: compiled, and from disk."""
    with tempfile.TemporaryDirectory() as folder:
        for note in ("compiled", "from disk"):
            environment = os.environ | {"NUMBA_CACHE_DIR": folder}
            code = COMPILE.format(policy="Foresight")
            done = subprocess.run(
                [sys.executable, "-c", code],
                env=environment,
                capture_output=True,
                text=True,
                check=True,
            )
            seconds = float(done.stdout.split()[-1])
            limit = COMPILE_LIMIT if note == "compiled" else 5.0
            yield within(f"Foresight, first run in a process, {note}", seconds, "s", limit)


def bit_rows(tasks, patience=PATIENCE):
    """Rows of how many families of the arena are played to the same bits, for each policy.

    Compiling takes most of the time, and so processes on all cores compile, and play here. This one
    plays there: processes that share a graphics processor take turns on it. What is not finished in
    time is called so.
    """
    tasks = sorted(tasks, key=cost, reverse=True)
    found = {}
    for job in tasks:
        found.setdefault(job.title, {}).update(dict.fromkeys(job.families, "not finished in time"))
    context = multiprocessing.get_context("spawn")
    told, waiting = context.SimpleQueue(), context.SimpleQueue()
    workers = [
        context.Process(target=work_off, args=(waiting, told), daemon=True)
        for _ in range(max(1, min(len(os.sched_getaffinity(0)), 16)))
    ]
    for task in [*tasks, *(None for _ in workers)]:
        waiting.put(task)
    for worker in workers:
        worker.start()
    there = ThreadPoolExecutor(PLAYED_AT_ONCE)
    gpu, halves, start = ib.GpuExecution(), {}, time.monotonic()
    left = {(job.title, name) for job in tasks for name in job.families}
    while left and time.monotonic() - start < patience:
        for key, half in list(halves.items()):
            if isinstance(half.get("there"), Future) and half["there"].done():
                half["there"] = half["there"].result()
            if len(half) == 2 and not isinstance(half["there"], Future):
                said = judge(half)
                found[key[0]][key[1]] = said
                times = ", ".join(f"{place} {half[place][1]:.0f} s" for place in half)
                words = f"{time.monotonic() - start:5.0f} s  {', '.join(key)}: {said} ({times})"
                print(words, file=sys.stderr, flush=True)
                left.discard(key)
                del halves[key]
        if told.empty():
            if not any(worker.is_alive() for worker in workers) and not halves:
                break
            time.sleep(0.05)
            continue
        job, name, result = told.get()
        half = halves.setdefault((job.title, name), {})
        if result is None:  # compiled
            worlds = make_worlds(name)  # by this thread: families remember what they have made
            half["there"] = there.submit(play, gpu, job, name, worlds)
        else:
            half.update(result)
    for worker in workers:
        worker.kill()
    gpu._stopped.set()  # between two launches
    there.shutdown(wait=True, cancel_futures=True)
    horizon = tasks[0].horizon if tasks else 0
    for title, results in found.items():
        wrong = {name: said for name, said in results.items() if said != "equal"}
        note = "; ".join(f"{name}: {said}" for name, said in wrong.items())
        equal, all_of_them = len(results) - len(wrong), len(results)
        yield Row(
            f"{title}, families played to the same bits, T = {horizon:,}",
            equal,
            "families",
            "all that it plays",
            all_of_them,
            equal / all_of_them,
            Bar("≥", 1, "of them"),
            note,
        )


class Job(NamedTuple):
    """A policy, and families to compare on, one after the other."""

    place: int  # of the policy
    families: list[str]
    horizon: int
    plain: bool  # without registers

    @property
    def policy(self):
        return list_default_policies()[self.place]

    @property
    def title(self):
        return f"{self.policy.label}{' without registers' if self.plain else ''}"


def jobs(horizon, policies=(), families=()):
    """Yield policies with families for which they are compiled alike."""
    alike = {}
    for family in FAMILIES.values():
        world = family.make(0)
        key = world.n_arms, world.memory < 1.0, type(world.interaction), type(family.noise)
        if family.name in (families or FAMILIES):
            alike.setdefault(key, []).append(family.name)
    for place, policy in enumerate(list_default_policies()):
        if policies and policy.label not in policies:
            continue
        able = [
            [name for name in names if can_play(policy, FAMILIES[name].make(0))]
            for names in alike.values()
        ]
        if isinstance(policy, ib.Foresight):  # takes longer than all others
            yield from (Job(place, names, horizon, False) for names in able if names)
            continue
        names = [name for names in able for name in names]
        if names:
            yield Job(place, names, horizon, False)
            if isinstance(policy, (ib.LCB, ib.InfluentialLCB)):
                yield Job(place, names, horizon, True)


def cost(job):
    """How long a job takes, roughly: the longest come first."""
    largest = max(FAMILIES[name].make(0).n_arms for name in job.families)
    if isinstance(job.policy, ib.Foresight):
        return 1000 + largest
    return (100 if isinstance(job.policy, LONG) else 1) * len(job.families)


def work_off(waiting, told):
    """Compile for there, then play here; tell both, family by family."""
    most = kernels.MOST_NUMBERS
    while (job := waiting.get()) is not None:
        kernels.MOST_NUMBERS = -1 if job.plain else most
        for name in job.families:
            if job.plain:  # only this process can compile it so
                told.put((job, name, {"there": play(ib.GpuExecution(), job, name)}))
            else:
                compile_kernel(job, name)
                told.put((job, name, None))
            threads = INSTANCES if isinstance(job.policy, ib.Foresight) else 1  # it takes longest
            told.put((job, name, {"here": play(threads, job, name)}))


def compile_kernel(job, name):
    """Compile a kernel, which is kept on disk; what fails is told when it is played."""
    play(ib.GpuExecution(), job._replace(horizon=1), name)


def make_worlds(name):
    """Return the instances of a family that are played."""
    return [FAMILIES[name].make(n) for n in range(INSTANCES)]


def play(execution, job, name, worlds=None):
    """Return checksums of every choice and of every loss to its last bit, or an error; and time.

    A first launch is of few rounds, and each of the next of several times as many, so that runs go
    on between launches.
    """
    family, start = FAMILIES[name], time.monotonic()
    try:
        run = ib.simulate(
            worlds or make_worlds(name),
            job.policy,
            job.horizon,
            family.noise,
            record=["choices", "losses"],
            execution=execution,
            progress=False,
            instance_numbers=[FIRST_INSTANCE + n for n in range(INSTANCES)],
        )
    except Exception as error:  # noqa: BLE001 - it is a row of the table
        return f"{type(error).__name__}: {' '.join(str(error).split()):.200}", 0.0
    arrays = {"choices": run.choices, "losses": run.losses, "counts": run.counts}
    if run.expected_loss is not None:
        arrays["expected losses"] = run.expected_loss
    sums = {what: hashlib.sha256(array.tobytes()).hexdigest() for what, array in arrays.items()}
    return sums, time.monotonic() - start


def judge(half):
    """Say whether what was played there is what was played here."""
    there, here = half["there"][0], half["here"][0]
    for result in (there, here):
        if isinstance(result, str):
            return result
    wrong = [what for what in here if here[what] != there[what]]
    return f"{', '.join(wrong)} differ" if wrong else "equal"


def main():
    """Measure a part."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("part", choices=["compile", "speed", "bits"])
    parser.add_argument("--policies", nargs="*", default=(), help="labels; by default all")
    parser.add_argument("--families", nargs="*", default=(), help="of the arena; by default all")
    parser.add_argument("--patience", type=float, default=PATIENCE, help="seconds for bits")
    options = parser.parse_args()
    if not has_device():
        return
    chosen = {
        "compile": compile_rows,
        "speed": lambda: speed_rows(quick=False),
        "bits": lambda: bit_rows(
            jobs(HORIZON, options.policies, options.families), options.patience
        ),
    }[options.part]
    for row in chosen():
        met = {True: "met", False: "missed", None: ""}[row.met]
        print(f"{row.what}: {row.ours:.4g} {row.unit} ({row.peer} {row.theirs}): {met} {row.note}")


if __name__ == "__main__":
    main()
