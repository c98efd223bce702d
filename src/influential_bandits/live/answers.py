"""Answers of the service: JSON, and what a request that cannot be met is told."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from influential_bandits.errors import InfluentialBanditsError
from influential_bandits.live.events import encode
from influential_bandits.live.requests import Refused
from influential_bandits.live.store.sql import StoreError

__all__ = ["LiveDecision"]

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
FORESEEN = (InfluentialBanditsError, *UNREADABLE)  # of which a client is told


class LiveDecision(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the service has decided.

    Examples
    --------
    >>> LiveDecision("visit-17", "tea", "policy", 1.0, 0.25, model=0, number=2).arm
    'tea'
    """

    decision_id: str
    arm: str
    group: str  # "policy" or "control"
    probability: float | None  # None: it is not known
    expected_loss: float | None
    model: int
    number: int  # of its event
    proposed: str | None = None  # in shadow mode, the arm that the policy would have served


class Outcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """What has become of a decision."""

    decision_id: str
    status: str
    loss: float | None = None


class Exposures(msgspec.Struct, frozen=True):
    """How many arms met elsewhere were noted."""

    exposures: int


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


def as_refusal(error: Exception) -> Refused:
    """Return what is told when something went wrong that was foreseen."""
    if isinstance(error, Refused):
        return error
    if isinstance(error, StoreError):
        return Refused(503, "store", str(error))
    if isinstance(error, UNREADABLE):
        return Refused(422, "invalid", f"the body cannot be read: {error}")
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
