"""What operators ask: whether it can decide, how much it has done, what can be asked; and keys."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from influential_bandits import __version__
from influential_bandits.live.api import A_PAGE, DECLARED, Asked, call
from influential_bandits.live.keys import make_key
from influential_bandits.live.openapi import describe_calls
from influential_bandits.live.requests import NewKey, Refused
from influential_bandits.live.settings import require_label


@call("GET", "/health", None)
async def health(asked: Asked) -> dict[str, Any]:
    """Tell whether the process is alive."""
    return {"status": "alive", "version": __version__}


@call("GET", "/ready", "reader")
async def ready(asked: Asked) -> dict[str, Any]:
    """Tell whether it can decide: the store takes what is written, and all states are there."""
    await asked.service.ask("", lambda work, at: work.write_nothing())
    if asked.service.writer.is_loading:
        raise Refused(503, "loading", "an experiment is computed from its events")
    return {"status": "ready"}


@call("GET", "/metrics", "reader")
async def show_metrics(asked: Asked) -> Response:
    """Return counts and times for Prometheus."""
    if asked.visitor.experiment is not None:
        raise Refused(403, "not_allowed", "metrics are of all experiments: take a key of all")
    return Response(asked.service.metrics.render(), media_type="text/plain; version=0.0.4")


@call("GET", "/openapi.json", "reader")
async def openapi(asked: Asked) -> dict[str, Any]:
    """Return this interface."""
    return describe_calls(DECLARED)


@call("POST", "/v1/keys", "admin", status=201)
async def add_key(asked: Asked, body: NewKey) -> dict[str, Any]:
    """Make a key; it is shown once."""
    service, number = asked.service, asked.visitor.experiment
    if body.experiment is not None:
        number = (await service.find(body.experiment, asked.visitor)).id
    require_label("label", body.label)
    key, row = make_key(body.label, body.role, number, service.writer.now(), body.days)
    await service.ask("", lambda work, at: work.add_key(row))
    await service.keys.renew()
    return {"key": key, "digest": row.digest, "role": row.role, "ends": row.ends}


@call("GET", "/v1/keys", "admin")
async def list_keys(asked: Asked) -> dict[str, Any]:
    """List keys, without the keys themselves; after so many, up to a limit."""
    after, most = asked.number("after", 0), asked.number("limit", A_PAGE, A_PAGE)
    rows = await asked.service.read_aside(lambda store: store.experiments())
    names = {row.id: row.name for row in rows}
    keys = await asked.service.read_aside(lambda store: store.keys())
    mine = [row for row in keys if asked.visitor.experiment in (None, row.experiment)][after:]
    listed = [{**r._asdict(), "experiment": names.get(r.experiment or 0)} for r in mine[:most]]
    return {"keys": listed, "next": after + most if len(mine) > most else None}


@call("DELETE", "/v1/keys/{digest}", "admin")
async def drop_key(asked: Asked) -> dict[str, Any]:
    """Drop a key."""
    service, digest = asked.service, asked.names["digest"]
    keys = await service.read_aside(lambda store: store.keys())
    known = {row.digest: row for row in keys}
    if digest not in known or asked.visitor.experiment not in (None, known[digest].experiment):
        raise Refused(404, "unknown_key", "there is no such key")
    await service.ask("", lambda work, at: work.drop_key(digest))
    await service.keys.renew()
    return {"dropped": digest}
