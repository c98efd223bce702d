"""Experiments: settings, arms and models; their instances, reports and logs."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from typing import IO, Any

from starlette.responses import Response, StreamingResponse

from influential_bandits.errors import InvalidInput
from influential_bandits.live import requests
from influential_bandits.live.api import EXPERIMENT, Asked, call
from influential_bandits.live.preparing import prepare, prepare_model
from influential_bandits.live.reading import write_csv, write_parquet
from influential_bandits.live.requests import Refused
from influential_bandits.live.settings import require_label

PART_BYTES = 1 << 20


@call("POST", "/v1/experiments", "admin", status=201)
async def create(asked: Asked, body: requests.CreateExperiment) -> dict[str, Any]:
    """Create an experiment."""
    if asked.visitor.experiment is not None:
        raise Refused(403, "not_allowed", "a key of one experiment cannot create another")
    require_label("the name of an experiment", body.name)
    if "/" in body.name:
        raise InvalidInput("the name of an experiment must not hold a slash")
    body.settings.check()
    await asyncio.to_thread(prepare, body.settings)  # the first decision must not wait for it
    service = asked.service
    service.after_compiling()
    await service.ask("", lambda work, at: work.create_experiment(body.name, body.settings, at))
    return {"name": body.name}


@call("GET", "/v1/experiments", "reader")
async def list_experiments(asked: Asked) -> dict[str, Any]:
    """List experiments."""
    rows = await asked.service.read_aside(lambda store: store.experiments())
    return {
        "experiments": [
            {"name": row.name, "events": row.events, "instances": row.instances}
            for row in rows
            if asked.visitor.sees(row.id)
        ]
    }


@call("GET", EXPERIMENT, "reader")
async def show_experiment(asked: Asked) -> dict[str, Any]:
    """Show an experiment: settings, arms and models."""
    return await asked.service.describe(await asked.row())


@call("PATCH", EXPERIMENT, "admin")
async def change(asked: Asked, body: requests.ChangeExperiment) -> dict[str, Any]:
    """Change settings."""
    return await asked.work(lambda work, at: work.change(body.settings, at))


@call("POST", EXPERIMENT + "/arms", "admin")
async def add_arm(asked: Asked, body: requests.AddArm) -> dict[str, Any]:
    """Add an arm."""
    return await asked.work(lambda work, at: work.add_arm(body, at))


@call("DELETE", EXPERIMENT + "/arms/{arm:label}", "admin")
async def retire_arm(asked: Asked) -> dict[str, Any]:
    """Retire an arm."""
    return await asked.work(lambda work, at: work.retire_arm(asked.names["arm"], at))


@call("GET", EXPERIMENT + "/instances/{instance:label}", "reader")
async def show_instance(asked: Asked) -> dict[str, Any]:
    """Show the history of an instance, losses expected now, and why its last arm."""
    return await asked.service.describe_instance(await asked.row(), asked.names["instance"])


@call("DELETE", EXPERIMENT + "/instances/{instance:label}", "admin")
async def erase(asked: Asked) -> dict[str, Any]:
    """Erase a person's data."""
    label = asked.names["instance"]
    return await asked.work(lambda work, at: work.erase(label, at), label=label)


@call("POST", EXPERIMENT + "/models", "admin", status=201)
async def stage_model(asked: Asked, body: requests.StageModel) -> dict[str, Any]:
    """Stage a model: a policy, or one fitted to the events."""
    row, service = await asked.row(), asked.service
    if (body.policy is None) == (body.fit is None):
        raise InvalidInput("give a policy, or say fit to learn one from the events; not both")
    described = await service.describe(row)
    policy, fit = body.policy, body.fit
    if fit is not None:
        from influential_bandits.live.fitting import fit_policy

        policy = await service.read_aside(lambda store: fit_policy(store, row.id, described, fit))
    assert policy is not None
    await asyncio.to_thread(prepare_model, described, policy)  # decisions go on meanwhile
    service.after_compiling()
    model = requests.StageModel(policy=policy)
    return await asked.work(lambda work, at: work.stage_model(model, at))


@call("GET", EXPERIMENT + "/models", "reader")
async def list_models(asked: Asked) -> dict[str, Any]:
    """List models."""
    described = await asked.service.describe(await asked.row())
    return {"active": described["model"], "models": described["models"]}


@call("POST", EXPERIMENT + "/models/{version:int}/activate", "admin")
async def activate_model(asked: Asked) -> dict[str, Any]:
    """Activate a model, or go back to an earlier one."""
    version = int(asked.names["version"])
    return await asked.work(lambda work, at: work.activate_model(version, at))


@call("GET", EXPERIMENT + "/report", "reader")
async def report(asked: Asked) -> dict[str, Any]:
    """Return the A/B test, and sums by arm and group, over time, too."""
    span = asked.request.query_params.get("span", "all")
    return await asked.service.report(await asked.row(), span)


@call("GET", EXPERIMENT + "/log", "reader")
async def export_log(asked: Asked) -> Response:
    """Return all losses, as Parquet or CSV that read_log takes."""
    row, service = await asked.row(), asked.service
    form = asked.request.query_params.get("format", "parquet")
    if form not in ("parquet", "csv"):
        raise InvalidInput(f"format must be parquet or csv, got {form!r:.40}")
    described = await service.describe(row)
    write = write_parquet if form == "parquet" else write_csv
    file = await asyncio.to_thread(tempfile.TemporaryFile)  # a log may be larger than memory
    await service.read_aside(lambda store: write(store, row.id, described["arms"], file))
    file.seek(0)
    kind = "application/vnd.apache.parquet" if form == "parquet" else "text/csv"
    headers = {"Content-Disposition": f'attachment; filename="log.{form}"'}
    return StreamingResponse(_read_parts(file), media_type=kind, headers=headers)


def _read_parts(file: IO[bytes]) -> Iterator[bytes]:
    with file:
        while part := file.read(PART_BYTES):
            yield part
