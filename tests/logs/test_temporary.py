"""Temporary folders: gone with their process, even if it was killed, and nobody else's touched."""

import signal
import subprocess
import sys
from pathlib import Path

import forked
import pytest

from influential_bandits.errors import InvalidInput
from influential_bandits.logs.remote_folder import RemoteFolder
from influential_bandits.logs.temporary import LOCK, PREFIX, TemporaryFolder

STREAM = """
import os, sys, time
import pandas as pd
from influential_bandits.logs import open_partitions, stream_log

events = pd.DataFrame({"instance": [1, 2] * 50, "arm": "a", "loss": 1.0})
if sys.argv[1] == "stream":
    log = stream_log(events, time=None, loss="loss", folder=sys.argv[2])
else:
    os.mkdir(sys.argv[2] + "/log")
    events[:50].to_parquet(sys.argv[2] + "/log/a.parquet")
    events[50:].to_parquet(sys.argv[2] + "/log/b.parquet")
    from influential_bandits.logs.options import ChunkSizes
    options = {"time": None, "loss": "loss", "folder": sys.argv[2], "sizes": ChunkSizes(group=1)}
    log = open_partitions(sys.argv[2] + "/log", **options)
print("made", flush=True)
time.sleep(60)
"""


def make_in(parent):
    return TemporaryFolder(RemoteFolder(str(parent)))


@pytest.mark.parametrize("kind", ["stream", "partitions"])
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_copies_of_a_log_do_not_outlive_a_process_for_long(kind, how, tmp_path):
    with forked.Popen(
        [sys.executable, "-c", STREAM, kind, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "made\n"
        (copy,) = tmp_path.glob(f"{PREFIX}*")
        other = make_in(tmp_path)
        assert copy.is_dir(), "its process is alive"
        process.send_signal(how)
        process.wait()
    another = make_in(tmp_path)
    assert not copy.exists()
    assert Path(other.folder.address).is_dir()
    for folder in (other, another):
        folder.remove()
        folder.remove()
    assert not list(tmp_path.glob(f"*{PREFIX}*"))


def test_only_folders_of_ours_are_swept(tmp_path):
    (tmp_path / f"{PREFIX}results").mkdir()
    (tmp_path / f"{PREFIX}results" / "model.json").touch()
    (tmp_path / f"{PREFIX}notes.txt").touch()
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / LOCK).touch()
    (tmp_path / f"{PREFIX}link").mkdir()
    (tmp_path / f"{PREFIX}link" / LOCK).symlink_to(victim / LOCK)
    before = sorted(tmp_path.rglob("*"))
    make_in(tmp_path).remove()
    assert sorted(tmp_path.rglob("*")) == before


def test_folders_are_private_and_named(tmp_path):
    folder = make_in(tmp_path)
    assert Path(folder.folder.address).stat().st_mode & 0o777 == 0o700
    folder.remove()
    with pytest.raises(InvalidInput, match=r"no folder .*nowhere for temporary files"):
        make_in(tmp_path / "nowhere")


def test_folders_made_at_once_are_not_swept(tmp_path):
    made = [make_in(tmp_path) for _ in range(20)]
    assert all(Path(folder.folder.address).is_dir() for folder in made)
    for folder in made:
        folder.remove()
    assert not list(tmp_path.iterdir())
