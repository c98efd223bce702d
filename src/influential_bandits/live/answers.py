"""Answers of the service: JSON, and what a request that cannot be met is told."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from influential_bandits.errors import InfluentialBanditsError
from influential_bandits.live.events import encode
from influential_bandits.live.requests import Refused
from influential_bandits.live.store.sql import StoreError


class Answer:
    """JSON, as an ASGI response; what Starlette's does beside costs as much as a decision."""

    def __init__(
        self, content: Any, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> None:
        self.body, self.status_code = encode(content), status
        self.raw_headers = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(self.body)),
            *((name.encode(), value.encode()) for name, value in (headers or {}).items()),
        ]

    async def __call__(
        self, scope: Any, receive: Any, send: Callable[[dict[str, Any]], Awaitable[None]]
    ) -> None:
        """Send it."""
        start = {"type": "http.response.start", "status": self.status_code}
        await send({**start, "headers": self.raw_headers})
        await send({"type": "http.response.body", "body": self.body})


def as_refusal(error: InfluentialBanditsError) -> Refused:
    """Return what is told when something went wrong that was foreseen."""
    if isinstance(error, Refused):
        return error
    if isinstance(error, StoreError):
        return Refused(503, "store", str(error))
    return Refused(422, "invalid", str(error))


def describe_refusal(refused: Refused) -> dict[str, Any]:
    """Return a refusal as JSON data."""
    return {"error": {"code": refused.code, "message": str(refused)}}


def refuse(refused: Refused) -> Answer:
    """Return the answer to a request that cannot be met."""
    headers = {}
    if refused.status == 503:
        headers["Retry-After"] = "1"
    if refused.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return Answer(describe_refusal(refused), refused.status, headers)
