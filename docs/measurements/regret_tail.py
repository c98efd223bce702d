"""Print the tail of regrets over many random instances, the table of docs/explanation/scaling.md.

Policies are played on a graphics processor if there is one; regrets are computed on all cores.

python -m docs.measurements.regret_tail [INSTANCES] [HORIZON]
"""

import multiprocessing
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np

import influential_bandits as ib

POLICIES = (ib.Foresight(), ib.InfluentialLCB(), ib.LCB())
SHARES = (50, 90, 99, 99.9, 100)
AT_ONCE = 100_000  # instances
CHUNK = 2_000  # instances whose regrets a process computes at a time


def make_worlds(numbers: Sequence[int]) -> list[ib.Instance]:
    """Return the random instances of the paper with these numbers."""
    return [ib.random_instance(3, number) for number in numbers]


def play(
    where: ib.GpuExecution | None,
    policy: ib.Policy,
    horizon: int,
    numbers: Sequence[int],
    worlds: list[ib.Instance],
) -> Any:
    """Return the counts after the last round, (instances, arms)."""
    run = ib.simulate(
        worlds,
        policy,
        horizon,
        ib.GaussianNoise(1.0),
        checkpoints=[horizon],
        execution=where,
        progress=False,
        instance_numbers=numbers,
    )
    return run.counts[:, 0, 0]


def find_regrets(policy: ib.Policy, horizon: int, numbers: Sequence[int], counts: Any) -> Any:
    """Return the regret of each instance."""
    worlds, noise = tuple(make_worlds(numbers)), ib.GaussianNoise(1.0)
    seeds, marks = np.zeros(1, np.uint64), np.array([horizon])
    run = ib.Trajectory(worlds, policy, noise, seeds, marks, counts[:, None, None])
    return run.regret()[:, 0, 0]


def main(instances: int = 2_000, horizon: int = 10_000) -> None:
    """Play, and print a line for each policy."""
    try:
        where = ib.GpuExecution()
    except (ib.errors.GpuError, ib.errors.MissingExtra):
        where = None
    shares = " | ".join(f"{share:g} %" for share in SHARES)
    print(f"| regret, T = {horizon:,}, {instances:,} instances | {shares} | mean | played in |")
    print("|---" * (len(SHARES) + 3) + "|")
    spawn = multiprocessing.get_context("spawn")  # a fork would share the card
    with ProcessPoolExecutor(len(os.sched_getaffinity(0)), spawn) as pool:
        seconds = dict.fromkeys(POLICIES, 0.0)
        parts: dict[ib.Policy, list[Any]] = {policy: [] for policy in POLICIES}
        for first in range(0, instances, AT_ONCE):
            numbers = range(first, min(first + AT_ONCE, instances))
            worlds = make_worlds(numbers)
            for policy in POLICIES:
                start = time.monotonic()
                counts = play(where, policy, horizon, numbers, worlds)
                seconds[policy] += time.monotonic() - start
                for begin in range(0, len(numbers), CHUNK):
                    some = slice(begin, begin + CHUNK)
                    given = policy, horizon, numbers[some], counts[some]
                    parts[policy].append(pool.submit(find_regrets, *given))
        for policy in POLICIES:
            regrets = np.concatenate([part.result() for part in parts[policy]])
            cells = [f"{x:,.0f}" for x in (*np.percentile(regrets, SHARES), regrets.mean())]
            print(f"| {policy.label} | {' | '.join(cells)} | {seconds[policy]:.0f} s |", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
