"""What approximate exposures cost a fleet: the same users, served both ways.

Beyond 8 arms a fleet keeps two exposures of each arm instead of one for each pair of arms. Here few
arms are served both ways; run with the number of populations:
``python docs/measurements/fleet_exposures.py 6``.
"""

import math
import sys

import numpy as np

import influential_bandits as ib

FIRST = 7100  # seeds below a million are not those of compare-fleets
USERS = 300


def make_population(seed: int, size: float, stay: int) -> ib.Population:
    """Return a population as those of compare-fleets are, from other seeds."""
    typical = ib.random_instance(5, seed)
    matrix = size * typical.interaction.to_dense()
    return ib.Population(matrix, 0.5 * typical.initial_loss, 0.7**2, stay=stay)


def main(many: int) -> None:
    """Print mean regrets of a user, exact and approximate, and their paired difference."""
    for size, stay in ((0.1, 30), (0.1, 100), (1.0, 100)):
        found = {}
        for exact in (True, False):
            found[exact] = np.array(
                [
                    ib.simulate_fleet(
                        make_population(seed, size, stay),
                        ib.FleetLCB(exact=exact),
                        USERS,
                        seed,
                        progress=False,
                    ).regret()
                    for seed in range(FIRST, FIRST + many)
                ]
            )
        for first, last in ((0, 50), (50, USERS)):
            exact, short = (found[way][:, first:last].mean(axis=1) for way in (True, False))
            error = np.std(short - exact, ddof=1) / math.sqrt(many)
            print(
                f"max A {size}, {stay} rounds, users {first + 1}–{last}: {exact.mean():.2f} exact, "
                f"{short.mean():.2f} approximate, difference {np.mean(short - exact):.2f} ± "
                f"{error:.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 6)
