"""Count the false alarms of the test of influence, and print the table of docs/learning.md.

python docs/false_alarms.py [RUNS]
"""

import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import numpy as np

import influential_bandits as ib

ARMS = 5
LOGS = {
    "nothing but differences between instances": {},
    "drift and bursts": {"drift": 0.5, "bursts": 0.5},
    "and past losses steer choices": {"drift": 0.5, "bursts": 0.3, "steering": 1.5},
    "people choose what they like": {"drift": 0.5, "bursts": 0.3, "taste": 2.0},
}


def p_values(settings: dict[str, float], size: tuple[int, int], seed: int) -> list[float]:
    """Return the p-values of the three looks at one log without influence."""
    popularity = np.random.default_rng(1).dirichlet(np.full(ARMS, 2.0))
    log = ib.data.synthetic_log(
        *size, ARMS, spread=0.3, popularity=popularity, seed=seed, execution=1, **settings
    )
    found = ib.influence_test(log, permutations=199, seed=seed, execution=1, progress=False)
    return [look.p_value for look in (found.overall, found.self_influence, found.cross_influence)]


def main(runs: int) -> None:
    """Print how often each look calls chance an influence, at 5 %."""
    print("| logs | instances × events | runs | any pair | on themselves | on each other |")
    print("|---|---|---|---|---|---|")
    with ProcessPoolExecutor() as pool:
        for size in ((300, 60), (100, 400)):
            for name, settings in LOGS.items():
                found = pool.map(partial(p_values, settings, size), range(runs))
                rates = 100.0 * (np.array(list(found)) <= 0.05).mean(axis=0)
                cells = " | ".join(f"{rate:.1f} %" for rate in rates)
                print(f"| {name} | {size[0]} × {size[1]} | {runs} | {cells} |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 400)
