"""What the package offers is what it says, and importing it is cheap."""

import ast
import inspect
import json
import re
import tomllib
from importlib import import_module
from operator import attrgetter
from pathlib import Path

import public_surface
import pytest
from python_process import run_python

import influential_bandits as ib

ROOT = Path(__file__).parent.parent


def python(code):
    """Run code in a process of its own and return what it prints as JSON."""
    return json.loads(run_python(code))


def stubbed(package=ib):
    """Name → module, of the imports of a stub."""
    stub = Path(package.__file__).with_suffix(".pyi").read_text(encoding="utf-8")
    imports = [node for node in ast.parse(stub).body if isinstance(node, ast.ImportFrom)]
    assert all(node.level == 1 for node in imports)
    pairs = [(alias, node.module or "") for node in imports for alias in node.names]
    assert all(alias.asname == alias.name for alias, _ in pairs), "exported to type checkers"
    assert len({alias.name for alias, _ in pairs}) == len(pairs), "no name is listed twice"
    return {alias.name: home for alias, home in pairs}


MODULES = sorted(name for name, home in stubbed().items() if not home)
NAMES = sorted(set(stubbed()) - set(MODULES))
BELOW = {f"{module}.{name}" for module in MODULES for name in getattr(ib, module).__all__}


def test_type_checkers_see_the_public_names_and_no_others():
    assert sorted([*NAMES, *MODULES, "__version__"]) == sorted(ib.__all__)
    assert MODULES == ["data", "errors", "live", "logs", "optima", "random", "testing"]


@pytest.mark.parametrize(
    "package", [ib, ib.live, ib.logs, ib.optima], ids=lambda package: package.__name__
)
def test_every_module_defines_or_exports_what_the_package_takes_from_it(package):
    for name, home in stubbed(package).items():
        if home:
            module = import_module(f"{package.__name__}.{home}")
            definer = getattr(getattr(module, name), "__module__", module.__name__)
            assert definer == module.__name__ or name in module.__all__, name


@pytest.mark.parametrize("order", ["sorted", "reversed"])
def test_every_name_loads_whatever_was_loaded_before(order):
    """A name must not be hidden by a module of the same name that another one imports."""
    wrong = python(
        "import json, importlib\n"
        "import influential_bandits as ib\n"
        f"homes = {stubbed()}\n"
        f"for name in list({order}(sorted(homes))) * 2:\n"
        "    getattr(ib, name)\n"
        "def right(name):\n"
        "    home = '.'.join(filter(None, ['influential_bandits', homes[name] or name]))\n"
        "    module = importlib.import_module(home)\n"
        "    return getattr(ib, name) is (getattr(module, name) if homes[name] else module)\n"
        "print(json.dumps([name for name in homes if not right(name)]))"
    )
    assert wrong == []


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="attribute optimim"):
        ib.optimim  # noqa: B018


@pytest.mark.parametrize("name", sorted({*NAMES, *BELOW}))
def test_every_public_name_has_a_docstring_with_an_example(name):
    value = attrgetter(name)(ib)
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


# Everything that the default install does not hold.
PLAIN = """
import sys
HIDDEN = {
    "cryptography", "dask", "distributed", "fsspec", "gymnasium", "numba_cuda", "pandas", "polars",
    "psycopg",
}
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
    optional = {name.replace("-", "_") for name in optional - {"influential-bandits"}}
    scope = {}
    exec(PLAIN.replace("sys.meta_path", "#"), scope)
    others = {"dask", "polars"}  # distributed brings the one, and nothing the other
    assert scope["HIDDEN"] == optional | others
    assert not scope["HIDDEN"] & default
    assert extras["all"] == ["influential-bandits[dask,frame,gym,postgres]"]


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
    assert set(report[0]) == set(ib.__all__) - {"InfluentialBanditEnv"}
    assert report[1] == []


def test_the_version_is_that_of_the_distribution():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" in settings["project"]["dynamic"]
    source = (ROOT / settings["tool"]["hatch"]["version"]["path"]).read_text(encoding="utf-8")
    assert f'__version__ = "{ib.__version__}"' in source


def test_everything_that_is_handed_out_has_a_repr_of_its_own():
    world = ib.random_instance(3, seed=0)
    agent = ib.Agent(ib.LCB(), 3)
    things = [
        *(world, world.interaction, ib.LowRankInteraction([[1.0], [2.0]]), ib.Scenario(delay=3)),
        *(ib.SparseInteraction([[1.0]]), ib.Environment(world), ib.InfluentialBanditEnv(world)),
        *(agent, agent.pull(), ib.LocalExecution(1)),
        *(ib.optimum(world, 9), ib.optimum(world, 9).certificate, ib.optimal_path(world)),
        *(ib.integer_optimum(world, 9), ib.difficulty(world), ib.simulate(world, ib.LCB(), 9)),
        *(ib.LossPrior.around([[1.0]], [0.0], sd=1.0, sigma=1.0), ib.GaussianNoise(), ib.LCB()),
        *(ib.Population([[1.0]], [0.0]), ib.Fleet(arms=2), ib.Foresight()),
    ]
    for thing in things:
        assert repr(thing).startswith(f"{type(thing).__name__}("), repr(thing)


def test_the_surface_is_what_is_listed():
    """Names, signatures, commands, options and calls; see tests/public_surface.py."""
    listed = public_surface.LISTING.read_text(encoding="utf-8").splitlines()
    assert len(listed) > 500
    assert public_surface.list_surface() == listed, "python tests/public_surface.py"
