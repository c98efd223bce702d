"""Compare what plans promise with what they deliver: tables of docs/explanation/plans.md.

Worlds are drawn at random, logged by policies that know more or less of the instances, and planned
for. The gain delivered is played out in the true world: by the logging policy as it was, and by
the plan, for the same instances (or for others of the same kind). No two lines of the tables share
a world: each has random numbers of its own.

python docs/measurements/kept_promises.py [WORLDS] [PROCESSES] [SEED]
"""

import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

import influential_bandits as ib

ARMS, REPEATS, DAY = 5, 10, 86400.0
WORTHWHILE = 0.1  # gain per round, in standard deviations of the noise
KINDS = ("psd", "symmetric", "diagonal")


@dataclass(frozen=True)
class World:
    """What moves choices and losses; numbers of users, arms and matrices are drawn by a seed."""

    taste: float = 0.0  # how strongly choices follow what a user likes
    steering: float = 0.0  # how strongly they follow the losses met so far
    spells: bool = False  # steering comes and goes, three times as strong while it is there
    bursts: float = 0.0  # probability that an event repeats the arm before it
    strength: float = 0.3  # largest entry of A
    memory: float = 0.8
    half_life_days: float | None = None
    users: int = 300
    rounds: int = 60
    taste_drift: float = 0.0  # standard deviation of what a user likes by now, arm by arm
    power: float = 1.0  # of exposure: influence is A·(d/2)^power·2
    ceiling: float = np.inf  # of exposure: more of it has no more influence
    indefinite: bool = False  # A with both signs
    clicks: bool = False  # losses are 0 or 1, and all else is log odds
    fitted: float | None = None  # memory of the model, if it is not the true one
    new_users: bool = False  # the plan is played for users that the log has not met


CHOICES = {
    "as drawn": World(),
    "follow taste": World(taste=2.0),
    "follow past losses": World(steering=1.5),
    "follow both, in bursts": World(taste=1.0, steering=1.0, bursts=0.3),
}
INFLUENCE = {
    "none": {"strength": 0.0},
    "fades by events": {},
    "fades by the clock": {"half_life_days": 2.0},
    "lasts": {"strength": 0.02, "memory": 1.0},
}
HARD = {
    "steering comes and goes": {"steering": 1.5, "spells": True},
    "tastes drift, arm by arm": {"taste_drift": 0.7},
    "short histories (900 users × 8)": {"users": 900, "rounds": 8},
    "few users (90 × 200)": {"users": 90, "rounds": 200},
    "new users (90 × 60)": {"users": 90, "new_users": True},
    "memory 0.95, fitted 0.6": {"memory": 0.95, "strength": 0.1, "fitted": 0.6},
    "memory 0.5, fitted 0.9": {"memory": 0.5, "strength": 0.6, "fitted": 0.9},
    "influence grows with the square": {"power": 2.0},
    "influence saturates": {"power": 0.5},
    "influence stops growing after a showing": {"ceiling": 1.0, "strength": 0.6},
    "influence of both signs": {"indefinite": True},
    "clicks": {"clicks": True},
}


class Truth(NamedTuple):
    """The numbers of a world."""

    interaction: np.ndarray  # (arms, arms)
    popularity: np.ndarray  # (arms,)
    mean: np.ndarray  # (arms,): of the initial losses of all users there may be
    initial_losses: np.ndarray  # (users, arms)


class Played(NamedTuple):
    """Rounds of all users, (rounds, users) each."""

    arms: np.ndarray
    losses: np.ndarray
    times: np.ndarray  # in days
    expected: np.ndarray


def draw_truth(world: World, random: np.random.Generator) -> Truth:
    """Return random numbers for a world."""
    matrix = ib.data.planted_interaction(ARMS, world.strength, int(random.integers(2**31)))
    if world.indefinite:
        factor = random.normal(size=(ARMS, ARMS))
        matrix = world.strength * (factor + factor.T) / np.abs(factor + factor.T).max()
    mean = random.uniform(0.3, 1.3, ARMS)
    popularity = random.dirichlet(np.full(ARMS, 3.0))
    return Truth(matrix, popularity, mean, draw_users(mean, world.users, random))


def draw_users(mean: np.ndarray, number: int, random: np.random.Generator) -> np.ndarray:
    """Return initial losses of so many users, (users, arms)."""
    return mean + 0.5 * random.standard_normal((number, ARMS))


def play(
    world: World,
    truth: Truth,
    random: np.random.Generator,
    schedule: np.ndarray | None = None,
    gaps: bool = False,
) -> Played:
    """Play a schedule for all users, or the logging policy; a round a day, unless with gaps."""
    number = len(truth.initial_losses)
    rows, size = np.arange(number), (number, ARMS)
    past, seen, counts = np.zeros(size), np.zeros(size), np.zeros(size)
    drift = world.taste_drift * random.standard_normal(size)
    spell, time = np.zeros(number, bool), np.zeros(number)
    arm = last = np.zeros(number, int)
    out = []
    for n in range(world.rounds):
        likes = truth.initial_losses + drift
        again = np.zeros(number, bool)
        if schedule is None:
            mean = seen.sum(axis=1, keepdims=True) / max(n, 1)
            met = np.where(counts > 0, seen / np.maximum(counts, 1) - mean, 0.0)
            steering = np.full((number, 1), world.steering)
            if world.spells:
                spell ^= random.random(number) < 0.1
                steering = 3.0 * world.steering * spell[:, None]
            weight = np.log(truth.popularity) - world.taste * likes - steering * met
            drawn = (weight + random.gumbel(size=size)).argmax(axis=1)
            again = random.random(number) < (world.bursts if n else 0.0)
            arm = np.where(again, arm, drawn)
        else:
            arm = np.full(number, schedule[n])
        if n:
            gap = np.where(again, 30.0 / DAY, random.exponential(size=number)) if gaps else 1.0
            time = time + gap
            fade = (
                world.memory
                if world.half_life_days is None
                else 2.0 ** (-gap / world.half_life_days)
            )
            past *= np.broadcast_to(fade, number)[:, None]
            if world.half_life_days is None:
                past[rows, last] += 1.0 - world.memory  # the newest pull has not faded yet
        exposure = past if world.power == 1.0 else 2.0 * (past / 2.0) ** world.power
        exposure = np.minimum(exposure, world.ceiling)
        expected = likes[rows, arm] + (truth.interaction[arm] * exposure).sum(axis=1)
        loss = expected + random.standard_normal(number)
        if world.clicks:
            expected = 1.0 / (1.0 + np.exp(0.5 - expected))
            loss = (random.random(number) < expected).astype(float)
        out.append((arm, loss, time, expected))
        seen[rows, arm] += loss
        counts[rows, arm] += 1
        past[rows, arm] += 1.0
        last = arm
        drift = 0.95 * drift
        drift += world.taste_drift * np.sqrt(1.0 - 0.95**2) * random.standard_normal(size)
    return Played(*(np.array(column) for column in zip(*out, strict=True)))


def as_log(played: Played) -> ib.EventLog:
    """Return what was played as a log, users one after the other."""
    rounds, users = played.arms.shape
    events = {
        "user": np.repeat(np.arange(users), rounds),
        "time": DAY * played.times.T.ravel(),
        "arm": played.arms.T.ravel(),
        "loss": played.losses.T.ravel(),
    }
    return ib.read_log(events, instance="user", time="time", arm="arm", loss="loss")


def rounds_of(plan: ib.Plan, rounds: int) -> np.ndarray:
    """Return the rounds of a plan, by numbers of the true arms; of a mix, in any order."""
    arms = np.array([int(name) for name in plan.arm_names])
    if plan.schedule is not None:
        return arms[np.resize(plan.schedule, rounds)]
    ends = np.round(np.cumsum(plan.mix) * rounds).astype(int)
    return np.repeat(arms, np.diff(ends, prepend=0))


def keep_promise(world: World, seed: tuple[int, ...]) -> list[float]:
    """Return gain, interval, promise, whether supported, gain delivered; kinds of fits in turn."""
    random = np.random.default_rng(seed)
    truth = draw_truth(world, random)
    log = as_log(play(world, truth, random, gaps=True))
    fading = ib.Fading(world.fitted or world.memory)
    if world.half_life_days is not None:
        fading = ib.Fading(half_life=24.0 * world.half_life_days)
    days = None if world.half_life_days is None else 1.0
    many = np.tile(truth.initial_losses, (REPEATS, 1))
    if world.new_users:
        many = draw_users(truth.mean, len(many), random)
    others = truth._replace(initial_losses=many)
    logged = play(world, others, random).expected.mean()
    kind = KINDS[seed[-1] % len(KINDS)]
    model = ib.InfluenceModel(kind, pooling="full", fading=fading).fit(log, execution=1)
    found = ib.plan(model, log, world.rounds, days_between_rounds=days, execution=1)
    random = np.random.default_rng((*seed, 1))
    mine = play(world, others, random, rounds_of(found, world.rounds)).expected.mean()
    promised = [found.gain, found.low, found.high, found.promise, float(found.supported)]
    return [*promised, float(logged - mine)]


def main(worlds: int, processes: int | None, seed: int) -> None:
    """Print a table of usual worlds, and one of those that are hard for plans."""
    usual = [
        (choices, name, replace(world, **influence))
        for name, influence in INFLUENCE.items()
        for choices, world in CHOICES.items()
    ]
    hard = [
        (choices, name, replace(CHOICES[choices], **settings))
        for name, settings in HARD.items()
        for choices in ("as drawn", "follow both, in bursts")
    ]
    with ProcessPoolExecutor(processes) as pool:
        for number, lines in enumerate((usual, hard)):
            columns = ["choices", "world", "expected", "delivered", "kept", "worthwhile"]
            columns += ["supported", "of these below their interval", "below their promise"]
            columns += ["at a loss"]
            print("\n| " + " | ".join(columns) + " |\n" + "|---" * len(columns) + "|", flush=True)
            results = []
            for line, (choices, name, world) in enumerate(lines):
                work = partial(keep_promise, world)
                seeds = [(seed, number, line, n) for n in range(worlds)]
                results.append(np.array(list(pool.map(work, seeds))))
                print(f"| {choices} | {name} | {' | '.join(_cells(results[-1]))} |", flush=True)
            print(f"| all | | {' | '.join(_cells(np.concatenate(results)))} |", flush=True)


def _cells(found: np.ndarray) -> list[str]:
    """Return gains, how often intervals hold them, and how supported plans do."""
    gain, low, high, promise, supported, delivered = found.T
    kept, chosen, large = (low <= delivered) & (delivered <= high), supported > 0, WORTHWHILE
    return [
        f"{np.median(gain):.2f}",
        f"{np.median(delivered):.2f}",
        f"{100 * kept.mean():.0f} %",
        f"{(chosen & (delivered > large)).sum()} of {(delivered > large).sum()}",
        f"{chosen.sum()} of {chosen.size}",
        f"{(chosen & (delivered < low)).sum()}",
        f"{(chosen & (delivered < promise)).sum()}",
        f"{(chosen & (delivered < 0)).sum()}",
    ]


if __name__ == "__main__":
    given = [int(text) for text in sys.argv[1:]]
    main(*(given + [20, 1, 0][len(given) :]))
