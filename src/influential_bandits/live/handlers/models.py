"""Models: staged, learned from the events, activated, rolled back."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from starlette.requests import Request as HttpRequest

from influential_bandits.errors import InvalidInput
from influential_bandits.live import requests
from influential_bandits.live.answers import Answer
from influential_bandits.live.preparing import prepare_model

if TYPE_CHECKING:
    from influential_bandits.live.service import Service

__all__ = ["activate_model", "list_models", "stage_model"]


async def stage_model(service: Service, request: HttpRequest, body: requests.StageModel) -> Any:
    """Stage a model."""
    row = service.find_asked(request)
    if (body.policy is None) == (body.fit is None):
        raise InvalidInput("give a policy, or say fit to learn one from the events; not both")
    described = await service.ask(row.name, lambda work, at: work.describe())
    policy = body.policy
    if body.fit is not None:
        from influential_bandits.live.fitting import fit_policy

        wanted = body.fit
        policy = await service.read_aside(
            lambda store: fit_policy(store, row.id, described, wanted)
        )
    assert policy is not None
    await asyncio.to_thread(prepare_model, described, policy)  # decisions go on meanwhile
    service.after_compiling()
    model = requests.StageModel(policy=policy)
    staged = await service.ask(row.name, lambda work, at: work.stage_model(model, at))
    return Answer(staged, 201)


async def list_models(service: Service, request: HttpRequest, body: None) -> Any:
    """List models."""
    name = service.find_asked(request).name
    described = await service.ask(name, lambda work, at: work.describe())
    return {"active": described["model"], "models": described["models"]}


async def activate_model(service: Service, request: HttpRequest, body: None) -> Any:
    """Activate a model."""
    name, version = service.find_asked(request).name, request.path_params["version"]
    return await service.ask(name, lambda work, at: work.activate_model(version, at))
