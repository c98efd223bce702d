"""Instances that are held in memory, and where what is not in memory comes from."""

from __future__ import annotations

from dataclasses import dataclass

from influential_bandits.live.events import Event
from influential_bandits.live.states import InstanceState
from influential_bandits.live.store.sql import Connection


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
    snapshot_bytes: int = 0  # of the latest one


@dataclass(frozen=True)
class StoreSource:
    """The events of an experiment, and its snapshots: an audit reads none of them."""

    store: Connection
    experiment: int
    has_snapshots: bool = True

    def events(self, instance: int, after: int, until: int) -> list[Event]:
        """Return the events of an instance."""
        return self.store.events_of_instance(self.experiment, instance, after, until)

    def snapshot(self, instance: int, fingerprint: str) -> tuple[bytes, int] | None:
        """Return the latest state of an instance that was kept, and the number of its event."""
        if self.has_snapshots:
            for kept in self.store.snapshots(self.experiment, [instance]):
                if kept.fingerprint == fingerprint:
                    return kept.state, kept.number
        return None
