"""The way of most requests, decisions, past all that an application has for the others.

What is asked, checked and answered is the same; only the layers of the framework in between, which
cost as much as a decision, are left out. Everything else goes to the application.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import msgspec

from influential_bandits.errors import InfluentialBanditsError
from influential_bandits.live.bodies import MOST_BYTES
from influential_bandits.live.events import encode
from influential_bandits.live.requests import Decide, Refused
from influential_bandits.live.service import Service

__all__ = ["Shortcut"]

log = logging.getLogger("influential_bandits.live")

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

START, END = "/v1/experiments/", "/decisions"
JSON = (b"content-type", b"application/json")


class Shortcut:
    """An application that serves decisions itself, and hands everything else on."""

    def __init__(self, service: Service) -> None:
        self._service, self._app = service, service.app
        self._decode = msgspec.json.Decoder(Decide).decode

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        path: str = scope.get("path", "")
        if path.endswith(END) and path.startswith(START) and scope["type"] == "http":
            name = path[len(START) : -len(END)]
            if scope["method"] == "POST" and name and "/" not in name:
                await self._decide(name, scope, receive, send)
                return
        await self._app(scope, receive, send)

    async def _decide(self, name: str, scope: Scope, receive: Receive, send: Send) -> None:
        service = self._service
        try:
            visitor = service.admit(_authorization(scope), "writer")
            body = self._decode(await _read(receive))
            answer = await service.decide_for(service.find(name, visitor), body)
            content, status = encode(answer), 200
            headers = [JSON, (b"content-length", b"%d" % len(content))]
        except _Gone:
            return
        except (Refused, InfluentialBanditsError, msgspec.DecodeError) as error:
            refusal = service.refuse(error)
            content, status, headers = bytes(refusal.body), refusal.status_code, refusal.raw_headers
        except Exception:
            log.exception("a request failed")
            service.metrics.errors.inc()
            refusal = service.refuse(Refused(500, "internal", "the service failed; see its log"))
            content, status, headers = bytes(refusal.body), refusal.status_code, refusal.raw_headers
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": content})


class _Gone(Exception):
    """The client left before it had said what it wants."""


def _authorization(scope: Scope) -> str:
    for name, value in scope["headers"]:
        if name == b"authorization":
            found: str = value.decode("latin-1")
            return found
    return ""


async def _read(receive: Receive) -> bytes:
    """Return a body; one that is too large is refused before it is read."""
    message = await receive()
    body: bytes = message.get("body", b"")
    while message.get("more_body") or message["type"] != "http.request" or len(body) > MOST_BYTES:
        if message["type"] == "http.disconnect":
            raise _Gone
        if len(body) > MOST_BYTES:
            raise Refused(413, "too_large", f"a body may have {MOST_BYTES:,} bytes")
        message = await receive()
        body += message.get("body", b"")
    return body
