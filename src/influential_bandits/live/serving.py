"""Start the service: open the store, make the first key, serve until told to stop."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from influential_bandits.checks import require_packages
from influential_bandits.errors import InvalidInput
from influential_bandits.live.keys import make_key
from influential_bandits.live.store.opening import is_shared, open_store
from influential_bandits.live.store.sql import Store

__all__ = ["make_application", "serve"]

SAFE_SQLITE = (3, 51, 3)
STORE_VARIABLE = "INFLUENTIAL_BANDITS_STORE"
PACKAGES = ("starlette", "uvicorn", "httptools", "msgspec", "prometheus_client")


def make_first_key(store: Store, at: float) -> str | None:
    """Return a key for everything if there is no key yet; it is shown once."""
    store.begin()
    try:
        if store.keys():
            return None
        key, row = make_key("first key", "admin", None, at)
        store.add_key(row)
        store.commit()
    except BaseException:
        store.roll_back()
        raise
    else:
        return key
    finally:
        store.roll_back()


def make_application(address: str, **limits: Any) -> Any:
    """Return the application for a store, as an ASGI server takes it; limits are the writer's."""
    from influential_bandits.live.service import Service
    from influential_bandits.live.writer import Writer

    service = Service(Writer(open_store(address), **limits))

    @asynccontextmanager
    async def lifespan(_: Any) -> Any:
        yield
        service.writer.close()

    service.app.router.lifespan_context = lifespan
    return service.app


def application_from_environment() -> Any:
    """Return the application for the store that the environment names: so workers find theirs."""
    return make_application(os.environ[STORE_VARIABLE])


def serve(
    store: str | Path,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    workers: int = 1,
    tell: Callable[[str], None] = print,
    **limits: Any,
) -> None:
    """Serve until stopped.

    Parameters
    ----------
    store : path of an SQLite file, or postgresql://…
    workers : int
        Processes; more than one take PostgreSQL.
    tell : callable
        Given the lines to print.
    limits
        Of the writer, for one worker: how much may wait, how often states are kept.
    """
    require_packages(*PACKAGES)
    address = str(store)
    if workers > 1 and not is_shared(address):
        raise InvalidInput(
            "an SQLite file has one service at a time; take --store postgresql://… for more workers"
        )
    import uvicorn

    with open_store(address) as opened:
        key = make_first_key(opened, time.time())
    if key is not None:
        tell(f"The first key, for everything; it is not shown again:\n\n    {key}\n")
    if not is_shared(address) and sqlite3.sqlite_version_info < SAFE_SQLITE:
        tell(
            f"SQLite {sqlite3.sqlite_version}: let no other program write to {address} meanwhile "
            "(versions before 3.51.3 can damage a file that two write to)."
        )
    os.environ[STORE_VARIABLE] = address
    tell(f"Serving on http://{host}:{port}; stop with Ctrl-C.")
    uvicorn.run(
        f"{__name__}:application_from_environment" if workers > 1 else make_application(address, **limits),
        factory=workers > 1,
        host=host,
        port=port,
        workers=workers if workers > 1 else None,
        log_level="warning",
        access_log=False,
        http="httptools",
        timeout_graceful_shutdown=30,
    )
