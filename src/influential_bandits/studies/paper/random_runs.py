"""Pieces that several studies are made of: a policy on many random instances of Sec. 4.1."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from influential_bandits.policies.contract import Policy
from influential_bandits.simulation.engine import simulate
from influential_bandits.simulation.trajectory import Trajectory
from influential_bandits.studies.runner.study import Piece, piece_of_instances
from influential_bandits.world.generators import random_instance
from influential_bandits.world.noise import GaussianNoise

CHUNK = 10  # instances in a piece, at least
MOST_PIECES = 1000  # of a policy: one client serves a few hundred pieces a second


def decades(max_horizon: int, start: int = 100) -> list[int]:
    """Return the powers of ten from ``start`` to the largest horizon."""
    return [10**e for e in range(20) if start <= 10**e <= max_horizon]


def random_runs(policies: Sequence[Policy], instances: int, max_horizon: int) -> Iterator[Piece]:
    """Yield the paper's random experiment: K = 3, noise N(0, 1), each instance with one seed."""
    chunk = max(CHUNK, -(-instances // MOST_PIECES))
    for policy in policies:
        name = type(policy).__name__
        for start in range(0, instances, chunk):
            numbers = range(start, min(start + chunk, instances))
            rows = partial(_random_rows, policy, max_horizon)
            yield piece_of_instances(f"{name}-{start:05d}", name, numbers, rows)


def _random_rows(
    policy: Policy, max_horizon: int, numbers: range, threads: int | None
) -> dict[str, Any]:
    run = simulate(
        [random_instance(n_arms=3, seed=n) for n in numbers],
        policy,
        max_horizon,
        GaussianNoise(1.0),
        checkpoints=[
            t for d in decades(max_horizon, 10) for t in (d, 2 * d, 5 * d) if t <= max_horizon
        ],
        execution=threads,
        progress=False,
        instance_numbers=numbers,
    )
    return regret_rows(run, numbers)


def regret_rows(run: Trajectory, numbers: Sequence[int]) -> dict[str, Any]:
    """Return the regrets of a run, one row for each instance, seed and checkpoint."""
    instances, seeds, marks, _ = run.counts.shape
    return {
        "instance": np.repeat(np.asarray(numbers), seeds * marks),
        "seed": np.tile(np.repeat(run.seeds.astype(np.int64), marks), instances),
        "policy": [type(run.policy).__name__] * (instances * seeds * marks),
        "horizon": np.tile(run.checkpoints, instances * seeds),
        "regret": run.regret().ravel(),
    }


def regrets_of(rows: dict[str, Any], policy: str) -> tuple[Any, Any]:
    """Return the horizons, and the regrets of a policy as an array (instances, horizons)."""
    mine = rows["policy"] == policy
    horizons = np.unique(rows["horizon"][mine])
    order = np.lexsort((rows["horizon"][mine], rows["instance"][mine]))
    return horizons, rows["regret"][mine][order].reshape(-1, len(horizons))
