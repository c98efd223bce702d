"""Should a fleet follow the drift of users' levels? What one gains that is told the level.

In this world a user's level moves from round to round: an autoregression with half of its deviation
gone after 14 rounds (0.95). One fleet hears losses as they are. Another hears them less the true
level, which no model of drift could know better: the difference is the most that one could gain.
Regret is that of arms; the level is the same for all of them. Run with the number of populations:
``python docs/fleet_drift.py 6``.
"""

import math
import sys

import numpy as np

import influential_bandits as ib

FIRST = 9300  # seeds below a million are not those of compare-fleets
USERS, ROUNDS, MEMORY = 150, 50, 0.95


def serve(population: ib.Population, drift: float, told: bool, seed: int) -> float:
    """Return the mean regret of users 51–150; ``drift`` is the deviation of a level, σ = 1."""
    rng = np.random.default_rng(seed)
    fleet = ib.Fleet(arms=population.n_arms)
    regrets = []
    for user, world in enumerate(population.draw(USERS, seed).instances()):
        environment = ib.Environment(world, ib.GaussianNoise(1.0), seed, user)
        level = drift * rng.normal()
        for _ in range(ROUNDS):
            ticket = fleet.pull(str(user))
            loss = environment.pull(ticket.arm)
            fleet.observe(ticket, loss if told else loss + level)
            level = MEMORY * level + drift * math.sqrt(1.0 - MEMORY**2) * rng.normal()
        regrets.append(float(ib.regret(world, environment.counts)))
    return float(np.mean(regrets[50:]))


def main(many: int) -> None:
    """Print mean regrets of a user with and without knowing the level, and what drift costs."""
    for size in (0.1, 1.0):
        for drift in (0.0, 0.5, 1.0):
            found: dict[bool, list[float]] = {True: [], False: []}
            for seed in range(FIRST, FIRST + many):
                typical = ib.random_instance(5, seed)
                matrix = size * typical.interaction.to_dense()
                people = ib.Population(matrix, 0.5 * typical.initial_loss, 0.49, stay=ROUNDS)
                for told in (True, False) if drift else (True,):
                    found[told].append(serve(people, drift, told, seed))
            known = np.array(found[True])
            line = f"max A {size}, drift {drift}: {known.mean():.2f} told the level"
            if drift:
                heard = np.array(found[False])
                error = np.std(heard - known, ddof=1) / math.sqrt(many)
                line += f", {heard.mean():.2f} not told; difference {np.mean(heard - known):.2f}"
                line += f" ± {error:.2f}"
            print(line, flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 6)
