"""CSV files and tables that are broken, hostile or odd: an error in words, or every row read."""

import gzip
import os
import re
import sys
import time as clock

import forked
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from influential_bandits.errors import InfluentialBanditsError, InvalidInput, InvalidLog
from influential_bandits.logs.log import EventLog
from influential_bandits.logs.membership import Membership
from influential_bandits.logs.options import ChunkSizes
from influential_bandits.logs.partitions import open_partitions, stream_log
from influential_bandits.logs.reading import read_log

HEADER = "instance,arm,time,loss\n"
NAMES = ["instance", "arm", "time", "loss"]


# --- mutations: whatever becomes of a file, each of its rows is taken, dropped or refused -------

PLAIN = HEADER + "".join(f"u{n % 3},a{n % 2},{n},{n / 4}\n" for n in range(12))
QUOTED = '"instance",arm,time,loss,note\r\n' + "".join(
    f'"é{n % 3}","a,{n % 2}",2024-01-0{1 + n},{n},"two\nlines, and ""quotes"""\r\n'
    for n in range(9)
)
PIECES = [b"\r", b"\n", b"\r\n", b'"', b",", b";", b"\0", b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf"]
PIECES += [b"\x1a", b" ", b"1e999", b"-", b"9" * 400, b"nan", b"\n\n\n", b'""', b"x" * 5000, b",,,"]


def mutated(random, text):
    data = bytearray(text.encode())
    for _ in range(random.integers(1, 4)):
        low, high = np.sort(random.integers(0, len(data) + 1, 2))
        match random.integers(6):
            case 0 if data:
                data[low % len(data)] = random.integers(256)
            case 1:
                data[low:low] = PIECES[random.integers(len(PIECES))]
            case 2:
                del data[low : min(high, low + 20)]
            case 3:
                data[low:low] = data[low : min(high, low + 60)]
            case 4:
                del data[high:]
            case 5:
                data = bytearray(bytes(data).replace(b"\n", PIECES[random.integers(3)]))
    return bytes(data)


def rows_of(data):
    """Return the rows of a CSV file as lists of fields: slowly, one character after another."""
    text = data.decode("utf-8-sig", "replace").replace("\r\n", "\n").replace("\r", "\n")
    rows, fields, field, mode = [], [], "", "start"
    for character in text:
        if mode == "quoted":
            mode, field = ("quote", field) if character == '"' else (mode, field + character)
        elif character == '"' and mode in ("start", "quote"):
            mode, field = "quoted", field + '"' * (mode == "quote")
        elif character in ",\n":
            fields, field, mode = [*fields, field], "", "start"
            if character == "\n":
                rows, fields = [*rows, fields], []
        else:
            field, mode = field + character, "inside"
    if fields or field or mode != "start":
        rows.append([*fields, field])
    return rows


def number_of_rows(data):
    """Return how many rows have to be accounted for: all but the header, and blanks at the end."""
    header, *rows = rows_of(data)
    wanted = [header.index(name) for name in NAMES]

    def is_blank(row):
        return row == [""] or (len(row) == len(header) and not any(row[n] for n in wanted))

    filled = [n for n, row in enumerate(rows) if len(row) == len(header) and not is_blank(row)]
    last = filled[-1] if filled else -1
    return sum(n <= last or not is_blank(row) for n, row in enumerate(rows))


def outcome_of(path, **options):
    """Return the log, or None where it was refused in words that can be printed."""
    try:
        return read_log(path, **dict(zip(NAMES, NAMES, strict=True)), **options)
    except InfluentialBanditsError as error:
        words = str(error)
    assert 10 < len(words.encode()) < 1500
    return None


SIZES = ChunkSizes(text=1 << 14)  # so that some lines are too long


def check_mutation(data, write):
    packed = len(data) % 2
    path = write(gzip.compress(data) if packed else data)
    log = outcome_of(path, bad_rows="drop", sizes=SIZES)
    if log is None:
        assert outcome_of(path, sizes=SIZES) is None
        return 0
    dropped = sum(log.about["dropped"].values())
    assert len(log) + dropped == number_of_rows(data)
    assert np.isfinite(log.loss).all()
    if not dropped:
        assert len(outcome_of(path, sizes=SIZES)) == len(log)
        return 1
    with pytest.raises(InvalidLog, match=rf"has {dropped} bad row") as raised:
        read_log(path, loss="loss", sizes=SIZES)
    lines = [int(line) for line in re.findall(r"lines? (\d+)", str(raised.value))]
    assert all(1 < line <= data.count(b"\n") + data.count(b"\r") + 1 for line in lines)
    return 1


@pytest.mark.parametrize("text", [PLAIN, QUOTED], ids=["plain", "quoted"])
def test_every_row_of_a_mutated_file_is_accounted_for(text, write):
    random = np.random.default_rng(len(text))
    read = sum(check_mutation(mutated(random, text), write) for _ in range(200))
    assert read > 80, "most mutations leave a file that can be read"


# --- headers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("separator", [",", "|"])
@pytest.mark.parametrize(
    "name", ["x" * 140_000, '"' + "x,;" * 50_000 + '"'], ids=["plain", "quoted"]
)
def test_names_of_columns_may_be_long(name, separator, write):
    columns = separator.join(["instance", "arm", "time", "loss", name])
    path = write(f"{columns}\n{separator.join(['ann', 'a', '1', '2', '3'])}\n")
    assert len(read_log(path, loss="loss")) == 1


def test_there_may_be_many_columns(write):
    more = [f"column {n}" for n in range(20_000)]  # 250 KB
    path = write(",".join([*more, *NAMES]) + "\n" + "0," * len(more) + "ann,a,1,2\n")
    assert read_log(path, loss="loss").loss.tolist() == [2.0]


@pytest.mark.parametrize("packed", [False, True])
def test_a_first_line_without_end_is_refused_at_once(packed, write):
    data = b"instance,arm,time,loss," + b"x" * 50_000_000
    path = write(gzip.compress(data, 1) if packed else data)
    start = clock.monotonic()
    with pytest.raises(InvalidLog, match="no end within 1 MB; it must name the columns"):
        read_log(path, loss="loss")
    assert clock.monotonic() - start < 5.0


def test_a_line_without_end_is_refused(write):
    path = write(gzip.compress(HEADER.encode() + b"u" * 20_000_000, 1))
    with pytest.raises(InvalidLog, match="a line of more than 1 MB"):
        read_log(path, loss="loss")


@pytest.mark.parametrize(
    "name", ["a\fb", "a\u2028b", "a\x1cb", '"a\rb"', '"a\nb"', '"a""b"', '"a"b', 'a"b', " "]
)
def test_odd_characters_in_names_of_columns_are_no_line_ends(name, write):
    path = write(f"instance,{name},arm,time,loss\nann,x,a,1,2\nbob,y,a,1,bad\n")
    assert read_log(path, loss="loss", bad_rows="drop").instances == ("ann",)
    with pytest.raises(
        InvalidLog, match=rf"line {3 + (name.count(chr(10)) + name.count(chr(13)))}:"
    ):
        read_log(path, loss="loss")


def test_bytes_of_zero_in_the_header_lose_no_row(write):
    with pytest.raises(InvalidLog, match=r"first line of log.csv holds bytes of zero"):
        read_log(write("instance,arm,time,loss,n\0te\nann,a,1,1,x\nbob,a,2,2,x\n"), loss="loss")


# --- ends of lines -----------------------------------------------------------------------------


def test_a_lone_carriage_return_ends_a_line(write):
    path = write(HEADER + "ann,a,1,1\nbo\rb,a,2,2\ncleo,a,3,3\ndan,a,4,bad\n")
    log = read_log(path, loss="loss", bad_rows="drop")
    assert log.instances == ("ann", "b", "cleo")
    assert log.about["dropped"] == {"not a number": 1, "wrong number of fields": 1}
    with pytest.raises(InvalidLog, match=r"line 6: loss 'bad'.*line 3: text 'bo'"):
        read_log(path, loss="loss")


def test_millions_of_blank_lines_take_no_memory_of_their_own(write):
    data = (HEADER + "ann,a,1,1\n").encode() + b"\n" * 6_000_000
    at_the_end = write(gzip.compress(data, 1), "end.csv.gz")
    inside = write(gzip.compress(data + b"bob,a,1,2\n", 1), "inside.csv.gz")
    assert read_log(at_the_end, loss="loss").about["dropped"] == {}
    log = read_log(inside, loss="loss", bad_rows="drop")
    assert log.about["dropped"] == {"blank line": 6_000_000}
    assert log.instances == ("ann", "bob")
    with pytest.raises(InvalidLog, match=r"6000000 × blank line \(lines 3, 4, 5, …\)"):
        read_log(inside, loss="loss")


def test_many_rows_of_the_wrong_length_take_linear_time(write):
    path = write(HEADER + "a\nann,a,1,\n" * 20_000 + "ann,a,1,1\n")
    start = clock.monotonic()
    log = read_log(path, loss="loss", bad_rows="drop", sizes=ChunkSizes(text=4096))
    assert clock.monotonic() - start < 10.0
    assert log.about["dropped"] == {"missing value": 20_000, "wrong number of fields": 20_000}


# --- files that are none -----------------------------------------------------------------------

READING = """
import sys
from influential_bandits import read_log
from influential_bandits.errors import InfluentialBanditsError
try:
    print(read_log(sys.argv[1], loss="loss", time=None))
except InfluentialBanditsError as error:
    print(error)
"""


def test_pipes_and_devices_are_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    for path in (tmp_path / "pipe.csv", "/dev/null", "/dev/zero"):
        for read in (read_log, stream_log, open_partitions):
            with pytest.raises(InvalidInput, match=r"pipe or a device.*write it to a file first"):
                read(path, loss="loss")


def test_addresses_are_for_partitions():
    for read in (read_log, stream_log):
        with pytest.raises(InvalidInput, match=r"memory://log is an address: open_partitions"):
            read("memory://log", loss="loss")


def test_standard_input_is_read_if_it_is_a_file(write):
    path = write("instance,arm,loss\nann,a,1\n")
    command = [sys.executable, "-c", READING, "/dev/stdin"]
    with path.open() as file:
        done = forked.run(command, stdin=file, capture_output=True, text=True, check=True)
    assert done.stdout == "EventLog(1 events, 1 instances, 1 arms)\n"
    done = forked.run(command, input=path.read_text(), capture_output=True, text=True, check=True)
    assert "/dev/stdin is a pipe or a device" in done.stdout


def test_paths_that_lead_nowhere(tmp_path, write):
    (tmp_path / "gone.csv").symlink_to(tmp_path / "nowhere.csv")
    (tmp_path / "round.csv").symlink_to(tmp_path / "round.csv")
    for path, words in (
        (tmp_path / "gone.csv", "a link that leads nowhere"),
        (tmp_path / "round.csv", "symbolic links"),
        ("x" * 5000, "too long"),
        ("a\0b", "null"),
        (os.fsdecode(b"\xff.csv"), "there is no file"),
        (write("x") / "log.csv", "Not a directory"),
    ):
        for read in (read_log, open_partitions):
            with pytest.raises(InvalidInput, match=words) as raised:
                read(path, loss="loss")
            assert str(raised.value).encode()


def test_names_of_files_that_are_no_text_are_shown_escaped(tmp_path):
    path = tmp_path / os.fsdecode(b"log-\xff.csv")
    path.write_text(f"{HEADER}ann,a,1,1\nbob,a,1,bad\n")
    log = read_log(path, loss="loss", bad_rows="drop")
    assert log.about["source"] == r"log-\udcff.csv"
    with pytest.raises(InvalidLog, match=r"log-\\udcff.csv has 1 bad row"):
        read_log(path, loss="loss")


# --- times, numbers and texts at the edge --------------------------------------------------------

INSIDE = 2**53
UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def at(times):
    return pa.table({"instance": ["u"] * len(times), "arm": ["a"] * len(times), "time": times})


@pytest.fixture(params=["table", "parquet", "partitions"])
def reading(request, tmp_path):
    """Read a table as it is, from a Parquet file, and in partitions."""

    def reading(table, **options):
        options = {"loss": "loss"} | options
        if "loss" not in table.column_names:
            table = table.append_column("loss", pa.array([0.0] * len(table)))
        if request.param == "table":
            return read_log(table, **options)
        pq.write_table(table, tmp_path / "log.parquet")
        if request.param == "parquet":
            return read_log(tmp_path / "log.parquet", **options)
        (log,) = open_partitions(tmp_path / "log.parquet", **options)
        return log

    return reading


@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
@pytest.mark.parametrize("unit", UNITS)
def test_timestamps_never_wrap(unit, zone, reading):
    whole = [-(2**62), -(2**55), -1, 0, 1_700_000_000 * UNITS[unit], 2**55, 2**62, 2**63 - 1]
    table = at(pa.array(whole, pa.timestamp(unit, zone)))
    stored = {"s": "ms"}.get(unit, unit)  # Parquet has no seconds
    expected = [value / UNITS[unit] for value in whole if abs(value) <= INSIDE * UNITS[unit]]
    try:
        log = reading(table, bad_rows="drop")
    except pa.ArrowInvalid:
        assert unit != stored, "only Parquet itself refuses to store what it cannot"
        return
    assert np.array(log.time) == pytest.approx(sorted(expected), rel=1e-15, abs=1e-6)
    dropped = {"time beyond 2^53 seconds": len(whole) - len(expected)}
    assert log.about["dropped"] == {why: n for why, n in dropped.items() if n}


def test_dates_never_wrap(reading):
    days = pa.array([-(2**31), 0, 19_800, 2**31 - 1], pa.int32()).cast(pa.date32())
    assert reading(at(days)).time.tolist() == [
        -(2**31) * 86400,
        0,
        19_800 * 86400,
        (2**31 - 1) * 86400,
    ]


def test_dates_in_milliseconds_never_wrap():
    table = at(pa.array([86_400_000, 2**61], pa.int64()).view(pa.date64()))
    log = read_log(table.append_column("loss", pa.array([0.0, 0.0])), loss="loss")
    assert log.time.tolist() == [86_400.0, 2**61 / 1000]


@pytest.mark.parametrize("kind", [*map(pa.timestamp, ("ms", "us", "ns")), pa.date32()])
def test_missing_timestamps_are_bad_rows(kind, reading):
    log = reading(at(pa.array([None, 5], kind)), bad_rows="drop")
    assert log.about["dropped"] == {"missing value": 1}


def test_times_of_text_and_of_frames_are_the_same_to_the_bit(write):
    texts = ["2024-02-29T12:34:56.789123", "1969-12-31T23:59:59.999999", "2262-04-11"]
    frame = pd.DataFrame({"instance": "u", "arm": "a", "time": texts, "loss": 0})
    expected = read_log(write(frame.to_csv(index=False)), loss="loss").time
    for unit in ("us", "ns"):
        stamps = pd.to_datetime(frame["time"], format="ISO8601").astype(f"datetime64[{unit}]")
        found = read_log(frame.assign(time=stamps), loss="loss").time
        assert found.tolist() == expected.tolist()


def test_numbers_of_seconds_that_no_calendar_has(write, reading):
    for time in (2**60, -(2**60), 1_700_000_000_000_000_000):
        with pytest.raises(InvalidLog, match=r"1 × time beyond 2\^53 seconds"):
            read_log(write(f"{HEADER}u,a,{time},0\n"), time_unit="s")
        with pytest.raises(InvalidLog, match=r"1 × time beyond 2\^53 seconds"):
            reading(at([time]), time_unit="s")


def test_whole_numbers_beyond_all_doubles(write):
    assert outcome_of(write(f"{HEADER}u,a,1,{10**400}\n")) is None
    assert outcome_of(write(f"{HEADER}u,a,{10**400},1\n")) is None
    for name in ("loss", "time"):
        for huge in (10**400, -(10**400)):
            columns = {"instance": ["u"], "item": ["a"], "loss": [1.0], "time": [1.0]} | {
                name: [huge]
            }
            with pytest.raises(InvalidLog, match=f"{name} must be finite, .*beyond all doubles"):
                EventLog(**columns)
    for source in (dict, pd.DataFrame):
        columns = {"instance": ["u"], "arm": ["a"], "time": [1], "loss": [2**70]}
        with pytest.raises(InvalidLog, match=r"beyond 64 bits; .*astype\(float\)"):
            read_log(source(columns), loss="loss")
    assert read_log(columns | {"loss": [float(2**70)]}, loss="loss").loss.tolist() == [2.0**70]


def test_columns_of_a_log_are_real_numbers():
    when = np.array(["2024-01-01"], "datetime64[ns]")
    for name, values in (("time", when), ("time", pd.Series(when)), ("loss", np.array([1j]))):
        columns = {"instance": ["u"], "item": ["a"], "loss": [1.0], "time": [1.0]} | {name: values}
        with pytest.raises(InvalidLog, match=f"(?s){name} must be real numbers.*takes dates"):
            EventLog(**columns)


HALF = "a\udcff"
GOOD = {"instance": ["u"], "arm": ["a"], "time": [1], "loss": [1]}


@pytest.mark.parametrize(
    "read",
    [
        lambda: EventLog(["u"], [HALF], [1.0]),
        lambda: EventLog([HALF], ["a"], [1.0]),
        lambda: Membership({HALF: ["a"]}),
        lambda: Membership({"film": [HALF]}),
        lambda: Membership({HALF: ["a", "b"]}, choose="random"),
        lambda: Membership({"film": ["a"]}, arm_names=["a", HALF]),
        lambda: read_log(GOOD | {"arm": [HALF]}, loss="loss"),
        lambda: read_log(GOOD | {"instance": [HALF]}, loss="loss"),
        lambda: read_log(pd.DataFrame(GOOD | {"arm": [HALF]}, dtype=object), loss="loss"),
        lambda: read_log(GOOD | {HALF: [1]}, loss="loss"),
        lambda: read_log(GOOD, loss="loss", arm_names=["a", HALF]),
        lambda: read_log(GOOD, loss="loss", items={"a": [HALF]}),
        lambda: read_log(GOOD, loss="loss", items={"a": ["a"], HALF: ["a"]}),
        lambda: read_log(GOOD, loss=HALF),
    ],
)
def test_lone_surrogates_never_enter_a_log(read):
    with pytest.raises(InvalidLog) as raised:
        read()
    assert re.search(r"surrogate|UTF-8|no column 'a.udcff'", str(raised.value))
    assert str(raised.value).encode(), "the message can be printed"


@pytest.mark.parametrize("column", ["instance", "arm", "time", "loss"])
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_texts_of_tables_that_are_no_utf_8_are_bad_rows(column, kind, reading):
    good = {"instance": "u", "arm": "a", "time": "1", "loss": "2"}
    raw = pa.array([good[column].encode(), b"\xff\xfe", good[column].encode()], pa.binary())
    if kind == pa.large_string():
        raw = raw.cast(pa.large_binary())
    texts = pa.Array.from_buffers(kind, 3, raw.buffers())
    table = pa.table({name: texts if name == column else [text] * 3 for name, text in good.items()})
    log = reading(table, bad_rows="drop")
    assert log.about["dropped"] == {"invalid UTF-8": 1}
    assert len(log) == 2
    with pytest.raises(InvalidLog, match=rf"1 × invalid UTF-8 \(row 1.*{column}") as raised:
        reading(table)
    assert str(raised.value).encode()


def test_categories_that_are_no_utf_8_are_bad_rows():
    raw = pa.array([b"a", b"\xff"], pa.binary())
    texts = pa.Array.from_buffers(pa.string(), 2, raw.buffers())
    arm = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0]), texts)
    table = pa.table({"instance": ["u"] * 3, "arm": arm, "loss": [1, 2, 3]})
    log = read_log(table, loss="loss", time=None, bad_rows="drop")
    assert log.about["dropped"] == {"invalid UTF-8": 1}
    assert log.loss.tolist() == [1.0, 3.0]
