"""Folders of Parquet files: every reader takes the same files, and says which it left."""

import os
import uuid
from pathlib import Path

import fsspec
import pandas as pd
import pytest

from influential_bandits.errors import InvalidInput, InvalidLog
from influential_bandits.logs.partitions import open_partitions, stream_log
from influential_bandits.logs.reading import read_log
from influential_bandits.logs.remote_folder import describe_files
from influential_bandits.studies.logs.sections import log_section

OPTIONS = {"time": None, "loss": "loss"}


def frame(*users):
    return pd.DataFrame({"instance": users, "arm": "a", "loss": 1.0})


def parquet(path, *users):
    path.parent.mkdir(parents=True, exist_ok=True)
    frame(*users).to_parquet(path)


def text(path, content="anything"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


@pytest.fixture
def elsewhere():
    """Return copies of folders in the file system that fsspec keeps in memory."""
    system = fsspec.filesystem("memory")

    def elsewhere(folder):
        address = f"memory://{uuid.uuid4().hex}"
        for file in Path(folder).rglob("*"):
            if file.is_file():
                system.pipe(f"{address}/{file.relative_to(folder)}", file.read_bytes())
        return address

    yield elsewhere
    system.store.clear()
    system.pseudo_dirs[:] = [""]


def users_of(folder, elsewhere, tmp_path):
    """Return the users that all readers find, and what they say about files."""
    whole = read_log(folder, **OPTIONS)
    about = {key: whole.about[key] for key in ("files", "left")}
    with stream_log(folder, **OPTIONS) as stream:
        assert {user for part in stream for user in part.instances} == set(whole.instances)
        assert {key: stream.about[key] for key in about} == about
    for address in (folder, f"file://{folder}", elsewhere(folder)):
        with open_partitions(address, folder=tmp_path, **OPTIONS) as log:
            assert {user for part in log for user in part.instances} == set(whole.instances)
            assert log.n_events == whole.n_events
            assert {key: log.about[key] for key in about} == about
    return sorted(whole.instances), about


TAKEN = ("b.PARQUET", "c.parq", "d.Pq", "day=1/part-0.snappy.parquet", "x/y/z/e.parquet")
HIDDEN = (
    "_temporary/0/task/part-0.parquet",
    ".hidden.parquet",
    "_metadata",
    "_common_metadata",
    "_SUCCESS",
    "._b.parquet",
    ".spark/part-0.parquet",
    "x/_temporary/part-0.parquet",
    ".b.parquet.crc",
    "_started_17",
    "_committed_17",
)
OTHERS = (
    "f.parquet.tmp",
    "g.parquet._COPYING_",
    "h.parquet.inprogress",
    "b.PARQUET.crc",
    "notes.csv",
    "README",
    "i.parquet.1a2b.unfinished",
)


def test_all_readers_take_the_files_that_engines_take(tmp_path, elsewhere):
    folder = tmp_path / "log"
    for number, name in enumerate(TAKEN):
        parquet(folder / name, f"user {number}")
    for name in HIDDEN:
        parquet(folder / name, "hidden")
    for name in OTHERS:
        text(folder / name)
    found, about = users_of(folder, elsewhere, tmp_path)
    assert found == [f"user {number}" for number in range(len(TAKEN))]
    assert about["files"] == len(TAKEN)
    left = {
        name.split("/")[0] + "/" if name[0] in "_." and "/" in name else name for name in HIDDEN
    }
    left = left - {"x/_temporary/part-0.parquet"} | {"x/_temporary/"}
    assert about["left"] == sorted(left | set(OTHERS))


def test_commands_and_reports_say_what_was_left(tmp_path):
    for name in ("a.parquet", "b.parquet", "_SUCCESS", "_metadata", ".a.parquet.crc", "c.tmp"):
        parquet(tmp_path / name, name)
    log = read_log(tmp_path)
    said = "2 files taken, 4 left: .a.parquet.crc, _SUCCESS, _metadata and 1 more"
    assert describe_files(log.about) == [said]
    assert said in log_section(log).analysis.notes[0]
    assert describe_files({"files": 1, "left": []}) == ["1 file taken"]
    assert describe_files({}) == []


def test_a_single_file_says_nothing_of_files(tmp_path):
    parquet(tmp_path / "_log.parquet", "ann")
    for log in (
        read_log(tmp_path / "_log.parquet", **OPTIONS),
        open_partitions(tmp_path / "_log.parquet", **OPTIONS),
    ):
        assert log.n_events == 1
        assert not {"files", "left"} & set(log.about)


def test_values_in_the_names_of_folders_are_text(tmp_path, elsewhere):
    for user in ("01", "1", "007"):
        path = tmp_path / "log" / f"_shard=2/instance={user}" / "part-0.parquet"
        path.parent.mkdir(parents=True)
        frame("?").drop(columns="instance").to_parquet(path)
    assert users_of(tmp_path / "log", elsewhere, tmp_path)[0] == ["007", "01", "1"]


def test_folders_without_data_say_what_is_there(tmp_path, elsewhere):
    text(tmp_path / "log" / "a.csv", "instance,arm,loss\nu,a,1\n")
    text(tmp_path / "log" / "_temporary" / "b.parquet")
    told = r"without Parquet files \(but _temporary/, a.csv\).*end in .parquet"
    for read in (read_log, open_partitions):
        with pytest.raises(InvalidInput, match=told):
            read(tmp_path / "log", **OPTIONS)
    with pytest.raises(InvalidInput, match=told):
        open_partitions(elsewhere(tmp_path / "log"), **OPTIONS)


def chain_of_links(folder):
    (folder / "b.parquet").symlink_to(folder / "c.parquet")
    (folder / "c.parquet").symlink_to(folder / "b.parquet")


def same_folder(folder):
    parquet(folder / "day" / "b.parquet", "bob")
    (folder / "today").symlink_to("day")


def cut_file(folder):
    whole = (folder / "a.parquet").read_bytes()
    (folder / "b.parquet").write_bytes(whole[: len(whole) // 2])


REFUSED = {
    "b.parquet of .* leads nowhere": lambda f: (f / "b.parquet").symlink_to(f / "gone.parquet"),
    "2024 of .* leads nowhere": lambda f: (f / "2024").symlink_to(f.parent / "not mounted"),
    "inner of .* is a link to the folder itself.*twice": lambda f: (f / "inner").symlink_to(f),
    "cannot be reached: .*symbolic links": chain_of_links,
    "a.parquet.*twice|b.parquet.*twice": lambda f: (f / "b.parquet").symlink_to("a.parquet"),
    "today of .* is a link to day.*twice": same_folder,
    "b.parquet of .* is no regular file": lambda f: os.mkfifo(f / "b.parquet"),
    r"b\.parquet (?#empty)": lambda f: (f / "b.parquet").touch(),
    r"b\.parquet (?#text)": lambda f: text(f / "b.parquet"),
    r"b\.parquet (?#cut)": cut_file,
    "is a Delta table": lambda f: text(f / "_delta_log" / f"{0:020}.json"),
    "is a Hudi table": lambda f: text(f / ".hoodie" / "hoodie.properties"),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_would_be_missing_or_count_twice_is_refused(message, tmp_path):
    folder = tmp_path / "log"
    parquet(folder / "a.parquet", "ann")
    REFUSED[message](folder)
    for read in (read_log, stream_log, open_partitions):
        with pytest.raises(InvalidInput, match=message.partition(" (?#")[0]):
            read(folder, **OPTIONS)


def test_links_are_followed(tmp_path):
    parquet(tmp_path / "disk" / "day" / "b.parquet", "bob")
    parquet(tmp_path / "disk" / "cleo.parquet", "cleo")
    parquet(tmp_path / "log" / "a.parquet", "ann")
    (tmp_path / "log" / "day").symlink_to(tmp_path / "disk" / "day")
    (tmp_path / "log" / "c.parquet").symlink_to(tmp_path / "disk" / "cleo.parquet")
    (tmp_path / "by name").symlink_to(tmp_path / "log")
    for folder in (tmp_path / "log", tmp_path / "by name"):
        assert set(read_log(folder, **OPTIONS).instances) == {"ann", "bob", "cleo"}
        assert open_partitions(folder, **OPTIONS).n_events == 3


def test_folders_that_may_not_be_read_are_named(tmp_path, monkeypatch):
    parquet(tmp_path / "log" / "a.parquet", "ann")
    parquet(tmp_path / "log" / "secret" / "b.parquet", "bob")
    scan = os.scandir

    def refuse(path):  # the tests may run as somebody who may read everything
        if str(path).endswith("secret"):
            raise PermissionError(13, "Permission denied", path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse)
    for read in (read_log, open_partitions):
        with pytest.raises(InvalidInput, match=r"Permission denied: .*secret"):
            read(tmp_path / "log", **OPTIONS)


def test_names_that_are_no_text_are_named(tmp_path):
    parquet(tmp_path / "log.parquet", "ann")
    odd = os.fsdecode(os.fsencode(tmp_path / "log-") + b"\xff.parquet")
    Path(odd).write_bytes((tmp_path / "log.parquet").read_bytes())
    for read in (read_log, open_partitions):
        with pytest.raises((InvalidInput, InvalidLog)) as raised:
            read(odd, **OPTIONS)
        assert "log-" in str(raised.value).encode().decode()
