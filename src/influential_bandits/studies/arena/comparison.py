"""What a comparison of policies found: to print, plot, export and save."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from influential_bandits.checks import make_frame
from influential_bandits.files import write_json
from influential_bandits.piece_store import make_folder
from influential_bandits.studies.arena.families import FIRST_INSTANCE, LEARNED, Family
from influential_bandits.studies.arena.report_sections import (
    format_html,
    format_results,
    make_family_section,
    make_overview,
    open_report,
)
from influential_bandits.studies.arena.results import FamilyResult, share_wins
from influential_bandits.studies.arena.standings import summary_rows
from influential_bandits.studies.provenance import collect_provenance
from influential_bandits.studies.report.content import Picture, Section
from influential_bandits.studies.report.export import Exportable
from influential_bandits.studies.report.results import draw_figures, write_results
from influential_bandits.studies.report.static import draw_named, draw_panels
from influential_bandits.studies.runner.rows import concatenate
from influential_bandits.studies.runner.store import write_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Comparison", "describe_settings"]

TITLE = "Influential bandits: policies compared"
INTRODUCTION = (
    "Every policy meets the same instances and the same noise, so that differences are paired. "
    "Intervals are 95 % and over instances; references know the instance and are not ranked."
)


def describe_settings(family: Family) -> dict[str, Any]:
    """Return what the rows of a family depend on beside policies, instances and horizons."""
    return {
        "family": family.name,
        "first_instance": FIRST_INSTANCE,
        "noise": repr(family.noise),
        "source": family.source,
    }


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Exportable):
    """Policies compared on families of instances; made by :func:`influential_bandits.compare`.

    It prints as one table a family, in notebooks too.

    Attributes
    ----------
    results : list of FamilyResult
        One for each family: ``standings`` with means, intervals, ranks and slopes, and ``regrets``.
    notes : list of str
        Families that were left out, and why.

    Examples
    --------
    >>> import influential_bandits as ib
    >>> policies = [ib.LCB(), ib.InfluentialLCB()]
    >>> found = ib.compare(policies, ib.counterexample(), [10, 100], seeds=1, noise=ib.NoNoise())
    >>> print(found)
    instances: One instance of your own (1 run)
    <BLANKLINE>
    | mean regret | T = 10 | T = 100 | slope |
    |---|---:|---:|---:|
    | InfluentialLCB | 6.125 | 153.1 |  |
    | LCB | 6.125 | 210.1 |  |
    """

    results: list[FamilyResult]
    notes: list[str]

    def __repr__(self) -> str:
        """Return the mean regrets of the best policies, one table a family."""
        return format_results(self.results, self.notes)

    def _repr_html_(self) -> str:
        return format_html(self.results, self.notes)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The standings as data: one row for each family, policy and horizon."""
        return [
            row | {"own": row["policy"] in r.own}
            for r in self.results
            for row in summary_rows(r.family.name, r.standings, r.n_instances, r.benchmark)
        ]

    @property
    def sections(self) -> list[Section]:
        """The report: an overview, and a section for each family."""
        return [
            make_overview(self.results, self.notes),
            *(make_family_section(result) for result in self.results),
        ]

    def to_frame(self, library: str = "pandas", *, runs: bool = False) -> Any:
        """Return a tidy data frame: one row for each family, policy and horizon.

        Parameters
        ----------
        library : {"pandas", "polars", "pyarrow"}
        runs : bool
            Return instead one row for each run and checkpoint, with its loss and regret.

        Returns
        -------
        data frame
            Mean regrets with intervals, ranks, ratios to the lowest, slopes and tails; or runs.
        """
        if not runs:
            rows = self.rows
            return make_frame({name: [row[name] for row in rows] for name in rows[0]}, library)
        return make_frame(concatenate(result.list_runs() for result in self.results), library)

    def plot(self, ax: Axes | None = None, *, family: str | None = None) -> Axes:
        """Draw mean regret against the horizon on one family.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Draw here; by default in a new figure.
        family : str, optional
            Which one; not needed if there is but one.
        """
        drawn: Axes = draw_named(self._draw_curves(), family, ax)
        return drawn

    def plot_families(self) -> Figure:
        """Draw mean regret against the horizon, a panel for each family; return the figure."""
        drawn: Figure = draw_panels(list(self._draw_curves().values()))
        return drawn

    def _draw_curves(self) -> dict[str, Picture]:
        """Return the figure of each family, as data."""
        sections = [make_family_section(result) for result in self.results]
        return {section.name: section.analysis.figures[0] for section in sections}

    def save(self, folder: str | Path) -> None:
        """Write what the command ``compare`` writes: data, figures, report.html and summary.json.

        ``influential-bandits leaderboard`` makes a page of such a folder.
        """
        out = Path(folder)
        sections = self.sections
        for section in sections:
            make_folder(out / section.name)
            draw_figures(section, out / section.name)
        for result in self.results:
            write_rows(out, result.family.name, describe_settings(result.family), result.rows)
        write_json(out / "arena.json", _describe(self.results, self.notes), indent=2)
        write_results(out, sections, TITLE, open_report(self.results), INTRODUCTION, self.rows)


def _describe(results: Sequence[FamilyResult], notes: Sequence[str]) -> dict[str, Any]:
    """Return what summary.json has no place for: families, wins and provenance."""
    return {
        "provenance": collect_provenance(),
        "notes": list(notes),
        "families": [
            describe_settings(result.family)
            | {
                "description": result.family.description,
                "arms": result.n_arms,
                "instances": result.n_instances,
                "left_out": result.left_out,
                "benchmark": result.benchmark,
                "horizons": result.horizons,
                "absent": result.absent,
                "learned": result.family.name == LEARNED,
            }
            for result in results
        ],
        "wins": share_wins(results),
    }
