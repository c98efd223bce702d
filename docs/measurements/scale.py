"""Fill in the tables of docs/explanation/scaling.md from what the benchmark has measured.

First ``python -m benchmarks --only NAME --json NAME.json`` for the names cluster, lanes, large and
growth (this one with ``--plot docs/images/scale/cost.png``), then
``python -m docs.measurements.scale *.json`` with those files that are new, all from the root of the
tree.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.__main__ import shown

OTHERS = r"(river|coba|mabwiser|clarabel|cvxpy|scs) "  # have no part in this
PAGE = Path(__file__).parents[1] / "explanation" / "scaling.md"
SINGLE = {"lanes": "Lanes", "large": "Large problems", "growth": "Exponents"}  # one table each
# Of which table a row is: the first of these that its name matches.
TABLES = {
    "What a piece costs": r"load|round|empty|the same|client|scheduler$|worker:|latency|to a|from",
    "How long a piece is": r"piece of",
    "Measured scaling": r"\d+ pieces, \d (thread|process)|strong|weak",
    "The formula against the measurement": r"measured",
    "What one client can serve": r"pieces that|cores that|smallest",
    "Examples": r".",
}
# Rows that the page does without: what others say as well.
LEFT_OUT = (
    r"the same, sched|empty tasks, [12] w|client: proc|piece of .* quantile 0\.[19]"
    r"|measured: 20|cores that pieces of 100"
    r"|.* K = (2|4|5|7|8|9|10|11), Gaussian noise, 16|.*all rounds|.*, one run: peak"
    r"|.*in lanes: peak|one pass .* sent along"
)


def tables(rows: list[dict[str, Any]]) -> dict[str, str]:
    """Return all rows as tables in Markdown, by title."""
    named = [(next(t for t, like in TABLES.items() if re.match(like, r["what"])), r) for r in rows]
    return {
        title: "\n".join(table([row for name, row in named if name == title])) for title in TABLES
    }


def table(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the lines of a table; columns that compare are there only if something is compared."""
    rows = [row for row in rows if not re.match(LEFT_OUT, row["what"])]
    compared = any(row["theirs"] is not None for row in rows)
    yield "| what | " + ("| beside | | ratio | note |" if compared else "| note |")
    yield "|---|---:|" + ("---|---:|---:|---|" if compared else "---|")
    for row in rows:
        cells = [row["what"], shown(row["ours"], row["unit"]).strip()]
        if compared:
            cells += [row["peer"], shown(row["theirs"], row["unit"])]
            cells.append("" if row["ratio"] is None else f"{row['ratio']:.2f}")
        yield "| " + " | ".join([*cells, row["note"]]) + " |"


def filled(text: str, contents: dict[str, str]) -> str:
    """Put each content between its marks, ``<!-- title -->`` and ``<!-- end -->``."""
    for title, content in contents.items():
        marks = re.compile(rf"(<!-- {re.escape(title)} -->\n).*?(\n<!-- end -->)", re.DOTALL)
        text, found = marks.subn(lambda match, new=content: f"{match[1]}{new}{match[2]}", text)
        if found != 1:
            raise ValueError(f"{PAGE} has {found} places for {title!r}, and should have one")
    return text


def main() -> None:
    """Fill in all files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", type=Path, nargs="+", help="what benchmarks have written")
    for file in parser.parse_args().files:
        data = json.loads(file.read_text(encoding="utf-8"))
        for subject, title in SINGLE.items():
            mine = [row for row in data["rows"] if row["subject"] == subject]
            if mine:
                fill({title: "\n".join(table(mine))})
        if any(row["subject"] == "cluster" for row in data["rows"]):
            fill_cluster(data)


def fill(contents: dict[str, str]) -> None:
    """Fill in the page."""
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), contents), encoding="utf-8")


def fill_cluster(data: dict[str, Any]) -> None:
    """Fill in what was measured of a cluster."""
    rows = [row for row in data["rows"] if row["subject"] == "cluster"]
    parts = [part for part in data["machine"].split(", ") if not re.match(OTHERS, part)]
    size = " Short runs (`--quick`), which are less exact." if data["quick"] else ""
    fill({"Machine": f"Machine: {', '.join(parts)}.{size}"} | tables(rows))


if __name__ == "__main__":
    main()
