"""Keys: made, listed, dropped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from starlette.requests import Request as HttpRequest

from influential_bandits.live.answers import Answer
from influential_bandits.live.api import call
from influential_bandits.live.keys import Visitor, make_key
from influential_bandits.live.requests import NewKey, Refused
from influential_bandits.live.settings import require_label

if TYPE_CHECKING:
    from influential_bandits.live.service import Service


@call("POST", "/v1/keys", "admin", NewKey)
async def add_key(service: Service, request: HttpRequest, body: NewKey) -> Any:
    """Make a key; it is shown once."""
    visitor: Visitor = request.scope["visitor"]
    number = visitor.experiment
    if body.experiment is not None:
        number = (await service.find(body.experiment, visitor)).id
    require_label("label", body.label)
    key, row = make_key(body.label, body.role, number, service.writer.now())
    await service.ask("", lambda work, at: work.add_key(row))
    await service.keys.renew()
    return Answer({"key": key, "digest": row.digest, "role": row.role}, 201)


@call("GET", "/v1/keys", "admin")
async def list_keys(service: Service, request: HttpRequest, body: None) -> Any:
    """List keys, without the keys themselves."""
    visitor: Visitor = request.scope["visitor"]
    rows = await service.read_aside(lambda store: store.experiments())
    names = {row.id: row.name for row in rows}
    keys = await service.read_aside(lambda store: store.keys())
    return {
        "keys": [
            {
                "digest": row.digest,
                "label": row.label,
                "role": row.role,
                "experiment": None if row.experiment is None else names.get(row.experiment),
                "since": row.since,
            }
            for row in keys
            if visitor.experiment in (None, row.experiment)
        ]
    }


@call("DELETE", "/v1/keys/{digest}", "admin")
async def drop_key(service: Service, request: HttpRequest, body: None) -> Any:
    """Drop a key."""
    visitor: Visitor = request.scope["visitor"]
    digest = request.path_params["digest"]
    keys = await service.read_aside(lambda store: store.keys())
    known = {row.digest: row for row in keys}
    if digest not in known or visitor.experiment not in (None, known[digest].experiment):
        raise Refused(404, "unknown_key", "there is no such key")
    await service.ask("", lambda work, at: work.drop_key(digest))
    await service.keys.renew()
    return {"dropped": digest}
