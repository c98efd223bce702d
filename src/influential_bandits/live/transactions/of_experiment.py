"""The experiment itself: settings, arms and models."""

from __future__ import annotations

from typing import Any

import msgspec

from influential_bandits.errors import InfluentialBanditsError, InvalidInput
from influential_bandits.live.events import (
    ARM_ADDED,
    ARM_RETIRED,
    CHANGED,
    CREATED,
    MODEL_ACTIVATED,
    MODEL_STAGED,
)
from influential_bandits.live.requests import AddArm, ChangeSettings, Refused, StageModel
from influential_bandits.live.settings import Settings, make_policy, require_label
from influential_bandits.live.states import Arms, require_servable
from influential_bandits.live.transactions.base import TransactionBase


class ExperimentRequests(TransactionBase):
    """Requests that concern the experiment itself."""

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
        assert request.policy is not None
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
        return self._experiment.describe(self._experiment.applied, self._instances)
