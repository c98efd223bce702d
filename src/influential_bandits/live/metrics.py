"""Counts and times for Prometheus."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest

from influential_bandits.live.writer import Writer

__all__ = ["Metrics"]


class Metrics:
    """What a service counts."""

    def __init__(self, writer: Writer) -> None:
        self._registry = CollectorRegistry()
        self.decisions = Counter(
            "influential_bandits_decisions", "Decisions made", registry=self._registry
        )
        self.feedback = Counter(
            "influential_bandits_feedback", "Losses learned", registry=self._registry
        )
        self.errors = Counter(
            "influential_bandits_errors", "Requests that failed unforeseen", registry=self._registry
        )
        for name, text, read in (
            ("waiting", "Requests that wait for the writer", lambda: writer.waiting),
            ("batches", "Transactions committed", lambda: writer.batches),
            ("failures", "Transactions that failed", lambda: writer.failures),
        ):
            gauge = Gauge(f"influential_bandits_{name}", text, registry=self._registry)
            gauge.set_function(read)

    def render(self) -> bytes:
        """Return all of it in Prometheus's text form."""
        return generate_latest(self._registry)
