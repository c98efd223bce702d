"""Logging in to the page: a key once, then a cookie.

The browser holds a random text, and the store its digest: all services of a store know who is
logged in, and whoever reads a copy of the store cannot log in with it. The page only shows; what
it takes are logging in and out, if the browser says that they come from here.
"""

from __future__ import annotations

import hashlib
import secrets
from urllib.parse import parse_qsl

from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from influential_bandits.live.requests import Refused

__all__ = ["COOKIE", "read_form", "require_own_form"]

COOKIE = "ib_session"
HOURS = 12.0
MOST_BYTES = 1 << 16  # of a form
MOST_FIELDS = 50
LONGEST_COOKIE = 100


def make_secret() -> str:
    """Return what a browser holds."""
    return secrets.token_urlsafe(32)


def digest_secret(secret: str) -> str:
    """Return what the store holds."""
    return hashlib.sha256(b"session:" + secret.encode()).hexdigest()


def read_secret(request: HttpRequest) -> str | None:
    """Return what the browser holds, if it can be ours."""
    secret = request.cookies.get(COOKIE, "")
    return secret if 0 < len(secret) <= LONGEST_COOKIE and secret.isascii() else None


def give_secret(request: HttpRequest, response: Response, secret: str) -> None:
    """Have the browser hold a secret: scripts cannot read it, and other sites cannot use it."""
    response.set_cookie(
        COOKIE,
        secret,
        max_age=int(HOURS * 3600),
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
        path="/",
    )


async def read_form(request: HttpRequest) -> dict[str, str]:
    """Return the fields of a form; an upload is none."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise Refused(415, "no_form", "this takes a form of its own page")
    body = await request.body()
    if len(body) > MOST_BYTES:
        raise Refused(413, "too_large", f"a form may have {MOST_BYTES:,} bytes")
    try:
        fields = parse_qsl(
            body.decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=MOST_FIELDS,
        )
    except (UnicodeDecodeError, ValueError):
        raise Refused(422, "no_form", "the form cannot be read") from None
    return dict(fields)


def require_own_form(request: HttpRequest) -> None:
    """Raise unless the browser says that a form comes from a page of ours."""
    origin, host = request.headers.get("origin", ""), request.headers.get("host", "")
    is_ours = origin.partition("://")[2] == host != ""
    if not is_ours or request.headers.get("sec-fetch-site", "same-origin") != "same-origin":
        raise Refused(403, "forged", "this form was sent by another site")
