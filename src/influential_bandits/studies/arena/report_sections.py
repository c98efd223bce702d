"""What a comparison found, as sections of a report and as text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from influential_bandits.display import make_html
from influential_bandits.numerics.arrays import Floats
from influential_bandits.numerics.resampling import bootstrap_mean_interval
from influential_bandits.studies.arena.results import (
    FamilyResult,
    list_contenders,
    rank_at_largest_horizon,
    rank_by_horizon,
    share_wins,
)
from influential_bandits.studies.arena.runs import BOUND
from influential_bandits.studies.arena.standings import FITTED_FROM
from influential_bandits.studies.report.content import (
    Analysis,
    Figure,
    Finding,
    Grid,
    Opening,
    Picture,
    Section,
    Series,
    Table,
)
from influential_bandits.studies.report.text import estimate, format_table, rounded, two_digits

SHOWN = 4  # lines of a figure that have a colour, and rows of a printed table
ALWAYS_SHOWN = ("InfluentialLCB",)  # the paper's own
BELOW_ZERO = (
    "A slope below zero says that mean regret shrinks as T grows. It can: the optimum is another "
    "one for each T, and pulls that were too many for a short game are needed in a longer one."
)


def make_family_section(result: FamilyResult) -> Section:
    """Return the section of one family."""
    family, found = result.family, result.standings
    settings = {
        "arms": result.n_arms,
        "instances": result.n_instances,
        "noise": family.noise,
        "against": result.benchmark,
    }
    if family.source:
        settings["source"] = family.source
    findings = [_find_lowest(result, h) for h in _choose_rows(result.horizons)]
    last = len(found.horizons) - 1
    best = int(found.lowest[last])
    if np.isfinite(found.slope[best, last]):
        findings.append(
            Finding(
                f"slope of the mean regret of {found.policies[best]}",
                float(found.slope[best, last]),
                low=_or_none(found.slope_interval[0][best, last]),
                high=_or_none(found.slope_interval[1][best, last]),
                fitted=f"{FITTED_FROM:,} … {found.horizons[last]:,}",
            )
        )
    analysis = Analysis(
        findings if found.contender.any() else [],
        [_draw_curves(result)],
        _list_notes(result),
        [_mean_table(result), _detail_table(result)],
    )
    return Section(family.name, family.description, settings, analysis)


def _choose_rows(horizons: list[int]) -> list[int]:
    """Return the places of the horizons worth a line: a short one, and the last."""
    short = [h for h, horizon in enumerate(horizons[:-1]) if horizon == FITTED_FROM]
    return [*short, len(horizons) - 1]


def _or_none(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _find_lowest(result: FamilyResult, h: int) -> Finding:
    found = result.standings
    best = int(found.lowest[h])
    close = [
        name
        for p, name in enumerate(found.policies)
        if found.contender[p] and found.close[p, h] and p != best
    ]
    beside = f"; within the paired interval: {', '.join(close)}" if close else "; alone"
    mean = _cell(result, best, h)
    claim = f"lowest mean regret at T = {found.horizons[h]:,}"
    return Finding(claim, found.policies[best], reason=mean + beside)


def _cell(result: FamilyResult, p: int, h: int) -> str:
    found = result.standings
    return estimate(found.mean[p, h], *(side[p, h] for side in found.interval))


def _mean_table(result: FamilyResult) -> Table:
    header = ["policy", *(f"T = {horizon:,}" for horizon in result.horizons)]
    rows = [
        [_name(result, p), *(_cell(result, p, h) for h in range(len(result.horizons)))]
        for p in result.order
    ]
    title, ranks = "Mean regret with 95 % intervals", result.standings.rank
    strong = {
        (row, h + 1)
        for row, p in enumerate(result.order)
        for h in range(len(result.horizons))
        if ranks[p, h] == np.nanmin(ranks[:, h], initial=np.inf)
    }
    return Table(title, header, rows, _against(result), strong=strong | _mark_own(result))


def _mark_own(result: FamilyResult) -> set[tuple[int, int]]:
    """Return the cells with the names of the user's own policies, in the order of the tables."""
    names = result.standings.policies
    return {(row, 0) for row, p in enumerate(result.order) if names[p] in result.own}


def _name(result: FamilyResult, p: int) -> str:
    name = result.name(result.standings.policies[p])
    return name if result.standings.contender[p] else f"{name} (reference)"


def _against(result: FamilyResult) -> str:
    return {
        "relaxation": "Regret is against the certified optimum over real counts.",
        BOUND: "Memory fades, so regret is the loss beyond the proved lower bound for T rounds.",
    }[result.benchmark]


def _detail_table(result: FamilyResult) -> Table:
    found, last = result.standings, len(result.horizons) - 1
    header = [
        "policy",
        "rank",
        "ratio to the lowest",
        "ratio to EachArmOnceOracle",
        f"slope from T = {FITTED_FROM:,}",
        "of the median instance",
        "regret/T: median",
        "90 %",
        "99 %",
        "largest",
    ]
    rows = []
    for p in result.order:
        ratios = (
            (found.ratio, found.ratio_interval),
            (found.reference_ratio, found.reference_interval),
            (found.slope, found.slope_interval),
        )
        rows.append(
            [
                _name(result, p),
                f"{found.rank[p, last]:g}" if found.contender[p] else "",
                *(estimate(value[p, last], *(s[p, last] for s in both)) for value, both in ratios),
                estimate(found.own_slope[p, last], np.nan, np.nan),
                *(two_digits(float(tail[p, last])) for tail in found.tails),
            ]
        )
    title = f"At T = {result.horizons[last]:,}"
    caption = "Ratios of mean regrets are paired: the same instances are drawn for both."
    if (found.slope[:, last] < 0.0).any() or (found.own_slope[:, last] < 0.0).any():
        caption += f" {BELOW_ZERO}"
    return Table(title, header, rows, caption, strong=_mark_own(result))


def _list_notes(result: FamilyResult) -> list[str]:
    notes = []
    if result.absent:
        names = ", ".join(result.absent)
        notes.append(f"Without {names}: what they would play is not defined here.")
    if result.left_out:
        notes.append(f"{result.left_out} instances left out, whose optimum could not be proved.")
    return notes + result.failures


def _draw_curves(result: FamilyResult) -> Figure:
    """Draw the best policies and the references; the others stay in the background."""
    found = result.standings
    fading = result.benchmark != "relaxation"
    order = result.order
    best = [p for p in order if found.contender[p]][:SHOWN]
    shown = {*ALWAYS_SHOWN, *result.own}
    best += [p for p in order if found.policies[p] in shown and p not in best]
    series = []
    for p in order:
        name = found.policies[p]
        kind = "dashed" if not found.contender[p] else "line" if p in best else "faint"
        banded = p in best[:1] or name in shown
        series.append(_series(result, name, kind, fading, banded))
    what = f"loss per round beyond the {result.benchmark}" if fading else "regret"
    return Figure(
        "regret",
        f"{result.family.name}: {result.size}",
        "horizon T",
        f"mean {what}",
        series,
        caption=_explain_curves(result),
    )


def _explain_curves(result: FamilyResult) -> str:
    """Say what colours, widths and bands of the curves mean, as far as they are there."""
    policies = result.standings.policies
    named = [name for name in (*ALWAYS_SHOWN, *sorted(result.own)) if name in policies]
    colour = ", and ".join(["the lowest at the largest horizon", *filter(None, [", ".join(named)])])
    bands = "the lowest and of the policies named" if named else "the lowest"
    return (
        f"{result.family.description}. In colour: {colour}; dashed: references; grey: the "
        f"others{'; thick: your own' if result.own else ''}. Bands: 95 % intervals of the mean, of "
        f"{bands}."
    )


def _series(result: FamilyResult, name: str, kind: str, per_round: bool, banded: bool) -> Series:
    marks, values = result.curves[name]
    if per_round:
        values = values / marks
    mean = values.mean(axis=0)
    mean = np.where(mean > 0.0, mean, np.nan)  # a log scale has no zero
    low, high = bootstrap_mean_interval(values) if banded and len(values) > 1 else (None, None)
    return Series(result.name(name), marks, mean, low, high, kind, strong=name in result.own)


def open_report(results: Sequence[FamilyResult]) -> Opening:
    """Say who does best, by how much, and on what."""
    names = list_contenders(results)
    how = f"All policies met the same instances and noise: {_count_runs(results)}"
    picture = ("overview", "ranks") if len(results) > 1 and len(names) > 1 else None
    section, figure = picture or (results[0].family.name, "regret")
    if len(names) < 2:
        return Opening([f"{names[0]} alone was played" if names else "", how], section, figure)
    if len(results) == 1:
        return Opening([*_tell_family(results[0]), how], section, figure)
    ranks = rank_at_largest_horizon(results)
    mean = ranks.mean(axis=1)
    best, second = np.argsort(mean, kind="stable")[:2]
    firsts = int((ranks[best] == 1).sum())
    alike = [names[p] for p in np.flatnonzero(mean == mean[best])]
    if len(alike) > 1:
        told = f"{', '.join(alike)} share the lowest mean rank, {mean[best]:.1f}: none did best"
        return Opening([told, how], section, figure)
    return Opening(
        [
            (
                f"{names[best]} did best: it has the lowest mean regret at the largest horizon in "
                f"{firsts} of {len(results)} families, and the lowest mean rank, {mean[best]:.1f}"
            ),
            f"{names[second]} follows with a mean rank of {mean[second]:.1f}",
            how,
        ],
        section,
        figure,
    )


def _tell_family(result: FamilyResult) -> list[str]:
    """Say who has the lowest mean regret at the largest horizon, and how far the next is."""
    found, last = result.standings, len(result.horizons) - 1
    best, second = [p for p in result.order if found.contender[p]][:2]
    ratio = estimate(found.ratio[second, last], *(s[second, last] for s in found.ratio_interval))
    close = ", and the paired interval of their difference holds zero"
    return [
        (
            f"{found.policies[best]} has the lowest mean regret at T = {result.horizons[last]:,}: "
            f"{_cell(result, best, last)}"
        ),
        (
            f"The next, {found.policies[second]}, has {ratio} times as much"
            f"{close if found.close[second, last] else ''}"
        ),
    ]


def _count_runs(results: Sequence[FamilyResult]) -> str:
    many = sum(result.n_runs for result in results)
    families = f" of {len(results)} families" if len(results) > 1 else ""
    return f"{many:,} run{'s' * (many > 1)}{families} for each"


def make_overview(results: Sequence[FamilyResult], notes: list[str]) -> Section:
    """Return the section that says who does best over all families."""
    names = list_contenders(results)
    settings = {"families": len(results), "policies": len(results[0].standings.policies)}
    line = "Who does best over all families, families counting alike"
    if len(names) < 2:
        return Section("overview", line, settings, Analysis([], [], notes))
    last = rank_at_largest_horizon(results)
    mean = last.mean(axis=1)
    order = np.argsort(mean, kind="stable")
    findings = [
        Finding(
            f"mean rank of {names[p]} at the largest horizons",
            float(mean[p]),
            reason=f"first in {int((last[p] == 1).sum())} of {len(results)} families",
        )
        for p in order[:SHOWN]
    ]
    figures = [*_rank_grids(results), _win_grid(results)]
    return Section("overview", line, settings, Analysis(findings, figures, notes))


def _rank_grids(results: Sequence[FamilyResult]) -> list[Picture]:
    """Return the ranks by family and by horizon, policies sorted by their mean rank."""
    names = list_contenders(results)
    ranks = rank_at_largest_horizon(results)
    mean = ranks.mean(axis=1)
    order = np.argsort(mean, kind="stable")

    def draw(name: str, title: str, columns: list[str], values: Floats, caption: str) -> Grid:
        rows, worst = [results[0].name(names[p]) for p in order], float(len(names))
        return Grid(name, title, rows, columns, values[order], 1.0, worst, 1, caption)

    horizons, by_horizon = rank_by_horizon(results)
    return [
        draw(
            "ranks",
            "Ranks by mean regret at the largest horizon",
            ["mean rank", *(result.family.name for result in results)],
            np.column_stack([mean, ranks]),
            "1 is the lowest mean regret. Policies are sorted by their mean rank.",
        ),
        draw(
            "ranks-by-horizon",
            "Mean ranks by horizon",
            [f"T = {horizon:,}" for horizon in horizons],
            by_horizon,
            "Over the families that go so far.",
        ),
    ]


def _win_grid(results: Sequence[FamilyResult]) -> Picture:
    found = share_wins(results)
    order = np.argsort(rank_at_largest_horizon(results).mean(axis=1), kind="stable")
    names = [results[0].name(found["policies"][p]) for p in order]
    shares = np.array(found["shares"])[np.ix_(order, order)]
    np.fill_diagonal(shares, np.nan)
    return Grid(
        "wins",
        "How often the row has less regret than the column",
        names,
        names,
        shares,
        1.0,
        0.0,
        caption="Share of instances at the largest horizon of each family; ties count half.",
    )


def format_results(results: Sequence[FamilyResult], notes: Sequence[str]) -> str:
    """Return a compact table for each family, for a terminal."""
    parts = []
    for result in results:
        found = result.standings
        header = ["mean regret", *(f"T = {horizon:,}" for horizon in result.horizons), "slope"]
        ranked = [p for p in result.order if found.contender[p]]
        own = [p for p in ranked[SHOWN + 1 :] if found.policies[p] in result.own]
        shown = ranked[: SHOWN + 1] + own
        left = len(ranked) - len(shown)
        shown += [p for p in result.order if not found.contender[p]]
        rows = []
        for p in shown:
            slope = found.slope[p, -1]
            ends = zip(found.mean[p], *(side[p] for side in found.interval), strict=True)
            means = [rounded(*map(float, each)) for each in ends]
            rows.append([_name(result, p), *means, f"{slope:.2f}" if np.isfinite(slope) else ""])
        title = f"{result.family.name}: {result.family.description} ({result.size})"
        parts.append(f"{title}\n\n{format_table(header, rows)}")
        if left:
            parts[-1] += f"\n… and {left} more"
    return "\n\n".join([*parts, "\n".join(notes)]).rstrip()


def format_html(results: Sequence[FamilyResult], notes: Sequence[str]) -> str:
    """Return the mean regrets of all policies as HTML, for notebooks."""
    parts = []
    for result in results:
        table = _mean_table(result)
        title = f"{result.family.name}: {result.family.description}"
        note = f"{table.title}, {result.size}. {table.caption}"
        parts.append(make_html(title, header=table.header, rows=table.rows, note=note))
    return "".join([*parts, *(make_html(note) for note in notes)])
