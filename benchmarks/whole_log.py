"""Print what one pass over a log of MovieLens' size takes: rows, seconds, and bytes at the peak.

``benchmarks.learning`` starts this in a process of its own, so that its peak is that of the pass
and nothing else. The log is drawn part by part as it is read; drawing it is not in the seconds.
"""

import json
import sys
import time
from functools import partial

import numpy as np

import influential_bandits as ib
from benchmarks.memory import status
from influential_bandits.datasets.synthetic import check_offsets, check_truth, draw_log
from influential_bandits.learning.solvers.partial import estimate_population, posterior_work
from influential_bandits.learning.statistics.design import SYMMETRIC, Design
from influential_bandits.learning.statistics.log_scan import sample_instances, scan_log
from influential_bandits.learning.statistics.pooled_sums import pooled_gram
from influential_bandits.learning.statistics.random_effects import (
    RandomEffects,
    estimate_random_effects,
)
from influential_bandits.learning.statistics.reduction import (
    apply_to_part,
    single_threaded_algebra,
    split_evenly,
)
from influential_bandits.logs.log import cut_histories

USERS = 200_948  # of MovieLens 32M
ARMS = 20
MEMORY = 0.8
PART = 1 << 22  # events
SETTINGS = {
    "interaction": ib.data.planted_interaction(ARMS, 0.05, seed=1),
    "memory": MEMORY,
    "noise": 0.9,
    "spread": 0.5,
    "interaction_spread": 0.01,
    "seed": 1,
}
EFFECTS = RandomEffects(0.3, 0.1, 0.8)


class Parts:
    """The log in parts, as often as it is read; counts rows, and seconds that drawing them took."""

    arm_names = tuple(map(str, range(ARMS)))

    def __init__(self, users):
        self.users, self.rows, self.seconds = users, 0, 0.0

    def __iter__(self):
        truth, offsets = check_truth(ARMS, **SETTINGS), check_offsets(self.users, "movielens", 1)
        self.rows = 0
        for start, stop in cut_histories(offsets, PART):
            began = time.perf_counter()
            part = draw_log(truth, start, offsets[start : stop + 1] - offsets[start], None)
            self.seconds += time.perf_counter() - began
            self.rows += len(part)
            yield part


def design(baseline, controls=1):
    return Design(ARMS, SYMMETRIC, MEMORY, 0.0, controls, 0.9, baseline)


def main(what, users):
    parts = Parts(users)
    with single_threaded_algebra():
        few = Parts(100)
        pooled_gram(few, design(np.zeros(ARMS)), EFFECTS)  # loads the compiled code
        start = time.perf_counter()
        if what == "statistics":
            pooled_gram(parts, design(np.zeros(ARMS)), EFFECTS)
        else:
            here = ib.LocalExecution()
            scan = scan_log(parts, 0, here)
            effects = estimate_random_effects(scan.sample, scan.sums.means)
            plan, some = design(scan.sums.means, 0), sample_instances(scan.sample, 0)
            prior = estimate_population(some, plan, True, effects, here)[1]
            work = partial(apply_to_part, posterior_work(plan, True, prior))
            list(here.map(work, split_evenly(parts)))
    seconds = time.perf_counter() - start - parts.seconds
    print(json.dumps({"rows": parts.rows, "seconds": seconds, "peak": status("VmHWM")}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
