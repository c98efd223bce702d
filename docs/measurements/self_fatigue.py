"""Count how often fatigue of few arms is seen, and mistaken for more.

Figures of docs/explanation/influence_test.md.
Users come at any time, arms are drawn at random, and nothing but the arm itself tires: no world of
the package is used.

python docs/measurements/self_fatigue.py [LOGS] [--seed SEED] [--world WORLD]
"""

import argparse

import numpy as np

import influential_bandits as ib

DAY = 86_400.0
LEVEL = 0.05


def draw_fatigue(
    seed: int, users: int, arms: int, tiring: int, amount: float, half_life: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.random.Generator]:
    """Return times in days, arms, and what showings of an arm took from it: (users, 60) each."""
    draw = np.random.default_rng(seed)
    days = draw.exponential(0.4, (users, 60)).cumsum(axis=1) + draw.uniform(0.0, 30.0, (users, 1))
    arm = draw.integers(arms, size=(users, 60))
    everybody, taken = np.arange(users), np.zeros((users, 60))
    faded = np.zeros((users, arms))
    for n in range(60):
        if n > 0:
            faded *= 2.0 ** (-(days[:, n] - days[:, n - 1]) / half_life)[:, None]
        taken[:, n] = amount * faded[everybody, arm[:, n]] * (arm[:, n] < tiring)
        faded[everybody, arm[:, n]] += 1.0
    return days, arm, taken, draw


def read(
    days: np.ndarray, arm: np.ndarray, outcome: np.ndarray, **role: str | float
) -> ib.EventLog:
    """Return the log of these events."""
    columns = {
        "user": np.repeat(np.arange(len(days)), days.shape[1]),
        "time": 1.7e9 + DAY * days.ravel(),
        "arm": np.char.add("arm ", arm.ravel().astype(str)),
        "outcome": outcome.ravel(),
    }
    return ib.read_log(columns, instance="user", arm="arm", time="time", **role)


def draw_clicks(seed: int, users: int = 1250, amount: float = 0.05) -> ib.EventLog:
    """Return 75,000 showings of 12 adverts: each showing of the first three takes 5 points."""
    days, arm, taken, draw = draw_fatigue(seed, users, 12, 3, amount, 2.0)
    chance = draw.uniform(0.15, 0.36, 12)[arm]
    chance += np.take_along_axis(0.05 * draw.standard_normal((users, 12)), arm, axis=1)
    click = draw.random(arm.shape) < np.clip(chance, 0.01, 0.95) - taken
    return read(days, arm, click.astype(int), reward="outcome")


def draw_ratings(seed: int) -> ib.EventLog:
    """Return 30,000 ratings in half stars: each showing of a genre takes 0.12 stars from it."""
    days, arm, taken, draw = draw_fatigue(seed, 500, 6, 6, 0.12, 2.0)
    stars = 3.4 + 0.3 * draw.standard_normal(6)[arm] + 0.4 * draw.standard_normal((500, 1))
    stars += np.take_along_axis(0.4 * draw.standard_normal((500, 6)), arm, axis=1) - taken
    rating = np.clip(np.round(2.0 * stars + 1.8 * draw.standard_normal(arm.shape)) / 2.0, 0.5, 5.0)
    return read(days, arm, rating, rating="outcome", best=5)


def draw_many_clicks(seed: int) -> ib.EventLog:
    """Return 200,000 such showings: each takes 4 points."""
    return draw_clicks(seed, 3333, 0.04)


WORLDS = {
    "clicks, 3 of 12 arms tire": draw_clicks,
    "200,000 clicks, 3 of 12 arms tire less": draw_many_clicks,
    "ratings, all arms tire": draw_ratings,
}


def main() -> None:
    """Print for each world in how many logs each family of tests sees something."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("logs", type=int, nargs="?", default=10)
    parser.add_argument("--seed", type=int, default=700_000, help="of the first log")
    parser.add_argument("--world", choices=WORLDS, help="one of them alone")
    given = parser.parse_args()
    families = ("arms on themselves", "arms on each other", "all arms alike")
    print(f"| world | logs | seen | {' | '.join(families)} |")
    print("|---|---|---|---|---|---|")
    for name, draw in WORLDS.items():
        if given.world not in (None, name):
            continue
        seen = np.zeros(4)
        for seed in range(given.seed, given.seed + given.logs):
            test = ib.influence_test(
                draw(seed), permutations=199, seed=seed, execution=1, progress=False
            )
            seen += [test.detected, *(family in test.seen for family in families)]
        print(f"| {name} | {given.logs} | {' | '.join(f'{n:g}' for n in seen)} |", flush=True)


if __name__ == "__main__":
    main()
