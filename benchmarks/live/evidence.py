"""What the A/B test finds: a policy's worth over HTTP, and nothing where there is nothing."""

import math
import tempfile
import time
from pathlib import Path

import numpy as np

import influential_bandits as ib
from influential_bandits.live.evidence import GroupTotals, compare_groups
from influential_bandits.live.shop import make_shop_population, run_shop

LOOKS = 120
USERS = 600


def worth(users, seed):
    """Yield a line for each control policy: ten arms, influence at a tenth of the noise."""
    for control in ("LCB", "Uniform"):
        with tempfile.TemporaryDirectory() as folder:
            store = Path(folder, "shop.db")
            start = time.monotonic()
            with ib.live.serve_in_background(store) as (address, key):
                found = measure_worth(address, key, users=users, control=control, seed=seed)
            decisions = found["policy"]["decisions"] + found["control"]["decisions"]
            yield (
                f"against {control}, {users:,} users, seed {seed}, {decisions:,} decisions: "
                f"{found['verdict']} ({time.monotonic() - start:.0f} s)"
            )


def measure_worth(address, key, *, users, control, n_arms=10, influence=0.1, seed=0):
    """Return the A/B test of a fleet against a control policy in a shop, through the service."""
    population = make_shop_population(n_arms, influence, seed=seed)
    with ib.live.Client(address, key, f"{control} {users} {influence} {seed}") as client:
        client.create(
            population.arm_names,
            state="shared",
            policy="Foresight",
            control=control,
            control_share=0.5,
            seed=seed,
        )
        run_shop(client, population, users, seed=seed)
        return client.report()


def false_alarms(shops, seed):
    """Yield how many shops without influence raise the alarm: both groups get arms at random."""
    anytime = single = 0
    for shop in range(shops):
        looks = list(_look_often(1000 * seed + shop))
        anytime += any(look.is_clear for look in looks)
        single += any(_is_far(look) for look in looks)
    yield (
        f"{shops} shops without influence, {USERS} users, {LOOKS} looks each: {anytime} alarms; "
        f"of 1.96 standard errors at every look {single}"
    )


def _look_often(seed):
    """Yield what the A/B test says at many moments of a made-up shop whose users never tire."""
    drawn = make_shop_population(influence=0.0, seed=seed).draw(USERS, seed)
    random = np.random.default_rng(seed)
    visits = drawn.visits
    arms = random.integers(drawn.initial_loss.shape[1], size=visits.size)
    losses = drawn.initial_loss[visits, arms] + random.normal(size=visits.size)
    served = random.random(USERS) < 0.5
    for end in np.linspace(50, visits.size, LOOKS).astype(int):
        counts = np.bincount(visits[:end], minlength=USERS).astype(float)
        sums = np.bincount(visits[:end], losses[:end], minlength=USERS)
        yield compare_groups([tuple(_total(counts[of], sums[of]) for of in (served, ~served))])


def _total(counts, sums):
    counts, sums = counts[counts > 0], sums[counts > 0]
    products = float(sums @ sums), float(sums @ counts), float(counts @ counts)
    return GroupTotals(len(counts), int(counts.sum()), float(sums.sum()), *products)


def _is_far(look):
    if look.difference is None:
        return False
    error = math.sqrt(look.policy.variance() + look.control.variance())
    return abs(look.difference) > 1.96 * error
