"""Print what one pass over a log of MovieLens' size takes: rows, seconds, and bytes at the peak.

``benchmarks.learning`` starts this in a process of its own, so that its peak is that of the pass
and nothing else. The log is drawn part by part as it is read; drawing it is not in the seconds.
"""

import json
import sys
import time

import numpy as np

import influential_bandits as ib
from benchmarks.memory import status
from influential_bandits.learning.statistics.design import SYMMETRIC, Design
from influential_bandits.learning.statistics.pooled_sums import pooled_gram
from influential_bandits.learning.statistics.random_effects import RandomEffects
from influential_bandits.learning.statistics.reduction import single_threaded_algebra
from influential_bandits.logs.log import cut_histories

USERS = 200_948  # of MovieLens 32M
ARMS = 20
MEMORY = 0.8
PART = 1 << 22  # events
SHORTEST = 20  # events, as in MovieLens 32M, where histories have 159.2 on average,
MEDIAN_BEYOND = 53.0  # … a median of 73,
SPREAD_BEYOND = 1.39  # … and √(2·log(139.2/53)) gives that average to 20 + a lognormal
SETTINGS = {
    "n_arms": ARMS,
    "interaction": ib.data.planted_interaction(ARMS, 0.05, seed=1),
    "memory": MEMORY,
    "noise": 0.9,
    "spread": 0.5,
}
EFFECTS = RandomEffects(0.3, 0.1, 0.8)


class Parts:
    """The log in parts, as often as it is read; counts rows, and seconds that drawing them took."""

    arm_names = tuple(map(str, range(ARMS)))

    def __init__(self, users):
        self.users, self.rows, self.seconds = users, 0, 0.0

    def __iter__(self):
        lengths = draw_lengths(self.users)
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        self.rows = 0
        for start, stop in cut_histories(offsets, PART):
            began = time.perf_counter()
            part = ib.data.synthetic_log(stop - start, lengths[start:stop], **SETTINGS, seed=start)
            self.seconds += time.perf_counter() - began
            self.rows += len(part)
            yield part


def draw_lengths(users):
    """Return lengths of histories like those of MovieLens 32M: 20 + a rounded lognormal."""
    beyond = np.exp(SPREAD_BEYOND * np.random.default_rng(1).standard_normal(users))
    return SHORTEST + np.round(MEDIAN_BEYOND * beyond).astype(int)


def design(baseline, controls=1):
    return Design(ARMS, SYMMETRIC, MEMORY, 0.0, controls, 0.9, baseline)


def main(users):
    parts = Parts(users)
    with single_threaded_algebra():
        few = Parts(100)
        pooled_gram(few, design(np.zeros(ARMS)), EFFECTS)  # loads the compiled code
        start = time.perf_counter()
        pooled_gram(parts, design(np.zeros(ARMS)), EFFECTS)
    seconds = time.perf_counter() - start - parts.seconds
    print(json.dumps({"rows": parts.rows, "seconds": seconds, "peak": status("VmHWM")}))


if __name__ == "__main__":
    main(int(sys.argv[1]))
