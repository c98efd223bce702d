"""Partitions: the same events as read_log, whole instances, wherever and however files are cut."""

import gc
import json
import pickle
import uuid
import warnings
from dataclasses import replace
from pathlib import Path

import fsspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from python_process import run_python
from returned_memory import ALLOWED, LARGE, RETURNED, SMALL

from influential_bandits.errors import InvalidInput, InvalidLog
from influential_bandits.execution.dask import DaskExecution
from influential_bandits.execution.local import LocalExecution
from influential_bandits.logs import partitions
from influential_bandits.logs.log import concatenate_logs
from influential_bandits.logs.options import ChunkSizes
from influential_bandits.logs.reading import read_log

ONE = LocalExecution(threads=1)
MEASURED = """
import json, sys
from pathlib import Path
from influential_bandits.logs.options import ChunkSizes
from influential_bandits.logs.partitions import open_partitions

sizes = ChunkSizes(rows=50_000, held=50_000, partition=50_000, group=1)
with open_partitions(sys.argv[1], loss="loss", execution=1, sizes=sizes) as log:
    events = sum(len(part) for part in log)
status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
print(json.dumps([events, len(log.partitions), int(status["VmHWM"].split()[0])]))
"""


# Groups, chunks and partitions so small that a little log has many of them.
SIZES = ChunkSizes(rows=40, held=50, hashes=5, group=1, partition=100)


def open_partitions(address, **options):
    return partitions.open_partitions(address, **{"sizes": SIZES} | options)


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """Where temporary files go, and nothing may be left."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    yield folder
    if any(folder.iterdir()):
        gc.collect()  # logs may be held by the traces of errors that were expected
    assert not [str(path) for path in folder.rglob("*")]


def rows(events=400, users=23, seed=0):
    """Random events with many equal times; losses tell each event from all others."""
    random = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "instance": random.integers(0, users, events),
            "arm": random.choice(["x", "y|z", "z", "w|x"], events),
            "time": random.integers(0, 6, events),
            "loss": np.arange(events) / 7,
        }
    )


def write(folder, *frames):
    """Write frames as files of a folder."""
    for number, frame in enumerate(frames):
        path = Path(folder) / f"day={number:02d}" / "events.parquet"
        path.parent.mkdir(parents=True)
        frame.to_parquet(path, index=False)
    return folder


def interleaved(frame, files=5):
    return [frame.iloc[n::files] for n in range(files)]


def by_instance(frame, files=5):
    return [frame[frame["instance"] % files == n] for n in range(files)]


def by_label(log):
    return log.take(np.argsort(np.array(log.instances, object)))


def assert_same(log, expected):
    """Compare all partitions with a log that was read at once, to the last bit."""
    logs = list(log)
    for part in logs:
        assert part.membership is log.membership
        assert part.about["source"] == expected.about["source"]
    labels = [label for part in logs for label in part.instances]
    assert len(labels) == len(set(labels)) == log.n_instances
    assert [part.n_events for part in log.partitions] == [part.n_events for part in logs]
    assert (log.n_events, log.about) == (expected.n_events, expected.about)
    mine, theirs = by_label(concatenate_logs(logs)), by_label(expected)
    assert mine.instances == theirs.instances
    assert log.arm_names == theirs.arm_names
    assert log.membership.items == theirs.membership.items
    for name in ("offsets", "item", "loss"):
        np.testing.assert_array_equal(getattr(mine, name), getattr(theirs, name))
    for name in ("offsets", "arm", "weight"):
        one, other = getattr(log.membership, name), getattr(theirs.membership, name)
        np.testing.assert_array_equal(one, other)
    if theirs.time is None:
        assert mine.time is None
    else:
        np.testing.assert_array_equal(mine.time, theirs.time)


@pytest.mark.parametrize("cut", [interleaved, by_instance])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"categories": "|"},
        {"categories": "|", "choose": "random", "seed": 3},
        {"time": None, "arm_names": ["z", "x", "y|z", "w|x", "none"]},
        {"items": {"x": ["b"], "y|z": "a", "z": ["c", "a"], "w|x": ["b"], "q": ["d"]}},
    ],
)
def test_partitions_have_the_events_of_read_log(cut, options, tmp_path):
    folder = write(tmp_path / "log", *cut(rows()))
    with open_partitions(folder, loss="loss", **options) as log:
        assert len(log.partitions) == (4 if cut is interleaved else 5)
        assert_same(log, read_log(folder, loss="loss", **options))


@settings(
    deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_any_cut_into_files_is_the_same_log(data, tmp_path):
    users = data.draw(st.integers(1, 12), label="users")
    frame = rows(data.draw(st.integers(1, 120), label="events"), users)
    files = data.draw(st.integers(1, 4), label="files")
    where = np.array(data.draw(st.lists(st.integers(0, files - 1), min_size=len(frame),
                                        max_size=len(frame))))  # fmt: skip
    folder = write(tmp_path / uuid.uuid4().hex, *(frame[where == n] for n in range(files)))
    with open_partitions(folder, loss="loss", execution=ONE) as log:
        assert_same(log, read_log(folder, loss="loss"))


def test_files_by_instance_are_taken_as_they_are(tmp_path, home):
    folder = write(tmp_path / "log", *by_instance(rows()))
    log = open_partitions(folder, loss="loss")
    assert not list(home.iterdir())
    assert [part.group.folder.address for part in log.partitions] == [str(folder)] * 5
    assert repr(log) == "PartitionedLog(400 events, 23 instances, 4 arms, 5 partitions)"


def test_small_neighbours_are_one_partition(tmp_path, home):
    folder = write(tmp_path / "log", *interleaved(rows()))
    log = open_partitions(folder, loss="loss", sizes=replace(SIZES, group=1 << 20))
    assert not list(home.iterdir())
    assert len(log.partitions) == 1
    assert_same(log, read_log(folder, loss="loss"))


def test_large_files_are_sorted_into_partitions(tmp_path, home):
    folder = write(tmp_path / "log", *by_instance(rows()))
    sizes = replace(SIZES, largest_partition=50)
    with open_partitions(folder, loss="loss", sizes=sizes) as log:
        assert list(home.iterdir())
        assert_same(log, read_log(folder, loss="loss"))


@pytest.mark.parametrize("label", ["{}", "ä{}", "日本 {}"])
def test_folders_of_instances_are_columns(label, tmp_path):
    frame = rows()
    for number in range(23):
        for part in range(2):
            path = tmp_path / "log" / f"user={label.format(number)}" / f"{part}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            mine = frame[frame["instance"] == number].drop(columns="instance")
            mine.iloc[part::2].to_parquet(path, index=False)
    options = {"instance": "user", "loss": "loss"}
    with open_partitions(tmp_path / "log", **options) as log:
        assert_same(log, read_log(tmp_path / "log", **options))


def test_mixed_folder_names_are_text_in_every_file(tmp_path):
    for name in ("7", "ann"):
        path = tmp_path / "log" / f"instance={name}" / "x.parquet"
        path.parent.mkdir(parents=True)
        rows(9).drop(columns="instance").to_parquet(path, index=False)
    log = open_partitions(tmp_path / "log", loss="loss")
    assert_same(log, read_log(tmp_path / "log", loss="loss"))


def test_an_instance_larger_than_a_partition(tmp_path):
    frame = rows(500, users=6)
    frame.loc[frame.index % 5 > 0, "instance"] = 77
    folder = write(tmp_path / "log", *interleaved(frame))
    with open_partitions(folder, loss="loss") as log:
        assert max(part.n_events for part in log.partitions) >= 400
        assert_same(log, read_log(folder, loss="loss"))


@pytest.mark.parametrize("time", ["iso", "number", "stamp"])
def test_times_are_read_alike_in_all_files(time, tmp_path):
    frame = rows()
    stamps = pd.to_datetime(frame["time"] * 1000, unit="s")
    frame["time"] = {
        "iso": stamps.dt.strftime("%Y-%m-%dT%H:%M:%S"),
        "number": frame["time"].astype(str),
        "stamp": stamps,
    }[time]
    folder = write(tmp_path / "log", *interleaved(frame))
    with open_partitions(folder, loss="loss") as log:
        assert_same(log, read_log(folder, loss="loss"))


def test_the_first_file_decides_what_times_are(tmp_path):
    first, second = rows(10), rows(10, seed=1)
    first["time"], second["time"] = "2024-05-01", "5"
    folder = write(tmp_path / "log", first[:0], first, second)
    for read in (read_log, open_partitions):
        with pytest.raises(InvalidLog, match=r"10 × unreadable time"):
            read(folder, loss="loss")


def test_bad_rows_are_named_by_file(tmp_path):
    frames = interleaved(rows())
    frames[1] = frames[1].assign(loss=[None, 1.0] * 40)
    frames[3] = frames[3].assign(arm=[*["x"] * 79, ""], loss=[np.inf] + [1.0] * 79)
    folder = write(tmp_path / "log", *frames)
    with pytest.raises(InvalidLog) as failed:
        open_partitions(folder, loss="loss")
    assert str(failed.value) == (
        "log has 42 bad rows: 41 × missing value (rows 0 of day=01/events.parquet, 2 of "
        "day=01/events.parquet, 4 of day=01/events.parquet, …: loss nan); 1 × not finite (row 0 of "
        "day=03/events.parquet: loss inf), counted from 0. Fix them, or leave them out with "
        "bad_rows='drop' (--drop-bad-rows on the command line)"
    ).replace("nan", "None")
    with open_partitions(folder, loss="loss", bad_rows="drop") as log:
        assert log.about["dropped"] == {"missing value": 41, "not finite": 1}
        assert_same(log, read_log(folder, loss="loss", bad_rows="drop"))


def test_empty_files_and_a_single_file(tmp_path):
    frame = rows()
    folder = write(tmp_path / "log", frame[:0], frame, frame[:0])
    log = open_partitions(folder, loss="loss")
    assert len(log.partitions) == 1
    assert_same(log, read_log(folder, loss="loss"))
    file = folder / "day=01" / "events.parquet"
    assert_same(open_partitions(file, loss="loss"), read_log(file, loss="loss"))


def test_what_cannot_be_opened_is_said(tmp_path):
    folder = write(tmp_path / "log", rows()[:0])
    with pytest.raises(InvalidLog, match=r"log has columns, but no rows"):
        open_partitions(folder, loss="loss")
    with pytest.raises(InvalidLog, match=r"no column 'Loss'; it has: .* did you mean 'loss'"):
        open_partitions(folder, loss="Loss")
    with pytest.raises(InvalidInput, match=r"no option separator"):
        open_partitions(folder, loss="loss", separator=",")
    with pytest.raises(FileNotFoundError, match=r"there is no file or folder .*/nowhere"):
        open_partitions(tmp_path / "nowhere", loss="loss")
    with pytest.raises(FileNotFoundError, match=r"there is no file or folder memory://nowhere"):
        open_partitions("memory://nowhere", loss="loss")
    with pytest.raises(InvalidInput, match=r"foo://bar cannot be reached: Protocol not known"):
        open_partitions("foo://bar", loss="loss")
    with pytest.raises(InvalidInput, match=r"an address is a path or a URL"):
        open_partitions(rows(), loss="loss")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidInput, match=r"is a folder without Parquet files"):
        open_partitions(tmp_path / "empty", loss="loss")
    full = write(tmp_path / "full", *interleaved(rows()))
    with pytest.raises(InvalidInput, match=r"there is no folder .*/nowhere for temporary files"):
        open_partitions(full, loss="loss", folder=tmp_path / "nowhere")


def test_files_that_are_no_parquet_are_named(tmp_path):
    folder = write(tmp_path / "log", *by_instance(rows()))
    (folder / "day=03" / "events.parquet").write_bytes(b"nothing of the kind")
    with pytest.raises(InvalidLog, match=r"day=03/events.parquet cannot be read"):
        open_partitions(folder, loss="loss")


def test_files_that_changed_are_noticed(tmp_path):
    folder = write(tmp_path / "log", *by_instance(rows()))
    log = open_partitions(folder, loss="loss")
    rows(30).assign(instance=1).to_parquet(folder / "day=01" / "events.parquet", index=False)
    with pytest.raises(InvalidLog, match=r"changed since the log was opened: 30 good rows, not"):
        log.partitions[1].load()
    rows(3).assign(instance=1, loss=None).to_parquet(folder / "day=01" / "events.parquet")
    with pytest.raises(InvalidLog, match=r"0 good rows, not"):
        log.partitions[1].load()
    (folder / "day=02" / "events.parquet").unlink()
    with pytest.raises(InvalidLog, match=r"day=02/events.parquet cannot be read"):
        log.partitions[2].load()


def test_temporary_files_live_as_long_as_they_are_used(tmp_path, home):
    folder = write(tmp_path / "log", *interleaved(rows()))
    parts = open_partitions(folder, loss="loss").partitions
    gc.collect()
    sent = pickle.loads(pickle.dumps(parts[0]))
    assert len(pickle.dumps(parts[0])) < 5000
    assert sent.load().n_events == parts[0].load().n_events
    del parts
    gc.collect()
    assert not list(home.iterdir())
    with pytest.raises(InvalidLog, match=r"cannot be read"):
        sent.load()
    with open_partitions(folder, loss="loss", folder=tmp_path) as log:
        assert not list(home.iterdir())
        names = {path.suffix for path in tmp_path.glob("influential-bandits-*/*")}
        assert names == {".arrow", ""}  # the one without an ending says that it is in use
    assert not list(tmp_path.glob("influential-bandits-*"))
    with pytest.raises(InvalidInput, match=r"the log is closed"):
        next(iter(log))


@pytest.fixture
def memory():
    """A folder of the file system that fsspec keeps in memory."""
    system = fsspec.filesystem("memory")
    yield f"memory://{uuid.uuid4().hex}"
    system.store.clear()
    system.pseudo_dirs[:] = [""]


def put(address, folder):
    system, path = fsspec.core.url_to_fs(address)
    for file in Path(folder).rglob("*.parquet"):
        system.makedirs(f"{path}/{file.parent.relative_to(folder)}", exist_ok=True)
        system.pipe(f"{path}/{file.relative_to(folder)}", file.read_bytes())


@pytest.mark.parametrize("cut", [interleaved, by_instance])
def test_any_address_of_fsspec(cut, tmp_path, memory):
    put(f"{memory}/log", write(tmp_path / "log", *cut(rows())))
    expected = read_log(tmp_path / "log", loss="loss")
    if cut is interleaved:
        with pytest.raises(InvalidInput, match=r"with folder="):
            open_partitions(f"{memory}/log", loss="loss")
    fsspec.filesystem("memory").mkdir(f"{memory}/work")
    with open_partitions(f"{memory}/log/", loss="loss", folder=f"{memory}/work") as log:
        assert_same(log, expected)
    assert not fsspec.filesystem("memory").ls(f"{memory}/work")


@pytest.fixture(scope="module")
def cluster():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # another cluster may have the usual port
        execution = DaskExecution(workers=2)
    with execution:
        yield execution


@pytest.mark.long
def test_a_cluster_makes_the_same_partitions(tmp_path, cluster):
    folder = write(tmp_path / "log", *interleaved(rows()))
    options = {"loss": "loss", "categories": "|"}
    expected = read_log(folder, **options)
    logs = []
    for execution in (ONE, LocalExecution(threads=3), cluster):
        with open_partitions(folder, execution=execution, **options) as log:
            assert_same(log, expected)
            logs.append(list(execution.map(partitions.Partition.load, log.partitions)))
    for mine in logs[1:]:
        for one, other in zip(logs[0], mine, strict=True):
            assert one.instances == other.instances
            for name in ("offsets", "item", "loss", "time"):
                np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # Arrow leaves cached files to Python
def test_workers_open_addresses_themselves(tmp_path, cluster, monkeypatch):
    storage = {"cache_storage": str(tmp_path / "cache")}
    monkeypatch.setitem(fsspec.config.conf, "simplecache", storage)
    folder = write(tmp_path / "log", *interleaved(rows()))
    options = {"loss": "loss", "folder": tmp_path, "execution": cluster}
    with open_partitions(f"simplecache::file://{folder}", **options) as log:
        assert_same(log, read_log(folder, loss="loss"))


def test_a_cluster_says_what_is_wrong_with_rows(tmp_path, cluster):
    folder = write(tmp_path / "log", rows(), rows().assign(arm=None))
    with pytest.raises(InvalidLog, match=r"400 × missing value .rows 0 of day=01"):
        open_partitions(folder, loss="loss", execution=cluster)


def test_unicode_and_long_labels(tmp_path):
    frame = rows()
    frame["instance"] = [f"é{'z' * (n % 7)} 人{n}" for n in frame["instance"]]
    frame["arm"] = frame["arm"] + "ß€"
    folder = write(tmp_path / "log", *interleaved(frame))
    with open_partitions(folder, loss="loss") as log:
        assert_same(log, read_log(folder, loss="loss"))


def test_files_of_other_columns_are_read_as_the_first(tmp_path):
    first, second = rows(60), rows(60, seed=1)
    folder = write(tmp_path / "log", first.assign(more=1), second.astype({"time": "int32"}))
    with open_partitions(folder, loss="loss") as log:
        assert_same(log, read_log(folder, loss="loss"))
    lacking = write(tmp_path / "lacking", first, second.drop(columns="arm"))
    for read in (read_log, open_partitions):
        with pytest.raises(InvalidLog, match=r"60 × missing value"):
            read(lacking, loss="loss")


def test_large_row_groups_and_dictionaries(tmp_path):
    frame = rows()
    (tmp_path / "log").mkdir()
    for number, part in enumerate(interleaved(frame, 2)):
        columns = pa.Table.from_pandas(part, preserve_index=False)
        coded = columns.set_column(1, "arm", columns["arm"].dictionary_encode())
        pq.write_table(coded, tmp_path / "log" / f"{number}.parquet", row_group_size=33)
    with open_partitions(tmp_path / "log", loss="loss") as log:
        assert_same(log, read_log(tmp_path / "log", loss="loss"))


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_memory_does_not_grow_with_the_log(tmp_path):
    random = np.random.default_rng(0)
    for events in (SMALL, LARGE):
        (tmp_path / str(events)).mkdir()
        for file in range(2):
            columns = {
                "instance": random.integers(0, events // 100, events // 2),
                "arm": random.integers(0, 20, events // 2),
                "time": random.integers(0, 10**8, events // 2),
                "loss": np.arange(events // 2) + file * events,
            }
            path = tmp_path / str(events) / f"{file}.parquet"
            pq.write_table(pa.table(columns), path, row_group_size=50_000)
    memory = {}
    for events in (SMALL, SMALL, LARGE):  # the first may compile, which takes 60 MB
        told = json.loads(run_python(MEASURED, tmp_path / str(events), **RETURNED))
        counted, parts, memory[events] = told
        assert (counted, parts) == (events, events // 50_000)
    assert memory[LARGE] - memory[SMALL] < ALLOWED, memory
