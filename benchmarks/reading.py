"""Reading a log beside DuckDB and Arrow: the same columns, sorted by instance and time."""

import tempfile
from importlib.util import find_spec
from pathlib import Path

import pyarrow.csv
import pyarrow.parquet

import influential_bandits as ib
from benchmarks.timing import Bar, Row, fastest

USERS, EVENTS, ARMS = 20_000, 100, 20
NOT_SLOWER = Bar("≥", 1, "× its speed")
COLUMNS = "{'instance': 'VARCHAR', 'arm': 'VARCHAR', 'time': 'DOUBLE', 'loss': 'DOUBLE'}"
# What DuckDB does of our work: labels become numbers, columns are sorted, bad rows are listed by
# the record that they are. Blank lines are passed over, lines are not counted through quotes, and
# where ends of lines are mixed, rows may be lost or the file refused.
CODED = """
    create temp table events as select * from {source};
    create temp table instances as
        select instance, row_number() over (order by first) - 1 as who
        from (select instance, min(rowid) as first from events group by instance);
    create temp table arms as
        select arm, row_number() over (order by arm) - 1 as what
        from (select distinct arm from events);
"""
SORTED = """
    select who::int as who, what::int as what, time, loss
    from events join instances using (instance) join arms using (arm) order by who, time
"""


def by_duckdb(source):
    import duckdb

    with duckdb.connect() as base:
        base.execute(CODED.format(source=source))
        return len(base.execute(SORTED).fetchnumpy()["who"])


def rows(quick):
    """Yield millions of rows a second: ours, and what others reach."""
    users = USERS // 10 if quick else USERS
    with tempfile.TemporaryDirectory() as folder:
        text, parquet = Path(folder) / "log.csv", Path(folder) / "log.parquet"
        log = ib.data.synthetic_log(users, EVENTS, ARMS, taste=1.0, seed=0)
        # In the order of time, as logs are written: events of all users among one another.
        order = log.time.argsort()
        shuffled = (
            log.to_frame("pyarrow").take(order).rename_columns(["instance", "arm", "time", "loss"])
        )
        pyarrow.parquet.write_table(shuffled, parquet)
        pyarrow.csv.write_csv(shuffled, text, pyarrow.csv.WriteOptions(quoting_style="none"))
        csv = f"read_csv('{text}', columns = {COLUMNS}, header = true, store_rejects = true)"
        jobs = {
            "csv": lambda: len(ib.read_log(text, loss="loss")),
            "parquet": lambda: len(ib.read_log(parquet, loss="loss")),
            "stream": lambda: _stream(text),
            "Arrow": lambda: pyarrow.csv.read_csv(text).num_rows,
        }
        if find_spec("duckdb"):
            jobs |= {
                "DuckDB csv": lambda: by_duckdb(csv),
                "DuckDB parquet": lambda: by_duckdb(f"'{parquet}'"),
            }
        times, found = fastest(jobs, 3)
        events = len(log)
        assert set(found.values()) == {events}
    speed = {name: events / seconds / 1e6 for name, seconds in times.items()}
    for name, what in (("csv", "read_log, CSV"), ("parquet", "read_log, Parquet")):
        peer = f"DuckDB {name}"
        theirs = speed.get(peer)
        ratio = None if theirs is None else speed[name] / theirs
        yield Row(what, speed[name], "M rows/s", peer, theirs, ratio, NOT_SLOWER, "sorted, checked")
    note = "parsed on all cores; nothing checked, numbered or sorted"
    ratio = speed["csv"] / speed["Arrow"]
    yield Row("read_log, CSV", speed["csv"], "M rows/s", "Arrow's read_csv", speed["Arrow"], ratio,
              None, note)  # fmt: skip
    yield Row("stream_log, CSV", speed["stream"], "M rows/s", note="written to disk and read again")


def _stream(path):
    sizes = ib.logs.ChunkSizes(partition=500_000)
    with ib.logs.stream_log(path, loss="loss", sizes=sizes) as stream:
        return sum(len(part) for part in stream)
