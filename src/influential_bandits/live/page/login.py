"""Logging in to the page: a key once, then a signed cookie.

The cookie says which key was shown and until when it holds, signed with a secret that is in no
store: whoever has a copy of one cannot log in with it. The page only shows; what it takes are
logging in and out, if the browser says that they come from here.
"""

from __future__ import annotations

import hmac
from urllib.parse import parse_qsl

from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from influential_bandits.live.requests import Refused

COOKIE = "ib_login"
HOURS = 12.0
MOST_BYTES = 1 << 16  # of a form
MOST_FIELDS = 50


def sign(secret: bytes, digest: str, until: int) -> str:
    """Return a cookie for somebody who has shown the key of a digest."""
    text = f"{digest}.{until}"
    return f"{text}.{hmac.digest(secret, text.encode(), 'sha256').hex()}"


def read_cookie(request: HttpRequest, secret: bytes, now: float) -> str | None:
    """Return the digest of the key that was shown, if the cookie is ours and holds still."""
    cookie = request.cookies.get(COOKIE, "")
    digest, _, rest = cookie.partition(".")
    until = rest.partition(".")[0]
    if not (until.isascii() and until.isdecimal() and len(until) < 20 and int(until) > now):
        return None
    expected = sign(secret, digest, int(until))
    return digest if hmac.compare_digest(cookie.encode(), expected.encode()) else None


def give_cookie(request: HttpRequest, response: Response, cookie: str, path: str) -> None:
    """Have the browser hold a cookie: scripts cannot read it, and other sites cannot use it."""
    response.set_cookie(
        COOKIE,
        cookie,
        max_age=int(HOURS * 3600),
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
        path=path,
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
