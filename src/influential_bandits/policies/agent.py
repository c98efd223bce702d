"""Agent: any policy, one decision at a time, with a state that can be saved."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from influential_bandits.checks import (
    LARGEST_ARMS,
    LARGEST_HORIZON,
    LARGEST_LOSS,
    arm_number,
    is_real,
    shown,
    whole_number,
)
from influential_bandits.errors import (
    InfluentialBanditsError,
    InvalidInput,
    InvalidPolicy,
    NotApplicable,
)
from influential_bandits.files import read_json, write_json
from influential_bandits.numerics.arrays import Floats
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
    pulled,
    select,
    unpack,
)
from influential_bandits.policies.contract import Policy, ask, checked_policy, plain_parameters
from influential_bandits.policies.messages import explain
from influential_bandits.world.instance import Instance

__all__ = ["Agent", "Ticket"]

FORMAT = "influential-bandits/agent/1"
TIMED = ("select", "pulled", "observed")  # functions that are told a round
MOST_ARRIVALS = 1 << 16  # arms that may have come while a loss was under way


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
    check : bool
        Check every index in the policy's functions, as :func:`simulate` does on demand. An agent
        read from a file does so by itself, unless the policy's class vouches for its states.

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
        check: bool = False,
    ) -> None:
        self.policy = checked_policy(policy)
        self.n_arms = whole_number("arms", arms, 1, LARGEST_ARMS + 1)
        self.seed = whole_number("seed", seed)
        self.instance_number = whole_number("instance_number", instance_number)
        self.round = 0  # pulls so far
        self.pending: dict[int, Ticket] = {}  # by round
        self.retired: set[int] = set()
        self._known = (instance, horizon) if policy.privileged else ()
        self._checked = bool(check)
        self._told = _digest(policy, instance, horizon)
        self._lay_out()
        self._arrays = self._layout.arrays()
        self._call("init", _init)

    def _lay_out(self) -> None:
        """Find the compiled code and the places of the state for the policy and its arms."""
        self._layout = Layout(self.policy, self.n_arms, *self._known, checked=self._checked)
        keys = stream_keys(np.uint64(self.seed), np.uint64(self.instance_number), POLICY)
        self._keys = np.uint64(keys[0]), np.uint64(keys[1])

    def __getstate__(self) -> dict[str, Any]:
        """Return all that an agent is but its compiled code; copies, which nobody else changes."""
        return {
            **self.__dict__,
            "pending": dict(self.pending),
            "retired": set(self.retired),
            "_layout": None,
            "_arrays": (self._arrays.ints.copy(), self._arrays.floats.copy()),
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Find the compiled code again."""
        self.__dict__.update(state)
        self._lay_out()
        self._arrays = self._layout.arrays(*state["_arrays"])

    def __repr__(self) -> str:
        """Say who plays, and how far it is."""
        parts = [repr(self.policy), f"{self.n_arms} arm{'s' * (self.n_arms != 1)}"]
        if self.retired:
            parts.append(f"{len(self.retired)} retired")
        parts.append(f"{self.round} round{'s' * (self.round != 1)} played")
        if self.pending:
            waiting = len(self.pending)
            parts.append(f"{waiting} loss{'es' * (waiting != 1)} to come")
        return f"Agent({', '.join(parts)})"

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
        arm = int(self._call("select", _select, t, mask, *self._keys))
        if not 0 <= arm < self.n_arms or (mask is not None and not mask[arm]):
            name = type(self.policy).__name__
            raise InvalidPolicy(f"{name} chose arm {arm} in round {t}, which is not on offer")
        return arm

    def pull(self, arm: int | None = None, eligible: npt.ArrayLike | None = None) -> Ticket:
        """Pull an arm, by default the selected one, and return the ticket for its loss."""
        chosen = self.select(eligible) if arm is None else arm_number(arm, self.n_arms)
        mask = self._eligible(eligible)
        if mask is not None and not mask[chosen]:
            raise InvalidInput(f"arm {arm!r} is retired or not eligible")
        t = whole_number("the round", self.round + 1, 1, LARGEST_HORIZON)
        memo = np.zeros(self._layout.memo_size)
        self._call("pulled", _pulled, t, chosen, memo)
        self.round = t
        ticket = Ticket(self.round, int(chosen), tuple(memo.tolist()))
        self.pending[ticket.round] = ticket
        return ticket

    def observe(self, ticket: Ticket, loss: float) -> None:
        """Learn the loss of a pull; any order, each ticket once."""
        if not isinstance(ticket, Ticket) or self.pending.get(ticket.round) != ticket:
            raise InvalidInput(f"{ticket} is not pending: unknown, or already observed")
        if not is_real(loss) or not abs(float(loss)) <= LARGEST_LOSS:
            raise InvalidInput(
                f"loss must be a finite number, at most {LARGEST_LOSS:g} in size, got {shown(loss)}"
            )
        del self.pending[ticket.round]
        memo = np.zeros(max(self._layout.memo_size, len(ticket.memo)))
        memo[: len(ticket.memo)] = ticket.memo  # shorter, if arms came after the pull
        self._call("observed", _observed, ticket.round, ticket.arm, memo, float(loss))

    def add_arm(self) -> int:
        """Take a new arm on and return its number; it is tried like any arm never pulled."""
        if self.policy.privileged:
            raise NotApplicable(
                f"{type(self.policy).__name__} knows an instance of {self.n_arms} arms"
            )
        before, old = self._layout, _as_one_run(self._arrays)
        n_arms = whole_number("arms", self.n_arms + 1, 1, LARGEST_ARMS + 1)
        self._layout = Layout(self.policy, n_arms, checked=self._checked)
        self.n_arms = n_arms
        self._arrays = self._layout.arrays(*map(np.zeros_like, self._layout.fresh.values()))
        self._layout.carry_over(before, old, _as_one_run(self._arrays))
        self._call("arm_added", _arm_added, self.n_arms - 1)
        return self.n_arms - 1

    def retire_arm(self, arm: int) -> None:
        """Never choose an arm again; losses still to come are taken."""
        arm = arm_number(arm, self.n_arms)
        if arm in self.retired:
            raise InvalidInput(f"arm {arm!r} is not in use")
        if len(self.retired) == self.n_arms - 1:
            raise InvalidInput(f"arm {arm} is the last one in use")
        self.retired.add(int(arm))
        self._call("arm_retired", _arm_retired, int(arm))

    def _eligible(self, given: npt.ArrayLike | None) -> npt.NDArray[np.bool_] | None:
        if given is None and not self.retired:
            return None
        mask = np.ones(self.n_arms, np.bool_) if given is None else np.array(given, np.bool_)
        if mask.shape != (self.n_arms,):
            raise InvalidInput(
                f"eligible must have one entry for each of the {self.n_arms} arms, "
                f"got {shown(given)}"
            )
        mask[list(self.retired)] = False
        if not mask.any():
            raise InvalidInput("eligible must leave at least one arm that is in use")
        return mask

    def to_json(self) -> dict[str, Any]:
        """Return the state as strict JSON data: no NaN or Infinity, 64-bit integers as strings."""
        settings = plain_parameters(self.policy)
        endless = [name for name, value in settings.items() if not math.isfinite(value)]
        if endless:
            raise InvalidPolicy(
                f"{type(self.policy).__name__} cannot be saved: its parameter {endless[0]} is "
                f"{settings[endless[0]]}; take a large number instead"
            )
        for ticket in self.pending.values():
            self._field_to_json("memo", np.array(ticket.memo))
        return {
            "format": FORMAT,
            "policy": {"name": type(self.policy).__name__, "parameters": settings},
            "n_arms": self.n_arms,
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
        check: bool = False,
    ) -> Agent:
        """Return the agent that :meth:`to_json` described, by the policy that was saved."""
        if not isinstance(data, Mapping) or data.get("format") != FORMAT:
            raise InvalidInput(f'this is no agent file: expected "format": "{FORMAT}"')
        policy = checked_policy(policy)
        try:
            given = {"name": type(policy).__name__, "parameters": plain_parameters(policy)}
            if data["policy"] != given:
                raise InvalidInput(
                    f"the state was saved by {shown(data['policy'])}, and does not fit {given}"
                )
            agent = cls(
                policy,
                data["n_arms"],
                _whole("seed", data["seed"], 2**64),
                instance_number=_whole("instance_number", data["instance_number"], 2**64),
                instance=instance,
                horizon=horizon,
                check=check,
            )
            if data["told"] != agent._told:
                raise InvalidInput(
                    "the state was saved by an oracle told another instance or horizon"
                )
            agent._restore(data)
        except KeyError as missing:
            raise InvalidInput(f"the agent file has no {missing} entry") from None
        return agent

    def _restore(self, data: Mapping[str, Any]) -> None:
        """Take a state from a file, which anybody may have changed."""
        self.round = _whole("round", data["round"], LARGEST_HORIZON)
        fields, saved = self._own_views(), data["state"]
        if not isinstance(saved, Mapping) or not set(saved) <= set(fields):
            raise InvalidInput(f"the agent file must hold the fields {', '.join(fields)} as state")
        for name, view in fields.items():
            view[...] = _from_json(name, saved[name], view)
        self.retired = {_whole("a retired arm", a, self.n_arms) for a in _list(data, "retired")}
        if not len(data["retired"]) == len(self.retired) < self.n_arms:
            raise InvalidInput("the agent file retires an arm twice, or all arms")
        ask(self.policy, "check_state", self.n_arms, self.round, self.state)
        for entry in _list(data, "pending"):
            ticket = self._ticket(entry)
            if ticket.round in self.pending:
                raise InvalidInput(f"the agent file has two tickets of round {ticket.round}")
            self.pending[ticket.round] = ticket
        if not self._checked and not _vouches(self.policy):
            self._checked = True
            self._lay_out()

    def _ticket(self, entry: object) -> Ticket:
        """Return a ticket of a file."""
        if not isinstance(entry, (list, tuple)) or len(entry) != 3:
            raise InvalidInput(f"the agent file holds a broken ticket: {shown(entry)}")
        t, arm, memo = entry
        ticket = Ticket(
            _whole("the round of a ticket", t, self.round + 1, least=1),
            _whole("the arm of a ticket", arm, self.n_arms),
            tuple(_floats("a memo", memo).tolist()),
        )
        size = len(ticket.memo)  # of the arms at the pull, which may have been fewer
        if size != self._layout.memo_size and not any(
            size == ask(self.policy, "memo_size", n_arms)
            for n_arms in range(max(1, self.n_arms - MOST_ARRIVALS), self.n_arms)
        ):
            raise InvalidInput(f"the agent file holds a ticket with a memo of {size} numbers")
        ask(self.policy, "check_memo", self.n_arms, self.round, np.array(ticket.memo))
        return ticket

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
        check: bool = False,
    ) -> Agent:
        """Read an agent from a file written by :meth:`save`."""
        data = read_json(path)
        return cls.from_json(data, policy, instance=instance, horizon=horizon, check=check)

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
        return {name: v for name, v in views.items() if not self._layout.is_known(name)}

    def _call(self, hook: str, function: Any, *arguments: Any) -> Any:
        try:
            return function(self._layout.tag, self._layout.config, self._arrays, *arguments)
        except InfluentialBanditsError:
            raise
        except Exception as error:
            moment = f" in {hook}, round {arguments[0] if hook in TIMED else self.round}"
            raise explain(self.policy, self._layout, error, moment) from error


def _as_one_run(arrays: StateArrays) -> Buffers:
    return {"int64": arrays.ints[None], "float64": arrays.floats[None]}


def _digest(policy: Policy, instance: Instance | None, horizon: int | None) -> str | None:
    """Return what tells one oracle's knowledge from another's; None for everybody else."""
    if not policy.privileged:
        return None
    known = [instance.to_json() if instance else None]
    known.append({"horizon": horizon} if "horizon" in policy.privileged else None)
    return hashlib.sha256(json.dumps(known).encode()).hexdigest()


def _vouches(policy: Policy) -> bool:
    """Tell whether a policy's class knows all that its states may be."""
    code = type(policy)
    return "check_state" in vars(code) or code.__module__.startswith("influential_bandits.")


def _whole(what: str, value: object, below: int, least: int = 0) -> int:
    """Return a whole number of a file, where large ones are texts."""
    if isinstance(value, str) and re.fullmatch("-?[0-9]{1,20}", value):
        value = int(value)
    if type(value) is not int or not least <= value < below:
        raise InvalidInput(
            f"the agent file is damaged: {what} is {shown(value)}, expected a whole number in "
            f"{least} … {below - 1}"
        )
    return value


def _list(data: Mapping[str, Any], name: str) -> list[Any]:
    if not isinstance(data[name], (list, tuple)):
        raise InvalidInput(f"the agent file is damaged: {name} is {shown(data[name])}, no list")
    return list(data[name])


def _floats(what: str, values: object) -> Floats:
    """Return finite numbers of a file."""
    if isinstance(values, (list, tuple)) and all(
        type(v) in (int, float) and is_real(v) and math.isfinite(v) for v in values
    ):
        return np.array(values, np.float64)
    raise InvalidInput(f"the agent file is damaged: {what} must be a list of finite numbers")


def _from_json(name: str, values: Any, like: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return a field of a file in the type and shape that it has."""
    if not isinstance(values, (list, tuple)) or len(values) != like.size:
        raise InvalidInput(
            f"the agent file is damaged: {name} must be a list of {like.size} numbers"
        )
    if like.dtype == np.int64:
        whole = [_whole(name, value, 2**63, -(2**63)) for value in values]
        return np.array(whole, np.int64).reshape(like.shape)
    return _floats(name, values).reshape(like.shape)


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
