"""The service, as an ASGI application: from a request to a call or a page, and to the writer."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import re
import secrets
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from influential_bandits.live.answers import FORESEEN, Answer, as_refusal, refuse
from influential_bandits.live.api import Asked, Call, Router
from influential_bandits.live.experiment import Experiment
from influential_bandits.live.handlers import CALLS
from influential_bandits.live.instances import describe_instance, find_instance, load_alone
from influential_bandits.live.keys import NOBODY, SECONDS_FRESH, Key, KeyRing, Role
from influential_bandits.live.logs import access, audit, log
from influential_bandits.live.metrics import FOLDER_VARIABLE, Metrics
from influential_bandits.live.page.page import Page
from influential_bandits.live.reading import describe_experiment
from influential_bandits.live.report import Report
from influential_bandits.live.requests import Refused
from influential_bandits.live.store.sql import Connection, ExperimentRow, StoreError
from influential_bandits.live.words import tell_rewards
from influential_bandits.live.writer import Job, Writer
from influential_bandits.policies.fleet.estimate import SharedEstimate

SECONDS_TO_READ = 10.0  # for an answer of the store that a request waits for
SECONDS_TO_WRITE = 10.0  # until what a request asks for is on disk
MOST_REPORTS = 48  # kept, so that they read what is new alone
MOST_LONG_QUESTIONS = 2  # at a time; all others, such as for keys, find a free thread
PROCESS, REQUESTS = secrets.token_hex(4), itertools.count(1)  # name a request in the log


class Service:
    """The application.

    Parameters
    ----------
    writer : Writer
    secret : bytes, optional
        That signs the cookies of the page; by default one that nobody knows but this service.
    root : str
        The path under which a proxy serves it, and takes off.
    """

    def __init__(self, writer: Writer, secret: bytes | None = None, root: str = "") -> None:
        self.writer = writer
        self.secret = secret or secrets.token_bytes(32)
        self.metrics, self._is_one_of_several = Metrics(writer), FOLDER_VARIABLE in os.environ
        self._readers: list[Connection] = []
        self.keys = KeyRing(lambda: self.read_soon(lambda store: store.keys()), writer.now)
        self._experiments: dict[str, ExperimentRow] = {}
        self._known_until = 0.0  # another service may delete one, and make it anew
        self._reports: dict[tuple[int, str], Report] = {}
        self._finding = asyncio.Lock()
        self._few = asyncio.Semaphore(MOST_LONG_QUESTIONS)
        self._delivered: list[tuple[asyncio.Future[Any], Any]] = []  # answers, and who waits
        self.after_compiling: Callable[[], None] = lambda: None
        self._loop: asyncio.AbstractEventLoop | None = None
        writer.after_batch, writer.note = self._deliver_all, self.metrics.note
        self.page = Page(self, root)
        self._router = Router(
            [
                *((call.method, call.path, self._endpoint(call)) for call in CALLS),
                *self.page.routes(),
            ]
        )

    # From a request to an answer.

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        """Serve a request, or the start and the end of the server."""
        if scope["type"] != "http":
            await self._live(receive, send)
            return
        request, start = HttpRequest(scope, receive), time.perf_counter()
        try:
            response = await self._respond(request)
        except ClientDisconnect:  # nobody is left to be answered
            return
        seconds = time.perf_counter() - start
        self.metrics.observe_call(scope.get("call", "page"))(seconds)
        response.raw_headers.append((b"x-request-id", _request_id(request).encode()))
        await response(scope, receive, send)
        is_audited = response.status_code in (401, 403) or scope.get("is_audited", False)
        if is_audited or access.isEnabledFor(logging.INFO):
            (audit if is_audited else access).info(
                "request", extra={"facts": _describe(request, response.status_code, seconds)}
            )

    async def _live(self, receive: Any, send: Any) -> None:
        """Tell the server that we are ready; stop the writer when the server ends."""
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await asyncio.to_thread(self.close)
        await send({"type": "lifespan.shutdown.complete"})

    def close(self) -> None:
        """Finish what was accepted, and close the store."""
        for reader in self._readers:
            reader.close()
        self.writer.close()

    async def _respond(self, request: HttpRequest) -> Any:
        scope = request.scope
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        try:
            endpoint, scope["path_params"] = self._router.find(method, scope["path"])
            return await endpoint(request)
        except ClientDisconnect:
            raise
        except FORESEEN as error:
            refused = as_refusal(error)
        except Exception:  # noqa: BLE001 - it is in the log
            log.exception("a request failed", extra={"facts": _describe(request, 500, 0.0)})
            self.metrics.errors.inc()
            refused = Refused(500, "internal", "the service failed; see its log")
        if "text/html" in request.headers.get("accept", ""):
            return self.page.refuse(request, refused)
        return refuse(refused)

    def _endpoint(self, call: Call) -> Callable[[HttpRequest], Awaitable[Any]]:
        async def serve(request: HttpRequest) -> Any:
            request.scope["call"], is_change = call.name, call.method != "GET"
            request.scope["is_audited"] = call.role == "admin" and is_change
            # The key before the body.
            visitor = NOBODY if call.role is None else await self._admit(request, call.role)
            data = b"" if call.method == "GET" else await request.body()
            answer = await call.serve(Asked(self, request, visitor, request.path_params), data)
            return answer if isinstance(answer, Response) else Answer(answer, call.status)

        return serve

    async def _admit(self, request: HttpRequest, role: Role) -> Key:
        """Return who asks: by a key, or a look (GET) by the cookie of the page."""
        header = request.headers.get("authorization")
        visitor = None
        if header is None and request.method in ("GET", "HEAD"):
            visitor = await self.page.find_visitor(request)
        elif header is not None:
            kind, _, key = header.partition(" ")
            visitor = await self.keys.find(key.strip()) if kind.lower() == "bearer" else None
        if visitor is None:
            raise Refused(
                401, "no_key", "send a key of this service, as in: Authorization: Bearer ib_…"
            )
        if not visitor.may(role):
            raise Refused(403, "not_allowed", f"this takes a key of the role {role}")
        request.scope["visitor"] = visitor
        return visitor

    # The writer, and the store.

    async def ask(self, experiment: str, act: Callable[[Any, float], Any], **names: Any) -> Any:
        """Hand a request to the writer, and wait until its events are on disk."""
        loop = self._loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        job = Job(experiment, act, lambda answer: self._delivered.append((future, answer)), **names)
        self.writer.submit(job)
        timer = loop.call_later(SECONDS_TO_WRITE, _give_up, future)
        answer = await future
        timer.cancel()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _deliver_all(self) -> None:
        """Hand the answers of a batch over to the loop; called by the writer's thread."""
        delivered, self._delivered = self._delivered, []
        if self._is_one_of_several:
            self.metrics.note_batch()
        if delivered and self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(_deliver, delivered)

    def read(self, question: Callable[[Connection], Any]) -> Any:
        """Ask the store over a connection that reads alone; not in the thread of the loop."""
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
        return await self._aside(lambda: self.read(question))

    async def _aside(self, work: Callable[[], Any]) -> Any:
        async with self._few:
            return await asyncio.to_thread(work)

    async def read_soon(self, question: Callable[[Connection], Any]) -> Any:
        """Ask a question that is answered at once, unless the store hangs."""
        try:
            answer = asyncio.to_thread(self.read, question)
            return await asyncio.wait_for(answer, SECONDS_TO_READ)
        except TimeoutError:
            raise StoreError(f"the store has not answered for {SECONDS_TO_READ:.0f} s") from None

    # Experiments, as far as a visitor sees them.

    async def find(self, name: str, visitor: Key) -> ExperimentRow:
        """Return an experiment; one that the visitor may not see is not there, and as slowly."""
        row = self._find_known(name, visitor)
        if row is None:
            async with self._finding:  # in turn: what a batch asks for is done in its order
                row = self._find_known(name, visitor)
                if row is None:
                    rows = await self.read_soon(lambda store: store.experiments())
                    self._experiments = {row.name: row for row in rows}
                    self._known_until = time.monotonic() + SECONDS_FRESH
                    row = self._find_known(name, visitor)
        if row is None:
            raise Refused(404, "unknown_experiment", f"there is no experiment {name!r:.80}")
        return row

    def _find_known(self, name: str, visitor: Key) -> ExperimentRow | None:
        if time.monotonic() >= self._known_until:
            return None
        row = self._experiments.get(name)
        return row if row is not None and visitor.sees(row.id) else None

    def forget(self, name: str) -> None:
        """Know an experiment no more."""
        self._experiments.pop(name, None)

    async def describe(self, row: ExperimentRow) -> dict[str, Any]:
        """Return settings, arms and models; without the writer."""
        description: dict[str, Any] = await self.read_soon(
            lambda store: describe_experiment(store, row.id)
        )
        return description

    async def report(self, row: ExperimentRow, span: str) -> dict[str, Any]:
        """Return the A/B test, and sums of all events."""
        report = self._reports.pop((row.id, span), None) or Report(row.id, span)
        self._reports[row.id, span] = report  # the last one asked for is the last one
        while len(self._reports) > MOST_REPORTS:
            del self._reports[next(iter(self._reports))]
        now = self.writer.now()
        answer: dict[str, Any] = await self.read_aside(lambda store: report.make(store, now))
        return answer

    async def estimate(self, row: ExperimentRow) -> SharedEstimate:
        """Return what all instances of a fleet have taught."""

        def copy_shared(experiment: Experiment) -> Callable[[], SharedEstimate]:
            assert experiment.shared is not None
            return experiment.shared.copy_shared()

        def summarise() -> SharedEstimate:
            summed: Callable[[], SharedEstimate] = self.writer.look(
                row.name, row.events, copy_shared
            )
            return summed()

        estimate: SharedEstimate = await self._aside(summarise)
        return estimate

    async def describe_instance(
        self, row: ExperimentRow, label: str, before: int = 2**62
    ) -> dict[str, Any]:
        """Return all that is known of an instance, and the losses expected of it now."""
        described, now = await self.describe(row), self.writer.now()
        instance = await self.read_soon(lambda store: find_instance(store, row.id, label))

        def expect(experiment: Experiment) -> dict[str, Any]:
            return experiment.explain(experiment.hold(instance), now)

        if described["settings"]["state"] == "shared" and instance.group == "policy":
            expected = await self._aside(
                lambda: self.writer.look(row.name, described["events"], expect)
            )
        else:
            expected = await self.read_aside(lambda store: expect(load_alone(store, instance)))
        answer: dict[str, Any] = await self.read_aside(
            lambda store: describe_instance(store, instance, described, expected, before)
        )
        if described["settings"]["outcome"] == "reward":
            answer = tell_rewards(answer)
        return answer


def _request_id(request: HttpRequest) -> str:
    """Return by what a request is known in logs: as the client says, or a name of ours."""
    if "request_id" not in request.scope:
        stated = request.headers.get("x-request-id", "")
        is_plain = stated and re.fullmatch(r"[\w.:-]{1,80}", stated, re.ASCII)
        request.scope["request_id"] = stated if is_plain else f"{PROCESS}-{next(REQUESTS)}"
    name: str = request.scope["request_id"]
    return name


def _describe(request: HttpRequest, status: int, seconds: float) -> dict[str, Any]:
    """Return what the log says of a request: nothing of its body, and of its key the label."""
    key: Key | None = request.scope.get("visitor")
    return {
        "id": _request_id(request),
        "method": request.method,
        "path": request.scope["path"],
        "status": status,
        "seconds": round(seconds, 6),
        "from": request.client.host if request.client else None,
        "key": key and {"label": key.label, "role": key.role, "digest": key.digest[:12]},
    }


def _give_up(future: asyncio.Future[Any]) -> None:
    if not future.done():
        future.set_result(
            StoreError(
                f"nothing could be written for {SECONDS_TO_WRITE:.0f} s; it may happen yet: ask "
                "again, with the same identifiers"
            )
        )


def _deliver(delivered: list[tuple[asyncio.Future[Any], Any]]) -> None:
    for future, answer in delivered:
        if not future.done():  # a client that has gone waits for nothing
            future.set_result(answer)
