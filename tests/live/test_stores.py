"""Both stores keep the same promises."""

import math
import shutil
import socket
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from live.driver import Driver, make_settings

import influential_bandits as ib
from influential_bandits.errors import InvalidInput, MissingFile
from influential_bandits.live.events import DECIDED, PENDING, Decision, Event
from influential_bandits.live.keys import Key
from influential_bandits.live.store import sql
from influential_bandits.live.store.opening import back_up, open_store, open_to_read
from influential_bandits.live.store.sql import Changes, InstanceRow, Snapshot, StoreError

FLOATS = [0.1, -0.2, 5e-324, 1.7976931348623157e308, 1 / 3, math.pi, 123456789.123456789]


def make_decision(name, **other):
    values = {
        "experiment": 1, "id": name, "instance": 1, "request": "r", "at": 0.1, "group": "policy",
        "arm": 2, "probability": 1 / 3, "expected_loss": math.pi, "model": 0, "proposed": None,
        "number": 2, "ticket": 1, "status": PENDING, "loss": None, "deadline": None,
    }  # fmt: skip
    return Decision(**values | other)


def make_changes(names=("d",)):
    changes = Changes()
    changes.instances.append(InstanceRow(1, 1, "ann", "policy", 0.1, 0.5))
    for number, name in enumerate(names, start=1):
        changes.events.append(
            Event(
                1, number, 1, DECIDED, FLOATS[number % 7], name, 1, 2, FLOATS[number % 7], "{}", 1
            )
        )
        changes.decisions[1, name] = make_decision(name, loss=FLOATS[number % 7])
    changes.snapshots[1, 1] = Snapshot(1, 1, 1, "f", bytes(range(256)))
    changes.counts[1] = (len(names), 1)
    return changes


def write(store, changes):
    store.begin()
    store.add_experiment("shop")
    store.write(changes)
    store.commit()


def test_what_was_written_is_read_again_to_the_bit_and_after_reopening(address):
    names = [f"d{number}" for number in range(150)]  # more than one insert of each size
    expected = make_changes(names)
    with open_store(address) as store:
        write(store, make_changes(names))
    with open_to_read(address) as reader:
        assert reader.experiments()[0][1:] == ("shop", 150, 1)
        events = list(reader.events_after(1, 0))
        assert events == expected.events
        found = {d.id: d for d in reader.decisions(1, names)}
        assert found == {name: expected.decisions[1, name] for name in names}
        assert reader.snapshots(1, [1, 2]) == [expected.snapshots[1, 1]]
        kept = expected.snapshots[1, 1]
        assert reader.snapshots(1, [1]) == [kept]
        assert list(reader.states_of_users(1, kept.fingerprint)) == [(1, kept.state)]
        assert list(reader.states_of_users(1, "another")) == []
        assert reader.instances_by("label", 1, ["ann", "bob"]) == expected.instances
        assert reader.instances_by("number", 1, [1, 2]) == expected.instances
        assert reader.events_of_instance(1, 1, 10, 20) == expected.events[10:20]
        with pytest.raises(StoreError):
            reader.run("DELETE FROM events")


def test_a_transaction_is_whole_or_nothing(address):
    with open_store(address) as store:
        store.begin()
        store.add_experiment("shop")
        store.write(make_changes())
        store.roll_back()
        assert store.experiments() == []
        write(store, make_changes())
        store.begin()
        again = make_changes(["e", "d"])
        with pytest.raises(StoreError):
            store.write(again)  # the number of the event is taken
        store.roll_back()
        assert [d.id for d in store.decisions(1, ["d", "e"])] == ["d"]


def test_a_settled_decision_and_a_newer_snapshot_replace_the_old(address):
    with open_store(address) as store:
        write(store, make_changes())
        later = Changes()
        later.keep(make_decision("d", status="observed", loss=0.1))
        later.snapshots[1, 1] = Snapshot(1, 1, 5, "g", b"")
        store.begin()
        store.write(later)
        store.commit()
        assert store.decisions(1, ["d"])[0].loss == 0.1
        assert store.snapshots(1, [1]) == [Snapshot(1, 1, 5, "g", b"")]


def test_keys_and_erasure(address):
    with open_store(address) as store:
        write(store, make_changes())
        store.begin()
        store.add_key(Key("digest", "label", "admin", None, 0.1))
        store.erase(1, 1)
        store.commit()
        assert store.keys() == [Key("digest", "label", "admin", None, 0.1)]
        assert list(store.events_after(1, 0)) == []
        assert store.decisions(1, ["d"]) == []
        assert store.snapshots(1, [1]) == []
        store.begin()
        store.drop_key("digest")
        store.commit()
        assert store.keys() == []


def test_a_store_of_an_earlier_version_is_brought_up_to_date(address, monkeypatch):
    def only_first(step):
        return step.name.startswith("0001")

    monkeypatch.setattr(sql, "is_step", only_first)
    with open_store(address) as store:
        write(store, make_changes())
        store.begin()
        store.run("INSERT INTO keys VALUES ('digest', 'label', 'admin', NULL, 0.5)")
        store.commit()
        before = list(store.events_after(1, 0))
    monkeypatch.undo()
    with open_to_read(address) as reader:  # an audit changes nothing
        assert reader.keys() == [Key("digest", "label", "admin", None, 0.5)]
    for _ in range(2):
        with open_store(address) as store:
            assert store.keys() == [Key("digest", "label", "admin", None, 0.5, None)]
            assert list(store.events_after(1, 0)) == before
    monkeypatch.setattr(sql, "is_step", only_first)
    with pytest.raises(StoreError, match="newer version"):
        open_store(address)


TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(label=TEXT, at=st.floats(allow_nan=False, allow_infinity=False))
def test_texts_and_numbers_are_kept_exactly(address, label, at):
    with open_store(address) as store:
        store.begin()
        store.add_key(Key(label, label, "admin", None, at))
        store.commit()
        assert store.keys() == [Key(label, label, "admin", None, at)]
        store.begin()
        store.drop_key(label)
        store.commit()


def test_a_second_service_is_kept_from_an_sqlite_file(tmp_path, refused):
    with open_store(tmp_path / "s.db"), refused(StoreError, "another service"):
        open_store(tmp_path / "s.db")
    open_store(tmp_path / "s.db").close()


def test_what_cannot_be_served_is_said_before_anything_is_made(tmp_path):
    store = tmp_path / "shop.db"
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(InvalidInput, match="cannot listen on 127"):
            ib.live.serve(store, port=taken.getsockname()[1])
    with pytest.raises(InvalidInput, match="port 70000"):
        ib.live.serve(store, port=70000)
    assert not store.exists()
    store.write_text("This is a text, and it is longer than the head of a database." * 3)
    with pytest.raises(StoreError, match="is no store of this service"):
        open_store(store)


def test_a_full_disk_works_again_when_there_is_room(tmp_path):
    with open_store(tmp_path / "s.db") as store:
        write(store, make_changes())
        (pages,) = store.run("PRAGMA page_count")[0]
        store.run(f"PRAGMA max_page_count = {pages}")
        names = [f"e{number}" for number in range(2000)]
        store.begin()
        with pytest.raises(StoreError, match="full"):
            store.run_many("INSERT INTO keys VALUES (?, ?, '', 1, 0, 9)", [(n, n) for n in names])
        assert b"ann" not in (tmp_path / "s.db").read_bytes()  # it is in the log
        store.roll_back()
        assert b"ann" in (tmp_path / "s.db").read_bytes()  # which was written back
        store.run("PRAGMA max_page_count = 1000000")
        store.begin()
        store.add_key(Key("digest", "label", "reader", None, 0.0))
        store.commit()
        assert [d.id for d in store.decisions(1, ["d"])] == ["d"]
        assert len(store.keys()) == 1


@pytest.mark.parametrize(
    ("free", "pages"), [(0, 64), (1 << 20, 64), (64 << 20, 1024), (1 << 40, 4000)]
)
def test_the_log_takes_a_small_share_of_a_small_disk(tmp_path, monkeypatch, free, pages):
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=free))
    with open_store(tmp_path / "s.db") as store:
        assert store.run("PRAGMA wal_autocheckpoint") == [(pages,)]


def count_events(path):
    with open_to_read(path) as reader:
        return reader.run("SELECT COUNT(*) FROM events")[0][0]


def fill(path, n=201):
    """Write events as a service does, with somebody reading beside; return the open store."""
    store = open_store(path)
    reader = store.open_reader()
    write(store, make_changes([f"d{number}" for number in range(n)]))
    reader.experiments()
    return store


def test_a_store_that_was_stopped_is_whole_without_its_log(tmp_path):
    with ib.live.serve_in_background(tmp_path / "s.db") as (address, key):
        client = ib.live.Client(address, key, "shop")
        client.create(["tea", "coffee"], policy="LCB")
        client.decide_many(f"user {n}" for n in range(200))
        client.report()
    (tmp_path / "alone").mkdir()
    alone = shutil.copy(tmp_path / "s.db", tmp_path / "alone" / "s.db")
    assert count_events(alone) == 201
    open_store(alone).close()


def test_a_store_is_whole_though_somebody_reads_when_it_is_closed(tmp_path):
    fill(tmp_path / "s.db").close()
    (tmp_path / "s.db-wal").unlink(missing_ok=True)
    assert count_events(tmp_path / "s.db") == 201
    open_store(tmp_path / "s.db").close()


def test_a_store_whose_log_is_missing_is_refused(tmp_path, refused):
    store = fill(tmp_path / "s.db")
    alone = shutil.copy(tmp_path / "s.db", tmp_path / "alone.db")
    with refused(StoreError, r"its log alone.db-wal is missing, with the latest events"):
        open_store(alone)
    shutil.copy(tmp_path / "s.db-wal", tmp_path / "alone.db-wal")
    open_store(alone).close()
    assert count_events(alone) == 201
    store.close()


def test_a_copy_made_meanwhile_is_whole(tmp_path, refused):
    store = fill(tmp_path / "s.db")
    back_up(tmp_path / "s.db", tmp_path / "copy.db")
    store.close()
    assert count_events(tmp_path / "copy.db") == 201
    assert sorted(path.name for path in tmp_path.iterdir() if "copy" in path.name) == ["copy.db"]
    open_store(tmp_path / "copy.db").close()
    with refused(InvalidInput, "give the copy another name"):
        back_up(tmp_path / "s.db", tmp_path / "copy.db")
    with refused(InvalidInput, "pg_dump"):
        back_up("postgresql://here/shop", tmp_path / "other.db")
    with refused(MissingFile, "there is no store"):
        back_up(tmp_path / "none.db", tmp_path / "other.db")


def test_nobody_else_may_read_a_store(tmp_path):
    store = fill(tmp_path / "s.db")
    back_up(tmp_path / "s.db", tmp_path / "copy.db")
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    store.close()
    assert set(modes.values()) == {0o600}, modes


def test_what_was_erased_is_nowhere_in_the_files(tmp_path):
    with Driver(tmp_path / "s.db", make_settings()) as shop:
        for n in range(30):
            shop.decide("somebody remarkable", decision_id=f"a remarkable visit {n}")
        shop.decide("bob")
        shop.erase("somebody remarkable")
        shop.decide("bob")
        for path in tmp_path.iterdir():
            assert b"remarkable" not in path.read_bytes(), path
