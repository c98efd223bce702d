"""The service: HTTP in front of the writer. ``calls.py`` lists all calls, ``handlers/`` do them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.convertors import Convertor, register_url_convertor
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route

from influential_bandits.errors import InfluentialBanditsError
from influential_bandits.live.answers import Answer, refuse
from influential_bandits.live.bodies import read_body
from influential_bandits.live.calls import CALLS, Call
from influential_bandits.live.handlers import HANDLERS
from influential_bandits.live.keys import KeyRing, Role, Visitor
from influential_bandits.live.metrics import Metrics
from influential_bandits.live.page.page import Page
from influential_bandits.live.requests import Refused
from influential_bandits.live.settings import require_label
from influential_bandits.live.store.sql import Connection, ExperimentRow
from influential_bandits.live.writer import Job, Writer

__all__ = ["Service"]

log = logging.getLogger("influential_bandits.live")


class LabelConvertor(Convertor[str]):
    """Any text in a path, with slashes and line ends."""

    regex = "(?s:.*)"

    def convert(self, value: str) -> str:
        """Return the text."""
        return value

    def to_string(self, value: str) -> str:
        """Return the text."""
        return value


register_url_convertor("label", LabelConvertor())


class Service:
    """The application.

    Parameters
    ----------
    writer : Writer
    """

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.metrics = Metrics(writer)
        self._readers: list[Connection] = []
        self.keys = KeyRing(lambda: self.read(lambda store: store.keys()))
        self._experiments: dict[str, ExperimentRow] = {}
        self.delivered: list[tuple[Callable[[Any], None], Any]] = []  # answers, and who takes them
        self.after_compiling: Callable[[], None] = lambda: None
        self.loop: asyncio.AbstractEventLoop | None = None
        writer.after_batch = self._deliver_all
        self.page = Page(self.read, self.ask, self.keys, writer.now)
        self.app = Starlette(
            routes=[
                *(Route(call.path, self._endpoint(call), methods=[call.method]) for call in CALLS),
                *self.page.routes(),
            ],
            exception_handlers={404: self._miss, 405: self._miss},
        )
        self.app.state.service = self  # where connections find it

    # From a request to an answer.

    async def _miss(self, request: HttpRequest, error: Exception) -> Response:
        """Answer a request for what is not there, to a browser by a page."""
        if "text/html" in request.headers.get("accept", ""):
            return self.page.miss(request)
        return await _no_such_page(request, error)

    def _endpoint(self, call: Call) -> Callable[[HttpRequest], Awaitable[Response]]:
        handler = HANDLERS[call.handler]
        decoder: msgspec.json.Decoder[Any] | None = None
        if call.body is not None:
            decoder = msgspec.json.Decoder(call.body)

        async def serve(request: HttpRequest) -> Response:
            try:
                if call.role is not None:
                    request.scope["visitor"] = self._admit(request, call.role)
                body = None
                if decoder is not None:
                    body = decoder.decode(await read_body(request))
                elif call.method == "POST":
                    await read_body(request)
                answer = await handler(self, request, body)
            except (Refused, InfluentialBanditsError, msgspec.DecodeError) as error:
                return refuse(error)
            except Exception:
                log.exception("a request failed")
                self.metrics.errors.inc()
                return refuse(Refused(500, "internal", "the service failed; see its log"))
            return answer if isinstance(answer, Response) else Answer(answer)

        return serve

    def _admit(self, request: HttpRequest, role: Role) -> Visitor:
        """Return who asks: by a key, or a look (GET) by the session of the page."""
        given = request.headers.get("authorization")
        if given is None and request.method == "GET":
            visitor = self.page.find_visitor(request)
            if visitor is not None:
                return _require_role(visitor, role)
        return self.admit(given or "", role)

    def admit(self, authorization: str, role: Role) -> Visitor:
        """Return who has a key, or refuse."""
        kind, _, key = authorization.partition(" ")
        visitor = self.keys.find(key.strip()) if kind.lower() == "bearer" else None
        if visitor is None:
            raise Refused(
                401, "no_key", "send a key of this service, as in: Authorization: Bearer ib_…"
            )
        return _require_role(visitor, role)

    async def ask(self, experiment: str, act: Callable[[Any, float], Any], **names: Any) -> Any:
        """Hand a request to the writer, and wait until its events are on disk."""
        self.loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = self.loop.create_future()

        def take(answer: Any) -> None:
            if not future.done():  # a client that has gone waits for nothing
                future.set_result(answer)

        job = Job(experiment, act, lambda answer: self.delivered.append((take, answer)), **names)
        self.writer.submit(job)
        answer = await future
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _deliver_all(self) -> None:
        """Hand the answers of a batch over to the loop; called by the writer's thread."""
        delivered, self.delivered = self.delivered, []
        if delivered and self.loop is not None and not self.loop.is_closed():
            self.loop.call_soon_threadsafe(_deliver, delivered)

    def read(self, question: Callable[[Connection], Any]) -> Any:
        """Ask the store over a connection that reads alone."""
        try:  # and not a look first: several threads ask at once
            reader = self._readers.pop()
        except IndexError:
            reader = self.writer.store.open_reader()
        try:
            answer = question(reader)
        except BaseException:
            reader.close()
            raise
        self._readers.append(reader)
        return answer

    async def read_aside(self, question: Callable[[Connection], Any]) -> Any:
        """Ask a question that may take long, without holding up decisions."""
        return await asyncio.to_thread(self.read, question)

    # Experiments, as far as a visitor sees them.

    def find_asked(self, request: HttpRequest) -> ExperimentRow:
        """Return the experiment of a path; one that the visitor may not see is not there."""
        return self.find(request.path_params["experiment"], request.scope["visitor"])

    def find(self, name: str, visitor: Visitor) -> ExperimentRow:
        """Return an experiment; one that the visitor may not see is not there."""
        row = self._experiments.get(name)
        if row is None:
            rows = self.read(lambda store: store.experiments())
            self._experiments = {row.name: row for row in rows}
            row = self._experiments.get(name)
        if row is None or not visitor.sees(row.id):
            raise Refused(404, "unknown_experiment", f"there is no experiment {name!r:.80}")
        return row

    def forget_experiments(self) -> None:
        """Look them up again: there is a new one."""
        self._experiments = {}

    def find_by_decision(self, decision: str, visitor: Visitor, named: str | None) -> ExperimentRow:
        """Return the experiment of a decision: the one named, the key's, or the one that has it."""
        require_label("the id of a decision", decision)
        if named is not None:
            return self.find(named, visitor)
        rows = {row.id: row for row in self._experiments.values()}
        if visitor.experiment is not None and visitor.experiment in rows:
            return rows[visitor.experiment]
        if len(rows) != 1 or visitor.experiment is not None:
            rows = {row.id: row for row in self.read(lambda store: store.experiments())}
            if visitor.experiment is not None:
                rows = {visitor.experiment: rows[visitor.experiment]}
        if len(rows) > 1:
            found = self.read(lambda store: store.experiments_of_decision(decision))
            rows = {number: rows[number] for number in found}
        if len(rows) > 1:
            raise Refused(
                409,
                "ambiguous",
                f"several experiments have a decision {decision!r:.80}; add ?experiment=NAME",
            )
        if not rows:
            raise Refused(404, "unknown_decision", f"there is no decision {decision!r:.80}")
        return next(iter(rows.values()))


def _require_role(visitor: Visitor, role: Role) -> Visitor:
    if not visitor.may(role):
        raise Refused(403, "not_allowed", f"this takes a key of the role {role}")
    return visitor


def _deliver(delivered: list[tuple[Callable[[Any], None], Any]]) -> None:
    for take, answer in delivered:
        take(answer)


async def _no_such_page(request: HttpRequest, error: Exception) -> Response:
    status = getattr(error, "status_code", 404)
    words = "there is no such page" if status == 404 else "this page does not know that method"
    return Answer({"error": {"code": "unknown_path", "message": words}}, status)
