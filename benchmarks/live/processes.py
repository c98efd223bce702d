"""The service as a process of its own, which can be killed hundreds of times.

It is forked from one that has imported everything, and so it starts within a fraction of a second.
"""

import faulthandler
import logging
import multiprocessing
import os
import signal
import socket
import sys
import time
from pathlib import Path

from influential_bandits.live.serving import add_key, serve
from influential_bandits.live.store.opening import open_store

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload([__name__, "benchmarks.live.warm"])


ECHO = "echo"  # instead of a store: the endpoint that only echoes


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def prepare(store):
    """Make a store; return the key for all of it."""
    with open_store(store) as opened:
        return add_key(opened, "tests", time.time())


class ServiceProcess:
    """A service that serves a store, and writes what it says to a file."""

    def __init__(self, store, log, port=None, **limits):
        self.store, self.log, self.limits = str(store), Path(log), limits
        self.port = port or free_port()
        self._process = None

    def start(self):
        arguments = (self.store, str(self.log), self.port, self.limits)
        target = _echo if self.store == ECHO else _serve
        self._process = FORKS.Process(target=target, args=arguments, daemon=True)
        self._process.start()
        self.wait_until_up()
        return self

    def wait_until_up(self, seconds=60.0):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1.0).close()
            except OSError:
                if not self._process.is_alive():
                    break
                time.sleep(0.005)
            else:
                return
        if self._process.is_alive():
            os.kill(self.pid, signal.SIGUSR1)  # say where it is
            time.sleep(0.5)
        raise RuntimeError(f"the service did not start: {self.log.read_text()[-2000:]}")

    @property
    def pid(self):
        return self._process.pid

    @property
    def cpu_seconds(self):
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def is_alive(self):
        return self._process is not None and self._process.is_alive()

    def kill(self):
        """End it at once, whatever it does."""
        self._process.kill()
        self._process.join()

    def stop(self, seconds=30.0):
        """Ask it to end; return its exit code."""
        if self.is_alive():
            os.kill(self.pid, signal.SIGTERM)
        self._process.join(seconds)
        if self._process.exitcode is None:
            self.kill()
            raise RuntimeError("the service did not stop when asked to")
        return self._process.exitcode

    def __enter__(self):
        return self if self.is_alive() else self.start()

    def __exit__(self, *_):
        if self.is_alive():
            self.kill()


def _serve(store, log, port, limits):
    _write_to(log)
    serve(store, port=port, tell=lambda _: None, **limits)


def _echo(_, log, port, limits):
    import uvicorn

    from benchmarks.live.load import make_echo

    _write_to(log)
    uvicorn.run(make_echo(), port=port, log_level="warning", access_log=False, http="httptools")


def _write_to(log):
    with Path(log).open("a") as file:
        os.dup2(file.fileno(), sys.stdout.fileno())
        os.dup2(file.fileno(), sys.stderr.fileno())
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
