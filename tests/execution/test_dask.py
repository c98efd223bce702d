"""The same work on this computer and on a cluster of real processes, which may die."""

import asyncio
import concurrent.futures
import copy
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

import cluster_work as work
import distributed
import numpy as np
import pytest
from cluster_processes import SOURCE, Cluster, environment, until
from distributed.comm import CommClosedError, connect
from tornado.iostream import StreamClosedError

import influential_bandits as ib
from influential_bandits.execution.progress import Progress

pytestmark = [
    pytest.mark.skipif(os.name == "nt", reason="kills processes by POSIX signals"),
    # Dask's own event loop warns when its client is closed in the middle of something.
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]


@pytest.fixture(scope="module")
def dask():
    """Two workers that are started again when they die."""
    with ib.DaskExecution(workers=2) as execution:
        yield execution


@pytest.fixture
def cluster(tmp_path):
    with Cluster(tmp_path) as found:
        yield found


def results(outcomes):
    return {outcome.task: outcome.result for outcome in outcomes if outcome.error is None}


def errors(outcomes):
    return {outcome.task: outcome.error for outcome in outcomes if outcome.error is not None}


# --- the seam ---

LOCAL = {
    "one thread": ib.LocalExecution(1),
    "two threads": ib.LocalExecution(2),
}


@pytest.fixture(params=[*LOCAL, "dask"])
def execution(request):
    return LOCAL.get(request.param) or request.getfixturevalue("dask")


def test_every_task_has_an_outcome(execution):
    assert results(execution.outcomes(work.squared, range(30))) == {n: n * n for n in range(30)}


def test_no_task_is_no_outcome(execution):
    assert list(execution.outcomes(work.squared, [])) == []
    assert list(execution.map(work.squared_alone, [])) == []


def test_parts_come_in_order(execution):
    assert list(execution.map(work.squared_alone, iter(range(40)))) == [n * n for n in range(40)]


def test_tasks_are_taken_when_there_is_room(execution):
    taken = []

    def tasks():
        for n in range(200):
            taken.append(n)
            yield n

    outcomes = execution.outcomes(work.slow, tasks())
    for done in range(1, 4):
        next(outcomes)
        assert len(taken) - done <= 4  # in flight: two for each of two threads
    outcomes.close()


def test_a_poisoned_task_does_not_lose_the_others(execution):
    found = list(execution.outcomes(work.poisoned, range(6)))
    assert results(found) == {0: 0, 1: 1, 2: 2, 4: 4, 5: 5}
    (error,) = errors(found).values()
    assert isinstance(error, ValueError)
    assert str(error) == "three is bad"


def test_an_error_that_cannot_travel_sends_its_words(execution):
    found = errors(execution.outcomes(work.speechless, [1]))
    assert "Speechless: 1 and 2" in f"{type(found[1]).__name__}: {found[1]}"


@pytest.mark.long
def test_a_task_that_kills_its_process_does_not_lose_the_others(dask):
    """Dask tries it on four workers, one after the other, and starts each of them again."""
    found = list(dask.outcomes(work.deadly, range(6)))
    ((task, error),) = errors(found).items()
    assert task == 3
    assert isinstance(error, ib.errors.TaskLost)
    assert results(found) == {n: n for n in range(6) if n != 3}


@pytest.mark.long
def test_workers_of_this_computer_that_nobody_restarts_are_started_again():
    with ib.DaskExecution(workers=1) as execution:
        (nanny,) = execution._cluster.workers.values()
        nanny.auto_restart = False
        (pid,) = execution._client.run(os.getpid).values()
        os.kill(pid, signal.SIGKILL)
        until(lambda: not execution._client.scheduler_info()["workers"], "the end of the worker")
        execution._restart_after = 0.1
        assert list(execution.map(work.squared_alone, range(3))) == [0, 1, 4]


# --- simulate ---

INSTANCES = [ib.random_instance(3, seed) for seed in range(3)]


@pytest.mark.long
@pytest.mark.parametrize(
    ("policy", "more"),
    [
        (ib.InfluentialLCB(), {"seeds": range(500)}),
        (ib.LCB(), {"record": "choices"}),
        (ib.EpsilonGreedy(), {"seeds": range(5), "record": "choices"}),
        (ib.FrankWolfeOracle(), {}),
        (ib.InfluentialLCB(), {"scenario": ib.Scenario(delay=5)}),
    ],
    ids=["lanes", "choices", "random policy", "oracle", "scenario"],
)
def test_simulate_gives_the_same_bits_everywhere(policy, more, dask):
    options = {"seeds": range(20), "noise": ib.GaussianNoise(1.0)} | more
    here = ib.simulate(INSTANCES, policy, 3000, **options, execution=1)
    assert here.counts.sum() > 0
    there = ib.simulate(INSTANCES, policy, 3000, **options, execution=dask)
    assert np.array_equal(here.counts, there.counts)
    if "record" in options:
        assert np.array_equal(here.choices, there.choices)


def test_fading_worlds_bring_their_losses_home(dask):
    world = ib.Instance([[0.5, 0.1], [0.1, 0.5]], [0.0, 0.1], memory=0.9)
    here = ib.simulate(world, ib.LCB(), 2000, ib.GaussianNoise(1.0), seeds=range(3))
    there = ib.simulate(world, ib.LCB(), 2000, ib.GaussianNoise(1.0), range(3), execution=dask)
    assert np.array_equal(here.loss(), there.loss())
    assert (here.loss()[..., -1] > 0).all()


def test_an_error_of_a_run_is_raised_from_the_cluster(dask):
    world = ib.Instance([[0.5, 0.1], [0.1, 0.5]], [0.0, 0.1], memory=0.9)
    with pytest.raises(ib.errors.NotApplicable, match="memory"):
        ib.simulate(world, ib.OptimalOracle(), 100, execution=dask)


def test_progress_reaches_the_end(dask):
    class Chain:
        def __init__(self, n):
            self.n, self.got = n, None

        def steps(self):
            yield 1

        def results(self):
            return self.n

        def accept(self, found):
            self.got = found

    chains, progress = [Chain(n) for n in range(5)], Progress("chains", 500, False)
    dask.run(chains, progress)
    assert [chain.got for chain in chains] == list(range(5))
    assert progress.done == 500


@pytest.mark.parametrize(
    ("options", "mentions"),
    [
        ({"execution": "dask"}, ("execution", "'dask'", "DaskExecution")),
        ({"execution": True}, ("execution", "True", "number of threads")),
    ],
)
def test_an_execution_that_is_none_is_refused(options, mentions, refused):
    with refused(ib.errors.InvalidInput, *mentions):
        ib.simulate(ib.counterexample(), ib.LCB(), 10, **options)


# --- a cluster that was there before ---


@pytest.mark.long
def test_a_worker_that_is_killed_loses_nothing(cluster):
    doomed, _ = cluster.add_worker(), cluster.add_worker()
    with ib.DaskExecution(cluster.address) as execution:
        outcomes = execution.outcomes(work.who, range(60))
        seen = {next(outcomes).result}
        while doomed.pid not in seen:
            seen.add(next(outcomes).result)
        doomed.kill()
        rest = list(outcomes)
    assert all(outcome.error is None for outcome in rest)
    assert rest[-1].result == cluster.workers[1].pid
    assert doomed.wait() == -signal.SIGKILL


@pytest.mark.long
def test_a_worker_that_joins_late_gets_work(cluster, capfd):
    found = []
    with ib.DaskExecution(cluster.address) as execution:
        thread = threading.Thread(
            target=lambda: found.extend(execution.outcomes(work.who, range(80)))
        )
        thread.start()
        said = [""]

        def is_told():
            said[0] += capfd.readouterr().err
            return "waiting for workers" in said[0]

        until(is_told, "a word about workers")
        cluster.add_worker()
        until(lambda: len(found) > 5, "the first worker's results")
        cluster.add_worker()
        thread.join(60)
    assert [outcome.error for outcome in found] == [None] * 80
    assert {outcome.result for outcome in found} == {w.pid for w in cluster.workers}
    assert said[0].count("waiting for workers") == 1
    assert cluster.address in said[0]


def test_a_scheduler_that_goes_away_ends_a_map_too(cluster):
    cluster.add_worker()
    with ib.DaskExecution(cluster.address) as execution:
        parts = execution.map(work.squared_alone, iter(int, 1))  # without end
        next(parts)
        cluster.scheduler.kill()
        with pytest.raises(ib.errors.ClusterError, match="went away"):
            list(parts)


@pytest.mark.parametrize("after", [0.02, 0.2])
def test_a_scheduler_that_is_killed_at_any_moment_is_the_same_clear_error(after, cluster):
    """Among tasks of no length, the client gathers nearly all the time."""
    cluster.add_worker()
    with ib.DaskExecution(cluster.address) as execution:
        outcomes = execution.outcomes(work.squared, iter(int, 1))  # without end
        next(outcomes)
        threading.Timer(after, cluster.scheduler.kill).start()
        with pytest.raises(ib.errors.ClusterLost, match=f"at {cluster.address} went away"):
            for _ in outcomes:
                pass


GOES_AWAY = [
    asyncio.CancelledError(),
    concurrent.futures.CancelledError("scheduler-connection-lost"),
    distributed.client.FutureCancelledError("key", "scheduler-connection-lost"),
    CommClosedError("in <TCP (closed)>"),
    StreamClosedError(),
    TimeoutError("timed out"),
    ConnectionResetError(104, "Connection reset by peer"),
    OSError("Timed out trying to connect"),
]
FALLS_APART = [
    RuntimeError("IOLoop is closed"),
    UnboundLocalError("cannot access local variable 'result'"),
    AttributeError("'NoneType' object has no attribute 'send'"),
    KeyError("status"),
    AssertionError(),
]


@pytest.mark.parametrize("call", ["gather", "submit", "scheduler_info"])
@pytest.mark.parametrize("error", [*GOES_AWAY, *FALLS_APART], ids=repr)
def test_whatever_a_client_says_when_its_scheduler_dies_is_one_error(
    error, call, dask, monkeypatch
):
    """Dask's errors race with its knowledge of what has happened."""
    execution = copy.copy(dask)
    execution._client = Losing(dask._client, call, error, known=error in GOES_AWAY)
    execution._looked = -10.0
    with pytest.raises(ib.errors.ClusterLost, match="went away"):
        list(execution.outcomes(work.squared, range(3)))
    assert results(dask.outcomes(work.squared, range(3))) == {0: 0, 1: 1, 2: 4}


class Losing:
    """A client of which one call fails; it knows at once that its scheduler is gone, or later."""

    def __init__(self, client, call, error, known):
        self._inner, self._call, self._error = client, call, error
        self._lost_at = np.inf
        self._known = known

    @property
    def status(self):
        return "connecting" if time.monotonic() > self._lost_at else "running"

    def __getattr__(self, name):
        if name != self._call:
            return getattr(self._inner, name)

        def fail(*_, **__):
            if not self._known:
                self._lost_at = time.monotonic() + 0.2
            raise self._error

        return fail


def test_an_error_of_a_task_is_not_taken_for_a_scheduler_that_is_gone(dask):
    with pytest.raises(ConnectionResetError, match="of the task"):
        list(dask.map(work.disconnected, [1]))
    assert results(dask.outcomes(work.squared, [3])) == {3: 9}


async def knock(address, arguments):
    """Ask a server of Dask who it is, as any client does first."""
    comm = await connect(address, timeout=2.0, **arguments)
    try:
        await comm.write({"op": "identity", "reply": True})
        return await comm.read()
    finally:
        comm.abort()


def test_nobody_else_can_connect_to_a_cluster_of_this_computer(dask):
    """Whoever may submit tasks may run any code as this user."""
    workers = dask._client.scheduler_info()["workers"]
    addresses = [dask._cluster.scheduler_address, *workers]
    addresses += [worker["nanny"] for worker in workers.values()]
    assert len(addresses) == 5
    stranger = distributed.Security.temporary().get_connection_args("client")
    ours = dask._client.security.get_connection_args("client")
    for address in addresses:
        assert address.startswith("tls://127.0.0.1:")
        with pytest.raises(OSError):  # noqa: PT011 - which one depends on TLS
            asyncio.run(knock(address.replace("tls", "tcp"), {}))
        with pytest.raises(OSError):  # noqa: PT011 - the same
            asyncio.run(knock(address, stranger))
        assert asyncio.run(knock(address, ours))
    assert results(dask.outcomes(work.squared, [3])) == {3: 9}


def test_a_scheduler_file_is_as_good_as_an_address(cluster):
    cluster.add_worker()
    with ib.DaskExecution(str(cluster.file)) as execution:
        assert results(execution.outcomes(work.squared, [2])) == {2: 4}


def test_a_worker_with_other_code_is_refused(cluster, tmp_path):
    shutil.copytree(SOURCE, tmp_path / "other", ignore=shutil.ignore_patterns("__pycache__"))
    changed = tmp_path / "other" / "influential_bandits" / "numerics" / "streams.py"
    changed.write_text(changed.read_text(encoding="utf-8") + "# other\n", encoding="utf-8")
    cluster.add_worker(paths=[tmp_path / "other"])
    with (
        ib.DaskExecution(cluster.address) as execution,
        pytest.raises(ib.errors.ClusterError, match="another version of influential-bandits"),
    ):
        list(execution.outcomes(work.squared, [2]))


@pytest.mark.parametrize(
    ("address", "kind", "mentions"),
    [
        ("tcp://127.0.0.1:1", "ClusterError", ("127.0.0.1:1", "dask scheduler")),
        ("nonsense://127.0.0.1:1", "InvalidInput", ("nonsense://127.0.0.1:1", "tcp://host:8786")),
        ("127.0.0.1:notaport", "InvalidInput", ("127.0.0.1:notaport", "tcp://host:8786")),
        ("nowhere.json", "MissingFile", ("'nowhere.json'", "tcp://host:8786", "scheduler file")),
    ],
)
def test_an_address_without_scheduler_gets_one_sentence(address, kind, mentions, refused):
    with refused(getattr(ib.errors, kind), *mentions):
        ib.DaskExecution(address, timeout=1.0)


def test_workers_are_for_a_cluster_of_this_computer(refused):
    with refused(ib.errors.InvalidInput, "workers", "scheduler"):
        ib.DaskExecution("tcp://127.0.0.1:1", workers=2)


# --- memory ---

PEAK = """
import resource, sys, time
import cluster_work as work, influential_bandits as ib
if __name__ == "__main__":
    with ib.DaskExecution(workers=1) as execution:
        number = sum(1 for _ in execution.outcomes(work.megabyte, range(int(sys.argv[1]))))
        for _ in range(50):  # they are told to forget, but not waited for
            left = execution._client.run(lambda dask_worker: len(dask_worker.data))
            if not any(left.values()):
                break
            time.sleep(0.1)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(__import__("json").dumps({"tasks": number, "peak": peak, "left": sum(left.values())}))
"""


@pytest.mark.long
def test_the_memory_of_the_client_does_not_grow_with_the_number_of_tasks(tmp_path):
    """Results of 300 more tasks take 300 MB; a few are held at a time, whatever their number."""
    script = tmp_path / "peak.py"
    script.write_text(PEAK, encoding="utf-8")
    found = []
    for tasks in (60, 360):
        done = subprocess.run(
            [sys.executable, script, str(tasks)],
            capture_output=True,
            text=True,
            check=True,
            env=environment(),
        )
        found.append(json.loads(done.stdout.splitlines()[-1]))
    assert [report["tasks"] for report in found] == [60, 360]
    assert [report["left"] for report in found] == [0, 0]  # workers forget what was taken
    assert found[1]["peak"] - found[0]["peak"] < 75_000  # kilobytes
