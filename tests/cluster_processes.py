"""A real Dask cluster for tests: a scheduler and workers, each a process that can be killed."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import forked

PATIENCE = 60.0  # seconds for anything to happen on a busy machine
QUIET = ("--dashboard-address", "127.0.0.1:0")  # the usual port may be taken
TESTS = Path(__file__).resolve().parent
SOURCE = TESTS.parent / "src"


def environment(*paths, **more):
    """Variables of a process that finds the package, the tests, and these paths first."""
    found = [*paths, SOURCE, TESTS, *filter(None, os.environ.get("PYTHONPATH", "").split(":"))]
    return os.environ | {"PYTHONPATH": ":".join(map(str, found))} | more


def until(happened, what):
    """Wait for something, or fail."""
    deadline = time.monotonic() + PATIENCE
    while not (found := happened()):
        assert time.monotonic() < deadline, f"waited {PATIENCE} s for {what}"
        time.sleep(0.01)
    return found


class Cluster:
    """A scheduler that listens on this computer alone, and the workers that were added to it."""

    def __init__(self, folder, protocol="tcp", **variables):
        self.folder, self.variables = Path(folder), variables
        self.file = self.folder / "scheduler.json"
        self.file.unlink(missing_ok=True)
        self.workers = []
        self.log = (self.folder / "cluster.log").open("ab")
        self.scheduler = self._started(
            "scheduler", "--host", f"{protocol}://127.0.0.1", "--port", "0", *QUIET
        )
        until(self._address, "the scheduler")

    def _started(self, kind, *options, paths=()):
        command = [sys.executable, "-m", "dask", kind, "--scheduler-file", str(self.file), *options]
        imported_anew = self.variables or paths  # Dask reads its variables at import
        start = subprocess.Popen if imported_anew else forked.Popen
        return start(
            command,
            stdout=self.log,
            stderr=self.log,
            cwd=self.folder,
            env=environment(*paths, **self.variables),
        )

    def _address(self):
        with contextlib.suppress(OSError, ValueError):
            return json.loads(self.file.read_text(encoding="utf-8"))["address"]
        return None

    @property
    def address(self):
        return self._address()

    def add_worker(self, paths=()):
        """Start a worker of one thread that nobody restarts when it dies."""
        options = ("--nthreads", "1", "--no-nanny", "--death-timeout", "120", *QUIET)
        self.workers.append(self._started("worker", *options, paths=paths))
        return self.workers[-1]

    def close(self):
        for process in (*self.workers, self.scheduler):
            process.send_signal(signal.SIGKILL)
            process.wait()
        self.log.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
