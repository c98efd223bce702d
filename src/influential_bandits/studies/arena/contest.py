"""A family played and measured, and what all of them say together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from influential_bandits.errors import NotCertified
from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.policies.contract import Policy
from influential_bandits.policies.oracles import EachArmOnceOracle
from influential_bandits.studies.arena.families import Family
from influential_bandits.studies.arena.runs import BOUND, SCHEDULE
from influential_bandits.studies.arena.standings import Standings, standings, win_shares

__all__ = ["Contest", "contenders", "contest_of", "horizon_ranks", "last_ranks", "wins"]


@dataclass(frozen=True, eq=False)
class Contest:
    """One family, played and measured."""

    family: Family
    arms: int
    instances: int
    left_out: int  # instances whose optimum could not be proved
    benchmark: str
    regrets: dict[str, Floats]  # (instances, horizons)
    curves: dict[str, tuple[Ints, Floats]]  # marks, and regrets (instances, marks)
    found: Standings
    absent: list[str]  # oracles that have no answer here

    @property
    def horizons(self) -> list[int]:
        """The horizons, ascending."""
        return [int(horizon) for horizon in self.found.horizons]


def contest_of(
    family: Family,
    arms: int,
    rows: dict[str, npt.NDArray[Any]],
    policies: Sequence[Policy],
    horizons: list[int],
    absent: list[str],
) -> Contest:
    """Measure the rows of all policies that could play."""
    fading = (rows["policy"] == SCHEDULE).any()
    column = "loss" if fading else "regret"
    names = [str(name) for name in dict.fromkeys(rows["policy"])]
    tables = {name: by_instance(rows, name, column) for name in names}
    references = [policy.label for policy in policies if policy.privileged]
    benchmark = "relaxation"
    if fading:
        benchmark = BOUND
        base = tables.pop(benchmark)
        tables = {
            name: (marks, table - _at(*base, marks)) for name, (marks, table) in tables.items()
        }
        references.append(SCHEDULE)
    values = {name: _at(*table, horizons) for name, table in tables.items()}
    proved = np.isfinite(np.stack(list(values.values()))).all(axis=(0, 2))
    if not proved.any():
        raise NotCertified(f"no optimum of the family {family.name} could be proved")
    values = {name: value[proved] for name, value in values.items()}
    found = standings(values, horizons, references, EachArmOnceOracle().label)
    curves = {name: (marks, table[proved]) for name, (marks, table) in tables.items()}
    left_out = int((~proved).sum())
    instances = int(proved.sum())
    return Contest(family, arms, instances, left_out, benchmark, values, curves, found, absent)


def by_instance(rows: dict[str, npt.NDArray[Any]], policy: str, column: str) -> tuple[Ints, Floats]:
    """Return the marks of a policy, and a column of its rows as an array (instances, marks)."""
    mine = rows["policy"] == policy
    marks = np.unique(rows["horizon"][mine])
    order = np.lexsort((rows["horizon"][mine], rows["instance"][mine]))
    return marks, rows[column][mine][order].reshape(-1, len(marks))


def _at(marks: Ints, values: Floats, horizons: npt.ArrayLike) -> Floats:
    return values[:, np.searchsorted(marks, horizons)]


def contenders(contests: list[Contest]) -> list[str]:
    """Return the policies that are ranked: the same ones on every family."""
    found = contests[0].found
    return [name for p, name in enumerate(found.policies) if found.contender[p]]


def last_ranks(contests: list[Contest]) -> Floats:
    """Return ranks at each family's largest horizon, (contenders, families)."""
    return np.stack([c.found.rank[c.found.contender, -1] for c in contests], axis=1)


def horizon_ranks(contests: list[Contest]) -> tuple[list[int], Floats]:
    """Return all horizons, and the mean rank at each over families, (contenders, horizons)."""
    horizons = sorted({horizon for contest in contests for horizon in contest.horizons})
    columns = []
    for horizon in horizons:
        ranks = [
            c.found.rank[c.found.contender, c.horizons.index(horizon)]
            for c in contests
            if horizon in c.horizons
        ]
        columns.append(np.mean(ranks, axis=0))
    return horizons, np.stack(columns, axis=1)


def wins(contests: list[Contest]) -> dict[str, Any]:
    """Return who beats whom at the largest horizon of each family; families count alike."""
    names = contenders(contests)
    if not names:
        return {"policies": [], "shares": []}
    shares = [
        win_shares({name: contest.regrets[name][:, -1] for name in names}) for contest in contests
    ]
    return {"policies": names, "shares": np.mean(shares, axis=0).tolist()}
