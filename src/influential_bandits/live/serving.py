"""Start the service: open the store, make the first key, serve until told to stop."""

from __future__ import annotations

import gc
import os
import socket
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import Any, NamedTuple
from urllib.request import urlopen

from influential_bandits.checks import abbreviate
from influential_bandits.errors import InvalidInput
from influential_bandits.files import write_text
from influential_bandits.live.keys import make_key
from influential_bandits.live.requests import Refused
from influential_bandits.live.store.opening import is_shared, open_store
from influential_bandits.live.store.sql import Store
from influential_bandits.packages import require_packages

__all__ = ["serve", "serve_in_background"]

SAFE_SQLITE = (3, 51, 3)
STORE_VARIABLE = "INFLUENTIAL_BANDITS_STORE"
ROOT_VARIABLE = "INFLUENTIAL_BANDITS_ROOT_PATH"
SECRET_VARIABLE = "INFLUENTIAL_BANDITS_SECRET"  # signs the cookies of the page
PACKAGES = ("starlette", "uvicorn", "httptools", "msgspec", "prometheus_client")


def add_key(store: Store, label: str, at: float) -> str:
    """Make a key for everything."""
    key, row = make_key(label, "admin", None, at)
    store.begin()
    try:
        store.add_key(row)
        store.commit()
    finally:
        store.roll_back()
    return key


def add_first_key(store: Store, at: float, hand_over: Callable[[str], None]) -> None:
    """Make a key for everything if there is no key yet; it counts once it was handed over."""
    key, row = make_key("first key", "admin", None, at)
    store.begin()
    try:
        if not store.keys():
            store.add_key(row)
            hand_over(key)
            store.commit()
    finally:
        store.roll_back()


def write_key(path: str | Path, key: str) -> None:
    """Write a key into a new file that nobody else may read."""
    try:
        Path(path).touch(0o600, exist_ok=False)
    except OSError as error:
        raise InvalidInput(
            f"cannot write the first key into {path}: {error.strerror or error}; name a new file"
        ) from None
    write_text(path, f"{key}\n")


def make_application(address: str, **limits: Any) -> Any:
    """Return the application for a store, as an ASGI server takes it; limits are the writer's."""
    from influential_bandits.live.experiment import Experiment
    from influential_bandits.live.preparing import prepare_stored
    from influential_bandits.live.service import Service
    from influential_bandits.live.writer import Writer

    store = open_store(address)
    rows = store.experiments()
    for row in rows:
        prepare_stored(Experiment.load(store, row))
    secret = os.environ.get(SECRET_VARIABLE, "").encode()
    root = os.environ.get(ROOT_VARIABLE, "")
    service = Service(Writer(store, **limits), secret or None, root)
    for row in rows:  # a fleet is computed now, and not when the first request comes
        try:
            service.writer.ask(row.name, lambda work, at: None)
        except Refused as refused:
            if refused.code != "loading":
                raise
    service.after_compiling = spare_collections
    spare_collections()
    return service


def spare_collections() -> None:
    """Let the collector of garbage look no more at what is there now.

    Imports and compilers leave a million objects that stay; whenever it looks at all of them, every
    request waits for a tenth of a second.
    """
    gc.collect()
    gc.freeze()


def application_from_environment() -> Any:
    """Return the application for the store that the environment names: so workers find theirs."""
    return make_application(os.environ[STORE_VARIABLE])


def _run_when_ready(address: str, work: Callable[[str], None], key: str) -> None:
    """Run something against the service as soon as it answers."""
    for _ in range(600):
        try:
            with urlopen(f"{address}/health"):
                break
        except OSError:
            time.sleep(0.1)
    work(key)


def serve(
    store: str | Path,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    workers: int = 1,
    keep_alive: int = 75,
    root_path: str = "",
    key_file: str | Path | None = None,
    tell: Callable[[str], None] = print,
    meanwhile: Callable[[str], None] | None = None,
    **limits: Any,
) -> None:
    """Serve until stopped.

    Parameters
    ----------
    store : path of an SQLite file, or postgresql://…
    workers : int
        Processes; more than one take PostgreSQL.
    keep_alive : int
        Seconds for which a connection may be idle. A proxy in front should end it earlier.
    root_path : str
        The path under which a proxy serves it, such as ``"/bandits"``, and takes off.
    key_file : path, optional
        Where the first key is written, for its owner alone; by default it is told.
    tell : callable
        Given the lines to print.
    meanwhile : callable, optional
        Run in a thread of its own once the service answers, with a new key for everything.
    limits
        Of the writer, for one worker: how much may wait, how often states are kept.

    Examples
    --------
    It returns when it is stopped, so that the example is not run:

    >>> serve("shop.db", port=8000)  # doctest: +SKIP
    """
    require_packages(*PACKAGES)
    address = str(store)
    if workers > 1 and not is_shared(address):
        raise InvalidInput(
            "an SQLite file has one service at a time; take --store postgresql://… for more workers"
        )
    if root_path and (not root_path.startswith("/") or root_path.endswith("/")):
        raise InvalidInput(f"root_path must be like /bandits, got {abbreviate(root_path)}")
    _require_free_port(host, port)  # before a store is made, and its key shown
    import uvicorn

    def hand_over(key: str) -> None:
        if key_file is None:
            tell(f"The first key, for everything; it is not shown again:\n\n    {key}\n")
        else:
            write_key(key_file, key)

    with open_store(address) as opened:
        add_first_key(opened, time.time(), hand_over)
        helper = None if meanwhile is None else add_key(opened, "made-up shop", time.time())
    if not is_shared(address) and sqlite3.sqlite_version_info < SAFE_SQLITE:
        tell(
            f"SQLite {sqlite3.sqlite_version}: let no other program write to {address} meanwhile "
            "(versions before 3.51.3 can damage a file that two write to)."
        )
    os.environ[STORE_VARIABLE], os.environ[ROOT_VARIABLE] = address, root_path
    if not os.environ.get(SECRET_VARIABLE):
        os.environ[SECRET_VARIABLE] = token_hex(32)  # one for all workers
    if meanwhile is not None and helper is not None:
        where = f"http://{host}:{port}"
        threading.Thread(
            target=_run_when_ready, args=(where, meanwhile, helper), daemon=True
        ).start()
    tell(f"Serving on http://{host}:{port}; stop with Ctrl-C.")
    uvicorn.run(
        f"{__name__}:application_from_environment"
        if workers > 1
        else make_application(address, **limits),
        factory=workers > 1,
        host=host,
        port=port,
        workers=workers if workers > 1 else None,
        access_log=False,
        timeout_keep_alive=keep_alive,
        timeout_graceful_shutdown=30,
        **protocol_options(),
    )


def protocol_options() -> dict[str, Any]:
    """Return how connections are served, as uvicorn takes it."""
    from influential_bandits.live.connection import Connection

    return {"http": Connection, "ws": "none", "log_level": "warning"}


def _require_free_port(host: str, port: int) -> None:
    """Raise unless one can listen there."""
    if not 0 < port < 2**16:  # some systems take larger ones modulo 65,536
        raise InvalidInput(f"there is no port {port}; take a --port from 1 to 65535")
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = addresses[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        raise InvalidInput(
            f"cannot listen on {host}, port {port}: {error.strerror}; take another --port or "
            "--host, or stop what listens there"
        ) from None


class RunningService(NamedTuple):
    """A service that runs in the background."""

    address: str
    key: str  # for everything


@contextmanager
def serve_in_background(store: str | Path, **options: Any) -> Iterator[RunningService]:
    """Serve in a thread of this process, on a free port, until the block ends; to try things out.

    Examples
    --------
    >>> import os, tempfile
    >>> import influential_bandits as ib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with serve_in_background(os.path.join(folder, "shop.db")) as (address, key):
    ...         client = ib.live.Client(address, key, "shop")
    ...         client.create(["tea", "coffee"], policy="LCB")
    ...         decision = client.decide("ann")
    ...         client.feed_back(decision, loss=0.3)
    >>> decision.arm
    'tea'
    """
    require_packages(*PACKAGES)
    import uvicorn

    with open_store(store) as opened:
        key = add_key(opened, "background", time.time())
    application = make_application(str(store), **options)
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        server = uvicorn.Server(uvicorn.Config(application, lifespan="on", **protocol_options()))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        try:
            while not server.started:
                time.sleep(0.01)
            yield RunningService(f"http://127.0.0.1:{port}", key)
        finally:
            server.should_exit = True
            thread.join()
