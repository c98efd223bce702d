"""Folders of Parquet with links, odd endings, hidden and temporary files: none miscounted."""

import shutil
import warnings
from pathlib import Path

import pandas as pd

import influential_bandits as ib
from hostile.judging import OTHER, demand, tell

ROLES = {"instance": "user", "arm": "arm", "time": "time", "loss": "loss"}


def events(draw, n):
    return pd.DataFrame(
        {
            "user": [draw.choice("abcdef") for _ in range(n)],
            "arm": [draw.choice("xy") for _ in range(n)],
            "time": range(n),
            "loss": [draw.random() for _ in range(n)],
        }
    )


def play(draw, home):
    """Count the events of a folder that holds what such folders hold in practice."""
    folder, elsewhere = home / "log", home / "elsewhere"
    folder.mkdir()
    elsewhere.mkdir()
    sizes = [draw.randrange(3, 9) for _ in range(draw.choice((1, 2, 3)))]
    nested = draw.random() < 0.3
    for n, size in enumerate(sizes):
        below = folder / f"day={n}" if nested else folder
        below.mkdir(exist_ok=True)
        events(draw, size).to_parquet(below / f"part-{n}.parquet")
    ways = draw.sample(ADDITIONS, draw.choice((1, 1, 2)))
    odd = dict(way(draw, folder, elsewhere) for way in ways)
    by = draw.choice((ib.read_log, ib.logs.open_partitions))
    tell(f"{by.__name__}: {sizes} events{' by day' * nested}, and {', '.join(odd)}")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        log = by(folder, progress=False, **ROLES)
    found = log.n_events if by is ib.logs.open_partitions else len(log)
    said = f"{log.about} {[str(w.message) for w in caught]}"
    spoken = {name for name in odd if Path(name).name in said}
    silent = [name for name in odd if name not in spoken and odd[name] is None]
    demand(not silent, OTHER, f"{found} events, and no word of {', '.join(silent)}")
    wanted = {sum(sizes)}
    for name, more in odd.items():  # what is spoken of may be left out
        wanted = {n + (more or 0) for n in wanted} | (wanted if name in spoken else set())
    demand(found in wanted, OTHER, f"{found} events instead of {wanted}")


# What may be there beside the files: each returns its name, and how many events it adds; None if
# nobody can know, so that it may not be passed over in silence.


def dangling_link(draw, folder, elsewhere):
    (folder / "gone.parquet").symlink_to(elsewhere / "gone.parquet")
    return "gone.parquet", None


def link_to_file(draw, folder, elsewhere):
    events(draw, 5).to_parquet(elsewhere / "there.parquet")
    (folder / "linked.parquet").symlink_to(elsewhere / "there.parquet")
    return "linked.parquet", 5


def link_to_folder(draw, folder, elsewhere):
    (elsewhere / "more").mkdir()
    events(draw, 5).to_parquet(elsewhere / "more" / "m.parquet")
    (folder / "below").symlink_to(elsewhere / "more")
    return "below", 5


def cycle(draw, folder, elsewhere):
    (folder / "again").symlink_to(folder)
    return "again", 0


def other_case(draw, folder, elsewhere):
    name = draw.choice(("b.PARQUET", "b.Parquet"))
    events(draw, 4).to_parquet(folder / name)
    return name, 4


def hidden(draw, folder, elsewhere):
    name = draw.choice((".part-9.parquet", "._part-0.parquet", "_part-9.parquet", ".tmp/x.parquet"))
    (folder / name).parent.mkdir(exist_ok=True)
    events(draw, 6).to_parquet(folder / name)
    return name, 0


def temporary(draw, folder, elsewhere):
    below = folder / "_temporary" / "0" / "task_0"
    below.mkdir(parents=True)
    events(draw, 6).to_parquet(below / "part-7.parquet")
    return "_temporary", 0


def markers(draw, folder, elsewhere):
    (folder / "_SUCCESS").touch()
    (folder / "_metadata").write_bytes(b"PAR1")
    (folder / ".part-0.parquet.crc").write_bytes(b"crc")
    return "_SUCCESS", 0


def unfinished(draw, folder, elsewhere):
    events(draw, 6).to_parquet(folder / "part-8.parquet.tmp")
    return "part-8.parquet.tmp", 0


def empty_file(draw, folder, elsewhere):
    (folder / "empty.parquet").touch()
    return "empty.parquet", None


def no_rows(draw, folder, elsewhere):
    events(draw, 3)[:0].to_parquet(folder / "none.parquet")
    return "none.parquet", 0


def a_folder(draw, folder, elsewhere):
    (folder / "folder.parquet").mkdir()
    events(draw, 3).to_parquet(folder / "folder.parquet" / "p.parquet")
    return "folder.parquet", 3


def cut(draw, folder, elsewhere):
    events(draw, 3).to_parquet(elsewhere / "whole.parquet")
    data = (elsewhere / "whole.parquet").read_bytes()
    (folder / "cut.parquet").write_bytes(data[: draw.randrange(1, len(data))])
    return "cut.parquet", None


def notes(draw, folder, elsewhere):
    (folder / "notes.txt").write_text("not a table")
    shutil.copy(folder / "notes.txt", folder / "checksums.csv")
    return "notes.txt", 0


ADDITIONS = [
    *(dangling_link, link_to_file, link_to_folder, cycle, other_case, hidden, temporary, markers),
    *(unfinished, empty_file, no_rows, a_folder, cut, notes),
]
