"""Fleets on one core: a decision with its update, and what a user takes of memory."""

import time

import numpy as np

import influential_bandits as ib
from benchmarks.timing import Bar, Row, fastest, within
from influential_bandits.policies.fleet.states import make_own

ARMS, STAY = 20, 100
USERS = 1_000_000


def rows(quick):
    yield from per_decision(200 if quick else 1000)
    yield memory()


def population(concurrency, unlike=False):
    instance = ib.random_instance(ARMS, seed=0)
    matrix = 0.1 * instance.interaction.to_dense()
    return ib.Population(
        matrix, np.zeros(ARMS), 0.49, unlike=unlike, stay=STAY, concurrency=concurrency
    )


def per_decision(users):
    """Time a decision, its world and its update, of the first users and of later ones."""
    for name, concurrency in (("one after the other", 1), ("500 at a time", 500)):
        people = population(concurrency)

        def serve(n, people=people):
            return lambda: ib.simulate_fleet(people, n_users=n, progress=False)

        jobs = {n: serve(n) for n in (users, 3 * users)}
        times, _ = fastest(jobs, 1, time.process_time)
        first = 1e6 * times[users] / (users * STAY)
        later = 1e6 * (times[3 * users] - times[users]) / (2 * users * STAY)
        what = f"FleetLCB, K = {ARMS}, {name}"
        yield within(f"{what}, users 1 to {users:,}", first, "µs/decision", 50)
        yield within(f"{what}, the next {2 * users:,}", later, "µs/decision", 50)
    instances = people.draw(8).instances()

    def one_by_one():
        return ib.simulate(
            instances, ib.ModelLCB(), STAY, ib.GaussianNoise(1.0), execution=1, progress=False
        )

    cold = 1e6 * fastest({0: one_by_one}, 1, time.process_time)[0][0] / (8 * STAY)
    yield Row(
        f"ModelLCB for each user, K = {ARMS}",
        cold,
        "µs/round",
        "FleetLCB, later users",
        later,
        cold / later,
    )


def memory():
    """What a million users of 20 arms take, once the memory is settled."""
    one = sum(array.nbytes for array in make_own(1000, 1, ARMS, exact=False)) / 1000
    labels = 8 + 57 + 3 * 8 * 1.5  # of a dictionary: an entry with its hash, and a short text
    return Row(
        f"{USERS:,} users of {ARMS} arms, labels included",
        USERS * (one + labels) / 1e9,
        "GB",
        "limit",
        1.0,
        USERS * (one + labels) / 1e9,
        Bar("≤", 1, "GB"),
    )
