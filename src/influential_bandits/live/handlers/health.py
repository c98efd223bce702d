"""Whether it is alive and can decide, how much it has done, and what can be asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from influential_bandits import __version__
from influential_bandits.live.api import DECLARED, call
from influential_bandits.live.openapi import describe_calls
from influential_bandits.live.requests import Refused

if TYPE_CHECKING:
    from influential_bandits.live.service import Service


@call("GET", "/health", None)
async def health(service: Service, request: HttpRequest, body: None) -> Any:
    """Tell whether the process is alive."""
    return {"status": "alive", "version": __version__}


@call("GET", "/ready", "reader")
async def ready(service: Service, request: HttpRequest, body: None) -> Any:
    """Tell whether it can decide: whether the store takes what is written."""
    await service.ask("", lambda work, at: work.write_nothing())
    return {"status": "ready"}


@call("GET", "/metrics", "reader")
async def show_metrics(service: Service, request: HttpRequest, body: None) -> Any:
    """Return counts and times for Prometheus."""
    if request.scope["visitor"].experiment is not None:
        raise Refused(403, "not_allowed", "metrics are of all experiments: take a key of all")
    return Response(service.metrics.render(), media_type="text/plain; version=0.0.4")


@call("GET", "/openapi.json", "reader")
async def openapi(service: Service, request: HttpRequest, body: None) -> Any:
    """Return this interface."""
    return describe_calls(DECLARED)
