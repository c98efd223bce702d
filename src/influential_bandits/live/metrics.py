"""Counts and times for Prometheus."""

from __future__ import annotations

import os

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest

from influential_bandits.live.writer import Writer

LABELS = ("process",)


class Metrics:
    """What a service counts."""

    def __init__(self, writer: Writer) -> None:
        self._registry = CollectorRegistry()
        self.decisions = self._count("decisions", "Decisions made")
        self.feedback = self._count("feedback", "Losses learned")
        self.errors = self._count("errors", "Requests that failed unforeseen")
        for name, text, read in (
            ("waiting", "Requests that wait for the writer", lambda: writer.waiting),
            ("batches", "Transactions committed", lambda: writer.batches),
            ("failures", "Transactions that failed", lambda: writer.failures),
        ):
            gauge = Gauge(f"influential_bandits_{name}", text, LABELS, registry=self._registry)
            gauge.labels(os.getpid()).set_function(read)

    def _count(self, name: str, text: str) -> Counter:
        """Return a counter of this process: of several workers, any may be asked."""
        counter = Counter(f"influential_bandits_{name}", text, LABELS, registry=self._registry)
        return counter.labels(os.getpid())

    def render(self) -> bytes:
        """Return all of it in Prometheus's text form."""
        return generate_latest(self._registry)
