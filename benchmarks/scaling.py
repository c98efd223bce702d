"""How the time per round grows with the number of arms and with the horizon; for information."""

import influential_bandits as ib
from benchmarks.engine import nanoseconds
from benchmarks.timing import Row

NOISE = ib.GaussianNoise(1.0)


def rows(quick):
    for arms in (2**n for n in range(1, 10)):
        instance = ib.random_instance(n_arms=arms, seed=0)
        yield row(f"K = {arms}", instance, 50_000 if quick else 200_000, 3 if quick else 10)
    instance = ib.random_instance(n_arms=3, seed=0)
    for exponent in range(4, 7 if quick else 9):
        horizon = 10**exponent
        # Long runs average over disturbances by themselves.
        repetitions = max(1, min(50, 20_000_000 // horizon))
        yield row(f"K = 3, T = 10^{exponent}", instance, horizon, repetitions)


def row(what, instance, horizon, repetitions):
    times = nanoseconds(instance, horizon, NOISE, repetitions, ("-O3",), seeds=[0])
    ours, theirs = times["ours"], times["C -O3"]
    ratio = None if theirs is None else ours / theirs
    peer = "no compiler" if theirs is None else "C -O3, scanning"
    return Row(what, ours, "ns/round", peer, theirs, ratio)
