"""Should a fleet follow the drift of users' levels? What one gains that is told the level.

In this world a user's level moves from round to round: an autoregression (0.95) whose deviation is
stated. Three fleets serve the same users. One hears losses as they are. One hears them less the
true level: no model of drift could do better. One follows the level as a drift model would, from
surprises, by a Kalman filter that is told how levels move. Regret is that of arms; the level is the
same for all of them. Run with the number of populations:
``python docs/measurements/fleet_drift.py 4``.
"""

import math
import sys

import numpy as np

import influential_bandits as ib

FIRST = 9300  # seeds below a million are not those of compare-fleets
USERS, ROUNDS, MEMORY = 150, 50, 0.95


def serve(population: ib.Population, drift: float, way: str, seed: int) -> float:
    """Return the mean regret of users 51–150; ``drift`` is the deviation of a level, σ = 1."""
    rng = np.random.default_rng(seed)
    fleet = ib.Fleet(arms=population.n_arms)
    regrets = []
    fresh = drift**2 * (1.0 - MEMORY**2)  # variance that is new in each round
    for user, world in enumerate(population.draw(USERS, seed).instances()):
        environment = ib.Environment(world, ib.GaussianNoise(1.0), seed, user)
        level, followed, variance = drift * rng.normal(), 0.0, drift**2
        for _ in range(ROUNDS):
            ticket = fleet.pull(str(user))
            loss = environment.pull(ticket.arm) + level
            heard = loss - {"as they are": 0.0, "told": level, "followed": followed}[way]
            if way == "followed":
                mean, deviation = (
                    values[ticket.arm] for values in fleet.expected_losses(str(user))
                )
                gain = variance / (variance + 1.0 + deviation**2)
                followed = MEMORY * (followed + gain * (heard - mean))
                variance = MEMORY**2 * (1.0 - gain) * variance + fresh
            fleet.observe(ticket, heard)
            level = MEMORY * level + math.sqrt(fresh) * rng.normal()
        regrets.append(float(ib.regret(world, environment.counts)))
    return float(np.mean(regrets[50:]))


def main(many: int) -> None:
    """Print mean regrets of a user for each way to hear losses, and differences to the first."""
    for size in (0.1, 1.0):
        for drift in (0.5, 1.0):
            found: dict[str, list[float]] = {"as they are": [], "followed": [], "told": []}
            for seed in range(FIRST, FIRST + many):
                typical = ib.random_instance(5, seed)
                matrix = size * typical.interaction.to_dense()
                people = ib.Population(matrix, 0.5 * typical.initial_loss, 0.49, stay=ROUNDS)
                for way, regrets in found.items():
                    regrets.append(serve(people, drift, way, seed))
            plain = np.array(found["as they are"])
            for way, regrets in found.items():
                less = np.array(regrets) - plain
                error = np.std(less, ddof=1) / math.sqrt(many)
                print(
                    f"max A {size}, drift {drift}, losses {way}: {np.mean(regrets):.2f}, "
                    f"{less.mean():.2f} ± {error:.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 4)
