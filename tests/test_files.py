"""Files: whole or not at all when written, and nothing trusted when read."""

import ast
import errno
import json
import os
import resource
import signal
import stat
import subprocess
import sys
from pathlib import Path

import forked
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cluster_processes import environment

import influential_bandits as ib
from influential_bandits import files
from influential_bandits.errors import InvalidInput, InvalidInstance, MissingFile

SOURCE = Path(files.__file__).parent
POSIX = pytest.mark.skipif(os.name == "nt", reason="POSIX signals, locks and limits")


def left_behind(folder):
    return [path.name for path in folder.iterdir() if path.name.endswith(".tmp")]


# --- Writing ---


def test_a_file_gets_its_name_only_when_it_is_complete(tmp_path):
    path = tmp_path / "file"
    files.write_text(path, "old")

    def broken(temporary):
        temporary.write_text("half", encoding="utf-8")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        files.write_atomically(path, broken)
    assert path.read_text(encoding="utf-8") == "old"
    files.write_text(path, "new")
    assert path.read_text(encoding="utf-8") == "new"
    assert list(tmp_path.iterdir()) == [path]


HOLDS = """
import sys, time
from pathlib import Path
from influential_bandits.files import write_atomically

def slowly(temporary):
    temporary.write_text("half")
    print(temporary.name, flush=True)
    sys.stdin.readline()
    temporary.write_text("whole")

write_atomically(Path(sys.argv[1]), slowly)
"""


@POSIX
def test_what_a_living_process_writes_is_never_swept(tmp_path):
    path = tmp_path / "file"
    command = [sys.executable, "-c", HOLDS, str(path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    living, dying = (forked.Popen(command, **pipes, env=environment()) for _ in range(2))
    held, left = (process.stdout.readline().strip() for process in (living, dying))
    dying.kill()
    dying.communicate()
    assert dying.returncode == -signal.SIGKILL
    for name in (held, left):  # age alone proves nothing
        os.utime(tmp_path / name, (0, 0))
    files.sweep(tmp_path)
    assert left_behind(tmp_path) == [held]
    living.communicate("go on\n")
    assert living.returncode == 0
    assert path.read_text(encoding="utf-8") == "whole"
    assert left_behind(tmp_path) == []


def test_only_old_files_of_other_computers_and_nothing_of_others_is_swept(tmp_path):
    ours, theirs = f".a.ib-{files.HERE}-{'0' * 16}.tmp", f".a.ib-{'0' * 8}-{'0' * 16}.tmp"
    old = f".b.ib-{'0' * 8}-{'1' * 16}.tmp"
    for name in (ours, theirs, old, ".mine.tmp", "a.tmp", ".x.parquet.4711.tmp"):
        (tmp_path / name).touch()
    os.utime(tmp_path / old, (0, 0))
    files.sweep(tmp_path)
    assert set(left_behind(tmp_path)) == {theirs, ".mine.tmp", "a.tmp", ".x.parquet.4711.tmp"}


def test_the_first_write_of_a_process_into_a_folder_sweeps_it(tmp_path):
    (tmp_path / f".a.ib-{files.HERE}-{'0' * 16}.tmp").touch()
    files.write_text(tmp_path / "b", "text")
    assert left_behind(tmp_path) == []


@POSIX
def test_a_full_disk_gets_one_sentence_and_leaves_the_old_file(tmp_path, refused):
    path = tmp_path / "file"
    files.write_text(path, "old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
        with refused(InvalidInput, str(path), "File too large"):
            files.write_text(path, "new" * 1000)
        with refused(InvalidInput, str(path)):
            files.write_table(path, pa.table({"x": np.random.default_rng(0).normal(size=999)}), {})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert path.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("step", ["fsync", "replace", "open"])
def test_trouble_at_any_step_leaves_the_old_file(step, tmp_path, monkeypatch, refused):
    path = tmp_path / "file"
    files.write_text(path, "old")

    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    where = Path if step == "replace" else os
    with monkeypatch.context() as context:
        context.setattr(where, step, full)
        with refused(InvalidInput, str(path), "No space left on device"):
            files.write_text(path, "new")
    assert path.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_where_nothing_can_be_written_the_reason_is_named(tmp_path, refused):
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "pipe")
    for path, kind, words in (
        (tmp_path, InvalidInput, "folder"),
        (tmp_path / "none" / "x", MissingFile, "no folder"),
        (tmp_path / "file" / "x", MissingFile, "no folder"),
        (tmp_path / "pipe", InvalidInput, "no regular file"),
    ):
        with refused(kind, "cannot write", words):
            files.write_text(path, "text")
    with refused(InvalidInput, "cannot write"):
        files.write_text(tmp_path / "a\0b", "text")
    with pytest.raises(InvalidInput, match="name too long"):
        files.write_text(tmp_path / ("x" * 300), "text")


def test_text_that_cannot_be_written_is_refused_before_anything_is(tmp_path, refused):
    with refused(InvalidInput, "lone surrogate"):
        files.write_json(tmp_path / "a.json", {"arm": "\ud800"}, indent=2)
    assert list(tmp_path.iterdir()) == []


def test_the_longest_name_of_a_file_system_can_be_written(tmp_path):
    for name in ("x" * 255, "ä" * 127):
        files.write_text(tmp_path / name, "text")
        assert (tmp_path / name).read_text(encoding="utf-8") == "text"


@POSIX
def test_permissions_are_kept_and_links_followed(tmp_path):
    path, link = tmp_path / "file", tmp_path / "link"
    files.write_text(path, "old")
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~_umask()
    path.chmod(0o600)
    link.symlink_to(path)
    files.write_text(link, "new")
    assert link.is_symlink()
    assert path.read_text(encoding="utf-8") == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def _umask():
    found = os.umask(0)
    os.umask(found)
    return found


# Writers that may go around: they write into files that write_atomically, or a file system that is
# not this computer's, has given them, or what nobody keeps.
ALLOWED = {
    "files.py",
    "live/reading.py",  # into memory, for an answer, or where write_atomically says
    "live/store/sqlite.py",  # a lock, which holds nothing
    "numerics/code_cache.py",  # a cache: checked when it is read, and best effort
    "logs/shuffle.py",  # temporary files, of any file system
    "datasets/movielens.py",  # a temporary copy for the reader of CSV
}
WRITERS = {
    "write_text",
    "write_bytes",
    "write_html",
    "write_image",
    "to_parquet",
    "to_csv",
    "to_json_file",
    "ParquetWriter",
    "savefig",
    "copyfile",
    "copy2",
    "tofile",
    "savetxt",
    "savez",
    "dump",
    "mkstemp",
    "NamedTemporaryFile",
}


def writes(path):
    """Names of calls in a module that write to a file and are not ours."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    ours = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "influential_bandits.files"
        for alias in node.names
    }
    inside = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "write_atomically"
        for part in ast.walk(node)
    }
    buffers = {
        target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and _callee(node.value) in {"StringIO", "BytesIO"}
        for target in node.targets
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or id(node) in inside:
            continue
        if node.args and getattr(node.args[0], "id", "") in buffers:  # into memory
            continue
        name = _callee(node)
        if isinstance(node.func, ast.Name) and name in ours:
            continue
        if name == "open":
            texts = [each.value for each in node.args if isinstance(each, ast.Constant)]
            if any(isinstance(text, str) and set(text) & set("wax+") for text in texts):
                yield name
        elif name in WRITERS:
            yield name


def _callee(node):
    """Name of the function or method that an expression calls; "" if it is no call."""
    func = getattr(node, "func", None)
    return getattr(func, "attr", getattr(func, "id", ""))


def test_no_module_writes_files_in_a_way_of_its_own():
    found = {
        str(path.relative_to(SOURCE)): sorted(set(writes(path))) for path in SOURCE.rglob("*.py")
    }
    around = {name: calls for name, calls in found.items() if calls and name not in ALLOWED}
    assert around == {}
    assert found["files.py"], "the search finds nothing at all"


# --- Reading JSON ---

HOSTILE = {
    "empty": b"",
    "blank": b" \n",
    "cut": b'{"a": 1',
    "digits": b'{"a": ' + b"1" * 5000 + b"}",
    "beyond a double": b'{"a": ' + b"1" * 400 + b"}",
    "deep": b"[" * 100_000,
    "deep and closed": b"[" * 500 + b"]" * 500,
    "deep objects": b'{"a":' * 900 + b"1" + b"}" * 900,
    "NaN": b'{"a": NaN}',
    "beyond all doubles": b'{"a": 1e999, "checksum": "0"}',
    "Infinity": b'{"a": -Infinity}',
    "twice": b'{"a": 1, "a": 2}',
    "utf-16": '{"a": 1}'.encode("utf-16"),
    "latin": '{"a": "ä"}'.encode("latin-1"),
    "surrogate": b'{"a": "\\ud800"}',
    "surrogate in a name": b'{"\\udfff": 1}',
    "zeros": b"\0" * 100,
    "two values": b"{} {}",
}
LOADERS = {
    "json": files.read_json,
    "instance": ib.Instance.load,
    "agent": lambda path: ib.Agent.load(path, ib.LCB()),
    "model": ib.InfluenceModel.load,
}


@pytest.mark.parametrize("load", LOADERS.values(), ids=LOADERS.keys())
@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_json_gets_one_sentence_that_names_the_file(content, load, tmp_path):
    path = tmp_path / "given.json"
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match=r"given\.json") as caught:
        load(path)
    assert len(str(caught.value)) < 400
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("load", LOADERS.values(), ids=LOADERS.keys())
def test_what_is_no_regular_file_is_refused_and_not_waited_for(load, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path, words in (
        (tmp_path / "pipe", "pipe"),
        (tmp_path, "folder"),
        (Path("/dev/zero"), "device"),
        (tmp_path / ("x" * 300), "too long"),
    ):
        with pytest.raises(InvalidInput, match=words):
            load(path)
    with pytest.raises(MissingFile, match="No such file"):
        load(tmp_path / "missing")


def test_a_file_larger_than_the_memory_is_refused_before_it_is_read(tmp_path, monkeypatch, refused):
    path = tmp_path / "large.json"
    path.write_text(f'["{"x" * 1000}"]', encoding="utf-8")
    assert files.read_json(path) == ["x" * 1000]
    monkeypatch.setattr("influential_bandits.free_memory.available_memory", lambda: 2000.0)
    with refused(InvalidInput, "large.json", "GB"):
        files.read_json(path)


def test_a_mark_at_the_beginning_that_editors_leave_is_no_trouble(tmp_path):
    path = tmp_path / "a.json"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(ib.counterexample().to_json()).encode())
    assert ib.Instance.load(path) == ib.counterexample()


def test_whole_numbers_that_are_large_but_numbers_can_be_read(tmp_path):
    path = tmp_path / "a.json"
    path.write_text(f"[{10**300}, {-(2**63)}, 1e3]", encoding="utf-8")
    assert files.read_json(path) == [10**300, -(2**63), 1000.0]


def test_arm_names_that_are_no_text_are_refused_at_once(refused):
    with refused(InvalidInstance, "lone surrogate"):
        ib.Instance(np.eye(2), [0.0, 0.0], arm_names=["a", "\ud800"])


def test_any_changed_character_of_a_sealed_file_is_noticed(tmp_path):
    path = tmp_path / "agent.json"
    agent = ib.Agent(ib.LCB(), 2, seed=3)
    agent.save(path)
    text = path.read_text(encoding="utf-8")
    again = ib.Agent.load(path, ib.LCB())
    assert again.to_json() == agent.to_json()
    silent = 0
    for place, character in enumerate(text):
        for other in {"9", "x"} - {character}:
            path.write_text(text[:place] + other + text[place + 1 :], encoding="utf-8")
            try:
                loaded = ib.Agent.load(path, ib.LCB())
            except InvalidInput:
                continue
            silent += loaded.to_json() != agent.to_json()
    assert silent == 0


def test_a_checksum_may_be_left_out_but_not_be_wrong(tmp_path, refused):
    path = tmp_path / "data.json"
    files.write_json(path, {"b": 0.1, "a": ["ä", None]}, sealed=True)
    data = json.loads(path.read_text(encoding="utf-8"))
    assert files.read_json(path) == {"a": ["ä", None], "b": 0.1}
    path.write_text(json.dumps(dict(reversed(data.items())), indent=3), encoding="utf-8")
    assert files.read_json(path) == {"a": ["ä", None], "b": 0.1}  # laid out in another way
    path.write_text(json.dumps(data | {"b": 0.2}), encoding="utf-8")
    with refused(InvalidInput, "data.json", "checksum", "on purpose"):
        files.read_json(path)
    del data["checksum"]
    path.write_text(json.dumps(data | {"b": 0.2}), encoding="utf-8")
    assert files.read_json(path)["b"] == 0.2


# --- Parquet with a seal ---


@pytest.fixture
def sealed(tmp_path):
    path = tmp_path / "table.parquet"
    lists = pa.FixedSizeListArray.from_arrays(np.arange(10.0), 2)
    columns = {"number": np.arange(5), "text": ["a", "", "ä", "b", "c"], "lists": lists}
    files.write_table(path, pa.table(columns), {"piece": "a"})
    return path


def test_a_sealed_table_comes_back(sealed):
    assert files.seal_holds(sealed) is True
    assert files.read_about(sealed) == {"piece": "a"}
    assert files.read_table(sealed)["text"].to_pylist() == ["a", "", "ä", "b", "c"]
    assert pq.read_table(sealed).num_rows == 5  # for any other reader a file like others


def test_every_flipped_bit_breaks_the_seal(sealed):
    content = sealed.read_bytes()
    for place in range(len(content)):
        changed = bytearray(content)
        changed[place] ^= 1 << (place % 8)
        sealed.write_bytes(changed)
        assert files.seal_holds(sealed) is not True, place
    for kept in range(0, len(content), 7):
        sealed.write_bytes(content[:kept])
        assert files.seal_holds(sealed) is not True, kept
    sealed.write_bytes(content + b"x")
    assert files.seal_holds(sealed) is not True


def test_a_table_written_by_somebody_else_has_no_seal(sealed):
    pq.write_table(pq.read_table(sealed), sealed)
    assert files.seal_holds(sealed) is None
