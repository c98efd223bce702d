"""What users get: the built wheel, installed with its default dependencies and no others."""

import importlib.util
import os
import re
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from packaging.markers import Marker

pytestmark = pytest.mark.long

ROOT = Path(__file__).parent.parent
SCRIPTS = "Scripts" if os.name == "nt" else "bin"

SIMULATE = """
import sys
from pathlib import Path

import influential_bandits as ib

assert Path(ib.__file__).is_relative_to(sys.prefix), ib.__file__
run = ib.simulate(
    ib.random_instance(n_arms=3, seed=0),
    ib.InfluentialLCB(),
    horizon=1000,
    noise=ib.GaussianNoise(1.0),
    seeds=range(2),
)
print(run.regret()[..., -1].min() >= 0)
"""


def output(*command, cwd):
    # The caller's checkout must not lend the package, but may lend what it has compiled.
    bare = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    bare["NUMBA_CACHE_DIR"] = str(ROOT / "src" / "influential_bandits" / "__pycache__")
    done = subprocess.run(command, cwd=cwd, env=bare, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    build = (sys.executable, "-m", "build", "--wheel", "--no-isolation")
    output(*build, "--outdir", folder, ROOT, cwd=folder)
    (path,) = folder.glob("*.whl")
    return path


def test_a_package_index_would_take_wheel_and_source(wheel, tmp_path):
    build = (sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", tmp_path, ROOT)
    output(*build, cwd=tmp_path)
    (source,) = tmp_path.glob("*.tar.gz")
    output(sys.executable, "-m", "twine", "check", "--strict", wheel, source, cwd=tmp_path)


@pytest.fixture(scope="module")
def environment(wheel, tmp_path_factory):
    """The wheel beside the packages of the lock and no others, borrowed from this environment."""
    home = tmp_path_factory.mktemp("environment")
    output(sys.executable, "-m", "venv", "--without-pip", home, cwd=home)
    python = home / SCRIPTS / "python"
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = Path(output(python, "-c", where, cwd=home).strip())
    for name in locked_packages():
        for entry in {file.parts[0] for file in metadata.files(name)} - {"..", "__pycache__"}:
            (packages / entry).symlink_to(metadata.distribution(name).locate_file(entry))
    pip = (sys.executable, "-m", "pip", "--python", python, "--no-input")
    output(*pip, "install", "--disable-pip-version-check", "--no-deps", wheel, cwd=home)
    output(*pip, "check", cwd=home)
    return home


def locked_packages():
    """The packages of the default install that this computer needs, without those that build."""
    names = set()
    for line in (ROOT / "requirements" / "run.txt").read_text(encoding="utf-8").splitlines():
        if match := re.match(r"([A-Za-z0-9_.-]+)==[^;\\ ]+ *(?:; ([^\\]*))?", line):
            name, marker = match.groups()
            if not marker or Marker(marker.strip()).evaluate():
                names.add(name)
    assert {"numba", "numpy", "pyarrow", "typer"} <= names
    return names


def test_wheel_carries_its_types(wheel):
    with zipfile.ZipFile(wheel) as archive:
        stubs = {
            f"influential_bandits/{package}__init__.pyi" for package in ("", "logs/", "optima/")
        }
        assert {"influential_bandits/py.typed", *stubs} <= set(archive.namelist())


def test_the_description_has_no_link_that_works_in_the_repository_only(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("METADATA"))
        fields, _, text = archive.read(name).decode().partition("\n\n")
    assert "Description-Content-Type: text/markdown" in fields
    assert "Project-URL" not in fields, "none is known"
    assert "Bandit problems" in text
    assert "write a policy" in text
    links = re.findall(r"\]\(([^)]*)\)", text)
    assert [link for link in links if "://" not in link] == []
    assert "![" not in text


def test_the_description_has_absolute_links_where_an_address_is_known():
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    build = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(build)
    readme = "[a](docs/a.md), [b](https://b.org/b.md), ![two\nlines](p.png), [c](#here)\n"
    assert build.describe(readme, "https://host/files/") == (
        "[a](https://host/files/docs/a.md), [b](https://b.org/b.md), "
        "![two\nlines](https://host/files/p.png), [c](#here)\n"
    )
    assert build.describe("![p](p.png)[a](docs/a.md)\n", "").startswith("a\n\nThe files")


def test_installed_package_simulates(environment, tmp_path):
    # -I: neither the checkout nor the caller's PYTHONPATH may lend the package.
    python = environment / SCRIPTS / "python"
    assert output(python, "-I", "-c", SIMULATE, cwd=tmp_path).strip() == "True"


def test_the_default_install_lists_reproduces_and_compares(environment, tmp_path):
    command = environment / SCRIPTS / "influential-bandits"
    assert "figure-1b" in output(command, "studies", cwd=tmp_path)
    assert "random-3" in output(command, "families", cwd=tmp_path)
    told = output(command, "reproduce", "figure-1a", "--tiny", "--out", "paper", cwd=tmp_path)
    assert "| figure-1a |" in told
    options = ("--policies", "LCB", "--families", "prop-2.2")
    options += ("--horizons", "100", "--instances", "2")
    told = output(command, "compare", *options, "--out", "arena", cwd=tmp_path)
    assert "| LCB |" in told
    for report in (tmp_path / "paper" / "report.html", tmp_path / "arena" / "report.html"):
        assert "<svg" in report.read_text(encoding="utf-8")


def test_the_default_install_diagnoses_a_log(environment, tmp_path):
    rows = [f"u{n // 30},{n % 30},{'abc'[n * n % 7 % 3]},{n * 37 % 11}" for n in range(360)]
    (tmp_path / "log.csv").write_text("\n".join(["user,time,arm,loss", *rows, ""]))
    command = environment / SCRIPTS / "influential-bandits"
    told = output(
        command, "diagnose", "log.csv", "--permutations", "19", "--out", "o", cwd=tmp_path
    )
    assert "influence" in told
    assert (tmp_path / "o" / "report.html").exists()


SERVE = """
import urllib.request
import influential_bandits as ib

with ib.live.serve_in_background("shop.db") as (address, key):
    ask = urllib.request.Request(address + "/ready", headers={"Authorization": "Bearer " + key})
    print(urllib.request.urlopen(ask).status)
"""


def test_the_default_install_serves(environment, tmp_path):
    assert output(environment / SCRIPTS / "python", "-c", SERVE, cwd=tmp_path).split()[-1] == "200"
