"""What a comparison of fleets found: to print, plot, export and save."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from influential_bandits.checks import make_frame
from influential_bandits.display import make_html
from influential_bandits.piece_store import make_folder
from influential_bandits.studies.fleets.populations import FIRST_POPULATION, PopulationFamily
from influential_bandits.studies.fleets.standings import (
    BOUND,
    OPTIMUM,
    SMOOTHING,
    Estimate,
    FleetResult,
)
from influential_bandits.studies.report.content import (
    Analysis,
    Bars,
    Figure,
    Finding,
    Opening,
    Section,
    Series,
    Table,
)
from influential_bandits.studies.report.export import Exportable
from influential_bandits.studies.report.results import draw_figures, write_results
from influential_bandits.studies.report.static import draw_named, draw_panels
from influential_bandits.studies.report.text import (
    estimate,
    format_table,
    rounded,
)
from influential_bandits.studies.runner.rows import Rows, concatenate
from influential_bandits.studies.runner.store import write_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

__all__ = ["FleetComparison", "describe_family"]

TITLE = "Influential bandits: fleets compared"
INTRODUCTION = (
    "Everybody serves the same users with the same noise, so that differences are paired. "
    "Intervals are 95 % and over populations (of a single one, over its users); references know "
    "what nobody knows and are not ranked. A known is ModelLCB with each user's interaction as its "
    "prior: what that policy makes of this knowledge, not the best that could be made of it."
)
AGAINST = {
    OPTIMUM: "Regret of a user is against the certified optimum of its own world and stay.",
    BOUND: "Memory fades, so regret is the loss beyond a proved lower bound for the user's stay; "
    "the bound is not reached, which moves ratios towards 1.",
}


def describe_family(family: PopulationFamily) -> dict[str, Any]:
    """Return what the rows of a family depend on beside policies and numbers of users."""
    return {
        "family": family.name,
        "first_population": FIRST_POPULATION,
        "noise": repr(family.noise),
        "source": family.source,
    }


@dataclass(frozen=True, eq=False, repr=False)
class FleetComparison(Exportable):
    """Fleets compared on families of populations; made by :func:`compare_fleets`.

    It prints as one table a family.

    Attributes
    ----------
    results : list of FleetResult
        One for each family: means, ratios and differences with intervals, and all losses.
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

    results: list[FleetResult]
    notes: list[str]

    def __repr__(self) -> str:
        """Return mean regrets, and the ratios of late users, one table a family."""
        parts = []
        for result in self.results:
            title = f"{result.family.name}: {result.family.description} ({result.size})"
            parts.append(f"{title}\n\n{format_table(*_print(result))}")
        return "\n\n".join([*parts, "\n".join(self.notes)]).rstrip()

    @property
    def rows(self) -> list[dict[str, Any]]:
        """One row for each family, policy and window of users."""
        return [row for result in self.results for row in result.summarise()]

    @property
    def sections(self) -> list[Section]:
        """The report: what the families have in common, and a section for each."""
        return [*_make_overview(self.results), *map(_make_section, self.results)]

    def to_frame(self, library: str = "pandas", *, users: bool = False) -> Any:
        """Return a tidy data frame: one row for each family, policy and window of users.

        Parameters
        ----------
        library : {"pandas", "polars", "pyarrow"}
        users : bool
            Return instead one row for each user of each population, with its rounds and its loss.
        """
        if users:
            return make_frame(concatenate(map(_list_users, self.results)), library)
        rows = self.rows
        names = dict.fromkeys(name for row in rows for name in row)
        return make_frame({name: [row.get(name) for row in rows] for name in names}, library)

    def plot(self, ax: Axes | None = None, *, family: str | None = None) -> Axes:
        """Draw the mean regret of a user against the users served before, of one family.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Draw here; by default in a new figure.
        family : str, optional
            Which one; not needed if there is but one.
        """
        curves = {result.family.name: _draw_curves(result) for result in self.results}
        drawn: Axes = draw_named(curves, family, ax)
        return drawn

    def plot_families(self) -> Drawing:
        """Draw the same, a panel for each family; return the figure."""
        drawn: Drawing = draw_panels([_draw_curves(result) for result in self.results])
        return drawn

    def _repr_html_(self) -> str:
        """Show the mean regret of a user, one table a family."""
        parts = []
        for result in self.results:
            header, rows = _print(result)
            title = f"{result.family.name}: {result.family.description} ({result.size})"
            parts.append(make_html(title, header=header, rows=rows))
        return "".join([*parts, *(make_html(note) for note in self.notes)])

    def save(self, folder: str | Path) -> None:
        """Write data, figures, report.html and summary.json, as the command does."""
        out = Path(folder)
        sections = self.sections
        for section in sections:
            make_folder(out / section.name)
            draw_figures(section, out / section.name)
        for result in self.results:
            write_rows(out, result.family.name, describe_family(result.family), result.rows)
        if self.notes:
            sections[0].analysis.notes.extend(self.notes)
        write_results(out, sections, TITLE, _open_report(self.results), INTRODUCTION, self.rows)


def _list_users(result: FleetResult) -> Rows:
    rows = dict(result.rows)
    many = len(rows["user"])
    family = {"family": np.array([result.family.name] * many, object)}
    return family | {"population" if n == "instance" else n: c for n, c in rows.items()}


def _order(result: FleetResult) -> list[int]:
    """Return the players by the mean regret of late users, references last."""
    late = result.mean.value[:, -1]
    return sorted(range(len(late)), key=lambda p: (bool(result.reference[p]), float(late[p])))


def _name(result: FleetResult, p: int) -> str:
    return f"{result.players[p]} (reference)" if result.reference[p] else result.players[p]


def _windows(result: FleetResult) -> list[str]:
    return [f"users {first:,}–{last:,}" for first, last in result.windows]


def _print(result: FleetResult) -> tuple[list[str], list[list[str]]]:
    header = ["mean regret of a user", *_windows(result), *(f"÷ {base}" for base in result.ratios)]
    rows = []
    for p in _order(result):
        means = zip(*(part[p] for part in result.mean), strict=True)
        ratios = (_cell(ratio, p, -1) for ratio in result.ratios.values())
        rows.append([_name(result, p), *(rounded(*map(float, each)) for each in means), *ratios])
    return header, rows


def _cell(found: Estimate, p: int, w: int) -> str:
    return estimate(*(float(part[p, w]) for part in found))


def _make_table(
    result: FleetResult, title: str, estimate: Estimate, caption: str = "", *, folded: bool = False
) -> Table:
    many = range(len(result.windows))
    rows = [[_name(result, p), *(_cell(estimate, p, w) for w in many)] for p in _order(result)]
    return Table(title, ["policy", *_windows(result)], rows, caption, folded)


def _make_section(result: FleetResult) -> Section:
    family = result.family
    settings = {
        "arms": result.n_arms,
        "users": result.n_users,
        "populations": result.n_populations,
        "noise": family.noise,
        "against": result.benchmark,
    }
    if family.source:
        settings["source"] = family.source
    tables = [
        _make_table(result, "Mean regret of a user", result.mean, AGAINST[result.benchmark]),
        _make_table(
            result,
            "Mean loss of a round",
            Estimate(result.loss_per_round, *[np.full_like(result.loss_per_round, np.nan)] * 2),
            folded=True,
        ),
    ]
    for base, ratio in result.ratios.items():
        caption = "Ratios of mean regrets, paired."
        tables.append(_make_table(result, f"Mean regret ÷ that of {base}", ratio, caption))
        less = result.differences[base]
        tables.append(_make_table(result, f"Mean regret − that of {base}", less, folded=True))
    notes = [f"Without {', '.join(result.absent)}: not defined here."] if result.absent else []
    notes += result.failures
    analysis = Analysis(_list_findings(result), [_draw_curves(result)], notes, tables)
    return Section(family.name, family.description, settings, analysis)


OVERVIEW = "overview"


def _find_winner(results: Sequence[FleetResult]) -> tuple[str, int]:
    """Return who has the lowest mean regret of late users most often, and how often."""
    winners = [result.players[_order(result)[0]] for result in results]
    name = max(winners, key=winners.count)
    return name, winners.count(name)


def _compare_winner(results: Sequence[FleetResult]) -> dict[str, tuple[float, float, float]]:
    """Return the winner's regret of late users ÷ that of the first base, by family."""
    winner, _ = _find_winner(results)
    found = {}
    for result in results:
        for ratio in list(result.ratios.values())[:1]:
            if winner in result.players:
                parts = [float(part[result.players.index(winner), -1]) for part in ratio]
                if np.isfinite(parts).all():
                    found[result.family.name] = (parts[0], parts[1], parts[2])
    return found


def _make_overview(results: Sequence[FleetResult]) -> list[Section]:
    """Return the section with the one picture of several families; none for one of them."""
    found = _compare_winner(results)
    if len(found) < 2:
        return []
    winner, base = _find_winner(results)[0], next(iter(results[0].ratios))
    values = np.array(list(found.values()))
    what = f"regret of {winner} ÷ that of {base}"
    bars = Bars(
        OVERVIEW,
        f"{what}, late users",
        list(found),
        values[:, 0],
        what,
        values[:, 1],
        values[:, 2],
        f"Below 1, {winner} does better. Late users are those of the last window of each family.",
    )
    about = f"Who serves late users best over all families: {winner}"
    return [Section(OVERVIEW, about, {"families": len(results)}, Analysis([], [bars]))]


def _open_report(results: Sequence[FleetResult]) -> Opening:
    """Say who serves late users best, by how much, and who was compared."""
    first, (winner, often) = results[0], _find_winner(results)
    last = f"All served the same users and met the same noise: {first.size}"
    if not _make_overview(results):
        best = _order(first)[0]
        mean = f"{_cell(first.mean, best, -1)} for {_windows(first)[-1]} of {first.family.name}"
        times = [
            f"{_cell(ratio, best, -1)} times that of {base}"
            for base, ratio in first.ratios.items()
            if np.isfinite(ratio.value[best, -1])
        ]
        found = [f"{first.players[best]} has the lowest mean regret of late users: {mean}"]
        found += [f"That is {' and '.join(times)}"] if times else []
        return Opening([*found, last], first.family.name, "users")
    ratios, base = _compare_winner(results), next(iter(first.ratios))
    low, high = min(ratios, key=ratios.__getitem__), max(ratios, key=ratios.__getitem__)
    families = f"{often} of {len(results)} families"
    found = [
        f"{winner} has the lowest mean regret of late users in {families}",
        (
            f"It is {estimate(*ratios[low])} times that of {base} in {low}, the best case, "
            f"and {estimate(*ratios[high])} times in {high}, the worst"
        ),
        f"{last} of each family",
    ]
    return Opening(found, OVERVIEW, OVERVIEW)


def _list_findings(result: FleetResult) -> list[Finding]:
    """Return the ratios of the best contender among the latest users."""
    best = _order(result)[0]
    if result.reference[best]:
        return []
    users = _windows(result)[-1]
    return [
        Finding(
            f"regret of {result.players[best]} ÷ that of {base}, {users}",
            float(ratio.value[best, -1]),
            low=float(ratio.low[best, -1]),
            high=float(ratio.high[best, -1]),
        )
        for base, ratio in result.ratios.items()
        if np.isfinite(ratio.value[best, -1])
    ]


def _draw_curves(result: FleetResult) -> Figure:
    served, values = result.curve
    positive = np.where(values > 0.0, values, np.nan)  # a log scale has no zero
    series = [
        Series(
            result.players[p],
            served,
            positive[p],
            kind="dashed" if result.reference[p] else "line",
        )
        for p in range(len(result.players))  # not by regret, so that colours stay
    ]
    what = "regret" if result.benchmark == OPTIMUM else "loss beyond the lower bound"
    return Figure(
        "users",
        f"{result.family.name}: {result.size}",
        "users served",
        f"mean {what} of a user",
        series,
        caption=f"{result.family.description}. Each point is the mean over users within a factor "
        f"of {SMOOTHING:g}; dashed: references.",
    )
