"""States of instances: a policy of its own for each, or one fleet for all, behind one interface.

A state is a cache. It is computed from events alone, and can be computed again.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from influential_bandits.errors import InfluentialBanditsError
from influential_bandits.live.events import encode
from influential_bandits.numerics.fingerprints import fingerprint
from influential_bandits.policies.agent import Agent
from influential_bandits.policies.agent_snapshot import pack_agent, unpack_agent
from influential_bandits.policies.contract import Policy
from influential_bandits.policies.fleet.estimate import SharedEstimate, summarise
from influential_bandits.policies.fleet.fleet import Fleet
from influential_bandits.policies.fleet.snapshot import pack_fleet, pack_users, unpack_fleet
from influential_bandits.policies.foresight.policy import Foresight
from influential_bandits.policies.foresight.users import (
    Shared,
    decide,
    note_loss,
    note_pull,
    note_time,
)
from influential_bandits.policies.registry import code_digest, policy_to_json
from influential_bandits.policies.tickets import FleetTicket

Mask = npt.NDArray[np.bool_]

BYTES_OF_A_PULL = 300  # that waits for its loss


class Arms(NamedTuple):
    """The arms at a moment."""

    names: tuple[str, ...]
    retired: frozenset[int] = frozenset()

    def mask(self, eligible: Sequence[int] | None = None) -> Mask:
        """Return which arms may be chosen."""
        if eligible is None and not self.retired:
            return _all_of(len(self.names))
        allowed = np.zeros(len(self.names), np.bool_)
        allowed[slice(None) if eligible is None else list(eligible)] = True
        allowed[list(self.retired)] = False
        return allowed


@cache
def _all_of(n_arms: int) -> Mask:
    mask = np.ones(n_arms, np.bool_)
    mask.flags.writeable = False
    return mask


def count_arms(mask: Mask) -> int:
    """Return how many arms may be chosen; most often all, which is known without counting."""
    return mask.size if mask is _all_of(mask.size) else int(np.count_nonzero(mask))


def _or_none(eligible: Mask) -> Mask | None:
    """Return which arms may be chosen, or None if all may: nothing is to be checked then."""
    return None if count_arms(eligible) == eligible.size else eligible


class AgentState:
    """The state of an instance that has a policy of its own."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    @classmethod
    def start(cls, policy: Policy, arms: Arms, seed: int, number: int) -> AgentState:
        """Return the state of a new instance."""
        try:
            first = _first_agent(policy, arms.names, seed)
        except TypeError:  # settings that cannot be hashed
            first = Agent(policy, arms.names, seed)
        state = cls(first.start_anew(number))
        state.follow(arms)
        return state

    @classmethod
    def unpack(
        cls, blob: bytes, policy: Policy, names: Sequence[str], seed: int, number: int
    ) -> AgentState | None:
        """Return the state of a snapshot, or None if it does not fit."""
        try:
            return cls(unpack_agent(blob, policy, names, seed, number))
        except (InfluentialBanditsError, ValueError, KeyError, TypeError):
            return None

    def pack(self) -> bytes:
        """Return a snapshot."""
        return pack_agent(self._agent)

    @property
    def n_arms(self) -> int:
        """How many arms it knows."""
        return self._agent.n_arms

    @property
    def size(self) -> int:
        """Bytes that it takes, about."""
        arrays = self._agent.__getstate__()["_arrays"]
        return 4000 + sum(array.nbytes for array in arrays) + BYTES_OF_A_PULL * self.count_pending()

    def count_pending(self) -> int:
        """Return how many pulls wait for a loss."""
        return len(self._agent.pending)

    def follow(self, arms: Arms) -> None:
        """Take on the arms that have come, and drop those that have gone."""
        if len(arms.names) == self._agent.n_arms and arms.retired == self._agent.retired:
            return
        for name in arms.names[self._agent.n_arms :]:
            self._agent.add_arm(name)
        for arm in sorted(arms.retired - self._agent.retired):
            self._agent.retire_arm(arm)

    def choose(self, eligible: Mask, at: float) -> int:
        """Return the arm for a pull at a time, in seconds."""
        return self._agent.select(_or_none(eligible), at)

    def expected_loss(self, arm: int, at: float) -> float | None:
        """Return what an arm would cost then, if the policy says."""
        mean = self._agent.expected_losses(at)
        return None if mean is None else float(mean[arm])

    def expected_losses(self, at: float) -> tuple[list[float], list[float]] | None:
        """Return what each arm would cost then, and the deviations of it; a look moves nothing."""
        mean = self._agent.expected_losses(at)
        return None if mean is None else (mean.tolist(), [])

    def pull(self, arm: int, at: float) -> int:
        """Follow a pull; return its ticket."""
        return self._agent.expose(arm, at).round

    def observe(self, ticket: int, loss: float) -> None:
        """Learn the loss of a pull."""
        self._agent.observe(self._agent.pending[ticket], loss)

    def give_up(self, ticket: int) -> None:
        """Expect the loss of a pull no more."""
        self._agent.cancel(self._agent.pending[ticket])


class FleetState:
    """One fleet for all instances of an experiment; :meth:`of` gives the state of one of them."""

    def __init__(self, policy: Foresight, arms: Arms) -> None:
        self.fleet = Fleet(policy, arms=arms.names)
        self._retired: frozenset[int] = frozenset()
        self._changed: set[str] = set()  # users to write at the next snapshot
        self.follow(arms)

    def follow(self, arms: Arms) -> None:
        """Take on the arms that have come, and drop those that have gone."""
        for name in arms.names[self.fleet.n_arms :]:
            self.fleet.add_arm(name)
            self._changed.update(self.fleet.users)
        self._retired = arms.retired

    def of(self, instance: int) -> FleetUser:
        """Return the state of an instance."""
        user = str(instance)
        self._changed.add(user)
        return FleetUser(self.fleet, user)

    def count_pending(self) -> int:
        """Return how many pulls wait for a loss."""
        return len(self.fleet.pending)

    def knows(self, instance: int) -> bool:
        """Tell whether an instance has been met."""
        return str(instance) in self.fleet

    def remember(
        self,
        instance: int,
        arms: Sequence[int],
        losses: Sequence[float | None],
        times: Sequence[float],
    ) -> None:
        """Take an instance on with what it met before."""
        self.fleet.remember(str(instance), arms, losses, times)

    def copy_shared(self) -> Callable[[], SharedEstimate]:
        """Return a function that sums up what users have taught so far, from a copy of it."""
        rules, shared = self.fleet._rules, self.fleet._shared
        copies: Any = [array.copy() for array in shared]
        return partial(summarise, rules, Shared(*copies))

    def pack(self) -> tuple[bytes, dict[int, bytes]]:
        """Return a snapshot of what is shared, and of the users who have changed since the last."""
        packed = pack_users(self.fleet, [user for user in self._changed if user in self.fleet])
        self._changed.clear()
        return pack_fleet(self.fleet), {int(user): blob for user, blob in packed.items()}

    def unpack(self, blob: bytes, users: Iterable[tuple[int, bytes]]) -> bool:
        """Take over a snapshot; False if it does not fit, and then this state is of no use."""
        try:
            unpack_fleet(blob, users, self.fleet)
        except (InfluentialBanditsError, ValueError, KeyError, TypeError, struct.error):
            return False
        return True


class FleetUser:
    """The state of one instance of a fleet, which does what an :class:`AgentState` does."""

    def __init__(self, fleet: Fleet, user: str) -> None:
        self._fleet, self._user = fleet, user

    def follow(self, arms: Arms) -> None:
        """Nothing to do: the fleet has followed."""

    def choose(self, eligible: Mask, at: float) -> int:
        """Return the arm for a pull at a time, in seconds."""
        return self._fleet.select(self._user, _or_none(eligible), at)

    def expected_loss(self, arm: int, at: float) -> float | None:
        """Return what an arm was expected to cost when one was last chosen."""
        return self._fleet.latest_look(arm)

    def expected_losses(self, at: float) -> tuple[list[float], list[float]] | None:
        """Return what each arm would cost then, and the deviations of it; nothing of a newcomer."""
        if self._user not in self._fleet:
            return None
        mean, deviation = self._fleet.expected_losses(self._user, at)
        return mean.tolist(), deviation.tolist()

    def pull(self, arm: int, at: float) -> int:
        """Follow a pull; return its ticket."""
        return self._fleet.pull(self._user, arm, at=at).number

    def observe(self, ticket: int, loss: float) -> None:
        """Learn the loss of a pull."""
        pull = self._find(ticket)
        if pull is not None:
            self._fleet.observe(pull, loss)

    def give_up(self, ticket: int) -> None:
        """Expect the loss of a pull no more."""
        pull = self._find(ticket)
        if pull is not None:
            self._fleet.cancel(pull)

    def _find(self, ticket: int) -> FleetTicket | None:
        """Return a pull that waits for its loss; of one before the model was activated, none."""
        pull = self._fleet.pending.get(ticket)
        return pull if pull is not None and pull.user == self._user else None


@lru_cache(maxsize=16)
def _first_agent(policy: Policy, names: tuple[str, ...], seed: int) -> Agent:
    """Return an agent that others are started from."""
    return Agent(policy, names, seed)


def state_fingerprint(policy: Policy, seed: int, *, shared: bool) -> str:
    """Return what tells snapshots of one policy, its code and its seed from those of another."""
    of_fleet = (decide, note_time, note_pull, note_loss)
    code = fingerprint(*of_fleet) if shared else code_digest(policy)
    text = encode([policy_to_json(policy), code, seed])
    return hashlib.sha256(text).hexdigest()[:32]


def require_servable(policy: Any, arms: Arms, *, shared: bool = False) -> AgentState | FleetUser:
    """Raise unless a policy can choose among these arms; return the state of somebody new."""
    if shared:
        state: AgentState | FleetUser = FleetState(policy, arms).of(1)
    else:
        state = AgentState.start(policy, arms, 0, 0)
    state.choose(arms.mask(), 0.0)
    return state


def try_out(policy: Any, arms: Arms, *, shared: bool = False) -> None:
    """Raise unless a policy can serve these arms; compile all that it needs to."""
    state = require_servable(policy, arms, shared=shared)
    first = np.arange(len(arms.names)) == np.flatnonzero(arms.mask())[0]
    for at, eligible in enumerate((arms.mask(), first)):
        arm = state.choose(eligible, float(at))
        state.expected_losses(float(at))
        state.observe(state.pull(arm, float(at)), 0.0)
