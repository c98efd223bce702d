"""One instance: its history, and its erasure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from starlette.requests import Request as HttpRequest

from influential_bandits.live.api import EXPERIMENT, call
from influential_bandits.live.page.timeline import explain_choice, read_timeline

if TYPE_CHECKING:
    from influential_bandits.live.service import Service


@call("GET", EXPERIMENT + "/instances/{instance:label}", "reader")
async def show_instance(service: Service, request: HttpRequest, body: None) -> Any:
    """Show the history of an instance, losses expected now, and why its last arm."""
    row, label = await service.find_asked(request), request.path_params["instance"]
    answer = await service.ask(row.name, lambda work, at: work.explain(label, at), label=label)
    number = answer.pop("number")
    events = await service.read_aside(lambda store: store.events_of_instance(row.id, number))
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
    described = await service.describe(row)
    timeline = await service.read_aside(lambda store: read_timeline(store, row.id, number))
    decided = [entry for entry in timeline if entry.decision is not None]
    answer["why"] = explain_choice(decided[-1], described, names) if decided else []
    return answer


@call("DELETE", EXPERIMENT + "/instances/{instance:label}", "admin")
async def erase(service: Service, request: HttpRequest, body: None) -> Any:
    """Erase a person's data."""
    name, label = (await service.find_asked(request)).name, request.path_params["instance"]
    return await service.ask(name, lambda work, at: work.erase(label, at), label=label)
