"""Experiments: created, listed, changed; their arms."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from starlette.requests import Request as HttpRequest

from influential_bandits.errors import InvalidInput
from influential_bandits.live import requests
from influential_bandits.live.answers import Answer
from influential_bandits.live.keys import Visitor
from influential_bandits.live.preparing import prepare
from influential_bandits.live.requests import Refused

if TYPE_CHECKING:
    from influential_bandits.live.service import Service

__all__ = ["add_arm", "change", "create", "list_experiments", "retire_arm", "show_experiment"]


async def create(service: Service, request: HttpRequest, body: requests.CreateExperiment) -> Any:
    """Create an experiment."""
    if request.scope["visitor"].experiment is not None:
        raise Refused(403, "not_allowed", "a key of one experiment cannot create another")
    if "/" in body.name:
        raise InvalidInput("the name of an experiment must not hold a slash")
    body.settings.check()
    await asyncio.to_thread(prepare, body.settings)  # the first decision must not wait for it
    service.after_compiling()
    await service.ask("", lambda work, at: work.create_experiment(body.name, body.settings, at))
    service.forget_experiments()
    return Answer({"name": body.name}, 201)


async def list_experiments(service: Service, request: HttpRequest, body: None) -> Any:
    """List experiments."""
    visitor: Visitor = request.scope["visitor"]
    rows = service.read(lambda store: store.experiments())
    return {
        "experiments": [
            {"name": row.name, "events": row.events, "instances": row.instances}
            for row in rows
            if visitor.sees(row.id)
        ]
    }


async def show_experiment(service: Service, request: HttpRequest, body: None) -> Any:
    """Show settings, arms and models."""
    name = service.find_asked(request).name
    return await service.ask(name, lambda work, at: work.describe())


async def change(service: Service, request: HttpRequest, body: requests.ChangeSettings) -> Any:
    """Change settings."""
    name = service.find_asked(request).name
    return await service.ask(name, lambda work, at: work.change(body, at))


async def add_arm(service: Service, request: HttpRequest, body: requests.AddArm) -> Any:
    """Add an arm."""
    name = service.find_asked(request).name
    return await service.ask(name, lambda work, at: work.add_arm(body, at))


async def retire_arm(service: Service, request: HttpRequest, body: None) -> Any:
    """Retire an arm."""
    name, arm = service.find_asked(request).name, request.path_params["arm"]
    return await service.ask(name, lambda work, at: work.retire_arm(arm, at))
