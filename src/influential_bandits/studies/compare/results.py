"""What results of all families have in common: numbers with intervals, who is who, and tables."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from influential_bandits.numerics.arrays import Floats
from influential_bandits.studies.compare.families import FIRST_INSTANCE, Family
from influential_bandits.studies.compare.populations import PopulationFamily
from influential_bandits.studies.report.content import Analysis, Figure, Section, Table
from influential_bandits.studies.report.text import estimate, rounded
from influential_bandits.studies.runner.rows import Rows
from influential_bandits.summaries.resampling import find_interval


class Estimates(NamedTuple):
    """Numbers with 95 % intervals; arrays are (policies, columns), NaN where undefined."""

    value: Floats
    low: Floats
    high: Floats

    @classmethod
    def of_draws(cls, value: Floats, drawn: Floats) -> Estimates:
        """Return numbers with the quantiles of those of resampled instances, along axis 1."""
        return cls(value, *find_interval(drawn, value))

    def at(self, p: int, column: int) -> tuple[float, float, float]:
        """Return the number of a policy in a column, and the ends of its interval."""
        return float(self.value[p, column]), float(self.low[p, column]), float(self.high[p, column])

    def named(self, p: int, column: int, name: str, *ends: str) -> dict[str, float]:
        """Return the same under names: by default those of the ends are made from the number's."""
        names = (name, *(ends or (f"{name}_low", f"{name}_high")))
        return dict(zip(names, self.at(p, column), strict=True))

    def text(self, p: int, column: int) -> str:
        """Return the same as a reader wants it."""
        return estimate(*self.at(p, column))


def divide_means(values: Floats, base: Floats) -> Floats:
    """Return values / base where both are positive, else NaN: regrets alone can be compared so."""
    sound = (base > 0.0) & (values >= 0.0)
    return np.where(sound, values / np.where(base > 0.0, base, 1.0), np.nan)


def _as_json(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row as strict JSON has it: NaN is none."""
    return {
        name: (float(value) if np.isfinite(value) else None)
        if isinstance(value, (float, np.floating))
        else value
        for name, value in row.items()
    }


def describe_settings(family: Family | PopulationFamily) -> dict[str, Any]:
    """Return what the rows of a family depend on beside what the names of pieces hash."""
    return {
        "family": family.name,
        "first_instance": FIRST_INSTANCE,
        "noise": repr(family.noise),
        "source": family.source,
    }


@dataclass(frozen=True, eq=False)
class Standings:
    """How policies did on one family; arrays are (policies, columns)."""

    policies: list[str]
    contender: npt.NDArray[np.bool_]  # (policies,): who is ranked; the others are references
    columns: list[str]  # what the means are of, in words: horizons, or windows of users
    mean: Estimates  # regret

    @property
    def order(self) -> list[int]:
        """The policies by their mean in the last column, contenders before references."""
        late = self.mean.value[:, -1]
        return sorted(
            range(len(self.policies)), key=lambda p: (not self.contender[p], float(late[p]))
        )

    @property
    def ranked(self) -> list[int]:
        """The contenders by their mean in the last column."""
        return [p for p in self.order if self.contender[p]]


@dataclass(frozen=True, eq=False, kw_only=True)
class Result(ABC):
    """How policies did on one family: as rows, as a section of a report, and in a few lines."""

    family: Family | PopulationFamily
    n_arms: int
    standings: Standings
    benchmark: str  # what regret is measured against
    rows: Rows
    absent: list[str]  # policies that have no answer here
    failures: list[str]  # what failed, in words
    own: frozenset[str] = field(default_factory=frozenset)  # policies that are the user's

    @property
    @abstractmethod
    def size(self) -> str:
        """How much was played, in words."""

    @abstractmethod
    def _summarise_cell(self, p: int, column: int) -> dict[str, Any]:
        """Return what the standings say of a policy in a column."""

    def summarise(self) -> list[dict[str, Any]]:
        """Return the standings as rows for programs: one for each policy and column."""
        standings = self.standings
        return [
            _as_json({"family": self.family.name, "policy": policy} | self._summarise_cell(p, c))
            for p, policy in enumerate(standings.policies)
            for c in range(len(standings.columns))
        ]

    @abstractmethod
    def list_runs(self) -> Rows:
        """Return the rows as users want them, with the family."""

    @property
    @abstractmethod
    def _sizes(self) -> dict[str, int]:
        """How much was played, for the settings."""

    @abstractmethod
    def _draw_curves(self) -> Figure:
        """Draw mean regrets."""

    @abstractmethod
    def _list_tables(self) -> list[Table]:
        """Return the tables of the report."""

    @abstractmethod
    def _make_short_table(self) -> Table:
        """Return the table for a terminal."""

    @property
    def section(self) -> Section:
        """What was found, for readers."""
        family = self.family
        analysis = Analysis([], [self._draw_curves()], self.list_notes(), self._list_tables())
        settings: dict[str, object] = {"arms": self.n_arms, **self._sizes}
        settings |= {"noise": family.noise, "against": self.benchmark}
        settings |= {"source": family.source} if family.source else {}
        short = self._make_short_table()
        return Section(family.name, family.description, settings, analysis, short=short)

    @property
    def title(self) -> str:
        """The family and how much of it was played, in a line."""
        return f"{self.family.name}: {self.family.description} ({self.size})"

    def mark(self, policy: str) -> str:
        """Return what a policy is called for readers, who look for their own."""
        return f"{policy} (own)" if policy in self.own else policy

    def name(self, p: int) -> str:
        """Return what a policy is called in tables."""
        name = self.mark(self.standings.policies[p])
        return name if self.standings.contender[p] else f"{name} (reference)"

    def mark_own(self) -> set[tuple[int, int]]:
        """Return the cells with the names of the user's own policies, in the order of tables."""
        names = self.standings.policies
        return {(row, 0) for row, p in enumerate(self.standings.order) if names[p] in self.own}

    def tabulate(
        self,
        title: str,
        numbers: Estimates,
        caption: str = "",
        *,
        strong: Iterable[tuple[int, int]] = (),
    ) -> Table:
        """Return a table of numbers with intervals: a row for each policy, best first."""
        columns = range(len(self.standings.columns))
        rows = [
            [self.name(p), *(numbers.text(p, column) for column in columns)]
            for p in self.standings.order
        ]
        header = ["policy", *self.standings.columns]
        return Table(title, header, rows, caption, strong={*strong, *self.mark_own()})

    def shorten(
        self,
        what: str,
        shown: Sequence[int],
        more: Sequence[str],
        cells: dict[int, list[str]],
    ) -> Table:
        """Return the table for a terminal: means of some policies, and a few further cells."""
        rows = []
        for p in shown:
            ends = zip(*(part[p].tolist() for part in self.standings.mean), strict=True)
            rows.append([self.name(p), *(rounded(*each) for each in ends), *cells[p]])
        left = len(self.standings.policies) - len(shown)
        header = [what, *self.standings.columns, *more]
        return Table(self.title, header, rows, f"… and {left} more" if left else "")

    def list_notes(self) -> list[str]:
        """Return who and what is not in the results."""
        names = ", ".join(self.absent)
        absent = [f"Without {names}: what they would play is not defined here."] if names else []
        return absent + self.failures
