"""The leaderboard: a page in Markdown; what the folder of a comparison has is not played again.

python docs/measurements/leaderboard.py ml-latest-small results/arena docs/leaderboard.md
"""

from __future__ import annotations

import shutil
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

import influential_bandits as ib
from influential_bandits.studies.report.text import format_table, two_digits
from influential_bandits.summaries.interval_text import round_to_interval

SHOWN = 5  # policies of each family's table
Row = dict[str, Any]

INTRODUCTION = """\
Every policy meets the same instances and the same noise. Numbers are mean regrets against the
certified optimum over real counts, rounded to what their 95 % intervals over instances support;
the intervals are shown at the largest horizon. **Bold** is the lowest of a column, and an asterisk
marks those whose paired difference from it may be zero. Tables show the best {shown} policies;
oracles know the instance, and are not ranked. Slopes are those from T = {slope:,} on. Instances
have numbers from 1,000,000 on, so that nothing that was tuned on others has seen them.
"""
AGAINST = {
    "relaxation": "",
    "lower bound": "; loss beyond the proved lower bound for fading memory, in place of regret",
}


def write_leaderboard(comparison: ib.Comparison, results: Path, out: Path, command: str) -> None:
    """Write the page of a comparison, with its pictures in a folder beside it."""
    pictures = out.parent / "images" / out.stem
    pictures.mkdir(parents=True, exist_ok=True)
    for section in comparison.sections:
        names = {figure.name for figure in section.analysis.figures}
        for name in names & {"regret", "ranks"}:
            target = section.name if name == "regret" else name
            source = results / section.name / f"{name}.svg"
            shutil.copyfile(source, pictures / f"{target}.svg")
    out.write_text(_page(comparison, f"images/{out.stem}", command), encoding="utf-8")


def _page(comparison: ib.Comparison, images: str, command: str) -> str:
    rows, results = comparison.rows, comparison.results
    today = datetime.now(UTC).date()
    parts = [
        "# Leaderboard",
        INTRODUCTION.format(shown=SHOWN, slope=rows[0]["slope_from"]),
        f"Made by `{command}` (version {ib.__version__}, {today}); do not edit.",
        *comparison.notes,
    ]
    if sum(not row["reference"] for row in rows if row["family"] == rows[0]["family"]) > 1:
        parts += [
            "## Overall",
            _overall(rows),
            f"![Ranks of each policy on each family at its largest horizon]({images}/ranks.svg)",
        ]
    for result in results:
        mine = [row for row in rows if row["family"] == result.family.name]
        parts += _family(result, mine, images)
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _overall(rows: list[Row]) -> str:
    """Return the table of mean ranks: over families at their largest horizon, and by horizon."""
    horizons = sorted({row["horizon"] for row in rows})
    last: dict[str, int] = {}
    for row in rows:
        last[row["family"]] = max(row["horizon"], last.get(row["family"], 0))
    ranked = [row for row in rows if not row["reference"]]
    names = list(dict.fromkeys(row["policy"] for row in ranked))

    def mean_rank(name: str, horizon: int | None) -> float:
        wanted = [
            row["rank"]
            for row in ranked
            if row["policy"] == name and row["horizon"] == (horizon or last[row["family"]])
        ]
        return float(np.mean(wanted))

    def firsts(name: str) -> tuple[int, int]:
        mine = [r for r in ranked if r["policy"] == name and r["horizon"] == last[r["family"]]]
        alone = sum(row["lowest"] for row in mine)
        return alone, sum(row["within_interval_of_lowest"] for row in mine)

    head = ["policy", "mean rank", "lowest", "lowest or within", *(f"T = {t:,}" for t in horizons)]
    lines = []
    for name in sorted(names, key=lambda name: mean_rank(name, None)):
        lowest, within = firsts(name)
        ranks = [f"{mean_rank(name, horizon):.1f}" for horizon in horizons]
        cells = [f"{mean_rank(name, None):.1f}", f"{lowest}/{len(last)}", f"{within}/{len(last)}"]
        lines.append([name, *cells, *ranks])
    text = (
        "Mean ranks at the largest horizon of each family, on how many families a policy is the "
        "lowest, or not apart from the lowest by the paired interval; then mean ranks by horizon."
    )
    return text + "\n\n" + format_table(head, lines)


def _family(result: Any, rows: list[Row], images: str) -> list[str]:
    family, horizons, last = result.family, result.horizons, result.horizons[-1]
    order = sorted(
        (row for row in rows if row["horizon"] == last),
        key=lambda row: (row["reference"], row["mean_regret"]),
    )
    ranked = [row["policy"] for row in order if not row["reference"]]
    shown = ranked[:SHOWN] + [row["policy"] for row in order if row["reference"]]
    cells = {(row["policy"], row["horizon"]): row for row in rows}
    head = ["policy", *(f"T = {t:,}" for t in horizons), "slope", "regret/T, 99 %"]
    lines = []
    for name in shown:
        final = cells[name, last]
        slope = "" if final["slope"] is None else f"{final['slope']:.2f}"
        tail = two_digits(final["regret_per_round_99"])
        means = [_cell(cells[name, t], interval=t == last) for t in horizons]
        lines.append([_name(final), *means, slope, tail])
    text = (
        f"{family.description}. {result.n_instances} runs, {family.noise}"
        f"{AGAINST[result.benchmark]}."
    )
    if family.source:
        text += f" Learned from {family.source}."
    picture = f"![Regret against the horizon, {family.name}]({images}/{family.name}.svg)"
    return [f"## {family.name}", text, format_table(head, lines), picture]


def _name(row: Row) -> str:
    return f"*{row['policy']}*" if row["reference"] else str(row["policy"])


def _cell(row: Row, *, interval: bool) -> str:
    mean, low, high = round_to_interval(row["mean_regret"], row["low"], row["high"])
    if row["lowest"]:
        mean = f"**{mean}**"
    elif row["within_interval_of_lowest"]:
        mean += "\\*"
    return f"{mean} ({low} … {high})" if interval else mean


if __name__ == "__main__":
    release, results, page = sys.argv[1:]
    made_by = " ".join(["python", *sys.argv])
    comparison = ib.compare(data=release, out=results)
    write_leaderboard(comparison, Path(results), Path(page), made_by)
