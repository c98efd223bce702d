"""A real service on a free port, in a thread of the test."""

import socket
import threading
import time
from contextlib import contextmanager

import uvicorn

from influential_bandits.live.service import Service
from influential_bandits.live.serving import add_key
from influential_bandits.live.store.opening import open_store
from influential_bandits.live.writer import Writer


@contextmanager
def running(address, **options):
    """Yield (http://…, key for everything) of a service on a store."""
    with open_store(address) as store:
        key = add_key(store, "test", 0.0)
    writer = Writer(open_store(address), **options)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = uvicorn.Config(
        Service(writer).app, host="127.0.0.1", port=port, log_level="warning", lifespan="off"
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{port}", key
    finally:
        server.should_exit = True
        thread.join()
        writer.close()
