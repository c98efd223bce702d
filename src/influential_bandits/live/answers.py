"""Answers of the service: JSON, and what a request that cannot be met is told."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from influential_bandits.live.events import encode
from influential_bandits.live.requests import Refused
from influential_bandits.live.store.sql import StoreError

__all__ = ["Answer", "refuse"]


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


def refuse(error: Exception) -> Answer:
    """Return the answer to a request that cannot be met."""
    if isinstance(error, Refused):
        refused = error
    elif isinstance(error, StoreError):
        refused = Refused(503, "store", str(error))
    else:
        refused = Refused(422, "invalid", str(error))
    headers = {}
    if refused.status == 503:
        headers["Retry-After"] = "1"
    if refused.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    content = {"error": {"code": refused.code, "message": str(refused)}}
    return Answer(content, refused.status, headers)
