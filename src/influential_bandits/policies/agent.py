"""Agent: any policy, one decision at a time, with a state that can be saved."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
import numpy.typing as npt

from influential_bandits.checks import arm_number, is_real, whole_number
from influential_bandits.errors import InvalidInput, InvalidPolicy, NotApplicable
from influential_bandits.files import read_json, write_json
from influential_bandits.numerics.compiling import kernel
from influential_bandits.numerics.streams import POLICY, stream_at, stream_keys
from influential_bandits.policies.compiled import (
    Buffers,
    Layout,
    StateArrays,
    Tag,
    arm_added,
    arm_retired,
    init,
    observed,
    plain_parameters,
    pulled,
    select,
    unpack,
)
from influential_bandits.policies.contract import Policy, checked_policy
from influential_bandits.world.dynamics import Floats
from influential_bandits.world.instance import Instance

__all__ = ["Agent", "Ticket"]

FORMAT = "influential-bandits/agent/1"


class Ticket(NamedTuple):
    """A pull whose loss may still be to come.

    Examples
    --------
    >>> import influential_bandits as ib
    >>> Agent(ib.LCB(), arms=2).pull()
    Ticket(round=1, arm=0, memo=())
    """

    round: int  # 1, 2, …
    arm: int
    memo: tuple[float, ...] = ()  # what the policy wants to see again with the loss


class Agent:
    """A policy at work: it decides, learns losses in any order, and can be saved and resumed.

    Arms may come (:meth:`add_arm`) and go (:meth:`retire_arm`) while it works.

    The same compiled functions run here as in :func:`simulate`; with the same seed and the same
    losses an agent makes the same choices as the engine.

    Parameters
    ----------
    policy : Policy
    arms : int
        Number of arms K.
    seed, instance_number : int
        Choose the stream of the policy's own random numbers.
    instance, horizon : optional
        What a privileged policy (an oracle) is told.

    Examples
    --------
    >>> import influential_bandits as ib
    >>> agent = Agent(ib.InfluentialLCB(), arms=3)
    >>> first, second = agent.pull(), agent.pull()
    >>> first.arm, second.arm
    (0, 1)
    >>> agent.observe(second, loss=0.5)
    >>> agent.observe(first, loss=0.7)
    >>> agent.select()
    2
    """

    def __init__(
        self,
        policy: Policy,
        arms: int,
        seed: int = 0,
        *,
        instance_number: int = 0,
        instance: Instance | None = None,
        horizon: int | None = None,
    ) -> None:
        self.policy = checked_policy(policy)
        self.arms = whole_number("arms", arms, 1)
        self.seed = whole_number("seed", seed)
        self.instance_number = whole_number("instance_number", instance_number)
        self.round = 0  # pulls so far
        self.pending: dict[int, Ticket] = {}  # by round
        self.retired: set[int] = set()
        self._told = _digest(policy, instance, horizon)
        self._layout = Layout(policy, self.arms, instance, horizon)
        self._arrays = self._layout.arrays()
        keys = stream_keys(np.uint64(self.seed), np.uint64(self.instance_number), POLICY)
        self._keys = np.uint64(keys[0]), np.uint64(keys[1])
        self._call(_init)

    @property
    def state(self) -> dict[str, npt.NDArray[Any]]:
        """The policy's state by field name; a copy."""
        views = self._layout.views(self._arrays)
        return {name: view.copy() for name, view in views.items()}

    def select(self, eligible: npt.ArrayLike | None = None) -> int:
        """Return the arm for the next round without pulling it.

        Parameters
        ----------
        eligible : bool array (arms,), optional
            The arms that may be chosen; by default all.
        """
        mask = self._eligible(eligible)
        t = self.round + 1
        arm = int(self._call(_select, t, mask, *self._keys))
        if not 0 <= arm < self.arms or (mask is not None and not mask[arm]):
            name = type(self.policy).__name__
            raise InvalidPolicy(f"{name} chose arm {arm} in round {t}, which is not on offer")
        return arm

    def pull(self, arm: int | None = None, eligible: npt.ArrayLike | None = None) -> Ticket:
        """Pull an arm, by default the selected one, and return the ticket for its loss."""
        chosen = self.select(eligible) if arm is None else arm_number(arm, self.arms)
        mask = self._eligible(eligible)
        if mask is not None and not mask[chosen]:
            raise InvalidInput(f"arm {arm!r} is retired or not eligible")
        self.round += 1
        memo = np.zeros(self._layout.memo_size)
        self._call(_pulled, self.round, chosen, memo)
        ticket = Ticket(self.round, int(chosen), tuple(memo.tolist()))
        self.pending[ticket.round] = ticket
        return ticket

    def observe(self, ticket: Ticket, loss: float) -> None:
        """Learn the loss of a pull; any order, each ticket once."""
        if not isinstance(ticket, Ticket) or self.pending.get(ticket.round) != ticket:
            raise InvalidInput(f"{ticket} is not pending: unknown, or already observed")
        if not is_real(loss) or not math.isfinite(loss):
            raise InvalidInput(f"loss must be a finite number, got {loss!r}")
        del self.pending[ticket.round]
        memo = np.zeros(max(self._layout.memo_size, len(ticket.memo)))
        memo[: len(ticket.memo)] = ticket.memo  # shorter, if arms came after the pull
        self._call(_observed, ticket.round, ticket.arm, memo, float(loss))

    def add_arm(self) -> int:
        """Take a new arm on and return its number; it is tried like any arm never pulled."""
        if self.policy.privileged:
            raise NotApplicable(
                f"{type(self.policy).__name__} knows an instance of {self.arms} arms"
            )
        before, old = self._layout, _as_one_run(self._arrays)
        self.arms += 1
        self._layout = Layout(self.policy, self.arms)
        self._arrays = self._layout.arrays(*map(np.zeros_like, self._layout.fresh.values()))
        self._layout.carry_over(before, old, _as_one_run(self._arrays))
        self._call(_arm_added, self.arms - 1)
        return self.arms - 1

    def retire_arm(self, arm: int) -> None:
        """Never choose an arm again; losses still to come are taken."""
        arm = arm_number(arm, self.arms)
        if arm in self.retired:
            raise InvalidInput(f"arm {arm!r} is not in use")
        if len(self.retired) == self.arms - 1:
            raise InvalidInput(f"arm {arm} is the last one in use")
        self.retired.add(int(arm))
        self._call(_arm_retired, int(arm))

    def _eligible(self, given: npt.ArrayLike | None) -> npt.NDArray[np.bool_] | None:
        if given is None and not self.retired:
            return None
        mask = np.ones(self.arms, np.bool_) if given is None else np.array(given, np.bool_)
        if mask.shape != (self.arms,):
            raise InvalidInput(
                f"eligible must have one entry for each of the {self.arms} arms, got {given!r:.80}"
            )
        mask[list(self.retired)] = False
        if not mask.any():
            raise InvalidInput("eligible must leave at least one arm that is in use")
        return mask

    def to_json(self) -> dict[str, Any]:
        """Return the state as strict JSON data: no NaN or Infinity, 64-bit integers as strings."""
        return {
            "format": FORMAT,
            "policy": {
                "name": type(self.policy).__name__,
                "parameters": plain_parameters(self.policy),
            },
            "arms": self.arms,
            "seed": str(self.seed),
            "instance_number": str(self.instance_number),
            "round": str(self.round),
            "retired": sorted(self.retired),
            "pending": [[str(t.round), t.arm, list(t.memo)] for t in self.pending.values()],
            "told": self._told,
            "state": {name: self._field_to_json(name, v) for name, v in self._own_views().items()},
        }

    @classmethod
    def from_json(
        cls,
        data: Mapping[str, Any],
        policy: Policy,
        *,
        instance: Instance | None = None,
        horizon: int | None = None,
    ) -> Agent:
        """Return the agent that :meth:`to_json` described, by the policy that was saved."""
        if not isinstance(data, Mapping) or data.get("format") != FORMAT:
            raise InvalidInput(f'this is no agent file: expected "format": "{FORMAT}"')
        try:
            saved = data["policy"]
            policy = checked_policy(policy)
            given = {"name": type(policy).__name__, "parameters": plain_parameters(policy)}
            if saved != given:
                raise InvalidInput(f"the state was saved by {saved}, and does not fit {given}")
            agent = cls(
                policy,
                data["arms"],
                int(data["seed"]),
                instance_number=int(data["instance_number"]),
                instance=instance,
                horizon=horizon,
            )
            if data["told"] != agent._told:
                raise InvalidInput(
                    "the state was saved by an oracle told another instance or horizon"
                )
            for name, view in agent._own_views().items():
                view[...] = _from_json(data["state"][name], view)
            agent.round = whole_number("round", int(data["round"]))
            agent.retired = {whole_number("arm", arm, 0, agent.arms) for arm in data["retired"]}
            for t, arm, memo in data["pending"]:
                ticket = Ticket(
                    whole_number("round", int(t), 1, agent.round + 1),
                    whole_number("arm", arm, 0, agent.arms),
                    tuple(float(number) for number in memo),
                )
                sizes = {policy.memo_size(k) for k in range(1, agent.arms + 1)}
                if len(ticket.memo) not in sizes:
                    raise InvalidInput(f"the agent file holds a broken ticket: {ticket}")
                agent.pending[ticket.round] = ticket
        except KeyError as missing:
            raise InvalidInput(f"the agent file has no {missing} entry") from None
        except (TypeError, ValueError) as error:
            if isinstance(error, InvalidInput):
                raise
            raise InvalidInput(f"the agent file is damaged: {error}") from None
        return agent

    def save(self, path: str | Path) -> None:
        """Write the state to a JSON file."""
        write_json(path, self.to_json(), sealed=True)

    @classmethod
    def load(
        cls,
        path: str | Path,
        policy: Policy,
        *,
        instance: Instance | None = None,
        horizon: int | None = None,
    ) -> Agent:
        """Read an agent from a file written by :meth:`save`."""
        return cls.from_json(read_json(path), policy, instance=instance, horizon=horizon)

    def _field_to_json(self, name: str, array: npt.NDArray[Any]) -> list[Any]:
        if not np.isfinite(array).all():
            raise InvalidPolicy(
                f"{type(self.policy).__name__} keeps infinite or undefined numbers in {name!r}; "
                "they cannot be saved, so keep a flag for what is not known yet"
            )
        values = array.ravel().tolist()
        return [str(v) for v in values] if array.dtype == np.int64 else values

    def _own_views(self) -> dict[str, npt.NDArray[Any]]:
        """Return the fields that change; what an oracle knows is not part of the state."""
        views = self._layout.views(self._arrays)
        return {name: v for name, v in views.items() if name in self.policy.fields(self.arms)}

    def _call(self, function: Any, *arguments: Any) -> Any:
        try:
            return function(self._layout.tag, self._layout.config, self._arrays, *arguments)
        except numba.core.errors.NumbaError as error:
            raise not_compilable(self.policy, error) from None


def _as_one_run(arrays: StateArrays) -> Buffers:
    return {"int64": arrays.ints[None], "float64": arrays.floats[None]}


def _digest(policy: Policy, instance: Instance | None, horizon: int | None) -> str | None:
    """Return what tells one oracle's knowledge from another's; None for everybody else."""
    if not policy.privileged:
        return None
    known = [instance.to_json() if instance else None]
    known.append({"horizon": horizon} if "horizon" in policy.privileged else None)
    return hashlib.sha256(json.dumps(known).encode()).hexdigest()


def not_compilable(policy: Policy, error: Exception) -> InvalidPolicy:
    """Return the error that explains why a policy's functions do not compile."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    reason = "\n  ".join(lines[:12])
    return InvalidPolicy(
        f"{type(policy).__name__} could not be compiled; its functions may use numbers, tuples, "
        f"NumPy arrays and functions decorated with numba.njit. Numba says:\n  {reason}"
    )


def _from_json(values: list[Any], like: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if len(values) != like.size:
        raise InvalidInput(
            f"the agent file holds {len(values)} numbers where {like.size} are needed"
        )
    if like.dtype == np.int64:
        return np.array([int(v) for v in values], np.int64).reshape(like.shape)
    numbers = np.array(values, np.float64)
    if not np.isfinite(numbers).all():
        raise InvalidInput("the agent file holds numbers that are not finite")
    return numbers.reshape(like.shape)


@kernel
def _init(tag: Tag, config: Any, arrays: StateArrays) -> None:
    c, s = unpack(tag, config, arrays)
    init(tag, c, s)


@kernel
def _select(
    tag: Tag,
    config: Any,
    arrays: StateArrays,
    t: int,
    eligible: Any,
    first_key: np.uint64,
    second_key: np.uint64,
) -> int:
    c, s = unpack(tag, config, arrays)
    return select(tag, c, s, t, eligible, stream_at(first_key, second_key, t))


@kernel
def _pulled(tag: Tag, config: Any, arrays: StateArrays, t: int, arm: int, memo: Floats) -> None:
    c, s = unpack(tag, config, arrays)
    pulled(tag, c, s, t, arm, memo)


@kernel
def _observed(
    tag: Tag,
    config: Any,
    arrays: StateArrays,
    t: int,
    arm: int,
    memo: Floats,
    loss: float,
) -> None:
    c, s = unpack(tag, config, arrays)
    observed(tag, c, s, t, arm, memo, loss)


@kernel
def _arm_added(tag: Tag, config: Any, arrays: StateArrays, arm: int) -> None:
    c, s = unpack(tag, config, arrays)
    arm_added(tag, c, s, arm)


@kernel
def _arm_retired(tag: Tag, config: Any, arrays: StateArrays, arm: int) -> None:
    c, s = unpack(tag, config, arrays)
    arm_retired(tag, c, s, arm)
