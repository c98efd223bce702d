"""What a log is worth to a fleet: one of its own population, and one of other people.

Users who were shown arms at random are fitted, and a fleet starts from that. It serves new users of
the same population, or of one that has nothing in common with the log; a cold fleet serves the same
users. Run with the number of populations: ``python docs/measurements/fleet_from_logs.py 6``.
"""

import math
import sys
from collections import defaultdict

import numpy as np

import influential_bandits as ib

FIRST = 8200  # seeds below a million are not those of compare-fleets
ROUNDS, LOGGED, SERVED = 40, 80, 300
WINDOWS = ((0, 40), (40, 200), (200, SERVED))


def make_population(seed: int) -> ib.Population:
    """Return four arms with max A = 0.3."""
    typical = ib.random_instance(4, seed)
    matrix = 0.3 * typical.interaction.to_dense()
    return ib.Population(matrix, 0.5 * typical.initial_loss, 0.49, stay=ROUNDS)


def make_log(population: ib.Population, seed: int) -> ib.EventLog:
    """Return the log of users who were shown arms at random."""
    rng = np.random.default_rng(seed)
    fleet = ib.Fleet(arms=population.n_arms, history=True)
    for user, world in enumerate(population.draw(LOGGED, seed).instances()):
        environment = ib.Environment(world, ib.GaussianNoise(1.0), seed, user)
        for _ in range(ROUNDS):
            ticket = fleet.pull(str(user), arm=int(rng.integers(population.n_arms)))
            fleet.observe(ticket, environment.pull(ticket.arm))
    return fleet.to_log()


def main(many: int, first: int = FIRST) -> None:
    """Print mean regrets of a user, as multiples of those of a cold fleet."""
    found = defaultdict(list)
    for seed in range(first, first + many):
        population, others = make_population(seed), make_population(seed + 1_000)
        policies = {"cold": ib.Foresight()}
        for name, people in (("own log", population), ("others' log", others)):
            log = make_log(people, seed)
            policies[name] = ib.InfluenceModel(pooling="full").fit(log).fleet().policy
        for name, policy in policies.items():
            run = ib.simulate_fleet(population, policy, SERVED, seed, progress=False)
            found[name].append([run.regret()[a:b].mean() for a, b in WINDOWS])
    cold = np.array(found["cold"])
    for name, regrets in found.items():
        for w, (a, b) in enumerate(WINDOWS):
            mean = np.mean(regrets, axis=0)[w]
            error = np.std(np.array(regrets)[:, w] - cold[:, w], ddof=1) / math.sqrt(many)
            print(
                f"{name}, users {a + 1}–{b}: {mean:.2f}, {mean / cold[:, w].mean():.2f} of a cold "
                f"fleet's; difference ± {error:.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:])) if len(sys.argv) > 1 else main(6)
