"""Experiments: created, listed, changed; their arms."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from starlette.requests import Request as HttpRequest

from influential_bandits.errors import InvalidInput
from influential_bandits.live import requests
from influential_bandits.live.answers import Answer
from influential_bandits.live.api import EXPERIMENT, call
from influential_bandits.live.keys import Visitor
from influential_bandits.live.preparing import prepare
from influential_bandits.live.requests import Refused
from influential_bandits.live.settings import require_label

if TYPE_CHECKING:
    from influential_bandits.live.service import Service


@call("POST", "/v1/experiments", "admin", requests.CreateExperiment)
async def create(service: Service, request: HttpRequest, body: requests.CreateExperiment) -> Any:
    """Create an experiment."""
    if request.scope["visitor"].experiment is not None:
        raise Refused(403, "not_allowed", "a key of one experiment cannot create another")
    require_label("the name of an experiment", body.name)
    if "/" in body.name:
        raise InvalidInput("the name of an experiment must not hold a slash")
    body.settings.check()
    await asyncio.to_thread(prepare, body.settings)  # the first decision must not wait for it
    service.after_compiling()
    await service.ask("", lambda work, at: work.create_experiment(body.name, body.settings, at))
    return Answer({"name": body.name}, 201)


@call("GET", "/v1/experiments", "reader")
async def list_experiments(service: Service, request: HttpRequest, body: None) -> Any:
    """List experiments."""
    visitor: Visitor = request.scope["visitor"]
    rows = await service.read_aside(lambda store: store.experiments())
    return {
        "experiments": [
            {"name": row.name, "events": row.events, "instances": row.instances}
            for row in rows
            if visitor.sees(row.id)
        ]
    }


@call("GET", EXPERIMENT, "reader")
async def show_experiment(service: Service, request: HttpRequest, body: None) -> Any:
    """Show an experiment: settings, arms and models."""
    return await service.describe(await service.find_asked(request))


@call("PATCH", EXPERIMENT, "admin", requests.ChangeSettings)
async def change(service: Service, request: HttpRequest, body: requests.ChangeSettings) -> Any:
    """Change settings."""
    name = (await service.find_asked(request)).name
    return await service.ask(name, lambda work, at: work.change(body, at))


@call("POST", EXPERIMENT + "/arms", "admin", requests.AddArm)
async def add_arm(service: Service, request: HttpRequest, body: requests.AddArm) -> Any:
    """Add an arm."""
    name = (await service.find_asked(request)).name
    return await service.ask(name, lambda work, at: work.add_arm(body, at))


@call("DELETE", EXPERIMENT + "/arms/{arm:label}", "admin")
async def retire_arm(service: Service, request: HttpRequest, body: None) -> Any:
    """Retire an arm."""
    name, arm = (await service.find_asked(request)).name, request.path_params["arm"]
    return await service.ask(name, lambda work, at: work.retire_arm(arm, at))
