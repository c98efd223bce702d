"""What the package offers is what it says, and importing it is cheap."""

import ast
import inspect
import json
import re
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

import influential_bandits as ib

ROOT = Path(__file__).parent.parent
NAMES = sorted(set(ib.__all__) - {"__version__"})


def python(code):
    """Run code in a process of its own and return what it prints as JSON."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def imported_for_type_checkers():
    """Name → module, of the imports under TYPE_CHECKING."""
    (block,) = (
        node
        for node in ast.parse(Path(ib.__file__).read_text(encoding="utf-8")).body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    )
    assert all(isinstance(node, ast.ImportFrom) for node in block.body)
    return {alias.name: node.module for node in block.body for alias in node.names}


def test_type_checkers_see_the_public_names_and_no_others():
    assert imported_for_type_checkers() == {
        name: f"{ib.__name__}.{home}" for home, names in ib._HOMES.items() for name in names
    }
    assert sorted(imported_for_type_checkers()) == NAMES


def test_no_name_is_listed_twice():
    assert len(set(ib.__all__)) == len(ib.__all__)
    assert sum(map(len, ib._HOMES.values())) == len(NAMES)


def test_every_module_exports_what_the_package_takes_from_it():
    for home, names in ib._HOMES.items():
        assert set(names) <= set(import_module(f"{ib.__name__}.{home}").__all__), home


def test_the_names_of_the_specification_are_there():
    assert set(NAMES) >= {
        "Instance",
        "NoNoise",
        "GaussianNoise",
        "UniformNoise",
        "RecordedNoise",
        "counterexample",
        "linear_lower_bound",
        "random_instance",
        "LCB",
        "InfluentialLCB",
        "FrankWolfeOracle",
        "OptimalOracle",
        "EachArmOnceOracle",
        "Uniform",
        "simulate",
        "Trajectory",
        "optimum",
        "optimal_path",
        "integer_optimum",
        "regret",
        "regret_bound",
        "difficulty",
    }


@pytest.mark.parametrize("order", ["sorted", "reversed"])
def test_every_name_loads_whatever_was_loaded_before(order):
    """A name must not be hidden by a module of the same name that another one imports."""
    wrong = python(
        "import json, importlib\n"
        "import influential_bandits as ib\n"
        "homes = {n: h for h, names in ib._HOMES.items() for n in names}\n"
        f"for name in list({order}(sorted(homes))) * 2:\n"
        "    getattr(ib, name)\n"
        "def right(name):\n"
        "    module = importlib.import_module('influential_bandits.' + homes[name])\n"
        "    return getattr(ib, name) is getattr(module, name)\n"
        "print(json.dumps([name for name in homes if not right(name)]))"
    )
    assert wrong == []


def test_optimum_can_be_called_after_a_simulation():
    loss = python(
        "import json\n"
        "import influential_bandits as ib\n"
        "ib.simulate(ib.counterexample(), ib.LCB(), 10).regret()\n"
        "print(json.dumps(ib.optimum(ib.counterexample(), 10).loss))"
    )
    assert loss == pytest.approx(54.875)  # all but half a pull of arm 0


def test_all_names_can_be_imported_with_a_star():
    names = {}
    exec("from influential_bandits import *", names)
    assert set(ib.__all__) <= set(names)


def test_dir_lists_the_public_names():
    assert set(dir(ib)) >= set(ib.__all__)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'optimim'"):
        ib.optimim  # noqa: B018


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_has_a_docstring_with_an_example(name):
    value = getattr(ib, name)
    text = inspect.getdoc(getattr(value, "py_func", value)) or ""
    assert len(text.splitlines()[0]) > 10, "a summary in one line"
    if not (inspect.isclass(value) and issubclass(value, BaseException)):
        assert "Examples\n--------" in text
        assert ">>>" in text


def test_importing_the_package_imports_nothing_heavy():
    modules = python(
        "import json, sys\nimport influential_bandits\nprint(json.dumps(sorted(sys.modules)))"
    )
    assert "influential_bandits" in modules
    heavy = {"numba", "numpy", "scipy", "gymnasium", "matplotlib", "pandas", "polars", "pyarrow"}
    assert not heavy & set(modules)


def test_simulating_imports_no_optional_package():
    modules = python(
        "import json, sys\n"
        "import influential_bandits as ib\n"
        "ib.simulate(ib.counterexample(), ib.LCB(), 10).regret()\n"
        "print(json.dumps(sorted(sys.modules)))"
    )
    assert "numba" in modules
    assert not {"gymnasium", "matplotlib", "pandas", "polars", "pyarrow"} & set(modules)


def test_without_gymnasium_the_environment_names_the_extra_and_the_rest_works():
    report = python(
        "import json, sys\n"
        "class Absent:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] == 'gymnasium':\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
        "sys.meta_path.insert(0, Absent())\n"
        "import influential_bandits as ib\n"
        "counts = ib.simulate(ib.counterexample(), ib.LCB(), 10).counts[0, 0, -1].tolist()\n"
        "try:\n"
        "    ib.InfluentialBanditEnv\n"
        "except ImportError as error:\n"
        "    print(json.dumps([sum(counts), type(error).__name__, str(error)]))\n"
    )
    assert report[:2] == [10, "MissingExtra"]
    assert "pip install gymnasium" in report[2]


# Everything that the default install does not hold.
PLAIN = """
import sys
HIDDEN = {"cryptography", "dask", "distributed", "fsspec", "gymnasium", "pandas", "polars"}
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in HIDDEN:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
"""


def test_what_the_plain_install_lacks_is_what_only_extras_bring():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    default = {re.match(r"[\w-]+", line)[0] for line in project["dependencies"]}
    extras = project["optional-dependencies"]
    optional = {re.match(r"[\w-]+", line)[0] for lines in extras.values() for line in lines}
    scope = {}
    exec(PLAIN.replace("sys.meta_path", "#"), scope)
    others = {"dask", "polars"}  # distributed brings the one, and nothing the other
    assert scope["HIDDEN"] == (optional - {"influential-bandits"}) | others
    assert not scope["HIDDEN"] & default
    assert extras["all"] == ["influential-bandits[dask,frame,gym]"]
    assert {"learn", "plot", "report"} <= set(extras), "old names are accepted"


def test_the_plain_install_can_be_looked_at_and_imported_with_a_star():
    report = python(
        PLAIN + "import json, pydoc\n"
        "import influential_bandits as ib\n"
        "names = {}\n"
        "exec('from influential_bandits import *', names)\n"
        "text = pydoc.plain(pydoc.render_doc(ib))\n"
        "assert 'class InfluenceModel' in text and 'class DaskExecution' in text\n"
        "print(json.dumps([sorted(set(dir(ib))), sorted(set(ib.__all__) - set(names))]))"
    )
    assert set(report[0]) == {*ib.__all__, "testing"} - {"InfluentialBanditEnv"}
    assert report[1] == []


def test_the_plain_install_diagnoses_a_log(tmp_path):
    """All of it: reading, the ladder, the test, pictures, report and model."""
    rows = [f"u{n // 30},{n % 30},{'abc'[n * n % 7 % 3]},{n * 37 % 11}" for n in range(360)]
    (tmp_path / "log.csv").write_text("\n".join(["user,time,arm,loss", *rows, ""]))
    arguments = ["diagnose", "log.csv", "--permutations", "19", "--out", "out", "--jobs", "1"]
    code = (
        f"{PLAIN}\nsys.argv = {['influential-bandits', *arguments]}\n"
        "from influential_bandits.cli import main\nmain()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "influence" in done.stdout
    assert (tmp_path / "out" / "report.html").stat().st_size > 10**6, "with its own copy of plotly"


def test_the_version_is_that_of_the_distribution():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" in settings["project"]["dynamic"]
    source = (ROOT / settings["tool"]["hatch"]["version"]["path"]).read_text(encoding="utf-8")
    assert f'__version__ = "{ib.__version__}"' in source
