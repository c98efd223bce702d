"""Compare what plans promise with what they deliver, and print the table of docs/learning.md.

Worlds are drawn at random, logged by policies that know more or less of the instances, and planned
for. The gain delivered is played out in the true world: by the logging policy as it was, and by
the plan, for the same instances.

python docs/kept_promises.py [WORLDS] [PROCESSES]
"""

import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import numpy as np

import influential_bandits as ib
from influential_bandits.datasets.synthetic import PlantedTruth

ARMS, INSTANCES, EVENTS, REPEATS = 5, 300, 60, 10
KINDS = ("psd", "symmetric", "diagonal")
CHOICES = {
    "as drawn": {},
    "follow taste": {"taste": 2.0},
    "follow past losses": {"steering": 1.5},
    "follow both, in bursts": {"taste": 1.0, "steering": 1.0, "bursts": 0.3},
}
INFLUENCE = {
    "none": (0.0, {"memory": 0.8}),
    "fades by events": (0.3, {"memory": 0.8}),
    "fades by the clock": (0.3, {"half_life": 2.0}),
    "lasts": (0.02, {"memory": 1.0}),
}


def draw_log(choices: str, influence: str, seed: int) -> ib.EventLog:
    """Return a log of a random world."""
    random = np.random.default_rng(seed)
    strength, memory = INFLUENCE[influence]
    return ib.data.synthetic_log(
        INSTANCES,
        EVENTS,
        ARMS,
        interaction=ib.data.planted_interaction(ARMS, strength, seed),
        initial_loss=random.uniform(0.3, 1.3, ARMS),
        popularity=random.dirichlet(np.full(ARMS, 3.0)),
        spread=0.5,
        seed=seed,
        execution=1,
        **memory,
        **CHOICES[choices],
    )


def play_out(
    truth: PlantedTruth, schedule: np.ndarray | None, random: np.random.Generator
) -> float:
    """Return the mean loss per round in the true world; without a schedule, of its own policy."""
    repeats = REPEATS if schedule is None else 1
    initial = np.tile(truth.initial_losses, (repeats, 1))
    matrices = np.tile(truth.interactions, (repeats, 1, 1))
    rows, total = np.arange(len(initial)), 0.0
    past, seen, counts = (np.zeros_like(initial) for _ in range(3))
    arm, left = np.zeros(len(initial), int), truth.memory
    if truth.half_life is not None:
        left = 2.0 ** (-1.0 / truth.half_life)  # one round a day
    for n in range(EVENTS):
        if schedule is None:
            mean = seen.sum(axis=1, keepdims=True) / max(n, 1)
            met = np.where(counts > 0, seen / np.maximum(counts, 1) - mean, 0.0)
            weight = np.log(truth.popularity) - truth.taste * initial - truth.steering * met
            drawn = (weight + random.gumbel(size=weight.shape)).argmax(axis=1)
            again = random.random(len(arm)) < truth.bursts if n else np.zeros(len(arm), bool)
            arm = np.where(again, arm, drawn)
        else:
            arm = np.full(len(arm), schedule[n])
        expected = initial[rows, arm] + (matrices[rows, arm] * past).sum(axis=1)
        total += expected.mean()
        seen[rows, arm] += expected + truth.noise * random.standard_normal(len(arm))
        counts[rows, arm] += 1
        if truth.half_life is not None:
            past[rows, arm] += 1
            past *= left
        else:
            past *= left
            past[rows, arm] += 1
    return total / EVENTS


def rounds_of(plan: ib.Plan) -> np.ndarray:
    """Return the rounds of a plan; of a mix, in any order."""
    if plan.schedule is not None:
        return np.resize(plan.schedule, EVENTS)
    ends = np.round(np.cumsum(plan.mix) * EVENTS).astype(int)
    return np.repeat(np.arange(ARMS), np.diff(ends, prepend=0))


def keep_promise(choices: str, influence: str, kind: str, seed: int) -> tuple[float, ...]:
    """Return gain promised with its interval, gain delivered, and whether it is supported."""
    log = draw_log(choices, influence, seed)
    truth = log.about["truth"]
    memory = INFLUENCE[influence][1]
    model = ib.InfluenceModel(kind, pooling="full", **memory).fit(log, execution=1)
    days = None if truth.half_life is None else 1.0
    found = ib.plan(model, EVENTS, log=log, days_between_rounds=days, execution=1)
    random = np.random.default_rng(seed)
    delivered = play_out(truth, None, random) - play_out(truth, rounds_of(found), random)
    return found.gain, found.low, found.high, delivered, float(found.supported)


def main(worlds: int, processes: int | None) -> None:
    """Print a line for each kind of choices and influence."""
    columns = ["choices", "influence", "promised", "delivered", *(f"kept, {k}" for k in KINDS)]
    columns += ["supported", "of these below the interval", "of these at a loss"]
    print("| " + " | ".join(columns) + " |\n" + "|---" * len(columns) + "|", flush=True)
    results = []
    with ProcessPoolExecutor(processes) as pool:
        for influence in INFLUENCE:
            for choices in CHOICES:
                tasks = [(kind, seed) for kind in KINDS for seed in range(worlds)]
                work = partial(keep_promise, choices, influence)
                found = np.array(list(pool.map(work, *zip(*tasks, strict=True))))
                results.append(found.reshape(len(KINDS), worlds, -1))
                print(
                    f"| {choices} | {influence} | {' | '.join(_cells(results[-1]))} |", flush=True
                )
    print("All:", ", ".join(_cells(np.concatenate(results, axis=1))))


def _cells(found: np.ndarray) -> list[str]:
    """Return gains, how often each kind of fit keeps its promise, and how supported plans do."""
    gain, low, high, delivered, supported = np.moveaxis(found, 2, 0)
    kept = ((low <= delivered) & (delivered <= high)).mean(axis=1)
    chosen = supported > 0
    return [
        f"{gain.mean():.2f}",
        f"{delivered.mean():.2f}",
        *(f"{100 * rate:.0f} %" for rate in kept),
        f"{chosen.sum()} of {chosen.size}",
        f"{(chosen & (delivered < low)).sum()}",
        f"{(chosen & (delivered < 0)).sum()}",
    ]


if __name__ == "__main__":
    given = [int(text) for text in sys.argv[1:]]
    main(given[0] if given else 20, given[1] if len(given) > 1 else None)
