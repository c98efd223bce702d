"""What users get: the built wheel, installed with the pinned packages into an empty environment."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SCRIPTS = "Scripts" if os.name == "nt" else "bin"

SIMULATE = """
import sys
from pathlib import Path

import influential_bandits as ib

assert Path(ib.__file__).is_relative_to(sys.prefix), ib.__file__
run = ib.simulate(
    ib.random_instance(arms=3, seed=0),
    ib.InfluentialLCB(),
    horizon=1000,
    noise=ib.GaussianNoise(1.0),
    seeds=range(2),
)
print(run.regret()[..., -1].min() >= 0)
"""


def output(*command, cwd):
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    build = (sys.executable, "-m", "build", "--wheel", "--no-isolation")
    output(*build, "--outdir", folder, ROOT, cwd=folder)
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def environment(wheel, tmp_path_factory):
    home = tmp_path_factory.mktemp("environment")
    output(sys.executable, "-m", "venv", home, cwd=home)
    pip = (home / SCRIPTS / "python", "-m", "pip", "--no-input", "--disable-pip-version-check")
    lock = ROOT / "requirements" / "run.txt"
    output(*pip, "install", "--no-compile", "--require-hashes", "-r", lock, cwd=home)
    output(*pip, "install", "--no-deps", wheel, cwd=home)
    output(*pip, "check", cwd=home)
    return home


def test_wheel_carries_its_types(wheel):
    with zipfile.ZipFile(wheel) as archive:
        assert "influential_bandits/py.typed" in archive.namelist()


def test_installed_package_simulates(environment, tmp_path):
    # -I: neither the checkout nor the caller's PYTHONPATH may lend the package.
    python = environment / SCRIPTS / "python"
    assert output(python, "-I", "-c", SIMULATE, cwd=tmp_path).strip() == "True"


def test_console_script_answers(environment, tmp_path):
    assert "Usage" in output(environment / SCRIPTS / "influential-bandits", "--help", cwd=tmp_path)
