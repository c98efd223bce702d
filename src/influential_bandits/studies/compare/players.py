"""Who serves the users of a population: a fleet, a policy for each, one for all, or who knows A."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from influential_bandits.checks import abbreviate
from influential_bandits.errors import InvalidInput
from influential_bandits.numerics.arrays import Floats
from influential_bandits.policies.agent import Agent, Ticket
from influential_bandits.policies.contract import Policy
from influential_bandits.policies.foresight.hypotheses import MOST_ARMS
from influential_bandits.policies.foresight.policy import Foresight
from influential_bandits.policies.foresight.prior import LossPrior, in_order, unknowns
from influential_bandits.policies.influential_lcb import InfluentialLCB
from influential_bandits.policies.lcb import LCB
from influential_bandits.policies.oracles import EachArmOnceOracle
from influential_bandits.policies.registry import code_digest, policy_from_text
from influential_bandits.simulation.engine import simulate
from influential_bandits.simulation.fleets import simulate_fleet
from influential_bandits.studies.compare.instance_runs import can_play
from influential_bandits.world.environment import Environment
from influential_bandits.world.noise import GaussianNoise, Noise
from influential_bandits.world.population import Population, Users

FLEET = "fleet: "
AS_ONE = "all users as one: "
KNOWN = "A known"


@dataclass(frozen=True)
class Player(ABC):
    """One way to serve a population's users; the noise of user u is that of instance number u."""

    reference = False  # knows what nobody knows, and is compared with

    @property
    @abstractmethod
    def label(self) -> str:
        """What results call it."""

    @property
    def digest(self) -> str:
        """What tells it from another one, or from itself with other code."""
        return repr(self)

    def can_serve(self, population: Population, noise: Noise) -> bool:
        """Tell whether it has an answer in such a world."""
        return True

    @abstractmethod
    def serve(
        self, population: Population, n_users: int, noise: Noise, seed: int, threads: int | None
    ) -> Floats:
        """Return the expected total loss of each user, (users,)."""


@dataclass(frozen=True)
class FleetPlayer(Player):
    """A fleet: what is learned from one user is known for the next."""

    policy: Foresight

    @property
    def label(self) -> str:
        return FLEET + self.policy.label

    def serve(
        self, population: Population, n_users: int, noise: Noise, seed: int, threads: int | None
    ) -> Floats:
        run = simulate_fleet(population, self.policy, n_users, seed, noise, progress=False)
        return run.losses


@dataclass(frozen=True)
class EachUser(Player):
    """A policy that starts anew, cold, with each user."""

    policy: Policy

    @property
    def label(self) -> str:
        return self.policy.label

    @property
    def digest(self) -> str:
        return repr(self) + code_digest(self.policy)

    @property
    def reference(self) -> bool:  # type: ignore[override]
        return bool(self.policy.privileged)

    def can_serve(self, population: Population, noise: Noise) -> bool:
        return can_play(self.policy, population.draw(1).instances()[0])

    def serve(
        self, population: Population, n_users: int, noise: Noise, seed: int, threads: int | None
    ) -> Floats:
        users = population.draw(n_users, seed)
        return _serve_apart(users, [self.policy] * n_users, noise, seed, threads)


@dataclass(frozen=True)
class AllUsersAsOne(Player):
    """A policy that ignores who the user is: one state for all, in the order of the fleet."""

    policy: Policy

    @property
    def label(self) -> str:
        return AS_ONE + self.policy.label

    @property
    def digest(self) -> str:
        return repr(self) + code_digest(self.policy)

    def serve(
        self, population: Population, n_users: int, noise: Noise, seed: int, threads: int | None
    ) -> Floats:
        users = population.draw(n_users, seed)
        agent = Agent(self.policy, population.n_arms, seed)
        return serve(users, lambda user: agent, noise, seed)


@dataclass(frozen=True)
class KnownInteraction(Player):
    """The reference that knows each user's A, the memory, σ, and how initial losses spread.

    ``Foresight`` with that as its prior: of a user, only the initial losses are left to learn. It
    is no bound on what can be reached with this knowledge, only what that policy makes of it: where
    memory fades and A is small, ``LCB`` can do better, and so can a fleet.
    """

    reference = True

    @property
    def label(self) -> str:
        return KNOWN

    @property
    def digest(self) -> str:
        return repr(self) + code_digest(Foresight())

    def can_serve(self, population: Population, noise: Noise) -> bool:
        """A prior needs normal noise, and few arms."""
        normal = isinstance(noise, GaussianNoise) and noise.sigma > 0.0
        return normal and population.n_arms <= MOST_ARMS

    def serve(
        self, population: Population, n_users: int, noise: Noise, seed: int, threads: int | None
    ) -> Floats:
        users = population.draw(n_users, seed)
        policies = [make_knowing(population, matrix, noise) for matrix in users.interaction]
        if len(policies) < n_users:
            policies *= n_users
        return _serve_apart(users, policies, noise, seed, threads)


def make_knowing(population: Population, interaction: Floats, noise: Noise) -> Foresight:
    """Return the policy that knows a user's interaction, but not its initial losses."""
    if not isinstance(noise, GaussianNoise):
        raise InvalidInput(f"{KNOWN} needs normal noise, got {noise!r}")
    n_arms = population.n_arms
    size = unknowns(n_arms)
    covariance = np.zeros((size, size))
    of_losses = [unknowns(arm) for arm in range(n_arms)]
    covariance[np.ix_(of_losses, of_losses)] = population.covariance
    mean = in_order(interaction, population.initial_loss)
    prior = LossPrior(mean, covariance, noise.sigma, memory=population.memory)
    return Foresight(prior=prior)


def _serve_apart(
    users: Users, policies: Sequence[Policy], noise: Noise, seed: int, threads: int | None
) -> Floats:
    """Return the loss of each user when each has a policy of its own."""
    worlds = users.instances()
    if users.delays.any() or users.levels.size:  # by rounds of the fleet, which is to be followed

        def make_agent(user: int) -> Agent:
            return Agent(
                policies[user],
                worlds[user].n_arms,
                seed,
                instance_number=user,
                instance=worlds[user],
                horizon=int(users.stays[user]),
            )

        return serve(users, make_agent, noise, seed)
    alike: dict[tuple[int, int], list[int]] = defaultdict(list)
    for user, stay in enumerate(users.stays):
        alike[int(stay), id(policies[user])].append(user)
    losses = np.empty(len(worlds))
    for (stay, _), group in alike.items():
        run = simulate(
            [worlds[user] for user in group],
            policies[group[0]],
            stay,
            noise,
            seeds=[seed],
            checkpoints=[stay],
            instance_numbers=group,
            execution=threads,
            progress=False,
        )
        losses[group] = run.loss()[:, 0, -1]
    return losses


def serve(users: Users, agent_of: Callable[[int], Agent], noise: Noise, seed: int) -> Floats:
    """Follow a fleet round by round, and return the expected total loss of each user, (users,).

    A loss is told when its delay is over, after those of earlier rounds.
    """
    worlds = users.instances()
    agents: dict[int, Agent] = {}
    environments: dict[int, Environment] = {}
    left = users.stays.copy()
    losses = np.zeros(len(worlds))
    due: dict[int, list[tuple[Agent, Ticket, float]]] = defaultdict(list)
    for t, (user, delay) in enumerate(
        zip(users.visits.tolist(), users.delays.tolist(), strict=True)
    ):
        if user not in agents:
            agents[user] = agent_of(user)
            environments[user] = Environment(worlds[user], noise, seed, user)
        agent, environment = agents[user], environments[user]
        ticket = agent.pull()
        if users.memory < 1.0:
            losses[user] += environment.expected_losses()[ticket.arm]
        loss = environment.pull(ticket.arm) + (users.levels[t] if users.levels.size else 0.0)
        due[t + delay].append((agent, ticket, float(loss)))
        for asked, answered, heard in due.pop(t, ()):
            asked.observe(answered, heard)
        left[user] -= 1
        if left[user] == 0:
            if users.memory == 1.0:
                losses[user] = worlds[user].total_loss(environment.counts)
            del agents[user], environments[user]
    return losses


def list_default_players() -> list[Player]:
    """Return the fleet, what it is compared with, and the two references."""
    return [
        FleetPlayer(Foresight()),
        *(EachUser(policy) for policy in (Foresight(), LCB(), InfluentialLCB())),
        AllUsersAsOne(LCB()),
        KnownInteraction(),
        EachUser(EachArmOnceOracle()),
    ]


def require_player(given: object) -> Player:
    """Return a player for a player, a fleet's policy, a policy, or what the tables call it."""
    if isinstance(given, str):
        return _find_player(given)
    if isinstance(given, Player):
        return given
    if isinstance(given, Policy):
        return EachUser(given)
    raise InvalidInput(
        f"each of policies must be a policy, a fleet's or a text, got {abbreviate(given)}"
    )


def _find_player(text: str) -> Player:
    if text == KNOWN:
        return KnownInteraction()
    if text.startswith(FLEET):
        policy = policy_from_text(text.removeprefix(FLEET))
        if not isinstance(policy, Foresight):
            raise InvalidInput(f"a fleet plays Foresight, got {abbreviate(text)}")
        return FleetPlayer(policy)
    if text.startswith(AS_ONE):
        return AllUsersAsOne(policy_from_text(text.removeprefix(AS_ONE)))
    return EachUser(policy_from_text(text))
