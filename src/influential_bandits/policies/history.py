"""The losses that an agent has observed, for its log."""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping
from typing import Any

import numpy as np

from influential_bandits.checks import (
    LARGEST_HORIZON,
    abbreviate,
    require_losses,
    require_time,
)
from influential_bandits.errors import InvalidInput
from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.policies.state_json import (
    floats_from_json,
    list_from_json,
    whole_from_json,
)


class History:
    """The losses observed so far."""

    def __init__(self) -> None:
        self.rounds, self.arms, self.losses = array("q"), array("q"), array("d")
        self.times = array("d")  # of the pulls, in seconds; not a number where none was told
        self.pulled: dict[int, float] = {}  # times of pulls whose losses are to come

    def note_time(self, ticket: int, at: float | None) -> None:
        """Keep the time of a pull until its loss comes."""
        if at is not None:
            self.pulled[ticket] = at

    def add(self, t: int, arm: int, loss: float, ticket: int | None = None) -> None:
        """Keep a loss; without a ticket, the round is what the pull is known by."""
        self.rounds.append(t)
        self.arms.append(arm)
        self.losses.append(loss)
        self.times.append(self.pulled.pop(t if ticket is None else ticket, math.nan))

    def columns(self) -> tuple[Ints, Ints, Floats, Floats]:
        """Return rounds, arms, losses and times: rounds where a pull had none; copies."""
        rounds, times = np.array(self.rounds, np.int64), np.array(self.times, np.float64)
        if np.isnan(times).any():
            times = rounds.astype(np.float64)
        return rounds, np.array(self.arms, np.int64), np.array(self.losses, np.float64), times

    def to_json(self) -> dict[str, Any]:
        """Return the columns as JSON data."""
        columns: dict[str, Any] = {
            "round": [str(t) for t in self.rounds],
            "arm": self.arms.tolist(),
            "loss": self.losses.tolist(),
        }
        if self.pulled or not all(map(math.isnan, self.times)):
            columns["time"] = [None if math.isnan(at) else at for at in self.times]
            columns["pulled"] = [[str(ticket), at] for ticket, at in self.pulled.items()]
        return columns

    @classmethod
    def from_json(cls, data: Any, n_arms: int, rounds: int) -> History:
        """Return the history of a file, in which each round is heard of once at most."""
        if not isinstance(data, Mapping):
            raise InvalidInput(f"the agent file is damaged: history is {abbreviate(data)}")
        columns = [list_from_json(name, data[name]) for name in ("round", "arm", "loss")]
        history = cls()
        if len({len(column) for column in columns}) > 1:
            raise InvalidInput("the agent file is damaged: the columns of history differ in length")
        history.rounds.extend(whole_from_json("a round", t, rounds + 1, 1) for t in columns[0])
        history.arms.extend(whole_from_json("an arm", arm, n_arms) for arm in columns[1])
        history.losses.extend(floats_from_json("a loss", columns[2]).tolist())
        if len(set(history.rounds)) < len(history.rounds):
            raise InvalidInput("the agent file is damaged: history has a round twice")
        require_losses("loss", np.array(history.losses), InvalidInput)
        history.read_times(data)
        return history

    def read_times(self, data: Mapping[str, Any]) -> None:
        """Take the times of a file, which has none where no pull had one."""
        times = list_from_json("time", data.get("time", [None] * len(self.rounds)))
        if len(times) != len(self.rounds):
            raise InvalidInput("the agent file is damaged: the columns of history differ in length")
        self.times = array("d", (math.nan if at is None else require_time(at) for at in times))
        for entry in list_from_json("pulled", data.get("pulled", [])):
            if not isinstance(entry, (list, tuple)) or len(entry) != 2:
                raise InvalidInput(f"the agent file holds a broken time: {abbreviate(entry)}")
            ticket = whole_from_json("a round", entry[0], LARGEST_HORIZON, 1)
            self.pulled[ticket] = require_time(entry[1])
