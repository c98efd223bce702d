"""Controls of logs: read, checked, sorted and cut with the events that they stand beside."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from influential_bandits.errors import InvalidInput, InvalidLog
from influential_bandits.logs.controls import (
    Control,
    concatenate_controls,
)
from influential_bandits.logs.log import EventLog, concatenate_logs
from influential_bandits.logs.options import ChunkSizes, parse_control_options
from influential_bandits.logs.partitions import open_partitions, stream_log
from influential_bandits.logs.reading import read_log

READ = {"instance": "user", "arm": "genre", "loss": "loss", "time": "time", "item": None}
WITH = READ | {"item": "film", "controls": ("device", "place")}


def make_events(n=200, seed=0):
    """Columns whose loss is the number of the row, so that every event can be told."""
    rng = np.random.default_rng(seed)
    return {
        "user": rng.integers(0, 12, n).tolist(),
        "genre": rng.choice(["news", "sport", "arts"], n).tolist(),
        "film": [f"film {code}" for code in rng.integers(0, 30, n)],
        "device": rng.choice(["tv", "phone", "pc"], n).tolist(),
        "place": rng.integers(1, 9, n).tolist(),
        "time": rng.integers(0, 50, n).astype(float).tolist(),
        "loss": np.arange(n, dtype=float).tolist(),
    }


def write_csv(path, columns):
    lines = [",".join(columns)]
    lines += [",".join(map(str, row)) for row in zip(*columns.values(), strict=True)]
    path.write_text("\n".join(lines) + "\n")
    return path


def assert_controls_belong_to_events(log, columns):
    rows = log.loss.astype(int)
    for name, column in (("item", "film"), ("device", "device"), ("place", "place")):
        expected = np.array(columns[column], object)[rows].tolist()
        assert log.controls[name].labels().tolist() == expected


@pytest.fixture
def columns():
    return make_events()


def test_controls_follow_their_events_from_every_source(tmp_path, columns):
    csv = write_csv(tmp_path / "log.csv", columns)
    for source in (columns, csv):
        log = read_log(source, **WITH)
        assert_controls_belong_to_events(log, columns)
        assert list(log.controls) == ["item", "device", "place"]
        assert log.controls["device"].names == ("pc", "phone", "tv")
        assert log.controls["place"].names is None
        assert log.controls["place"].values.dtype == np.float64
        assert log.about["controls"] == {
            "item": "categories",
            "device": "categories",
            "place": "numbers",
        }
        assert log.item_control is log.controls["item"]
        for part in (log.take([3, 0]), log.without_last(events=2), log.at_least(5)):
            assert_controls_belong_to_events(part, columns)
        for part in (*log.parts(30), concatenate_logs(list(log.parts(30)))):
            assert_controls_belong_to_events(part, columns)
        assert_controls_belong_to_events(pickle.loads(pickle.dumps(log)), columns)


def test_a_log_without_controls_has_none(columns):
    log = read_log(columns, **READ)
    assert log.controls == {}
    assert log.item_control is None
    assert "controls" not in log.about
    with_controls = read_log(columns, **WITH)
    for name in ("instances", "arm_names"):
        assert getattr(log, name) == getattr(with_controls, name)
    for name in ("offsets", "item", "loss", "time"):
        assert np.array_equal(getattr(log, name), getattr(with_controls, name))


def test_items_of_a_membership_serve_as_item_control():
    films = {"Alien": ["Horror"], "Airplane!": ["Comedy"], "Ghost": ["Comedy", "Drama"]}
    events = {"instance": [1, 1], "arm": ["Ghost", "Alien"], "loss": [0.0, 1.0]}
    log = read_log(events, time=None, loss="loss", items=films)
    assert log.item_control.labels().tolist() == ["Ghost", "Alien"]


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_frames_bring_controls_back(library, columns):
    columns["device"] = [
        str(number % 4) for number in range(200)
    ]  # text, though it looks like 0 … 3
    log = read_log(columns, **WITH)
    again = read_log(log.to_frame(library), **log.about["reading"])
    assert list(again.controls) == list(log.controls)
    for name, control in log.controls.items():
        assert again.controls[name].names == control.names
        assert np.array_equal(again.controls[name].values, control.values)


def test_streams_have_controls(tmp_path, columns):
    csv = write_csv(tmp_path / "log.csv", columns)
    whole = read_log(csv, **WITH)
    options = WITH | {"sizes": ChunkSizes(text=1000, partition=40)}
    for more in ({}, {"arm_names": ["arts", "news", "sport"]}):
        with stream_log(csv, **options, **more) as stream:
            parts = list(stream)
        assert len(parts) > 2
        for part in parts:
            assert_controls_belong_to_events(part, columns)
            assert part.controls["item"].names == whole.controls["item"].names
        assert stream.about["controls"]["place"] == "numbers"


@pytest.mark.parametrize("spread", [False, True])
def test_partitions_have_controls(tmp_path, columns, spread):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(columns)
    users = frame["user"] % 3 if not spread else np.arange(len(frame)) % 3
    (tmp_path / "log").mkdir()
    for number in range(3):
        frame[users == number].to_parquet(tmp_path / "log" / f"{number}.parquet")
    sizes = ChunkSizes(group=1)
    whole = read_log(columns, **WITH)
    with open_partitions(tmp_path / "log", execution=1, sizes=sizes, **WITH) as log:
        parts = list(log)
        for part in (*parts, concatenate_logs(parts)):
            assert_controls_belong_to_events(part, columns)
            assert part.controls["item"].names == whole.controls["item"].names
        assert log.about["controls"]["device"] == "categories"


def test_a_partition_whose_categories_changed_is_refused(tmp_path, columns):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(columns)
    frame.to_parquet(tmp_path / "log.parquet")
    with open_partitions(tmp_path / "log.parquet", execution=1, **WITH) as log:
        frame.assign(device="fridge").to_parquet(tmp_path / "log.parquet")
        with pytest.raises(InvalidLog, match="changed since"):
            log.partitions[0].load()


@pytest.mark.parametrize(
    ("column", "value", "reason"),
    [
        ("film", "", "missing value"),
        ("device", "", "missing value"),
        ("place", "", "missing value"),
        ("place", "high", "not a number"),
        ("place", "inf", "not finite"),
        ("place", "1e200", "too large for a control"),
    ],
)
def test_bad_controls_are_bad_rows_with_line_and_reason(tmp_path, columns, column, value, reason):
    columns[column][7] = value
    csv = write_csv(tmp_path / "log.csv", columns)
    with pytest.raises(InvalidLog, match=rf"1 × {reason} \(line 9: {column} "):
        read_log(csv, **WITH)
    log = read_log(csv, bad_rows="drop", **WITH)
    assert log.about["dropped"] == {reason: 1}
    assert len(log) == 199
    assert_controls_belong_to_events(log, columns)


def test_categories_and_arms_of_bad_rows_are_none(columns):
    columns["device"][3], columns["genre"][3], columns["loss"][3] = "fridge", "opera", None
    log = read_log(columns, bad_rows="drop", **WITH)
    assert "fridge" not in log.controls["device"].names
    assert "opera" not in log.arm_names


def test_the_kind_of_a_control_can_be_said(tmp_path, columns):
    csv = write_csv(tmp_path / "log.csv", columns)
    for source in (csv, columns):
        log = read_log(source, **READ, controls={"place": "categories"})
        assert log.controls["place"].names == tuple("12345678")
    with pytest.raises(InvalidLog, match="200 × not a number"):
        read_log(csv, **READ, controls={"device": "numbers"})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"controls": "device"}, "must be a list of columns"),
        ({"controls": [3]}, "must be names of columns, got 3"),
        ({"item": 3}, "item must be the name of a column, got 3"),
        ({"controls": ["device", "device"]}, None),
        ({"controls": {"device": "texts"}}, "must be 'numbers' or 'categories', got 'texts'"),
        ({"item": "film", "controls": ["item"]}, "two controls have the name 'item'"),
    ],
)
def test_wrong_options_of_controls_are_refused(columns, options, message):
    if message is None:  # naming a column twice asks for it once
        assert list(read_log(columns, **READ | options).controls) == ["device"]
        return
    with pytest.raises(InvalidInput, match=message):
        read_log(columns, **READ | options)


def test_a_missing_control_column_is_named(columns):
    with pytest.raises(InvalidLog, match=r"has no column 'devise'.*did you mean 'device'"):
        read_log(columns, **READ, controls=["devise"])


def test_controls_on_the_command_line():
    assert parse_control_options([]) == {}
    assert parse_control_options(["a:b", "hour:categories", "x:numbers"]) == {
        "a:b": None,
        "hour": "categories",
        "x": "numbers",
    }


def test_controls_of_a_log_made_of_arrays():
    controls = {"device": ["tv", "pc", "tv"], "place": [1, 2, 3], "made": Control([1, 0, 1], "ab")}
    log = EventLog(["a", "b", "a"], ["x", "x", "y"], [0, 1, 2], [2, 0, 1], controls=controls)
    assert log.loss.tolist() == [2, 0, 1]
    assert log.controls["device"].labels().tolist() == ["tv", "tv", "pc"]
    assert log.controls["place"].values.tolist() == [3, 1, 2]
    assert log.controls["made"].labels().tolist() == ["b", "b", "a"]
    with pytest.raises(InvalidLog, match="control 'place' must have one entry for each of the 3"):
        EventLog(["a", "b", "a"], ["x", "x", "y"], [0, 1, 2], controls={"place": [1, 2]})
    with pytest.raises(InvalidLog, match="control 'place' must be finite"):
        EventLog(["a"], ["x"], [0], controls={"place": [np.nan]})


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(-2, 2), st.sampled_from("xyz")), min_size=1
    ),
    st.booleans(),
)
def test_controls_are_sorted_as_losses_are(rows, timed):
    who, time, label = zip(*rows, strict=True)
    number = np.arange(len(rows))
    controls = {"label": label, "number": number}
    log = EventLog(who, ["arm"] * len(rows), number, time if timed else None, controls=controls)
    assert log.controls["number"].values.tolist() == log.loss.tolist()
    assert log.controls["label"].labels().tolist() == [label[int(row)] for row in log.loss]


@pytest.mark.parametrize(
    ("values", "names", "mention"),
    [
        ([[1.0]], None, "one column of numbers"),
        (["a"], None, "one column of numbers"),
        ([1.0, np.nan], None, "finite"),
        ([-np.inf], None, "finite"),
        ([0.0], ["a"], "codes of its names"),
        ([0, 2], ["a", "b"], "0 … 1"),
        ([-1], ["a", "b"], "0 … 1"),
    ],
)
def test_a_control_that_is_no_column_is_refused(refused, values, names, mention):
    with refused(InvalidLog, mention):
        Control(values, names)


def test_controls_of_other_categories_are_not_put_together(refused):
    with refused(InvalidInput, "same categories"):
        concatenate_controls([Control([0], ["a"]), Control([0], ["b"])])
