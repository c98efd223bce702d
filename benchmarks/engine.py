"""One core, K = 3: the engine against a C loop, and how long everything around it takes."""

import numpy as np

import influential_bandits as ib
from benchmarks.c_loop import compiled
from benchmarks.timing import Bar, Row, fastest

SEEDS = range(4)
NOISES = {
    "Gaussian noise": ib.GaussianNoise(1.0),
    "uniform noise": ib.UniformNoise(1.0),
    "no noise": ib.NoNoise(),
}


def rows(quick):
    horizon, repetitions = (200_000, 5) if quick else (500_000, 25)
    instance = ib.random_instance(n_arms=3, seed=0)
    bar = Bar("≤", 1.5, "× its time")
    for name, noise in NOISES.items():
        times = nanoseconds(instance, horizon, noise, repetitions, ("-O3", "-O2"))
        for peer, theirs in times.items():
            if peer != "ours":
                yield Row(
                    f"InfluentialLCB, K = 3, {name}",
                    times["ours"],
                    "ns/round",
                    peer,
                    theirs,
                    None if theirs is None else times["ours"] / theirs,
                    bar if name == "Gaussian noise" else None,
                    "no compiler" if theirs is None else "same counts",
                )
    times, _ = fastest(
        {noise: player(ib.LCB(), instance, horizon, NOISES[noise]) for noise in NOISES},
        repetitions,
    )
    for name, seconds in times.items():
        yield Row(f"LCB, K = 3, {name}", 1e9 * seconds / (horizon * len(SEEDS)), "ns/round")
    yield step_by_step(instance, 2_000 if quick else 20_000, repetitions=5)


def player(policy, instance, horizon, noise, seeds=SEEDS):
    """Return a job that plays on one core and returns the counts (seeds, arms)."""

    def play():
        run = ib.simulate(
            instance, policy, horizon, noise, seeds, [horizon], execution=1, progress=False
        )
        return run.counts[0, :, -1]

    return play


def nanoseconds(instance, horizon, noise, repetitions, optimisations, seeds=SEEDS):
    """Return ns per round of ours and of each C loop (None: no compiler); all counts must agree."""
    jobs = {"ours": player(ib.InfluentialLCB(), instance, horizon, noise, seeds)}
    for optimisation in optimisations:
        if (loop := compiled(optimisation)) is not None:
            jobs[f"C {optimisation}"] = lambda loop=loop: loop(instance, horizon, noise, seeds)
    times, counts = fastest(jobs, repetitions)
    for name, theirs in counts.items():
        np.testing.assert_array_equal(counts["ours"], theirs, f"{name} played otherwise")
    rounds = horizon * len(seeds)
    missing = dict.fromkeys(f"C {optimisation}" for optimisation in optimisations)
    return missing | {name: 1e9 * seconds / rounds for name, seconds in times.items()}


def step_by_step(instance, horizon, repetitions):
    noise = ib.GaussianNoise(1.0)

    def play():
        agent, environment = ib.Agent(ib.InfluentialLCB(), 3), ib.Environment(instance, noise)
        for _ in range(horizon):
            ticket = agent.pull()
            agent.observe(ticket, environment.pull(ticket.arm))
        return environment.counts

    times, counts = fastest({"steps": play}, repetitions)
    run = ib.simulate(instance, ib.InfluentialLCB(), horizon, noise)
    np.testing.assert_array_equal(counts["steps"], run.counts[0, 0, -1])
    return Row(
        "Agent + Environment, K = 3",
        1e6 * times["steps"] / horizon,
        "µs/round",
        note="step by step; same counts",
    )
