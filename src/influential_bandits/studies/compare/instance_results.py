"""A family of instances measured, and its section of the report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from influential_bandits.errors import NotCertified
from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.policies.contract import Policy
from influential_bandits.policies.registry import is_own
from influential_bandits.studies.compare.families import Family
from influential_bandits.studies.compare.instance_runs import BOUND, SCHEDULE
from influential_bandits.studies.compare.results import Result
from influential_bandits.studies.compare.standings import (
    FITTED_FROM,
    HorizonStandings,
    compute_standings,
)
from influential_bandits.studies.report.content import (
    Figure,
    Series,
    Table,
)
from influential_bandits.studies.report.text import two_digits
from influential_bandits.studies.runner.rows import Rows, pivot
from influential_bandits.summaries.resampling import bootstrap_mean_interval

Curve = tuple[Ints, Floats]  # horizons, and values (instances, horizons)

RELAXATION = "relaxation"  # the benchmark where memory lasts
AGAINST = {
    RELAXATION: "Regret is against the certified optimum over real counts.",
    BOUND: "Memory fades, so regret is the loss beyond the proved lower bound for T rounds.",
}
SHOWN = 4  # lines of a figure that have a colour; a printed table has one row more
ALWAYS_SHOWN = ("InfluentialLCB",)  # the paper's own
BELOW_ZERO = (
    "A slope below zero says that mean regret shrinks as T grows. It can: the optimum is another "
    "one for each T, and pulls that were too many for a short game are needed in a longer one."
)
DETAILS = (
    *("policy", "rank", "ratio to the lowest", f"slope from T = {FITTED_FROM:,}"),
    *("regret/T: median", "90 %", "99 %", "largest"),
)


@dataclass(frozen=True, eq=False, kw_only=True)
class InstanceResult(Result):
    """How policies did on one family of instances."""

    family: Family
    standings: HorizonStandings
    n_runs: int
    n_instances: int  # what intervals are over; of a single one, its runs
    left_out: int  # instances whose optimum could not be proved
    regrets: dict[str, Floats]  # (instances, horizons)
    curves: dict[str, Curve]

    @property
    def horizons(self) -> list[int]:
        """The horizons, ascending."""
        return [int(horizon) for horizon in self.standings.horizons]

    @property
    def size(self) -> str:
        return f"{self.n_runs} run{'s' if self.n_runs > 1 else ''}"

    def list_runs(self) -> Rows:
        """Return a row for each run and checkpoint, with the family, the instance and the seed."""
        number, seed = np.divmod(self.rows["instance"], self.family.seeds)
        family = np.array([self.family.name] * len(number), object)
        return {"family": family} | self.rows | {"instance": number, "seed": seed}

    def _summarise_cell(self, p: int, column: int) -> dict[str, Any]:
        standings, at = self.standings, (p, column)
        contender, policy = bool(standings.contender[p]), standings.policies[p]
        difference = standings.difference.named(*at, "difference")
        tails = ("median", "90", "99", "max")
        return {
            "horizon": self.horizons[column],
            **standings.mean.named(*at, "mean_regret", "low", "high"),
            "benchmark": self.benchmark,
            "instances": self.n_instances,
            "reference": not contender,
            "rank": standings.rank[at],
            "lowest": bool(standings.lowest[column] == p and contender),
            "within_interval_of_lowest": bool(standings.close[at] and contender),
            **standings.ratio.named(*at, "ratio_to_lowest", "ratio_low", "ratio_high"),
            **{name: difference[name] for name in ("difference_low", "difference_high")},
            **standings.slope.named(*at, "slope"),
            "slope_from": FITTED_FROM,
            **{
                f"regret_per_round_{name}": tail[at]
                for name, tail in zip(tails, standings.tails, strict=True)
            },
            "own": policy in self.own,
        }

    @property
    def _sizes(self) -> dict[str, int]:
        return {"instances": self.n_instances}

    def _list_tables(self) -> list[Table]:
        return [self._mean_table(), self._detail_table()]

    def _mean_table(self) -> Table:
        standings, ranks = self.standings, self.standings.rank
        strong = {
            (row, h + 1)
            for row, p in enumerate(standings.order)
            for h in range(len(standings.columns))
            if ranks[p, h] == np.nanmin(ranks[:, h], initial=np.inf)
        }
        title = "Mean regret with 95 % intervals"
        return self.tabulate(title, standings.mean, AGAINST[self.benchmark], strong=strong)

    def _detail_table(self) -> Table:
        standings, last = self.standings, len(self.horizons) - 1
        rows = [
            [
                self.name(p),
                f"{standings.rank[p, last]:g}" if standings.contender[p] else "",
                standings.ratio.text(p, last),
                standings.slope.text(p, last),
                *(two_digits(float(tail[p, last])) for tail in standings.tails),
            ]
            for p in standings.order
        ]
        caption = "Ratios of mean regrets are paired: the same instances are drawn for both."
        if (standings.slope.value[:, last] < 0.0).any():
            caption += f" {BELOW_ZERO}"
        return Table(
            f"At {standings.columns[last]}", DETAILS, rows, caption, strong=self.mark_own()
        )

    def _make_short_table(self) -> Table:
        """Return the best policies, the user's own and the references, with the slope."""
        standings = self.standings
        ranked = standings.ranked
        own = [p for p in ranked[SHOWN + 1 :] if standings.policies[p] in self.own]
        references = [p for p in standings.order if not standings.contender[p]]
        slopes = standings.slope.value[:, -1]
        cells = {p: [f"{x:.2f}" if np.isfinite(x) else ""] for p, x in enumerate(slopes)}
        shown = [*ranked[: SHOWN + 1], *own, *references]
        return self.shorten("mean regret", shown, ["slope"], cells)

    def _draw_curves(self) -> Figure:
        """Draw the best policies and the references; the others stay in the background."""
        standings = self.standings
        fading = self.benchmark != RELAXATION
        named = {*ALWAYS_SHOWN, *self.own}
        best = standings.ranked[:SHOWN]
        coloured = {standings.policies[p] for p in best} | named
        series = []
        for p in standings.order:
            name = standings.policies[p]
            kind = "line" if name in coloured else "faint"
            kind = kind if standings.contender[p] else "dashed"
            series.append(_draw_curve(self, name, kind, fading, p in best[:1] or name in named))
        measure = f"loss per round beyond the {self.benchmark}" if fading else "regret"
        return Figure(
            "regret",
            f"{self.family.name}: {self.size}",
            "horizon T",
            f"mean {measure}",
            series,
            caption=f"{self.family.description}. In colour: the lowest at the largest horizon, the "
            "paper's own, and yours, which are thick; dashed: references; grey: the others. Bands: "
            "95 % intervals of the mean.",
        )

    def list_notes(self) -> list[str]:
        notes = super().list_notes()
        if self.left_out:
            proved = f"{self.left_out} instances left out, whose optimum could not be proved."
            notes.insert(bool(self.absent), proved)
        return notes


def measure_family(
    family: Family,
    n_arms: int,
    policies: Sequence[Policy],
    horizons: list[int],
    absent: list[str],
    rows: Rows,
    failures: list[str],
) -> InstanceResult:
    """Measure the rows of all policies that could play."""
    fading = (rows["policy"] == SCHEDULE).any()
    column = "loss" if fading else "regret"
    names = [str(name) for name in dict.fromkeys(rows["policy"])]
    curves = {name: _average(rows, rows["policy"] == name, column, family.seeds) for name in names}
    references = [policy.label for policy in policies if policy.privileged]
    if fading:
        base = curves.pop(BOUND)
        curves = {
            name: (marks, table - _select(base, marks)) for name, (marks, table) in curves.items()
        }
        references.append(SCHEDULE)
    regrets = {name: _select(curve, horizons) for name, curve in curves.items()}
    proved = np.isfinite(np.stack(list(regrets.values()))).all(axis=(0, 2))
    if not proved.any():
        raise NotCertified(f"no optimum of the family {family.name} could be proved")
    regrets = {name: values[proved] for name, values in regrets.items()}
    return InstanceResult(
        family=family,
        n_arms=n_arms,
        standings=compute_standings(regrets, horizons, references),
        benchmark=BOUND if fading else RELAXATION,
        rows=rows,
        absent=absent,
        failures=failures,
        own=frozenset(policy.label for policy in policies if is_own(policy)),
        n_runs=int(proved.sum()) * len(np.unique(rows["instance"])) // proved.size,
        n_instances=int(proved.sum()),
        left_out=int((~proved).sum()),
        regrets=regrets,
        curves={name: (marks, table[proved]) for name, (marks, table) in curves.items()},
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


def _draw_curve(
    result: InstanceResult, name: str, kind: str, per_round: bool, banded: bool
) -> Series:
    marks, values = result.curves[name]
    if per_round:
        values = values / marks
    mean = values.mean(axis=0)
    mean = np.where(mean > 0.0, mean, np.nan)  # a log scale has no zero
    low, high = bootstrap_mean_interval(values) if banded and len(values) > 1 else (None, None)
    return Series(result.mark(name), marks, mean, low, high, kind, strong=name in result.own)
