"""Which column is the time: found, asked for, or said to be missing."""

import datetime as dt

import pytest

from influential_bandits.errors import InvalidLog
from influential_bandits.logs.find_columns import find_time_columns
from influential_bandits.logs.options import ReadingOptions
from influential_bandits.logs.partitions import open_partitions
from influential_bandits.logs.reading import read_log
from influential_bandits.logs.sources import open_source

BASE = {"user": ["ann", "ann"], "arm": ["a", "b"], "click": [1, 0]}


@pytest.fixture
def write(tmp_path):
    def write_columns(columns):
        rows = [list(columns), *zip(*columns.values(), strict=True)]
        lines = [",".join(map(str, row)) for row in rows]
        path = tmp_path / "log.csv"
        path.write_text("\n".join(lines) + "\n")
        return path

    return write_columns


@pytest.mark.parametrize("name", [" tstamp ", "eventTime", "Event Timestamp", "TS", "created-at"])
def test_usual_names_are_found_however_they_are_written(write, name):
    log = read_log(write(BASE | {name: [2, 1]}))
    assert log.time.tolist() == [1.0, 2.0]
    assert log.loss.tolist() == [0.0, -1.0]
    assert f"time = {name.strip()}" in log.about["columns"]


@pytest.mark.parametrize(
    "values",
    [
        ["2024-05-02", "2024-05-01"],
        ["2024-05-02T10:00:00Z", "2024-05-02 09:00:00"],
        [1714550400, 1714550300],
        [1714550400123, 1714550300123],
    ],
)
def test_what_looks_like_a_time_is_asked_for(write, values):
    path = write(BASE | {"shown": values})
    with pytest.raises(
        InvalidLog, match=r"'shown' may be: name it with time= \(--time\), or pass time=None"
    ):
        read_log(path)
    named = read_log(path, time="shown")
    assert "NO TIME" not in named.about["columns"]
    in_file_order = read_log(path, time="none")
    assert in_file_order.time is None
    assert "NO TIME: the order of rows is taken" in in_file_order.about["columns"]


def test_two_columns_of_usual_names_are_asked_for(write):
    path = write(BASE | {"date": [1, 2], "timestamp": [2, 1]})
    with pytest.raises(InvalidLog, match="'date' and 'timestamp' may be"):
        read_log(path)


def test_no_time_at_all_is_said(write):
    path = write(BASE | {"bid": [3, 4], "place": ["x", "y"]})
    with pytest.warns(UserWarning, match="name one with time=, or pass time=None"):
        log = read_log(path)
    assert log.time is None
    assert "NO TIME" in log.about["columns"]


def test_partitions_ask_too(tmp_path):
    pandas = pytest.importorskip("pandas")
    pandas.DataFrame(BASE | {"shown": pandas.to_datetime([2, 1])}).to_parquet(
        tmp_path / "log.parquet"
    )
    with pytest.raises(InvalidLog, match="'shown' may be"):
        open_partitions(tmp_path)
    with open_partitions(tmp_path, time=None) as log:
        assert "NO TIME" in log.about["columns"]


@pytest.mark.parametrize(
    ("name", "values", "found"),
    [
        ("x", [dt.date(2024, 5, 1)] * 2, True),
        ("served ts", [5, 6], True),
        ("x", ["12", "13"], False),
        ("x", [1.0, 2.5], False),
        ("x", ["a", "2024-05-01"], False),
        ("x", [None, None], False),
        ("x", [[1], [2]], False),
        ("update", [1, 2], False),
        ("id", [10**9, 10], False),
    ],
)
def test_what_looks_like_a_time(name, values, found):
    source = open_source(BASE | {name: values}, ReadingOptions())
    assert find_time_columns(source, BASE) == ([name] if found else [])


def test_a_frame_without_named_outcome_does_not_lose_its_time():
    events = {"instance": [1, 1], "arm": ["a", "b"], "loss": [0, 1], "timestamp": [2, 1]}
    assert read_log(events).loss.tolist() == [1, 0]
    with pytest.raises(InvalidLog, match="'shown' may be"):
        read_log({**BASE, "shown": ["2024-05-02", "2024-05-01"]})
    assert read_log(events, time=None).loss.tolist() == [0, 1]


def test_items_finer_than_arms_are_found_for_commands(write):
    path = write({"userId": [1], "movieId": [7], "genre": ["a"], "ts": [1], "click": [0]})
    log = read_log(path)
    assert log.item_control.names == ("7",)
    assert "item = movieId" in log.about["columns"]
    assert read_log(path, item=None).item_control is None
    path = write(
        {"user": [1, 1], "item": ["x", "y"], "ad": ["a", "a"], "ts": [1, 2], "click": [0, 1]}
    )
    log = read_log(path)
    assert log.arm_names == ("a",)
    assert log.item_control.names == ("x", "y")
