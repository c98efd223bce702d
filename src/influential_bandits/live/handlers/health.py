"""Whether it is alive and can decide, how much it has done, and what can be asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from influential_bandits import __version__
from influential_bandits.live.calls import CALLS
from influential_bandits.live.openapi import describe_calls

if TYPE_CHECKING:
    from influential_bandits.live.service import Service

__all__ = ["health", "openapi", "ready", "show_metrics"]


async def health(service: Service, request: HttpRequest, body: None) -> Any:
    """Say that the process is alive."""
    return {"status": "alive", "version": __version__}


async def ready(service: Service, request: HttpRequest, body: None) -> Any:
    """Say whether the store is there."""
    await service.read_aside(lambda store: store.run("SELECT 1"))
    return {"status": "ready"}


async def show_metrics(service: Service, request: HttpRequest, body: None) -> Any:
    """Return counts and times."""
    return Response(service.metrics.render(), media_type="text/plain; version=0.0.4")


async def openapi(service: Service, request: HttpRequest, body: None) -> Any:
    """Return this interface."""
    return describe_calls(CALLS)
