"""How long a new process takes, with the compiled code of an earlier one in the cache."""

import subprocess
import sys

from benchmarks.measuring import fastest, within

# os._exit, because the answer is known before the interpreter has tidied up.
FIRST_RESULT = """
import os
import influential_bandits as ib
instance = ib.random_instance(arms=3, seed=0)
run = ib.simulate(instance, ib.InfluentialLCB(), 10_000, ib.GaussianNoise(1.0), seeds=range(10))
assert (run.regret() >= 0).all()
os._exit(0)
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


def python(*arguments):
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
