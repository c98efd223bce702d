"""Keys: made, listed, dropped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from starlette.requests import Request as HttpRequest

from influential_bandits.live.answers import Answer
from influential_bandits.live.calls import NewKey
from influential_bandits.live.keys import Visitor, make_key
from influential_bandits.live.requests import Refused
from influential_bandits.live.settings import require_label

if TYPE_CHECKING:
    from influential_bandits.live.service import Service

__all__ = ["add_key", "drop_key", "list_keys"]


async def add_key(service: Service, request: HttpRequest, body: NewKey) -> Any:
    """Make a key."""
    visitor: Visitor = request.scope["visitor"]
    number = visitor.experiment
    if body.experiment is not None:
        number = service.find(body.experiment, visitor).id
    require_label("label", body.label)
    key, row = make_key(body.label, body.role, number, service.writer.now())
    await service.ask("", lambda work, at: work.add_key(row))
    service.keys.renew()
    return Answer({"key": key, "digest": row.digest, "role": row.role}, 201)


async def list_keys(service: Service, request: HttpRequest, body: None) -> Any:
    """List keys."""
    visitor: Visitor = request.scope["visitor"]
    names = {row.id: row.name for row in service.read(lambda store: store.experiments())}
    return {
        "keys": [
            {
                "digest": row.digest,
                "label": row.label,
                "role": row.role,
                "experiment": None if row.experiment is None else names.get(row.experiment),
                "since": row.since,
            }
            for row in service.read(lambda store: store.keys())
            if visitor.experiment in (None, row.experiment)
        ]
    }


async def drop_key(service: Service, request: HttpRequest, body: None) -> Any:
    """Drop a key."""
    visitor: Visitor = request.scope["visitor"]
    digest = request.path_params["digest"]
    known = {row.digest: row for row in service.read(lambda store: store.keys())}
    if digest not in known or visitor.experiment not in (None, known[digest].experiment):
        raise Refused(404, "unknown_key", "there is no such key")
    await service.ask("", lambda work, at: work.drop_key(digest))
    service.keys.renew()
    return {"dropped": digest}
