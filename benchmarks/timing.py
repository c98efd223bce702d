"""How time is taken, and what a row of the table says."""

import time
from dataclasses import dataclass
from typing import NamedTuple


class Bar(NamedTuple):
    """What the specification demands of a ratio, such as "≤ 1.5 × its time"."""

    sign: str  # "≤" or "≥"
    value: float
    unit: str
    must: bool = True  # False: an aim

    def met(self, ratio):
        return bool(ratio <= self.value if self.sign == "≤" else ratio >= self.value)

    def __str__(self):
        return f"{self.sign} {self.value:g} {self.unit}{'' if self.must else ' (aim)'}"


@dataclass(frozen=True)
class Row:
    """One measurement beside its peer or limit; without a bar it is for information."""

    what: str
    ours: float
    unit: str
    peer: str = ""
    theirs: float | None = None  # in the same unit
    ratio: float | None = None  # the way round in which the bar speaks of it
    bar: Bar | None = None
    note: str = ""

    @property
    def met(self):
        return None if self.bar is None or self.ratio is None else self.bar.met(self.ratio)


def within(what, ours, unit, limit, must=True, note=""):
    """A figure that has to stay under an absolute limit."""
    return Row(what, ours, unit, "limit", limit, ours / limit, Bar("≤", 1, "× limit", must), note)


def fastest(jobs, repetitions, clock=time.perf_counter):
    """Return the shortest time of each job in seconds, and what it returned when it first ran.

    A job is a function, or a pair (prepare, function): what ``prepare`` makes, outside the measured
    time, is the function's argument. The jobs take turns, so that a busy moment of the machine
    meets all of them, and the minimum is the time without disturbance. First calls are not timed:
    they may compile. Jobs too long to be repeated can be timed by a ``clock`` of this process
    alone, ``time.process_time``.
    """
    results, times = {}, dict.fromkeys(jobs, float("inf"))
    for repetition in range(repetitions + 1):
        for name, job in jobs.items():
            prepare, function = job if isinstance(job, tuple) else (None, job)
            arguments = (prepare(),) if prepare else ()
            start = clock()
            result = function(*arguments)
            taken = clock() - start
            if repetition == 0:
                results[name] = result
            else:
                times[name] = min(times[name], taken)
    return times, results
