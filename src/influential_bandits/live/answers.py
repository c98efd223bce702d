"""Answers of the service: JSON, and what a request that cannot be met is told."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from influential_bandits.live.events import encode
from influential_bandits.live.requests import Refused
from influential_bandits.live.store.sql import StoreError

__all__ = ["Answer", "refuse"]


class Answer(Response):
    """JSON of an answer."""

    media_type = "application/json"

    def __init__(
        self, content: Any, status: int = 200, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(encode(content), status, headers)


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
