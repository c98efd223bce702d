"""Times in any unit and way of writing are the same dates, by every route; others are refused."""

import datetime as dt

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from influential_bandits.cli import app
from influential_bandits.errors import InvalidInput, InvalidLog
from influential_bandits.logs.log import EventLog
from influential_bandits.logs.options import ChunkSizes
from influential_bandits.logs.partitions import open_partitions, stream_log
from influential_bandits.logs.reading import read_log

SECONDS = [1_714_588_200.0, 1_714_588_260.5, 1_714_674_600.25]  # from 2024-05-01 18:30
UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
BASE = {"user": ["ann"] * 3, "ad": ["x", "y", "x"], "clicked": [1, 0, 1]}
SPAN = "2024-05-01 18:30:00 to 2024-05-02 18:30:00 (UTC)"


def counts(unit):
    """The times as numbers: whole ones, but for seconds."""
    if unit == "s":
        return SECONDS
    return [int(second * 4) * UNITS[unit] // 4 for second in SECONDS]


def as_csv(columns, home):
    pd.DataFrame(columns).to_csv(home / "log.csv", index=False)
    return home / "log.csv"


def as_parquet(columns, home):
    pq.write_table(pa.table(columns), home / "log.parquet")
    return home / "log.parquet"


ROUTES = {
    "mapping": lambda columns, _: columns,
    "numpy": lambda columns, _: {name: np.array(values) for name, values in columns.items()},
    "pandas": lambda columns, _: pd.DataFrame(columns),
    "polars": lambda columns, _: pl.DataFrame(columns),
    "floats": lambda columns, _: pd.DataFrame(columns).astype({"ts": float}),
    "CSV": as_csv,
    "Parquet": as_parquet,
}


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("route", ROUTES)
def test_units_are_known_by_the_range_of_numbers(route, unit, tmp_path):
    source = ROUTES[route](BASE | {"ts": counts(unit)}, tmp_path)
    log = read_log(source)
    assert log.time.tolist() == SECONDS
    assert log.dated
    assert log.about["times"] == f"{SPAN}, from numbers of {unit}"
    with stream_log(source) as stream:
        assert [part.time.tolist() for part in stream] == [SECONDS]
        assert stream.about["times"] == log.about["times"]
    if route == "Parquet":
        for sizes in (ChunkSizes(), ChunkSizes(largest_partition=1, partition=1)):
            with open_partitions(tmp_path, sizes=sizes) as parts:
                assert [part.time.tolist() for part in parts] == [SECONDS]
                assert parts.about["times"] == log.about["times"]


@pytest.mark.parametrize(
    ("values", "more", "span"),
    [
        ([0, 1, 2], {}, "0 to 2, which are no dates: taken for seconds"),
        ([-1.5, 0, 3600], {}, "-1.5 to 3600, which are no dates: taken for seconds"),
        ([0, 1, 2], {"time_unit": "d"}, "0 to 2, which are no dates: taken for d from a start"),
        ([5, 6, 7], {"time_unit": "ms"}, "5 to 7, which are no dates: taken for ms"),
    ],
)
def test_numbers_that_are_no_dates_count_from_a_start_of_their_own(values, more, span):
    log = read_log(BASE | {"ts": values}, **more)
    seconds = {"d": 86_400.0, "ms": 1e-3}.get(more.get("time_unit"), 1.0)
    np.testing.assert_allclose(log.time, np.multiply(values, seconds))
    assert not log.dated
    assert log.about["times"].startswith(span)
    np.testing.assert_allclose(log.to_frame()["ts"], values)
    again = read_log(log.to_frame(), **log.about["reading"])
    np.testing.assert_allclose(again.time, log.time)


@pytest.mark.parametrize(
    ("form", "stamps"),
    [
        (
            "%d/%m/%Y %H:%M:%S",
            ["01/05/2024 18:30:00", "01/05/2024 18:31:00", "02/05/2024 18:30:00"],
        ),
        ("%d.%m.%Y", ["01.05.2024", "01.05.2024", "02.05.2024"]),
        ("%Y%m%d", [20240501, 20240501, 20240502]),
        ("%Y%m%d%H%M%S", [20240501183000, 20240501183100, 20240502183000]),
        ("%d %b %Y %H:%M %z", ["01 May 2024 20:30 +0200"] * 3),
    ],
)
@pytest.mark.parametrize("route", ["mapping", "CSV", "pandas"])
def test_dates_in_another_way_of_writing(form, stamps, route, tmp_path):
    log = read_log(ROUTES[route](BASE | {"ts": stamps}, tmp_path), time_format=form)
    wanted = []
    for stamp in stamps:
        moment = dt.datetime.strptime(str(stamp), form)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
        wanted.append(moment.timestamp())
    assert log.time.tolist() == wanted
    assert log.about["times"].startswith("2024-05-01")


def test_what_fits_nothing_is_refused(refused):
    def read(*times, **more):
        return read_log(BASE | {"ts": list(times)}, **more)

    mixed = [SECONDS[0], SECONDS[1], counts("ms")[2]]
    with refused(
        InvalidLog, "1 × time that is no date in s", "row 2: ts 1714674600250", "time_unit="
    ):
        read(*mixed)
    with refused(InvalidLog, "1 × time that is no date in ms", "row 0: ts 0"):
        read(0, *counts("ms")[1:])
    assert read(0, *counts("ms")[1:], bad_rows="drop").time.tolist() == SECONDS[1:]
    with refused(
        InvalidLog, "column 'ts' fit no unit", "20000000000", "--time-unit", "time_format"
    ):
        read(*[20_000_000_000] * 3)
    with refused(InvalidLog, "column 'ts' fit no unit", "1000000000 follows", "time_unit="):
        read(0, 1, 10**9, bad_rows="drop")  # two thirds cannot be told from one
    with refused(InvalidLog, "look like dates written as numbers", "time_format='%Y%m%d'"):
        read(20240501, 20240502, 20240630)
    with refused(InvalidLog, "3 × unreadable time", "ts '01/05/2024'", "time_format="):
        read(*["01/05/2024"] * 3)
    assert read(*[20_000_000_000] * 3, time_unit="s").time.tolist() == [2e10] * 3


@pytest.mark.parametrize(
    ("options", "mentions"),
    [
        ({"time_unit": "weeks"}, ["time_unit must be one of s, ms, us, ns", "'weeks'"]),
        ({"time_unit": "s", "time_format": "%Y"}, ["not both"]),
        ({"time_format": "YYYY-MM-DD"}, ["strptime", "'%d/%m/%Y %H:%M'", "'YYYY-MM-DD'"]),
        ({"time_format": "%Q"}, ["strptime", "'%Q'"]),
        ({"time_format": 3}, ["strptime", "3"]),
        ({"time_units": "s"}, ["read_log has no option time_units; did you mean time_unit?"]),
    ],
)
def test_options_of_times_that_are_refused(options, mentions, refused):
    with refused(InvalidInput, *mentions):
        read_log(BASE | {"ts": [1, 2, 3]}, **options)


def test_the_unit_of_later_rows_does_not_depend_on_how_many_are_read_at_a_time(tmp_path):
    many = {name: values * 200 for name, values in BASE.items()}
    path = as_csv(many | {"ts": ["", *counts("us") * 200][:600]}, tmp_path)
    logs = [
        read_log(path, bad_rows="drop", sizes=ChunkSizes(text=size)) for size in (64, 1000, 1 << 20)
    ]
    for log in logs:
        assert sorted(set(log.time.tolist())) == SECONDS
        assert log.about["dropped"] == {"missing value": 1}


def test_dates_of_a_log_that_was_not_read():
    log = EventLog(["a", "a"], ["x", "y"], [0, 1], SECONDS[:2])
    assert log.dated
    assert log.to_frame()["time"].dt.year.tolist() == [2024, 2024]
    assert read_log(log.to_frame()).time.tolist() == SECONDS[:2]
    assert not EventLog(["a"], ["x"], [0], [3.0]).dated
    assert not EventLog(["a"], ["x"], [0]).dated


@pytest.mark.parametrize("more", [(), ("--time-unit", "ms"), ("--time-format", "%d/%m/%Y %H:%M")])
@pytest.mark.parametrize("command", ["diagnose", "fit"])
def test_commands_take_units_and_formats_and_print_the_dates(command, more, tmp_path):
    random = np.random.default_rng(0)
    moments = pd.to_datetime(1_714_588_200 + np.arange(2000) * 600, unit="s")
    frame = pd.DataFrame(
        {
            "user": random.integers(0, 40, 2000),
            "ad": random.choice(["x", "y"], 2000),
            "ts": moments.strftime("%d/%m/%Y %H:%M") if "--time-format" in more
            else moments.astype("int64") // 10**6 if moments.dtype == "datetime64[ns]"
            else moments.astype("datetime64[ms]").astype("int64"),
            "click": random.integers(0, 2, 2000),
        }
    )  # fmt: skip
    frame.to_csv(tmp_path / "log.csv", index=False)
    quick = {"diagnose": ["--permutations", "19"], "fit": ["--memory", "1", "--ridge", "1"]}
    out = tmp_path / ("model.json" if command == "fit" else "out")
    words = [command, str(tmp_path / "log.csv"), *more, *quick[command], "--out", str(out)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert "times: 2024-05-01 18:30:00 to 2024-05-15 15:40:00 (UTC)" in done.output
