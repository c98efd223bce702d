"""Simulate a fleet: a population of users, served in one order of rounds by one policy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from influential_bandits.checks import abbreviate, whole_number
from influential_bandits.errors import InvalidInput, NotApplicable
from influential_bandits.execution.progress import Progress
from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.numerics.streams import NOISE, stream_keys
from influential_bandits.optima.regret import regret
from influential_bandits.policies.fleet.estimate import SharedEstimate, summarise
from influential_bandits.policies.foresight.policy import Foresight
from influential_bandits.policies.foresight.users import make_own
from influential_bandits.simulation.fleet_kernels import play_fleet
from influential_bandits.simulation.scenario_kernels import make_flight
from influential_bandits.world.noise import GaussianNoise, Noise, require_noise
from influential_bandits.world.population import Population, Users

STEP = 20_000  # rounds between two looks at the progress bar and at Ctrl-C


@dataclass(frozen=True, eq=False)
class FleetRun:
    """What a fleet did for each user.

    Examples
    --------
    >>> import influential_bandits as ib
    >>> population = ib.Population([[0.1, 0.0], [0.0, 0.1]], [0.0, 0.1], 0.5, stay=20)
    >>> run = ib.simulate_fleet(population, ib.Foresight(), n_users=50)
    >>> run.counts.sum(axis=1)[:3], run.regret().shape
    (array([20, 20, 20]), (50,))
    """

    population: Population
    policy: Foresight
    seed: int
    users: Users
    counts: Ints  # (users, arms): pulls
    losses: Floats  # (users,): sums of expected losses, without the drift of levels
    found: SharedEstimate  # what the fleet knows of the population in the end

    def regret(self) -> Floats:
        """Return each user's regret against the best counts for its own stay, (users,)."""
        if self.users.fades:
            raise NotApplicable(
                "where memory fades, no exact best is known, and so no regret; compare losses"
            )
        instances = self.users.instances()
        pairs = zip(instances, self.counts, strict=True)
        return np.array([float(regret(instance, counts)) for instance, counts in pairs])


def simulate_fleet(
    population: Population,
    policy: Foresight | None = None,
    n_users: int = 1000,
    seed: int = 0,
    noise: Noise | None = None,
    progress: bool | None = None,
) -> FleetRun:
    """Let a fleet serve users of a population; all of them teach it.

    The order of rounds is one, so that a fleet runs on one thread; several seeds, each a fleet of
    its own, can run side by side. The noise of user u in its round t is that of
    ``simulate(instances, policy, horizon, noise, seeds=[seed])`` for instance number u: fleets
    and policies that serve users one by one meet the same noise.

    Parameters
    ----------
    population : Population
    policy : Foresight, optional
    n_users : int
    seed : int
        Of the users, of their order, and of the noise.
    noise : Noise, optional
        By default normal with σ = 1.
    progress : bool, optional
        Show a progress bar; by default on terminals and in notebooks.

    Examples
    --------
    >>> import influential_bandits as ib
    >>> population = ib.Population([[0.1, 0.0], [0.0, 0.1]], [0.0, 0.1], 0.5, stay=20)
    >>> simulate_fleet(population, n_users=50, seed=1).found.losses
    1000
    """
    if not isinstance(population, Population):
        raise InvalidInput(f"population must be a Population, got {abbreviate(population)}")
    policy = Foresight() if policy is None else policy
    if not isinstance(policy, Foresight):
        raise InvalidInput(f"policy must be a Foresight, got {abbreviate(policy)}")
    seed = whole_number("seed", seed)
    source = require_noise(GaussianNoise(1.0) if noise is None else noise).source()
    if policy.by_clock and population.rounds_per_hour is None:
        raise InvalidInput(
            "the policy has memory by the clock, so that rounds need times: say how many rounds of "
            "the fleet an hour has, Population(rounds_per_hour=…)"
        )
    users = population.draw(n_users, seed)
    n_arms, many = population.n_arms, len(users.stays)
    rules = policy.rules(n_arms)
    shared, own = policy.start(n_arms), make_own(rules, many)
    numbers = map(np.uint64, range(many))
    keys = np.array([stream_keys(np.uint64(seed), u, NOISE) for u in numbers], np.uint64)
    counts, weights = np.zeros((many, n_arms), np.int64), np.zeros((many, n_arms))
    losses, clocks = np.zeros(many), np.zeros(many)
    rounds = len(users.visits)
    places = min(int(users.delays.max(initial=0)), rounds) + 2
    flight = make_flight(np.zeros((1, 2), np.uint64), places, policy.memo_size(n_arms))
    bar = Progress(policy.label, rounds, progress)
    try:
        for first in range(0, rounds, STEP):
            last = min(first + STEP, rounds)
            play_fleet(
                rules,
                shared,
                own,
                source,
                users,
                keys,
                counts,
                weights,
                losses,
                clocks,
                flight,
                first,
                last,
            )
            bar.done = last
            bar.show()
    finally:
        bar.close()
    found = summarise(rules, shared)
    return FleetRun(population, policy, seed, users, counts, losses, found)
