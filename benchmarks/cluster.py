"""Pieces on a Dask cluster of this computer: what each station takes, scaling, and the formula.

The cluster is real: a scheduler and workers of one thread each, every one a process of its own, on
the loopback address. Client and scheduler have to share the cores with the workers, which they
would not on a cluster; the load average of the machine stands in the first row.
"""

import os
import statistics
import tempfile
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import numpy as np

import influential_bandits as ib
from benchmarks import whole_log
from benchmarks.scheduler import Costs, makespan, saturation, smallest_piece
from benchmarks.timing import Row, fastest
from influential_bandits.files import write_atomically
from influential_bandits.learning.statistics.pooled_sums import pooled_gram
from influential_bandits.learning.statistics.reduction import single_threaded_algebra

NOISE = ib.GaussianNoise(1.0)
INSTANCES = 10  # of a piece
MEGABYTE = 10**6
SHARES = (0.0, 0.1, 0.5, 0.9, 1.0)
BIG = {"instances": 10**5, "horizon": 10**7}
LOG_ROWS = 32_000_000
LOG_PART = 100_000  # rows of a piece


class Task(NamedTuple):
    """One piece: instances with these seeds, played for as long."""

    first: int
    horizon: int


def rows(quick):
    if find_spec("distributed") is None:
        yield Row("cluster", None, "", note="not measured: distributed is not installed")
        return
    yield Row("load average before", os.getloadavg()[0], "", note=f"{os.cpu_count()} cores")
    with tempfile.TemporaryDirectory() as folder:
        measured = Measured(quick, Path(folder))
        yield from measured.overheads()
        yield from measured.work()
        yield from measured.scaling()
        yield from measured.against_formula()
    yield from limits(measured.costs)
    yield from examples(measured.costs, measured.ns_per_round, measured.per_megabyte)


@contextmanager
def started(workers, threads=1) -> Iterator:
    """Start a scheduler and workers, each a process; yield an execution and a client beside it."""
    from distributed import Client
    from distributed.deploy.subprocess import SubprocessCluster

    with (
        SubprocessCluster(
            host="127.0.0.1",
            n_workers=workers,
            threads_per_worker=threads,
            scheduler_kwargs={"dashboard": False, "dashboard_address": "127.0.0.1:0"},
        ) as cluster,
        Client(cluster) as client,
    ):
        client.wait_for_workers(workers)
        with ib.DaskExecution(cluster.scheduler_address) as execution:
            yield execution, client


def results(execution, work, tasks):
    """Yield the results of tasks as they finish; none may fail."""
    for outcome in execution.outcomes(work, tasks):
        if outcome.error is not None:
            raise outcome.error
        yield outcome.result


# What the workers run.


def nothing(task, threads=1):
    return task


def played(task, threads=1):
    """Return the seconds that a piece took, and its rows."""
    start = time.perf_counter()
    instances = [
        ib.random_instance(n_arms=3, seed=task.first + number) for number in range(INSTANCES)
    ]
    run = ib.simulate(
        instances, ib.InfluentialLCB(), task.horizon, NOISE, execution=threads, progress=False
    )
    regret = run.regret()[:, 0]
    rows = {
        "instance": np.repeat(np.arange(INSTANCES) + task.first, len(run.checkpoints)),
        "horizon": np.tile(run.checkpoints, INSTANCES),
        "regret": regret.ravel(),
    }
    return time.perf_counter() - start, rows


def random_bytes(size):
    return np.random.default_rng(0).bytes(size)


def length(content):
    return len(content)


def processor_time():
    return time.process_time()


def write(path, rows):
    """Have rows safely on disk, as the studies keep a finished piece."""
    import pyarrow as pa
    from pyarrow import parquet

    table = pa.table(rows)
    write_atomically(path, lambda temporary: parquet.write_table(table, temporary))


def timed(function, *arguments):
    start = time.perf_counter()
    function(*arguments)
    return time.perf_counter() - start


class Measured:
    """Everything that is measured, kept for the model."""

    def __init__(self, quick, folder):
        self.quick, self.folder = quick, folder
        self.horizon = 10**5 if quick else 10**6
        self.repetitions = 1 if quick else 3
        self.pieces = 8 if quick else 20
        # (horizon, pieces, workers): [(seconds, times of pieces, share of cores others took), …]
        self.runs = {}

    def overheads(self):
        """Stations of a piece that has no work in it."""
        self.sample = played(Task(0, 10**4))[1]  # and the cache has what workers load
        trips = 50 if self.quick else 300
        with started(1) as (execution, client):
            one = self.throughput(execution)
            round_trip = statistics.median(
                timed(lambda: client.submit(nothing, 0, pure=False).result()) for _ in range(trips)
            )
            submit = self.submission(client)
            there, back = self.transfer(client)
            self.per_megabyte = there
            start, load = self.start(client)
        with started(2) as (execution, _):
            two = self.throughput(execution)
        with ib.DaskExecution(workers=2) as execution:
            here = self.throughput(execution)
        path = self.folder / "piece.parquet"
        written = statistics.median(timed(write, path, self.sample) for _ in range(trips))
        # As wide a window as on many workers: the client is never without a result to take.
        with started(2, threads=32) as (execution, client):
            saturated, shares = self.saturated(execution, client)
        self.costs = Costs(
            submit=submit,
            take=saturated - submit,
            write=written,
            schedule=shares["scheduler"],
            worker=shares["workers"],
            latency=max(0.0, (round_trip - submit - saturated) / 4),
            startup=start + load,
        )
        size = path.stat().st_size
        note = "median; messages are gathered for some ms before they are sent"
        yield Row("round trip of an empty task", 1e3 * round_trip, "ms", note=note)
        note = "one thread each; the client waits for most of the time"
        yield Row("empty tasks, 1 worker", one, "tasks/s", note=note)
        yield Row("empty tasks, 2 workers", two, "tasks/s", note="the same")
        note = "--engine dask without an address"
        yield Row("the same, scheduler in the client's process", here, "tasks/s", note=note)
        note = "2 workers of 32 threads: the client is never without a result to take"
        yield Row("empty tasks, 128 in flight", 1 / saturated, "tasks/s", note=note)
        yield Row("client: submit", 1e3 * self.costs.submit, "ms/piece")
        note = "what is left of the time with 128 in flight"
        yield Row("client: take a result", 1e3 * self.costs.take, "ms/piece", note=note)
        note = (
            "of submitting and taking, the same run; the rest is waiting, here for a core as well"
        )
        yield Row("client: processor time", 1e3 * shares["client"], "ms/piece", note=note)
        note = f"{size:,} bytes of Parquet, on disk before it is named; median"
        yield Row("client: write a result", 1e3 * written, "ms/piece", note=note)
        note = "processor time of its process with 128 in flight"
        yield Row("scheduler", 1e3 * self.costs.schedule, "ms/piece", note=note)
        yield Row("worker: around the work", 1e3 * self.costs.worker, "ms/piece", note=note)
        yield Row(
            "latency of a message",
            1e3 * self.costs.latency,
            "ms",
            note="a quarter of the round trip less the client",
        )
        yield Row("worker: process until registered", start, "s", note="median")
        note = "first piece less the second, compiled code from the cache"
        yield Row("worker: import and load", load, "s", note=note)
        yield Row("to a worker, in the task", 1e3 * there, "ms/MB", note="8 MB")
        yield Row("from a worker, as a result", 1e3 * back, "ms/MB", note="8 MB")

    def throughput(self, execution):
        count = 200 if self.quick else 1_000
        list(results(execution, nothing, range(50)))
        return count / timed(lambda: list(results(execution, nothing, range(count))))

    def saturated(self, execution, client):
        """Return seconds per piece, and processor seconds per piece of everybody."""
        count = 300 if self.quick else 2_000
        list(results(execution, nothing, range(200)))
        before = self.processors(client)
        seconds = timed(lambda: list(results(execution, nothing, range(count)))) / count
        after = self.processors(client)
        return seconds, {name: (after[name] - before[name]) / count for name in after}

    def processors(self, client):
        return {
            "client": processor_time(),
            "scheduler": client.run_on_scheduler(processor_time),
            "workers": sum(client.run(processor_time).values()),
        }

    def submission(self, client):
        futures = []
        seconds = timed(
            lambda: futures.extend(client.submit(nothing, n, pure=False) for n in range(200))
        )
        client.gather(futures)
        return seconds / 200

    def transfer(self, client):
        """Return seconds per megabyte to a worker and back, less those of an empty task."""
        size = 8 * MEGABYTE
        content = random_bytes(size)
        jobs = {
            "empty": lambda: client.submit(nothing, 0, pure=False).result(),
            "there": lambda: client.submit(length, content, pure=False).result(),
            "back": lambda: client.submit(random_bytes, size, pure=False).result(),
        }
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that the graph is large is what is measured
            times, _ = fastest(jobs, 3 if self.quick else 10)
        making = min(timed(random_bytes, size) for _ in range(5))
        megabytes = size / MEGABYTE
        return (
            (times["there"] - times["empty"]) / megabytes,
            max(0.0, times["back"] - times["empty"] - making) / megabytes,
        )

    def start(self, client):
        """Return how long a further worker takes to join, and then to be ready for pieces."""
        joined, loaded = [], []
        for _ in range(1 if self.quick else 3):
            before = set(client.nthreads())
            start = time.perf_counter()
            client.cluster.scale(2)
            while len(client.nthreads()) < 2:
                time.sleep(0.01)
            joined.append(time.perf_counter() - start)
            (new,) = set(client.nthreads()) - before
            first, second = (timed(played_there, client, new) for _ in range(2))
            loaded.append(first - second)
            client.cluster.scale(1)
            while len(client.nthreads()) > 1:
                time.sleep(0.01)
        return statistics.median(joined), statistics.median(loaded)

    def work(self):
        """How long real pieces take on one worker, and how much that varies."""
        tasks = self.tasks(2 * self.pieces, self.horizon)
        with started(1) as (execution, client):
            warm(client)
            times = [seconds for seconds, _ in results(execution, played, tasks)]
        self.quantiles = dict(zip(SHARES, np.quantile(times, SHARES).tolist(), strict=True))
        self.ns_per_round = 1e9 * statistics.mean(times) / (INSTANCES * self.horizon)
        what = f"piece of {INSTANCES} instances, K = 3, T = {self.horizon:,}"
        note = f"{len(times)} pieces on one worker; {self.ns_per_round:.3g} ns/round on average"
        for share, seconds in self.quantiles.items():
            yield Row(f"{what}: quantile {share:g}", seconds, "s", note=note)
            note = ""

    def tasks(self, count, horizon):
        return [Task(INSTANCES * number, horizon) for number in range(count)]

    def run(self, workers, count, horizon):
        """Work off pieces and write each; keep the seconds, and those of each piece."""
        with started(workers) as (execution, client):
            warm(client)
            before = busy(), sum(self.processors(client).values())
            span, times = self.worked_off(execution, count, horizon)
            after = busy(), sum(self.processors(client).values())
        others = after[0] - before[0] - (after[1] - before[1])
        share = max(0.0, others / (span * os.cpu_count()))
        self.runs.setdefault((horizon, count, workers), []).append((span, times, share))

    def worked_off(self, execution, count, horizon):
        times = []
        start = time.perf_counter()
        for number, (seconds, rows) in enumerate(
            results(execution, played, self.tasks(count, horizon))
        ):
            times.append(seconds)
            write(self.folder / f"{number}.parquet", rows)
        return time.perf_counter() - start, times

    def bare(self, count):
        """The same pieces in two processes without Dask, which have loaded everything before."""
        with ProcessPoolExecutor(2, get_context("spawn")) as pool:
            list(pool.map(played, [Task(0, 10**5)] * 4))
            start = time.perf_counter()
            for number, (_, rows) in enumerate(pool.map(played, self.tasks(count, self.horizon))):
                write(self.folder / f"{number}.parquet", rows)
            return time.perf_counter() - start

    def scaling(self):
        """Fixed work on one worker and on two, and work that grows with the workers."""
        n, alone, both = self.pieces, [], []
        small = (10**4, 100 if self.quick else 400)
        for _ in range(self.repetitions):
            for workers, count in ((1, 2 * n), (2, 2 * n), (1, n)):
                self.run(workers, count, self.horizon)
            for workers in (1, 2):
                self.run(workers, small[1], small[0])
            alone.append(self.worked_off(ib.LocalExecution(threads=1), 2 * n, self.horizon)[0])
            both.append(self.bare(2 * n))
        self.best = {key: min(runs) for key, runs in self.runs.items()}
        one, two, half = (
            self.best[self.horizon, count, workers][0]
            for count, workers in ((2 * n, 1), (2 * n, 2), (n, 1))
        )
        alone, both = min(alone), min(both)
        load = f"load average {os.getloadavg()[0]:.2f}"
        yield Row(f"{2 * n} pieces, 1 thread, no Dask", alone, "s", note=load)
        yield faster(f"{2 * n} pieces, 2 processes, no Dask", both, alone, "1 thread, no Dask")
        said = spread(self.runs[self.horizon, 2 * n, 1])
        peer = "1 thread, no Dask"
        yield Row(
            f"strong: {2 * n} pieces, 1 worker", one, "s", peer, alone, one / alone, note=said
        )
        said = spread(self.runs[self.horizon, 2 * n, 2])
        yield faster(f"strong: {2 * n} pieces, 2 workers", two, one, "1 worker", said)
        peer = "2 processes, no Dask"
        yield Row(f"strong: {2 * n} pieces, 2 workers", two, "s", peer, both, two / both)
        said = f"efficiency {half / two:.0%}; 1 worker, {spread(self.runs[self.horizon, n, 1])}"
        peer = f"{n} pieces, 1 worker"
        yield Row(f"weak: {2 * n} pieces, 2 workers", two, "s", peer, half, two / half, note=said)
        one, two = (self.best[*small, workers][0] for workers in (1, 2))
        what = f"strong: {small[1]} small pieces, 2 workers"
        mean = statistics.mean(self.best[*small, 1][1])
        yield faster(what, two, one, "1 worker", f"{1e3 * mean:.3g} ms of work each")

    def against_formula(self):
        """Predict the measured seconds."""
        warm_costs = replace(self.costs, startup=0.0)
        for (horizon, count, workers), (span, times, _) in self.best.items():
            _, alone, _ = max(
                (run for key, run in self.best.items() if key[0] == horizon and key[2] == 1),
                key=lambda run: len(run[1]),
            )
            given = {"its own times": times}
            if workers > 1:
                given = {"times of 1 worker": alone} | given
            for said, seconds in given.items():
                mean = statistics.mean(seconds)
                formula = makespan(count, mean, workers, warm_costs, np.std(seconds))
                yield Row(
                    f"measured: {count} pieces, T = {horizon:,}, workers: {workers}",
                    span,
                    "s",
                    f"formula, {said}",
                    formula,
                    span / formula,
                    note=f"{1e3 * mean:.3g} ms of work each",
                )


def busy():
    """Return the seconds that all cores together have worked since the machine started."""
    try:
        times = Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()[1:]
    except OSError:
        return float("nan")  # not Linux
    user, nice, system, _idle, _waiting, interrupts, soft = map(int, times[:7])
    return (user + nice + system + interrupts + soft) / os.sysconf("SC_CLK_TCK")


def warm(client):
    """Let every worker load the compiled code."""
    for worker in client.nthreads():
        played_there(client, worker)


def played_there(client, worker):
    client.submit(played, Task(0, 10**4), workers=[worker], pure=False).result()


def faster(what, ours, base, named, said=""):
    note = f"efficiency {base / ours / 2:.0%}" + (f"; {said}" if said else "")
    return Row(what, ours, "s", named, base, ours / base, note=note)


def spread(runs):
    spans = sorted(span for span, _, _ in runs)
    said = f"runs: {len(spans)}, {spans[0]:.3g} to {spans[-1]:.3g} s"
    return f"{said}; in the shortest, other programs took {min(runs)[2]:.0%} of the cores"


# The formula.


def limits(costs):
    """What one client can serve."""
    slow = "client" if costs.client >= costs.schedule else "scheduler"
    note = f"the slower of both, the {slow}: {1e3 * costs.serial:.3g} ms a piece"
    yield Row("pieces that one client and scheduler can serve", 1 / costs.serial, "/s", note=note)
    for seconds in (1.0, 10.0, 100.0):
        cores = saturation(seconds, costs)
        yield Row(f"cores that pieces of {seconds:g} s keep busy, at most", cores, "cores")
    for cores in (100, 1_000, 10_000):
        yield Row(f"smallest piece for {cores:,} cores", smallest_piece(cores, costs), "s")


def examples(costs, ns_per_round, per_megabyte):
    """Time of work that is too much for one computer, and of work that is not."""
    each = ns_per_round * 1e-9 * BIG["horizon"]
    what = "10^5 instances × 10^7 rounds, K = 3"
    note = f"{ns_per_round:.3g} ns/round, measured above"
    yield Row(f"{what}: work", each * BIG["instances"] / 3600, "core-hours", note=note)
    for instances in (1, 10, 100):
        pieces = BIG["instances"] // instances
        yield predicted(f"{what}, {instances} a piece", pieces, each * instances, costs)
    per_row, row_bytes = row_costs()
    pieces = LOG_ROWS // LOG_PART
    seconds = LOG_PART * per_row
    megabytes = LOG_PART * row_bytes / MEGABYTE
    sending = replace(costs, submit=costs.submit + per_megabyte * megabytes)
    what = "one pass over 32 million rows, K = 20"
    note = f"{1e9 * per_row:.3g} ns a row, measured on one core"
    yield Row(f"{what}: work", LOG_ROWS * per_row, "core-seconds", note=note)
    yield predicted(f"{what}, rows sent along", pieces, seconds, sending, 10)
    yield predicted(f"{what}, rows read by workers", pieces, seconds, costs, 10)


def predicted(what, pieces, seconds, costs, cores=1_000):
    formula = makespan(pieces, seconds, cores, costs)
    share = pieces * seconds / (cores * formula)
    note = f"{pieces:,} pieces of {seconds:.3g} s; efficiency {share:.0%}"
    return Row(f"{what}, {cores:,} cores", formula, "s", note=note)


def row_costs():
    """Return seconds and bytes that one row of a log of MovieLens' kind takes in a pooled fit."""
    log = ib.data.synthetic_log(1_000, **whole_log.SETTINGS)
    plan = whole_log.design(np.zeros(whole_log.ARMS))
    with single_threaded_algebra():
        times, _ = fastest({"pass": lambda: pooled_gram([log], plan, whole_log.EFFECTS, 1)}, 3)
    columns = (log.arm, log.item, log.loss, log.time)
    return times["pass"] / len(log), sum(each.itemsize for each in columns if each is not None)
