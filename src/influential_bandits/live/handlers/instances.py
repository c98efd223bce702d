"""One instance: its history, and its erasure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from starlette.requests import Request as HttpRequest

from influential_bandits.live.api import EXPERIMENT, call

if TYPE_CHECKING:
    from influential_bandits.live.service import Service


@call("GET", EXPERIMENT + "/instances/{instance:label}", "reader")
async def show_instance(service: Service, request: HttpRequest, body: None) -> Any:
    """Show the history of an instance, losses expected now, and why its last arm."""
    row = await service.find_asked(request)
    return await service.describe_instance(row, request.path_params["instance"])


@call("DELETE", EXPERIMENT + "/instances/{instance:label}", "admin")
async def erase(service: Service, request: HttpRequest, body: None) -> Any:
    """Erase a person's data."""
    name, label = (await service.find_asked(request)).name, request.path_params["instance"]
    return await service.ask(name, lambda work, at: work.erase(label, at), label=label)
