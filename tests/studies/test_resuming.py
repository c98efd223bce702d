"""Pieces that are damaged, of another run, or cannot be read; kills are in ``hostile/kills.py``."""

import errno
import io
import os
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest
from report_files import bits, stamps

import influential_bandits as ib
from influential_bandits import files
from influential_bandits.studies.runner.running import reproduce
from influential_bandits.studies.runner.store import StudyFolder
from influential_bandits.studies.runner.study import choose_studies


def play(out, size="tiny", **changes):
    return reproduce(choose_studies(["figure-1b"]), out, size, **changes)


def flip(content, place):
    """One bit is another."""
    changed = bytearray(content)
    changed[place] ^= 1 << (place % 8)
    return bytes(changed)


def without_seal(content):
    """As an earlier version wrote it, or any other program that has read it."""
    buffer = io.BytesIO()
    pq.write_table(pq.read_table(io.BytesIO(content)), buffer)
    return buffer.getvalue()


DAMAGES = {
    "empty": lambda content: b"",
    "magic": lambda content: content[:4],
    "begun": lambda content: content[:100],
    "nearly whole": lambda content: content[:-1],
    "bit of the data": lambda content: flip(content, 200),
    "bit of the middle": lambda content: flip(content, len(content) // 2),
    "bit of the end": lambda content: flip(content, len(content) - 20),
    "without a seal": without_seal,
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_a_damaged_piece_does_not_count_and_is_kept_aside(damage, tmp_path, capsys):
    folder = StudyFolder(tmp_path, "figure-1b", {"seeds": 2})
    folder.write("a", {"policy": ["LCB"] * 50, "regret": np.arange(50) / 7})
    damaged = tmp_path / "figure-1b" / "pieces" / "a.parquet"
    broken = damage(damaged.read_bytes())
    damaged.write_bytes(broken)
    assert folder.read("a") is None
    assert not damaged.exists()
    assert damaged.with_name("a.parquet.damaged").read_bytes() == broken
    told = capsys.readouterr().err
    assert told.startswith(f"note: {damaged} is damaged")
    assert "kept as a.parquet.damaged" in told


def test_swapped_and_foreign_pieces_do_not_count(tmp_path, tiny):
    out, _ = tiny
    shutil.copytree(out / "figure-1b", tmp_path / "figure-1b")
    pieces = tmp_path / "figure-1b" / "pieces"
    one, other = pieces / "LCB-00000.parquet", pieces / "LCB-00010.parquet"
    one.rename(pieces / "x")
    other.rename(one)
    (pieces / "x").rename(other)
    foreign = next((out / "figure-1a" / "pieces").glob("*.parquet"))
    shutil.copy(foreign, pieces / "InfluentialLCB-00000.parquet")
    play(tmp_path)
    assert len(list(pieces.glob("*.damaged"))) == 3
    for name in stamps(out / "figure-1b" / "pieces"):
        assert bits(pieces / name) == bits(out / "figure-1b" / "pieces" / name)
    assert bits(tmp_path / "figure-1b" / "data.parquet") == bits(out / "figure-1b" / "data.parquet")


@pytest.mark.parametrize("number", [errno.EMFILE, errno.EIO, errno.EACCES])
@pytest.mark.parametrize("reader", ["seal_holds", "read_about", "read_table"])
def test_trouble_with_reading_ends_the_run_and_leaves_every_piece(
    reader, number, tmp_path, tiny, monkeypatch, refused
):
    out, _ = tiny
    shutil.copytree(out / "figure-1b", tmp_path / "figure-1b")
    before = stamps(tmp_path / "figure-1b" / "pieces")

    def trouble(path):
        raise OSError(number, os.strerror(number), str(path))

    monkeypatch.setattr(files, reader, trouble)
    with refused(ib.errors.InvalidInput, "cannot read", os.strerror(number), "left as they are"):
        play(tmp_path)
    assert stamps(tmp_path / "figure-1b" / "pieces") == before


@pytest.mark.parametrize(
    "changes", [{"seeds": 3}, {"size": "quick", "seeds": 20}], ids=["seeds", "horizon"]
)
def test_a_folder_of_other_settings_is_refused_and_left_alone(changes, tmp_path, refused):
    play(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with refused(ib.errors.InvalidInput, str(tmp_path / "figure-1b"), "other settings", "--out"):
        play(tmp_path, **changes)
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    "text", ["", '{"study": ', "[]", "\x00", '{"study": "figure-1b", "version": "0.0.0"}']
)
def test_settings_that_cannot_be_ours_are_refused(text, tmp_path, refused):
    (tmp_path / "figure-1b").mkdir()
    (tmp_path / "figure-1b" / "settings.json").write_text(text, encoding="utf-8")
    with refused(ib.errors.InvalidInput, "other settings"):
        play(tmp_path)
    assert (tmp_path / "figure-1b" / "settings.json").read_text(encoding="utf-8") == text


def test_pieces_come_back_as_they_were_kept(tmp_path):
    folder = StudyFolder(tmp_path, "figure-1b", {"seeds": 2})
    rows = {"policy": ["LCB", "LCB"], "horizon": [1, 2], "regret": [0.1, float("nan")]}
    assert folder.read("a") is None
    folder.write("a", rows)
    back = folder.read("a")
    assert back["policy"].tolist() == rows["policy"]
    assert back["horizon"].tolist() == rows["horizon"]
    assert [x.hex() for x in back["regret"].tolist()] == [x.hex() for x in rows["regret"]]


def test_no_space_for_a_piece_gets_one_sentence(tmp_path, monkeypatch, refused):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pq, "ParquetWriter", full)
    with refused(ib.errors.InvalidInput, "No space left on device"):
        play(tmp_path)
    assert not stamps(tmp_path)
    monkeypatch.undo()
    play(tmp_path)
    assert len(stamps(tmp_path / "figure-1b" / "pieces")) == 4
