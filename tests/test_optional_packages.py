"""What is missing is said first, all at once and by the name to install; frames of any library."""

import sys
import types

import numpy as np
import pytest

from influential_bandits.errors import InvalidInput, MissingExtra
from influential_bandits.packages import make_frame, optional_module, require_packages


@pytest.fixture
def absent(monkeypatch):
    """Hide packages as if they were not installed."""

    def hide(*names):
        class Absent:
            @staticmethod
            def find_spec(name, path=None, target=None):
                if name.partition(".")[0] in names:
                    raise ModuleNotFoundError(f"No module named {name!r}", name=name)

        for name in list(sys.modules):
            if name.partition(".")[0] in names:
                monkeypatch.delitem(sys.modules, name)
        monkeypatch.setattr(sys, "meta_path", [Absent, *sys.meta_path])

    return hide


def test_a_missing_package_is_named_as_it_is_installed(absent, refused):
    absent("sklearn", "gymnasium")
    with refused(MissingExtra, "scikit-learn is not installed", "pip install scikit-learn"):
        optional_module("sklearn.base")
    with refused(MissingExtra, "pip install gymnasium", "the extra gym"):
        optional_module("gymnasium")


def test_all_missing_packages_are_named_at_once(absent, refused):
    require_packages("numpy", "sklearn", "jinja2", "distributed")
    absent("sklearn", "jinja2", "distributed")
    with refused(
        MissingExtra,
        "scikit-learn, jinja2 and distributed are not installed",
        "pip install scikit-learn jinja2 distributed",
        "the extra dask",
    ):
        require_packages("numpy", "sklearn", "jinja2", "distributed")


@pytest.mark.parametrize(
    "error", [ImportError("libfoo.so.1 is too old"), None], ids=["own", "else"]
)
def test_a_package_that_is_there_but_broken_is_not_called_missing(error, monkeypatch, refused):
    class Broken:
        @staticmethod
        def find_spec(name, path=None, target=None):
            if name == "brokenpackage":
                raise error or ModuleNotFoundError("No module named 'itsneed'", name="itsneed")

    monkeypatch.setattr(sys, "meta_path", [Broken, *sys.meta_path])
    with refused(MissingExtra, "brokenpackage is installed, but cannot be imported"):
        optional_module("brokenpackage")


@pytest.mark.parametrize(
    ("library", "kind"), [("pandas", "DataFrame"), ("polars", "DataFrame"), ("pyarrow", "Table")]
)
def test_columns_become_a_frame_of_the_library_asked_for(library, kind):
    frame = make_frame({"x": np.arange(3), "name": ["a", "b", "c"]}, library)
    assert type(frame).__name__ == kind
    assert type(frame).__module__.startswith(library)
    columns = frame.to_dict("list") if library == "pandas" else None
    columns = columns or (frame.to_pydict() if library == "pyarrow" else frame.to_dict())
    columns = {name: list(values) for name, values in columns.items()}
    assert columns == {"x": [0, 1, 2], "name": ["a", "b", "c"]}


@pytest.mark.parametrize("library", ["dplyr", "", None, types])
def test_a_frame_of_another_library_is_refused(library, refused):
    with refused(InvalidInput, "pandas, polars, pyarrow"):
        make_frame({"x": [1]}, library)
