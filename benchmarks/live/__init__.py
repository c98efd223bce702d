"""The live service under load; ``python -m benchmarks.live faults`` has it under faults."""

import asyncio
import statistics
import tempfile
from contextlib import ExitStack
from pathlib import Path

from benchmarks.timing import Bar, Row

__all__ = ["rows"]


def rows(quick):
    """Yield durable decisions a second, beside an endpoint of the same stack that only echoes.

    Services and the echo take turns, and figures are medians: the disk is everybody's.
    """
    from benchmarks.live.load import SETTINGS, decisions, press
    from benchmarks.live.postgres import PostgresServer, find_program
    from benchmarks.live.processes import ECHO, ServiceProcess, prepare

    seconds, turns = (2.0, 2) if quick else (6.0, 5)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        echo = stack.enter_context(ServiceProcess(ECHO, folder / "echo"))
        stores = {"SQLite": str(folder / "s.db")}
        if find_program("initdb") is not None:
            stores["PostgreSQL"] = stack.enter_context(PostgresServer()).new_database()
        services = {}
        for name, store in stores.items():
            key = prepare(store)
            services[name] = stack.enter_context(ServiceProcess(store, folder / name)), key
            asyncio.run(_create(*services[name], SETTINGS))
        found = {}
        for turn in range(turns):
            load = press(echo, decisions("own", "no key"), seconds)
            found.setdefault(("echo", ""), []).append(load)
            for name, (service, key) in services.items():
                for kind in SETTINGS:
                    load = press(service, decisions(kind, key, "abcdefgh"[turn]), seconds)
                    found.setdefault((name, kind), []).append(load)
    yield from _compare(found)


async def _create(service, key, settings):
    from benchmarks.live.load import INSTANCES, label
    from benchmarks.live.wire import Client

    client = Client(service.port, key)
    for name, given in settings.items():
        body = {"name": name, "settings": given}
        status, _, answer = await client.ask("/v1/experiments", body, seconds=600)
        assert status == 201, answer
        items = [
            {"path": f"/experiments/{name}/decisions", "body": {"instance": instance}}
            for instance in map(label, range(INSTANCES))
        ]
        for start in range(0, INSTANCES, 500):  # all instances are known when time is taken
            await client.ask("/v1/batch", {"requests": items[start : start + 500]}, seconds=600)
    client.close()


def _compare(found):
    """Yield the rows of all loads."""
    rates = {key: statistics.median(load.rate for load in loads) for key, loads in found.items()}
    costs = {
        key: statistics.median(load.cpu_microseconds for load in loads)
        for key, loads in found.items()
    }
    echo = "echo", ""
    for key, loads in found.items():
        slowest = statistics.median(load.quantile(0.99) for load in loads)
        note = f"median; p99 {slowest:.0f} ms, {costs[key]:.0f} µs CPU"
        if key == echo:
            continue
        store, kind = key
        what = f"decisions, {kind} state, {store}"
        if store == "SQLite":
            bar = Bar("≥", 0.4, "× its rate")
            ratio = rates[key] / rates[echo]
            yield Row(what, rates[key], "/s", "echo", rates[echo], ratio, bar, note)
            yield Row(
                f"{what}: CPU", costs[key], "µs", "echo", costs[echo], costs[echo] / costs[key]
            )
        else:
            bar = Bar("≥", 0.5, "× its rate")
            other = rates["SQLite", kind]
            yield Row(what, rates[key], "/s", "SQLite", other, rates[key] / other, bar, note)
