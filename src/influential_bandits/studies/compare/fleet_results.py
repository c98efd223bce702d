"""A family of populations measured, its section of the report, and what is said first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from influential_bandits.policies.foresight.policy import Foresight
from influential_bandits.studies.compare.fleet_runs import BOUND, OPTIMUM
from influential_bandits.studies.compare.players import KNOWN, Player
from influential_bandits.studies.compare.populations import PopulationFamily
from influential_bandits.studies.compare.results import Result
from influential_bandits.studies.compare.user_standings import (
    SMOOTHING,
    UserStandings,
    measure_users,
)
from influential_bandits.studies.report.content import (
    Figure,
    Opening,
    Series,
    Table,
)
from influential_bandits.studies.runner.rows import Rows
from influential_bandits.world.population import Population

COLD = Foresight().label
BASES = (COLD, KNOWN)  # ratios are to these
AGAINST = {
    OPTIMUM: "Regret of a user is against the certified optimum of its own world and stay.",
    BOUND: "Memory fades, so regret is the loss beyond a proved lower bound for the user's stay; "
    "the bound is not reached, which moves ratios towards 1.",
}


@dataclass(frozen=True, eq=False, kw_only=True)
class FleetResult(Result):
    """How players did on one family of populations."""

    family: PopulationFamily
    standings: UserStandings
    n_users: int
    n_populations: int

    @property
    def size(self) -> str:
        populations = f"{self.n_populations} population{'s' * (self.n_populations > 1)}"
        return f"{populations} of {self.n_users:,} users"

    def list_runs(self) -> Rows:
        """Return a row for each user, with the family and the number of the population."""
        family = {"family": np.array([self.family.name] * len(self.rows["user"]), object)}
        columns = {"population" if n == "instance" else n: c for n, c in self.rows.items()}
        return family | columns

    def _summarise_cell(self, p: int, column: int) -> dict[str, Any]:
        standings = self.standings
        first, last = standings.windows[column]
        row: dict[str, Any] = {
            "reference": not standings.contender[p],
            "first_user": first,
            "last_user": last,
            "benchmark": self.benchmark,
            "populations": self.n_populations,
            **standings.mean.named(p, column, "mean_regret"),
        }
        for base, ratio in standings.ratios.items():
            row |= ratio.named(p, column, f"ratio_to_{base.lower().replace(' ', '_')}")
        return row

    @property
    def _sizes(self) -> dict[str, int]:
        return {"users": self.n_users, "populations": self.n_populations}

    def _list_tables(self) -> list[Table]:
        standings = self.standings
        caption = "Ratios of mean regrets, paired."
        return [
            self.tabulate("Mean regret of a user", standings.mean, AGAINST[self.benchmark]),
            *(
                self.tabulate(f"Mean regret ÷ that of {base}", ratio, caption)
                for base, ratio in standings.ratios.items()
            ),
        ]

    def _make_short_table(self) -> Table:
        order, ratios = self.standings.order, self.standings.ratios
        more = [f"÷ {base}" for base in ratios]
        cells = {p: [ratio.text(p, -1) for ratio in ratios.values()] for p in order}
        return self.shorten("mean regret of a user", order, more, cells)

    def _draw_curves(self) -> Figure:
        standings = self.standings
        served, values = standings.curve
        positive = np.where(values > 0.0, values, np.nan)  # a log scale has no zero
        series = [
            Series(name, served, positive[p], kind="line" if standings.contender[p] else "dashed")
            for p, name in enumerate(standings.policies)  # not by regret, so that colours stay
        ]
        column = "regret" if self.benchmark == OPTIMUM else "loss beyond the lower bound"
        return Figure(
            "users",
            f"{self.family.name}: {self.size}",
            "users served",
            f"mean {column} of a user",
            series,
            caption=f"{self.family.description}. Each point is the mean over users within a "
            f"factor of {SMOOTHING:g}; dashed: references.",
        )


def measure_fleets(
    family: PopulationFamily,
    population: Population,
    players: Sequence[Player],
    n_users: int,
    absent: list[str],
    rows: Rows,
    failures: list[str],
) -> FleetResult:
    """Measure the rows of all players that could serve."""

    def select(policy: str, column: str) -> Any:
        chosen = rows["policy"] == policy
        order = np.lexsort((rows["user"][chosen], rows["instance"][chosen]))
        return rows[column][chosen][order].reshape(-1, n_users)

    benchmark = OPTIMUM if population.memory == 1.0 else BOUND
    best = select(benchmark, "loss")
    losses = {player.label: select(player.label, "loss") for player in players}
    references = [player.label for player in players if player.reference]
    return FleetResult(
        family=family,
        n_arms=population.n_arms,
        standings=measure_users(losses, best, BASES, references),
        benchmark=benchmark,
        rows=rows,
        absent=absent,
        failures=failures,
        n_users=n_users,
        n_populations=len(best),
    )


def _find_winner(results: Sequence[FleetResult]) -> tuple[str, int]:
    """Return who has the lowest mean regret of late users most often, and how often."""
    winners = [result.standings.policies[result.standings.order[0]] for result in results]
    name = max(winners, key=winners.count)
    return name, winners.count(name)


def open_report(results: Sequence[FleetResult]) -> Opening:
    """Say who serves late users best, by how much, and who was compared."""
    first = results[0].standings
    best, name = first.order[0], results[0].family.name
    winner = f"{first.policies[best]} has the lowest mean regret of late users"
    last = f"All served the same users and met the same noise: {results[0].size}"
    if len(results) > 1:
        name_of_most, often = _find_winner(results)
        winner = f"{name_of_most} has the lowest mean regret of late users"
        families = f"{often} of {len(results)} families"
        return Opening([f"{winner} in {families}", f"{last} of each family"], name, "users")
    mean = f"{first.mean.text(best, -1)} for {first.columns[-1]} of {name}"
    times = [
        f"{ratio.text(best, -1)} times that of {base}"
        for base, ratio in first.ratios.items()
        if np.isfinite(ratio.value[best, -1])
    ]
    less = [f"That is {' and '.join(times)}"] if times else []
    return Opening([f"{winner}: {mean}", *less, last], name, "users")
