"""read_log: every source and every conversion, and each bad row by its reason and place."""

import csv
import gzip
import io

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from influential_bandits.errors import InvalidInput, InvalidLog, MissingFile
from influential_bandits.logs.columns import LabelCodes
from influential_bandits.logs.log import EventLog
from influential_bandits.logs.options import ChunkSizes
from influential_bandits.logs.reading import read_log

HEADER = "instance,arm,time,loss\n"
GOOD = HEADER + "ann,y,2,0.5\nbob,x,1,1\nann,x,1,-2e0\n"
COLUMNS = {
    "instance": ["ann", "bob", "ann"],
    "arm": ["y", "x", "x"],
    "time": [2, 1, 1],
    "loss": [0.5, 1.0, -2.0],
}
LABELS = ("instance", "arm")
AGAIN = "Fix them, or leave them out with bad_rows='drop'"


def rows(log):
    """Events as (instance, item, time, loss), in the order of the log."""
    who = np.repeat(np.array(log.instances, object), log.lengths)
    time = [None] * len(log) if log.time is None else log.time.tolist()
    items = [log.membership.items[item] for item in log.item]
    return list(zip(who, items, time, log.loss.tolist(), strict=True))


EXPECTED = [("ann", "x", 1.0, -2.0), ("ann", "y", 2.0, 0.5), ("bob", "x", 1.0, 1.0)]


# --- sources ---------------------------------------------------------------------------------


def parquet_file(write):
    path = write("")
    pq.write_table(pa.table(COLUMNS), path)
    return path


def parquet_folder(write):
    folder = write("not a table", "notes.txt").parent
    table = pa.table(COLUMNS)
    pq.write_table(table[:2], folder / "part-0.parquet")
    pq.write_table(table[2:], folder / "part-1.parquet")
    return folder


def arrow_file(write):
    path = write("")
    pyarrow.feather.write_feather(pa.table(COLUMNS), path)
    return path


def mapping_of_arrays(write):
    return {"instance": pl.Series(COLUMNS["instance"]), "arm": pa.array(COLUMNS["arm"])} | {
        name: np.array(COLUMNS[name]) for name in ("time", "loss")
    }


TEXTS = {
    "plain": GOOD,
    "gzip": gzip.compress(GOOD.encode()),  # the name does not say so
    "Windows": b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode(),
    "quoted": '"instance","arm","time","loss"\n"ann","y","2","0.5"\n"bob",x,1,1\nann,x,1,-2\n',
    "without a last end": GOOD.rstrip("\n"),
    "blank lines at the end": GOOD + "\n\n\n",
    "semicolons": GOOD.replace(",", ";"),
    "tabs": GOOD.replace(",", "\t"),
    "padded numbers": HEADER + "ann,y, 2,0.5 \nbob,x,1, 1\nann,x,+1,-2\n",
}
SOURCES = {
    **{name: lambda write, text=text: write(text) for name, text in TEXTS.items()},
    "path as text": lambda write: str(write(GOOD)),
    "Parquet file": parquet_file,
    "Parquet folder": parquet_folder,
    "Arrow file": arrow_file,
    "mapping": lambda _: COLUMNS,
    "mapping of arrays": mapping_of_arrays,
    "pandas": lambda _: pd.DataFrame(COLUMNS),
    "categories": lambda _: pd.DataFrame(COLUMNS).astype(dict.fromkeys(LABELS, "category")),
    "polars": lambda _: pl.DataFrame(COLUMNS),
    "Arrow table": lambda _: pa.table(COLUMNS),
    "Arrow batch": lambda _: pa.record_batch(COLUMNS),
}


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_every_source_gives_the_same_log(source, write):
    log = read_log(source(write), loss="loss")
    assert rows(log) == EXPECTED
    assert log.instances == ("ann", "bob")
    assert log.arm_names == ("x", "y")
    assert log.about["dropped"] == {}
    assert log.about["repeated"] == 0
    assert log.about["conversion"] == "loss = loss"


def test_what_is_said_about_a_file(write):
    about = read_log(write(GOOD.replace(",", ";")), loss="loss").about
    roles = {name: name for name in COLUMNS}
    assert about["reading"] == roles | {"time_unit": "s"}
    assert about["columns"] == ", ".join(f"{name} = {name}" for name in roles)
    assert about["times"].startswith("1 to 2, which are no dates: taken for seconds from a start")
    assert (about["source"], about["separator"]) == ("log.csv", ";")
    assert read_log(pd.DataFrame(COLUMNS), loss="loss").about["source"] == "the DataFrame"
    assert "separator" not in read_log(COLUMNS, loss="loss").about


def test_a_folder_in_partitions(tmp_path):
    for day in ("1", "2"):
        (tmp_path / f"time={day}").mkdir()
        table = pa.table({"instance": ["ann"], "arm": ["x"], "loss": [1.0]})
        pq.write_table(table, tmp_path / f"time={day}" / "0.parquet")
    assert read_log(tmp_path, loss="loss").time.tolist() == [1.0, 2.0]


def test_labels_are_the_same_whatever_their_type():
    kinds = [[1, 20], [1.0, 20.0], ["1", "20"], np.array([1, 20], np.uint8)]
    for labels in kinds:
        log = read_log({"who": labels, "what": labels, "loss": [1, 2]}, instance="who", arm="what",
                       time=None, loss="loss")  # fmt: skip
        assert log.instances == log.arm_names == ("1", "20")


def test_rows_in_many_blocks_are_read_as_in_one(write):
    lines = [f"user {n % 7},{'xyz'[n % 3]},{n * 37 % 101},{n}" for n in range(500)]
    lines[50:50] = ["", "too,few"]
    lines[300:300] = ["a,b,1,2,3", "user 1,x,1,bad"]
    path = write(HEADER + "\n".join(lines))
    whole = read_log(path, loss="loss", bad_rows="drop")
    with pytest.raises(InvalidLog) as caught:
        read_log(path, loss="loss")
    assert "(line 52)" in str(caught.value)
    assert "(lines 53, 302: text 'too,few')" in str(caught.value)
    assert "(line 303: loss 'bad')" in str(caught.value)
    for size in (64, 100, 1000):
        sizes = ChunkSizes(text=size)
        blocks = read_log(path, loss="loss", bad_rows="drop", sizes=sizes)
        assert rows(blocks) == rows(whole)
        assert blocks.about == whole.about
        with pytest.raises(InvalidLog) as again:
            read_log(path, loss="loss", sizes=sizes)
        assert str(again.value) == str(caught.value)


# Surrogates and the bytes that end a line or a file of text are no part of labels here.
labels = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\u2028\u2029\x85"),
    min_size=1,
    max_size=6,
) | st.sampled_from(['say "hi"', "a,b", "line\nbreak", '"', "007", " padded "])
finite = st.floats(-1e9, 1e9)
tables = st.lists(st.tuples(labels, labels, finite, finite), min_size=1, max_size=30)


@given(tables, st.sampled_from(",;\t|"), st.sampled_from(["\n", "\r\n"]))
def test_a_csv_file_says_what_was_written(tmp_path_factory, table, separator, end):
    path = tmp_path_factory.mktemp("csv") / "log.csv"
    text = io.StringIO()
    writer = csv.writer(text, delimiter=separator, lineterminator=end)
    writer.writerows([("instance", "arm", "time", "loss"), *table])
    path.write_bytes(text.getvalue().encode())
    who, what, time, loss = zip(*table, strict=True)
    expected = EventLog(who, what, loss, time)
    assert rows(read_log(path, loss="loss", time_unit="s")) == rows(expected)


# --- what columns mean -----------------------------------------------------------------------


def test_conversions():
    stars = {"instance": ["a", "a"], "arm": ["x", "y"], "stars": [5.0, 0.5]}
    rated = read_log(stars, time=None, rating="stars", best=5)
    assert rated.loss.tolist() == [0.0, 4.5]
    assert rated.about["conversion"] == "loss = 5 − stars"
    rewarded = read_log(stars | {"stars": [1, 0]}, time=None, reward="stars")
    assert rewarded.loss.tolist() == [-1.0, 0.0]
    assert not np.signbit(rewarded.loss[1])
    assert rewarded.about["conversion"] == "loss = −stars"


MOMENTS = {
    "dates": (["1970-01-02", "1970-01-01"], [86400.0, 0.0]),
    "times": (["1970-01-01 00:01", "1970-01-01T00:00:02.5"], [60.0, 2.5]),
    "zones": (["1970-01-01T01:00:00+01:00", "1970-01-01T00:00:01Z"], [0.0, 1.0]),
    "mixed zones": (["1970-01-01T01:00:00+01:00", "1970-01-01T00:00:01"], [0.0, 1.0]),
    "numbers as text": (["1e3", "-5"], [1000.0, -5.0]),
}


@pytest.mark.parametrize("kind", MOMENTS)
def test_times_as_text(kind, write):
    given, expected = MOMENTS[kind]
    columns = {"instance": ["a", "b"], "arm": ["x", "x"], "time": given, "loss": [1, 2]}
    assert read_log(columns, loss="loss").time.tolist() == expected
    lines = "".join(f"{who},x,{time},1\n" for who, time in zip("ab", given, strict=True))
    assert read_log(write(HEADER + lines), loss="loss").time.tolist() == expected


def test_timestamps_of_frames():
    moments = pd.to_datetime(["1970-01-02 00:00:00.5", "1970-01-01 00:00:00.0"])
    frame = pd.DataFrame({"instance": [1, 2], "arm": "x", "time": moments, "loss": 0.0})
    assert read_log(frame, loss="loss").time.tolist() == [86400.5, 0.0]
    local = frame.assign(time=moments.tz_localize("Asia/Tokyo"))
    assert read_log(local, loss="loss").time.tolist() == [86400.5 - 32400, -32400.0]
    dated = pl.DataFrame({"instance": [1], "arm": ["x"], "loss": [0.0]}).with_columns(
        time=pl.date(1970, 1, 3)
    )
    assert read_log(dated, loss="loss").time.tolist() == [2 * 86400.0]


def test_without_times_the_order_of_rows_is_kept():
    log = read_log(COLUMNS, time=None, loss="loss")
    assert log.time is None
    assert log.loss.tolist() == [0.5, -2.0, 1.0]


def test_arms_do_not_depend_on_the_order_of_rows(write):
    lines = GOOD.splitlines()
    turned = read_log(write("\n".join([lines[0], *lines[:0:-1]])), loss="loss")
    assert turned.arm_names == ("x", "y")
    fixed = read_log(COLUMNS, loss="loss", arm_names=["z", "y", "x"])
    assert fixed.arm_names == ("z", "y", "x")
    assert [fixed.arm_names[arm] for arm in fixed.arm] == ["x", "y", "x"]


FILMS = {
    "instance": ["a", "a", "b"],
    "arm": ["Comedy|Horror", "Drama", "Horror| Comedy |"],
    "loss": [1, 2, 3],
}


def test_several_categories_in_text():
    log = read_log(FILMS, time=None, loss="loss", categories="|")
    assert log.arm_names == ("Comedy", "Drama", "Horror")
    assert log.membership.weights("Horror| Comedy |") == {"Horror": 0.5, "Comedy": 0.5}
    assert [item for _, item, *_ in rows(log)] == FILMS["arm"]
    chosen = read_log(FILMS, time=None, loss="loss", categories="|", choose="random", seed=5)
    assert chosen.membership.single
    assert chosen.arm_names == log.arm_names


def test_items_of_a_catalogue():
    log = {"instance": ["a", "b"], "arm": [10, 7], "loss": [1, 2]}
    items = {7: ["Comedy"], 8: ["Western"], 10: ["Drama", "Comedy"]}
    read = read_log(log, time=None, loss="loss", items=items)
    assert read.arm_names == ("Comedy", "Drama", "Western")
    assert read.membership.items == ("7", "8", "10")
    assert read.item.tolist() == [2, 0]
    texts = {7: "Comedy", 8: "Western", 10: "Drama|Comedy"}
    again = read_log(log, time=None, loss="loss", items=texts, categories="|")
    assert again.membership.weights("10") == {"Drama": 0.5, "Comedy": 0.5}


def test_repeated_events_are_counted_and_kept():
    repeats = {
        "instance": ["a", "a", "b", "a", "a", "a"],
        "arm": ["x", "y", "x", "x", "x", "x"],
        "time": [1, 1, 1, 1, 2, 1],
        "loss": [1, 1, 1, 1, 1, 2],
    }
    log = read_log(repeats, loss="loss")
    assert len(log) == 6
    assert log.about["repeated"] == 1
    assert read_log(repeats, loss="loss", time=None).about["repeated"] == 0


@given(
    st.lists(
        st.tuples(
            st.sampled_from("ab"), st.sampled_from("xyz"), st.integers(0, 2), st.integers(0, 1)
        ),
        min_size=1,
        max_size=40,
    )
)
def test_repeats_are_what_is_there_twice(table):
    columns = dict(zip(COLUMNS, map(list, zip(*table, strict=True)), strict=True))
    twice = len(table) - len(set(table))
    assert read_log(columns, loss="loss").about["repeated"] == twice


# --- bad rows --------------------------------------------------------------------------------

BAD = {
    "missing value": ("ann,,2,1", "arm ''"),
    "not a number": ("ann,x,2,1O", "loss '1O'"),
    "not finite": ("ann,x,2,inf", "loss inf"),
    "too large for a loss": ("ann,x,2,-1e101", "loss -1e+101"),
    "unreadable time": ("ann,x,1970-02-30,1", "time '1970-02-30'"),
    "unknown arm": ("ann,w,2,1", "arm 'w'"),
    "wrong number of fields": ("ann,x,2", "text 'ann,x,2'"),
    "blank line": ("", ""),
    "invalid UTF-8": (b"a\xffn,x,2,1", "instance 'a\ufffdn'"),
}


@pytest.mark.parametrize("reason", BAD)
def test_every_kind_of_bad_row_is_named_with_its_lines(reason, write, refused):
    line, example = BAD[reason]
    line = line if isinstance(line, bytes) else line.encode()
    good = GOOD.encode()
    if reason == "unreadable time":
        good = GOOD.replace(",2,", ",1970-01-02,").replace(",1,", ",1970-01-01,").encode()
    path = write(good + line + b"\n" + good.splitlines()[1].replace(b"ann", b"zoe") + b"\n")
    options = {"loss": "loss", "arm_names": ["x", "y"]}
    with refused(InvalidLog, "log.csv has 1 bad row: ", f"1 × {reason} (line 5", example, AGAIN):
        read_log(path, **options)
    log = read_log(path, **options, bad_rows="drop")
    assert log.about["dropped"] == {reason: 1}
    assert log.instances == ("ann", "bob", "zoe")
    assert len(log) == 4


def test_the_first_lines_of_each_reason_are_named(write, refused):
    path = write(HEADER + "a,x,1,bad\n,x,1,1\n" + "a,x,1,worse\n" * 5 + "a,x,nan,1\na,x,1,1\n")
    with refused(
        InvalidLog,
        "8 bad rows",
        "6 × not a number (lines 2, 4, 5, …: loss 'bad')",
        "1 × missing value (line 3: instance '')",
        "1 × not finite (line 9: time nan)",
    ):
        read_log(path, loss="loss")


def test_rows_of_tables_count_from_zero(refused, tmp_path):
    columns = COLUMNS | {"loss": [0.5, None, -2.0]}
    pq.write_table(pa.table(columns), tmp_path / "log.parquet")
    for source in (columns, pd.DataFrame(columns), pl.DataFrame(columns), tmp_path / "log.parquet"):
        with refused(InvalidLog, "1 × missing value (row 1: loss", "counted from 0", AGAIN):
            read_log(source, loss="loss")
        log = read_log(source, loss="loss", bad_rows="drop")
        assert log.about["dropped"] == {"missing value": 1}
        assert log.instances == ("ann",)


def test_lines_are_counted_through_quoted_line_ends(write, refused):
    path = write(HEADER + '"a\n""b""\nc",x,1,1\n5"disk,x,1,1\nann,x,1,bad\n"b\nc",x,1\nd,x,1,nan\n')
    with refused(InvalidLog, "line 6: loss 'bad'", "line 7: text", "line 9: loss nan"):
        read_log(path, loss="loss")
    log = read_log(path, loss="loss", bad_rows="drop")
    assert log.instances == ('a\n"b"\nc', '5"disk')


def test_rows_that_are_wrong_in_two_ways(write, refused):
    path = write(GOOD.encode() + b"z\xffe,x,1\n\xe2\x82,x,1,bad\n")
    with refused(InvalidLog, "1 × wrong number of fields (line 5", "1 × invalid UTF-8 (line 6"):
        read_log(path, loss="loss")
    assert rows(read_log(path, loss="loss", bad_rows="drop")) == EXPECTED


def test_characters_across_blocks(write):
    names = ["é" * n + "€" * (n % 5) + "😀" for n in range(1, 9)]
    lines = "".join(f"{name},x,1,1\n" for name in names)
    path = write((HEADER + lines).encode() + b"\xf0\x9f\x98,x,1,1\n" + "é,x,1,1".encode())
    log = read_log(path, loss="loss", bad_rows="drop", sizes=ChunkSizes(text=64))
    assert log.instances == (*names, "é")
    assert log.about["dropped"] == {"invalid UTF-8": 1}


def test_lines_that_end_in_carriage_returns(write, refused):
    old = write((GOOD + "zoe,x,1,bad\n").replace("\n", "\r"))
    assert rows(read_log(old, loss="loss", bad_rows="drop")) == EXPECTED
    with refused(InvalidLog, "line 5: loss 'bad'"):
        read_log(old, loss="loss")


def test_arms_of_bad_rows_are_no_arms(write):
    path = write(GOOD + "ann,w,1,bad\nzoe,x,1,\n")
    log = read_log(path, loss="loss", bad_rows="drop")
    assert log.arm_names == ("x", "y")
    assert log.instances == ("ann", "bob")
    assert log.about["dropped"] == {"missing value": 1, "not a number": 1}


def test_unknown_items_and_arms_of_items(refused):
    log = {"instance": ["a", "b", "c"], "arm": ["7", "9", "8"], "loss": [1, 2, 3]}
    items = {7: ["Comedy"], 8: ["Comedy", "Western"]}
    with refused(
        InvalidLog, "1 × unknown item (row 1: arm '9')", "1 × unknown arm (row 2: arm '8')"
    ):
        read_log(log, time=None, loss="loss", items=items, arm_names=["Comedy"])
    with refused(InvalidLog, "1 × unknown arm (row 1: arm 'Drama')"):
        read_log(FILMS, time=None, loss="loss", categories="|", arm_names=["Comedy", "Horror"])
    with refused(InvalidLog, "1 × missing value (row 0: arm '|')"):
        read_log(FILMS | {"arm": ["|", "x", "y"]}, time=None, loss="loss", categories="|")


# --- what cannot be read at all --------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "mentions"),
    [
        ({"loss": "loss", "reward": "loss"}, ["exactly one", "loss and reward"]),
        ({"loss": "loss", "best": 5}, ["best="]),
        ({"rating": "loss", "best": "five"}, ["best", "'five'"]),
        ({"loss": "loss", "bad_rows": "ignore"}, ["'error' or 'drop'", "'ignore'"]),
        ({"loss": "loss", "choose": "all"}, ["'fractional' or 'random'", "'all'"]),
        ({"loss": "loss", "categories": ""}, ["categories", "''"]),
        ({"loss": "loss", "separator": ""}, ["one ASCII character", "''"]),
        ({"loss": "loss", "separator": 3}, ["one ASCII character", "3"]),
        ({"loss": "loss", "separator": "\n"}, ["neither a quote, a line end", "'\\n'"]),
        ({"loss": "loss", "columns": "user,arm"}, ["columns must be a list of names"]),
        ({"loss": "loss", "columns": ["a"]}, ["CSV without a header", "names its own"]),
        ({"loss": 3}, ["loss must be the name of a column", "3"]),
        ({"loss": "loss", "arm_names": "xy"}, ["list of names", "'xy'"]),
        ({"loss": "loss", "arm_names": 3}, ["arm_names must be a list of names", "3"]),
        ({"loss": "loss", "arm_names": ["x", "x"]}, ["different"]),
        ({"loss": "loss", "items": ["x"]}, ["items must map", "['x']"]),
        ({"loss": "loss", "items": {"x": 3}}, ["item 'x'", "list of arms", "3"]),
        ({"loss": "loss", "sizes": 3}, ["sizes must be ChunkSizes", "3"]),
    ],
)
def test_options_that_are_refused(options, mentions, refused):
    with refused(InvalidInput, *mentions):
        read_log(COLUMNS, **options)


def test_sizes_that_are_refused(refused):
    with refused(InvalidInput, "rows of ChunkSizes must be at least 1", "0"):
        ChunkSizes(rows=0)


def test_a_role_without_a_column_is_asked_for(refused):
    with refused(InvalidLog, "says how good", "loss=", "rating=", "reward=", "there are instance"):
        read_log({"instance": ["a"], "arm": ["x"], "seconds": [1]})
    with refused(InvalidLog, "is the instance?", "instance= (--instance)", "there are who, arm"):
        read_log({"who": ["a"], "arm": ["x"], "loss": [1]})
    with refused(InvalidLog, "is the arm?", "arm= (--arm)", "there are user, what"):
        read_log({"user": ["a"], "what": ["x"], "loss": [1]})
    with refused(InvalidLog, "'stars' holds ratings", "best=5 (--best 5)"):
        read_log({"instance": ["a"], "arm": ["x"], "stars": [1]})


def test_missing_columns(write, refused):
    with refused(InvalidLog, "'Loss'", "instance, arm, time, loss", "did you mean 'loss'?"):
        read_log(write(GOOD), loss="Loss")
    with refused(InvalidLog, "no column 'arms'", "did you mean 'arm'?"):
        read_log(pd.DataFrame(COLUMNS), loss="loss", arm="arms")
    timeless = {name: column for name, column in COLUMNS.items() if name != "time"}
    with refused(InvalidLog, "no column 'time'", "pass time=None"):
        read_log(timeless, loss="loss", time="time")
    with refused(InvalidLog, "2 columns of the name 'loss'"):
        read_log(write("instance,arm,time,loss,loss\na,x,1,1,2\n"), loss="loss")


def test_separators_that_do_not_fit(write, refused):
    with refused(InvalidLog, "';'", "'instance,arm,time,loss'", "try separator=','"):
        read_log(write(GOOD), loss="loss", separator=";")
    with refused(InvalidLog, "','", "try separator='\\t'"):
        read_log(write(GOOD.replace(",", "\t")), loss="loss", separator=",")
    assert len(read_log(write(GOOD.replace(",", ":")), loss="loss", separator=":")) == 3


def test_files_that_cannot_be_read(write, tmp_path, refused):
    with refused(MissingFile, "there is no file", "nowhere.csv"):
        read_log(tmp_path / "nowhere.csv", loss="loss")
    with refused(InvalidInput, "folder without Parquet"):
        read_log(write(GOOD).parent, loss="loss")
    with refused(InvalidLog, "log.csv is empty"):
        read_log(write(""), loss="loss")
    with refused(InvalidLog, "first line of log.csv is blank"):
        read_log(write("\n" + GOOD), loss="loss")
    for header in (HEADER, HEADER.strip(), HEADER + "\n\n"):
        with refused(InvalidLog, "log.csv has columns, but no rows"):
            read_log(write(header), loss="loss")
    with refused(InvalidLog, "UTF-16"):
        read_log(write(GOOD.encode("utf-16")), loss="loss")
    for bad_rows in ("error", "drop"):  # all that follows would be dropped as one row
        with refused(InvalidLog, "quoted value without an end in line 5"):
            read_log(write(GOOD + 'ann,"x,1,1\nbob,x,2,2\n'), loss="loss", bad_rows=bad_rows)
    with refused(InvalidLog, "all rows of log.csv are bad", "2 × not a number (lines 2, 3"):
        read_log(write(HEADER + "a,x,1,bad\n" * 2), loss="loss", bad_rows="drop")


def test_lines_that_are_too_long(write, refused):
    path, sizes = write(GOOD + 'ann,"x,1,1\n' + "bob,x,2,2\n" * 100), ChunkSizes(text=64)
    with refused(InvalidLog, "quoted value without an end, or a line of more than"):
        read_log(path, loss="loss", sizes=sizes)


def test_compressed_files_that_are_cut_or_broken(write, refused):
    random = np.random.default_rng(0)
    lines = "".join(f"{n},x,{n},{x}\n" for n, x in enumerate(random.normal(size=5000)))
    whole = gzip.compress((HEADER + lines).encode())
    for cut in (5, 30, len(whole) // 2, len(whole) - 3):
        with refused(InvalidLog, "log.csv cannot be read"):
            read_log(write(whole[:cut]), loss="loss")
    middle = len(whole) // 2
    with refused(InvalidLog, "log.csv cannot be read"):
        read_log(write(whole[:middle] + bytes(100) + whole[middle + 100 :]), loss="loss")


def test_parquet_files_that_are_broken(write, tmp_path, refused):
    with refused(InvalidLog, "log.csv cannot be read"):
        read_log(write(b"PAR1" + bytes(100)), loss="loss")
    pq.write_table(pa.table(COLUMNS)[:0], tmp_path / "none.parquet")
    with refused(InvalidLog, "has columns, but no rows"):
        read_log(tmp_path / "none.parquet", loss="loss")


def test_tables_that_cannot_be_used(refused):
    with refused(InvalidInput, "a path, a data frame", "[1, 2]"):
        read_log([1, 2], loss="loss")
    with refused(InvalidLog, "mapping cannot be read"):
        read_log(COLUMNS | {"loss": [1.0]}, loss="loss")
    with refused(InvalidLog, "mapping cannot be read"):
        read_log(COLUMNS | {"loss": [1.0, "x", 2.0]}, loss="loss")
    with refused(InvalidLog, "DataFrame cannot be read: Could not convert 'b'", "column arm"):
        read_log(pd.DataFrame({"arm": [1, "b"], "loss": 1}), loss="loss")
    with refused(InvalidLog, "'loss' cannot be used as numbers", "list"):
        read_log(COLUMNS | {"loss": [[1.0], [2.0], [3.0]]}, loss="loss")
    with refused(InvalidLog, "'arm' cannot be used as labels"):
        read_log(COLUMNS | {"arm": [["x"], ["y"], ["z"]]}, loss="loss")
    with refused(InvalidLog, "'time' cannot be used as times"):
        read_log(COLUMNS | {"time": [["x"], ["y"], ["z"]]}, loss="loss")


def test_a_progress_bar_can_be_asked_for(write, capfd):
    read_log(write(GOOD), loss="loss", progress=True)
    assert "reading log.csv" in capfd.readouterr().err
    read_log(write(GOOD), loss="loss", progress=False)
    assert capfd.readouterr().err == ""


# --- numbering -------------------------------------------------------------------------------


@given(st.lists(st.lists(st.text(max_size=4), max_size=30), max_size=5))
def test_labels_are_numbered_by_first_appearance(batches):
    codes_of, expected = LabelCodes(), {}
    for batch in batches:
        codes = codes_of.encode(pa.array(batch, pa.string()))
        assert codes.tolist() == [expected.setdefault(text, len(expected)) for text in batch]
    assert codes_of.labels == list(expected)


def test_slices_of_a_column_are_numbered_like_the_whole():
    texts = pa.array([str(n * n % 30_011) for n in range(40_000)])
    codes_of = LabelCodes()
    codes = codes_of.encode(texts)
    assert [codes_of.labels[code] for code in codes] == texts.to_pylist()
    assert codes_of.encode(texts[100:200]).tolist() == codes[100:200].tolist()
