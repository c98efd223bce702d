"""CSV of other kinds: files without a header, padded names."""

import gzip

import numpy as np
import pytest

from influential_bandits.errors import InvalidLog
from influential_bandits.logs.options import ChunkSizes
from influential_bandits.logs.partitions import stream_log
from influential_bandits.logs.reading import read_log

RATINGS = "1;10;5;978300760\n1;11;3;978302109\n2;10;4;978301968\n"
NAMES = {"columns": ["user", "movie", "rating", "time"]}
ROLES = {"instance": "user", "arm": "movie", "rating": "rating", "best": 5}


@pytest.mark.parametrize("separator", [None, ";"])
@pytest.mark.parametrize("end", ["\n", "\r\n", ""])
def test_a_file_without_a_header_is_read_as_it_is(write, separator, end):
    text = RATINGS.replace("\n", end or "\n")
    path = write(text if end else text[:-1])
    log = read_log(path, separator=separator, **NAMES, **ROLES)
    assert log.arm_names == ("10", "11")
    assert log.loss.tolist() == [0.0, 2.0, 1.0]
    assert log.time.tolist() == [978300760, 978302109, 978301968]
    assert log.about["separator"] == ";"


def test_one_line_without_an_end_and_a_byte_order_mark(write):
    for start in ("", "\ufeff"):
        log = read_log(write(start + "1,10,5,3"), **NAMES, **ROLES)
        assert (log.instances, len(log)) == (("1",), 1)


def test_compressed_files_and_streams(write):
    path = write(gzip.compress(RATINGS.encode()), "log.csv.gz")
    assert len(read_log(path, **NAMES, **ROLES)) == 3
    with stream_log(path, sizes=ChunkSizes(partition=1), **NAMES, **ROLES) as stream:
        assert sorted(len(part) for part in stream) == [1, 2]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("1;12;five;978300000", "not a number (line 2: rating 'five')"),
        ("1;12;5", "wrong number of fields (line 2: text '1;12;5')"),
        ("1;12;5;1;2", "wrong number of fields (line 2: text '1;12;5;1;2')"),
        ("1;;5;978300000", "missing value (line 2: movie '')"),
        ("", "blank line (line 2"),
        ("1:12;5;978300000", "wrong number of fields (line 2"),
    ],
)
def test_bad_rows_of_files_without_a_header_are_named_by_line(write, line, reason):
    first, *others = RATINGS.splitlines()
    path = write("\n".join([first, line, *others]) + "\n")
    with pytest.raises(InvalidLog) as caught:
        read_log(path, separator=";", **NAMES, **ROLES)
    assert f"1 bad row: 1 × {reason}" in str(caught.value)
    log = read_log(path, separator=";", bad_rows="drop", **NAMES, **ROLES)
    assert (len(log), sum(log.about["dropped"].values())) == (3, 1)


def test_the_first_line_counts_and_a_header_in_it_is_a_bad_row(write):
    path = write("user,movie,rating,time\n1,10,5,3\n")
    with pytest.raises(InvalidLog, match=r"1 × not a number \(line 1: rating 'rating'\)"):
        read_log(path, **NAMES, **ROLES)


def test_names_that_are_too_few_or_too_many(write):
    for names in (["user", "movie"], list("abcdef")):
        with pytest.raises(InvalidLog, match=rf"does not have {len(names)} values"):
            read_log(write(RATINGS), columns=names, **ROLES)
    with pytest.raises(InvalidLog, match="does not have 4 values separated by ','"):
        read_log(write(RATINGS), separator=",", **NAMES, **ROLES)


def test_many_rows_in_small_chunks(write):
    rng = np.random.default_rng(1)
    rows = [(int(u), int(m), n) for n, (u, m) in enumerate(rng.integers(0, 9, (3000, 2)))]
    path = write("".join(f"{u};{m};{n}\n" for u, m, n in rows))
    options = {"columns": ["user", "movie", "n"], "sizes": ChunkSizes(text=256)}
    log = read_log(path, instance="user", arm="movie", time="n", loss="n", **options)
    told = zip(
        np.repeat(log.instances, log.lengths),
        np.array(log.arm_names)[log.arm],
        log.loss,
        strict=True,
    )
    assert sorted((int(u), int(m), int(n)) for u, m, n in told) == sorted(rows)


def test_blanks_around_names_of_columns_do_not_matter(write):
    text = " user , arm,loss , tstamp \nann,a,1,2\nann,b,0,1\n"
    options = {"instance": "user", "loss": "loss"}
    for source in (
        write(text),
        {" user": ["ann"] * 2, "arm ": ["a", "b"], "loss": [1, 0], " tstamp ": [2, 1]},
    ):
        assert read_log(source, time="tstamp", **options).loss.tolist() == [0.0, 1.0]
        assert read_log(source, time=" tstamp ", **options).loss.tolist() == [0.0, 1.0]
    clash = write("user,arm, arm ,loss\nann,a,b,1\n")
    assert read_log(clash, time=None, **options).arm_names == ("a",)
    assert read_log(clash, arm=" arm ", time=None, **options).arm_names == ("b",)
