"""Logs as text: read back by another tool, they are the same to the last bit."""

import numpy as np
import pyarrow.csv

from influential_bandits.datasets import writing
from influential_bandits.datasets.synthetic import synthetic_log, synthetic_parts
from influential_bandits.datasets.writing import write_csv
from influential_bandits.errors import InvalidInput
from influential_bandits.logs.log import EventLog


def assert_reads_as(path, log):
    table = pyarrow.csv.read_csv(path)
    assert table.column_names == ["instance", "time", "arm", "loss"]
    expected = np.repeat(np.array(log.instances, int), log.lengths)
    np.testing.assert_array_equal(table["instance"].to_numpy(), expected)
    for name in ("time", "arm", "loss"):
        np.testing.assert_array_equal(table[name].to_numpy(), getattr(log, name))


def test_a_log_and_its_parts_are_written_alike_and_read_back_exactly(tmp_path, monkeypatch):
    log = synthetic_log(30, "movielens", 3, noise=1.3, seed=2)
    assert write_csv(log, tmp_path / "whole.csv") == len(log)
    assert_reads_as(tmp_path / "whole.csv", log)
    monkeypatch.setattr(writing, "EVENTS_PER_BLOCK", 70)
    parts = synthetic_parts(30, "movielens", 3, noise=1.3, seed=2, events_per_part=500)
    assert write_csv(parts, str(tmp_path / "parts.csv")) == len(log)
    assert (tmp_path / "parts.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()


def test_labels_are_quoted_where_they_must_be_and_time_may_be_unknown(tmp_path):
    path = tmp_path / "log.csv"
    write_csv(EventLog(["a", 'b "c", d'], ["x", "y"], [0.5, 1.25]), path)
    table = pyarrow.csv.read_csv(path)
    assert table.to_pydict() == {
        "instance": ["a", 'b "c", d'],
        "arm": ["x", "y"],
        "loss": [0.5, 1.25],
    }
    write_csv(EventLog(["a"], ["x"], [0.5]), path)
    assert path.read_text() == "instance,arm,loss\na,x,0.5\n"


def test_what_is_no_log_is_refused(tmp_path, refused):
    with refused(InvalidInput, "EventLog", "3"):
        write_csv([3], tmp_path / "log.csv")
