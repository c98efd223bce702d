"""What a comparison of policies found: to print, plot, export and save."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from influential_bandits.checks import abbreviate
from influential_bandits.display import take_axes
from influential_bandits.errors import InvalidInput
from influential_bandits.files import write_text
from influential_bandits.packages import make_frame
from influential_bandits.studies.compare import fleet_results, instance_overview
from influential_bandits.studies.compare.fleet_results import FleetResult
from influential_bandits.studies.compare.instance_results import InstanceResult
from influential_bandits.studies.compare.results import Result, describe_settings
from influential_bandits.studies.report.content import Opening, Section
from influential_bandits.studies.report.latex import format_latex
from influential_bandits.studies.report.results import draw_figures, render_inline, write_results
from influential_bandits.studies.report.static import draw_on
from influential_bandits.studies.report.text import format_table
from influential_bandits.studies.runner.rows import concatenate
from influential_bandits.studies.runner.store import write_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False, repr=False)
class FamilyComparison(ABC):
    """Policies compared on several families: what instances and populations have in common."""

    _title: ClassVar[str]
    _introduction: ClassVar[str]

    results: Sequence[Result]
    notes: list[str]

    @property
    @abstractmethod
    def sections(self) -> list[Section]:
        """The report: what the families have in common, and a section for each."""

    @property
    @abstractmethod
    def _opening(self) -> Opening:
        """What the report says first."""

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The standings as data: for each family and policy a row for each horizon or window."""
        return [row for result in self.results for row in result.summarise()]

    def __repr__(self) -> str:
        """Return mean regrets, one table a family."""
        tables = [result.section.short for result in self.results]
        parts = [
            f"{table.title}\n\n{format_table(table.header, table.rows)}\n{table.caption}".rstrip()
            for table in tables
            if table is not None
        ]
        return "\n\n".join([*parts, "\n".join(self.notes)]).rstrip()

    def _repr_html_(self) -> str:
        """Show the report."""
        return render_inline(self.sections, self._opening)

    def to_frame(self, library: str = "pandas", *, runs: bool = False) -> Any:
        """Return a tidy data frame: for each family and policy a row for each horizon, or window.

        Parameters
        ----------
        library : {"pandas", "polars", "pyarrow"}
        runs : bool
            Return instead one row for each run and checkpoint, with its loss and regret; of fleets
            for each user of each population, with its rounds and its loss.

        Returns
        -------
        data frame
            Mean regrets with intervals, ranks, ratios, slopes and tails; or runs.
        """
        if runs:
            return make_frame(concatenate(result.list_runs() for result in self.results), library)
        rows = self.rows
        names = dict.fromkeys(name for row in rows for name in row)
        return make_frame({name: [row.get(name) for row in rows] for name in names}, library)

    def plot(self, ax: Axes | None = None, *, family: str | None = None) -> Axes:
        """Draw mean regret on one family: against the horizon, or against the users served before.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Draw here; by default in a new figure.
        family : str, optional
            Which one; not needed if there is but one.
        """
        if family is None and len(self.results) > 1:
            raise InvalidInput(f"name the family to draw, one of {self._list_families()}")
        (figure,) = self._choose(family)[0].section.analysis.figures
        ax = take_axes(ax)
        draw_on(ax, figure)
        return ax

    def _choose(self, family: str | None) -> list[Result]:
        """Return the result of a family, or all."""
        chosen = [result for result in self.results if family in {None, result.family.name}]
        if not chosen:
            raise InvalidInput(
                f"there is no family {abbreviate(family)} in this comparison; there are "
                f"{self._list_families()}"
            )
        return chosen

    def _list_families(self) -> str:
        return ", ".join(result.family.name for result in self.results)

    def to_latex(self, *, family: str | None = None) -> str:
        r"""Return the tables as LaTeX, for a document that uses the package booktabs.

        The best number of a column is bold, and so are the names of policies of your own.

        Parameters
        ----------
        family : str, optional
            Of one family alone; by default of all, the table of each with a caption and a label.
        """
        sections = [result.section for result in self._choose(family)]
        return "\n".join(
            format_latex(section.analysis.tables[0], section.description, f"tab:{section.name}")
            for section in sections
        )

    def save(self, folder: str | Path) -> None:
        """Write what the command writes: data, figures, tables as LaTeX, report and summary."""
        out = Path(folder)
        sections = self.sections
        for section in sections:
            draw_figures(section, out)
        for result in self.results:
            name = result.family.name
            write_rows(out, name, describe_settings(result.family), result.rows)
            write_text(out / name / "table.tex", self.to_latex(family=name))
        write_results(out, sections, self._title, self._opening, self._introduction, self.rows)


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(FamilyComparison):
    """Policies compared on families of instances; made by :func:`influential_bandits.compare`.

    It prints as one table a family; a notebook shows the report.

    Attributes
    ----------
    results : list of InstanceResult
        One for each family: ``standings`` with means, intervals, ranks and slopes, and ``regrets``.
    notes : list of str
        Families that were left out, and why.

    Examples
    --------
    >>> import influential_bandits as ib
    >>> policies = [ib.LCB(), ib.InfluentialLCB()]
    >>> comparison = ib.compare(
    ...     policies, ib.counterexample(), [10, 100], seeds=1, noise=ib.NoNoise()
    ... )
    >>> print(comparison)
    instances: One instance of your own (1 run)
    <BLANKLINE>
    | mean regret | T = 10 | T = 100 | slope |
    |---|---:|---:|---:|
    | InfluentialLCB | 6.125 | 153.1 |  |
    | LCB | 6.125 | 210.1 |  |
    """

    _title = "Influential bandits: policies compared"
    _introduction = (
        "Every policy meets the same instances and the same noise, so that differences are "
        "paired. Intervals are 95 % and over instances; references know the instance and are not "
        "ranked."
    )

    results: list[InstanceResult]

    @property
    def sections(self) -> list[Section]:
        """The report: an overview, and a section for each family."""
        overview = instance_overview.make_overview(self.results, self.notes)
        return [overview, *(result.section for result in self.results)]

    @property
    def _opening(self) -> Opening:
        """Who does best, by how much, and on what."""
        return instance_overview.open_report(self.results)


@dataclass(frozen=True, eq=False, repr=False)
class FleetComparison(FamilyComparison):
    """Fleets compared on families of populations; made by :func:`compare_fleets`.

    It prints as one table a family; a notebook shows the report.

    Attributes
    ----------
    results : list of FleetResult
        One for each family: ``standings`` with means, ratios and differences with intervals.
    notes : list of str
        Families that were left out, and why.

    Examples
    --------
    >>> import influential_bandits as ib
    >>> population = ib.Population([[0.5]], [0.0], stay=3)  # one arm: nobody has a choice
    >>> print(ib.compare_fleets(["LCB", "A known"], population, 2, n_populations=1))
    population-1: Population(1 arms, max|A| = 0.5, stay = 3) (1 population of 2 users)
    <BLANKLINE>
    | mean regret of a user | users 1–2 | ÷ A known |
    |---|---:|---:|
    | LCB | 0 |  |
    | A known (reference) | 0 |  |
    """

    _title = "Influential bandits: fleets compared"
    _introduction = (
        "Everybody serves the same users with the same noise, so that differences are paired. "
        "Intervals are 95 % and over populations (of a single one, over its users); references "
        "know what nobody knows and are not ranked. A known is Foresight with each user's "
        "interaction as its prior: what that policy makes of this knowledge, not the best that "
        "could be made of it."
    )

    results: list[FleetResult]

    @property
    def sections(self) -> list[Section]:
        """The report: a section for each family."""
        sections = [result.section for result in self.results]
        sections[0].analysis.notes.extend(self.notes)
        return sections

    @property
    def _opening(self) -> Opening:
        """Who serves late users best, by how much, and who was compared."""
        return fleet_results.open_report(self.results)
