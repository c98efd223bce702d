"""What it is worth that a fleet follows the drift of users' levels.

In these populations a user's level moves from round to round: an autoregression (0.95) whose
deviation is stated. Three fleets serve the same users: one that takes levels for constant, one that
is told how they move, and one that finds it out. Regret is that of arms; the level is the same for
all of them. Run with the number of populations: ``python docs/measurements/fleet_drift.py 16``.
"""

import math
import sys

import numpy as np

import influential_bandits as ib

FIRST = 9500  # seeds below a million are not those of compare-fleets
USERS, ROUNDS = 150, 50
WAYS = ("not followed", "told", "estimated")


def serve(seed: int, size: float, drift: float, way: str) -> tuple[float, float]:
    """Return the mean regrets of users 1–50 and 51–150; ``drift`` is a deviation, σ = 1."""
    typical = ib.random_instance(5, seed)
    people = ib.Population(
        size * typical.interaction.to_dense(),
        0.5 * typical.initial_loss,
        0.49,
        stay=ROUNDS,
        drift=drift,
    )
    given: float | str = {"not followed": 0.0, "told": drift, "estimated": "estimate"}[way]
    policy = ib.FleetLCB(drift=given)
    regrets = ib.simulate_fleet(people, policy, USERS, seed, progress=False).regret()
    return float(regrets[:50].mean()), float(regrets[50:].mean())


def main(many: int) -> None:
    """Print mean regrets of a user, and differences to the fleet that takes levels for constant."""
    for size in (0.1, 1.0):
        for drift in (0.0, 0.5, 1.0):
            seeds = range(FIRST, FIRST + many)
            found = {
                way: np.array([serve(seed, size, drift, way) for seed in seeds]) for way in WAYS
            }
            for way, regrets in found.items():
                less = regrets - found[WAYS[0]]
                error = np.std(less, axis=0, ddof=1) / math.sqrt(many)
                parts = [
                    f"{who} {mean:.2f}, {change:+.2f} ± {of:.2f}"
                    for who, mean, change, of in zip(
                        ("users 1–50", "51–150"),
                        regrets.mean(axis=0),
                        less.mean(axis=0),
                        error,
                        strict=True,
                    )
                ]
                print(f"max A {size}, drift {drift}, {way}: {'; '.join(parts)}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 16)
