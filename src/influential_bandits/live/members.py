"""Instances that are held in memory, and where what is not in memory comes from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from influential_bandits.live.events import Event
from influential_bandits.live.states import InstanceState

__all__ = ["Member", "NoSource", "Source"]


@dataclass
class Member:
    """An instance that is held in memory."""

    number: int  # 1, 2, … of the experiment
    label: str
    group: str  # "policy" or "control"
    applied: int = 0  # number of the latest event that its state knows
    model: int = 0  # that its state was computed with
    state: InstanceState | None = None
    since_snapshot: int = 0  # events


class Source(Protocol):
    """Where what is not in memory comes from."""

    def events(self, instance: int, after: int, until: int) -> Iterable[Event]:
        """Return the events of an instance."""

    def snapshot(self, instance: int, fingerprint: str) -> tuple[bytes, int] | None:
        """Return the latest state of an instance that was kept, and the number of its event."""


class NoSource:
    """Where there is nothing yet."""

    def events(self, instance: int, after: int, until: int) -> Iterable[Event]:
        """Return no events."""
        return ()

    def snapshot(self, instance: int, fingerprint: str) -> tuple[bytes, int] | None:
        """Return no state."""
        return None
