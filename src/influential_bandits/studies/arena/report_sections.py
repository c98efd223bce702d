"""What a comparison found, as sections of a report and as text."""

from __future__ import annotations

import numpy as np

from influential_bandits.studies.arena.contest import (
    Contest,
    contenders,
    horizon_ranks,
    last_ranks,
    wins,
)
from influential_bandits.studies.arena.runs import BOUND
from influential_bandits.studies.arena.standings import FITTED_FROM, mean_interval
from influential_bandits.studies.report.text import number
from influential_bandits.studies.runner.study import (
    Analysis,
    Figure,
    Finding,
    Grid,
    Picture,
    Section,
    Series,
    Table,
)

SHOWN = 4  # lines of a figure that have a colour, and rows of a printed table
ALWAYS_SHOWN = ("InfluentialLCB",)  # the paper's own


def family_section(contest: Contest) -> Section:
    """Tell how policies did on one family."""
    family, found = contest.family, contest.found
    settings = {
        "arms": contest.arms,
        "instances": contest.instances,
        "noise": family.noise,
        "against": contest.benchmark,
    }
    if family.source:
        settings["source"] = family.source
    findings = [_lowest(contest, h) for h in _told(contest.horizons)]
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
        [_curves(contest)],
        _notes(contest),
        [_mean_table(contest), _detail_table(contest)],
    )
    return Section(family.name, family.line, settings, analysis)


def _told(horizons: list[int]) -> list[int]:
    """Return the places of the horizons worth a line: a short one, and the last."""
    short = [h for h, horizon in enumerate(horizons[:-1]) if horizon == FITTED_FROM]
    return [*short, len(horizons) - 1]


def _or_none(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _lowest(contest: Contest, h: int) -> Finding:
    found = contest.found
    best = int(found.lowest[h])
    low, high = (float(side[best, h]) for side in found.interval)
    close = [
        name
        for p, name in enumerate(found.policies)
        if found.contender[p] and found.close[p, h] and p != best
    ]
    beside = f"; within the paired interval: {', '.join(close)}" if close else "; alone"
    mean = f"{number(float(found.mean[best, h]))} ({number(low)} … {number(high)})"
    claim = f"lowest mean regret at T = {found.horizons[h]:,}"
    return Finding(claim, found.policies[best], reason=mean + beside)


def ordered(contest: Contest) -> list[int]:
    """Return the policies by mean regret at the largest horizon, contenders before references."""
    found = contest.found
    return sorted(
        range(len(found.policies)), key=lambda p: (not found.contender[p], found.mean[p, -1])
    )


def _cell(contest: Contest, p: int, h: int) -> str:
    found = contest.found
    low, high = (side[p, h] for side in found.interval)
    return f"{found.mean[p, h]:.3g} ({low:.3g} … {high:.3g})"


def _mean_table(contest: Contest) -> Table:
    header = ["policy", *(f"T = {horizon:,}" for horizon in contest.horizons)]
    rows = [
        [_name(contest, p), *(_cell(contest, p, h) for h in range(len(contest.horizons)))]
        for p in ordered(contest)
    ]
    return Table("Mean regret with 95 % intervals", header, rows, _against(contest))


def _name(contest: Contest, p: int) -> str:
    name = contest.found.policies[p]
    return name if contest.found.contender[p] else f"{name} (reference)"


def _against(contest: Contest) -> str:
    return {
        "relaxation": "Regret is against the certified optimum over real counts.",
        BOUND: "Memory fades, so regret is the loss beyond the proved lower bound for T rounds.",
    }[contest.benchmark]


def _detail_table(contest: Contest) -> Table:
    found, last = contest.found, len(contest.horizons) - 1
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
    for p in ordered(contest):
        ratios = (
            (found.ratio, found.ratio_interval),
            (found.reference_ratio, found.reference_interval),
            (found.slope, found.slope_interval),
        )
        rows.append(
            [
                _name(contest, p),
                f"{found.rank[p, last]:g}" if found.contender[p] else "",
                *(_estimate(value[p, last], *(s[p, last] for s in both)) for value, both in ratios),
                _estimate(found.own_slope[p, last], np.nan, np.nan),
                *(number(float(tail[p, last])) for tail in found.tails),
            ]
        )
    title = f"At T = {contest.horizons[last]:,}"
    caption = "Ratios of mean regrets are paired: the same instances are drawn for both."
    return Table(title, header, rows, caption)


def _estimate(value: float, low: float, high: float) -> str:
    if not np.isfinite(value):
        return ""
    if not np.isfinite(low) or not np.isfinite(high):
        return f"{value:.3g}"
    return f"{value:.3g} ({low:.3g} … {high:.3g})"


def _notes(contest: Contest) -> list[str]:
    notes = []
    if contest.absent:
        names = ", ".join(contest.absent)
        notes.append(f"Without {names}: what they would play is not defined here.")
    if contest.left_out:
        notes.append(f"{contest.left_out} instances left out, whose optimum could not be proved.")
    return notes


def _curves(contest: Contest) -> Figure:
    """Draw the best policies and the references; the others stay in the background."""
    found = contest.found
    fading = contest.benchmark != "relaxation"
    order = ordered(contest)
    best = [p for p in order if found.contender[p]][:SHOWN]
    best += [p for p in order if found.policies[p] in ALWAYS_SHOWN and p not in best]
    series = []
    for p in order:
        name = found.policies[p]
        kind = "dashed" if not found.contender[p] else "line" if p in best else "faint"
        banded = p in best[:1] or name in ALWAYS_SHOWN
        series.append(_series(contest, name, kind, fading, banded))
    what = f"loss per round beyond the {contest.benchmark}" if fading else "regret"
    return Figure(
        "regret",
        f"{contest.family.name}: {contest.instances} runs",
        "horizon T",
        f"mean {what}",
        series,
        caption=f"{contest.family.line}. In colour: the lowest at the largest horizon, and "
        f"{', '.join(ALWAYS_SHOWN)}; dashed: references; grey: the others. Bands: 95 % intervals "
        "of the mean, of the lowest and of the paper's policy.",
    )


def _series(contest: Contest, name: str, kind: str, per_round: bool, banded: bool) -> Series:
    marks, values = contest.curves[name]
    if per_round:
        values = values / marks
    mean = values.mean(axis=0)
    mean = np.where(mean > 0.0, mean, np.nan)  # a log scale has no zero
    if not banded or len(values) < 2:
        return Series(name, marks, mean, kind=kind)
    low, high = mean_interval(values)
    return Series(name, marks, mean, low, high, kind)


def overview_section(contests: list[Contest], notes: list[str]) -> Section:
    """Tell who does best over all families."""
    names = contenders(contests)
    settings = {"families": len(contests), "policies": len(contests[0].found.policies)}
    line = "Who does best over all families, families counting alike"
    if len(names) < 2:
        return Section("overview", line, settings, Analysis([], [], notes))
    last = last_ranks(contests)
    mean = last.mean(axis=1)
    order = np.argsort(mean, kind="stable")
    findings = [
        Finding(
            f"mean rank of {names[p]} at the largest horizons",
            float(mean[p]),
            reason=f"first in {int((last[p] == 1).sum())} of {len(contests)} families",
        )
        for p in order[:SHOWN]
    ]
    figures = [_rank_grid(contests), _horizon_grid(contests), _win_grid(contests)]
    return Section("overview", line, settings, Analysis(findings, figures, notes))


def _rank_grid(contests: list[Contest]) -> Picture:
    names = contenders(contests)
    ranks = last_ranks(contests)
    values = np.column_stack([ranks.mean(axis=1), ranks])
    order = np.argsort(values[:, 0], kind="stable")
    return Grid(
        "ranks",
        "Ranks by mean regret at the largest horizon",
        [names[p] for p in order],
        ["mean rank", *(contest.family.name for contest in contests)],
        values[order],
        1.0,
        float(len(names)),
        digits=1,
        caption="1 is the lowest mean regret. Policies are sorted by their mean rank.",
    )


def _horizon_grid(contests: list[Contest]) -> Picture:
    names = contenders(contests)
    horizons, values = horizon_ranks(contests)
    order = np.argsort(last_ranks(contests).mean(axis=1), kind="stable")
    return Grid(
        "ranks-by-horizon",
        "Mean ranks by horizon",
        [names[p] for p in order],
        [f"T = {horizon:,}" for horizon in horizons],
        values[order],
        1.0,
        float(len(names)),
        digits=1,
        caption="Over the families that go so far.",
    )


def _win_grid(contests: list[Contest]) -> Picture:
    found = wins(contests)
    order = np.argsort(last_ranks(contests).mean(axis=1), kind="stable")
    names = [found["policies"][p] for p in order]
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


def printed(contests: list[Contest], notes: list[str]) -> str:
    """Return a compact table for each family, for a terminal."""
    lines = []
    for contest in contests:
        found = contest.found
        head = [f"T = {horizon:,}" for horizon in contest.horizons]
        lines += [
            f"{contest.family.name}: {contest.family.line} ({contest.instances} runs)",
            "",
            f"| mean regret | {' | '.join(head)} | slope |",
            f"|---{'|---:' * (len(head) + 1)}|",
        ]
        order = ordered(contest)
        ranked = [p for p in order if found.contender[p]]
        shown = ranked[: SHOWN + 1] + [p for p in order if not found.contender[p]]
        for p in shown:
            means = [number(float(mean)) for mean in found.mean[p]]
            slope = found.slope[p, -1]
            means.append(f"{slope:.2f}" if np.isfinite(slope) else "")
            lines.append(f"| {_name(contest, p)} | {' | '.join(means)} |")
        if len(ranked) > SHOWN + 1:
            lines.append(f"… and {len(ranked) - SHOWN - 1} more in the report")
        lines.append("")
    return "\n".join(lines + notes).rstrip()
