"""Benchmarks and the scripts of the documents follow the package: all of them can be loaded."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_benchmarks_and_scripts_of_the_documents_load():
    files = [*ROOT.glob("benchmarks/*.py"), *ROOT.glob("docs/*.py")]
    names = [f"{path.parent.name}.{path.stem}" for path in files if not path.stem.startswith("__")]
    assert "benchmarks.cluster" in names
    code = f"from importlib import import_module\nfor name in {names}: import_module(name)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
