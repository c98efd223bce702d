"""Caches of compiled code that are garbled, full or out of reach: work goes on, with a warning."""

import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import influential_bandits
from hostile.judging import OTHER, RAW, demand, prepared, shared, tell

PACKAGE = Path(influential_bandits.__file__).parent
PROBE = """
import numpy as np
import influential_bandits as ib
from influential_bandits.numerics.streams import stream_at
print(ib.random.normal(stream_at(np.uint64(1), np.uint64(2), 3), 0))
"""


def probe(source, limits=None, **variables):
    """Run a few compiled functions in a fresh process; return what it printed and said."""
    return subprocess.run(
        [sys.executable, "-c", PROBE],
        env=os.environ | {"PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"} | variables,
        capture_output=True,
        text=True,
        preexec_fn=limits,
        check=False,
        timeout=100,
    )


@prepared
def filled():
    """Return a copy of the package, a filled cache, and what the probe prints."""
    home = shared / f"caches {os.getpid()}"
    skip = shutil.ignore_patterns("__pycache__")
    shutil.copytree(PACKAGE, home / "source" / PACKAGE.name, ignore=skip)  # with times, as stamps
    first = probe(home / "source", NUMBA_CACHE_DIR=str(home / "cache"))
    demand(first.returncode == 0, RAW, first.stderr[-300:])
    return home / "source", home / "cache", first.stdout


def play(draw, home):
    """Run the probe with a cache that is of no use: the same numbers, and at most one warning."""
    source, cache, expected = filled()
    variables, limits = {"NUMBA_CACHE_DIR": str(home / "cache")}, None
    shutil.copytree(cache, home / "cache")
    way = draw.choice((nowhere, not_writable, full_disk, spoilt, spoilt, spoilt, spoilt))
    if way is spoilt:
        said = spoilt(draw, home / "cache")
    else:
        said, source, variables, limits = way(draw, home, source, variables)
    tell(f"{way.__name__}: {said}")
    done = probe(source, limits, **variables)
    shown = " / ".join(done.stderr.splitlines()[-2:])
    demand(done.returncode == 0, RAW, f"exit status {done.returncode}: {shown}")
    demand(done.stdout == expected, OTHER, f"{done.stdout} instead of {expected}")
    demand(done.stderr.count("Warning") <= 1, RAW, f"more than one warning: {shown}")


def spoilt(draw, cache):
    """Spoil an entry, or all of a kind: empty, cut, garbled, one bit wrong, text, or a folder."""
    files = sorted(path for path in cache.rglob("*") if path.is_file())
    kinds = [files, *([f for f in files if f.suffix == end] for end in (".nbi", ".nbc"))]
    files = draw.choice([kind for kind in kinds if kind])
    way = draw.choice(("empty", "cut", "garbled", "bit", "text", "folder"))
    for file in files if draw.random() < 0.5 else draw.sample(files, 1):
        data = bytearray(file.read_bytes())
        file.unlink()
        if way == "folder":
            file.mkdir()
            continue
        flipped = data.copy()
        flipped[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        cut, noise = data[: draw.randrange(len(data))], draw.randbytes(len(data))
        ways = {"empty": b"", "cut": cut, "garbled": noise, "bit": flipped, "text": b"none\n"}
        file.write_bytes(ways[way])
    return f"{way}, {file.name}"


def _without_folder(home, source):
    """Return a copy of the package with files where folders for caches would be."""
    copy = home / "source"
    shutil.copytree(source, copy)
    for folder in [copy / PACKAGE.name, *(copy / PACKAGE.name).rglob("*")]:
        if folder.is_dir():
            (folder / "__pycache__").touch()
    return copy


def nowhere(draw, home, source, variables):
    """Package and home cannot be written, and no other place is named."""
    homes = {"HOME": "/dev/null", "XDG_CACHE_HOME": "/dev/null/cache", "NUMBA_CACHE_DIR": ""}
    return "no place for a cache", _without_folder(home, source), homes, None


def not_writable(draw, home, source, variables):
    """The place that is named cannot be made."""
    place = draw.choice(("/dev/null/cache", "/proc/cache", str(home / "file" / "below")))
    (home / "file").touch()
    return place, source, {"NUMBA_CACHE_DIR": place}, None


def full_disk(draw, home, source, variables):
    """Nothing more can be written into an empty cache."""
    shutil.rmtree(home / "cache")
    room = draw.choice((0, 100, 5000))

    def limits():
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))

    return f"{room} bytes", source, variables, limits
