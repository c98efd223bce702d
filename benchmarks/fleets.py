"""Fleets on one core: a decision with its update, and what a user takes of memory."""

import time

import numpy as np

import influential_bandits as ib
from benchmarks.memory import measured
from benchmarks.timing import Bar, Row, fastest, within

ARMS, STAY = 20, 100


def rows(quick):
    yield from per_decision(200 if quick else 1000)
    yield memory(100_000 if quick else 1_000_000)


def population(concurrency, unlike=False):
    instance = ib.random_instance(ARMS, seed=0)
    matrix = 0.1 * instance.interaction.to_dense()
    return ib.Population(
        matrix, np.zeros(ARMS), 0.49, unlike=unlike, stay=STAY, concurrency=concurrency
    )


def per_decision(users):
    """Time a decision, its world and its update, of the first users and of later ones.

    What a call costs whoever comes (some 70 ms) is taken out: it is the time of
    a single user.
    """
    for name, concurrency in (("one after the other", 1), ("500 at a time", 500)):
        people = population(concurrency)

        def serve(n, people=people):
            return lambda: ib.simulate_fleet(people, n_users=n, progress=False)

        jobs = {n: serve(n) for n in (1, users, 3 * users)}
        times, _ = fastest(jobs, 1, time.process_time)
        first = 1e6 * (times[users] - times[1]) / ((users - 1) * STAY)
        later = 1e6 * (times[3 * users] - times[users]) / (2 * users * STAY)
        what = f"fleet: Foresight, K = {ARMS}, {name}"
        yield within(f"{what}, users 1 to {users:,}", first, "µs/decision", 50)
        yield within(f"{what}, the next {2 * users:,}", later, "µs/decision", 50)
    yield from_python(users // 2)
    instances = people.draw(8).instances()

    def one_by_one():
        return ib.simulate(
            instances, ib.Foresight(), STAY, ib.GaussianNoise(1.0), execution=1, progress=False
        )

    cold = 1e6 * fastest({0: one_by_one}, 1, time.process_time)[0][0] / (8 * STAY)
    yield Row(
        f"Foresight for each user, K = {ARMS}",
        cold,
        "µs/round",
        "fleet: Foresight, later users",
        later,
        cold / later,
    )


def from_python(users):
    """Time a pull and a loss of a `Fleet`, called from Python; a hundred users at a time."""
    rng = np.random.default_rng(0)
    tastes = rng.normal(0.0, 0.7, (users, ARMS))
    groups = [np.repeat(np.arange(n, min(n + 100, users)), STAY) for n in range(0, users, 100)]
    visits = np.concatenate([rng.permutation(group) for group in groups]).tolist()
    noise = rng.normal(size=len(visits)).tolist()
    names = [f"user {n}" for n in range(users)]

    def serve():
        fleet = ib.Fleet(arms=ARMS)
        for user, error in zip(visits, noise, strict=True):
            ticket = fleet.pull(names[user])
            fleet.observe(ticket, tastes[user, ticket.arm] + error)

    taken = fastest({0: serve}, 1, time.process_time)[0][0]
    what = f"Fleet.pull and Fleet.observe, K = {ARMS}, users 1 to {users:,}"
    return within(what, 1e6 * taken / len(visits), "µs/decision", 60)


def memory(users):
    """What users of 20 arms take, labels included, once each has been shown an arm."""
    taken = measured("fleet", users, ARMS)["resident"]
    return Row(
        f"Fleet of {users:,} users, K = {ARMS}",
        taken / 1e9,
        "GB",
        "limit",
        users / 1e6,
        taken / 1e3 / users,
        Bar("≤", 1, "kB a user"),
    )
