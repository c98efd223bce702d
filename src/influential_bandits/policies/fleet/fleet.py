"""Fleet: one policy for many users, one decision at a time, with a state that can be saved."""

from __future__ import annotations

import copy
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from influential_bandits.checks import (
    LARGEST_HORIZON,
    LARGEST_LOSS,
    abbreviate,
    require_names,
    require_time,
    whole_number,
)
from influential_bandits.errors import InvalidInput, NotApplicable
from influential_bandits.free_memory import require_memory
from influential_bandits.logs.log import EventLog
from influential_bandits.logs.membership import Membership
from influential_bandits.numerics.arrays import Floats
from influential_bandits.policies.fleet.estimate import SharedEstimate, summarise
from influential_bandits.policies.fleet.handle import (
    choose_for,
    hold,
    learn_from,
    look_for,
    pull_for,
    wait_for,
)
from influential_bandits.policies.fleet.new_arms import add_arm
from influential_bandits.policies.fleet.snapshot import read_fleet, unpack_fleet, write_fleet
from influential_bandits.policies.foresight.policy import Foresight
from influential_bandits.policies.foresight.users import Own, Shared, make_own, remember
from influential_bandits.policies.history import History
from influential_bandits.policies.registry import policy_from_json, policy_to_json
from influential_bandits.policies.tickets import (
    FleetTicket,
    NamedArms,
    require_loss,
    require_pending,
    take_before,
)

TOO_MANY_ARMS = 1001


class Fleet(NamedArms):
    """A policy at work for many users: what one of them teaches about influence helps all.

    It does for many users what :class:`Agent` does for one instance. Users come without notice: the
    first pull makes them known. Losses may come late, in any order, or never. Arms may come
    (:meth:`add_arm`) and go (:meth:`retire_arm`) while it works.

    Pulls may have times (``at``, in seconds); with a half-life they must. For each user time never
    runs backwards: an earlier time than that of its latest pull counts as that one.

    Parameters
    ----------
    policy : Foresight, optional
    arms : int or sequence of str
        How many arms there are, or their names.
    history : bool
        Keep every loss, for :meth:`to_log`: 32 bytes a loss.

    Examples
    --------
    >>> fleet = Fleet(arms=["tea", "coffee", "milk"], history=True)
    >>> first, second = fleet.pull("ann"), fleet.pull("bob", eligible=["coffee", "milk"])
    >>> first.name, second.name
    ('tea', 'coffee')
    >>> fleet.observe(second, loss=0.5)
    >>> fleet.observe(first, loss=0.7)
    >>> fleet
    Fleet(3 arms (tea, coffee, milk), 2 users, 2 pulls, 2 losses)
    >>> fleet.to_log().instances
    ('bob', 'ann')
    """

    def __init__(
        self,
        policy: Foresight | None = None,
        *,
        arms: int | Sequence[str],
        history: bool = False,
    ) -> None:
        self.policy = Foresight() if policy is None else policy
        if not isinstance(self.policy, Foresight):
            raise InvalidInput(f"policy must be a Foresight, got {abbreviate(policy)}")
        named = not isinstance(arms, (int, np.integer))
        self._name_arms(require_names("arms", arms) if named else None)
        number = arms if self._names is None else len(self._names)
        self.n_arms = whole_number("arms", number, 1, TOO_MANY_ARMS)
        self.retired: set[int] = set()
        self._rules = self.policy.rules(self.n_arms)
        self._shared, self._own = self.policy.start(self.n_arms), make_own(self._rules, 1)
        self._held: Any = None  # all arrays behind one reference, made when needed
        self._rows: dict[str, int] = {}
        self._free: list[int] = []
        self.pulls = 0  # of all users
        self.losses = 0  # that came in
        self.pending: dict[int, FleetTicket] = {}  # by number
        self._history = History() if history else None
        self._of: list[str] = []  # whose losses the history has

    def __getstate__(self) -> dict[str, Any]:
        """Return all that a fleet is but its reference to compiled code; copies."""
        self._held = None  # a reference into the arrays; made anew when needed
        state = {name: copy.copy(value) for name, value in self.__dict__.items()}
        arrays = {name: state[name] for name in ("_shared", "_own", "_history")}
        return {**state, **copy.deepcopy(arrays)}

    def __repr__(self) -> str:
        """Say how many users it serves, and how far it is."""
        parts = [self._describe_arms()]
        if self.retired:
            parts.append(f"{len(self.retired)} retired")
        for count, one, several in (
            (len(self._rows), "user", "users"),
            (self.pulls, "pull", "pulls"),
            (self.losses, "loss", "losses"),
        ):
            parts.append(f"{count:,} {one if count == 1 else several}")
        if self.pending:
            parts.append(f"{len(self.pending):,} to come")
        return f"Fleet({', '.join(parts)})"

    @property
    def users(self) -> tuple[str, ...]:
        """The users known, in the order in which they came."""
        return tuple(self._rows)

    def __contains__(self, user: object) -> bool:
        """Tell whether a user is known."""
        return user in self._rows

    def estimate(self) -> SharedEstimate:
        """Return what is known of the population: μ, A with its errors, and how users differ."""
        return summarise(self._rules, self._shared)

    def expected_losses(self, user: str, at: float | None = None) -> tuple[Floats, Floats]:
        """Return what each arm would cost a user now, and the standard deviations, (arms,) each.

        ``at`` is the time to look at, in seconds; by default that of its latest pull.
        """
        row = self._rows.get(_label(user))
        if row is None:
            raise InvalidInput(
                f"there is no user {abbreviate(user)}; the first pull makes one known"
            )
        mean, variance = np.zeros(self.n_arms), np.zeros(self.n_arms)
        with self._waiting(row, at) as held:
            look_for(held, row, mean, variance)
        return mean, np.sqrt(np.maximum(variance, 0.0))

    def select(
        self, user: str, eligible: npt.ArrayLike | None = None, at: float | None = None
    ) -> int:
        """Return the arm for a user's next round without pulling it.

        ``at`` is when that round would be, in seconds; by default at the time of its latest pull.
        """
        mask, row = self._eligible(eligible), self._row(_label(user))
        with self._waiting(row, at) as held:
            return int(choose_for(held, row, self._every if mask is None else mask, self._looked))

    @contextmanager
    def _waiting(self, row: int, at: float | None) -> Iterator[Any]:
        """Hand all arrays to compiled code as of a time; what only passed for a look comes back."""
        at = None if at is None else require_time(at)
        held = self._held if self._held is not None else self._hold()
        if at is None or not self.policy.by_clock:
            yield held
            return
        own = self._own
        moved = (own.counts[row], own.total[row], own.time[row : row + 1], self._shared.kept)
        before = [part.copy() for part in moved]
        wait_for(held, row, at)
        try:
            yield held
        finally:
            for part, values in zip(moved, before, strict=True):
                part[...] = values

    def latest_look(self, arm: int) -> float:
        """Return what an arm was expected to cost when :meth:`select` last chose one.

        Examples
        --------
        >>> fleet = Fleet(arms=["tea", "coffee"])
        >>> arm = fleet.select("ann")
        >>> bool(fleet.latest_look(arm) == fleet.expected_losses("ann")[0][arm])
        True
        """
        return float(self._looked[arm])

    def pull(
        self,
        user: str,
        arm: int | str | None = None,
        eligible: npt.ArrayLike | None = None,
        at: float | None = None,
    ) -> FleetTicket:
        """Pull an arm for a user, by default the one selected; return the ticket for its loss.

        Parameters
        ----------
        user : str
        arm : int or str, optional
            An arm that was shown without asking: the user's world has moved all the same.
        eligible : bool array (arms,) or sequence of names, optional
            The arms that may be chosen; by default all.
        at : float, optional
            When, in seconds; a policy with a half-life must be told.
        """
        label = _label(user)
        if at is not None:
            at = require_time(at)
        elif self.policy.by_clock:
            raise InvalidInput(
                "this fleet has memory by the clock, so that a pull has a time: say at=, in seconds"
            )
        mask = self._eligible(eligible)
        chosen = -1 if arm is None else self._number(arm)
        if chosen >= 0 and mask is not None and not mask[chosen]:
            raise InvalidInput(f"arm {arm!r} is retired or not eligible")
        number = whole_number("the number of pulls", self.pulls + 1, 1, LARGEST_HORIZON)
        row = self._row(label)
        held = self._held if self._held is not None else self._hold()
        if mask is None:
            mask = self._every
        when = 0.0 if at is None else at
        chosen, rounds = pull_for(held, row, chosen, mask, self._looked, self._memo, when)
        self.pulls = number
        ticket = FleetTicket(
            number, label, rounds, chosen, self._name(chosen), tuple(self._memo.tolist())
        )
        self.pending[number] = ticket
        if self._history is not None:
            self._history.note_time(number, at)
        return ticket

    def observe(self, ticket: FleetTicket, loss: float) -> None:
        """Learn the loss of a pull; any order, each ticket once."""
        self._require_pending(ticket)
        loss = require_loss(loss)
        del self.pending[ticket.number]
        held = self._held if self._held is not None else self._hold()
        users = len(self._rows) + len(self._free)
        learn_from(held, users, self._rows[ticket.user], ticket.arm, self._weights(ticket), loss)
        if self._history is not None:
            self._history.add(ticket.round, ticket.arm, loss, ticket.number)
            self._of.append(ticket.user)
        self.losses += 1

    def _hold(self) -> Any:
        """Hand all arrays to compiled code; needed again whenever one of them is another."""
        self._held = hold(self._rules, self._shared, self._own)
        self._memo = np.zeros(self.policy.memo_size(self.n_arms))
        self._looked = np.zeros(self.n_arms)
        self._every = np.ones(self.n_arms, np.bool_)
        return self._held

    def _weights(self, ticket: FleetTicket) -> Floats:
        """Return what a ticket's user had been exposed to, with room for the arms of now."""
        memo = np.frombuffer(array("d", ticket.memo))
        if memo.size == self._memo.size:
            return memo
        weights = np.zeros(self._memo.size)  # of more arms, or of the two sums that many have
        weights[: memo.size] = memo[: weights.size]
        return weights

    def cancel(self, ticket: FleetTicket) -> None:
        """Give up a loss that will not come; the pull stays counted, as the world has moved."""
        self._require_pending(ticket)
        del self.pending[ticket.number]

    def expire(self, before_number: int) -> list[FleetTicket]:
        """Give up the losses of all pulls before a number; return their tickets."""
        limit = whole_number("before_number", before_number)
        return take_before(self.pending, limit)

    def add_arm(self, name: str | None = None) -> int:
        """Take a new arm on and return its number; what is known of the others stays.

        It starts as arms are on average. Without a name it is called by its number.

        Examples
        --------
        >>> fleet = Fleet(arms=["tea", "coffee"])
        >>> fleet.add_arm("milk")
        2
        >>> fleet.pull("ann", eligible=["milk"]).name
        'milk'
        """
        whole_number("arms", self.n_arms + 1, 1, TOO_MANY_ARMS)
        names = self._names
        if names is not None or name is not None:
            new = str(self.n_arms) if name is None else name
            names = require_names("arms", [*self.arm_names, new])
        self._widen()
        self._name_arms(names)
        return self.n_arms - 1

    def _widen(self) -> None:
        """Make room for one more arm."""
        wider = self.policy.rules(self.n_arms + 1)
        self._shared, self._own = add_arm(self._rules, wider, self._shared, self._own)
        self._rules = wider
        self.n_arms += 1
        self._held = None

    def retire_arm(self, arm: int | str) -> None:
        """Never choose an arm again; losses still to come are taken."""
        self._retire(arm)

    def forget(self, user: str) -> None:
        """Drop a user's own numbers; what it has taught about everybody stays."""
        label = _label(user)
        if label not in self._rows:
            raise InvalidInput(f"there is no user {abbreviate(user)}")
        row = self._rows.pop(label)
        self.pending = {n: t for n, t in self.pending.items() if t.user != label}
        for numbers in self._own:
            numbers[row] = 0
        self._free.append(row)

    def remember(
        self,
        user: str,
        choices: Iterable[int | str],
        losses: Iterable[float | None],
        times: Iterable[float] | None = None,
    ) -> None:
        """Rebuild a user that was forgotten, from its pulls in order; nobody else is taught.

        Parameters
        ----------
        choices : iterable of int or str
            The arm of each pull.
        losses : iterable of float or None
            Of each pull; None where there is none.
        times : iterable of float, optional
            Of each pull, in seconds; a policy with a half-life must be told.
        """
        label = _label(user)
        if label in self._rows:
            raise InvalidInput(f"user {abbreviate(user)} is known already; forget it first")
        pulled = np.array([self._number(arm) for arm in choices], np.int64)
        values = np.array([np.nan if loss is None else float(loss) for loss in losses])
        if values.shape != pulled.shape:
            raise InvalidInput(
                f"there must be one loss, or None, for each of the {len(pulled)} pulls, "
                f"got {len(values)}"
            )
        if (np.abs(values) > LARGEST_LOSS).any():
            raise InvalidInput(f"losses must be finite numbers, at most {LARGEST_LOSS:g} in size")
        clock = np.array([require_time(at) for at in times or ()])
        if (times is not None or self.policy.by_clock) and clock.shape != pulled.shape:
            raise InvalidInput(
                f"there must be a time, in seconds, for each of the {len(pulled)} pulls, got "
                f"{len(clock)}"
            )
        row = self._row(label)
        now = int(self._shared.decisions[0])
        remember(self._rules, self._own, row, max(now, 1), pulled, values, clock)

    def to_log(self) -> EventLog:
        """Return the losses observed so far, a history a user, in the order of its pulls.

        Where all pulls had times, these are the times of the log, otherwise the users' rounds.
        """
        if self._history is None:
            raise NotApplicable(
                "this fleet keeps no history, so that its memory does not grow; make it with "
                "Fleet(…, history=True) to have its log"
            )
        rounds, arms, losses, times = self._history.columns()
        order = np.argsort(rounds, kind="stable")  # several pulls may have one time
        names = self.arm_names
        return EventLog(
            np.array(self._of, object)[order],
            arms[order],
            losses[order],
            times[order],
            Membership({name: [name] for name in names}, names),
            {"policy": self.policy.label, "pulls without a loss": self.pulls - len(rounds)},
        )

    def save(self, path: str | Path) -> None:
        """Write the state to a Parquet file with a seal, whole or not at all."""
        about = {
            "policy": policy_to_json(self.policy),
            "n_arms": self.n_arms,
            "arm_names": None if self._names is None else list(self._names),
            "retired": sorted(self.retired),
            "history": None,
        }
        if self._history is not None:
            about["history"] = {**self._history.to_json(), "user": self._of}
        write_fleet(path, about, self)

    @classmethod
    def load(cls, path: str | Path) -> Fleet:
        """Read a fleet from a file written by :meth:`save`.

        Examples
        --------
        >>> import os, tempfile
        >>> fleet = Fleet(arms=["tea", "coffee"])
        >>> ticket = fleet.pull("ann")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     fleet.save(os.path.join(folder, "fleet.parquet"))
        ...     Fleet.load(os.path.join(folder, "fleet.parquet"))
        Fleet(2 arms (tea, coffee), 1 user, 1 pull, 0 losses, 1 to come)
        """
        about, state, users = read_fleet(path)
        policy = policy_from_json(about["policy"])
        if not isinstance(policy, Foresight):
            raise InvalidInput(f"{path} is of a fleet with another policy")
        names, history = about["arm_names"], about["history"]
        fleet = cls(policy, arms=names or about["n_arms"], history=history is not None)
        fleet.retired = set(about["retired"])
        unpack_fleet(state, users, fleet)
        if fleet._history is not None:
            fleet._of = list(history["user"])
            columns = (history[name] for name in ("round", "arm", "loss"))
            for t, arm, loss in zip(*columns, strict=True):
                fleet._history.add(int(t), arm, loss)
            fleet._history.read_times(history)
        return fleet

    def parts(self) -> tuple[Shared, Own, dict[str, int], dict[str, Any]]:
        """Return the arrays themselves, users' rows, and what else a snapshot needs."""
        about = {"pulls": self.pulls, "losses": self.losses, "free": self._free}
        return self._shared, self._own, self._rows, about

    def take_parts(
        self, about: dict[str, Any], shared: Shared, own: Own, rows: dict[str, int]
    ) -> None:
        """Take over the arrays of a snapshot, if they can be those of a fleet."""
        for name, mine, now in zip(Shared._fields, shared, self._shared, strict=True):
            if (mine.dtype, mine.shape) != (now.dtype, now.shape):
                raise InvalidInput(
                    f"the fleet is damaged: {name} has shape {mine.shape}, expected {now.shape}"
                )
        self._shared, self._own = shared, own
        self.pulls, self.losses = about["pulls"], about["losses"]
        self._rows, self._free = rows, about["free"]
        self._held = None

    def _row(self, label: str) -> int:
        """Return the row of a user, a new one if need be."""
        row = self._rows.get(label)
        if row is None:
            row = self._free.pop() if self._free else len(self._rows)
            if row >= len(self._own.first):
                self._grow()
            self._rows[label] = row
        return row

    def _grow(self) -> None:
        """Make room for an eighth more users, in place: two copies of a million would not fit."""
        before = len(self._own.first)
        size = max(16, before + before // 8)
        each = sum(numbers[:1].nbytes for numbers in self._own)
        require_memory(each * (size - before), f"{size:,} users", "forget users who have left")
        self._held = None  # before the arrays move: it points into them
        numbers: Any
        for numbers in self._own:
            numbers.resize((size, *numbers.shape[1:]), refcheck=False)

    def _require_pending(self, ticket: FleetTicket) -> None:
        known = isinstance(ticket, FleetTicket)
        require_pending(ticket, self.pending.get(ticket.number) if known else None)


def _label(user: object) -> str:
    if not isinstance(user, str) or not user:
        raise InvalidInput(f"a user is a text that is not empty, got {abbreviate(user)}")
    return user
