"""Decisions and what becomes of them: shown, cancelled, fed back; arms met elsewhere; batches."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from starlette.requests import Request as HttpRequest

from influential_bandits.errors import InfluentialBanditsError, InvalidInput
from influential_bandits.live import requests
from influential_bandits.live.answers import refuse
from influential_bandits.live.calls import Batch, Item
from influential_bandits.live.keys import Visitor
from influential_bandits.live.requests import Refused
from influential_bandits.live.store.sql import ExperimentRow

if TYPE_CHECKING:
    from influential_bandits.live.service import Service

__all__ = ["activate", "cancel", "decide", "expose", "feed_back", "serve_batch"]

MOST_IN_BATCH = 1000  # requests in one body
# Names of decisions may hold anything; those of experiments no slash.
OF_DECISION = re.compile(
    r"/*decisions/(.+)/(activate|cancel|feedback)/*(?:\?experiment=([^/]*))?", re.DOTALL
)


async def decide(service: Service, request: HttpRequest, body: requests.Decide) -> Any:
    """Choose an arm."""
    return await _decide(service, service.find_asked(request), body)


async def _decide(service: Service, row: ExperimentRow, body: requests.Decide) -> Any:
    answer = await service.ask(
        row.name,
        lambda work, at: work.decide(body, at),
        label=body.instance,
        decision=body.decision_id,
    )
    service.metrics.decisions.inc()
    return answer


async def expose(service: Service, request: HttpRequest, body: requests.Expose) -> Any:
    """Note arms met elsewhere."""
    return await _expose(service, service.find_asked(request), body)


async def _expose(service: Service, row: ExperimentRow, body: requests.Expose) -> Any:
    return await service.ask(
        row.name,
        lambda work, at: work.expose(body, at),
        label=body.instance,
        decision=body.exposure_id,
    )


async def activate(service: Service, request: HttpRequest, body: None) -> Any:
    """Count a pull."""
    return await _settle(service, _Named.read(request), "activate", None)


async def cancel(service: Service, request: HttpRequest, body: None) -> Any:
    """Give a decision up."""
    return await _settle(service, _Named.read(request), "cancel", None)


async def feed_back(service: Service, request: HttpRequest, body: requests.Feedback) -> Any:
    """Learn a loss."""
    return await _settle(service, _Named.read(request), "feedback", body)


class _Named(NamedTuple):
    """A decision that a request names, and who asks."""

    decision: str
    experiment: str | None  # if it is named, too
    visitor: Visitor

    @classmethod
    def read(cls, request: HttpRequest) -> _Named:
        experiment = request.query_params.get("experiment")
        return cls(request.path_params["decision"], experiment, request.scope["visitor"])


async def _settle(
    service: Service, named: _Named, what: str, body: requests.Feedback | None
) -> Any:
    row = service.find_by_decision(named.decision, named.visitor, named.experiment)
    name = named.decision

    def act(work: Any, at: float) -> Any:
        if body is not None:
            return work.feed_back(name, body, at)
        return work.show(name, at) if what == "activate" else work.cancel(name, at)

    answer = await service.ask(row.name, act, decision=name)
    if body is not None:
        service.metrics.feedback.inc()
    return answer


async def serve_batch(service: Service, request: HttpRequest, body: Batch) -> Any:
    """Serve requests one by one, in the order of the list."""
    if len(body.requests) > MOST_IN_BATCH:
        raise InvalidInput(f"at most {MOST_IN_BATCH} requests in a batch")
    visitor: Visitor = request.scope["visitor"]
    answers = await asyncio.gather(*(_serve_item(service, visitor, i) for i in body.requests))
    return {"answers": answers}


async def _serve_item(service: Service, visitor: Visitor, item: Item) -> dict[str, Any]:
    try:
        answer = await _dispatch(service, visitor, item)
    except (Refused, InfluentialBanditsError, msgspec.ValidationError) as error:
        refusal = refuse(error)
        return {"status": refusal.status_code, **msgspec.json.decode(refusal.body)}
    return {"status": 200, "answer": answer}


async def _dispatch(service: Service, visitor: Visitor, item: Item) -> Any:
    found = OF_DECISION.fullmatch(item.path)
    if found is not None:
        name, what, experiment = found.groups()
        told = msgspec.convert(item.body, requests.Feedback) if what == "feedback" else None
        return await _settle(service, _Named(name, experiment, visitor), what, told)
    match item.path.strip("/").split("/"):
        case ["experiments", name, "decisions"]:
            asked = msgspec.convert(item.body, requests.Decide)
            return await _decide(service, service.find(name, visitor), asked)
        case ["experiments", name, "exposures"]:
            met = msgspec.convert(item.body, requests.Expose)
            return await _expose(service, service.find(name, visitor), met)
    raise Refused(404, "unknown_path", f"a batch cannot ask for {item.path!r:.80}")
