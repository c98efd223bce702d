"""Agent: any policy, one decision at a time, with a state that can be saved."""

from __future__ import annotations

import copy
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from influential_bandits.checks import (
    LARGEST_ARMS,
    LARGEST_HORIZON,
    abbreviate,
    count_hours,
    require_names,
    require_time,
    whole_number,
)
from influential_bandits.errors import (
    InfluentialBanditsError,
    InvalidInput,
    InvalidPolicy,
    NotApplicable,
)
from influential_bandits.files import read_sealed_json, write_json
from influential_bandits.logs.log import EventLog
from influential_bandits.logs.membership import Membership
from influential_bandits.numerics.arrays import Floats
from influential_bandits.numerics.streams import POLICY, stream_keys
from influential_bandits.policies.compiled import KERNELS, Layout, StateArrays
from influential_bandits.policies.contract import Policy, plain_parameters, require_policy
from influential_bandits.policies.foresight.policy import Foresight
from influential_bandits.policies.history import History
from influential_bandits.policies.messages import explain
from influential_bandits.policies.registry import policy_from_json, policy_to_json
from influential_bandits.policies.state_json import (
    field_from_json,
    floats_from_json,
    list_from_json,
    whole_from_json,
)
from influential_bandits.policies.tickets import (
    NamedArms,
    are_names,
    require_loss,
    require_pending,
    take_before,
)
from influential_bandits.world.instance import Instance

FORMAT = "influential-bandits/agent/1"
TIMED = ("select", "pulled", "observed")  # functions that are told a round


class Ticket(NamedTuple):
    """A pull whose loss may still be to come.

    Examples
    --------
    >>> import influential_bandits as ib
    >>> Agent(ib.LCB(), arms=["tea", "coffee"]).pull()
    Ticket(round=1, arm=0, name='tea', memo=())
    """

    round: int  # 1, 2, …
    arm: int  # its number
    name: str  # its name; of arms without names, the number as text
    memo: tuple[float, ...] = ()  # what the policy wants to see again with the loss


class Agent(NamedArms):
    """A policy at work: it decides, learns losses in any order, and can be saved and resumed.

    Arms may come (:meth:`add_arm`) and go (:meth:`retire_arm`) while it works. A loss that will
    not come any more is given up by :meth:`cancel` or :meth:`expire`. Memory does not grow with the
    rounds, but for losses to come and, on demand, the history.

    Pulls may have times (``at``, in seconds). A policy with memory by the clock must be told them,
    such as ``Foresight(half_life=12)``. Time never runs backwards: an earlier time than that of the
    latest pull counts as that one.

    The same compiled functions run here as in :func:`simulate`; with the same seed and the same
    losses an agent makes the same choices as the engine.

    Parameters
    ----------
    policy : Policy, optional
        By default :class:`Foresight`.
    arms : int or sequence of str
        How many arms there are, or their names. Arms have numbers 0, 1, …; where they have names,
        every method takes these, too.
    seed, instance_number : int
        Choose the stream of the policy's own random numbers.
    instance, horizon : optional
        What a privileged policy (an oracle) is told.
    check : bool
        Check every index in the policy's functions, as :func:`simulate` does on demand. An agent
        read from a file without a checksum does so by itself.
    history : bool
        Keep every loss, for :meth:`to_log`: 24 bytes a round.

    Examples
    --------
    >>> import influential_bandits as ib
    >>> agent = Agent(ib.InfluentialLCB(), arms=["tea", "coffee", "milk"], history=True)
    >>> first, second = agent.pull(), agent.pull()
    >>> first.name, second.name
    ('tea', 'coffee')
    >>> agent.observe(second, loss=0.5)
    >>> agent.observe(first, loss=0.7)
    >>> agent.select()
    2
    >>> agent.to_log().loss
    array([0.7, 0.5])
    """

    def __init__(
        self,
        policy: Policy | None = None,
        arms: int | Sequence[str] = (),
        seed: int = 0,
        *,
        instance_number: int = 0,
        instance: Instance | None = None,
        horizon: int | None = None,
        check: bool = False,
        history: bool = False,
    ) -> None:
        policy = Foresight() if policy is None else require_policy(policy)
        self.policy = policy
        self._name_arms(require_names("arms", arms) if are_names(arms) else None)
        number = arms if self._names is None else len(self._names)
        self.n_arms = whole_number("arms", number, 1, LARGEST_ARMS + 1)
        self.seed = whole_number("seed", seed)
        self.instance_number = whole_number("instance_number", instance_number)
        self.round = 0  # pulls so far
        self.time: float | None = None  # of the latest pull, in seconds, if pulls have times
        self.pending: dict[int, Ticket] = {}  # by round
        self.retired: set[int] = set()
        self._history = History() if history else None
        self._by_clock = policy.by_clock
        self._known = (instance, horizon) if policy.privileged else ()
        self._checked = bool(check)
        self._knowledge = _digest(policy, instance, horizon)
        self._lay_out()
        self._arrays = self._layout.arrays()
        self._call("init")

    def _lay_out(self) -> None:
        """Find the compiled code and the places of the state for the policy and its arms."""
        self._layout = Layout(self.policy, self.n_arms, *self._known, checked=self._checked)
        self._choose_stream()

    def _choose_stream(self) -> None:
        keys = stream_keys(np.uint64(self.seed), np.uint64(self.instance_number), POLICY)
        self._keys = np.uint64(keys[0]), np.uint64(keys[1])

    def start_anew(self, instance_number: int) -> Agent:
        """Return an agent of the same policy and arms for another instance, before its first round.

        It shares the compiled code, so that thousands of agents start quickly.

        Examples
        --------
        >>> import influential_bandits as ib
        >>> agent = Agent(ib.LCB(), arms=["tea", "coffee"])
        >>> agent.start_anew(instance_number=7).pull().name
        'tea'
        """
        other = copy.copy(self.__dict__)
        other.update(
            instance_number=whole_number("instance_number", instance_number),
            round=0,
            time=None,
            pending={},
            retired=set(),
            _history=None if self._history is None else History(),
            _arrays=self._layout.arrays(),
        )
        agent = object.__new__(type(self))
        agent.__dict__.update(other)
        agent._choose_stream()
        agent._call("init")
        return agent

    def __getstate__(self) -> dict[str, Any]:
        """Return all that an agent is but its compiled code; copies, which nobody else changes."""
        return {
            **self.__dict__,
            "pending": dict(self.pending),
            "retired": set(self.retired),
            "_history": copy.deepcopy(self._history),
            "_layout": None,
            "_arrays": (self._arrays.ints.copy(), self._arrays.floats.copy()),
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lay_out()
        self._arrays = self._layout.arrays(*state["_arrays"])

    def __repr__(self) -> str:
        parts = [repr(self.policy), self._describe_arms()]
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

    def expected_losses(self, at: float | None = None) -> Floats | None:
        """Return the policy's estimate of each arm's loss now, (arms,); None if it keeps none.

        Policies that estimate them keep a field ``mean``, or define ``expected``. ``at`` is the
        time to look at, in seconds; by default that of the latest pull.

        Examples
        --------
        >>> import influential_bandits as ib
        >>> agent = Agent(ib.LCB(), arms=2)
        >>> agent.observe(agent.pull(), loss=0.5)
        >>> agent.expected_losses()
        array([0.5, 0. ])
        """
        if type(self.policy).expected is not Policy.expected:
            losses = np.zeros(self.n_arms)
            self._call("expected", losses, arrays=self._arrays_at(at))
            return losses
        buffer, where, lengths = self._layout.slices.get("mean", ("", slice(0), ()))
        if buffer != "float64" or lengths != (self.n_arms,):
            return None
        return self._arrays_at(at).floats[where].copy()

    def select(self, eligible: npt.ArrayLike | None = None, at: float | None = None) -> int:
        """Return the arm for the next round without pulling it.

        Parameters
        ----------
        eligible : bool array (arms,) or sequence of names, optional
            The arms that may be chosen; by default all.
        at : float, optional
            When that round would be, in seconds; by default at the time of the latest pull.
        """
        return self._select(self._eligible(eligible), self._arrays_at(at))

    def _select(self, mask: npt.NDArray[np.bool_] | None, arrays: StateArrays) -> int:
        t = self.round + 1
        arm = int(self._call("select", t, mask, *self._keys, arrays=arrays))
        if not 0 <= arm < self.n_arms or (mask is not None and not mask[arm]):
            name = type(self.policy).__name__
            raise InvalidPolicy(f"{name} chose arm {arm} in round {t}, which is not on offer")
        return arm

    def pull(
        self,
        arm: int | str | None = None,
        eligible: npt.ArrayLike | None = None,
        at: float | None = None,
    ) -> Ticket:
        """Pull an arm, by default the selected one, and return the ticket for its loss.

        Parameters
        ----------
        arm : int or str, optional
        eligible : bool array (arms,) or sequence of names, optional
            The arms that may be chosen; by default all.
        at : float, optional
            When, in seconds; a policy with memory by the clock must be told.

        Examples
        --------
        >>> import influential_bandits as ib
        >>> agent = Agent(ib.LCB(), arms=["tea", "coffee"], history=True)
        >>> for day in range(2):
        ...     agent.observe(agent.pull(at=86_400.0 * day), loss=0.5)
        >>> agent.to_log().time
        array([    0., 86400.])
        """
        mask = self._eligible(eligible)
        chosen = -1 if arm is None else self._number(arm)
        if mask is not None and chosen >= 0 and not mask[chosen]:
            raise InvalidInput(f"arm {arm!r} is retired or not eligible")
        return self._pull(chosen, mask, at)

    def expose(self, arm: int | str, at: float | None = None) -> Ticket:
        """Note that an arm was shown without asking, be it retired; return the ticket for its loss.

        The world has moved all the same. Cancel the ticket if there is no loss to come.
        """
        return self._pull(self._number(arm), None, at)

    def _pull(self, chosen: int, mask: npt.NDArray[np.bool_] | None, at: float | None) -> Ticket:
        """Pull an arm, or the one selected among the eligible if it is below 0."""
        t = whole_number("the round", self.round + 1, 1, LARGEST_HORIZON)
        now = self._require_time(at)
        arrays = self._arrays_at(at) if chosen < 0 else self._arrays
        if chosen < 0:
            chosen = self._select(mask, arrays)
        if arrays is self._arrays:
            self._let_pass(arrays, now)
        self._arrays = arrays  # only now: a policy that fails has seen no time pass
        self.time = now
        if self._history is not None:
            self._history.note_time(t, None if at is None else now)
        memo = np.zeros(self._layout.memo_size)
        self._call("pulled", t, chosen, memo)
        self.round = t
        ticket = Ticket(self.round, chosen, self._name(chosen), tuple(memo.tolist()))
        self.pending[ticket.round] = ticket
        return ticket

    def _require_time(self, at: float | None) -> float | None:
        """Return the time of a pull that is made at ``at``: time never runs backwards."""
        if at is not None:
            at = require_time(at)
            return at if self.time is None else max(at, self.time)
        if self._by_clock:
            raise InvalidInput(
                f"{self.policy.label:.80} has memory by the clock, so that a pull has a time: say "
                "at=, in seconds"
            )
        return self.time

    def _let_pass(self, arrays: StateArrays, at: float | None) -> None:
        """Tell a policy with memory by the clock that the time until ``at`` passes."""
        if self.time is not None and at is not None and self._by_clock:
            self._call("elapsed", count_hours(self.time, at), arrays=arrays)

    def _arrays_at(self, at: float | None) -> StateArrays:
        """Return the state as of a time: the state itself, or a copy in which time has passed."""
        at = None if at is None else require_time(at)
        if at is None or self.time is None or not self._by_clock:
            return self._arrays
        arrays = self._layout.arrays(self._arrays.ints.copy(), self._arrays.floats.copy())
        self._let_pass(arrays, at)
        return arrays

    def observe(self, ticket: Ticket, loss: float) -> None:
        """Learn the loss of a pull; any order, each ticket once."""
        self._require_pending(ticket)
        loss = require_loss(loss)
        del self.pending[ticket.round]
        memo = np.zeros(max(self._layout.memo_size, len(ticket.memo)))
        memo[: len(ticket.memo)] = ticket.memo  # shorter, if arms came after the pull
        self._call("observed", ticket.round, ticket.arm, memo, loss)
        if self._history is not None:
            self._history.add(ticket.round, ticket.arm, loss)

    def cancel(self, ticket: Ticket) -> None:
        """Give up a loss that will not come; the pull stays counted, as the world has moved."""
        self._require_pending(ticket)
        del self.pending[ticket.round]

    def expire(self, before_round: int) -> list[Ticket]:
        """Give up the losses of all pulls before a round; return their tickets.

        Examples
        --------
        >>> import influential_bandits as ib
        >>> agent = Agent(ib.LCB(), arms=2)
        >>> tickets = [agent.pull() for _ in range(5)]
        >>> [ticket.round for ticket in agent.expire(agent.round - 1)]
        [1, 2, 3]
        """
        limit = whole_number("before_round", before_round, -LARGEST_HORIZON)
        return take_before(self.pending, limit)

    def _require_pending(self, ticket: Ticket) -> None:
        known = isinstance(ticket, Ticket)
        require_pending(ticket, self.pending.get(ticket.round) if known else None)

    def to_log(self, instance: str | None = None) -> EventLog:
        """Return the losses observed so far as the log of one instance, in the order of the pulls.

        The agent must have been made with ``history=True``. Pulls whose loss is to come, was
        cancelled or has expired are not in the log; ``about`` says how many there are. Where all
        pulls had times, these are the times of the log, otherwise the rounds.

        Parameters
        ----------
        instance : str, optional
            The label of the instance; by default its number.
        """
        if self._history is None:
            raise NotApplicable(
                "this agent keeps no history, so that its memory does not grow; make it with "
                "Agent(…, history=True) to have its log"
            )
        rounds, arms, losses, times = self._history.columns()
        label = str(self.instance_number) if instance is None else instance
        names, order = self.arm_names, np.argsort(rounds)  # several pulls may have one time
        return EventLog(
            np.full(len(rounds), label),
            arms[order],
            losses[order],
            times[order],
            Membership({name: [name] for name in names}, names),
            {
                "policy": self.policy.label,
                "rounds": self.round,
                "pulls without a loss": self.round - len(rounds),
            },
        )

    def add_arm(self, name: str | None = None) -> int:
        """Take a new arm on and return its number; it is tried like any arm never pulled.

        Without a name it is called by its number.
        """
        if self.policy.privileged:
            raise NotApplicable(
                f"{type(self.policy).__name__} knows an instance of {self.n_arms} arms"
            )
        names = self._names
        if names is not None or name is not None:
            new = str(self.n_arms) if name is None else name
            names = require_names("arms", [*self.arm_names, new])
        before = self._layout
        n_arms = whole_number("arms", self.n_arms + 1, 1, LARGEST_ARMS + 1)
        self._layout = Layout(self.policy, n_arms, checked=self._checked)
        self.n_arms = n_arms
        self._name_arms(names)
        ints, floats = self._arrays.ints[None], self._arrays.floats[None]
        (ints,), (floats,) = self._layout.lay_out_anew(before, ints, floats)
        self._arrays = self._layout.arrays(ints, floats)
        self._call("arm_added", self.n_arms - 1)
        return self.n_arms - 1

    def retire_arm(self, arm: int | str) -> None:
        """Never choose an arm again; losses still to come are taken."""
        self._call("arm_retired", self._retire(arm))

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
            "policy": policy_to_json(self.policy),
            "n_arms": self.n_arms,
            "arm_names": None if self._names is None else list(self._names),
            "seed": str(self.seed),
            "instance_number": str(self.instance_number),
            "round": str(self.round),
            "time": self.time,
            "retired": sorted(self.retired),
            "pending": [[str(t.round), t.arm, list(t.memo)] for t in self.pending.values()],
            "knowledge": self._knowledge,
            "history": None if self._history is None else self._history.to_json(),
            "state": {name: self._field_to_json(name, v) for name, v in self._own_views().items()},
        }

    @classmethod
    def from_json(
        cls,
        data: Mapping[str, Any],
        policy: Policy | None = None,
        *,
        instance: Instance | None = None,
        horizon: int | None = None,
        check: bool = True,
    ) -> Agent:
        """Return the agent that :meth:`to_json` described; see :meth:`load`.

        Indices are checked, since a number of the state may serve as one; leave that out only where
        nobody can have changed the data.
        """
        if not isinstance(data, Mapping) or data.get("format") != FORMAT:
            raise InvalidInput(f'this is no agent file: expected "format": "{FORMAT}"')
        try:
            names = data["arm_names"]
            agent = cls(
                policy_from_json(data["policy"], policy),
                data["n_arms"] if names is None else require_names("arm_names", names),
                whole_from_json("seed", data["seed"], 2**64),
                instance_number=whole_from_json("instance_number", data["instance_number"], 2**64),
                instance=instance,
                horizon=horizon,
                check=check,
                history=data["history"] is not None,
            )
            if agent.n_arms != data["n_arms"]:
                raise InvalidInput(
                    f"the agent file is damaged: {agent.n_arms} arm_names, expected n_arms = "
                    f"{abbreviate(data['n_arms'])}"
                )
            if data["knowledge"] != agent._knowledge:
                raise InvalidInput(
                    "the state was saved by an oracle told another instance or horizon"
                )
            agent._restore(data)
        except KeyError as missing:
            raise InvalidInput(f"the agent file has no {missing} entry") from None
        return agent

    def _restore(self, data: Mapping[str, Any]) -> None:
        """Take a state from a file, which anybody may have changed."""
        self.round = whole_from_json("round", data["round"], LARGEST_HORIZON)
        self.time = None if data["time"] is None else require_time(data["time"])
        fields, saved = self._own_views(), data["state"]
        if not isinstance(saved, Mapping) or set(saved) != set(fields):
            raise InvalidInput(f"the agent file must hold the fields {', '.join(fields)} as state")
        for name, view in fields.items():
            view[...] = field_from_json(name, saved[name], view)
        self.retired = {
            whole_from_json("a retired arm", arm, self.n_arms)
            for arm in list_from_json("retired", data["retired"])
        }
        if not len(data["retired"]) == len(self.retired) < self.n_arms:
            raise InvalidInput("the agent file retires an arm twice, or all arms")
        if self._history is not None:
            self._history = History.from_json(data["history"], self.n_arms, self.round)
        heard = set() if self._history is None else set(self._history.rounds)
        for entry in list_from_json("pending", data["pending"]):
            ticket = self._ticket(entry)
            if ticket.round in self.pending or ticket.round in heard:
                raise InvalidInput(f"the agent file has two tickets of round {ticket.round}")
            self.pending[ticket.round] = ticket

    def _ticket(self, entry: object) -> Ticket:
        """Return a ticket of a file."""
        if not isinstance(entry, (list, tuple)) or len(entry) != 3:
            raise InvalidInput(f"the agent file holds a broken ticket: {abbreviate(entry)}")
        t, arm, memo = entry
        number = whole_from_json("the arm of a ticket", arm, self.n_arms)
        ticket = Ticket(
            whole_from_json("the round of a ticket", t, self.round + 1, least=1),
            number,
            self._name(number),
            tuple(floats_from_json("a memo", memo).tolist()),
        )
        size = len(ticket.memo)
        if size > self._layout.memo_size:  # fewer, if there were fewer arms at the pull
            raise InvalidInput(f"the agent file holds a ticket with a memo of {size} numbers")
        return ticket

    def save(self, path: str | Path) -> None:
        """Write the state to a JSON file."""
        write_json(path, self.to_json(), sealed=True)

    @classmethod
    def load(
        cls,
        path: str | Path,
        policy: Policy | None = None,
        *,
        instance: Instance | None = None,
        horizon: int | None = None,
        check: bool = False,
    ) -> Agent:
        """Read an agent from a file written by :meth:`save`.

        Parameters
        ----------
        path : path
        policy : Policy, optional
            The policy that was saved. By default it is made from the file: those of the package by
            their names, and one of your own by the module that defines it, which is imported. So
            give the policy if it is defined in a script or notebook, or the file is not yours.
        instance, horizon, check : optional
            As of a new agent; an oracle is told again what it knew. Of a file whose checksum was
            removed, to edit it, indices are checked in any case.

        Examples
        --------
        >>> import os, tempfile
        >>> import influential_bandits as ib
        >>> agent = Agent(ib.InfluentialLCB(), arms=["tea", "coffee"])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     agent.save(os.path.join(folder, "agent.json"))
        ...     Agent.load(os.path.join(folder, "agent.json")).arm_names
        ('tea', 'coffee')
        """
        data, sealed = read_sealed_json(path)
        check = check or not sealed
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

    def _call(self, hook: str, *arguments: Any, arrays: StateArrays | None = None) -> Any:
        """Call a function of the policy on a state, by default the agent's own."""
        arrays = self._arrays if arrays is None else arrays
        try:
            return KERNELS[hook](self._layout.tag, self._layout.config, arrays, *arguments)
        except InfluentialBanditsError:
            raise
        except Exception as error:
            moment = f" in {hook}, round {arguments[0] if hook in TIMED else self.round}"
            raise explain(self.policy, self._layout, error, moment) from error


def _digest(policy: Policy, instance: Instance | None, horizon: int | None) -> str | None:
    """Return what tells one oracle's knowledge from another's; None for everybody else."""
    if not policy.privileged:
        return None
    known = [instance.to_json() if instance else None]
    known.append({"horizon": horizon} if "horizon" in policy.privileged else None)
    return hashlib.sha256(json.dumps(known).encode()).hexdigest()
