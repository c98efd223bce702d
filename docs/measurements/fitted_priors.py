"""Compare Foresight that starts from a fitted prior with one that starts cold, where memory fades.

Each world has a log of its own, of instances that differ; the policies play for other instances of
the same kind. Policies meet the same noise, so that their difference has little of it.

python docs/measurements/fitted_priors.py [WORLDS] [SEED]
"""

import sys

import numpy as np

import influential_bandits as ib

ARMS, NEWCOMERS, HORIZONS = 4, 20, [30, 100, 300, 1000]
LOGS = {"a long log (300 × 60)": (300, 60), "a short log (40 × 25)": (40, 25)}
WORLDS = {
    "no influence": (0.0, 0.5, {"memory": 0.8}),
    "memory 0.5": (0.5, 0.5, {"memory": 0.5}),
    "memory 0.8": (0.3, 0.5, {"memory": 0.8}),
    "memory 0.95": (0.15, 0.5, {"memory": 0.95}),
    "half-life of two days": (0.3, 0.5, {"half_life_days": 2.0}),
    "memory 0.8, all users alike": (0.3, 0.0, {"memory": 0.8}),
    "memory 0.8, choices follow taste": (0.3, 0.5, {"memory": 0.8, "taste": 2.0}),
    "memory 0.95, fitted 0.6": (0.15, 0.5, {"memory": 0.95, "fitted": 0.6}),
}


def compare(name: str, size: tuple[int, int], seed: int) -> np.ndarray:
    """Return the loss per round up to each horizon of warm, cold and uniform, (3, horizons)."""
    strength, spread, settings = WORLDS[name]
    random = np.random.default_rng([seed, *size])
    settings = dict(settings)
    fitted = settings.pop("fitted", None)
    matrix = ib.data.planted_interaction(ARMS, strength, int(random.integers(2**31)))
    mean = random.uniform(0.3, 1.3, ARMS)
    number = int(random.integers(2**31))
    world = {"interaction": matrix, "initial_loss": mean, "spread": spread, **settings}
    log = ib.data.synthetic_log(*size, ARMS, seed=number, execution=1, **world)
    fading = ib.Fading(fitted or settings.get("memory", 1.0))
    if "half_life_days" in settings and fitted is None:
        fading = ib.Fading(half_life=24.0 * settings["half_life_days"])
    model = ib.InfluenceModel("psd", pooling="full", fading=fading).fit(log, execution=1)
    life = 24.0 * settings["half_life_days"] if "half_life_days" in settings else None
    times = None if life is None else 86400.0 * np.arange(HORIZONS[-1])  # a round a day
    first = mean + spread * random.standard_normal((NEWCOMERS, ARMS))
    fades = {"memory": settings.get("memory", 1.0), "half_life": life}
    people = [ib.Instance(matrix, loss, **fades) for loss in first]
    policies = {
        "warm": ib.Foresight(prior=model.prior()),
        "cold": ib.Foresight(),
        "uniform": ib.Uniform(),
    }
    noise, seeds = ib.GaussianNoise(1.0), [number]
    options = {"record": "losses", "execution": 1, "progress": False}
    if times is not None:
        options["scenario"] = ib.Scenario(times=times)
    played = ib.simulate(people, policies, HORIZONS[-1], noise, seeds, **options)
    losses = [np.asarray(run.losses)[:, 0].mean(axis=0).cumsum() for run in played.values()]
    return np.array(losses)[:, np.array(HORIZONS) - 1] / HORIZONS


def main(worlds: int, first: int) -> None:
    """Print how much more warm loses than cold, and cold, for each world and horizon."""
    print("| world | log | " + " | ".join(f"T = {t:,}" for t in HORIZONS) + " |")
    print("|---" * (2 + len(HORIZONS)) + "|", flush=True)
    for name in WORLDS:
        for log, size in LOGS.items():
            found = np.array([compare(name, size, first + n) for n in range(worlds)])
            warm, cold, _ = found.mean(axis=0)
            error = (found[:, 0] - found[:, 1]).std(axis=0, ddof=1) / np.sqrt(worlds)
            cells = [
                f"{w:.3f} − {c:.3f} = {w - c:+.3f} ± {e:.3f}"
                for w, c, e in zip(warm, cold, error, strict=True)
            ]
            print(f"| {name} | {log} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    given = [int(text) for text in sys.argv[1:]]
    main(given[0] if given else 20, given[1] if len(given) > 1 else 0)
