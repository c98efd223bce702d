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
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from influential_bandits.checks import abbreviate
from influential_bandits.errors import InvalidInput
from influential_bandits.files import write_text
from influential_bandits.live.keys import ROLES, digest_key, make_key
from influential_bandits.live.logs import set_up
from influential_bandits.live.requests import Refused
from influential_bandits.live.settings import require_label
from influential_bandits.live.store.opening import is_shared, open_store
from influential_bandits.live.store.sql import Changes, Store
from influential_bandits.live.transactions.of_store import StoreTransaction
from influential_bandits.packages import require_packages

__all__ = ["serve", "serve_in_background"]

SAFE_SQLITE = (3, 51, 3)
STORE_VARIABLE = "INFLUENTIAL_BANDITS_STORE"
LOG_VARIABLE = "INFLUENTIAL_BANDITS_LOG_FORMAT"
ACCESS_VARIABLE = "INFLUENTIAL_BANDITS_ACCESS_LOG"
ROOT_VARIABLE = "INFLUENTIAL_BANDITS_ROOT_PATH"
KEY_VARIABLE = "INFLUENTIAL_BANDITS_FIRST_KEY"  # chosen beforehand, as by a container
FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"  # prometheus_client looks when it is imported
FEWEST_CHARACTERS = 32  # of such a key
SECRET_VARIABLE = "INFLUENTIAL_BANDITS_SECRET"  # signs the cookies of the page
PACKAGES = ("starlette", "uvicorn", "httptools", "msgspec", "prometheus_client")


def add_key(
    store: Store,
    label: str,
    at: float,
    role: str = "admin",
    experiment: str = "",
    days: float | None = None,
) -> str:
    """Make a key, by default one for everything that never ends."""
    numbers = {"": None, **{row.name: row.id for row in store.experiments()}}
    if role not in ROLES:
        raise InvalidInput(f"a role is one of {', '.join(ROLES)}, got {abbreviate(role)}")
    if experiment not in numbers:
        raise InvalidInput(f"there is no experiment {abbreviate(experiment)}")
    key, row = make_key(require_label("label", label), role, numbers[experiment], at, days)
    _change(store, lambda work: work.add_key(row))
    return key


def drop_key(store: Store, digest: str) -> None:
    """Forget a key, but not the last one that opens everything."""
    _change(store, lambda work: work.drop_key(digest))


def _change(store: Store, act: Callable[[StoreTransaction], None]) -> None:
    store.begin()
    try:
        act(StoreTransaction(store, Changes()))
        store.commit()
    finally:
        store.roll_back()


def add_first_key(store: Store, at: float, hand_over: Callable[[str], None]) -> None:
    """Make a key for everything if there is no key yet; it counts once it was handed over."""
    key, row = make_key("first key", "admin", at=at)
    chosen = os.environ.get(KEY_VARIABLE)
    if chosen is not None:
        if len(chosen) < FEWEST_CHARACTERS:
            raise InvalidInput(f"{KEY_VARIABLE} must have {FEWEST_CHARACTERS} characters or more")
        row = row._replace(digest=digest_key(chosen))

    def add(work: StoreTransaction) -> None:
        if not store.keys():
            work.add_key(row)
            if chosen is None:
                hand_over(key)

    _change(store, add)


def write_key(path: str | Path, key: str) -> None:
    """Write a key into a new file that nobody else may read."""
    try:
        Path(path).touch(0o600, exist_ok=False)
    except OSError as error:
        raise InvalidInput(
            f"cannot write the first key into {path}: {error.strerror or error}; name a new file"
        ) from None
    write_text(path, f"{key}\n")


def make_application(address: str, root: str = "", **limits: Any) -> Any:
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
    set_up(os.environ[LOG_VARIABLE], every_request=os.environ[ACCESS_VARIABLE] == "1")
    return make_application(os.environ[STORE_VARIABLE], os.environ[ROOT_VARIABLE])


def serve(
    store: str | Path,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    workers: int = 1,
    keep_alive: int = 75,
    root_path: str = "",
    key_file: str | Path | None = None,
    log_format: str = "text",
    access_log: bool = False,
    tell: Callable[[str], None] = print,
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
    log_format : {"text", "json"}
        Of the log, on standard error: failures, what admins do, and who is turned away.
    access_log : bool
        Whether every request is in the log.
    tell : callable
        Given the lines to print.
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
    set_up(log_format, every_request=access_log)
    _require_free_port(host, port)  # before a store is made, and its key shown
    import uvicorn

    def hand_over(key: str) -> None:
        if key_file is None:
            tell(f"The first key, for everything; it is not shown again:\n\n    {key}\n")
        else:
            write_key(key_file, key)

    with open_store(address) as opened:
        add_first_key(opened, time.time(), hand_over)
    if not is_shared(address) and sqlite3.sqlite_version_info < SAFE_SQLITE:
        tell(
            f"SQLite {sqlite3.sqlite_version}: let no other program write to {address} meanwhile "
            "(versions before 3.51.3 can damage a file that two write to)."
        )
    tell(f"Serving on http://{host}:{port}; stop with Ctrl-C.")
    options = protocol_options() | {
        "host": host,
        "port": port,
        "access_log": False,
        "timeout_keep_alive": keep_alive,
        "timeout_graceful_shutdown": 30,
    }
    if workers == 1:
        uvicorn.run(make_application(address, root_path, **limits), **options)
        return
    os.environ[STORE_VARIABLE], os.environ[ROOT_VARIABLE] = address, root_path
    os.environ[LOG_VARIABLE], os.environ[ACCESS_VARIABLE] = log_format, str(int(access_log))
    if not os.environ.get(SECRET_VARIABLE):
        os.environ[SECRET_VARIABLE] = token_hex(32)  # one for all workers
    with TemporaryDirectory() as folder:  # in which the workers count together
        os.environ[FOLDER_VARIABLE] = folder
        factory = f"{__name__}:application_from_environment"
        uvicorn.run(factory, factory=True, workers=workers, **options)


def protocol_options() -> dict[str, Any]:
    """Return how connections are served, as uvicorn takes it."""
    from influential_bandits.live.connection import Connection

    return {"http": Connection, "ws": "none", "log_config": None}


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
def serve_in_background(
    store: str | Path, *, port: int = 0, **options: Any
) -> Iterator[RunningService]:
    """Serve in a thread of this process until the block ends, to try things out.

    By default on a port that is free.

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

    if port:
        _require_free_port("127.0.0.1", port)
    with open_store(store) as opened:
        key = add_key(opened, "background", time.time())
    application = make_application(str(store), **options)
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", port))
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
