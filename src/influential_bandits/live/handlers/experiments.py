"""Experiments: settings, arms and models; their instances, reports and logs."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from typing import IO, Any

from starlette.responses import Response, StreamingResponse

from influential_bandits.errors import InvalidInput
from influential_bandits.live import requests
from influential_bandits.live.api import A_PAGE, EXPERIMENT, Asked, call
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
    body.settings.check()
    await asyncio.to_thread(prepare, body.settings)  # the first decision must not wait for it
    service = asked.service
    service.after_compiling()
    await service.ask("", lambda work, at: work.create_experiment(body.name, body.settings, at))
    return {"name": body.name}


@call("GET", "/v1/experiments", "reader")
async def list_experiments(asked: Asked) -> dict[str, Any]:
    """List experiments, a page at a time: after one of them (the next of a page), up to a limit."""
    after, most = asked.number("after", 0), asked.number("limit", A_PAGE, A_PAGE)
    rows = await asked.service.read_aside(lambda store: store.experiments())
    rows = [row for row in rows if row.id > after and asked.visitor.sees(row.id)]
    listed = [{"name": r.name, "events": r.events, "instances": r.instances} for r in rows[:most]]
    return {"experiments": listed, "next": rows[most - 1].id if len(rows) > most > 0 else None}


@call("DELETE", EXPERIMENT, "admin")
async def delete(asked: Asked) -> dict[str, Any]:
    """Delete a closed experiment with all its events; confirm=NAME in the query says so again."""
    name = (await asked.row()).name
    if asked.request.query_params.get("confirm") != name:
        raise InvalidInput("this deletes all events for good: confirm it by ?confirm= and its name")
    await asked.service.ask("", lambda work, at: work.delete_experiment(name, at))
    asked.service.forget(name)
    await asked.service.keys.renew()
    return {"deleted": name}


@call("GET", EXPERIMENT + "/instances", "reader")
async def list_instances(asked: Asked) -> dict[str, Any]:
    """List instances, a page at a time: after one of them (the next of a page), up to a limit."""
    row, after = await asked.row(), asked.number("after", 0)
    most = asked.number("limit", A_PAGE, A_PAGE)
    rows = await asked.service.read_soon(lambda store: store.instances(row.id, after, most + 1))
    listed = [{"instance": r.label, "group": r.group, "since": r.since} for r in rows[:most]]
    return {"instances": listed, "next": rows[most - 1].number if len(rows) > most > 0 else None}


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
    """Show what an instance met last (before an event), losses expected now, and why."""
    row, before = await asked.row(), asked.number("before", 2**62)
    return await asked.service.describe_instance(row, asked.names["instance"], before)


@call("DELETE", EXPERIMENT + "/instances/{instance:label}", "admin")
async def erase(asked: Asked) -> dict[str, Any]:
    """Erase a person's data."""
    label = asked.names["instance"]
    return await asked.work(lambda work, at: work.erase(label, at), label=label)


@call("POST", EXPERIMENT + "/models", "admin", status=201)
async def stage_model(asked: Asked, body: requests.StageModel) -> dict[str, Any]:
    """Stage a model: a policy to be activated later."""
    described = await asked.service.describe(await asked.row())
    await asyncio.to_thread(prepare_model, described, body.policy)  # decisions go on meanwhile
    asked.service.after_compiling()
    return await asked.work(lambda work, at: work.stage_model(body, at))


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
