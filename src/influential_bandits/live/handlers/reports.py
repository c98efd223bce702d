"""What was learned: the A/B test, means, and the log."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, Any

from starlette.requests import Request as HttpRequest
from starlette.responses import StreamingResponse

from influential_bandits.errors import InvalidInput
from influential_bandits.live.api import EXPERIMENT, call
from influential_bandits.live.reading import write_csv, write_parquet

if TYPE_CHECKING:
    from influential_bandits.live.service import Service

PART_BYTES = 1 << 20


@call("GET", EXPERIMENT + "/report", "reader")
async def report(service: Service, request: HttpRequest, body: None) -> Any:
    """Return the A/B test, and sums by arm and group, over time, too."""
    row = await service.find_asked(request)
    return await service.report(row, request.query_params.get("span", "all"))


@call("GET", EXPERIMENT + "/log", "reader")
async def export_log(service: Service, request: HttpRequest, body: None) -> Any:
    """Return all losses, as Parquet or CSV that read_log takes."""
    row = await service.find_asked(request)
    form = request.query_params.get("format", "parquet")
    if form not in ("parquet", "csv"):
        raise InvalidInput(f"format must be parquet or csv, got {form!r:.40}")
    described = await service.describe(row)
    write = write_parquet if form == "parquet" else write_csv
    file = await asyncio.to_thread(tempfile.TemporaryFile)  # a log may be larger than memory
    await service.read_aside(lambda store: write(store, row.id, described["arms"], file))
    file.seek(0)
    kind = "application/vnd.apache.parquet" if form == "parquet" else "text/csv"
    headers = {"Content-Disposition": f'attachment; filename="log.{form}"'}
    return StreamingResponse(_read_parts(file), media_type=kind, headers=headers)


def _read_parts(file: IO[bytes]) -> Iterator[bytes]:
    with file:
        while part := file.read(PART_BYTES):
            yield part
