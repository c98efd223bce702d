"""Choices: what was decided, with which probability, and whether it comes out again."""

from __future__ import annotations

import dis
import inspect
from dataclasses import dataclass
from functools import cache
from typing import Any

from influential_bandits.live.events import Event, encode
from influential_bandits.policies.fleet.policy import FleetLCB
from influential_bandits.policies.uniform import Uniform

__all__ = ["Choice", "Difference", "choice_probability", "describe_choice"]


@dataclass(frozen=True)
class Choice:
    """What was decided, and why."""

    arm: int
    probability: float | None
    expected_loss: float | None
    proposed: int | None = None


@dataclass(frozen=True)
class Difference:
    """A decision that comes out otherwise when its events are applied again."""

    event: Event
    expected: Choice

    def __str__(self) -> str:
        """Say which, in one line."""
        return (
            f"event {self.event.number} (decision {self.event.decision}): arm {self.event.arm} was "
            f"served, and {self.expected.arm} comes out"
        )


def describe_choice(
    choice: Choice, eligible: list[int] | None, later: bool, model: int, at: float | None
) -> str | None:
    """Return what an event of a decision keeps, so that it can be made again."""
    data: dict[str, Any] = {"p": choice.probability, "expected": choice.expected_loss}
    if eligible is not None:
        data["eligible"] = eligible
    if later:
        data["later"] = True
    if choice.proposed is not None:
        data["baseline"] = choice.arm
    if model:
        data["model"] = model
    if at is not None:
        data["at"] = at
    return encode(data).decode()


def choice_probability(policy: Any, several: int) -> float | None:
    """Return the probability of a policy's choice: 1 if it draws no random numbers."""
    if isinstance(policy, Uniform):
        return 1.0 / several
    if isinstance(policy, FleetLCB):
        return 1.0
    code: Any = type(policy)
    return None if _draws_at_random(code) else 1.0


@cache
def _draws_at_random(code: Any) -> bool:
    """Tell whether a policy's choice looks at random numbers, as far as its code shows."""
    select = code.select
    stream = list(inspect.signature(select).parameters)[4]
    instructions = dis.get_instructions(getattr(select, "py_func", select))
    used = [i.argval for i in instructions if "FAST" in i.opname]
    return any(stream == value or (isinstance(value, tuple) and stream in value) for value in used)
