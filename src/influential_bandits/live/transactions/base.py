"""What all requests of a transaction share: what they name is read at once, and events are made."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from influential_bandits.live.events import EXPOSED, Decision, Event, encode
from influential_bandits.live.experiment import Experiment, Member
from influential_bandits.live.requests import Refused
from influential_bandits.live.store.sql import Changes, InstanceRow, Store


class TransactionBase:
    """Requests of one batch to one experiment.

    Parameters
    ----------
    store : Store
        In a transaction that has locked the experiment.
    experiment : Experiment
        Up to date.
    changes : Changes
        To which this one adds what it writes.
    """

    def __init__(self, store: Store, experiment: Experiment, changes: Changes) -> None:
        self._store, self._experiment, self._changes = store, experiment, changes
        self._decisions: dict[str, Decision] = {}
        self._labels: dict[str, Member] = {}

    # What a batch needs is read at once.

    def look_up(self, decisions: Iterable[str], labels: Iterable[str]) -> None:
        """Read the decisions and instances that requests name."""
        number = self._experiment.number
        for decision in self._store.decisions(number, set(decisions)):
            self._decisions[decision.id] = decision
        missing = set()
        for label in set(labels):
            member = self._experiment.by_label.get(label)
            if member is None:
                missing.add(label)
            else:
                self._labels[label] = member
        for row in self._store.instances_by("label", number, missing):
            self._labels[row.label] = self._experiment.admit(row.number, row.label, row.group)
        members = self._experiment.members
        unknown = {d.instance for d in self._decisions.values() if d.instance not in members}
        for row in self._store.instances_by("number", number, unknown):
            self._experiment.admit(row.number, row.label, row.group)

    def _find(self, decision: str) -> Decision | None:
        changed = self._changes.find(self._experiment.number, decision)
        return changed or self._decisions.get(decision)

    def _require_open(self) -> None:
        if self._experiment.settings.mode == "closed":
            raise Refused(409, "closed", "the experiment is closed: it takes nothing any more")

    def _require(self, decision: str) -> Decision:
        self._require_open()
        known = self._find(decision)
        if known is None or known.status == EXPOSED:
            raise Refused(404, "unknown_decision", f"there is no decision {decision!r:.80}")
        return known

    def _member(self, label: str, at: float) -> Member:
        """Return an instance, a new one if need be."""
        member = self._labels.get(label)
        if member is None:
            experiment = self._experiment
            experiment.instances += 1
            number, share = experiment.instances, experiment.settings.control_share
            group = experiment.draw_group(number)
            member = self._labels[label] = experiment.admit(number, label, group, new=True)
            row = InstanceRow(experiment.number, number, label, group, at, share)
            self._changes.instances.append(row)
        return member

    # Events.

    def _event(self, kind: str, at: float, instance: int = 0, **rest: Any) -> Event:
        return Event(
            self._experiment.number, self._experiment.applied + 1, instance, kind, at, **rest
        )

    def _keep(self, event: Event) -> None:
        self._changes.events.append(event)
        self._changes.counts[self._experiment.number] = (event.number, self._experiment.instances)

    def _concern_all(self, kind: str, at: float, data: Any = None, **rest: Any) -> Event:
        """Make an event of the experiment itself."""
        text = None if data is None else encode(data).decode()
        event = self._event(kind, at, data=text, **rest)
        self._experiment.apply_to_experiment(event)
        self._keep(event)
        return event
