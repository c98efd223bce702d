"""Bodies of requests, as far as they are not too large."""

from __future__ import annotations

from starlette.requests import Request as HttpRequest

from influential_bandits.live.requests import Refused

__all__ = ["MOST_BYTES", "read_body"]

MOST_BYTES = 1 << 20


async def read_body(request: HttpRequest, most: int = MOST_BYTES) -> bytes:
    """Return a body, or refuse one that is too large before it is read."""
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > most:
            raise Refused(413, "too_large", f"a body may have {most:,} bytes")
        parts.append(part)
    return b"".join(parts)
