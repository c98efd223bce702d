"""A store that knows very many instances: how long a service takes to start, and its memory."""

import asyncio
import tempfile
import time
from pathlib import Path

import msgspec
import numpy as np

from benchmarks.live.load import SETTINGS
from benchmarks.live.processes import ServiceProcess, prepare
from benchmarks.live.wire import Client
from influential_bandits.live.events import DECIDED, OBSERVED, Event
from influential_bandits.live.experiment import Experiment
from influential_bandits.live.settings import Settings
from influential_bandits.live.store.opening import open_store
from influential_bandits.live.store.sql import Changes, InstanceRow
from influential_bandits.live.transactions.of_store import StoreTransaction
from influential_bandits.live.transactions.transaction import Transaction

AT_ONCE = 10_000


def loss(instance):
    """Return the loss of an instance, a number in 0 … 1 that is all its own."""
    return instance * 0.6180339887498949 % 1.0


def fill(store, kind, instances):
    """Write an experiment of many instances, each with a decision and its loss.

    Of a fleet, also its snapshot, as a service that runs for long has kept it.
    """
    with open_store(store) as opened:
        changes = Changes()
        settings = msgspec.convert(SETTINGS[kind], Settings)
        opened.begin()
        StoreTransaction(opened, changes).create_experiment(kind, settings, 0.0)
        number = opened.experiments()[-1].id
        experiment = Experiment(number, kind)
        for event in changes.events:
            experiment.apply_to_experiment(event)
        opened.write(changes)
        opened.commit()
        for start in range(1, instances + 1, AT_ONCE):
            changes = Changes()
            for instance in range(start, min(start + AT_ONCE, instances + 1)):
                label = f"instance {instance}"
                changes.instances.append(InstanceRow(number, instance, label, "policy", 0.0, 0.0))
                event = Event(
                    number, experiment.applied + 1, instance, DECIDED, 0.0, f"d{instance}", arm=0
                )
                if kind == "shared":  # the fleet itself decides
                    member = experiment.admit(instance, label, "policy")
                    choice = experiment.decide(member, None, None, 0.0)
                    data = choice.describe(None, False, 0, None)
                    event = event._replace(arm=choice.arm, data=data)
                    event = experiment.note(member, event, shown=True)
                else:
                    event = event._replace(ticket=1, data='{"p":1.0,"expected":0.0}')
                    experiment.applied = event.number
                changes.events.append(event)
                learned = event._replace(
                    number=event.number + 1, kind=OBSERVED, loss=loss(instance), data=None
                )
                if kind == "shared":
                    experiment.note(member, learned)
                    experiment.dismiss(member)
                experiment.applied = learned.number
                changes.events.append(learned)
            changes.counts[number] = experiment.applied, changes.instances[-1].number
            opened.begin()
            if kind == "shared":
                Transaction(opened, experiment, changes).keep_shared_snapshot()
            opened.write(changes)
            opened.commit()


def measure(instances, only=None, keep=None):
    """Yield a line for each kind of state, or for one.

    Filling a store takes minutes. One that is kept is not filled again, so that the start alone can
    be measured once more, at a moment when the machine has nothing else to do.
    """
    for kind in SETTINGS:
        if only not in (None, kind):
            continue
        with tempfile.TemporaryDirectory() as folder:
            store = Path(keep or folder, f"{kind}-{instances}.db")
            is_filled = store.exists()
            key = prepare(store)
            if not is_filled:
                fill(store, kind, instances)
            size = store.stat().st_size
            with ServiceProcess(Path(folder, "other.db"), Path(folder, "log")):
                pass  # what it is forked from has imported everything now
            service = ServiceProcess(store, Path(folder, "log"))
            start = time.monotonic()
            with service:
                asyncio.run(_decide(service, key, kind, instances))
                taken = time.monotonic() - start
                memory = _peak(service.pid)
                cpu = service.cpu_seconds
            yield (
                f"{kind}: {instances:,} instances ({size / 1e6:,.0f} MB on disk): the first "
                f"decision after {taken:.1f} s ({cpu:.1f} s CPU), memory {memory / 1e9:.2f} GB"
            )


async def _decide(service, key, kind, instances):
    client = Client(service.port, key)
    for instance in np.random.default_rng(0).integers(1, instances + 1, 20).tolist():
        body = {"instance": f"instance {instance}"}
        status, _, answer = await client.ask(f"/v1/experiments/{kind}/decisions", body, seconds=600)
        assert status == 200, answer
    client.close()


def _peak(pid):
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("the system does not tell the memory of a process")
