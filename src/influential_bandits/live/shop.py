"""A made-up shop: simulated users with a known interaction play against a running service."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np

from influential_bandits.live.client import Client
from influential_bandits.numerics.arrays import Floats
from influential_bandits.numerics.streams import NOISE, draw_normal
from influential_bandits.world.environment import Environment
from influential_bandits.world.generators import random_instance
from influential_bandits.world.population import Population

__all__ = ["make_shop_population", "run_shop"]

GOODS = (
    "tea", "coffee", "milk", "bread", "honey", "apples", "cheese", "olives", "soap", "candles",
    "paper", "pencils", "roses", "lemons", "rice", "salt", "pepper", "figs", "nuts", "plums",
)  # fmt: skip
USERS_AT_A_TIME = 50  # in one request
SECONDS_BETWEEN_LINES = 5.0


def make_shop_population(
    n_arms: int = 10,
    influence: float = 0.1,
    stay: int = 30,
    seed: int = 0,
    half_life: float | None = None,
) -> Population:
    """Return the users of a shop: they like different goods, and tire of them.

    Losses have noise of deviation 1. ``influence`` is the largest entry of the interaction: at 0.1,
    a tenth of the noise. With a half-life in hours, the shop is open for eight hours a day, in
    which a user comes every half an hour, and is rested in the morning.

    Examples
    --------
    >>> make_shop_population(n_arms=3)
    Population(3 arms, max|A| = 0.1, stay = 30 (geometric), 500 at a time)
    """
    world = random_instance(n_arms=n_arms, seed=seed)
    interaction = np.asarray(world.interaction.to_dense())
    names = [GOODS[arm] if arm < len(GOODS) else f"arm {arm}" for arm in range(n_arms)]
    return Population(
        influence * interaction / max(np.abs(interaction).max(), 1e-300),
        np.linspace(0.0, 0.5, n_arms),
        0.49,
        stay=stay,
        stay_law="geometric",
        concurrency=10 * USERS_AT_A_TIME,
        arm_names=names,
        half_life=half_life,
        rounds_per_hour=None if half_life is None else 20.0 * USERS_AT_A_TIME,
        open_hours=24.0 if half_life is None else 8.0,
    )


def run_shop(
    client: Client,
    population: Population,
    n_users: int,
    *,
    seed: int = 0,
    sigma: float = 1.0,
    per_second: float | None = None,
    tell: Callable[[int, int], None] | None = None,
) -> list[Environment]:
    """Let users visit a shop until all of them have left; return the world of each as it is then.

    Parameters
    ----------
    client : Client
        Of an experiment with the arms of the population.
    per_second : float, optional
        Visits a second; by default as many as the service takes.
    tell : callable, optional
        Called with visits so far and visits in all.

    Examples
    --------
    >>> import os, tempfile
    >>> import influential_bandits as ib
    >>> people = make_shop_population(n_arms=2, stay=3)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with ib.live.serve_in_background(os.path.join(folder, "shop.db")) as (address, key):
    ...         client = ib.live.Client(address, key, "shop")
    ...         client.create(people.arm_names, policy="LCB")
    ...         worlds = run_shop(client, people, n_users=4)
    >>> len(worlds), worlds[0].instance.n_arms
    (4, 2)
    """
    drawn = population.draw(n_users, seed)
    worlds = [Environment(instance) for instance in drawn.instances()]
    visits, times = drawn.visits.tolist(), _end_now(drawn.times)
    places = {name: arm for arm, name in enumerate(population.arm_names)}
    began, done = time.monotonic(), 0
    for group in _gather(visits, USERS_AT_A_TIME):
        at = times[done : done + len(group)] if times else None
        decisions = client.decide_many((f"user {user}" for user in group), at=at)
        losses = []
        for n, (user, decision) in enumerate(zip(group, decisions, strict=True)):
            noise = draw_normal(np.uint64(seed), np.uint64(0), NOISE, done + n + 1, 0)
            loss = worlds[user].pull(places[decision.arm], None if at is None else at[n])
            losses.append((decision, float(loss + sigma * noise)))
        client.feed_back_many(losses)
        done += len(group)
        if tell is not None:
            tell(done, len(visits))
        if per_second is not None:
            time.sleep(max(0.0, began + done / per_second - time.monotonic()))
    return worlds


def open_shop(
    address: str,
    key: str,
    users: int,
    n_arms: int,
    influence: float,
    speed: float,
    control: str,
    seed: int,
    half_life: float | None,
    tell: Callable[[str], None],
) -> None:
    """Create a shop on a service, let users visit it, and say what the A/B test says."""
    name = time.strftime("shop of %H:%M:%S")
    population = make_shop_population(n_arms, influence, seed=seed, half_life=half_life)
    with Client(address, key, name) as client:
        tell("Preparing the policies (compiled the first time, which takes a minute) …")
        client.create(
            population.arm_names, state="shared", policy="Foresight", control=control,
            control_share=0.5, seed=seed, half_life_hours=half_life,
        )  # fmt: skip
        tell(f"{users:,} users visit the experiment {name!r} …")
        said = 0.0

        def say(done: int, rounds: int) -> None:
            nonlocal said
            if time.monotonic() - said >= SECONDS_BETWEEN_LINES or done == rounds:
                said = time.monotonic()
                tell(f"{done:,} of {rounds:,} visits. {client.report()['verdict']}")

        per_second = None if speed <= 0 else speed
        run_shop(client, population, users, seed=seed, per_second=per_second, tell=say)
        tell("All users have left.")


def _end_now(times: Floats) -> list[float]:
    """Return times of visits, in seconds since 1970, of which the last is now."""
    return (times + (time.time() - times[-1])).tolist() if times.size else []


def _gather(visits: list[int], most: int) -> Iterator[list[int]]:
    """Yield visits in order, in groups in which nobody comes twice."""
    group: list[int] = []
    users: set[int] = set()
    for user in visits:
        if user in users or len(group) == most:
            yield group
            group, users = [], set()
        group.append(user)
        users.add(user)
    if group:
        yield group
