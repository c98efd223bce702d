"""The routes of the page, who may follow them, and what is sent with every answer."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import jinja2
from starlette.requests import Request as HttpRequest
from starlette.responses import RedirectResponse, Response

from influential_bandits import __version__
from influential_bandits.live import words
from influential_bandits.live.events import encode
from influential_bandits.live.keys import Key
from influential_bandits.live.page import login, pictures, views
from influential_bandits.live.page.latest import Latest
from influential_bandits.live.requests import Refused
from influential_bandits.live.store.sql import Connection, ExperimentRow

if TYPE_CHECKING:
    from influential_bandits.live.service import Service

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
SECONDS_OF_A_REPORT = 1.0  # in which it is not made again
SECONDS_OF_AN_ESTIMATE = 10.0

Handler = Callable[[HttpRequest], Awaitable[Response]]


class Page:
    """The page of a service.

    Parameters
    ----------
    service : Service
    root : str
        The path under which a proxy serves it, such as ``"/bandits"``, and takes off.
    """

    def __init__(self, service: Service, root: str = "") -> None:
        self.service, self.now, self._root = service, service.writer.now, root
        self._reports = Latest(SECONDS_OF_A_REPORT)
        self._estimates = Latest(SECONDS_OF_AN_ESTIMATE, times_as_long=20.0)
        self._environment = _make_environment(root)

    def routes(self) -> list[tuple[str, str, Handler]]:
        """Return methods and paths of all pages, and what answers them."""
        experiment = "/experiments/{experiment}"
        return [
            ("GET", "/static/{file}", send_static),
            ("GET", "/favicon.ico", send_icon),
            ("GET", "/login", self.show_login),
            ("POST", "/login", self.log_in),
            ("POST", "/logout", self.log_out),
            ("GET", "/", self._closed(self.show_home)),
            ("GET", experiment, self._closed(self.show_experiment)),
        ]

    # Who may look, and how it is answered.

    def _closed(self, handler: Handler) -> Handler:
        """Return what serves a page to those who are logged in."""

        async def serve(request: HttpRequest) -> Response:
            request.scope["visitor"] = await self.find_visitor(request)
            if request.scope["visitor"] is not None:
                return await handler(request)
            if wants_live(request):
                return Response(status_code=401, headers=HEADERS)
            target = request.scope["raw_path"].decode("ascii", "replace")  # as the browser wrote it
            if request.url.query:
                target = f"{target}?{request.url.query}"
            where = "" if target == "/" else f"?next={quote(target, safe='')}"
            return self._lead_to(f"/login{where}")

        return serve

    async def find_visitor(self, request: HttpRequest) -> Key | None:
        """Return who is logged in; a key that was dropped is nobody's."""
        digest = login.read_cookie(request, self.service.secret, self.now())
        return None if digest is None else await self.service.keys.find_digest(digest)

    def _lead_to(self, path: str) -> Response:
        """Return an answer that leads to a page of ours."""
        return RedirectResponse(f"{self._root}{path}", 303, HEADERS)

    def refuse(self, request: HttpRequest, refused: Refused) -> Response:
        """Return a page that says what went wrong."""
        title, message = "This did not work", str(refused)
        return self.render(request, "message.html.j2", refused.status, title=title, message=message)

    def render(
        self, request: HttpRequest, template: str, status: int = 200, **values: Any
    ) -> Response:
        """Return a page."""
        visitor: Key | None = request.scope.get("visitor")
        page = self._environment.get_template(template).render(
            visitor=visitor,
            version=__version__,
            **values,
        )
        return Response(page, status, HEADERS, media_type="text/html")

    async def _send(
        self, request: HttpRequest, template: str, draw: Callable[[], dict[str, Any]]
    ) -> Response:
        """Return a page, or the parts of it that move; made in a thread, beside decisions."""

        def render() -> Response:
            values = draw()
            if not wants_live(request):
                return self.render(request, template, **values)
            page = self._environment.get_template(template)
            context = page.new_context(values)
            parts = {
                name.removeprefix("live_"): "".join(block(context))
                for name, block in page.blocks.items()
                if name.startswith("live_")
            }
            news = {"parts": parts, "charts": values["charts"], "summary": values["summary"]}
            return Response(encode(news), headers=HEADERS, media_type="application/json")

        return await asyncio.to_thread(render)

    async def _find(self, request: HttpRequest) -> ExperimentRow:
        """Return the experiment of a path; one that the visitor may not see is not there."""
        name, visitor = request.path_params["experiment"], request.scope["visitor"]
        return await self.service.find(name, visitor)

    async def _look_at_report(self, row: ExperimentRow, span: str) -> dict[str, Any] | None:
        """Return the latest report; None while it is being made."""
        report: dict[str, Any] | None = await self._reports.look(
            (row.id, span), lambda: self.service.report(row, span)
        )
        return report

    # Pages.

    async def show_home(self, request: HttpRequest) -> Response:
        """Show experiments at a glance."""
        visitor: Key = request.scope["visitor"]
        rows = await self.service.read_soon(lambda store: store.experiments())
        rows = [row for row in rows if visitor.sees(row.id)]
        rows, number, pages = views.choose_page(rows, request.query_params.get("page", "1"))
        described = [await self.service.describe(row) for row in rows]
        reports = await asyncio.gather(*(self._look_at_report(row, "hour") for row in rows))
        return await self._send(
            request, "home.html.j2", lambda: views.draw_home(described, reports, number, pages)
        )

    async def show_experiment(self, request: HttpRequest) -> Response:
        """Show an experiment."""
        row = await self._find(request)
        described = await self.service.describe(row)
        estimate = None
        if described["settings"]["state"] == "shared" and not self.service.writer.is_loading:
            estimate = await self._estimates.look(row.id, lambda: self.service.estimate(row))
        labels = await self.service.read_soon(lambda store: read_labels(store, row))
        span = "all" if request.query_params.get("span") == "all" else "hour"
        report = await self._look_at_report(row, span)
        return await self._send(
            request,
            "experiment.html.j2",
            lambda: views.draw_experiment(described, report, estimate, labels, span),
        )

    # Logging in and out.

    async def show_login(self, request: HttpRequest) -> Response:
        """Show the form that takes a key."""
        target = _own_path(request.query_params.get("next", "/"))
        if await self.find_visitor(request) is not None:
            return self._lead_to(target)
        return self.render(request, "login.html.j2", target=target, error="")

    async def log_in(self, request: HttpRequest) -> Response:
        """Take a key, and give the browser a cookie."""
        request.scope["is_audited"] = True
        login.require_own_form(request)
        form = await login.read_form(request)
        visitor = request.scope["visitor"] = await self.service.keys.find(
            form.get("key", "").strip()
        )
        target = _own_path(form.get("next", "/"))
        if visitor is None:
            error = "There is no such key. A key begins with ib_; it was shown once when made."
            return self.render(request, "login.html.j2", 401, target=target, error=error)
        response = self._lead_to(target)
        until = int(self.now() + login.HOURS * 3600.0)
        cookie = login.sign(self.service.secret, visitor.digest, until)
        login.give_cookie(request, response, cookie, self._root or "/")
        return response

    async def log_out(self, request: HttpRequest) -> Response:
        """Take the cookie back."""
        login.require_own_form(request)
        response = self._lead_to("/login")
        response.delete_cookie(
            login.COOKIE, path=self._root or "/", httponly=True, samesite="strict"
        )
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
        raise Refused(404, "unknown_path", "there is no such file")
    headers = HEADERS | {"Cache-Control": "public, max-age=31536000, immutable"}
    return Response(read_static(file), headers=headers, media_type=STATIC[file])


async def send_icon(request: HttpRequest) -> Response:
    """Send the icon to a browser that asks by itself."""
    return Response(read_static("icon.svg"), headers=HEADERS, media_type=STATIC["icon.svg"])


def static_path(file: str) -> str:
    """Return the address of a file, with a digest of what is in it."""
    return f"/static/{file}?{hashlib.sha256(read_static(file)).hexdigest()[:12]}"


def _make_environment(root: str) -> jinja2.Environment:
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
        "root": root,
        "static": lambda file: root + static_path(file),
        "draw_interval": pictures.draw_interval,
        "draw_spark": pictures.draw_spark,
    }
    return environment
