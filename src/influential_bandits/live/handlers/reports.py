"""What was learned: the A/B test, means, and the log."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from influential_bandits.errors import InvalidInput
from influential_bandits.live.evidence import compare_groups, read_totals
from influential_bandits.live.page.charts import describe_course
from influential_bandits.live.reading import read_agreement, read_arms, write_csv, write_parquet

if TYPE_CHECKING:
    from influential_bandits.live.service import Service

__all__ = ["export_log", "report"]


async def report(service: Service, request: HttpRequest, body: None) -> Any:
    """Return the A/B test, and mean losses by arm and group, in all and over time."""
    row = service.find_asked(request)
    totals = await service.read_aside(lambda store: read_totals(store, row.id))
    evidence = compare_groups(totals["policy"], totals["control"])
    arms = await service.read_aside(lambda store: read_arms(store, row.id))
    shadow = await service.read_aside(lambda store: read_agreement(store, row.id))
    described = await service.ask(row.name, lambda work, at: work.describe())
    for entry in arms:
        entry["arm"] = described["arms"][entry["arm"]]
    (tally,) = await service.page.tallies.look([row])
    over_time = None if tally is None else describe_course(tally, described["arms"])
    return {**asdict(evidence), "arms": arms, "shadow": shadow, "over_time": over_time}


async def export_log(service: Service, request: HttpRequest, body: None) -> Any:
    """Return all losses as a log."""
    row = service.find_asked(request)
    form = request.query_params.get("format", "parquet")
    if form not in ("parquet", "csv"):
        raise InvalidInput(f"format must be parquet or csv, got {form!r:.40}")
    described = await service.ask(row.name, lambda work, at: work.describe())
    write = write_parquet if form == "parquet" else write_csv
    names = [*described["arms"]]
    data = await service.read_aside(lambda store: write(store, row.id, names))
    kind = "application/vnd.apache.parquet" if form == "parquet" else "text/csv"
    headers = {"Content-Disposition": f'attachment; filename="log.{form}"'}
    return Response(data, media_type=kind, headers=headers)
