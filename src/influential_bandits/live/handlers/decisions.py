"""Decisions and what becomes of them: shown, cancelled, fed back; arms met elsewhere; batches."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.requests import Request as HttpRequest

from influential_bandits.errors import InfluentialBanditsError, InvalidInput
from influential_bandits.live import requests
from influential_bandits.live.answers import as_refusal, describe_refusal
from influential_bandits.live.api import DECISION, DECLARED, EXPERIMENT, Router, call
from influential_bandits.live.requests import Batch, Item, Refused
from influential_bandits.live.settings import require_label

if TYPE_CHECKING:
    from influential_bandits.live.service import Service

MOST_IN_BATCH = 1000  # requests in one body


@call("POST", EXPERIMENT + "/decisions", "writer", requests.Decide, in_batch=True)
async def decide(service: Service, request: HttpRequest, body: requests.Decide) -> Any:
    """Choose an arm for an instance."""
    row = await service.find_asked(request)
    answer = await service.ask(
        row.name,
        lambda work, at: work.decide(body, at),
        label=body.instance,
        decision=body.decision_id,
    )
    service.metrics.decisions.inc()
    return answer


@call("POST", EXPERIMENT + "/exposures", "writer", requests.Expose, in_batch=True)
async def expose(service: Service, request: HttpRequest, body: requests.Expose) -> Any:
    """Note arms met elsewhere."""
    row = await service.find_asked(request)
    return await service.ask(
        row.name,
        lambda work, at: work.expose(body, at),
        label=body.instance,
        decision=body.exposure_id,
    )


@call("POST", DECISION + "/activate", "writer", in_batch=True)
async def activate(service: Service, request: HttpRequest, body: None) -> Any:
    """Say that the arm was shown."""
    return await _settle(service, request, lambda work, name, at: work.show(name, at))


@call("POST", DECISION + "/cancel", "writer", in_batch=True)
async def cancel(service: Service, request: HttpRequest, body: None) -> Any:
    """Say that the arm will not be shown."""
    return await _settle(service, request, lambda work, name, at: work.cancel(name, at))


@call("POST", DECISION + "/feedback", "writer", requests.Feedback, in_batch=True)
async def feed_back(service: Service, request: HttpRequest, body: requests.Feedback) -> Any:
    """Tell the loss, reward or rating of a decision."""
    answer = await _settle(service, request, lambda work, name, at: work.feed_back(name, body, at))
    service.metrics.feedback.inc()
    return answer


async def _settle(service: Service, request: HttpRequest, act: Any) -> Any:
    """Have the writer say what became of the decision of a path."""
    row, name = await service.find_asked(request), request.path_params["decision"]
    require_label("the id of a decision", name)
    return await service.ask(row.name, lambda work, at: act(work, name, at), decision=name)


@call("POST", "/v1/batch", "writer", Batch)
async def serve_batch(service: Service, request: HttpRequest, body: Batch) -> Any:
    """Serve several decisions, exposures, activations, cancellations and feedbacks, in order."""
    if len(body.requests) > MOST_IN_BATCH:
        raise InvalidInput(f"at most {MOST_IN_BATCH} requests in a batch")
    answers = await asyncio.gather(*(_serve_item(service, request, i) for i in body.requests))
    return {"answers": answers}


BATCHED = Router((c.method, c.path, c) for c in DECLARED if c.in_batch)


async def _serve_item(service: Service, request: HttpRequest, item: Item) -> dict[str, Any]:
    try:
        asked, names = BATCHED.find("POST", f"/v1/{item.path.strip('/')}")
        body = None if asked.body is None else msgspec.convert(item.body, asked.body)
        own = HttpRequest({**request.scope, "path_params": names})
        return {"status": 200, "answer": await asked.handle(service, own, body)}
    except msgspec.ValidationError as error:
        refused = Refused(422, "invalid", str(error))
    except InfluentialBanditsError as error:
        refused = as_refusal(error)
    return {"status": refused.status, **describe_refusal(refused)}
