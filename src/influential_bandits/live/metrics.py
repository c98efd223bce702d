"""Counts and times for Prometheus; of several workers of a service, any tells those of all."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from influential_bandits.live.events import CANCELLED, DECIDED, EXPIRED, OBSERVED
from influential_bandits.live.writer import Writer

FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"  # in which workers of a service keep their counts
MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
AGES = (1.0, 10.0, MINUTE, 10 * MINUTE, HOUR, 6 * HOUR, DAY, 7 * DAY, 30 * DAY)
OF_EXPERIMENT = ("experiment",)


class Metrics:
    """What a service counts, by experiment."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._children: dict[tuple[str, str], list[Any]] = {}  # by name and experiment
        self._registry = CollectorRegistry()
        forget_workers_that_ended()
        self.errors = self._make(Counter, "errors", "Requests that failed unforeseen")
        requests = self._make(
            Histogram, "request_seconds", "From a request to its answer", ("call",), buckets=SECONDS
        )
        self.observe_call = cache(lambda call: requests.labels(call).observe)
        counters = {
            DECIDED: ("decisions", "Decisions made"),
            OBSERVED: ("feedback", "Losses learned"),
            EXPIRED: ("given_up", "Decisions whose losses were given up"),
            CANCELLED: ("cancelled", "Decisions that were never shown"),
        }
        self._counts = {
            kind: self._make(Counter, name, text, OF_EXPERIMENT)
            for kind, (name, text) in counters.items()
        }
        self._seconds = {
            name: self._make(Histogram, f"{name}_seconds", text, labels, buckets=buckets)
            for name, text, labels, buckets in (
                ("commit", "A batch of requests, until it is on disk", (), SECONDS),
                ("snapshot", "Writing states", OF_EXPERIMENT, SECONDS),
                (OBSERVED, "From a decision to its feedback", OF_EXPERIMENT, AGES),
            )
        }
        self._heard = self._make(
            Gauge, "latest_feedback", "When the latest loss came, seconds since 1970",
            OF_EXPERIMENT, multiprocess_mode="max",
        )  # fmt: skip
        self._gauges = {
            name: self._make(Gauge, name, text, multiprocess_mode="livesum")
            for name, text in (
                ("waiting", "Requests that wait for the writer"),
                ("batches", "Transactions committed since the start"),
                ("failures", "Transactions that failed since the start"),
                ("is_loading", "1 while an experiment is computed"),
            )
        }

    def _make(
        self, kind: Any, name: str, text: str, labels: tuple[str, ...] = (), **more: Any
    ) -> Any:
        return kind(f"influential_bandits_{name}", text, labels, registry=self._registry, **more)

    def note(self, name: str, experiment: str, seconds: float) -> None:
        """Count what the writer did: an event of some age, or a step that took so long."""
        key = name, experiment
        if key not in self._children:  # labels are looked up once: that costs more than counting
            metrics = self._counts.get(name), self._seconds.get(name)
            self._children[key] = [m.labels(experiment) if m and experiment else m for m in metrics]
        counter, histogram = self._children[key]
        if counter is not None:
            counter.inc()
        if histogram is not None:
            histogram.observe(seconds)
        if name == OBSERVED:
            self._heard.labels(experiment).set_to_current_time()

    def note_batch(self) -> None:
        """Note how the writer stands after a batch."""
        for name, gauge in self._gauges.items():
            gauge.set(float(getattr(self._writer, name)))

    def render(self) -> bytes:
        """Return all of it in Prometheus's text form."""
        self.note_batch()
        if FOLDER_VARIABLE not in os.environ:
            return generate_latest(self._registry)
        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry)


def forget_workers_that_ended() -> None:
    """Let nobody who was killed count as one who waits; what they have done stays counted."""
    folder = os.environ.get(FOLDER_VARIABLE)
    for file in Path(folder).glob("gauge_live*_*.db") if folder else ():
        process = int(file.stem.rpartition("_")[2])
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            mark_process_dead(process)  # type: ignore[no-untyped-call]
        except OSError:
            continue
