"""One transaction: requests become events, events move states, and all is written at once."""

from __future__ import annotations

import secrets
from typing import Any

import msgspec

from influential_bandits.errors import InfluentialBanditsError, InvalidInput
from influential_bandits.live.events import (
    ARM_ADDED,
    ARM_RETIRED,
    CHANGED,
    CREATED,
    ERASED,
    MODEL_ACTIVATED,
    MODEL_STAGED,
    encode,
)
from influential_bandits.live.experiment import Member
from influential_bandits.live.requests import AddArm, ChangeSettings, Refused, StageModel
from influential_bandits.live.settings import Settings, make_policy, require_label
from influential_bandits.live.states import Arms, require_servable
from influential_bandits.live.store.sql import Snapshot
from influential_bandits.live.transactions.of_decisions import DecisionRequests


class Transaction(DecisionRequests):
    """All that can be asked of an experiment; the parameters are those of the base."""

    # Settings, arms and models.

    def create(self, settings: Settings, at: float) -> None:
        """Begin."""
        self._concern_all(CREATED, at, msgspec.to_builtins(settings))

    def change(self, request: ChangeSettings, at: float) -> dict[str, Any]:
        """Take other settings."""
        changed = {
            name: value
            for name in request.__struct_fields__
            if (value := getattr(request, name)) is not msgspec.UNSET
        }
        settings = msgspec.structs.replace(self._experiment.settings, **changed)
        settings.check()
        if settings != self._experiment.settings:
            self._concern_all(CHANGED, at, msgspec.to_builtins(settings))
        return self.describe()

    def add_arm(self, request: AddArm, at: float) -> dict[str, Any]:
        """Take an arm on."""
        arms = self._experiment.arms
        name = require_label("the name of an arm", request.name)
        if name in arms.names:
            if arms.names.index(name) in arms.retired:
                raise Refused(
                    409, "arm_retired", f"arm {name!r:.80} was retired; give the new one a new name"
                )
            return {"arm": name, "number": arms.names.index(name)}
        settings = msgspec.structs.replace(self._experiment.settings, arms=(*arms.names, name))
        settings.check()
        self._require_servable(self._experiment.model, Arms(settings.arms, arms.retired))
        self._concern_all(ARM_ADDED, at, {"name": name})
        return {"arm": name, "number": len(arms.names)}

    def _require_servable(self, version: int, arms: Arms) -> None:
        """Raise unless a model and the control can serve these arms: some know a number of arms."""
        experiment = self._experiment
        model = experiment.make_policy(version)
        shared = experiment.settings.state == "shared"
        for name, policy, together in (
            ("control", experiment.control, False),
            (f"model {version}", model, shared),
        ):
            try:
                require_servable(policy, arms, shared=together)
            except InfluentialBanditsError as error:
                raise Refused(
                    409,
                    "model_knows_arms",
                    f"{name} cannot serve {len(arms.names)} arms: {error}. Activate a model that "
                    "can (0 is the policy of the settings), or fit one to the arms that there are",
                ) from None

    def retire_arm(self, name: str, at: float) -> dict[str, Any]:
        """Never choose an arm again."""
        arms = self._experiment.arms
        try:
            arm = self._experiment.arm_numbers([name])[0]
        except InvalidInput as error:
            raise Refused(404, "unknown_arm", str(error)) from None
        if arm not in arms.retired:
            if len(arms.retired) == len(arms.names) - 1:
                raise Refused(409, "last_arm", f"arm {name!r:.80} is the last one in use")
            self._concern_all(ARM_RETIRED, at, arm=arm)
        return {"arm": name, "retired": True}

    def stage_model(self, request: StageModel, at: float) -> dict[str, Any]:
        """Keep a model for later; the latest one again is a repeat, and gets the same version."""
        latest = max(self._experiment.models, default=0)
        if latest and self._experiment.models[latest] == request.policy:
            return {"version": latest}
        settings = self._experiment.settings
        shared, half_life = settings.state == "shared", settings.half_life_hours
        policy = make_policy(request.policy, shared=shared, half_life=half_life)
        require_servable(policy, self._experiment.arms, shared=shared)
        self._concern_all(MODEL_STAGED, at, {"version": latest + 1, "policy": request.policy})
        return {"version": latest + 1}

    def activate_model(self, version: int, at: float) -> dict[str, Any]:
        """Decide by a model from now on; 0 is the policy of the settings."""
        if version and version not in self._experiment.models:
            raise Refused(404, "unknown_model", f"there is no model {version}; stage it first")
        if version != self._experiment.model:
            self._require_servable(version, self._experiment.arms)
            self._store.write(self._changes)  # states are computed anew from the store
            self._concern_all(MODEL_ACTIVATED, at, {"version": version})
        return {"version": version}

    def describe(self) -> dict[str, Any]:
        """Return settings, arms and models."""
        return self._experiment.describe(self._experiment.applied)

    # Instances.

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

    def count_snapshots(self) -> int:
        """Return how many snapshots this batch writes so far."""
        return len(self._changes.snapshots)

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
