"""DaskExecution: the same work on a Dask cluster, with the same bits.

The client keeps a few tasks in flight for each thread of the cluster, takes every result as it
comes, and lets go of it: its memory does not grow with the number of tasks. Dask sends the tasks
of a worker that died to another one; what this module adds is what a user should hear when the
scheduler goes away, when a task kills every worker it meets, or when workers run other code.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import signal
import sys
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from influential_bandits.checks import whole_number
from influential_bandits.errors import (
    ClusterError,
    ClusterLost,
    InfluentialBanditsError,
    InvalidInput,
    MissingFile,
    TaskLost,
)
from influential_bandits.execution.base import Attempt, Execution, Outcome, Task, Work, attempt
from influential_bandits.execution.local import MOST_THREADS, count_threads
from influential_bandits.execution.progress import Progress
from influential_bandits.files import read_json
from influential_bandits.numerics.fingerprints import package_digest
from influential_bandits.packages import optional_module

MOST_AT_ONCE = 64  # results that the client holds
IN_FLIGHT = 2  # tasks for each thread: one that runs, one that is there when it ends
# A task may carry its part of a log, which is no mistake to warn of.
LARGE_TASKS = {"distributed.admin.large-graph-warning-threshold": "1GB"}
LOOK = 1.0  # seconds between two looks at the size of the cluster
PATIENCE = 5.0  # seconds without a worker before the user is told
RESTART = 60.0  # seconds without a worker before those of a cluster of ours are started again
GRACE = 2.0  # seconds until a client that has lost its scheduler knows it
# How Dask, Tornado and asyncio put it that nobody is there any more: broken and closed connections
# and timeouts are OSErrors.
GONE = (OSError, asyncio.CancelledError, concurrent.futures.CancelledError)


class DaskExecution(Execution):
    """A Dask cluster: one that runs already, or one of processes of this computer.

    Each task runs on one thread of a worker. Workers must have the same version of this package;
    they may come and go.

    Parameters
    ----------
    scheduler : str, optional
        Address such as ``tcp://host:8786`` or ``tls://host:8786``, or the path of a scheduler
        file. TLS certificates are Dask's own configuration (``distributed.comm.tls``). Without an
        address, a cluster of processes is started here, and stopped in the end; they talk over TLS
        with certificates of their own, so that nobody else on this computer can reach them.
    workers : int, optional
        Processes of such a cluster; by default one for each core.
    timeout : float
        Seconds to wait for the scheduler.

    Examples
    --------
    >>> import influential_bandits as ib
    >>> with DaskExecution("tcp://127.0.0.1:1", timeout=0.1):  # nobody listens there
    ...     pass
    Traceback (most recent call last):
    influential_bandits.errors.ClusterError: no scheduler answers at tcp://127.0.0.1:1 ...
    """

    def __init__(
        self, scheduler: str | None = None, workers: int | None = None, timeout: float = 30.0
    ) -> None:
        self._distributed = optional_module("distributed")
        self._dask = optional_module("dask")
        self._cluster: Any = None
        self._where = ""  # for messages
        self._scheduler: str | None = None  # its name for itself; a new one has another
        if scheduler is None:
            self._cluster = self._start_cluster(count_threads(None) if workers is None else workers)
        elif workers is not None:
            raise InvalidInput("workers are for a cluster of this computer: leave scheduler out")
        try:
            self._client = self._connect(scheduler, timeout)
        except BaseException:
            if self._cluster is not None:
                self._cluster.close()
            raise
        self._threads = 0  # of the cluster, when last looked at
        self._looked = -LOOK
        self._last_worker = time.monotonic()  # when one was last seen
        self._restart_after = RESTART
        self._warned = False

    def __repr__(self) -> str:
        return f"DaskExecution({self._where.removeprefix(' at ') or 'on this computer'})"

    def _start_cluster(self, workers: int) -> Any:
        """Start a cluster of processes that leave Ctrl-C, which a terminal sends to all, to us."""
        number = whole_number("workers", workers, 1, MOST_THREADS)
        optional_module("cryptography")  # makes the certificates
        here = threading.current_thread() is threading.main_thread()
        before = signal.signal(signal.SIGINT, signal.SIG_IGN) if here else None
        try:
            return self._distributed.LocalCluster(
                n_workers=number,
                threads_per_worker=1,
                processes=True,
                host="127.0.0.1",
                security=True,
                dashboard_address="127.0.0.1:0",
                silence_logs=logging.ERROR,
            )
        finally:
            if here:
                signal.signal(signal.SIGINT, signal.SIG_DFL if before is None else before)

    def _connect(self, scheduler: str | None, timeout: float) -> Any:
        how: dict[str, Any] = {"timeout": timeout, "set_as_default": False, "name": "influential"}
        if scheduler is None:
            return self._distributed.Client(self._cluster, **how)
        address = scheduler
        if "://" not in scheduler:
            address = _address_in(scheduler) if Path(scheduler).is_file() else f"tcp://{scheduler}"
            if ":" not in scheduler and not Path(scheduler).is_file():
                raise MissingFile(
                    "scheduler must be an address such as tcp://host:8786, or the path of a "
                    f"scheduler file that exists, got {scheduler!r}"
                )
        self._where = f" at {address}"
        self._require_address(address)
        if address.startswith("tls://"):
            self._require_certificates(address)
        return self._try_address(address, **how)

    def _require_address(self, address: str) -> None:
        """Raise unless Dask can make sense of an address: its client would hang."""
        comm = optional_module("distributed.comm")
        try:
            comm.get_address_host_port(address, strict=True)
        except (ValueError, TypeError) as error:
            raise InvalidInput(
                f"scheduler must be an address such as tcp://host:8786, got {address!r} ({error})"
            ) from None

    def _require_certificates(self, address: str) -> None:
        """Raise if Dask knows of no certificates: its client would hang."""
        known = self._distributed.Security().get_connection_args("client")
        if known.get("ssl_context") is None:
            raise InvalidInput(
                f"{address} wants TLS, but Dask's configuration names no certificates: set "
                "distributed.comm.tls.ca-file, .client.cert and .client.key, in a file or as "
                "DASK_DISTRIBUTED__COMM__TLS__CA_FILE, …__CLIENT__CERT and …__CLIENT__KEY"
            )

    def _try_address(self, address: str, **how: Any) -> Any:
        try:
            return self._distributed.Client(address, **how)
        except (OSError, ValueError, TypeError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise ClusterError(
                f"no scheduler answers at {address} within {how['timeout']:g} s ({reason}); "
                "start one with: dask scheduler"
            ) from None

    @property
    def threads(self) -> int:
        """How many threads the cluster has at the moment, at least one."""
        self._room()
        return max(1, self._threads)

    def outcomes(self, work: Work, tasks: Iterable[Any]) -> Iterator[Outcome]:
        """Yield outcomes as they come; a few tasks for each thread of the cluster are in flight.

        A task that happened to wait on workers which another one killed is not to blame: tasks that
        were given up are tried once more in the end, one at a time.
        """
        suspects = []
        for outcome in self._outcomes(work, tasks):
            if isinstance(outcome.error, TaskLost):
                suspects.append(outcome.task)
            else:
                yield outcome
        for task in suspects:
            yield from self._outcomes(work, [task])

    def _outcomes(self, work: Work, tasks: Iterable[Any]) -> Iterator[Outcome]:
        remaining = iter(tasks)
        flying: dict[str, tuple[Any, Any]] = {}
        finished: SimpleQueue[str] = SimpleQueue()
        try:
            while True:
                for task in islice(remaining, max(0, self._room() - len(flying))):
                    future = self._submit(_attempt_there, work, task)
                    flying[future.key] = task, future
                    future.add_done_callback(lambda done: finished.put(done.key))
                if not flying:
                    return
                keys = self._some(finished)
                done = [flying.pop(key) for key in keys]
                for (task, _), attempt in zip(done, self._attempts(done), strict=True):
                    yield Outcome(task, *attempt)
        finally:
            self._drop(future for _, future in flying.values())

    def map(
        self,
        work: Callable[[Any], Any],
        tasks: Iterable[Any],
        progress: Progress | None = None,
    ) -> Iterator[Any]:
        """Yield results in order; those that are early wait on the cluster."""
        flying: deque[tuple[Any, threading.Event]] = deque()
        try:
            for task in tasks:
                future, done = self._submit(_done_there, work, task), threading.Event()
                future.add_done_callback(lambda _, done=done: done.set())
                flying.append((future, done))
                if len(flying) >= self._room():
                    yield self._next(flying, progress)
            while flying:
                yield self._next(flying, progress)
        finally:
            self._drop(future for future, _ in flying)
            if progress is not None:
                progress.close()

    def run(self, tasks: Sequence[Any], progress: Progress) -> None:
        """Let the cluster do whole tasks, and take their results."""
        try:
            for number, results in enumerate(self.map(_play, tasks)):
                tasks[number].accept(results)
                progress.done = progress.total * (number + 1) // len(tasks)
                progress.show()
        finally:
            progress.close()

    def close(self) -> None:
        """Disconnect; stop the cluster if it was started here."""
        with suppress(Exception):  # nothing of a client that has lost its scheduler is needed
            self._client.close()
        if self._cluster is not None:
            self._cluster.close()

    def _submit(self, function: Callable[..., Any], work: Any, task: Any) -> Any:
        key = f"influential-bandits-{uuid.uuid4().hex}"
        with self._map_errors(), self._dask.config.set(LARGE_TASKS):
            return self._client.submit(function, package_digest(), work, task, key=key, pure=False)

    def _some(self, finished: SimpleQueue[str]) -> list[str]:
        """Wait for a while, then return the keys of the tasks that are finished, if any."""
        keys: list[str] = []
        with suppress(Empty):
            keys.append(finished.get(timeout=LOOK))
            while len(keys) < MOST_AT_ONCE:
                keys.append(finished.get_nowait())
        return keys

    def _attempts(self, done: list[tuple[Any, Any]]) -> Iterator[Attempt]:
        """Yield results or errors of finished tasks; one journey brings all results."""
        self._require_connection()
        with self._map_errors():
            there = self._client.gather({f.key: f for _, f in done}, errors="skip") if done else {}
        for _, future in done:
            try:  # what was skipped is missing, or None
                yield there.pop(future.key, None) or self._result(future)
            except TaskLost as lost:
                yield None, lost
            finally:
                self._release(future)

    def _next(self, flying: deque[tuple[Any, threading.Event]], progress: Progress | None) -> Any:
        future, done = flying[0]
        while not done.wait(timeout=LOOK):
            self._room()  # tells the user if there is no worker
        flying.popleft()
        result = self._result(future)
        self._release(future)
        if progress is not None:
            progress.count_one()
        return result

    def _result(self, future: Any) -> Any:
        """Return what a finished task returned."""
        try:
            with self._map_errors(future):
                return future.result()
        except self._distributed.KilledWorker as killed:
            raise TaskLost(
                f"{killed.allowed_failures + 1} workers died of it, one after the other; too "
                "little memory is a usual cause"
            ) from None
        except ModuleNotFoundError as error:
            raise ClusterError(
                f"a worker cannot import {error.name}: install the same version of "
                "influential-bandits, with the same extras, on every worker"
            ) from None

    @contextmanager
    def _map_errors(self, future: Any = None) -> Iterator[None]:
        """Say of a scheduler that goes away meanwhile that it did, in whatever way it shows.

        The error of a task that failed, which its future brings, is the task's own.
        """
        try:
            yield
        except InfluentialBanditsError:
            raise
        except GONE:
            if future is not None and future.status == "error":
                raise
            raise self._lost() from None
        except Exception:
            # Dask's own state falls apart, too, a moment before the client knows why.
            if (future is None or future.status != "error") and self._has_lost_it():
                raise self._lost() from None
            raise

    def _has_lost_it(self) -> bool:
        """Tell whether the scheduler is gone; wait a moment for the client to notice."""
        until = time.monotonic() + GRACE
        while self._client.status == "running" and time.monotonic() < until:
            time.sleep(0.05)
        return bool(self._client.status != "running")

    def _release(self, future: Any) -> None:
        """Let go of a result, which a scheduler that has gone did already."""
        with suppress(Exception):
            future.release()

    def _require_connection(self) -> None:
        if self._client.status != "running":
            raise self._lost() from None

    def _lost(self) -> ClusterLost:
        return ClusterLost(f"the scheduler{self._where} went away")

    def _room(self) -> int:
        """Return how many tasks may be in flight; tell the user if there is no worker at all."""
        self._require_connection()
        now = time.monotonic()
        if now - self._looked >= LOOK:
            self._looked = now
            with self._map_errors():
                found = self._client.scheduler_info(n_workers=0)
                self._threads = found["total_threads"]
            if self._scheduler not in {None, found.get("id")}:
                raise self._lost()  # another one, which knows nothing of our tasks
            self._scheduler = found.get("id")
            if self._threads:
                self._last_worker, self._warned = now, False
            elif now - self._last_worker > PATIENCE and not self._warned:
                self._warned = True
                print(f"waiting for workers: the scheduler{self._where} has none", file=sys.stderr)
            if self._cluster is not None and now - self._last_worker > self._restart_after:
                self._restart_workers(now)
        return max(1, IN_FLIGHT * self._threads)

    def _restart_workers(self, now: float) -> None:
        """Start processes anew: a nanny that fails to restart one, as under load, gives up."""
        number = len(self._cluster.worker_spec)
        self._cluster.scale(0)
        self._cluster.scale(number)
        self._last_worker = now

    def _drop(self, futures: Iterable[Any]) -> None:
        """Cancel what is still in flight, if there is still somebody to tell."""
        left = list(futures)
        if left and self._client.status == "running":
            with suppress(Exception):
                self._client.cancel(left)


def _address_in(path: str) -> str:
    """Return the address in a scheduler file."""
    try:
        return str(read_json(path)["address"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InvalidInput(f"{path} is no scheduler file: {error!r:.150}") from None


def _attempt_there(code: str, work: Work, task: Any) -> Any:
    _require_same_code(code)
    return attempt(work, task, 1)


def _done_there(code: str, work: Callable[[Any], Any], task: Any) -> Any:
    _require_same_code(code)
    return work(task)


def _play(task: Task) -> Any:
    for _ in task.steps():
        pass
    return task.results()


def _require_same_code(code: str) -> None:
    """Raise unless client and worker run the same: other code may give other bits."""
    if code != package_digest():
        raise ClusterError(
            "a worker has another version of influential-bandits than the client (its source has "
            f"the digest {package_digest()}, not {code}): install the same everywhere"
        )
