"""A model from the events of an experiment: the log is read as anybody would, and fitted."""

from __future__ import annotations

import io
from typing import Any

from influential_bandits.errors import InvalidInput
from influential_bandits.learning.models import InfluenceModel
from influential_bandits.live.reading import write_parquet
from influential_bandits.live.requests import FitModel
from influential_bandits.live.store.sql import Connection
from influential_bandits.logs.log import EventLog
from influential_bandits.logs.reading import read_log
from influential_bandits.packages import optional_module
from influential_bandits.policies.foresight.policy import Foresight
from influential_bandits.policies.registry import policy_to_json
from influential_bandits.world.fading import Fading


def fit_policy(
    store: Connection, experiment: int, described: dict[str, Any], wanted: FitModel
) -> dict[str, Any]:
    """Return a policy that starts from what all losses so far say, as JSON data.

    One interaction is fitted for all instances. The prior is for their fleet with shared state,
    otherwise for an instance that the log has not met.
    """
    names, settings = described["arms"], described["settings"]
    log = _read(store, experiment, names)
    silent = [name for name in names if name not in log.arm_names]
    if silent:
        raise InvalidInput(
            f"a model needs losses of all arms, and there is none of {silent[0]!r:.60} yet"
        )
    hours = wanted.half_life_hours
    if hours is None and wanted.memory is None:
        hours = settings["half_life_hours"]
    model = InfluenceModel(
        fading=Fading(1.0 if wanted.memory is None else wanted.memory, hours),
        pooling="full",
    ).fit(log)
    if settings["state"] == "shared":
        return policy_to_json(model.fleet(arm_names=names).policy)
    return policy_to_json(Foresight(prior=model.prior(arm_names=names)))


def _read(store: Connection, experiment: int, names: list[str]) -> EventLog:
    parquet = optional_module("pyarrow.parquet")
    file = io.BytesIO()
    write_parquet(store, experiment, names, file)
    table = parquet.read_table(file)
    if table.num_rows == 0:
        raise InvalidInput("a model needs losses, and there are none yet")
    return read_log(table, time="time", time_unit="s", loss="loss")
