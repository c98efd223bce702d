"""Decisions and what becomes of them: shown, cancelled, fed back; arms met elsewhere; batches."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from influential_bandits.errors import InvalidInput
from influential_bandits.live import requests
from influential_bandits.live.answers import (
    FORESEEN,
    Exposures,
    LiveDecision,
    Outcome,
    as_refusal,
    describe_refusal,
)
from influential_bandits.live.api import DECISION, DECLARED, EXPERIMENT, Asked, Router, call
from influential_bandits.live.requests import Item
from influential_bandits.live.settings import require_label

MOST_IN_BATCH = 1000  # requests in one body


@call("POST", EXPERIMENT + "/decisions", "writer", in_batch=True)
async def decide(asked: Asked, body: requests.Decide) -> LiveDecision:
    """Choose an arm for an instance."""
    return await asked.work(
        lambda work, at: work.decide(body, at), label=body.instance, decision=body.decision_id
    )


@call("POST", EXPERIMENT + "/exposures", "writer", in_batch=True)
async def expose(asked: Asked, body: requests.Expose) -> Exposures:
    """Note arms met elsewhere."""
    return await asked.work(
        lambda work, at: work.expose(body, at), label=body.instance, decision=body.exposure_id
    )


@call("POST", DECISION + "/activate", "writer", in_batch=True)
async def activate(asked: Asked) -> Outcome:
    """Say that the arm was shown."""
    return await _settle(asked, lambda work, name, at: work.show(name, at))


@call("POST", DECISION + "/cancel", "writer", in_batch=True)
async def cancel(asked: Asked) -> Outcome:
    """Say that the arm will not be shown."""
    return await _settle(asked, lambda work, name, at: work.cancel(name, at))


@call("POST", DECISION + "/feedback", "writer", in_batch=True)
async def feed_back(asked: Asked, body: requests.Feedback) -> Outcome:
    """Tell the loss, reward or rating of a decision."""
    return await _settle(asked, lambda work, name, at: work.feed_back(name, body, at))


@call("POST", DECISION + "/correct", "writer", in_batch=True)
async def correct(asked: Asked, body: requests.Feedback) -> Outcome:
    """Correct the loss of a decision, as after a refund; reports and the log have the new one."""
    return await _settle(asked, lambda work, name, at: work.correct(name, body, at))


async def _settle(asked: Asked, act: Any) -> Outcome:
    """Have the writer say what became of the decision of a path."""
    name = require_label("the id of a decision", asked.names["decision"])
    return await asked.work(lambda work, at: act(work, name, at), decision=name)


@call("POST", "/v1/batch", "writer")
async def serve_batch(asked: Asked, body: requests.Batch) -> dict[str, Any]:
    """Serve several decisions, exposures, activations, cancellations and feedbacks, in order."""
    if len(body.requests) > MOST_IN_BATCH:
        raise InvalidInput(f"at most {MOST_IN_BATCH} requests in a batch")
    return {"answers": await asyncio.gather(*(_serve_item(asked, item) for item in body.requests))}


BATCHED = Router((c.method, c.path, c) for c in DECLARED if c.in_batch)


async def _serve_item(asked: Asked, item: Item) -> dict[str, Any]:
    try:
        declared, names = BATCHED.find("POST", f"/v1/{item.path.strip('/')}")
        answer = await declared.serve(replace(asked, names=names), item.body)
    except FORESEEN as error:
        refused = as_refusal(error)
        return {"status": refused.status, **describe_refusal(refused)}
    return {"status": 200, "answer": answer}
