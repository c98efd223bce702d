"""One core, few arms, many runs: SIMD lanes against a C loop and against the general loop."""

import numpy as np

import influential_bandits as ib
from benchmarks.engine import NOISES, nanoseconds, player
from benchmarks.timing import Bar, Row, fastest

SEEDS = range(16)
FEW = 4  # as many runs as the general loop keeps for itself
BARS = {
    "uniform noise": Bar("≥", 4, "× its rounds/s"),
    "Gaussian noise": Bar("≥", 2, "× its rounds/s"),
}


def rows(quick):
    horizon, repetitions = (300_000, 3) if quick else (1_000_000, 10)
    instance = ib.random_instance(n_arms=3, seed=0)
    for noise, bar in BARS.items():
        yield against_c(noise, bar, instance, horizon, repetitions)
    for arms in range(2, 13):
        yield against_general(ib.InfluentialLCB(), arms, "Gaussian noise", 300_000, repetitions)
    for arms in (3, 12):
        yield against_general(ib.LCB(), arms, "Gaussian noise", 300_000, repetitions)


def against_c(noise, bar, instance, horizon, repetitions):
    """Row of the rounds per second beside those of the faster C loop, run after run."""
    times = nanoseconds(instance, horizon, NOISES[noise], repetitions, ("-O2", "-O3"), SEEDS)
    ours = times.pop("ours")
    known = {peer: theirs for peer, theirs in times.items() if theirs is not None}
    what = f"InfluentialLCB, K = 3, {noise}, {len(SEEDS)} runs in lanes"
    if not known:
        return Row(what, ours, "ns/round", "C", bar=bar, note="no compiler")
    peer = min(known, key=known.get)
    ratio = known[peer] / ours
    return Row(what, ours, "ns/round", peer, known[peer], ratio, bar, "same counts")


def against_general(policy, arms, noise, horizon, repetitions):
    """Row of the same runs, a few at a time: the general loop plays them one after another."""
    instance = ib.random_instance(n_arms=arms, seed=0)
    parts = [SEEDS[start : start + FEW] for start in range(0, len(SEEDS), FEW)]
    few = [player(policy, instance, horizon, NOISES[noise], part) for part in parts]
    jobs = {
        "lanes": player(policy, instance, horizon, NOISES[noise], SEEDS),
        "general": lambda: np.concatenate([play() for play in few]),
    }
    times, counts = fastest(jobs, repetitions)
    np.testing.assert_array_equal(counts["lanes"], counts["general"])
    ours, theirs = (1e9 * times[name] / (horizon * len(SEEDS)) for name in jobs)
    what = f"{type(policy).__name__}, K = {arms}, {noise}, {len(SEEDS)} runs in lanes"
    return Row(what, ours, "ns/round", "general loop", theirs, theirs / ours, None, "same counts")
