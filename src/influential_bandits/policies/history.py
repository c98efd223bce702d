"""The losses that an agent has observed, for its log."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import Any

import numpy as np

from influential_bandits.checks import abbreviate
from influential_bandits.errors import InvalidInput
from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.policies.state_checks import (
    floats_from_json,
    list_from_json,
    require_losses,
    whole_from_json,
)

__all__ = ["History"]


class History:
    """The losses observed so far."""

    def __init__(self) -> None:
        self.rounds, self.arms, self.losses = array("q"), array("q"), array("d")

    def add(self, t: int, arm: int, loss: float) -> None:
        """Keep a loss."""
        self.rounds.append(t)
        self.arms.append(arm)
        self.losses.append(loss)

    def columns(self) -> tuple[Ints, Ints, Floats]:
        """Return rounds, arms and losses; copies."""
        return (
            np.array(self.rounds, np.int64),
            np.array(self.arms, np.int64),
            np.array(self.losses, np.float64),
        )

    def to_json(self) -> dict[str, Any]:
        """Return the columns as JSON data."""
        return {
            "round": [str(t) for t in self.rounds],
            "arm": self.arms.tolist(),
            "loss": self.losses.tolist(),
        }

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
        require_losses({"loss": np.array(history.losses)}, "loss")
        return history
