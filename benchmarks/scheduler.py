"""How long pieces take on a cluster: a formula, with costs that ``benchmarks.cluster`` measures.

One client hands out the pieces and writes their results, one scheduler passes them on, and workers
of one thread each do the work. Client and scheduler serve one piece at a time.
docs/explanation/scaling.md says what follows.
"""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Costs:
    """Seconds that one piece takes beside its work, and seconds until a worker is ready."""

    submit: float = 0.0  # the client, to hand a piece out
    take: float = 0.0  # the client, to fetch a result
    write: float = 0.0  # the client, to have it safely on disk
    schedule: float = 0.0  # the scheduler
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


def makespan(pieces, seconds, workers, costs, deviation=0.0):
    """Return the seconds that n pieces of d seconds take on P workers that start together.

    Everything waits either for the workers or for the client that serves them all:

        startup + round trip
        + max(⌈n/P⌉ (d + worker) + max(ramp, tail), n · max(client, scheduler))

    The ramp, min(n, P) · max(submit, take + write, schedule), is how long one client takes to give
    every worker its first piece, or to write the last result of each. The tail is what the slowest
    of P workers is behind, after w = ⌈n/P⌉ pieces that vary by a standard deviation σ: about
    σ √(2 w ln P), and never more than one piece. A client that has nothing but itself to wait for
    has handed out two pieces for each worker before the workers are there.
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
