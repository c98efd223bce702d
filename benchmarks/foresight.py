"""Foresight: time a round beside its limits, and beside a Kalman update of every pair in NumPy."""

import numpy as np

import influential_bandits as ib
from benchmarks.timing import Row, fastest, within

NOISE = ib.GaussianNoise(1.0)
ROUNDS = {3: 100_000, 10: 10_000, 20: 10_000, 50: 10_000, 1_000: 10_000}
LIMITS = {20: (50.0, True), 1_000: (1_000.0, False)}


def rows(quick):
    repetitions = 1 if quick else 5
    times, _ = fastest({arms: play(arms, rounds) for arms, rounds in ROUNDS.items()}, repetitions)
    for arms, rounds in ROUNDS.items():
        ours = 1e6 * times[arms] / rounds
        what, note = f"Foresight, K = {arms:,}", f"mean of {rounds:,} rounds"
        if arms in LIMITS:
            limit, must = LIMITS[arms]
            yield within(what, ours, "µs/round", limit, must, note)
        if arms <= 20:
            yield against_numpy(what, ours, arms, repetitions)
        elif arms not in LIMITS:
            yield Row(what, ours, "µs/round", note=note)


def play(arms, rounds):
    instance = ib.random_instance(n_arms=arms, seed=0)
    return lambda: ib.simulate(
        instance, ib.Foresight(), rounds, NOISE, checkpoints=[rounds], execution=1, progress=False
    )


def against_numpy(what, ours, arms, repetitions):
    """Compare with the update of a joint covariance of levels and pairs in NumPy, and no more."""
    size = arms * (arms + 3) // 2
    features = np.random.default_rng(0).normal(size=size)

    def update():
        covariance = np.eye(size)
        for _ in range(200):
            gain = covariance @ features
            covariance -= np.outer(gain, gain / (1.0 + features @ gain))

    times, _ = fastest({"update": update}, repetitions)
    theirs = 1e6 * times["update"] / 200
    return Row(what, ours, "µs/round", "covariance update, NumPy", theirs, ours / theirs)
