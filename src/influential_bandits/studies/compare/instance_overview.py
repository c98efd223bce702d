"""What all families of instances say together: ranks, and who does best."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.studies.compare.instance_results import InstanceResult
from influential_bandits.studies.report.content import (
    Analysis,
    Grid,
    Opening,
    Picture,
    Section,
)

OVERVIEW = "overview"


def list_contenders(results: Sequence[InstanceResult]) -> list[str]:
    """Return the policies that are ranked: the same ones on every family."""
    standings = results[0].standings
    return [name for p, name in enumerate(standings.policies) if standings.contender[p]]


def make_overview(results: Sequence[InstanceResult], notes: Sequence[str]) -> Section:
    """Return the section that says who does best over all families."""
    names = list_contenders(results)
    settings = {"families": len(results), "policies": len(results[0].standings.policies)}
    line = "Who does best over all families, families counting alike"
    if len(names) < 2:
        return Section(OVERVIEW, line, settings, Analysis([], [], list(notes)))
    return Section(OVERVIEW, line, settings, Analysis([], [_rank_grid(results)], list(notes)))


def open_report(results: Sequence[InstanceResult]) -> Opening:
    """Say who does best, by how much, and on what."""
    names = list_contenders(results)
    runs = f"All policies met the same instances and noise: {_count_runs(results)}"
    picture = (OVERVIEW, "ranks") if len(results) > 1 and len(names) > 1 else None
    section, figure = picture or (results[0].family.name, "regret")
    if len(names) < 2:
        return Opening([f"{names[0]} alone was played" if names else "", runs], section, figure)
    if len(results) == 1:
        return Opening([*_describe_family(results[0]), runs], section, figure)
    ranks, mean, (best, second, *_) = _rank_at_largest_horizon(results)
    alike = [names[p] for p in np.flatnonzero(mean == mean[best])]
    if len(alike) > 1:
        tie = f"{', '.join(alike)} share the lowest mean rank, {mean[best]:.1f}: none did best"
        return Opening([tie, runs], section, figure)
    firsts = int((ranks[best] == 1).sum())
    sentences = [
        (
            f"{names[best]} did best: it has the lowest mean regret at the largest horizon in "
            f"{firsts} of {len(results)} families, and the lowest mean rank, {mean[best]:.1f}"
        ),
        f"{names[second]} follows with a mean rank of {mean[second]:.1f}",
        runs,
    ]
    return Opening(sentences, section, figure)


def _describe_family(result: InstanceResult) -> list[str]:
    """Say who has the lowest mean regret at the largest horizon, and how far the next is."""
    standings, last = result.standings, len(result.horizons) - 1
    best, second = standings.ranked[:2]
    close = ", and the paired interval of their difference holds zero"
    return [
        (
            f"{standings.policies[best]} has the lowest mean regret at {standings.columns[last]}: "
            f"{standings.mean.text(best, last)}"
        ),
        (
            f"The next, {standings.policies[second]}, has {standings.ratio.text(second, last)} "
            f"times as much{close if standings.close[second, last] else ''}"
        ),
    ]


def _count_runs(results: Sequence[InstanceResult]) -> str:
    many = sum(result.n_runs for result in results)
    families = f" of {len(results)} families" if len(results) > 1 else ""
    return f"{many:,} run{'s' * (many > 1)}{families} for each"


def _rank_at_largest_horizon(results: Sequence[InstanceResult]) -> tuple[Floats, Floats, Ints]:
    """Return ranks at each family's largest horizon, their means, and contenders by these.

    Ranks are (contenders, families).
    """
    standings = [result.standings for result in results]
    ranks = np.stack([each.rank[each.contender, -1] for each in standings], axis=1)
    mean = ranks.mean(axis=1)
    return ranks, mean, np.argsort(mean, kind="stable")


def _rank_grid(results: Sequence[InstanceResult]) -> Picture:
    """Return the ranks by family, policies sorted by their mean rank."""
    names = list_contenders(results)
    ranks, mean, order = _rank_at_largest_horizon(results)
    return Grid(
        "ranks",
        "Ranks by mean regret at the largest horizon",
        [results[0].mark(names[p]) for p in order],
        ["mean rank", *(result.family.name for result in results)],
        np.column_stack([mean, ranks])[order],
        1.0,
        float(len(names)),
        1,
        "1 is the lowest mean regret. Policies are sorted by their mean rank.",
    )
