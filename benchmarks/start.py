"""How long a new process takes: with compiled code on disk, and without."""

import os
import subprocess
import sys
import tempfile

from benchmarks.timing import Row, fastest, within

# os._exit, because the answer is known before the interpreter has tidied up.
FIRST_RESULT = """
import os
import influential_bandits as ib
instance = ib.random_instance(n_arms=3, seed=0)
run = ib.simulate(instance, ib.InfluentialLCB(), 10_000, ib.GaussianNoise(1.0), seeds=range(10))
assert (run.regret() >= 0).all()
os._exit(0)
"""
# The first call ever: CPU time of compiling, beside that of the same calls with the code on disk.
FIRST_CALL = """
import sys, time
import influential_bandits as ib
instance = ib.random_instance(n_arms=3, seed=0)
policy = getattr(ib, sys.argv[1])()
start = time.process_time()
ib.simulate(instance, policy, 100, ib.GaussianNoise(1.0), progress=False)
print(time.process_time() - start)
"""
IMPORTS = "import os, numpy, numba, scipy.sparse, rich.progress; os._exit(0)"


def rows(quick):
    jobs = {
        "result": lambda: python("-c", FIRST_RESULT),
        "imports": lambda: python("-c", IMPORTS),
        "help": lambda: python("-m", "influential_bandits.cli", "--help"),
        "python": lambda: python("-c", "pass"),
    }
    times, _ = fastest(jobs, 3 if quick else 10)
    note = f"its third-party imports alone: {times['imports']:.2f} s"
    yield within("new process: simulate() and regret()", times["result"], "s", 2.0, note=note)
    note = f"Python alone: {times['python']:.3f} s"
    yield within("new process: --help", times["help"], "s", 0.4, must=False, note=note)
    for policy in ("LCB",) if quick else ("LCB", "InfluentialLCB", "Foresight"):
        with tempfile.TemporaryDirectory() as folder:
            first, second = first_call(policy, folder), first_call(policy, folder)
        yield Row(f"first simulate() ever: {policy}", first, "s of CPU", "the next process", second)


def first_call(policy, folder):
    """CPU time of a first call, by a process with this folder for compiled code."""
    done = subprocess.run(
        [sys.executable, "-c", FIRST_CALL, policy],
        env=os.environ | {"NUMBA_CACHE_DIR": folder},
        check=True,
        capture_output=True,
        text=True,
    )
    return float(done.stdout)


def python(*arguments):
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
