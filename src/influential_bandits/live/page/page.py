"""The routes of the page, who may follow them, and what is sent with every answer."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Awaitable, Callable
from functools import cache, partial
from importlib import resources
from itertools import groupby
from typing import Any
from urllib.parse import quote

import jinja2
from starlette.requests import Request as HttpRequest
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from influential_bandits import __version__
from influential_bandits.errors import InfluentialBanditsError
from influential_bandits.live.events import CHANGED, CREATED, decode, encode
from influential_bandits.live.keys import KeyRing, Role, Visitor
from influential_bandits.live.page import forms, pictures, words
from influential_bandits.live.page.estimates import Estimates
from influential_bandits.live.page.sessions import (
    COOKIE,
    HOURS,
    digest_secret,
    form_token,
    give_secret,
    make_secret,
    read_form,
    read_secret,
    require_own_form,
)
from influential_bandits.live.page.tallies import Tallies
from influential_bandits.live.page.views import ExperimentView, HomeView, InstanceView
from influential_bandits.live.requests import Refused
from influential_bandits.live.store.sql import Connection, ExperimentRow, SessionRow, StoreError

__all__ = ["Page"]

log = logging.getLogger("influential_bandits.live")

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
STATIC = {
    "page.css": "text/css",
    "page.js": "text/javascript",
    "uPlot.min.css": "text/css",
    "uPlot.iife.min.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}
SECONDS_KEPT = 2.0  # of answers of the writer

Ask = Callable[..., Awaitable[Any]]
Handler = Callable[[HttpRequest], Awaitable[Response]]


class Page:
    """The page of a service.

    Parameters
    ----------
    read : callable
        Asks a question of the store.
    ask : coroutine function
        Hands a request to the writer, and waits until it is on disk.
    keys : KeyRing
    now : callable
        Seconds since 1970.
    """

    def __init__(
        self,
        read: Callable[[Callable[[Connection], Any]], Any],
        ask: Ask,
        keys: KeyRing,
        now: Callable[[], float],
    ) -> None:
        self.read, self.ask, self.keys, self.now = read, ask, keys, now
        self.tallies = Tallies(read, now)
        self.estimates = Estimates(ask)
        self._described: dict[str, tuple[float, dict[str, Any]]] = {}
        self._environment = _make_environment()

    def routes(self) -> list[Route]:
        """Return the routes of all pages."""
        one = "/experiments/{experiment}"
        table: list[tuple[str, str, Role | None, Any]] = [
            ("GET", "/", "reader", self.show_home),
            ("GET", one, "reader", self.show_experiment),
            ("GET", f"{one}/settings", "reader", self.show_settings),
            ("GET", f"{one}/instances", "reader", self.show_instance),
            ("GET", f"{one}/instances/{{instance:path}}", "reader", self.show_instance),
            ("GET", "/keys", "admin", self.show_keys),
            ("POST", f"{one}/settings", "admin", partial(forms.change_settings, self)),
            ("POST", f"{one}/arms", "admin", partial(forms.add_arm, self)),
            ("POST", f"{one}/arms/retire", "admin", partial(forms.retire_arm, self)),
            ("POST", f"{one}/models", "admin", partial(forms.activate_model, self)),
            ("POST", "/keys", "admin", partial(forms.add_key, self)),
            ("POST", "/keys/drop", "admin", partial(forms.drop_key, self)),
            ("GET", "/login", None, self.show_login),
            ("POST", "/login", None, self.log_in),
            ("POST", "/logout", None, self.log_out),
        ]
        return [
            Route("/static/{file}", send_static, methods=["GET"]),
            Route("/favicon.ico", send_icon, methods=["GET"]),
            *(
                Route(path, self._endpoint(method, role, handler), methods=[method])
                for method, path, role, handler in table
            ),
        ]

    # From a request to an answer.

    def _endpoint(self, method: str, role: Role | None, handler: Any) -> Handler:
        async def serve(request: HttpRequest) -> Response:
            try:
                response = await self._serve(request, method, role, handler)
            except (Refused, InfluentialBanditsError) as error:
                response = self.refuse(request, error)
            except Exception:
                log.exception("a page failed")
                response = self.refuse(
                    request, Refused(500, "internal", "the service failed; see its log")
                )
            return self._guard(response)

        return serve

    def _guard(self, response: Response) -> Response:
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        return response

    async def _serve(
        self, request: HttpRequest, method: str, role: Role | None, handler: Any
    ) -> Response:
        visitor, secret = self.find_visitor(request), read_secret(request)
        request.scope["visitor"], request.scope["secret"] = visitor, secret
        form = {}
        if method == "POST":
            form = await read_form(request)
            require_own_form(request, form, secret)
        if role is not None:
            if visitor is None:
                return self._send_to_login(request)
            if not visitor.may(role):
                raise Refused(403, "not_allowed", f"this takes a key of the role {role}")
        if method == "POST":
            return await handler(request, form)
        return await handler(request)

    def find_visitor(self, request: HttpRequest) -> Visitor | None:
        """Return who is logged in; a key that was dropped is nobody's."""
        secret = read_secret(request)
        if secret is None:
            return None
        session = self.read(lambda store: store.session(digest_secret(secret)))
        if session is None or session.until <= self.now():
            return None
        return self.keys.find_digest(session.key)

    def _send_to_login(self, request: HttpRequest) -> Response:
        if wants_live(request):
            return Response(status_code=401)
        target = request.scope["raw_path"].decode("ascii", "replace")  # as the browser wrote it
        if request.method != "GET" or target == "/":
            return RedirectResponse("/login", 303)
        if request.url.query:
            target = f"{target}?{request.url.query}"
        return RedirectResponse(f"/login?next={quote(target, safe='')}", 303)

    def refuse(self, request: HttpRequest, error: Exception) -> Response:
        """Return a page that says what went wrong."""
        status = 503 if isinstance(error, StoreError) else getattr(error, "status", 422)
        if wants_live(request):
            return Response(str(error), status, media_type="text/plain")
        return self.render(
            request, "message.html.j2", status, title="This did not work", message=str(error)
        )

    def miss(self, request: HttpRequest) -> Response:
        """Return a page that says that there is none."""
        return self._guard(self.refuse(request, Refused(404, "unknown", "There is no such page.")))

    def render(
        self, request: HttpRequest, template: str, status: int = 200, **values: Any
    ) -> Response:
        """Return a page."""
        visitor: Visitor | None = request.scope.get("visitor")
        secret = request.scope.get("secret")
        page = self._environment.get_template(template).render(
            visitor=visitor,
            is_admin=visitor is not None and visitor.may("admin"),
            token=form_token(secret) if secret else "",
            version=__version__,
            **values,
        )
        return Response(page, status, media_type="text/html")

    async def _render_aside(
        self, request: HttpRequest, template: str, draw: Callable[[], dict[str, Any]]
    ) -> Response:
        """Return a page, or the parts of it that move; made in a thread, beside decisions."""

        def render() -> Response:
            values = draw()
            if not wants_live(request):
                return self.render(request, template, **values)
            found = self._environment.get_template(template)
            context = found.new_context(values)
            parts = {
                name.removeprefix("live_"): "".join(block(context))
                for name, block in found.blocks.items()
                if name.startswith("live_")
            }
            body = {"parts": parts, "charts": values["charts"], "summary": values["summary"]}
            return Response(encode(body), media_type="application/json")

        return await asyncio.to_thread(render)

    # What pages need.

    def rows(self, request: HttpRequest) -> list[ExperimentRow]:
        """Return the experiments that the visitor sees."""
        visitor: Visitor = request.scope["visitor"]
        rows: list[ExperimentRow] = self.read(lambda store: store.experiments())
        return [row for row in rows if visitor.sees(row.id)]

    def find(self, request: HttpRequest) -> ExperimentRow:
        """Return the experiment of a path; one that the visitor may not see is not there."""
        name = request.path_params["experiment"]
        for row in self.rows(request):
            if row.name == name:
                return row
        raise Refused(404, "unknown_experiment", f"there is no experiment {name!r:.80}")

    async def describe(self, row: ExperimentRow) -> dict[str, Any]:
        """Return settings, arms and models."""
        until, answer = self._described.get(row.name, (0.0, {}))
        if time.monotonic() >= until:
            answer = await self.ask(row.name, lambda work, at: work.describe())
            self._described[row.name] = time.monotonic() + SECONDS_KEPT, answer
        return answer

    def forget(self, name: str) -> None:
        """Ask anew for what has been changed."""
        self._described.pop(name, None)

    # Pages.

    async def show_home(self, request: HttpRequest) -> Response:
        """Show experiments at a glance."""
        rows = self.rows(request)
        view = HomeView(rows, request.query_params.get("page", "1"), self.now())
        view.tallies = await self.tallies.look(view.rows)
        view.described = [await self.describe(row) for row in view.rows]
        return await self._render_aside(request, "home.html.j2", view.draw)

    async def show_experiment(self, request: HttpRequest) -> Response:
        """Show an experiment."""
        row = self.find(request)
        described = await self.describe(row)
        (tally,) = await self.tallies.look([row])
        estimate = None
        if described["settings"]["state"] == "shared":
            estimate = await self.estimates.look(row.name)
        labels = self.read(lambda store: read_labels(store, row))
        shares = self.read(lambda store: read_control_shares(store, row))
        span = "all" if request.query_params.get("span") == "all" else "hour"
        view = ExperimentView(row, described, tally, estimate, labels, shares, span, self.now())
        return await self._render_aside(request, "experiment.html.j2", view.draw)

    async def show_instance(self, request: HttpRequest) -> Response:
        """Show an instance."""
        row = self.find(request)
        label = request.path_params.get("instance") or request.query_params.get("label", "")
        described = await self.describe(row)
        explained = await self.ask(row.name, lambda work, at: work.explain(label, at), label=label)
        view = InstanceView(row, described, explained, self.read)
        return await self._render_aside(request, "instance.html.j2", view.draw)

    async def show_settings(self, request: HttpRequest) -> Response:
        """Show settings and what follows from them."""
        return await forms.render_settings(self, request, self.find(request))

    async def show_keys(self, request: HttpRequest) -> Response:
        """Show keys."""
        return forms.render_keys(self, request)

    # Logging in and out.

    async def show_login(self, request: HttpRequest) -> Response:
        """Show the form that takes a key."""
        if request.scope["visitor"] is not None:
            return RedirectResponse(_own_path(request.query_params.get("next", "/")), 303)
        return self._render_login(request, _own_path(request.query_params.get("next", "/")))

    def _render_login(
        self, request: HttpRequest, target: str, status: int = 200, error: str = ""
    ) -> Response:
        fresh = request.scope["secret"] is None
        if fresh:
            request.scope["secret"] = make_secret()
        response = self.render(request, "login.html.j2", status, target=target, error=error)
        if fresh:
            give_secret(request, response, request.scope["secret"])
        return response

    async def log_in(self, request: HttpRequest, form: dict[str, str]) -> Response:
        """Take a key, and give the browser a new secret: an old one may be known to others."""
        visitor = self.keys.find(form.get("key", "").strip())
        target = _own_path(form.get("next", "/"))
        if visitor is None:
            words = "There is no such key. A key begins with ib_; it was shown once when made."
            return self._render_login(request, target, 401, words)
        secret = make_secret()
        session = SessionRow(digest_secret(secret), visitor.digest, self.now() + HOURS * 3600.0)
        await self.ask("", lambda work, at: work.add_session(session, at))
        response = RedirectResponse(target, 303)
        give_secret(request, response, secret)
        return response

    async def log_out(self, request: HttpRequest, form: dict[str, str]) -> Response:
        """End the session, here and for everybody who may know its secret."""
        digest = digest_secret(request.scope["secret"])
        await self.ask("", lambda work, at: work.drop_session(digest))
        response = RedirectResponse("/login", 303)
        response.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")
        return response


def wants_live(request: HttpRequest) -> bool:
    """Tell whether a script of the page asks for what has moved."""
    return request.headers.get("accept") == "application/json"


def read_labels(store: Connection, row: ExperimentRow) -> list[tuple[str, str]]:
    """Return the newest instances, and their groups."""
    sql = "SELECT label, served FROM instances WHERE experiment = ? ORDER BY number DESC LIMIT 12"
    return [(label, group) for label, group in store.run(sql, (row.id,))]


def read_control_shares(store: Connection, row: ExperimentRow) -> list[float]:
    """Return the shares that the control group had, one after another."""
    sql = (
        "SELECT data FROM events WHERE experiment = ? AND instance = 0 AND kind IN (?, ?) "
        "ORDER BY number"
    )
    found = [decode(data) for (data,) in store.run(sql, (row.id, CREATED, CHANGED))]
    shares = [settings.get("control_share", 0.0) for settings in found]
    return [share for share, _ in groupby(shares)]


def _own_path(target: str) -> str:
    """Return where to go after logging in: a path of ours, and nowhere else."""
    return target if target.startswith("/") and not target.startswith(("//", "/\\")) else "/"


@cache
def read_static(file: str) -> bytes:
    """Return a file that pages ask for."""
    return resources.files(__package__).joinpath("static", file).read_bytes()


async def send_static(request: HttpRequest) -> Response:
    """Send a file of the page; its address changes with its content."""
    file = request.path_params["file"]
    if file not in STATIC:
        return Response("there is no such file", 404, media_type="text/plain")
    headers = HEADERS | {"Cache-Control": "public, max-age=31536000, immutable"}
    return Response(read_static(file), headers=headers, media_type=STATIC[file])


async def send_icon(request: HttpRequest) -> Response:
    """Send the icon to a browser that asks by itself."""
    return Response(read_static("icon.svg"), headers=HEADERS, media_type=STATIC["icon.svg"])


def static_path(file: str) -> str:
    """Return the address of a file, with a digest of what is in it."""
    return f"/static/{file}?{hashlib.sha256(read_static(file)).hexdigest()[:12]}"


def _make_environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader(__package__, "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {
        "number": words.write_number,
        "decimal": words.write_decimal,
        "plain": words.write_plain,
        "share": words.write_share,
        "time": words.write_time,
        "span": words.write_span,
        "path": lambda text: quote(text, safe=""),
    }
    environment.globals |= {
        "static": static_path,
        "instance_path": words.instance_path,
        "draw_interval": pictures.draw_interval,
        "draw_spark": pictures.draw_spark,
    }
    return environment
