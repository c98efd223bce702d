"""Instances: the erasure of one, and snapshots of states."""

from __future__ import annotations

import secrets
from typing import Any

from influential_bandits.live.events import ERASED, encode
from influential_bandits.live.members import Member
from influential_bandits.live.requests import Refused
from influential_bandits.live.store.sql import Snapshot
from influential_bandits.live.transactions.base import TransactionBase


class InstanceRequests(TransactionBase):
    """Requests that concern an instance, and the states of instances."""

    def erase(self, label: str, at: float) -> dict[str, Any]:
        """Erase a person's data.

        What a fleet has learned from it cannot be told from what others taught. There its events
        stay, without anything that tells whose they were.
        """
        member = self._labels.get(label)
        if member is None:
            raise Refused(404, "unknown_instance", f"there is no instance {label!r:.80}")
        experiment = self._experiment
        shared = experiment.settings.state == "shared" and member.group == "policy"
        # What this batch says of it must be in the store before it can be deleted there.
        self._store.write(self._changes)
        self._changes.written = {
            key: decision
            for key, decision in self._changes.written.items()
            if (key[0], decision.instance) != (experiment.number, member.number)
        }
        if shared:
            self._store.unlink(experiment.number, member.number, f"erased-{secrets.token_hex(12)}")
        else:
            self._store.erase(experiment.number, member.number)
        experiment.dismiss(member)
        del self._labels[label]
        self._decisions = {
            name: d for name, d in self._decisions.items() if d.instance != member.number
        }
        event = self._event(ERASED, at, data=encode({"instance": member.number}).decode())
        experiment.applied = event.number
        self._keep(event)
        return {"erased": True}

    # Snapshots.

    def keep_snapshot(self, member: Member) -> None:
        """Write the state of an instance that has a policy of its own."""
        packed = self._experiment.pack(member)
        if packed is not None:
            self._changes.snapshots[self._experiment.number, member.number] = Snapshot(
                self._experiment.number,
                member.number,
                self._experiment.applied,
                self._experiment.fingerprint(member.group),
                packed,
            )
            member.since_snapshot, member.snapshot_bytes = 0, len(packed)

    def keep_shared_snapshot(self) -> int:
        """Write the state of a fleet, and of its users who have changed; return how many bytes."""
        experiment = self._experiment
        if experiment.shared is None:
            return 0
        fingerprint = experiment.fingerprint("policy")
        whole, users = experiment.shared.pack()
        for instance, blob in ((0, whole), *users.items()):
            self._changes.snapshots[experiment.number, instance] = Snapshot(
                experiment.number, instance, experiment.applied, fingerprint, blob
            )
        return len(whole) + sum(map(len, users.values()))
