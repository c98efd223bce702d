"""Choices: what was decided, with which probability, and whether it comes out again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from influential_bandits.live.events import Event, encode
from influential_bandits.policies.uniform import Uniform


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
    return None if policy.draws else 1.0
