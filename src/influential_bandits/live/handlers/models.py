"""Models: staged, learned from the events, activated, rolled back."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from starlette.requests import Request as HttpRequest

from influential_bandits.errors import InvalidInput
from influential_bandits.live import requests
from influential_bandits.live.answers import Answer
from influential_bandits.live.api import EXPERIMENT, call
from influential_bandits.live.preparing import prepare_model

if TYPE_CHECKING:
    from influential_bandits.live.service import Service


@call("POST", EXPERIMENT + "/models", "admin", requests.StageModel)
async def stage_model(service: Service, request: HttpRequest, body: requests.StageModel) -> Any:
    """Stage a model: a policy, or one fitted to the events."""
    row = await service.find_asked(request)
    if (body.policy is None) == (body.fit is None):
        raise InvalidInput("give a policy, or say fit to learn one from the events; not both")
    described = await service.describe(row)
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


@call("GET", EXPERIMENT + "/models", "reader")
async def list_models(service: Service, request: HttpRequest, body: None) -> Any:
    """List models."""
    described = await service.describe(await service.find_asked(request))
    return {"active": described["model"], "models": described["models"]}


@call("POST", EXPERIMENT + "/models/{version:int}/activate", "admin")
async def activate_model(service: Service, request: HttpRequest, body: None) -> Any:
    """Activate a model, or go back to an earlier one."""
    name, version = (await service.find_asked(request)).name, int(request.path_params["version"])
    return await service.ask(name, lambda work, at: work.activate_model(version, at))
