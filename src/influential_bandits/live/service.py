"""The service: HTTP in front of the writer. ``calls.py`` lists all calls."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.convertors import Convertor, register_url_convertor
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route

from influential_bandits import __version__
from influential_bandits.errors import InfluentialBanditsError, InvalidInput
from influential_bandits.live import requests
from influential_bandits.live.bodies import read_body
from influential_bandits.live.calls import CALLS, Batch, Call, Item, NewKey
from influential_bandits.live.events import encode
from influential_bandits.live.evidence import compare_groups, read_totals
from influential_bandits.live.experiment import prepare
from influential_bandits.live.keys import KeyRing, Role, Visitor, make_key
from influential_bandits.live.metrics import Metrics
from influential_bandits.live.page.page import Page
from influential_bandits.live.requests import Refused
from influential_bandits.live.settings import require_label
from influential_bandits.live.store.sql import Connection, ExperimentRow, StoreError
from influential_bandits.live.writer import Job, Writer

__all__ = ["Service"]

log = logging.getLogger("influential_bandits.live")

MOST_IN_BATCH = 1000  # requests in one body
JSON = "application/json"


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


class Answer(Response):
    """JSON of an answer."""

    media_type = JSON

    def __init__(
        self, content: Any, status: int = 200, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(encode(content), status, headers)


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
        self._keys = KeyRing(lambda: self._read(lambda store: store.keys()))
        self._experiments: dict[str, ExperimentRow] = {}
        self.delivered: list[tuple[Callable[[Any], None], Any]] = []  # answers, and who takes them
        self.after_compiling: Callable[[], None] = lambda: None
        self.loop: asyncio.AbstractEventLoop | None = None
        writer.after_batch = self._deliver_all
        self._decoders: dict[type, Any] = {
            call.body: msgspec.json.Decoder(call.body) for call in CALLS if call.body is not None
        }
        self.page = Page(self._read, self._ask, self._keys, writer.now)
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
        handler = getattr(self, call.handler)
        decoder = None if call.body is None else self._decoders[call.body]

        async def serve(request: HttpRequest) -> Response:
            try:
                if call.role is not None:
                    given = request.headers.get("authorization", "")
                    request.scope["visitor"] = self.admit(given, call.role)
                body = None
                if decoder is not None:
                    body = decoder.decode(await read_body(request))
                elif call.method == "POST":
                    await read_body(request)
                answer = await handler(request, body)
            except (Refused, InfluentialBanditsError, msgspec.DecodeError) as error:
                return self.refuse(error)
            except Exception:
                log.exception("a request failed")
                self.metrics.errors.inc()
                return self.refuse(Refused(500, "internal", "the service failed; see its log"))
            return answer if isinstance(answer, Response) else Answer(answer)

        return serve

    def admit(self, authorization: str, role: Role) -> Visitor:
        """Return who asks, or refuse."""
        kind, _, key = authorization.partition(" ")
        visitor = self._keys.find(key.strip()) if kind.lower() == "bearer" else None
        if visitor is None:
            raise Refused(
                401, "no_key", "send a key of this service, as in: Authorization: Bearer ib_…"
            )
        if not visitor.may(role):
            raise Refused(403, "not_allowed", f"this takes a key of the role {role}")
        return visitor

    def refuse(self, error: Exception) -> Answer:
        """Return the answer to a request that cannot be met."""
        if isinstance(error, Refused):
            refused = error
        elif isinstance(error, StoreError):
            refused = Refused(503, "store", str(error))
        else:
            refused = Refused(422, "invalid", str(error))
        headers = {}
        if refused.status == 503:
            headers["Retry-After"] = "1"
        if refused.status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        content = {"error": {"code": refused.code, "message": str(refused)}}
        return Answer(content, refused.status, headers)

    async def _ask(self, experiment: str, act: Callable[[Any, float], Any], **names: Any) -> Any:
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

    def _read(self, question: Callable[[Connection], Any]) -> Any:
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

    async def _read_aside(self, question: Callable[[Connection], Any]) -> Any:
        """Ask a question that may take long, without holding up decisions."""
        return await asyncio.to_thread(self._read, question)

    def _find(self, request: HttpRequest) -> ExperimentRow:
        """Return the experiment of a path; one that the visitor may not see is not there."""
        return self.find(request.path_params["experiment"], request.scope["visitor"])

    def find(self, name: str, visitor: Visitor) -> ExperimentRow:
        """Return an experiment; one that the visitor may not see is not there."""
        row = self._experiments.get(name)
        if row is None:
            rows = self._read(lambda store: store.experiments())
            self._experiments = {row.name: row for row in rows}
            row = self._experiments.get(name)
        if row is None or not visitor.sees(row.id):
            raise Refused(404, "unknown_experiment", f"there is no experiment {name!r:.80}")
        return row

    # Health.

    async def health(self, request: HttpRequest, body: None) -> Any:
        """Say that the process is alive."""
        return {"status": "alive", "version": __version__}

    async def ready(self, request: HttpRequest, body: None) -> Any:
        """Say whether the store is there."""
        await self._read_aside(lambda store: store.run("SELECT 1"))
        return {"status": "ready"}

    async def show_metrics(self, request: HttpRequest, body: None) -> Any:
        """Return counts and times."""
        return Response(self.metrics.render(), media_type="text/plain; version=0.0.4")

    async def openapi(self, request: HttpRequest, body: None) -> Any:
        """Return this interface."""
        from influential_bandits.live.openapi import describe_calls

        return describe_calls(CALLS)

    # Decisions.

    async def decide(self, request: HttpRequest, body: requests.Decide) -> Any:
        """Choose an arm."""
        return await self.decide_for(self._find(request), body)

    async def decide_for(self, row: ExperimentRow, body: requests.Decide) -> Any:
        """Choose an arm, in an experiment that was found."""
        answer = await self._ask(
            row.name,
            lambda work, at: work.decide(body, at),
            label=body.instance,
            decision=body.decision_id,
        )
        self.metrics.decisions.inc()
        return answer

    async def expose(self, request: HttpRequest, body: requests.Expose) -> Any:
        """Note arms met elsewhere."""
        return await self._expose(self._find(request), body)

    async def _expose(self, row: ExperimentRow, body: requests.Expose) -> Any:
        return await self._ask(
            row.name,
            lambda work, at: work.expose(body, at),
            label=body.instance,
            decision=body.exposure_id,
        )

    async def activate(self, request: HttpRequest, body: None) -> Any:
        """Count a pull."""
        name = request.path_params["decision"]
        return await self._settle(request, lambda work, at: work.show(name, at))

    async def cancel(self, request: HttpRequest, body: None) -> Any:
        """Give a decision up."""
        name = request.path_params["decision"]
        return await self._settle(request, lambda work, at: work.cancel(name, at))

    async def feed_back(self, request: HttpRequest, body: requests.Feedback) -> Any:
        """Learn a loss."""
        name = request.path_params["decision"]
        answer = await self._settle(request, lambda work, at: work.feed_back(name, body, at))
        self.metrics.feedback.inc()
        return answer

    async def _settle(self, request: HttpRequest, act: Callable[[Any, float], Any]) -> Any:
        decision = request.path_params["decision"]
        named = request.query_params.get("experiment")
        row = self.find_by_decision(decision, request.scope["visitor"], named)
        return await self._ask(row.name, act, decision=decision)

    def find_by_decision(self, decision: str, visitor: Visitor, named: str | None) -> ExperimentRow:
        """Return the experiment of a decision: the one named, the key's, or the one that has it."""
        require_label("the id of a decision", decision)
        if named is not None:
            return self.find(named, visitor)
        rows = {row.id: row for row in self._experiments.values()}
        if visitor.experiment is not None and visitor.experiment in rows:
            return rows[visitor.experiment]
        if len(rows) != 1 or visitor.experiment is not None:
            rows = {row.id: row for row in self._read(lambda store: store.experiments())}
            if visitor.experiment is not None:
                rows = {visitor.experiment: rows[visitor.experiment]}
        if len(rows) > 1:
            found = self._read(lambda store: store.experiments_of_decision(decision))
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

    async def serve_batch(self, request: HttpRequest, body: Batch) -> Any:
        """Serve requests one by one, in the order of the list."""
        if len(body.requests) > MOST_IN_BATCH:
            raise InvalidInput(f"at most {MOST_IN_BATCH} requests in a batch")
        answers = await asyncio.gather(*(self._serve_item(request, item) for item in body.requests))
        return {"answers": answers}

    async def _serve_item(self, request: HttpRequest, item: Item) -> dict[str, Any]:
        try:
            answer = await self._dispatch(request, item)
        except (Refused, InfluentialBanditsError, msgspec.ValidationError) as error:
            refusal = self.refuse(error)
            return {"status": refusal.status_code, **msgspec.json.decode(refusal.body)}
        return {"status": 200, "answer": answer}

    async def _dispatch(self, request: HttpRequest, item: Item) -> Any:
        parts = item.path.strip("/").split("/")
        inner = HttpRequest({**request.scope, "path_params": {}})
        match parts:
            case ["experiments", name, ("decisions" | "exposures") as what]:
                inner.path_params["experiment"] = name
                row = self._find(inner)
                if what == "decisions":
                    return await self.decide_for(row, msgspec.convert(item.body, requests.Decide))
                return await self._expose(row, msgspec.convert(item.body, requests.Expose))
            case ["decisions", *middle, ("activate" | "cancel" | "feedback") as what] if middle:
                inner.path_params["decision"] = "/".join(middle)
                if what == "feedback":
                    return await self.feed_back(
                        inner, msgspec.convert(item.body, requests.Feedback)
                    )
                return await getattr(self, what)(inner, None)
        raise Refused(404, "unknown_path", f"a batch cannot ask for {item.path!r:.80}")

    # Experiments.

    async def create(self, request: HttpRequest, body: requests.CreateExperiment) -> Any:
        """Create an experiment."""
        if request.scope["visitor"].experiment is not None:
            raise Refused(403, "not_allowed", "a key of one experiment cannot create another")
        if "/" in body.name:
            raise InvalidInput("the name of an experiment must not hold a slash")
        body.settings.check()
        await asyncio.to_thread(prepare, body.settings)  # the first decision must not wait for it
        self.after_compiling()
        await self._ask("", lambda work, at: work.create_experiment(body.name, body.settings, at))
        self._experiments = {}
        return Answer({"name": body.name}, 201)

    async def list_experiments(self, request: HttpRequest, body: None) -> Any:
        """List experiments."""
        visitor: Visitor = request.scope["visitor"]
        rows = self._read(lambda store: store.experiments())
        return {
            "experiments": [
                {"name": row.name, "events": row.events, "instances": row.instances}
                for row in rows
                if visitor.sees(row.id)
            ]
        }

    async def show_experiment(self, request: HttpRequest, body: None) -> Any:
        """Show settings, arms and models."""
        return await self._ask(self._find(request).name, lambda work, at: work.describe())

    async def change(self, request: HttpRequest, body: requests.ChangeSettings) -> Any:
        """Change settings."""
        return await self._ask(self._find(request).name, lambda work, at: work.change(body, at))

    async def add_arm(self, request: HttpRequest, body: requests.AddArm) -> Any:
        """Add an arm."""
        return await self._ask(self._find(request).name, lambda work, at: work.add_arm(body, at))

    async def retire_arm(self, request: HttpRequest, body: None) -> Any:
        """Retire an arm."""
        arm = request.path_params["arm"]
        return await self._ask(self._find(request).name, lambda work, at: work.retire_arm(arm, at))

    async def stage_model(self, request: HttpRequest, body: requests.StageModel) -> Any:
        """Stage a model."""
        row = self._find(request)
        return Answer(await self._ask(row.name, lambda work, at: work.stage_model(body, at)), 201)

    async def list_models(self, request: HttpRequest, body: None) -> Any:
        """List models."""
        described = await self._ask(self._find(request).name, lambda work, at: work.describe())
        return {"active": described["model"], "models": described["models"]}

    async def activate_model(self, request: HttpRequest, body: None) -> Any:
        """Activate a model."""
        version = request.path_params["version"]
        return await self._ask(
            self._find(request).name, lambda work, at: work.activate_model(version, at)
        )

    # Instances.

    async def show_instance(self, request: HttpRequest, body: None) -> Any:
        """Return the history of an instance, and what it is expected to lose now."""
        row, label = self._find(request), request.path_params["instance"]
        answer = await self._ask(row.name, lambda work, at: work.explain(label), label=label)
        number = answer.pop("number")
        events = await self._read_aside(lambda store: store.events_of_instance(row.id, number))
        names = answer["arms"]
        answer["events"] = [
            {
                "number": event.number,
                "kind": event.kind,
                "at": event.at,
                "decision_id": event.decision,
                "arm": None if event.arm is None else names[event.arm],
                "loss": event.loss,
            }
            for event in events
        ]
        return answer

    async def erase(self, request: HttpRequest, body: None) -> Any:
        """Erase a person's data."""
        label = request.path_params["instance"]
        return await self._ask(
            self._find(request).name, lambda work, at: work.erase(label, at), label=label
        )

    # What was learned.

    async def report(self, request: HttpRequest, body: None) -> Any:
        """Return the A/B test, and mean losses by arm and group."""
        from influential_bandits.live.reading import read_agreement, read_arms

        row = self._find(request)
        totals = await self._read_aside(lambda store: read_totals(store, row.id))
        evidence = compare_groups(totals["policy"], totals["control"])
        arms = await self._read_aside(lambda store: read_arms(store, row.id))
        shadow = await self._read_aside(lambda store: read_agreement(store, row.id))
        described = await self._ask(row.name, lambda work, at: work.describe())
        for entry in arms:
            entry["arm"] = described["arms"][entry["arm"]]
        return {**asdict(evidence), "arms": arms, "shadow": shadow}

    async def export_log(self, request: HttpRequest, body: None) -> Any:
        """Return all losses as a log."""
        from influential_bandits.live.reading import write_csv, write_parquet

        row = self._find(request)
        form = request.query_params.get("format", "parquet")
        if form not in ("parquet", "csv"):
            raise InvalidInput(f"format must be parquet or csv, got {form!r:.40}")
        described = await self._ask(row.name, lambda work, at: work.describe())
        write = write_parquet if form == "parquet" else write_csv
        names = [*described["arms"]]
        data = await self._read_aside(lambda store: write(store, row.id, names))
        kind = "application/vnd.apache.parquet" if form == "parquet" else "text/csv"
        return Response(data, media_type=kind)

    # Keys.

    async def add_key(self, request: HttpRequest, body: NewKey) -> Any:
        """Make a key."""
        visitor: Visitor = request.scope["visitor"]
        number = visitor.experiment
        if body.experiment is not None:
            request.path_params["experiment"] = body.experiment
            number = self._find(request).id
        require_label("label", body.label)
        key, row = make_key(body.label, body.role, number, self.writer.now())
        await self._ask("", lambda work, at: work.add_key(row))
        self._keys.renew()
        return Answer({"key": key, "digest": row.digest, "role": row.role}, 201)

    async def list_keys(self, request: HttpRequest, body: None) -> Any:
        """List keys."""
        visitor: Visitor = request.scope["visitor"]
        names = {row.id: row.name for row in self._read(lambda store: store.experiments())}
        return {
            "keys": [
                {
                    "digest": row.digest,
                    "label": row.label,
                    "role": row.role,
                    "experiment": None if row.experiment is None else names.get(row.experiment),
                    "since": row.since,
                }
                for row in self._read(lambda store: store.keys())
                if visitor.experiment in (None, row.experiment)
            ]
        }

    async def drop_key(self, request: HttpRequest, body: None) -> Any:
        """Drop a key."""
        visitor: Visitor = request.scope["visitor"]
        digest = request.path_params["digest"]
        known = {row.digest: row for row in self._read(lambda store: store.keys())}
        if digest not in known or visitor.experiment not in (None, known[digest].experiment):
            raise Refused(404, "unknown_key", "there is no such key")
        await self._ask("", lambda work, at: work.drop_key(digest))
        self._keys.renew()
        return {"dropped": digest}


def _deliver(delivered: list[tuple[Callable[[Any], None], Any]]) -> None:
    for take, answer in delivered:
        take(answer)


async def _no_such_page(request: HttpRequest, error: Exception) -> Response:
    status = getattr(error, "status_code", 404)
    words = "there is no such page" if status == 404 else "this page does not know that method"
    return Answer({"error": {"code": "unknown_path", "message": words}}, status)
