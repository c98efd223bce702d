"""Counts and times for Prometheus."""

from __future__ import annotations

import os

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest

from influential_bandits.live.writer import Writer

OF_PROCESS = ("process",)  # of several workers, any may be asked
OF_EXPERIMENT = ("process", "experiment")


class Metrics:
    """What a service counts."""

    def __init__(self, writer: Writer) -> None:
        self._registry = CollectorRegistry()
        self._process = os.getpid()
        self._decisions = self._count("decisions", "Decisions made", OF_EXPERIMENT)
        self._feedback = self._count("feedback", "Losses learned", OF_EXPERIMENT)
        self._latest_feedback = self._gauge(
            "latest_feedback", "When the latest loss came, seconds since 1970", OF_EXPERIMENT
        )
        self.errors = self._count("errors", "Requests that failed unforeseen", OF_PROCESS).labels(
            self._process
        )
        for name, text, read in (
            ("waiting", "Requests that wait for the writer", lambda: writer.waiting),
            ("batches", "Transactions committed", lambda: writer.batches),
            ("failures", "Transactions that failed", lambda: writer.failures),
            ("loading", "1 while an experiment is computed", lambda: float(writer.is_loading)),
        ):
            self._gauge(name, text, OF_PROCESS).labels(self._process).set_function(read)

    def _count(self, name: str, text: str, labels: tuple[str, ...]) -> Counter:
        return Counter(f"influential_bandits_{name}", text, labels, registry=self._registry)

    def _gauge(self, name: str, text: str, labels: tuple[str, ...]) -> Gauge:
        return Gauge(f"influential_bandits_{name}", text, labels, registry=self._registry)

    def note_decision(self, experiment: str) -> None:
        """Count a decision."""
        self._decisions.labels(self._process, experiment).inc()

    def note_feedback(self, experiment: str) -> None:
        """Count a loss."""
        self._feedback.labels(self._process, experiment).inc()
        self._latest_feedback.labels(self._process, experiment).set_to_current_time()

    def render(self) -> bytes:
        """Return all of it in Prometheus's text form."""
        return generate_latest(self._registry)
