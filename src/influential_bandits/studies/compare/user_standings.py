"""From losses of users to mean regrets: early and late users, paired intervals, and a curve."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.studies.compare.results import Estimates, Standings, divide_means
from influential_bandits.summaries.resampling import resample_means

WINDOW_ENDS = (50, 500)  # users; the last window goes to the last user
SMOOTHING = 1.5  # a point of a curve is the mean over users within this factor
FIRST_POINT = 5  # users; a mean over fewer would be noise
POINTS = 40  # of a curve
ROUNDING = 1e-13  # of two losses: a difference below that of their sizes is none


@dataclass(frozen=True, eq=False)
class UserStandings(Standings):
    """How players did on one family; arrays are (players, windows), NaN where undefined.

    Intervals are 95 % percentile intervals over populations that are drawn anew, and of a single
    population over its users. The same ones are drawn for all players: ratios are paired.
    """

    windows: list[tuple[int, int]]  # first and last user, counted from 1
    ratios: dict[str, Estimates]  # to the players that are compared with
    curve: tuple[Ints, Floats]  # users served (points,), smoothed mean regret (players, points)


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


def measure_users(
    losses: Mapping[str, Floats],
    best: Floats,
    bases: Sequence[str],
    references: Sequence[str] = (),
) -> UserStandings:
    """Return means, and ratios to the players ``bases``.

    From expected losses (populations, users) of each player and those of the benchmark,
    (populations, users) too, row by row paired.
    """
    names = list(losses)
    total = np.stack([losses[name] for name in names])  # (players, populations, users)
    regret = total - best
    regret[np.abs(regret) <= ROUNDING * (np.abs(total) + np.abs(best))] = 0.0
    windows = choose_windows(regret.shape[2])
    compared = {base: names.index(base) for base in bases if base in names}
    means: list[Estimates] = []
    ratios: dict[str, list[Estimates]] = {base: [] for base in compared}
    for first, last in windows:
        values = _as_rows(regret[:, :, first - 1 : last])
        mean, drawn = values.mean(axis=1), resample_means(values[:, :, None])[:, :, 0]
        means.append(Estimates.of_draws(mean, drawn))
        for base, b in compared.items():
            ratio = divide_means(mean, mean[b])
            ratios[base].append(Estimates.of_draws(ratio, divide_means(drawn, drawn[b][None])))
    return UserStandings(
        policies=names,
        contender=np.array([name not in references for name in names]),
        columns=[f"users {first:,}–{last:,}" for first, last in windows],
        mean=_join(means),
        windows=windows,
        ratios={base: _join(parts) for base, parts in ratios.items()},
        curve=_smooth(regret.mean(axis=1)),
    )


def _as_rows(regret: Floats) -> Floats:
    """Return (players, rows): rows are populations, or the users of a single one."""
    return regret[:, 0] if regret.shape[1] == 1 else regret.mean(axis=2)


def _join(parts: Sequence[Estimates]) -> Estimates:
    """Return estimates of each window, (players,), as one, (players, windows)."""
    return Estimates(*(np.stack(columns, axis=1) for columns in zip(*parts, strict=True)))


def _smooth(values: Floats) -> tuple[Ints, Floats]:
    """Return log-spaced numbers of users, and means of (players, users) around each of them."""
    n_users = values.shape[1]
    start = min(FIRST_POINT, n_users)
    centres = np.unique(np.round(np.geomspace(start, n_users, POINTS)).astype(np.int64))
    sums = np.concatenate([np.zeros((len(values), 1)), np.cumsum(values, axis=1)], axis=1)
    first = np.ceil(centres / SMOOTHING).astype(np.int64) - 1
    last = np.minimum(np.floor(centres * SMOOTHING).astype(np.int64), n_users)
    return centres, (sums[:, last] - sums[:, first]) / (last - first)
