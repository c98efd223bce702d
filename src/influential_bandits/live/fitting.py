"""A model from the log of an experiment, as a policy that it can serve."""

from __future__ import annotations

from typing import Any

from influential_bandits.errors import InvalidInput
from influential_bandits.learning.models import InfluenceModel
from influential_bandits.logs.log import EventLog
from influential_bandits.policies.foresight.policy import Foresight
from influential_bandits.policies.registry import policy_to_json
from influential_bandits.world.fading import Fading


def fit_policy(
    log: EventLog,
    described: dict[str, Any],
    memory: float | None = None,
    half_life_hours: float | None = None,
) -> dict[str, Any]:
    """Return a policy that starts from what all losses so far say, as JSON data.

    One interaction is fitted for all instances. The prior is for their fleet with shared state,
    otherwise for an instance that the log has not met.
    """
    names, settings = described["arms"], described["settings"]
    silent = [name for name in names if name not in log.arm_names]
    if silent:
        raise InvalidInput(
            f"a model needs losses of all arms, and there is none of {silent[0]!r:.60} yet"
        )
    if half_life_hours is None and memory is None:
        half_life_hours = settings["half_life_hours"]
    fading = Fading(1.0 if memory is None else memory, half_life_hours)
    model = InfluenceModel(fading=fading, pooling="full").fit(log)
    if settings["state"] == "shared":
        return policy_to_json(model.fleet(arm_names=names).policy)
    return policy_to_json(Foresight(prior=model.prior(arm_names=names)))
