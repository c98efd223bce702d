"""How many durable decisions a second, beside an endpoint of the same stack that only echoes."""

import asyncio
import time
from dataclasses import dataclass

import numpy as np
import uvloop

from benchmarks.live.wire import Wire, request_bytes

CONNECTIONS = 64
INSTANCES = 2000
ARMS = [f"arm {number}" for number in range(20)]
SETTINGS = {
    "own": {"arms": ARMS, "policy": "InfluentialLCB"},
    "shared": {"arms": ARMS, "state": "shared"},
}


@dataclass(frozen=True)
class Load:
    """What a load has measured."""

    answers: int
    seconds: float
    server_cpu: float  # seconds
    client_cpu: float
    latencies: np.ndarray  # seconds
    refused: int

    @property
    def rate(self):
        return self.answers / self.seconds

    @property
    def cpu_microseconds(self):
        return 1e6 * self.server_cpu / self.answers

    def quantile(self, share):
        """Return a quantile of the time to an answer, in milliseconds."""
        return 1e3 * float(np.quantile(self.latencies, share))

    def __str__(self):
        return (
            f"{self.rate:,.0f}/s, p50 {self.quantile(0.5):.1f} ms, p99 {self.quantile(0.99):.1f} "
            f"ms, {self.cpu_microseconds:.0f} µs CPU each (client "
            f"{1e6 * self.client_cpu / self.answers:.0f}), {self.refused} refused"
        )


def label(number):
    """Return the label of an instance."""
    return f"i{number:06d}"


def decisions(experiment, key, prefix="d"):
    """Return a function that makes the bytes of the next request, each with an id of its own."""
    path = f"/v1/experiments/{experiment}/decisions"
    sample = "d" * 12
    whole = [
        request_bytes(path, {"instance": label(number), "decision_id": sample}, key)
        for number in range(INSTANCES)
    ]
    parts = [request.split(sample.encode()) for request in whole]
    draw = np.random.default_rng(0).integers(INSTANCES, size=100_000).tolist()
    count = 0

    def make():
        nonlocal count
        count += 1
        before, after = parts[draw[count % 100_000]]
        return b"%b%b%011d%b" % (before, prefix.encode(), count, after)

    return make


def press(service, make, seconds, connections=CONNECTIONS):
    """Keep a service busy over many connections, each with one request under way."""
    return uvloop.run(_press(service, make, seconds, connections))


async def _press(service, make, seconds, connections):
    loop = asyncio.get_running_loop()
    clock = time.perf_counter
    sent, latencies, wrong = {}, [], []
    until = clock() + seconds
    left = connections
    done = loop.create_future()

    def finish():
        nonlocal left
        left -= 1
        if left == 0 and not done.done():
            done.set_result(None)

    def take(wire, status, _, content):
        now = clock()
        if status == 200:
            latencies.append(now - sent[wire])
        else:
            wrong.append((status, content))
        if now < until:
            sent[wire] = now
            wire.transport.write(make())
        else:
            finish()

    def lose(_, error):
        if not done.done():
            done.set_exception(RuntimeError(f"a connection was lost: {error}"))

    wires = []
    for _ in range(connections):
        _, wire = await loop.create_connection(lambda: Wire(take, lose), "127.0.0.1", service.port)
        wires.append(wire)
    cpu, own, start = service.cpu_seconds, time.process_time(), clock()
    until = start + seconds
    for wire in wires:
        sent[wire] = clock()
        wire.transport.write(make())
    await done
    taken = clock() - start
    used, mine = service.cpu_seconds - cpu, time.process_time() - own
    for wire in wires:
        wire.transport.abort()
    if wrong:
        print(wrong[0])
    return Load(len(latencies), taken, used, mine, np.array(latencies), len(wrong))


def make_echo():
    """Return an application of the same stack that gives back what it is sent."""
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    async def echo(request: Request) -> Response:
        return Response(await request.body(), media_type="application/json")

    path = "/v1/experiments/{experiment}/decisions"
    return Starlette(routes=[Route(path, echo, methods=["POST"])])
