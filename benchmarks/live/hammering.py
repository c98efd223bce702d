"""Clients that hammer services with requests of all kinds, and remember every answer they got."""

import asyncio
import random
from collections import Counter
from dataclasses import dataclass, field

from benchmarks.live.wire import Client, Lost

ARMS = ["tea", "coffee", "milk", "água", "水"]
EXPERIMENTS = {
    "own": {
        "arms": ARMS,
        "policy": "InfluentialLCB",
        "control_share": 0.3,
        "explore": 0.1,
        "window_hours": 2.0 / 3600,
        "missing_loss": 0.25,
    },
    "shared": {"arms": ARMS, "state": "shared", "control_share": 0.2, "explore": 0.1},
}
INSTANCES = 40
PAUSE = 0.02  # seconds before a request is repeated
REPEATED = 0.1  # share of requests that are made again although they were answered


@dataclass
class Record:
    """What the services have said: by experiment and identifier."""

    decided: dict = field(default_factory=dict)
    observed: dict = field(default_factory=dict)
    shown: set = field(default_factory=set)
    cancelled: set = field(default_factory=set)
    exposed: dict = field(default_factory=dict)
    statuses: Counter = field(default_factory=Counter)
    lost: int = 0  # answers that never came
    faults: list = field(default_factory=list)  # answers that must not be

    @property
    def acknowledged(self):
        parts = (self.decided, self.observed, self.shown, self.cancelled, self.exposed)
        return sum(map(len, parts))


class Crowd:
    """Clients that play until they are told to stop.

    Parameters
    ----------
    ports : list of int
        Of services that share a store; a client that is refused goes to the next.
    """

    def __init__(self, ports, key, connections=16, seed=0, names=tuple(EXPERIMENTS)):
        self.ports, self.key, self.names = list(ports), key, names
        self.record = Record()
        self._stopping = False
        self._plays = [
            self._play(number, random.Random(f"{seed}-{number}")) for number in range(connections)
        ]

    async def create(self):
        client = Client(self.ports[0], self.key)
        for name in self.names:
            body = {"name": name, "settings": EXPERIMENTS[name]}
            status, _, content = await client.ask("/v1/experiments", body)
            assert status in (201, 409), content
        client.close()

    async def run(self, during):
        """Play while a coroutine runs; then let all requests under way come to their end."""
        tasks = [asyncio.ensure_future(play) for play in self._plays]
        try:
            await during
        finally:
            self._stopping = True
            await asyncio.gather(*tasks)

    async def _play(self, number, draw):
        clients = [Client(port, self.key) for port in self.ports]
        turn = 0
        while not self._stopping:
            turn += 1
            experiment = draw.choice(self.names)
            name = f"{number}/{turn} ü"
            instance = f"instance {draw.randrange(INSTANCES)}"
            key = experiment, name
            if draw.random() < 0.1:
                body = {
                    "instance": instance,
                    "arms": draw.choices(ARMS, k=2),
                    "exposure_id": name,
                }
                path = f"/v1/experiments/{experiment}/exposures"
                if await self._ask(clients, draw, path, body):
                    self.record.exposed[key] = body["arms"]
                continue
            later = draw.random() < 0.3
            body = {"instance": instance, "decision_id": name}
            if later:
                body["activate"] = "later"
            if draw.random() < 0.3:
                body["eligible"] = draw.sample(ARMS, 2)
            answer = await self._ask(clients, draw, f"/v1/experiments/{experiment}/decisions", body)
            if answer is None:
                continue
            self.record.decided[key] = answer
            path = f"/v1/experiments/{experiment}/decisions/{name}"
            if later:
                if draw.random() < 0.3:
                    if await self._ask(clients, draw, f"{path}/cancel", None):
                        self.record.cancelled.add(key)
                    continue
                if await self._ask(clients, draw, f"{path}/activate", None):
                    self.record.shown.add(key)
            if draw.random() < 0.9:
                loss = draw.gauss(0.5, 0.3)
                if await self._ask(clients, draw, f"{path}/feedback", {"loss": loss}):
                    self.record.observed[key] = loss
        for client in clients:
            client.close()

    async def _ask(self, clients, draw, path, body):
        """Ask until there is an answer; None if it is a refusal."""
        first = None
        place = draw.randrange(len(clients))
        while True:
            try:
                status, head, content = await clients[place].ask(path, body)
            except Lost:
                self.record.lost += 1
                status = 0
            except TimeoutError:
                self.record.faults.append(f"no answer within the time: {path}")
                return None
            if status in (0, 503):
                if status == 503:
                    self.record.statuses[503] += 1
                    if b"retry-after" not in head.lower():
                        self.record.faults.append(f"503 without Retry-After: {content}")
                place = (place + 1) % len(clients)
                await asyncio.sleep(PAUSE)
                continue
            self.record.statuses[status] += 1
            if status >= 500:
                self.record.faults.append(f"{status}: {content}")
            if status != 200:
                return first
            if first is not None:
                if content != first and "arm" in content:
                    self.record.faults.append(f"{first} was answered, and then {content}")
                return first
            if draw.random() >= REPEATED:
                return content
            first = content
            place = draw.randrange(len(clients))
