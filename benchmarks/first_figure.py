"""From ``pip install`` to the first figure: ``python -m benchmarks.first_figure``.

Builds the wheel, installs it into an empty environment, and reproduces the paper's first figure and
then all of them in small, with no compiled code on disk. CPU time is what can be compared on a busy
machine. ``--source`` measures another checkout, ``--no-compile`` leaves Python's own compilation of
all packages to their first import.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent


def main():
    parser = argparse.ArgumentParser(prog="python -m benchmarks.first_figure")
    parser.add_argument("--source", type=Path, default=ROOT, help="the checkout to be measured")
    parser.add_argument("--python", default=sys.executable, help="the Python to be installed into")
    parser.add_argument("--no-compile", action="store_true", help="pip install --no-compile")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        steps = measure(options, Path(folder))
        print(f"{'':42}{'CPU':>9}{'wall':>9}")
        for name, cpu, wall in steps:
            print(f"{name:42}{cpu:7.1f} s{wall:7.1f} s")
        for name, number in (("to the first figure", 2), ("to all figures and the report", 3)):
            cpu, wall = (sum(step[place] for step in steps[:number]) for place in (1, 2))
            print(f"{'from pip install ' + name:42}{cpu:7.1f} s{wall:7.1f} s")


def measure(options, folder):
    """Return (step, CPU seconds, wall seconds) of installing and of the first two commands."""
    build = (sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder)
    run([*build, options.source.resolve()], folder)
    run([options.python, "-m", "venv", folder / "environment"], folder)
    scripts = folder / "environment" / ("Scripts" if os.name == "nt" else "bin")
    (wheel,) = folder.glob("*.whl")
    install = [scripts / "python", "-m", "pip", "install", "--quiet"]
    install += ["--no-compile"] if options.no_compile else []
    reproduce = [scripts / "influential-bandits", "reproduce"]
    all_figures = [*reproduce, "--quick", "--out", "results"]
    return [
        (" ".join(["pip install", *install[5:]]), *run([*install, wheel], folder)),
        (
            "reproduce figure-1a --quick",
            *run([*reproduce, "figure-1a", "--quick", "--out", "results"], folder),
        ),
        ("reproduce --quick, the other figures", *run(all_figures, folder)),
    ]


def run(command, folder):
    """Run a command without compiled code of earlier runs; return its CPU and its wall time."""
    hidden = {"PYTHONPATH", "NUMBA_CACHE_DIR", "PYTHONDONTWRITEBYTECODE"}
    bare = {name: value for name, value in os.environ.items() if name not in hidden}
    before, start = children(), time.perf_counter()
    subprocess.run(
        list(map(str, command)), cwd=folder, env=bare, check=True, stdout=subprocess.DEVNULL
    )
    return children() - before, time.perf_counter() - start


def children():
    """CPU seconds of all processes that have been waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
