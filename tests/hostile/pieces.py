"""Finished pieces of studies and arenas, spoilt and read again."""

import os
import shutil
from functools import partial
from pathlib import Path

import matplotlib.figure
import pyarrow as pa
import pyarrow.parquet as pq

from hostile.judging import LOST, OTHER, demand, prepared, shared, tell
from hostile.mutating import mutate_bytes
from influential_bandits.studies.compare.compare import compare
from influential_bandits.studies.runner.running import reproduce
from influential_bandits.studies.runner.study import choose_studies


def save_nothing(self, target, **_):
    """Stand in for pictures, which take most of the time and hold no data."""
    if hasattr(target, "write"):
        target.write("<svg></svg>")  # reports draw into a text
    else:
        Path(target).touch()


matplotlib.figure.Figure.savefig = save_nothing
WAYS = ("bytes", "bytes", "bytes", "rows", "rows", "swap", "copy", "foreign", "side", "folder")


def run_study(out, other=False):
    reproduce(choose_studies(["figure-1b"]), out, "tiny", seeds=4 if other else 15)


def run_arena(out, other=False):
    families = ["block" if other else "random-3"]
    compare(["LCB", "Uniform"], families, [30], out=out, n_instances=12)


RUNS = {"study": run_study, "arena": run_arena}


@prepared
def finished(kind, other=False):
    """Return a folder in which everything is done, and what it holds; made once for all workers."""
    out = Path(shared) / f"{kind}{' other' * other}"
    if not out.exists():
        making = Path(f"{out}.{os.getpid()}")
        RUNS[kind](making, other)
        try:
            making.rename(out)
        except OSError:  # another worker was faster
            shutil.rmtree(making)
    return out, contents(out)


def piece_files(out):
    """Return the finished pieces of a folder."""
    files = out.rglob("[!.]*.parquet")
    return sorted(path for path in files if path.parent.name == "pieces")


def contents(out):
    """Return all numbers of a folder bit by bit, without dates and the like."""
    tables = [*out.rglob("data.parquet"), *piece_files(out)]
    results = {path.name: path.read_bytes() for path in out.glob("[sm]*.json")}
    return results | {path.name: bits(path) for path in tables}


def bits(path):
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowException):  # damaged, and put aside
        return None
    return {name: [repr(x) for x in table[name].to_pylist()] for name in table.column_names}


def play_folder(kind, draw, home):
    """Spoil a finished folder, and run the same again."""
    source, expected = finished(kind)
    out = home / "out"
    shutil.copytree(source, out)
    spoilt = spoil(draw, out, kind)
    run_again(kind, out, expected, [p for p in piece_files(source) if p.name not in spoilt])


play_study = partial(play_folder, "study")
play_arena = partial(play_folder, "arena")


def run_again(kind, out, expected, good):
    """Run again: the result is that of the undisturbed run, or refused; good pieces stay."""
    try:
        RUNS[kind](out)
    finally:
        require_pieces(out, good)
    found = contents(out)
    names = [name for name in expected if found.get(name) != expected[name]]
    demand(not names, OTHER, f"differ: {', '.join(names)}")


def require_pieces(out, good):
    """Good pieces are there, byte by byte."""
    there = {path.name: path for path in piece_files(out)}
    for path in good:
        demand(path.name in there, LOST, f"{path.name} was good and is gone")
        same = there[path.name].read_bytes() == path.read_bytes()
        demand(same, LOST, f"{path.name} was good and is another one")


def spoil(draw, out, kind):
    """Spoil one file or two, and return their names."""
    files = piece_files(out)
    path, other = draw.sample(files, 2)
    said = way = draw.choice(WAYS)
    if way == "side":  # anything else in the folder
        path = draw.choice([p for p in out.rglob("*") if p.suffix in {".json", ".parquet"}])
    if way in {"bytes", "side"}:
        data, said = mutate_bytes(draw, path.read_bytes())
        path.write_bytes(data)
    elif way == "rows":
        said = mutate_rows(draw, path)
    elif way == "swap":
        path.rename(home := path.with_suffix(".x"))
        other.rename(path)
        home.rename(other)
    elif way == "copy":
        shutil.copy(other, path)
    elif way == "foreign":  # of other settings, under the same name if there is one
        foreign = piece_files(finished(kind, True)[0])
        same = [p for p in foreign if p.name == path.name]
        shutil.copy((same or foreign)[0], path)
    else:
        path.unlink()
        path.mkdir()
    tell(f"{kind}: {path.name}: {said}; {other.name}")
    return {path.name, other.name} if way == "swap" else {path.name}


def mutate_rows(draw, path):
    """Rewrite a Parquet file with other rows under the same metadata; return what was done."""
    table = pq.read_table(path)
    n, about = table.num_rows, table.schema.metadata
    rows = list(range(n))
    orders = {
        "shuffled": draw.sample(rows, n),
        "halved": rows[: n // 2],
        "doubled": rows * 2,
        "one row less": rows[:-1],
        "none": [],
    }
    way = draw.choice((*orders, "changed", "column", "bare"))
    table = table.take(pa.array(orders.get(way, rows), pa.int64()))
    if way == "changed":
        way = f"changed {change_number(draw, table, columns := {})}"
        table = pa.table(columns, table.schema)
    elif way == "column":
        table = table.drop_columns(draw.choice(table.column_names))
    table = table.replace_schema_metadata(None if way == "bare" else about)
    pq.write_table(table, path)
    return f"rows {way}"


def change_number(draw, table, columns):
    """Fill ``columns`` with those of a table, one number changed; return which."""
    columns |= {name: table[name].to_pylist() for name in table.column_names}
    name, row = draw.choice(sorted(columns)), draw.randrange(table.num_rows)
    cell = columns[name][row]
    if isinstance(cell, list):
        k = draw.randrange(len(cell) or 1)
        cell[k : k + 1] = [another(draw, cell[k] if cell else 0)]
    else:
        columns[name][row] = another(draw, cell)
    return f"{name}[{row}]"


def another(draw, value):
    if isinstance(value, str):
        return value + "x"
    if isinstance(value, float):
        return draw.choice((-value, value * 2, value + 1.0, 0.0, 1e300))
    return value + draw.choice((1, 2, 1000))
