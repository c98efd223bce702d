"""Logs to learn from: MovieLens, and synthetic ones with a planted truth."""

from influential_bandits.datasets.synthetic import (
    planted_interaction,
    synthetic_log,
    synthetic_parts,
)

__all__ = ["planted_interaction", "synthetic_log", "synthetic_parts"]
