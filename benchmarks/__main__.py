"""Measure everything and print the table: ``python -m benchmarks`` from the root of the tree."""

import argparse
import json
import os
import platform
from dataclasses import asdict
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import (
    cluster,
    diagnosis,
    engine,
    fleets,
    foresight,
    gpu,
    growth,
    lanes,
    large,
    learning,
    live,
    path,
    peers,
    reading,
    scaling,
    start,
)

SUBJECTS = {
    "engine": engine.rows,
    "lanes": lanes.rows,
    "peers": peers.rows,
    "large": large.rows,
    "foresight": foresight.rows,
    "fleets": fleets.rows,
    "gpu": gpu.rows,
    "path": path.rows,
    "learning": learning.rows,
    "diagnosis": diagnosis.rows,
    "reading": reading.rows,
    "start": start.rows,
    "scaling": scaling.rows,
    "growth": growth.rows,
    "cluster": cluster.rows,
    "live": live.rows,
}
PACKAGES = (
    "numba",
    "numba-cuda",
    "numpy",
    "distributed",
    "duckdb",
    "river",
    "coba",
    "mabwiser",
    "clarabel",
    "cvxpy",
    "scs",
)
METHOD = "Ours and peers take turns in this run; each figure is the minimum of several repetitions."


def main():
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=METHOD)
    parser.add_argument("--only", metavar="NAME", choices=SUBJECTS, help=", ".join(SUBJECTS))
    parser.add_argument("--quick", action="store_true", help="shorter and less exact")
    parser.add_argument("--json", metavar="FILE", type=Path, help="also write the rows here")
    parser.add_argument("--plot", metavar="FILE", type=Path, help="draw the curves of growth here")
    options = parser.parse_args()
    subjects = SUBJECTS | {"growth": partial(growth.rows, plot=options.plot)}
    console = Console()
    if not console.is_terminal:
        console = Console(width=200)  # a log is not wrapped
    measured = {}
    for name in [options.only] if options.only else subjects:
        with Console(stderr=True).status(f"Measuring {name} …"):
            measured[name] = list(subjects[name](options.quick))
    everything = dict(measured)
    scaled, spread = measured.pop("scaling", None), measured.pop("cluster", None)
    if measured:
        console.print(table("Speed", measured.values(), f"{METHOD}\n{machine()}"))
        console.print(verdict([row for rows in measured.values() for row in rows]))
    if scaled:
        title = "Growth of InfluentialLCB, Gaussian noise, one core (information)"
        console.print(table(title, [scaled], METHOD))
    if spread:
        title = "Pieces on a cluster of this computer, and a formula for larger ones (information)"
        console.print(table(title, [spread], machine()))
    if options.json:
        rows = [as_data(name, row) for name, rows in everything.items() for row in rows]
        data = {"machine": machine(), "quick": options.quick, "rows": rows}
        options.json.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n", "utf-8")


def table(title, sections, caption):
    out = Table(title=title, caption=caption, title_justify="left", caption_justify="left")
    barred = any(row.bar for rows in sections for row in rows)
    noted = any(row.note for rows in sections for row in rows)
    for name in ("what", "ours", "peer or limit", "theirs", "ratio"):
        out.add_column(name, justify="left" if name in ("what", "peer or limit") else "right")
    if barred:
        out.add_column("bar")
        out.add_column("met")
    if noted:
        out.add_column("note")
    for rows in sections:
        for row in rows:
            cells = [row.what, shown(row.ours, row.unit), row.peer, shown(row.theirs, row.unit)]
            cells.append(shown(row.ratio, "×"))
            if barred:
                met = {True: "[green]yes", False: "[red]no", None: ""}[row.met]
                cells += [str(row.bar or ""), met]
            if noted:
                cells.append(row.note)
            out.add_row(*cells)
        out.add_section()
    return out


def shown(value, unit):
    """Three digits are more than a timing is good for."""
    if value is None:
        return ""
    return f"{value:,.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"


def verdict(rows):
    barred = [row for row in rows if row.bar]
    said = f"{sum(row.met is True for row in barred)} of {len(barred)} bars met"
    for row in barred:
        if not row.met:
            said += f"\n  {'not measured' if row.met is None else 'missed'}: {row.what}, {row.peer}"
    return said


def machine():
    parts = [processor(), f"{os.cpu_count()} cores", f"Python {platform.python_version()}"]
    return ", ".join(parts + [f"{name} {installed(name)}" for name in PACKAGES])


def processor():
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def installed(name):
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def as_data(subject, row):
    bar = None if row.bar is None else row.bar._asdict()
    return {"subject": subject, **asdict(row), "bar": bar, "met": row.met}


if __name__ == "__main__":
    main()
