"""Fill in the tables of docs/scale.md and draw its pictures, from what the benchmark has measured.

First ``python -m benchmarks --only NAME --json NAME.json`` for the names cluster, lanes, large and
growth (this one with ``--plot docs/images/scale/cost.png``), then ``python -m docs.scale *.json``
with those files that are new, all from the root of the tree.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

mpl.use("Agg")
from matplotlib import pyplot as plt

from benchmarks.__main__ import shown
from benchmarks.scheduler import Costs, closed_form, drawn, saturation, simulated

IMAGES = Path(__file__).parent / "images" / "scale"
OTHERS = r"(river|coba|mabwiser|clarabel|cvxpy|scs) "  # have no part in this
PAGE = Path(__file__).parent / "scale.md"
# Okabe and Ito: safe for colour-blind eyes.
COLOURS = {0.1: "#CC79A7", 1.0: "#D55E00", 10.0: "#0072B2", 100.0: "#009E73"}
SINGLE = {"lanes": "Lanes", "large": "Large problems", "growth": "Exponents"}  # one table each
CORES = tuple(round(10 ** (n / 4)) for n in range(17))
# Of which table a row is: the first of these that its name matches.
TABLES = {
    "What a piece costs": r"load|round|empty|the same|client|scheduler$|worker:|latency|to a|from",
    "How long a piece is": r"piece of",
    "Measured scaling": r"\d+ pieces, \d (thread|process)|strong|weak",
    "The simulation against the measurement": r"measured",
    "What one client can serve": r"pieces that|cores that|smallest",
    "The closed form against the simulation": r"[\d,]+ cores",
    "Examples": r".",
}


def tables(rows: list[dict[str, Any]]) -> dict[str, str]:
    """Return all rows as tables in Markdown, by title."""
    named = [(next(t for t, like in TABLES.items() if re.match(like, r["what"])), r) for r in rows]
    return {
        title: "\n".join(table([row for name, row in named if name == title])) for title in TABLES
    }


def table(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the lines of a table; columns that compare are there only if something is compared."""
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


def measured_costs(rows: list[dict[str, Any]]) -> tuple[Costs, dict[float, float]]:
    """Return what the model takes: costs in seconds, and the quantiles of the times of pieces."""
    ours = {row["what"]: row["ours"] for row in rows}
    costs = Costs(
        submit=1e-3 * ours["client: submit"],
        take=1e-3 * ours["client: take a result"],
        write=1e-3 * ours["client: write a result"],
        schedule=1e-3 * ours["scheduler"],
        worker=1e-3 * ours["worker: around the work"],
        latency=1e-3 * ours["latency of a message"],
        startup=ours["worker: process until registered"] + ours["worker: import and load"],
    )
    quantiles = {
        float(what.rpartition(" ")[2]): seconds
        for what, seconds in ours.items()
        if what.startswith("piece of")
    }
    return costs, quantiles


def efficiency(costs: Costs, quantiles: dict[float, float]) -> None:
    """Draw efficiency and makespan by number of cores, for pieces of several lengths."""
    ready = replace(costs, startup=0.0)
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    for seconds, colour in COLOURS.items():
        found, formula = [], []
        for cores in CORES:
            times = drawn(quantiles, seconds, 10 * cores)
            run = simulated(times, cores, ready)
            expected = closed_form(len(times), seconds, cores, ready, float(times.std()))
            found.append((run.makespan, run.efficiency))
            formula.append((expected, times.sum() / (cores * expected)))
        for ax, dots, line in zip(
            (right, left), zip(*found, strict=True), zip(*formula, strict=True), strict=True
        ):
            ax.plot(CORES, line, color=colour, linewidth=1.2)
            ax.plot(CORES, dots, "o", color=colour, markersize=4, label=f"pieces of {seconds:g} s")
        most = saturation(seconds, costs)
        if CORES[0] < most < CORES[-1]:
            left.axvline(most, color=colour, linestyle=":", linewidth=1)
    left.set(xscale="log", xlabel="cores", ylabel="efficiency", ylim=(0, 1.03))
    left.set_title(
        f"Efficiency; dotted: what one client can serve, {1e3 * costs.serial:.1f} ms a piece",
        size=10,
    )
    right.set(xscale="log", yscale="log", xlabel="cores", ylabel="seconds")
    right.set_title("Seconds for 10 pieces a core, until the last is written", size=10)
    for ax in (left, right):
        ax.grid(True, alpha=0.3)
    legend = right.legend(fontsize=8, loc="lower right")
    legend.set_title("dots: simulation; lines: closed form", prop={"size": 8})
    figure.savefig(IMAGES / "efficiency.png", dpi=130)
    plt.close(figure)


def failures(costs: Costs, quantiles: dict[float, float]) -> None:
    """Draw what failures of workers cost, for pieces of several lengths on 1,000 cores."""
    figure, ax = plt.subplots(figsize=(5.6, 3.8), layout="constrained")
    hours = np.array([0.1, 0.3, 1.0, 3.0, 10.0, 100.0])
    for seconds in (10.0, 100.0):
        times = drawn(quantiles, seconds, 5_000)
        calm = simulated(times, 1_000, costs).makespan
        slower = [
            simulated(times, 1_000, costs, failures=1 / (3600 * each), seed=1).makespan / calm
            for each in hours
        ]
        label = f"pieces of {seconds:g} s"
        ax.plot(hours, slower, "o-", color=COLOURS[seconds], markersize=4, label=label)
    ax.set(
        xscale="log", xlabel="mean life of a worker, hours", ylabel="time / time without failures"
    )
    ax.set_title("Workers that are lost: 5,000 pieces on 1,000 cores, simulated", size=10)
    ax.grid(True, alpha=0.3)
    ax.legend(fontsize=8)
    figure.savefig(IMAGES / "failures.png", dpi=130)
    plt.close(figure)


def main() -> None:
    """Fill in and draw."""
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
    """Fill in what was measured of a cluster, and draw it."""
    rows = [row for row in data["rows"] if row["subject"] == "cluster"]
    parts = [part for part in data["machine"].split(", ") if not re.match(OTHERS, part)]
    size = " Short runs (`--quick`), which are less exact." if data["quick"] else ""
    fill({"Machine": f"Machine: {', '.join(parts)}.{size}"} | tables(rows))
    IMAGES.mkdir(parents=True, exist_ok=True)
    efficiency(*measured_costs(rows))
    failures(*measured_costs(rows))


if __name__ == "__main__":
    main()
