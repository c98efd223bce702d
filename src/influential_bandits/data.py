"""Logs to try things on: MovieLens, and synthetic ones with a planted truth."""

from influential_bandits.datasets.download import fetch_movielens
from influential_bandits.datasets.movielens import movielens
from influential_bandits.datasets.synthetic import (
    planted_interaction,
    synthetic_log,
)

__all__ = [
    "fetch_movielens",
    "movielens",
    "planted_interaction",
    "synthetic_log",
]
