"""What it is worth to a fleet to be told the half-life; prints the rows of explanation/fleets.md.

python docs/measurements/fleet_half_life.py
"""

import numpy as np

import influential_bandits as ib

A = np.array([[0.3, 0.1, 0.0], [0.1, 0.2, -0.1], [0.0, -0.1, 0.4]])
HALF_LIFE = 6.0
WORLDS = {
    "every quarter of an hour, two hours a day": (1.0, 10, 40.0, 2.0),
    "every forty minutes, four hours a day": (1.0, 40, 60.0, 4.0),
    "the same, A three tenths as large": (0.3, 40, 60.0, 4.0),
}
POLICIES = (ib.Foresight(half_life=HALF_LIFE), ib.Foresight(), ib.Foresight(memory=1.0))


def main() -> None:
    """Play, and print."""
    for name, (size, together, rounds, hours) in WORLDS.items():
        people = ib.Population(
            size * A,
            [0.0, 0.2, 0.1],
            0.5,
            stay=40,
            concurrency=together,
            rounds_per_hour=rounds,
            open_hours=hours,
            half_life=HALF_LIFE,
        )
        means = [
            np.mean([ib.simulate_fleet(people, policy, 200, seed).losses for seed in range(1, 5)])
            for policy in POLICIES
        ]
        print(f"| {name} | " + " | ".join(f"{mean:.2f}".replace("-", "−") for mean in means) + " |")


if __name__ == "__main__":
    main()
