"""Faults under load: kills, a database that restarts, disks that fail or are full."""

import asyncio
import random

from benchmarks.live.auditing import audit
from benchmarks.live.hammering import Crowd
from benchmarks.live.processes import ServiceProcess, prepare

SMALL = {"events_per_snapshot": 3, "events_per_shared_snapshot": 40, "state_bytes": 1}


def hammer(store, folder, fault, *, services=1, seed=0, connections=16, **limits):
    """Play against services of a store while a fault happens; return what was found afterwards.

    Parameters
    ----------
    fault : async function (services, draw)
        What happens meanwhile; it leaves the services running.
    """
    key = prepare(store)
    limits = SMALL | limits
    running = [ServiceProcess(store, folder / f"log{i}", **limits) for i in range(services)]
    try:
        for service in running:
            service.start()
        crowd = Crowd([service.port for service in running], key, connections, seed)

        async def play():
            await crowd.create()
            await crowd.run(fault(running, random.Random(seed)))

        asyncio.run(play())
        for service in running:
            if service.stop() not in (0, -15):  # the server ends by the signal that it was sent
                crowd.record.faults.append("the service did not end well")
    finally:
        for service in running:
            if service.is_alive():
                service.kill()
    verdict = audit(store, crowd.record)
    for service in running:
        text = service.log.read_text()
        for sign in ("Traceback", "comes out"):
            if sign in text:
                verdict.wrong.append(f"{sign} in the log: {text[-1500:]}")
    return verdict, crowd.record


def kills(times, longest=0.5):
    """Kill one service after another, at random moments, and start it again."""

    async def fault(services, draw):
        for _ in range(times):
            await asyncio.sleep(draw.uniform(0.0, longest))
            service = draw.choice(services)
            service.kill()
            await asyncio.to_thread(service.start)
        await asyncio.sleep(0.3)

    return fault
