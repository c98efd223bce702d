"""The routes of the page, who may follow them, and what is sent with every answer."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import jinja2
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import RedirectResponse, Response

from influential_bandits import __version__
from influential_bandits.errors import InfluentialBanditsError
from influential_bandits.live.events import encode
from influential_bandits.live.keys import Visitor
from influential_bandits.live.page import pictures, words
from influential_bandits.live.page.estimates import Estimates
from influential_bandits.live.page.sessions import (
    COOKIE,
    HOURS,
    digest_secret,
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

if TYPE_CHECKING:
    from influential_bandits.live.service import Service

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

Handler = Callable[[HttpRequest], Awaitable[Response]]


class Page:
    """The page of a service.

    Parameters
    ----------
    service : Service
    """

    def __init__(self, service: Service) -> None:
        self.service, self.keys = service, service.keys
        self.read, self.ask, self.now = service.read_soon, service.ask, service.writer.now
        self.tallies = Tallies(service.read, self.now)
        self.estimates = Estimates(self.ask)
        self._environment = _make_environment()

    def routes(self) -> list[tuple[str, str, Handler]]:
        """Return methods and paths of all pages, and what answers them."""
        one = "/experiments/{experiment}"
        table = [
            ("/", self.show_home),
            (one, self.show_experiment),
            (f"{one}/settings", self.show_settings),
            (f"{one}/instances", self.show_instance),
            (f"{one}/instances/{{instance:label}}", self.show_instance),
        ]
        return [
            ("GET", "/static/{file}", send_static),
            ("GET", "/favicon.ico", send_icon),
            ("GET", "/login", self._endpoint(self.show_login, is_open=True)),
            ("POST", "/login", self._endpoint(self.log_in, is_open=True)),
            ("POST", "/logout", self._endpoint(self.log_out, is_open=True)),
            *(("GET", path, self._endpoint(handler)) for path, handler in table),
        ]

    # From a request to an answer.

    def _endpoint(self, handler: Handler, *, is_open: bool = False) -> Handler:
        """Return what serves a page, to those who are logged in unless it is open."""

        async def serve(request: HttpRequest) -> Response:
            try:
                visitor = request.scope["visitor"] = await self.find_visitor(request)
                if visitor is None and not is_open:
                    response = self._send_to_login(request)
                else:
                    response = await handler(request)
            except InfluentialBanditsError as error:
                response = self.refuse(request, error)
            except ClientDisconnect:
                raise
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

    async def find_visitor(self, request: HttpRequest) -> Visitor | None:
        """Return who is logged in; a key that was dropped is nobody's."""
        secret = read_secret(request)
        if secret is None:
            return None
        session = await self.read(lambda store: store.session(digest_secret(secret)))
        if session is None or session.until <= self.now():
            return None
        return await self.keys.find_digest(session.key)

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
        page = self._environment.get_template(template).render(
            visitor=visitor,
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

    async def rows(self, request: HttpRequest) -> list[ExperimentRow]:
        """Return the experiments that the visitor sees."""
        visitor: Visitor = request.scope["visitor"]
        rows: list[ExperimentRow] = await self.read(lambda store: store.experiments())
        return [row for row in rows if visitor.sees(row.id)]

    # Pages.

    async def show_home(self, request: HttpRequest) -> Response:
        """Show experiments at a glance."""
        rows = await self.rows(request)
        view = HomeView(rows, request.query_params.get("page", "1"), self.now())
        view.tallies = await self.tallies.look(view.rows)
        view.described = [await self.service.describe(row) for row in view.rows]
        return await self._render_aside(request, "home.html.j2", view.draw)

    async def show_experiment(self, request: HttpRequest) -> Response:
        """Show an experiment."""
        row = await self.service.find_asked(request)
        described = await self.service.describe(row)
        (tally,) = await self.tallies.look([row])
        estimate = None
        if described["settings"]["state"] == "shared":
            estimate = await self.estimates.look(row.name)
        labels = await self.read(lambda store: read_labels(store, row))
        span = "all" if request.query_params.get("span") == "all" else "hour"
        view = ExperimentView(row, described, tally, estimate, labels, span, self.now())
        return await self._render_aside(request, "experiment.html.j2", view.draw)

    async def show_instance(self, request: HttpRequest) -> Response:
        """Show an instance."""
        row = await self.service.find_asked(request)
        label = request.path_params.get("instance") or request.query_params.get("label", "")
        described = await self.service.describe(row)
        explained = await self.ask(row.name, lambda work, at: work.explain(label, at), label=label)
        view = InstanceView(row, described, explained, self.service.read)
        return await self._render_aside(request, "instance.html.j2", view.draw)

    async def show_settings(self, request: HttpRequest) -> Response:
        """Show settings, what follows from them, and how they are changed."""
        row = await self.service.find_asked(request)
        described = await self.service.describe(row)
        settings = described["settings"]
        shared = settings["state"] == "shared"
        return self.render(
            request,
            "settings.html.j2",
            name=row.name,
            path=f"/experiments/{quote(row.name, safe='')}",
            address=str(request.base_url).rstrip("/"),
            described=described,
            settings=settings,
            words=words.describe_settings(settings),
            policy=words.describe_policy(settings["policy"], shared=shared),
            control=words.describe_policy(settings["control"]),
            memory=words.describe_memory(settings),
            models=[
                (model["version"], words.describe_policy(model["policy"], shared=shared))
                for model in described["models"]
            ],
        )

    # Logging in and out.

    async def show_login(self, request: HttpRequest) -> Response:
        """Show the form that takes a key."""
        target = _own_path(request.query_params.get("next", "/"))
        if request.scope["visitor"] is not None:
            return RedirectResponse(target, 303)
        return self.render(request, "login.html.j2", target=target, error="")

    async def log_in(self, request: HttpRequest) -> Response:
        """Take a key, and give the browser a secret."""
        require_own_form(request)
        form = await read_form(request)
        visitor = await self.keys.find(form.get("key", "").strip())
        target = _own_path(form.get("next", "/"))
        if visitor is None:
            error = "There is no such key. A key begins with ib_; it was shown once when made."
            return self.render(request, "login.html.j2", 401, target=target, error=error)
        secret = make_secret()
        session = SessionRow(digest_secret(secret), visitor.digest, self.now() + HOURS * 3600.0)
        await self.ask("", lambda work, at: work.add_session(session, at))
        response = RedirectResponse(target, 303)
        give_secret(request, response, secret)
        return response

    async def log_out(self, request: HttpRequest) -> Response:
        """End the session, here and for everybody who may know its secret."""
        require_own_form(request)
        digest = digest_secret(read_secret(request) or "")
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
