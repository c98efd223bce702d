"""Faults under load: kills, a database that restarts, disks that fail or are full."""

import asyncio
import os
import random
import resource
import signal
import subprocess
import time

from benchmarks.live.auditing import audit
from benchmarks.live.hammering import Crowd
from benchmarks.live.processes import ServiceProcess, prepare

# States are kept and evicted all the time, so that a fault meets that, too.
SMALL = {"events_per_snapshot": 3, "events_per_shared_snapshot": 40, "members_held": 20}


def hammer(store, folder, fault, *, services=1, seed=0, connections=16, **limits):
    """Play against services of a store while a fault happens; return what was found afterwards.

    Parameters
    ----------
    fault : async function (services, draw, record)
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
            await crowd.run(fault(running, random.Random(seed), crowd.record))

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


async def progress(record, draw, most=40):
    """Wait until a random number of further requests was acknowledged, and a little longer."""
    goal = record.acknowledged + draw.randrange(most)
    await reach(lambda: record.acknowledged >= goal)
    await asyncio.sleep(draw.uniform(0.0, 0.05))


async def trouble(record, draw):
    """Wait until a client was told of a fault, and a little longer."""
    before = record.statuses[503]
    await reach(lambda: record.statuses[503] > before)
    await asyncio.sleep(draw.uniform(0.0, 0.3))


async def reach(condition, seconds=20.0):
    until = time.monotonic() + seconds
    while not condition() and time.monotonic() < until:
        await asyncio.sleep(0.001)


def kills(times):
    """Kill one service after another, at random moments, and start it again."""

    async def fault(services, draw, record):
        for _ in range(times):
            await progress(record, draw)
            service = draw.choice(services)
            service.kill()
            await asyncio.to_thread(service.start)
        await progress(record, draw)

    return fault


def restarts(server, times):
    """End PostgreSQL as if it had been killed, at random moments, and start it again."""

    async def fault(_, draw, record):
        for _ in range(times):
            await progress(record, draw)
            await asyncio.to_thread(server.stop)
            await trouble(record, draw)
            await asyncio.to_thread(server.start)
        await progress(record, draw)

    return fault


def failing_disk(times, processes, errors="fsync,fdatasync:error=EIO"):
    """Let system calls of processes fail for a while, again and again.

    Parameters
    ----------
    processes : function
        From the services to the identifiers of the processes.
    errors : str
        What fails and how, in strace's words.
    """

    async def fault(services, draw, record):
        for _ in range(times):
            await progress(record, draw)
            command = ["strace", "-f", "-qq", "-o", os.devnull, f"--inject={errors}"]
            for process in processes(services):
                command += ["-p", str(process)]
            tracer = subprocess.Popen(command, stdin=subprocess.DEVNULL)
            await trouble(record, draw)
            tracer.send_signal(signal.SIGINT)
            await asyncio.to_thread(tracer.wait)
        await progress(record, draw)

    return fault


def full_disk(times, folder):
    """Fill the disk of a folder for a while, again and again."""

    async def fault(_, draw, record):
        for _ in range(times):
            await progress(record, draw)
            filler = folder / "filler"
            with filler.open("wb", buffering=0) as file:
                try:
                    while file.write(bytes(4096)) == 4096:
                        pass
                except OSError:
                    pass
            await trouble(record, draw)
            filler.unlink()
        await progress(record, draw)

    return fault


def small_files(times, size):
    """Let the services' files not grow beyond a size for a while, again and again."""
    unlimited = resource.RLIM_INFINITY

    async def fault(services, draw, record):
        for _ in range(times):
            await progress(record, draw)
            for service in services:
                resource.prlimit(service.pid, resource.RLIMIT_FSIZE, (size, unlimited))
            await trouble(record, draw)
            for service in services:
                resource.prlimit(service.pid, resource.RLIMIT_FSIZE, (unlimited, unlimited))
        await progress(record, draw)

    return fault
