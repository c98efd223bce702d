"""Print what a job takes: processor seconds, and bytes traced by Python and resident (or null).

    python -m benchmarks.memory regret ARMS RANK
    python -m benchmarks.memory simulate HORIZON SEEDS
    python -m benchmarks.memory fleet USERS ARMS

``benchmarks.large`` starts this in a process of its own, because memory that earlier work has left
behind would be used again and not be seen. Python does not trace the arrays of compiled code; the
operating system sees every page, but only Linux can be asked.
"""

import json
import re
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import numpy as np

import influential_bandits as ib

PROCESS = Path("/proc/self")


def measured(job, *sizes):
    """Return the answer of another process: ``seconds``, ``traced`` and ``resident`` of a job."""
    command = [sys.executable, "-m", "benchmarks.memory", job, *map(str, sizes)]
    answer = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(answer.stdout)


def main(job, *sizes):
    prepare, play, small, traceable = JOBS[job]
    play(*prepare(*small))  # loads the compiled code
    start = time.process_time()
    resident = resident_peak(play, prepare(*sizes))
    seconds = time.process_time() - start
    traced = traced_peak(play, prepare(*sizes)) if traceable else None
    print(json.dumps({"seconds": seconds, "traced": traced, "resident": resident}))


def low_rank_case(arms, rank):
    return ib.random_instance(arms, 0, rank), np.random.default_rng(0).poisson(10.0, arms)


def three_arms(horizon, seeds):
    return ib.random_instance(n_arms=3, seed=0), horizon, seeds


def play_on_one_core(instance, horizon, seeds):
    ib.simulate(
        instance,
        ib.InfluentialLCB(),
        horizon,
        ib.UniformNoise(1.0),
        range(seeds),
        [horizon],
        execution=1,
        progress=False,
    )


def fleet_of(users, arms):
    return ib.Fleet(arms=arms), users


def meet_users(fleet, users):
    """Show each an arm; no loss comes in: what is kept of a user does not depend on that."""
    for user in range(users):
        fleet.cancel(fleet.pull(str(user), arm=user % fleet.n_arms))


# How to prepare and do it, a size that compiles the same code, and whether it is quick enough to
# be done once more for Python's own tracing.
JOBS = {
    "regret": (low_rank_case, ib.regret, (100, 16), True),
    "simulate": (three_arms, play_on_one_core, (300_000, 16), False),
    "simulate one": (three_arms, play_on_one_core, (1000, 1), False),
    "fleet": (fleet_of, meet_users, (10, 20), False),
}


def resident_peak(play, arguments):
    try:
        (PROCESS / "clear_refs").write_text("5")  # the highest mark starts again from here
        before = status("VmRSS")
    except OSError:
        play(*arguments)
        return None
    play(*arguments)
    return status("VmHWM") - before


def traced_peak(play, arguments):
    tracemalloc.start()
    play(*arguments)
    return tracemalloc.get_traced_memory()[1]


def status(name):
    kilobytes = re.search(rf"{name}:\s+(\d+)", (PROCESS / "status").read_text())[1]
    return 1024 * int(kilobytes)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
