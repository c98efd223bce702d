"""Objects of the user's by ``module:name`` and ``file.py:name``, here and in other processes."""

import pickle
import sys

import forked
import pytest

from influential_bandits.errors import InvalidInput, MissingFile
from influential_bandits.references import find_object, split_reference

MINE = """
from __future__ import annotations
from dataclasses import dataclass

@dataclass(frozen=True)
class Point:
    x: float = 1.0
    label: str = "p"

    def twice(self):
        return 2 * self.x

@dataclass(frozen=True, slots=True)
class Slim:
    x: float = 1.0

number = 7
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder to work in; what is imported from it is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if not name.startswith("influential_bandits"):  # its classes must stay what they are
            del sys.modules[name]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("mine:Greedy", ("mine", "Greedy")),
        ("a.b.c:Greedy(1, x=2.0)", ("a.b.c", "Greedy(1, x=2.0)")),
        ("../a b/mine.py:Greedy", ("../a b/mine.py", "Greedy")),
        (r"C:\x\mine.py:Greedy(name='a:b')", (r"C:\x\mine.py", "Greedy(name='a:b')")),
        (" mine.py : Greedy ", ("mine.py", "Greedy")),
        ("LCB", None),
        ("LCB(name='a:b')", None),
        ("mine:", None),
        (":Greedy", None),
        ("", None),
    ],
)
def test_a_reference_is_a_home_and_a_name(text, parts):
    assert split_reference(text) == parts


@pytest.mark.parametrize(
    "home", ["points.py", "./points.py", "points", "inner/deep.py", "inner.deep"]
)
def test_an_object_is_found_in_a_file_and_in_a_module_of_this_folder(home, folder):
    (folder / "inner").mkdir()
    for path in (folder / "points.py", folder / "inner" / "deep.py"):
        path.write_text(MINE)
    assert find_object(home, "number") == 7
    assert find_object(home, "Point") is find_object(home, "Point"), "run once"
    assert find_object(home, "Point")(2.0).twice() == 4.0


def test_a_file_sees_its_neighbours_and_keeps_its_name(folder):
    (folder / "inner").mkdir()
    (folder / "inner" / "neighbour.py").write_text("value = 3")
    (folder / "inner" / "mine_too.py").write_text("from neighbour import value\nclass A: pass")
    assert find_object("inner/mine_too.py", "value") == 3
    assert find_object("inner/mine_too.py", "A").__module__ == "mine_too"
    assert find_object("mine_too", "value") == 3


@pytest.mark.parametrize("stem", ["random", "pytest", "with space", "1st"])
def test_a_file_takes_no_name_that_another_module_has(stem, folder):
    import random

    (folder / f"{stem}.py").write_text("class A: pass")
    assert find_object(f"{stem}.py", "A").__module__ not in {stem, "random"}
    assert sys.modules["random"] is random


def test_an_edited_file_is_run_again(folder):
    (folder / "edited.py").write_text("value = 1")
    assert find_object("edited.py", "value") == 1
    (folder / "edited.py").write_text("value = 2")
    assert find_object("edited.py", "value") == 2


@pytest.mark.parametrize(
    ("text", "mentions"),
    [
        ("raise RuntimeError('too\\nbad')", ["broken.py", "line 2", "RuntimeError: too"]),
        ("import nowhere_to_be_found", ["line 2", "No module named 'nowhere_to_be_found'"]),
        ("import sys; sys.exit(3)", ["line 2", "SystemExit: 3"]),
        ("def f(:", ["SyntaxError", "line 2"]),
        ("x = 1", ["no 'A'", "broken.py"]),
        ("class B: pass\ndef make(): pass", ["no 'A'", "there are B, make"]),
    ],
)
def test_what_goes_wrong_in_a_file_is_said(text, mentions, folder, refused):
    (folder / "broken.py").write_text(f"# a comment\n{text}\n")
    for _ in range(2):  # the second time as the first
        with refused(InvalidInput, *mentions):
            find_object("broken.py", "A")
        assert "broken" not in sys.modules or "no 'A'" in mentions[0]


@pytest.mark.parametrize(
    ("home", "mentions"),
    [
        ("nowhere.py", ["nowhere.py", "No such file"]),
        ("folder.py", ["folder.py", "directory"]),
        ("inner/nowhere", ["inner/nowhere", ".py"]),
        ("binary.py", ["binary.py", "UTF-8"]),
        ("nowhere_at_all", ["no module 'nowhere_at_all'", "installed", "nowhere_at_all.py"]),
        ("nowhere_at_all.inner", ["no module 'nowhere_at_all.inner'"]),
        ("json.nowhere_at_all", ["no module 'json.nowhere_at_all'"]),
        ("json.decoder.x", ["no module 'json.decoder.x'"]),
        ("a-b", ["'a-b'", ".py file"]),
    ],
)
def test_a_home_that_is_not_there_is_named(home, mentions, folder, refused):
    (folder / "folder.py").mkdir()
    (folder / "binary.py").write_bytes(b"\xff\xfe\x00")
    with refused(MissingFile if home == "nowhere.py" else InvalidInput, *mentions):
        find_object(home, "A")


def test_objects_of_a_file_travel_with_it(folder):
    """To a process that is elsewhere, after the file has gone."""
    (folder / "points.py").write_text(MINE)
    point = find_object("points.py", "Point")(3.0, "q")
    slim = find_object("points.py", "Slim")(4.0)
    data = pickle.dumps([point, point, slim])
    (folder / "points.py").unlink()
    code = (
        "import pickle, sys\n"
        f"a, b, slim = pickle.loads({data!r})\n"
        "print(a, a is b, a.twice(), slim.x, type(a).__module__)\n"
        "pickle.loads(pickle.dumps(a)) == a or sys.exit(1)\n"
    )
    done = forked.run(
        [sys.executable, "-c", code], cwd="/", capture_output=True, text=True, check=False
    )
    assert done.stdout == "Point(x=3.0, label='q') True 6.0 4.0 points\n", done.stderr
    assert pickle.loads(data)[0] == point
