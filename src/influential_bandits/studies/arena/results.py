"""A family played and measured, and what all families say together."""

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
from influential_bandits.policies.registry import is_own
from influential_bandits.studies.arena.families import Family
from influential_bandits.studies.arena.runs import BOUND, SCHEDULE
from influential_bandits.studies.arena.standings import Standings, compute_standings, count_wins
from influential_bandits.studies.runner.rows import Rows, pivot

__all__ = [
    "FamilyResult",
    "list_contenders",
    "measure_family",
    "rank_at_largest_horizon",
    "rank_by_horizon",
    "share_wins",
]

Curve = tuple[Ints, Floats]  # horizons, and values (instances, horizons)


@dataclass(frozen=True, eq=False)
class FamilyResult:
    """How policies did on one family."""

    family: Family
    n_arms: int
    n_runs: int
    n_instances: int  # what intervals are over; of a single one, its runs
    left_out: int  # instances whose optimum could not be proved
    benchmark: str
    rows: Rows  # one for each run and checkpoint
    regrets: dict[str, Floats]  # (instances, horizons)
    curves: dict[str, Curve]
    standings: Standings
    own: frozenset[str]  # policies that are the user's
    absent: list[str]  # oracles that have no answer here
    failures: list[str]  # instances that failed, in words

    @property
    def horizons(self) -> list[int]:
        """The horizons, ascending."""
        return [int(horizon) for horizon in self.standings.horizons]

    @property
    def size(self) -> str:
        """How much was played, in words."""
        return f"{self.n_runs} run{'s' if self.n_runs > 1 else ''}"

    def list_runs(self) -> Rows:
        """Return a row for each run and checkpoint, with the family, the instance and the seed."""
        number, seed = np.divmod(self.rows["instance"], self.family.seeds)
        family = np.array([self.family.name] * len(number), object)
        return {"family": family} | self.rows | {"instance": number, "seed": seed}

    def name(self, policy: str) -> str:
        """Return what a policy is called for readers, who look for their own."""
        return f"{policy} (own)" if policy in self.own else policy

    @property
    def order(self) -> list[int]:
        """The policies by mean regret at the largest horizon, contenders before references."""
        found = self.standings
        return sorted(
            range(len(found.policies)), key=lambda p: (not found.contender[p], found.mean[p, -1])
        )


def measure_family(
    family: Family,
    n_arms: int,
    rows: Rows,
    policies: Sequence[Policy],
    horizons: list[int],
    absent: list[str],
    failures: list[str],
) -> FamilyResult:
    """Measure the rows of all policies that could play."""
    fading = (rows["policy"] == SCHEDULE).any()
    column = "loss" if fading else "regret"
    names = [str(name) for name in dict.fromkeys(rows["policy"])]
    tables = {name: _average(rows, rows["policy"] == name, column, family.seeds) for name in names}
    references = [policy.label for policy in policies if policy.privileged]
    benchmark = "relaxation"
    if fading:
        benchmark = BOUND
        base = tables.pop(benchmark)
        tables = {
            name: (marks, table - _select(base, marks)) for name, (marks, table) in tables.items()
        }
        references.append(SCHEDULE)
    values = {name: _select(table, horizons) for name, table in tables.items()}
    proved = np.isfinite(np.stack(list(values.values()))).all(axis=(0, 2))
    if not proved.any():
        raise NotCertified(f"no optimum of the family {family.name} could be proved")
    values = {name: value[proved] for name, value in values.items()}
    runs = len(np.unique(rows["instance"]))
    return FamilyResult(
        family,
        n_arms,
        int(proved.sum()) * runs // proved.size,
        int(proved.sum()),
        int((~proved).sum()),
        benchmark,
        rows,
        values,
        {name: (marks, table[proved]) for name, (marks, table) in tables.items()},
        compute_standings(values, horizons, references, EachArmOnceOracle().label),
        frozenset(policy.label for policy in policies if is_own(policy)),
        absent,
        failures,
    )


def _average(rows: Rows, chosen: npt.NDArray[np.bool_], column: str, seeds: int) -> Curve:
    """Return a column as (instances, horizons): the mean over the runs of each instance.

    The runs of a single instance stay apart: intervals are over them.
    """
    marks, table = pivot(rows, chosen, column)
    instance = np.unique(rows["instance"][chosen]) // seeds
    different = np.unique(instance)
    if seeds == 1 or len(different) == 1:
        return marks, table
    return marks, np.stack([table[instance == n].mean(axis=0) for n in different])


def _select(curve: Curve, horizons: npt.ArrayLike) -> Floats:
    marks, values = curve
    return values[:, np.searchsorted(marks, horizons)]


def list_contenders(results: Sequence[FamilyResult]) -> list[str]:
    """Return the policies that are ranked: the same ones on every family."""
    found = results[0].standings
    return [name for p, name in enumerate(found.policies) if found.contender[p]]


def rank_at_largest_horizon(results: Sequence[FamilyResult]) -> Floats:
    """Return ranks at each family's largest horizon, (contenders, families)."""
    found = [result.standings for result in results]
    return np.stack([each.rank[each.contender, -1] for each in found], axis=1)


def rank_by_horizon(results: Sequence[FamilyResult]) -> tuple[list[int], Floats]:
    """Return all horizons, and the mean rank at each over families, (contenders, horizons)."""
    horizons = sorted({horizon for result in results for horizon in result.horizons})
    columns = []
    for horizon in horizons:
        ranks = [
            r.standings.rank[r.standings.contender, r.horizons.index(horizon)]
            for r in results
            if horizon in r.horizons
        ]
        columns.append(np.mean(ranks, axis=0))
    return horizons, np.stack(columns, axis=1)


def share_wins(results: Sequence[FamilyResult]) -> dict[str, Any]:
    """Return who beats whom at the largest horizon of each family; families count alike."""
    names = list_contenders(results)
    if not names:
        return {"policies": [], "shares": []}
    shares = [
        count_wins({name: result.regrets[name][:, -1] for name in names}) for result in results
    ]
    return {"policies": names, "shares": np.mean(shares, axis=0).tolist()}
