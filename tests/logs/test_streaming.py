"""stream_log: the same events as read_log in parts, little memory, and no files left behind."""

import gc
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pytest
from hypothesis import given
from hypothesis import strategies as st
from python_process import run_python
from returned_memory import ALLOWED, LARGE, RETURNED, SMALL

from influential_bandits.errors import InvalidInput, InvalidLog, MissingFile
from influential_bandits.logs.options import ChunkSizes
from influential_bandits.logs.partitions import stream_log
from influential_bandits.logs.reading import read_log

MEASURED = """
import json, sys
from pathlib import Path
from influential_bandits.logs.options import ChunkSizes
from influential_bandits.logs.partitions import stream_log

stream = stream_log(
    sys.argv[1],
    loss="loss",
    # Arrow reads dozens of blocks ahead if it has the time.
    sizes=ChunkSizes(text=1 << 16, held=100_000, partition=50_000),
)
events = sum(len(part) for part in stream)
status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
print(json.dumps([events, int(status["VmHWM"].split()[0])]))
"""


def histories(*logs):
    """Label → columns of its history, and check that no instance is in two parts."""
    made = {}
    for log in logs:
        assert not set(made) & set(log.instances)
        for number, label in enumerate(log.instances):
            mine = slice(log.offsets[number], log.offsets[number + 1])
            items = [log.membership.items[item] for item in log.item[mine]]
            time = None if log.time is None else log.time[mine].tolist()
            made[label] = (items, time, log.loss[mine].tolist())
    return made


def table(events, *, seed=0):
    """Columns of random events of about twenty a user."""
    random = np.random.default_rng(seed)
    return {
        "instance": random.integers(0, max(events // 20, 1), events),
        "arm": random.choice(["x", "y|z", "z", "w|x"], events),
        "time": random.integers(0, 50, events),
        "loss": random.normal(size=events),
    }


def write_csv(path, columns):
    pd.DataFrame(columns).to_csv(path, index=False)
    return path


# Chunks so small that a little file has many of them.
SIZES = ChunkSizes(text=4096, rows=300, held=500, hashes=20)


def small_stream(source, partition=200, **options):
    return stream_log(source, sizes=replace(SIZES, partition=partition), **options)


OPTIONS = [{}, {"categories": "|"}, {"time": None}, {"arm_names": ["z", "y|z", "w|x", "x"]}]


@pytest.mark.long
@pytest.mark.parametrize("options", OPTIONS, ids=["plain", "categories", "timeless", "arms"])
def test_parts_have_the_histories_of_the_log(options, tmp_path):
    columns = table(3000)
    path = write_csv(tmp_path / "log.csv", columns)
    whole = read_log(path, loss="loss", **options)
    for source in (path, columns):
        stream = small_stream(source, loss="loss", **options)
        assert stream.arm_names == whole.arm_names
        for _ in range(2):
            parts = list(stream)
            assert histories(*parts) == histories(whole)
            assert all(part.membership is stream.membership for part in parts)
            assert all(part.about["conversion"] == "loss = loss" for part in parts)
        assert stream.n_events == len(whole)
        assert stream.n_instances == whole.n_instances
        assert stream.about["repeated"] == whole.about["repeated"]
        assert stream.about["dropped"] == {}
        assert 10 <= len(parts) <= 25
        assert max(len(part) for part in parts) < 300
        stream.close()


@given(
    st.lists(st.tuples(st.integers(0, 5), st.sampled_from("xy"), st.integers(0, 3)), min_size=1),
    st.integers(1, 20),
)
def test_parts_of_any_size_are_the_log(rows, size):
    who, what, time = map(list, zip(*rows, strict=True))
    columns = {"instance": who, "arm": what, "time": time, "loss": list(range(len(rows)))}
    with small_stream(columns, size, loss="loss") as stream:
        assert stream.n_instances == len(set(who))
        parts = list(stream)
    assert histories(*parts) == histories(read_log(columns, loss="loss"))
    assert all(len(part) for part in parts)


def test_bad_rows_are_counted_over_the_whole_file(tmp_path, refused):
    columns = {name: column.tolist() for name, column in table(3000).items()}
    for row, value in ((5, "bad"), (1500, "worse"), (2999, "")):
        columns["loss"][row] = value
    path = write_csv(tmp_path / "log.csv", columns)
    with refused(InvalidLog, "2 × not a number (lines 7, 1502: loss 'bad')", "(line 3001: loss"):
        small_stream(path, loss="loss")
    stream = small_stream(path, loss="loss", bad_rows="drop")
    assert stream.about["dropped"] == {"missing value": 1, "not a number": 2}
    assert stream.n_events == 2997
    whole = read_log(path, loss="loss", bad_rows="drop")
    assert histories(*stream) == histories(whole)
    assert all(part.about["dropped"] == whole.about["dropped"] for part in stream)


def test_an_instance_larger_than_a_part_stays_whole():
    columns = table(2000) | {"instance": ["a"] * 10 + ["b"] * 1980 + ["c"] * 10}
    with small_stream(columns, 5, loss="loss") as stream:
        parts = {part.instances: len(part) for part in stream}
    assert parts == {("a",): 10, ("b",): 1980, ("c",): 10}


def test_temporary_files_vanish(tmp_path):
    columns = table(3000)
    options = {"loss": "loss", "folder": tmp_path}

    def left():
        return list(tmp_path.rglob("*"))

    with small_stream(columns, **options) as stream:
        assert left()
        next(iter(stream))
    assert not left()
    stream = small_stream(columns, **options)
    assert left()
    del stream
    gc.collect()
    assert not left()
    with pytest.raises(InvalidLog, match="missing value"):
        small_stream(columns | {"loss": [None, *columns["loss"][1:]]}, **options)
    assert not left()


def test_temporary_files_vanish_if_the_reader_fails(tmp_path):
    with (
        pytest.raises(ZeroDivisionError),
        small_stream(table(3000), loss="loss", folder=tmp_path) as stream,
    ):
        divmod(len(next(iter(stream))), 0)
    assert not list(tmp_path.rglob("*"))


def test_a_closed_stream_says_so(refused):
    stream = small_stream(table(10), loss="loss")
    stream.close()
    stream.close()
    with refused(InvalidInput, "closed"):
        list(stream)


def test_streams_that_are_refused(tmp_path, refused):
    columns = table(10)
    with refused(InvalidInput, "partition of ChunkSizes must be at least 1", "0"):
        small_stream(columns, 0, loss="loss")
    with refused(InvalidInput, "no option colour"):
        small_stream(columns, loss="loss", colour="red")
    with refused(InvalidLog, "no column 'Loss'"):
        small_stream(columns, loss="Loss")
    with refused(InvalidLog, "has columns, but no rows"):
        small_stream(table(0), loss="loss")
    with refused(InvalidLog, "all rows of the mapping are bad"):
        small_stream(columns, loss="loss", arm_names=["q"], bad_rows="drop")
    with refused(MissingFile, "there is no folder", "nowhere"):
        small_stream(columns, loss="loss", folder=tmp_path / "nowhere")


@pytest.mark.long
# Not from getrusage, where a process starts with the peak of the one that started it.
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the peak from Linux")
def test_memory_does_not_grow_with_the_file(tmp_path):
    random = np.random.default_rng(0)
    for events in (SMALL, LARGE):
        columns = {
            "instance": np.arange(events) // 1000,
            "arm": random.integers(0, 20, events),
            "time": random.integers(0, 10**8, events),
            "loss": random.integers(0, 10, events),
        }
        pa.csv.write_csv(pa.table(columns), tmp_path / f"{events}.csv")
    memory = {}
    for events in (SMALL, SMALL, LARGE):  # the first may compile, which takes 60 MB
        told = json.loads(run_python(MEASURED, tmp_path / f"{events}.csv", **RETURNED))
        counted, memory[events] = told
        assert counted == events
    assert memory[LARGE] - memory[SMALL] < ALLOWED, memory
