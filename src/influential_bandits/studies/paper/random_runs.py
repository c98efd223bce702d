"""What several studies share: random instances of Sec. 4.1, and a figure of local slopes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from influential_bandits.policies.contract import Policy
from influential_bandits.simulation.engine import simulate
from influential_bandits.studies.report.content import Figure, Series
from influential_bandits.studies.runner.rows import Rows, tidy
from influential_bandits.studies.runner.study import Piece
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
            compute = partial(_play, policy, max_horizon)
            yield Piece.of_instances(f"{name}-{start:05d}", numbers, compute)


def _play(policy: Policy, max_horizon: int, numbers: range, threads: int | None) -> Rows:
    run = simulate(
        [random_instance(3, n) for n in numbers],
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
    return tidy(run, numbers)


def make_slope_figure(series: list[Series]) -> Figure:
    """Return the figure of slopes between neighbouring horizons."""
    return Figure(
        "local-slope",
        "Slope between neighbouring horizons",
        "horizon T",
        "local slope",
        series,
        log_y=False,
        caption="The slope depends on the range; the paper does not state its own.",
    )
