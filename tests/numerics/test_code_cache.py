"""Compiled code on disk: found again, never trusted blindly, and never needed."""

import hashlib
import json
import os
import random
import resource
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import influential_bandits
from influential_bandits.numerics.code_cache import CHECKSUM, MAGIC

pytestmark = pytest.mark.long

START = len(MAGIC) + CHECKSUM
PACKAGE = Path(influential_bandits.__file__).parent
# Prints a number from compiled code, whether it was found on disk, and the warnings.
SCRIPT = """
import json, os, sys, warnings
os.umask(int(sys.argv[1], 8))
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    from influential_bandits.numerics.streams import key_table, stream_at, stream_keys
    import numpy as np
    first = int(stream_keys(np.uint64(1), np.uint64(2), 3)[0])
    key_table(np.zeros(1, np.uint64), np.uint64(2), 3)
    stream_at(np.uint64(1), np.uint64(2), 3)
found = sum(stream_keys.stats.cache_hits.values())
print(json.dumps({"number": first, "found": found, "warnings": [str(w.message) for w in seen]}))
"""


def draw(package=PACKAGE, umask="022", before=None, **environment):
    """Run the script in a process of its own, and return what it says."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, umask],
        env=os.environ | {"PYTHONPATH": str(package.parent), **environment},
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=before,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A folder with compiled code, and what the code gives."""
    folder = tmp_path_factory.mktemp("cache")
    told = draw(NUMBA_CACHE_DIR=str(folder))
    assert told["found"] == 0
    assert told["warnings"] == []
    return folder, told["number"]


@pytest.fixture
def copied(filled, tmp_path):
    """A copy of that folder: its entries, the environment that names it, and the number."""
    folder, number = filled
    copy = tmp_path / "cache"
    shutil.copytree(folder, copy)
    entries = sorted(copy.glob("compiled-*/*"))
    return entries, {"NUMBA_CACHE_DIR": str(copy)}, number


def test_the_next_process_finds_the_code(copied):
    _, environment, number = copied
    assert draw(**environment) == {"number": number, "found": 1, "warnings": []}


def empty(entry):
    return b""


def flip_a_bit(entry):
    return entry[:-100] + bytes([entry[-100] ^ 1]) + entry[-99:]


def be_a_pickle_of_something_else(entry):
    return b"cos\nabort\n(tR."


def cut(entry):
    return entry[: len(entry) // 2]


def garble(entry):
    return random.Random(len(entry)).randbytes(len(entry))


def be_a_text(entry):
    return b"none\n"


@pytest.mark.parametrize(
    "damages", [[empty, flip_a_bit, be_a_pickle_of_something_else], [cut, garble, be_a_text]]
)
def test_damaged_entries_are_compiled_again_with_one_warning(copied, damages):
    entries, environment, number = copied
    assert len(entries) >= len(damages)
    for n, entry in enumerate(entries):
        entry.write_bytes(damages[n % len(damages)](entry.read_bytes()))
    told = draw(**environment)
    assert (told["number"], told["found"], len(told["warnings"])) == (number, 0, 1)
    assert "is damaged" in told["warnings"][0]
    assert draw(**environment) == {"number": number, "found": 1, "warnings": []}


def test_folders_in_the_place_of_entries_cost_one_warning(copied):
    entries, environment, number = copied
    for entry in entries:
        entry.unlink()
        entry.mkdir()
    told = draw(**environment)
    assert (told["number"], told["found"]) == (number, 0)
    assert len(told["warnings"]) <= 1


def test_what_cannot_be_rebuilt_is_compiled_again(copied):
    """An entry that is whole, but of another function: its checksum is right."""
    entries, environment, number = copied
    of_keys = next(entry for entry in entries if "stream_keys" in entry.name)
    for entry in entries:
        content = of_keys.read_bytes()[:-5000]
        payload = content[START:]
        entry.write_bytes(MAGIC + hashlib.sha256(payload).digest() + payload)
    told = draw(**environment)
    assert (told["number"], told["found"], len(told["warnings"])) == (number, 0, 1)


def no_room():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))


def test_a_full_disk_costs_one_warning_and_leaves_nothing_behind(filled, tmp_path):
    told = draw(NUMBA_CACHE_DIR=str(tmp_path), before=no_room)
    assert (told["number"], told["found"], len(told["warnings"])) == (filled[1], 0, 1)
    assert "NUMBA_CACHE_DIR" in told["warnings"][0]
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def package_without_room(folder):
    """A copy of the package that takes no compiled code, and an environment with a home."""
    package = folder / "influential_bandits"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "__pycache__").write_text("", encoding="utf-8")
    home = str(folder / "home")
    return package, {
        "HOME": home,
        "XDG_CACHE_HOME": home,
        "NUMBA_CACHE_DIR": "",
        "PYTHONPYCACHEPREFIX": str(folder / "byte-code"),
    }


def test_nowhere_to_write_costs_one_warning(filled, tmp_path):
    """Neither in the package, nor at home: both are files, which even root cannot write into."""
    package, places = package_without_room(tmp_path)
    Path(places["XDG_CACHE_HOME"]).write_text("", encoding="utf-8")
    told = draw(package, **places)
    assert (told["number"], told["found"], len(told["warnings"])) == (filled[1], 0, 1)
    assert str(package) in told["warnings"][0]
    assert places["XDG_CACHE_HOME"] in told["warnings"][0]


def test_what_cannot_be_kept_in_the_package_is_kept_at_home(filled, tmp_path):
    package, places = package_without_room(tmp_path)
    assert draw(package, **places) == {"number": filled[1], "found": 0, "warnings": []}
    assert draw(package, **places) == {"number": filled[1], "found": 1, "warnings": []}


@pytest.mark.parametrize("umask", ["000", "077"])
def test_only_the_owner_can_write_and_everybody_can_read_whatever_the_mask(tmp_path, umask):
    draw(umask=umask, NUMBA_CACHE_DIR=str(tmp_path))
    made = next(tmp_path.glob("compiled-*"))
    assert stat.S_IMODE(made.stat().st_mode) == 0o755
    assert {stat.S_IMODE(entry.stat().st_mode) for entry in made.iterdir()} == {0o644}


def test_a_folder_that_others_can_write_to_is_not_read(copied):
    entries, environment, number = copied
    entries[0].parent.chmod(0o777)
    told = draw(**environment)
    assert (told["number"], told["found"], len(told["warnings"])) == (number, 0, 1)
    assert "others can write to" in told["warnings"][0]


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_a_stranger_is_not_read(copied):
    entries, environment, number = copied
    os.chown(entries[0].parent, 12345, 12345)
    told = draw(**environment)
    assert (told["number"], told["found"], len(told["warnings"])) == (number, 0, 1)


def test_code_of_old_states_of_the_source_is_removed(tmp_path):
    for n in range(20):
        old = tmp_path / f"compiled-{n:016}"
        old.mkdir()
        os.utime(old, (1000 + n, 1000 + n))
    draw(NUMBA_CACHE_DIR=str(tmp_path))
    left = sorted(path.name for path in tmp_path.iterdir())
    assert len(left) == 8
    assert "compiled-0000000000000019" in left
    assert "compiled-0000000000000000" not in left
