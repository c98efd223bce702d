"""From losses of users to mean regrets: early and late users, paired intervals, and a curve."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.numerics.resampling import Interval, find_interval, resample_means
from influential_bandits.studies.arena.standings import as_json, divide_means
from influential_bandits.studies.fleets.populations import PopulationFamily
from influential_bandits.studies.runner.rows import Rows

__all__ = ["Estimate", "FleetResult", "choose_windows", "measure_fleets"]

WINDOW_ENDS = (50, 500)  # users; the last window goes to the last user
SMOOTHING = 1.5  # a point of a curve is the mean over users within this factor
FIRST_POINT = 5  # users; a mean over fewer would be noise
POINTS = 40  # of a curve
ROUNDING = 1e-13  # of two losses: a difference below that of their sizes is none
OPTIMUM, BOUND = "optimum", "lower bound"


class Estimate(NamedTuple):
    """Numbers with 95 % intervals; arrays are (players, windows), NaN where undefined."""

    value: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True, eq=False)
class FleetResult:
    """How players did on one family; arrays are (players, windows), NaN where undefined.

    Intervals are 95 % percentile intervals over populations that are drawn anew, and of a single
    population over its users. The same ones are drawn for all players: ratios and differences are
    paired.
    """

    family: PopulationFamily
    n_arms: int
    n_users: int
    n_populations: int
    memory: float
    players: list[str]
    reference: npt.NDArray[np.bool_]  # (players,)
    windows: list[tuple[int, int]]  # first and last user, counted from 1
    mean: Estimate  # regret of a user; where memory fades, loss beyond the lower bound
    loss_per_round: Floats
    ratios: dict[str, Estimate]  # to the players that are compared with
    differences: dict[str, Estimate]
    curve: tuple[Ints, Floats]  # users served (points,), smoothed mean regret (players, points)
    rows: Rows  # one for each player, population and user
    absent: list[str]  # who has no answer here
    failures: list[str]

    @property
    def benchmark(self) -> str:
        """What regret is measured against."""
        return OPTIMUM if self.memory == 1.0 else BOUND

    @property
    def size(self) -> str:
        """How much was played, in words."""
        populations = f"{self.n_populations} population{'s' * (self.n_populations > 1)}"
        return f"{populations} of {self.n_users:,} users"

    def summarise(self) -> list[dict[str, Any]]:
        """Return rows for programs: one for each player and window."""
        rows = []
        for p, player in enumerate(self.players):
            for w, (first, last) in enumerate(self.windows):
                row: dict[str, Any] = {
                    "family": self.family.name,
                    "policy": player,
                    "reference": bool(self.reference[p]),
                    "first_user": first,
                    "last_user": last,
                    "benchmark": self.benchmark,
                    "populations": self.n_populations,
                    "mean_loss_per_round": self.loss_per_round[p, w],
                }
                row |= _spell("mean_regret", self.mean, p, w)
                for base, ratio in self.ratios.items():
                    name = base.lower().replace(" ", "_")
                    row |= _spell(f"ratio_to_{name}", ratio, p, w)
                    row |= _spell(f"difference_from_{name}", self.differences[base], p, w)
                rows.append({key: as_json(value) for key, value in row.items()})
        return rows


def _spell(name: str, estimate: Estimate, p: int, w: int) -> dict[str, Any]:
    parts = {"": estimate.value, "_low": estimate.low, "_high": estimate.high}
    return {name + end: part[p, w] for end, part in parts.items()}


def choose_windows(n_users: int) -> list[tuple[int, int]]:
    """Return early, later and late users, as far as there are any.

    Examples
    --------
    >>> choose_windows(1000)
    [(1, 50), (51, 500), (501, 1000)]
    >>> choose_windows(200)
    [(1, 50), (51, 200)]
    """
    ends = [*(end for end in WINDOW_ENDS if end < n_users), n_users]
    return list(zip([1, *(end + 1 for end in ends)], ends, strict=False))


def measure_fleets(
    losses: Mapping[str, Floats],
    best: Floats,
    stays: Ints,
    bases: Sequence[str],
) -> dict[str, Any]:
    """Return what a :class:`FleetResult` says in numbers.

    From expected losses (populations, users) of each player, those of the benchmark and the stays,
    (populations, users) too, row by row paired, to means, ratios and differences to ``bases``.
    """
    names = list(losses)
    total = np.stack([losses[name] for name in names])  # (players, populations, users)
    regret = total - best
    regret[np.abs(regret) <= ROUNDING * (np.abs(total) + np.abs(best))] = 0.0
    n_users = regret.shape[2]
    windows = choose_windows(n_users)
    compared = [base for base in bases if base in names]
    means: list[Estimate] = []
    ratios: dict[str, list[Estimate]] = {base: [] for base in compared}
    differences: dict[str, list[Estimate]] = {base: [] for base in compared}
    for first, last in windows:
        values = _as_rows(regret[:, :, first - 1 : last])
        mean, drawn = values.mean(axis=1), resample_means(values[:, :, None])[:, :, 0]
        means.append(_estimate(mean, drawn))
        for base in compared:
            b = names.index(base)
            ratio = divide_means(mean, mean[b])
            ratios[base].append(_estimate(ratio, divide_means(drawn, drawn[b][None])))
            differences[base].append(_estimate(mean - mean[b], drawn - drawn[b][None]))
    slices = [slice(first - 1, last) for first, last in windows]
    rounds = np.stack([stays[:, part].sum() for part in slices])
    per_round = np.stack([total[:, :, part].sum(axis=(1, 2)) for part in slices], axis=1) / rounds
    return {
        "windows": windows,
        "mean": _join(means),
        "loss_per_round": per_round,
        "ratios": {base: _join(parts) for base, parts in ratios.items()},
        "differences": {base: _join(parts) for base, parts in differences.items()},
        "curve": _smooth(regret.mean(axis=1)),
    }


def _as_rows(regret: Floats) -> Floats:
    """Return (players, rows): rows are populations, or the users of a single one."""
    return regret[:, 0] if regret.shape[1] == 1 else regret.mean(axis=2)


def _estimate(value: Floats, drawn: Floats) -> Estimate:
    """Return numbers (players,) with their intervals, from those of draws (players, draws)."""
    interval: Interval = find_interval(drawn, value)
    return Estimate(value, *interval)


def _join(parts: Sequence[Estimate]) -> Estimate:
    return Estimate(*(np.stack(columns, axis=1) for columns in zip(*parts, strict=True)))


def _smooth(values: Floats) -> tuple[Ints, Floats]:
    """Return log-spaced numbers of users, and means of (players, users) around each of them."""
    n_users = values.shape[1]
    start = min(FIRST_POINT, n_users)
    centres = np.unique(np.round(np.geomspace(start, n_users, POINTS)).astype(np.int64))
    sums = np.concatenate([np.zeros((len(values), 1)), np.cumsum(values, axis=1)], axis=1)
    first = np.ceil(centres / SMOOTHING).astype(np.int64) - 1
    last = np.minimum(np.floor(centres * SMOOTHING).astype(np.int64), n_users)
    return centres, (sums[:, last] - sums[:, first]) / (last - first)
