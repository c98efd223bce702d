"""The leaderboard: a page in Markdown, made of nothing but the files that a comparison left.

influential-bandits compare --data ml-latest-small --out results/arena
python docs/measurements/leaderboard.py results/arena docs/leaderboard.md
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np

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


def write_leaderboard(results: Path, out: Path) -> None:
    """Write the page of a folder's results, with its pictures in a folder beside it."""
    rows = json.loads((results / "summary.json").read_text(encoding="utf-8"))
    about = json.loads((results / "arena.json").read_text(encoding="utf-8"))
    pictures = out.parent / "images" / out.stem
    pictures.mkdir(parents=True, exist_ok=True)
    for source, name in _pictures(about):
        shutil.copyfile(results / source, pictures / name)
    command = f"python docs/measurements/leaderboard.py {results} {out}"
    out.write_text(_page(rows, about, f"images/{out.stem}", command), encoding="utf-8")


def _pictures(about: dict[str, Any]) -> list[tuple[str, str]]:
    """Return which file of the results becomes which picture of the page."""
    families = [family["family"] for family in about["families"]]
    overview = ["ranks", "wins"] if len(about["wins"]["policies"]) > 1 else []
    return [(f"overview/{name}.svg", f"{name}.svg") for name in overview] + [
        (f"{name}/regret.svg", f"{name}.svg") for name in families
    ]


def _page(rows: list[Row], about: dict[str, Any], images: str, command: str) -> str:
    made = about["provenance"]
    parts = [
        "# Leaderboard",
        INTRODUCTION.format(shown=SHOWN, slope=rows[0]["slope_from"]),
        (
            f"Made by `{made['command']}` (version {made['version']}, {made['date'][:10]}) and "
            f"then `{command}`; do not edit."
        ),
        *about["notes"],
    ]
    if len(about["wins"]["policies"]) > 1:
        parts += [
            "## Overall",
            _overall(rows, about),
            f"![Ranks of each policy on each family at its largest horizon]({images}/ranks.svg)",
            (
                "How often the policy of the row has less regret than that of the column, at the "
                "largest horizon of each family, families counting alike:"
            ),
            f"![Share of instances on which one policy beats another]({images}/wins.svg)",
        ]
    for family in about["families"]:
        mine = [row for row in rows if row["family"] == family["family"]]
        parts += _family(family, mine, images)
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _overall(rows: list[Row], about: dict[str, Any]) -> str:
    """Return the table of mean ranks: over families at their largest horizon, and by horizon."""
    horizons = sorted({row["horizon"] for row in rows})
    last = {family["family"]: max(family["horizons"]) for family in about["families"]}
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


def _family(family: dict[str, Any], rows: list[Row], images: str) -> list[str]:
    last = max(family["horizons"])
    order = sorted(
        (row for row in rows if row["horizon"] == last),
        key=lambda row: (row["reference"], row["mean_regret"]),
    )
    ranked = [row["policy"] for row in order if not row["reference"]]
    shown = ranked[:SHOWN] + [row["policy"] for row in order if row["reference"]]
    cells = {(row["policy"], row["horizon"]): row for row in rows}
    head = ["policy", *(f"T = {t:,}" for t in family["horizons"]), "slope", "regret/T, 99 %"]
    lines = []
    for name in shown:
        final = cells[name, last]
        slope = "" if final["slope"] is None else f"{final['slope']:.2f}"
        tail = two_digits(final["regret_per_round_99"])
        means = [_cell(cells[name, t], interval=t == last) for t in family["horizons"]]
        lines.append([_name(final), *means, slope, tail])
    text = (
        f"{family['description']}. {family['instances']} runs, {family['noise']}"
        f"{AGAINST[family['benchmark']]}."
    )
    if family["source"]:
        text += f" Learned from {family['source']}."
    picture = f"![Regret against the horizon, {family['family']}]({images}/{family['family']}.svg)"
    return [f"## {family['family']}", text, format_table(head, lines), picture]


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
    write_leaderboard(*map(Path, sys.argv[1:]))
