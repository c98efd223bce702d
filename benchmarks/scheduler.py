"""What pieces on a cluster of any size take: a closed form, and a simulation event by event.

Both take what ``benchmarks.cluster`` measures on this machine. One client hands out the pieces and
writes their results, one scheduler passes them on, and workers of one thread each do the work::

    client ──submit──▶ scheduler ──assign──▶ worker: run ──finished──▶ scheduler ──▶ client: write

Client and scheduler serve one piece at a time. docs/scale.md says what follows.
"""

import heapq
import math
from collections import deque
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Costs:
    """Seconds that one piece takes beside its work, and seconds until a worker is ready."""

    submit: float = 0.0  # the client, to hand a piece out
    take: float = 0.0  # the client, to fetch a result
    write: float = 0.0  # the client, to have it safely on disk
    schedule: float = 0.0  # the scheduler, in all; half when a piece comes, half when it is done
    worker: float = 0.0  # the worker, around the work
    latency: float = 0.0  # a message, one way
    startup: float = 0.0  # a worker, until it can begin a piece

    @property
    def client(self):
        return self.submit + self.take + self.write

    @property
    def serial(self):
        """What no worker can help with: the slower of client and scheduler."""
        return max(self.client, self.schedule)


@dataclass(frozen=True)
class Schedule:
    """What became of a simulated run."""

    makespan: float  # seconds from the start of everything until the last result is written
    efficiency: float  # work that was wanted / (workers × makespan)
    client: float  # share of the time that the client was busy
    scheduler: float
    workers: float  # mean share of the time that a worker was busy, work that was lost included
    results_waiting: float  # mean number of results waiting for the client
    most_results_waiting: int
    messages_waiting: float  # mean number of messages waiting for the scheduler
    most_messages_waiting: int
    written: tuple  # (pieces,) int: how often the result of each piece was written: once
    runs: int  # pieces begun, those that were lost included


def closed_form(pieces, seconds, workers, costs, deviation=0.0):
    """Return the makespan of n pieces of d seconds on P workers that start together.

    Either the workers or the one who serves them all is what everything waits for:

        startup + round trip
        + max(⌈n/P⌉ (d + worker) + max(ramp, tail), n · max(client, scheduler))

    The ramp, min(n, P) · max(submit, take + write, schedule), is how long one client takes to give
    every worker its first piece, or to write the last result of each. The tail is what the slowest
    of P workers is behind, after w = ⌈n/P⌉ pieces that vary by a standard deviation σ: about
    σ √(2 w ln P), and never more than one piece. A client that has nothing but itself to wait for
    has filled its window, 2 P pieces, before the workers are there.
    """
    begun, waves = min(pieces, workers), math.ceil(pieces / workers)
    around = costs.client + costs.schedule + 3 * costs.latency  # one of a wave; others wait for it
    ramp = (begun - 1) * max(costs.submit, costs.take + costs.write, costs.schedule)
    tail = min(seconds, deviation * math.sqrt(2 * waves * math.log(begun)))
    working = waves * (seconds + costs.worker) + max(ramp, tail)
    ahead = min(costs.startup, min(pieces, 2 * workers) * costs.submit)
    serving = (pieces - 1) * costs.serial + seconds + costs.worker - ahead
    return costs.startup + around + max(working, serving)


def saturation(seconds, costs):
    """Return how many workers one client and one scheduler keep busy with pieces of this length."""
    return (seconds + costs.worker) / costs.serial


def smallest_piece(workers, costs):
    """Return the seconds of work that a piece needs for this many workers to be kept busy."""
    return max(0.0, workers * costs.serial - costs.worker)


def price(workers, makespan, per_core_hour):
    return workers * makespan / 3600 * per_core_hour


def simulated(times, workers, costs, window=None, joins=None, failures=0.0, seed=0, prefetch=2):
    """Play a run event by event.

    Parameters
    ----------
    times : sequence of float
        Seconds of work of each piece.
    workers : int
        Workers of one thread each.
    costs : Costs
    window : int, optional
        Pieces that the client has handed out and not yet taken back: 2 × workers unless told.
    joins : sequence of float, optional
        When each worker is ready; ``costs.startup`` for all unless told.
    failures : float
        Rate per second at which a worker is lost, with the pieces and unfetched results it holds.
        A new one takes its place ``costs.startup`` later.
    seed : int
        Of the failures; nothing else is random.
    prefetch : int
        Pieces that a worker holds at once, one running and the others waiting. One that has nothing
        to do gets a waiting piece of another.
    """
    joins = [costs.startup] * workers if joins is None else list(joins)
    return _Run(list(times), joins, costs, window or 2 * workers, failures, seed, prefetch).result()


class _Run:
    """The state of a simulated run; every event is a method, called with the time and its data."""

    def __init__(self, times, joins, costs, window, failures, seed, prefetch):
        self.times, self.costs, self.window, self.prefetch = times, costs, window, prefetch
        self.failures, self.random = failures, np.random.default_rng(seed)
        self.events, self.order, self.now = [], 0, 0.0
        self.client, self.scheduler = _Server(), _Server()
        self.next, self.flying, self.written = 0, 0, [0] * len(times)
        self.left = len(times)
        self.waiting = deque()  # pieces that no worker has room for
        self.levels = [deque() for _ in range(prefetch)]  # workers by pieces held; may be outdated
        self.held = [{} for _ in joins]  # pieces of each worker, on their way to it included
        self.queues = [deque() for _ in joins]  # those that have arrived and wait
        self.behind = {}  # workers with such pieces, the longest behind first
        self.running = [None] * len(joins)
        self.began = [0.0] * len(joins)
        self.life = [0] * len(joins)  # counts restarts: messages to and from the dead are dropped
        self.busy, self.runs = 0.0, 0
        for worker, moment in enumerate(joins):
            self.at(moment, self.join, worker)

    def result(self):
        self.client_turn()
        while self.left:
            if not self.events:
                raise RuntimeError(f"{self.left} pieces are stuck: no worker ever joins")
            self.now, _, event, data = heapq.heappop(self.events)
            event(*data)
        span = self.now
        count = len(self.held)
        self.busy += sum(
            span - began
            for began, piece in zip(self.began, self.running, strict=True)
            if piece is not None
        )
        share = (lambda amount: amount / span) if span else (lambda amount: 0.0)
        return Schedule(
            span,
            share(sum(self.times)) / count,
            share(self.client.busy_time),
            share(self.scheduler.busy_time),
            share(self.busy) / count,
            share(self.client.waited),
            self.client.most,
            share(self.scheduler.waited),
            self.scheduler.most,
            tuple(self.written),
            self.runs,
        )

    def at(self, moment, event, *data):
        self.order += 1  # events of one moment come in the order in which they were made
        heapq.heappush(self.events, (moment, self.order, event, data))

    # The client hands out while its window has room, and takes results else.

    def client_turn(self):
        if self.client.busy:
            return
        if self.flying < self.window and self.next < len(self.times):
            piece, self.next = self.next, self.next + 1
            self.flying += 1
            self.client.serve(self.costs.submit)
            self.at(self.now + self.costs.submit, self.submitted, piece)
        elif self.client.queue:
            result = self.client.take(self.now)
            cost = self.costs.take + self.costs.write
            self.client.serve(cost)
            self.at(self.now + cost, self.taken, *result)

    def submitted(self, piece):
        self.client.busy = False
        self.at(self.now + self.costs.latency, self.message, self.assign, piece)
        self.client_turn()

    def returned(self, piece, worker, life):
        self.client.put(self.now, (piece, worker, life))
        self.client_turn()

    def taken(self, piece, worker, life):
        self.client.busy = False
        if self.life[worker] == life:
            self.written[piece] += 1
            self.left -= 1
            self.flying -= 1
        else:  # its worker was lost before the result had been fetched
            self.at(self.now + self.costs.latency, self.message, self.assign, piece)
        self.client_turn()

    # The scheduler works off its messages one after the other.

    def message(self, action, *data):
        self.scheduler.put(self.now, (action, data))
        self.scheduler_turn()

    def scheduler_turn(self):
        if not self.scheduler.busy and self.scheduler.queue:
            action, data = self.scheduler.take(self.now)
            self.scheduler.serve(self.costs.schedule / 2)
            self.at(self.now + self.costs.schedule / 2, self.decided, action, data)

    def decided(self, action, data):
        self.scheduler.busy = False
        action(*data)
        self.scheduler_turn()

    def assign(self, piece):
        for level, workers in enumerate(self.levels):
            while workers:
                worker, life = workers.popleft()
                if life == self.life[worker] and len(self.held[worker]) == level:
                    self.send(piece, worker)
                    return
        self.waiting.append(piece)

    def finished(self, piece, worker, life):
        if life != self.life[worker]:
            return  # already handed to another
        del self.held[worker][piece]
        self.at(self.now + self.costs.latency, self.returned, piece, worker, life)
        self.offer(worker)

    def offer(self, worker):
        """Give a worker what it has room for, or else what another one has waiting."""
        while self.waiting and len(self.held[worker]) < self.prefetch:
            self.send(self.waiting.popleft(), worker)
        if not self.held[worker] and self.behind:
            self.steal(worker, next(iter(self.behind)))
        elif len(self.held[worker]) < self.prefetch:
            self.list(worker)

    def steal(self, worker, other):
        piece = self.queues[other].pop()
        if not self.queues[other]:
            del self.behind[other]
        del self.held[other][piece]
        self.list(other)
        self.send(piece, worker, 2 * self.costs.latency)  # asked for first

    def idle(self):
        """Return a worker that has nothing at all, or None."""
        workers = self.levels[0]
        while workers:
            worker, life = workers.popleft()
            if life == self.life[worker] and not self.held[worker]:
                return worker
        return None

    def list(self, worker):
        self.levels[len(self.held[worker])].append((worker, self.life[worker]))

    def send(self, piece, worker, further=0.0):
        self.held[worker][piece] = None
        if len(self.held[worker]) < self.prefetch:
            self.list(worker)
        self.at(
            self.now + self.costs.latency + further, self.arrive, piece, worker, self.life[worker]
        )

    # Workers run one piece at a time.

    def join(self, worker):
        if self.failures:
            lasts = self.random.exponential(1 / self.failures)
            self.at(self.now + lasts, self.fail, worker)
        self.offer(worker)

    def arrive(self, piece, worker, life):
        if life != self.life[worker]:
            return
        if self.running[worker] is None:
            self.begin(piece, worker)
        else:
            self.queues[worker].append(piece)
            self.behind[worker] = None
            other = self.idle()
            if other is not None:
                self.steal(other, worker)

    def begin(self, piece, worker):
        self.running[worker], self.began[worker] = piece, self.now
        self.runs += 1
        takes = self.costs.worker + self.times[piece]
        self.at(self.now + takes, self.done, piece, worker, self.life[worker])

    def done(self, piece, worker, life):
        if life != self.life[worker]:
            return
        self.busy += self.now - self.began[worker]
        self.running[worker] = None
        self.at(self.now + self.costs.latency, self.message, self.finished, piece, worker, life)
        if self.queues[worker]:
            self.begin(self.queues[worker].popleft(), worker)
            if not self.queues[worker]:
                del self.behind[worker]

    def fail(self, worker):
        lost, self.held[worker] = self.held[worker], {}
        if self.running[worker] is not None:
            self.busy += self.now - self.began[worker]
            self.running[worker] = None
        self.queues[worker].clear()
        self.behind.pop(worker, None)
        self.life[worker] += 1
        for piece in lost:
            self.at(self.now + self.costs.latency, self.message, self.assign, piece)
        self.at(self.now + self.costs.startup, self.join, worker)


class _Server:
    """Somebody who serves one at a time; remembers how long it was busy and how many waited."""

    def __init__(self):
        self.queue, self.busy = deque(), False
        self.busy_time, self.waited, self.most, self.since = 0.0, 0.0, 0, 0.0

    def put(self, now, each):
        self._count(now)
        self.queue.append(each)
        self.most = max(self.most, len(self.queue))

    def take(self, now):
        self._count(now)
        return self.queue.popleft()

    def serve(self, seconds):
        self.busy = True
        self.busy_time += seconds

    def _count(self, now):
        self.waited += len(self.queue) * (now - self.since)
        self.since = now


def drawn(quantiles, mean, pieces, seed=0):
    """Draw times of pieces with this mean, spread like ``quantiles``, {share: seconds}."""
    shares, seconds = np.array(sorted(quantiles.items())).T
    times = np.interp(np.random.default_rng(seed).random(pieces), shares, seconds)
    return times * (mean / times.mean())
