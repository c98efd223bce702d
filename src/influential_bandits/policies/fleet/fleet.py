"""Fleet: one policy for many users, one decision at a time, with a state that can be saved."""

from __future__ import annotations

import copy
import math
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

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
from influential_bandits.logs.log import EventLog
from influential_bandits.logs.membership import Membership
from influential_bandits.memory import require_memory
from influential_bandits.numerics.arrays import Floats
from influential_bandits.policies.fleet.estimate import SharedEstimate, summarise
from influential_bandits.policies.fleet.file_checks import check_about
from influential_bandits.policies.fleet.files import FleetData, read_fleet, write_fleet
from influential_bandits.policies.fleet.handle import (
    choose_for,
    hold,
    learn_from,
    look_for,
    pull_for,
    wait_for,
)
from influential_bandits.policies.fleet.new_arms import add_arm
from influential_bandits.policies.fleet.policy import MOST_ARMS, FleetLCB
from influential_bandits.policies.fleet.room import make_room
from influential_bandits.policies.fleet.states import (
    EPOCH,
    MEMORY,
    NOISE_VARIANCE,
    OBSERVED,
    ORIGIN,
    SETTLED,
    Apart,
    Own,
    Shared,
    make_apart,
    make_own,
)
from influential_bandits.policies.fleet.updates import replay
from influential_bandits.policies.history import History
from influential_bandits.policies.model_lcb.posterior import unknowns
from influential_bandits.policies.tickets import (
    NamedArms,
    require_loss,
    require_pending,
    take_before,
)

__all__ = ["Fleet", "FleetTicket"]

APART_BYTES = 256 << 20  # for posteriors of users who differ in A
MOST_APART = 4096  # of these


class FleetTicket(NamedTuple):
    """A pull of a user whose loss may still be to come.

    Examples
    --------
    >>> Fleet(arms=["tea", "coffee"]).pull("ann")
    FleetTicket(number=1, user='ann', round=1, arm=0, name='tea', memo=(0.0, 0.0, 0.0, ...))
    """

    number: int  # of the fleet's pulls, 1, 2, …
    user: str
    round: int  # of the user, 1, 2, …
    arm: int  # its number
    name: str  # its name; of arms without names, the number as text
    memo: tuple[float, ...]  # what the user had been exposed to


class Fleet(NamedArms):
    """A policy at work for many users: what one of them teaches about influence helps all.

    It does for many users what :class:`Agent` does for one instance. Users come without notice: the
    first pull makes them known. Losses may come late, in any order, or never. Arms may come
    (:meth:`add_arm`) and go (:meth:`retire_arm`) while it works.

    Pulls may have times (``at``, in seconds); with a half-life they must. For each user time never
    runs backwards: an earlier time than that of its latest pull counts as that one.

    Parameters
    ----------
    policy : FleetLCB, optional
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
        policy: FleetLCB | None = None,
        *,
        arms: int | Sequence[str],
        history: bool = False,
    ) -> None:
        self.policy = FleetLCB() if policy is None else policy
        if not isinstance(self.policy, FleetLCB):
            raise InvalidInput(f"policy must be a FleetLCB, got {abbreviate(policy)}")
        named = not isinstance(arms, (int, np.integer))
        self._name_arms(require_names("arms", arms) if named else None)
        self.n_arms = whole_number("arms", arms if self._names is None else len(self._names), 1)
        self.retired: set[int] = set()
        self._rules = self.policy.rules(self.n_arms)
        self._shared, self._room = self.policy.start(self.n_arms)
        self._own = make_own(1, self._rules)
        slots = min(APART_BYTES // (8 * unknowns(self.n_arms) ** 2), MOST_APART)
        self._apart = make_apart(int(slots), self.n_arms)
        self._settled = 0  # the memory that was chosen for good
        self._arrivals: list[int] = []  # pulls before each arm that came later
        self._held: Any = None  # all arrays behind one reference, made when needed
        self._rows: dict[str, int] = {}
        self._free: list[int] = []
        self.pulls = 0  # of all users
        self.pending: dict[int, FleetTicket] = {}  # by number
        self._history = History() if history else None
        self._of: list[str] = []  # whose losses the history has

    def __getstate__(self) -> dict[str, Any]:
        """Return all that a fleet is but its reference to compiled code; copies."""
        return {
            **self.__dict__,
            "pending": dict(self.pending),
            "retired": set(self.retired),
            "_rows": dict(self._rows),
            "_free": list(self._free),
            "_arrivals": list(self._arrivals),
            "_of": list(self._of),
            "_history": copy.deepcopy(self._history),
            "_shared": copy.deepcopy(self._shared),
            "_own": copy.deepcopy(self._own),
            "_apart": copy.deepcopy(self._apart),
            "_room": make_room(self.n_arms),
            "_held": None,
        }

    def __repr__(self) -> str:
        """Say how many users it serves, and how far it is."""
        parts = [self._describe_arms()]
        if self.retired:
            parts.append(f"{len(self.retired)} retired")
        for count, one, several in (
            (len(self._rows), "user", "users"),
            (self.pulls, "pull", "pulls"),
            (int(self._shared.numbers[OBSERVED]), "loss", "losses"),
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
        # A look changes nothing, not even how far the user's sums have followed the population's.
        slot = self._own.slot[row]
        moved: list[Any] = [self._own.sums[row : row + 1], self._own.epoch[row : row + 1]]
        if slot >= 0:
            moved += [self._apart.theta[slot], self._apart.centre[slot]]
        before = [part.copy() for part in moved]
        with self._waiting(row, at) as held:
            look_for(held, row)
        for part, values in zip(moved, before, strict=True):
            part[...] = values
        mean = self._room.mean + self._shared.scales[ORIGIN]
        sigma = math.sqrt(self._shared.scales[NOISE_VARIANCE])
        return mean, sigma * np.sqrt(np.maximum(self._room.variance, 0.0))

    def select(
        self, user: str, eligible: npt.ArrayLike | None = None, at: float | None = None
    ) -> int:
        """Return the arm for a user's next round without pulling it.

        ``at`` is when that round would be, in seconds; by default at the time of its latest pull.
        """
        mask, row = self._eligible(eligible), self._row(_label(user))
        with self._waiting(row, at) as held:
            return int(choose_for(held, row, self._every if mask is None else mask))

    @contextmanager
    def _waiting(self, row: int, at: float | None) -> Iterator[Any]:
        """Hand all arrays to compiled code as of a time; what only passed for a look comes back."""
        at = None if at is None else require_time(at)
        held = self._held if self._held is not None else self._hold()
        if at is None or not self.policy.by_clock:
            yield held
            return
        moved = (self._own.faded[row], self._own.time[row : row + 1], self._shared.kept)
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
        return float(self._room.mean[arm] + self._shared.scales[ORIGIN])

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
        chosen, rounds = pull_for(held, row, chosen, mask, self._memo, 0.0 if at is None else at)
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
        if self._shared.numbers[SETTLED] and self._rules.memories.size > 1:
            self._settle()

    def _hold(self) -> Any:
        """Hand all arrays to compiled code; needed again whenever one of them is another."""
        self._held = hold(self._rules, self._shared, self._own, self._apart, self._room)
        self._memo = np.zeros(self._rules.memories.size * self.n_arms)
        self._every = np.ones(self.n_arms, np.bool_)
        return self._held

    def _weights(self, ticket: FleetTicket) -> Floats:
        """Return what a ticket's user had been exposed to, (memories·arms,) as of now."""
        memo = np.frombuffer(array("d", ticket.memo))
        if self._memo.size == memo.size and not self._arrivals:
            return memo
        arms = self.n_arms - sum(ticket.number <= pulls for pulls in self._arrivals)
        rows = memo.reshape(-1, arms)
        if len(rows) > self._rules.memories.size:  # from before memory was settled
            rows = rows[[self._settled]]
        return np.pad(rows, ((0, 0), (0, self.n_arms - arms))).ravel()

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

        It starts from the prior, as an arm of a new fleet does; if the fleet started from a log, as
        its arms are on average. Without a name it is called by its number.

        Examples
        --------
        >>> fleet = Fleet(arms=["tea", "coffee"])
        >>> fleet.add_arm("milk")
        2
        >>> fleet.pull("ann", eligible=["milk"]).name
        'milk'
        """
        if self.n_arms >= MOST_ARMS:
            raise InvalidInput(f"a fleet has at most {MOST_ARMS} arms: merge those that are alike")
        names = self._names
        if names is not None or name is not None:
            new = str(self.n_arms) if name is None else name
            names = require_names("arms", [*self.arm_names, new])
        self._widen()
        self._name_arms(names)
        self._arrivals.append(self.pulls)
        return self.n_arms - 1

    def _widen(self) -> None:
        """Make room for one more arm."""
        widened = add_arm(self._rules, self._shared, self._own, self._apart)
        self._rules, self._shared, self._own, self._apart = widened
        self.n_arms += 1
        self._room = make_room(self.n_arms)
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
        slot = self._own.slot[row]
        if slot >= 0:
            self._apart.owner[slot] = -1
        self._apart.owner[self._apart.owner == row] = -1
        for numbers in self._own:
            numbers[row] = 0
        self._own.slot[row] = -1
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
        replay(self._rules, self._shared, self._own, row, pulled, values, clock, self._room)

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
        write_fleet(path, self._data())

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
        data = read_fleet(path)
        about = data.about
        policy = FleetLCB.from_json(about.get("policy"))
        check_about(about, len(data.own.epoch), MOST_ARMS, policy.memories)
        first = about["n_arms"] - len(about["arrivals"])
        fleet = cls(policy, arms=first, history=about["history"] is not None)
        if len(about["memories"]) < fleet._rules.memories.size:
            fleet._shared.numbers[[MEMORY, SETTLED]] = about["settled"], 1
            fleet._settle()
        for _ in about["arrivals"]:
            fleet._widen()
        fleet._take(data)
        return fleet

    def _data(self) -> FleetData:
        """Return all that there is to save."""
        history = None
        if self._history is not None:
            history = {**self._history.to_json(), "user": self._of}
        about = {
            "policy": self.policy.to_json(),
            "n_arms": self.n_arms,
            "arm_names": None if self._names is None else list(self._names),
            "memories": self._rules.memories.tolist(),
            "settled": self._settled,
            "arrivals": self._arrivals,
            "retired": sorted(self.retired),
            "users": list(self._rows),
            "rows": list(self._rows.values()),
            "free": self._free,
            "pulls": self.pulls,
            "pending": [[t.number, t.user, t.round, t.arm, t.memo] for t in self.pending.values()],
            "history": history,
        }
        return FleetData(about, self._shared, self._own, self._apart)

    def _take(self, data: FleetData) -> None:
        """Take over what a file holds."""
        about = data.about
        arrays = data.check_like(self._rules, self._shared, self._own, self._apart)
        self._shared, self._own, self._apart = arrays
        self._name_arms(about["arm_names"] and tuple(about["arm_names"]))
        self._arrivals = list(about["arrivals"])
        self.retired = set(about["retired"])
        self._rows = dict(zip(about["users"], about["rows"], strict=True))
        self._free = list(about["free"])
        self.pulls = about["pulls"]
        for number, user, t, arm, memo in about["pending"]:
            ticket = FleetTicket(number, user, t, arm, self._name(arm), tuple(memo))
            self.pending[number] = ticket
        if about["history"] is not None:
            self._of = list(about["history"]["user"])
            self._history = History()
            columns = (about["history"][name] for name in ("round", "arm", "loss"))
            for t, arm, loss in zip(*columns, strict=True):
                self._history.add(int(t), arm, loss)
            self._history.read_times(about["history"])

    def parts(self) -> tuple[Shared, Own, Apart, dict[str, Any]]:
        """Return the arrays themselves, and what else a snapshot needs (``snapshot.py``)."""
        about = {
            "memories": self._rules.memories.tolist(),
            "settled": self._settled,
            "pulls": self.pulls,
            "arrivals": self._arrivals,
        }
        return self._shared, self._own, self._apart, about

    def settle_memory(self, about: dict[str, Any]) -> None:
        """Keep the memory alone that a snapshot had settled on, if it had."""
        if len(about["memories"]) < self._rules.memories.size:
            self._shared.numbers[[MEMORY, SETTLED]] = about["settled"], 1
            self._settle()

    def take_parts(
        self, about: dict[str, Any], shared: Shared, own: Own, apart: Apart, rows: dict[str, int]
    ) -> None:
        """Take over the arrays of a snapshot, if they can be those of a fleet."""
        data = FleetData(about, shared, own, apart)
        self._shared, self._own, self._apart = data.check_like(
            self._rules, self._shared, self._own, self._apart
        )
        self.pulls, self._arrivals, self._rows = about["pulls"], about["arrivals"], rows
        self._held = None

    def row(self, user: str) -> int:
        """Return where a user's numbers lie."""
        return self._rows[user]

    def _row(self, label: str) -> int:
        """Return the row of a user, a new one if need be."""
        row = self._rows.get(label)
        if row is None:
            row = self._free.pop() if self._free else len(self._rows)
            if row >= len(self._own.epoch):
                self._grow()
            self._own.epoch[row] = self._shared.numbers[EPOCH]
            self._rows[label] = row
        return row

    def _grow(self) -> None:
        """Make room for an eighth more users, in place: two copies of a million would not fit."""
        before = len(self._own.epoch)
        size = max(16, before + before // 8)
        each = sum(numbers[:1].nbytes for numbers in self._own)
        require_memory(each * (size - before), f"{size:,} users", "forget users who have left")
        self._held = None  # before the arrays move: it points into them
        numbers: Any
        for numbers in self._own:
            numbers.resize((size, *numbers.shape[1:]), refcheck=False)
        self._own.slot[before:] = -1

    def _settle(self) -> None:
        """Keep the memory that was chosen, and drop what belongs to the others."""
        chosen = int(self._shared.numbers[MEMORY])
        self._settled = chosen
        keep = slice(chosen, chosen + 1)
        shared, own = self._shared, self._own
        self._rules = self._rules._replace(memories=self._rules.memories[keep].copy())
        names = ("gram", "rows", "right", "squares", "theta")
        cut: dict[str, Any] = {name: getattr(shared, name)[keep].copy() for name in names}
        self._shared = shared._replace(**cut, epochs=shared.epochs[:, keep].copy())
        self._shared.numbers[MEMORY] = 0
        parts = ("faded", "sums", "exposures")
        self._own = own._replace(**{name: getattr(own, name)[:, keep].copy() for name in parts})
        self._apart.memory[:] = 0
        self._held = None

    def _require_pending(self, ticket: FleetTicket) -> None:
        known = isinstance(ticket, FleetTicket)
        require_pending(ticket, self.pending.get(ticket.number) if known else None)


def _label(user: object) -> str:
    if not isinstance(user, str) or not user:
        raise InvalidInput(f"a user is a text that is not empty, got {abbreviate(user)}")
    return user
