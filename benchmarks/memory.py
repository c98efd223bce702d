"""Print the bytes that regret() takes at once: traced by Python, and resident (null if unknown).

``benchmarks.large`` starts this in a process of its own, because memory that earlier work has left
behind would be used again and not be seen. Python does not trace the arrays of compiled code; the
operating system sees every page, but only Linux can be asked.
"""

import json
import re
import sys
import tracemalloc
from pathlib import Path

import numpy as np

import influential_bandits as ib

PROCESS = Path("/proc/self")


def main(arms, rank):
    ib.regret(*case(100, rank))  # loads the compiled code
    resident = resident_peak(*case(arms, rank))
    instance, counts = case(arms, rank)
    tracemalloc.start()
    ib.regret(instance, counts)
    print(json.dumps({"traced": tracemalloc.get_traced_memory()[1], "resident": resident}))


def case(arms, rank):
    return ib.random_instance(arms, 0, rank), np.random.default_rng(0).poisson(10.0, arms)


def resident_peak(instance, counts):
    try:
        (PROCESS / "clear_refs").write_text("5")  # the highest mark starts again from here
        before = status("VmRSS")
        ib.regret(instance, counts)
        return status("VmHWM") - before
    except OSError:
        return None


def status(name):
    kilobytes = re.search(rf"{name}:\s+(\d+)", (PROCESS / "status").read_text())[1]
    return 1024 * int(kilobytes)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
