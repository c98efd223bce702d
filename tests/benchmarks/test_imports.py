"""Benchmarks and the scripts of the documents follow the package: all of them can be loaded."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_benchmarks_and_scripts_of_the_documents_load():
    files = [*ROOT.glob("benchmarks/*.py"), *ROOT.glob("docs/measurements/*.py")]
    paths = [path.relative_to(ROOT).with_suffix("") for path in files]
    names = [".".join(path.parts) for path in paths if not path.stem.startswith("__")]
    assert {"benchmarks.cluster", "docs.measurements.scale"} <= set(names)
    code = f"from importlib import import_module\nfor name in {names}: import_module(name)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
