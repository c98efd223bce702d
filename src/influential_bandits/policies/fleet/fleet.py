"""Fleet: one policy for many users, one decision at a time, with a state that can be saved."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from influential_bandits.checks import (
    LARGEST_HORIZON,
    LARGEST_LOSS,
    abbreviate,
    arm_number,
    is_real,
    require_names,
    whole_number,
)
from influential_bandits.errors import InvalidInput, NotApplicable
from influential_bandits.logs.log import EventLog
from influential_bandits.logs.membership import Membership
from influential_bandits.memory import require_memory
from influential_bandits.numerics.arrays import Floats
from influential_bandits.policies.fleet.estimate import SharedEstimate, summarise
from influential_bandits.policies.fleet.files import FleetData, read_fleet, write_fleet
from influential_bandits.policies.fleet.policy import FleetLCB
from influential_bandits.policies.fleet.decisions import decide, note_pull
from influential_bandits.policies.fleet.expected_losses import explain
from influential_bandits.policies.fleet.updates import note_loss, replay
from influential_bandits.policies.fleet.states import (
    EPOCH,
    MEMORY,
    NOISE_VARIANCE,
    OBSERVED,
    ORIGIN,
    SETTLED,
    make_apart,
    make_own,
)
from influential_bandits.policies.history import History
from influential_bandits.policies.model_lcb.posterior import unknowns

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


class Fleet:
    """A policy at work for many users: what one of them teaches about influence helps all.

    It does for many users what :class:`Agent` does for one instance. Users come without notice: the
    first pull makes them known. Losses may come late, in any order, or never.

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
        arms: int | Sequence[str] = 0,
        *,
        history: bool = False,
    ) -> None:
        self.policy = FleetLCB() if policy is None else policy
        if not isinstance(self.policy, FleetLCB):
            raise InvalidInput(f"policy must be a FleetLCB, got {abbreviate(policy)}")
        named = not isinstance(arms, (int, np.integer))
        self._names = require_names("arms", arms) if named else None
        self.n_arms = whole_number("arms", arms if self._names is None else len(self._names), 1)
        self._numbers = {name: number for number, name in enumerate(self._names or ())}
        self._rules = self.policy.rules(self.n_arms)
        self._shared, self._room = self.policy.start(self.n_arms)
        self._own = make_own(1, self._rules.memories.size, self.n_arms, self._rules.exact)
        slots = min(APART_BYTES // (8 * unknowns(self.n_arms) ** 2), MOST_APART)
        self._apart = make_apart(int(slots), self.n_arms)
        self._rows: dict[str, int] = {}
        self._free: list[int] = []
        self.pulls = 0  # of all users
        self.pending: dict[int, FleetTicket] = {}  # by number
        self._history = History() if history else None
        self._of: list[str] = []  # whose losses the history has

    def __repr__(self) -> str:
        """Say how many users it serves, and how far it is."""
        arms = f"{self.n_arms} arm{'s' * (self.n_arms != 1)}"
        if self._names is not None:
            arms += f" ({', '.join(self._names[:4])}{', …' * (self.n_arms > 4)})"
        parts = [arms]
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
    def arm_names(self) -> tuple[str, ...]:
        """Names of the arms; without names, their numbers as text."""
        return self._names or tuple(map(str, range(self.n_arms)))

    @property
    def users(self) -> tuple[str, ...]:
        """The users known, in the order in which they came."""
        return tuple(self._rows)

    def estimate(self) -> SharedEstimate:
        """Return what is known of the population: μ, A with its errors, and how users differ."""
        return summarise(self._rules, self._shared)

    def expected_losses(self, user: str) -> tuple[Floats, Floats]:
        """Return what each arm would cost a user now, and the standard deviations, (arms,) each."""
        row = self._rows.get(_label(user))
        if row is None:
            raise InvalidInput(
                f"there is no user {abbreviate(user)}; the first pull makes one known"
            )
        explain(self._rules, self._shared, self._own, self._apart, row, self._room)
        mean = self._room.mean + self._shared.scales[ORIGIN]
        sigma = math.sqrt(self._shared.scales[NOISE_VARIANCE])
        return mean, sigma * np.sqrt(np.maximum(self._room.variance, 0.0))

    def pull(
        self, user: str, arm: int | str | None = None, eligible: npt.ArrayLike | None = None
    ) -> FleetTicket:
        """Pull an arm for a user, by default the one selected; return the ticket for its loss.

        Parameters
        ----------
        user : str
        arm : int or str, optional
            An arm that was shown without asking: the user's world has moved all the same.
        eligible : bool array (arms,) or sequence of names, optional
            The arms that may be chosen; by default all.
        """
        label = _label(user)
        mask = self._eligible(eligible)
        chosen = None if arm is None else self._number(arm)
        if chosen is not None and not mask[chosen]:
            raise InvalidInput(f"arm {arm!r} is not eligible")
        number = whole_number("the number of pulls", self.pulls + 1, 1, LARGEST_HORIZON)
        row = self._row(label)
        state = (self._rules, self._shared, self._own, self._apart, row)
        if chosen is None:
            chosen = int(decide(*state, mask, self._room))
        memo = np.zeros(self._rules.memories.size * self.n_arms)
        note_pull(self._rules, self._shared, self._own, row, chosen, memo)
        self.pulls = number
        ticket = FleetTicket(
            number,
            label,
            int(self._own.pulls[row].sum()),
            chosen,
            self.arm_names[chosen],
            tuple(memo.tolist()),
        )
        self.pending[number] = ticket
        return ticket

    def observe(self, ticket: FleetTicket, loss: float) -> None:
        """Learn the loss of a pull; any order, each ticket once."""
        self._require_pending(ticket)
        if not is_real(loss) or not abs(float(loss)) <= LARGEST_LOSS:
            raise InvalidInput(
                f"loss must be a finite number, at most {LARGEST_LOSS:g} in size, got "
                f"{abbreviate(loss)}"
            )
        del self.pending[ticket.number]
        memo = np.array(ticket.memo)
        if memo.size > self._rules.memories.size * self.n_arms:  # from before memory was settled
            memo = memo.reshape(-1, self.n_arms)[self._settled]
        row = self._rows[ticket.user]
        state = (self._rules, self._shared, self._own, self._apart)
        note_loss(*state, len(self._rows), row, ticket.arm, memo, float(loss), self._room)
        if self._history is not None:
            self._history.add(ticket.round, ticket.arm, float(loss))
            self._of.append(ticket.user)
        if self._shared.numbers[SETTLED] and self._rules.memories.size > 1:
            self._settle()

    def cancel(self, ticket: FleetTicket) -> None:
        """Give up a loss that will not come; the pull stays counted, as the world has moved."""
        self._require_pending(ticket)
        del self.pending[ticket.number]

    def expire(self, before_number: int) -> list[FleetTicket]:
        """Give up the losses of all pulls before a number; return their tickets."""
        limit = whole_number("before_number", before_number)
        late = [ticket for ticket in self.pending.values() if ticket.number < limit]
        for ticket in late:
            del self.pending[ticket.number]
        return late

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
        for array in self._own:
            array[row] = 0
        self._own.slot[row] = -1
        self._free.append(row)

    def remember(
        self, user: str, arms: Iterable[int | str], losses: Iterable[float | None]
    ) -> None:
        """Rebuild a user that was forgotten, from its pulls in order; nobody else is taught.

        Parameters
        ----------
        arms : iterable of int or str
            All arms that it was shown.
        losses : iterable of float or None
            Of each pull; None where there is none.
        """
        label = _label(user)
        if label in self._rows:
            raise InvalidInput(f"user {abbreviate(user)} is known already; forget it first")
        pulled = np.array([self._number(arm) for arm in arms], np.int64)
        values = np.array([np.nan if loss is None else float(loss) for loss in losses])
        if values.shape != pulled.shape:
            raise InvalidInput(
                f"there must be one loss, or None, for each of the {len(pulled)} arms, "
                f"got {len(values)}"
            )
        if (np.abs(values) > LARGEST_LOSS).any():
            raise InvalidInput(f"losses must be finite numbers, at most {LARGEST_LOSS:g} in size")
        replay(self._rules, self._shared, self._own, self._row(label), pulled, values)

    def to_log(self) -> EventLog:
        """Return the losses observed so far, a history a user, in the order of its pulls."""
        if self._history is None:
            raise NotApplicable(
                "this fleet keeps no history, so that its memory does not grow; make it with "
                "Fleet(…, history=True) to have its log"
            )
        rounds, arms, losses = self._history.columns()
        names = self.arm_names
        return EventLog(
            np.array(self._of, object),
            arms,
            losses,
            rounds.astype(np.float64),
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
        names = about["arm_names"]
        arms = about["n_arms"] if names is None else names
        policy = FleetLCB.from_json(about["policy"])
        fleet = cls(policy, arms, history=about["history"] is not None)
        if len(about["memories"]) < fleet._rules.memories.size:
            fleet._shared.numbers[[MEMORY, SETTLED]] = about["settled"], 1
            fleet._settle()
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
            "settled": getattr(self, "_settled", 0),
            "users": list(self._rows),
            "rows": list(self._rows.values()),
            "free": self._free,
            "pulls": self.pulls,
            "pending": [list(ticket) for ticket in self.pending.values()],
            "history": history,
        }
        return FleetData(about, self._shared, self._own, self._apart)

    def _take(self, data: FleetData) -> None:
        """Take over what a file holds."""
        about = data.about
        self._shared, self._own, self._apart = data.check_like(self._shared, self._own, self._apart)
        self._rows = dict(zip(about["users"], about["rows"], strict=True))
        self._free = list(about["free"])
        self.pulls = about["pulls"]
        for number, user, t, arm, name, memo in about["pending"]:
            self.pending[number] = FleetTicket(number, user, t, arm, name, tuple(memo))
        if about["history"] is not None:
            self._of = list(about["history"]["user"])
            self._history = History()
            columns = (about["history"][name] for name in ("round", "arm", "loss"))
            for t, arm, loss in zip(*columns, strict=True):
                self._history.add(int(t), arm, loss)

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
        each = sum(array[:1].nbytes for array in self._own)
        require_memory(each * (size - before), f"{size:,} users", "forget users who have left")
        array: Any
        for array in self._own:
            array.resize((size, *array.shape[1:]), refcheck=False)
        self._own.slot[before:] = -1

    def _settle(self) -> None:
        """Keep the memory that was chosen, and drop what belongs to the others."""
        chosen = int(self._shared.numbers[MEMORY])
        self._settled = chosen
        keep = slice(chosen, chosen + 1)
        shared, own = self._shared, self._own
        self._rules = self._rules._replace(memories=self._rules.memories[keep].copy())
        names = ("gram", "right", "squares", "theta")
        cut: dict[str, Any] = {name: getattr(shared, name)[keep].copy() for name in names}
        self._shared = shared._replace(**cut, epochs=shared.epochs[:, keep].copy())
        self._shared.numbers[MEMORY] = 0
        parts = ("faded", "sums", "exposures")
        self._own = own._replace(**{name: getattr(own, name)[:, keep].copy() for name in parts})
        self._apart.memory[:] = 0

    def _number(self, arm: object) -> int:
        """Return the number of an arm from its number or its name."""
        if self._names is None or not isinstance(arm, str):
            return arm_number(arm, self.n_arms)
        if arm not in self._numbers:
            raise InvalidInput(f"there is no arm {arm!r}; there are {', '.join(self._names):.200}")
        return self._numbers[arm]

    def _eligible(self, given: npt.ArrayLike | None) -> npt.NDArray[np.bool_]:
        if given is None:
            return np.ones(self.n_arms, np.bool_)
        by_name = isinstance(given, Collection) and all(isinstance(name, str) for name in given)
        if by_name and not isinstance(given, str):
            offered = {self._number(name) for name in given}  # type: ignore[union-attr]
            given = [arm in offered for arm in range(self.n_arms)]
        mask = np.array(given, np.bool_)
        if mask.shape != (self.n_arms,) or not mask.any():
            raise InvalidInput(
                f"eligible must name an arm, or have one entry for each of the {self.n_arms} arms "
                f"of which one is true, got {abbreviate(given)}"
            )
        return mask

    def _require_pending(self, ticket: FleetTicket) -> None:
        if not isinstance(ticket, FleetTicket) or self.pending.get(ticket.number) != ticket:
            raise InvalidInput(
                f"{abbreviate(ticket)} is not pending: unknown, observed already, cancelled or "
                "expired"
            )


def _label(user: object) -> str:
    if not isinstance(user, str) or not user:
        raise InvalidInput(f"a user is a text that is not empty, got {abbreviate(user)}")
    return user
