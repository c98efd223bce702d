"""What operators meet: clocks that jump, stores that hang, feedback that stops, keys, exports."""

import json
import os
import subprocess
import sys
import threading
import time

import pytest
import requests
from live.driver import Driver, make_settings
from live.page_server import Server, Visitor
from typer.testing import CliRunner

import influential_bandits as ib
from benchmarks.live.processes import free_port
from influential_bandits.cli import app
from influential_bandits.errors import InvalidInput, ServiceError
from influential_bandits.live import loading, replay
from influential_bandits.live.keys import digest_key
from influential_bandits.live.report import Report
from influential_bandits.live.requests import Refused
from influential_bandits.live.store.opening import open_store, open_to_read
from influential_bandits.live.writer import BYTES_PER_EVENT

SHARED = {"policy": "Foresight", "state": "shared"}


@pytest.fixture
def server(tmp_path):
    running = Server(tmp_path / "shop.db")
    running.create("shop")
    yield running
    running.close()


def ask(server, method, path, key=None, **rest):
    headers = {"Authorization": f"Bearer {key or server.key}"}
    return requests.request(method, server.address + path, headers=headers, timeout=20, **rest)


# Replay.


def test_a_replay_agrees_after_an_erasure_and_in_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(replay, "INSTANCES_AT_A_TIME", 3)
    settings = make_settings(explore=0.5, control_share=0.3)
    with Driver(tmp_path / "shop.db", settings) as shop:
        for n in range(200):
            shop.decide(f"user {n % 11}", decision_id=str(n))
            shop.feed_back(str(n), n % 5 / 10)
            if n == 100:
                shop.erase("user 4")
        audit = shop.audit()
    assert (audit.differences, audit.first) == (0, None)
    assert audit.decisions > 180


def test_a_replay_of_a_forged_store_ends(tmp_path):
    with Driver(tmp_path / "shop.db", make_settings()) as shop:
        shop.decide("ann")
        forged = f"UPDATE experiments SET instances = {2**62}"
        shop.store(lambda work, at: work._store.run(forged))
        assert shop.audit().decisions == 1


# Clocks and missing feedback.


def test_losses_are_given_up_though_the_clock_jumped_ahead_and_returned(tmp_path):
    with Driver(tmp_path / "shop.db", make_settings(window_hours=1.0)) as shop:
        shop.clock.now += 1e9
        time.sleep(1.5)  # somebody looks for what is overdue meanwhile
        shop.clock.now -= 1e9
        shop.decide("ann", decision_id="one")
        shop.clock.now += 3601.0
        deadline = time.monotonic() + 10.0
        while shop.describe()["events"] < 3:
            assert time.monotonic() < deadline
            time.sleep(0.1)


@pytest.mark.parametrize(
    ("settings", "most"),
    [(SHARED, "most_pending"), ({}, "most_pending_each")],
    ids=["fleet", "own"],
)
def test_no_more_losses_are_waited_for_than_memory_is_for(tmp_path, settings, most):
    with Driver(tmp_path / "shop.db", make_settings(**settings), **{most: 10}) as shop:
        shop.decide("bob", decision_id="bob's")
        for n in range(40):
            shop.clock.now += 1.0
            shop.decide("ann", decision_id=str(n))
        shop.sweep()
        experiment = shop.writer._loaded["shop"]
        state = experiment.shared if settings else experiment.by_label["ann"].state
        assert state.count_pending() == 10
        for name in ("29", "bob's") if settings else ("29",):
            with pytest.raises(Refused, match="has expired"):
                shop.feed_back(name, 0.5)
        for name in ("30", "39") if settings else ("30", "39", "bob's"):
            shop.feed_back(name, 0.5)
        assert shop.audit().differences == 0


def test_a_state_that_is_dropped_from_memory_is_not_written_for_a_few_events(tmp_path):
    options = {"members_held": 1, "events_per_snapshot": 3}
    with Driver(tmp_path / "shop.db", make_settings(policy="Foresight"), **options) as shop:

        def play(rounds):
            for _ in range(rounds):
                for user in ("ann", "bob"):
                    shop.feed_back(shop.decide(user)["decision_id"], 0.5)
            kept = shop.read(lambda store: store.snapshots(1, [1, 2]))
            return {snapshot.instance: (snapshot.number, len(snapshot.state)) for snapshot in kept}

        assert play(1) == {}  # of two events each
        kept = play(1)
        assert set(kept) == {1, 2}
        events = min(size for _, size in kept.values()) // BYTES_PER_EVENT
        assert events > 6
        assert play(2) == kept  # for four events more it is too large
        shop.restart()
        assert play(events) != kept
        assert shop.audit().differences == 0


def test_feedback_that_stops_is_said(tmp_path):
    with Driver(tmp_path / "shop.db", make_settings()) as shop:
        start = shop.clock.now
        for n in range(30):
            shop.clock.now = start + 300.0 * n
            shop.decide("ann", decision_id=str(n))
            if n < 10:
                shop.feed_back(str(n), 0.5)
            if n == 15:
                assert shop.report()["silent_since"] is None  # half an hour may be chance
        since = shop.report()["silent_since"]
        assert since == start + 2700.0
        shop.feed_back("29", 0.5)
        assert shop.report()["silent_since"] is None


# Stores that hang or fail.


def test_a_store_that_hangs_holds_up_no_health_check(server, monkeypatch):
    stuck = threading.Event()
    monkeypatch.setattr("influential_bandits.live.service.SECONDS_TO_READ", 0.5)
    monkeypatch.setattr("influential_bandits.live.keys.SECONDS_FRESH", 0.0)
    ask(server, "GET", "/v1/experiments")
    server.service.keys._until = 0.0
    monkeypatch.setattr(server.service, "read", lambda question: stuck.wait(5.0) and [])
    asked = threading.Thread(target=ask, args=(server, "GET", "/v1/experiments"))
    asked.start()
    time.sleep(0.1)
    start = time.monotonic()
    assert requests.get(f"{server.address}/health", timeout=5).status_code == 200
    assert time.monotonic() - start < 0.4
    answer = ask(server, "GET", "/v1/experiments")
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "store")
    stuck.set()
    asked.join()


def test_a_request_does_not_wait_for_ever_for_what_is_written(server, monkeypatch):
    monkeypatch.setattr("influential_bandits.live.service.SECONDS_TO_WRITE", 0.5)
    go = threading.Event()
    writing = threading.Thread(target=server.writer.ask, args=("shop", lambda *_: go.wait(20.0)))
    writing.start()
    path, body = "/v1/experiments/shop/decisions", {"instance": "ann", "decision_id": "one"}
    assert ask(server, "POST", path, json=body).status_code == 503
    assert ask(server, "GET", "/ready").status_code == 503
    assert writing.is_alive()
    go.set()
    writing.join()
    assert ask(server, "POST", path, json=body).json()["number"] == 2  # it has happened once
    assert ask(server, "GET", "/ready").status_code == 200


def test_a_service_that_stops_in_a_transaction_holds_up_the_others_for_a_while(
    postgres, monkeypatch
):
    module = "influential_bandits.live.store.postgres"
    monkeypatch.setattr(f"{module}.SECONDS_FOR_A_LOCK", 0.5)
    address = postgres.new_database()
    with Driver(address, make_settings()) as shop:
        monkeypatch.setattr(f"{module}.SECONDS_IDLE", 2.0)
        with open_store(address) as stopped:
            stopped.begin()
            stopped.lock([1])
            with pytest.raises(Refused, match="lock timeout"):
                shop.decide("ann", decision_id="one")
            time.sleep(2.0)
            assert shop.decide("ann", decision_id="one")["number"] == 2


def test_a_large_fleet_is_computed_beside_what_others_ask_for(tmp_path, monkeypatch):
    with Driver(tmp_path / "shop.db", make_settings(**SHARED)) as shop:
        shop.store(lambda work, at: work.create_experiment("other", make_settings(), at))
        for n in range(40):
            shop.decide(f"user {n % 7}", decision_id=str(n))
            shop.feed_back(str(n), n % 5 / 10)
        expected = shop.explain("user 3")
    go = threading.Event()
    monkeypatch.setattr(loading, "MOST_AT_ONCE", 5)
    aside = loading.Loader._load_aside
    monkeypatch.setattr(loading.Loader, "_load_aside", lambda *of: go.wait(20.0) and aside(*of))
    running = Server(tmp_path / "shop.db")
    calls = [("shop", {"instance": "ann"}), ("other", {"instance": "ann"})]
    paths = [(f"/v1/experiments/{name}/decisions", body) for name, body in calls]
    answers = [ask(running, "POST", path, json=body) for path, body in paths]
    assert [answer.status_code for answer in answers] == [503, 200]
    assert answers[0].json()["error"]["code"] == "loading"
    ready = ask(running, "GET", "/ready")
    assert (ready.status_code, ready.json()["error"]["code"]) == (503, "loading")
    assert running.visit().get("/experiments/shop").status_code == 200
    go.set()
    deadline = time.monotonic() + 20.0
    while ask(running, "GET", "/ready").status_code != 200:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    told = ask(running, "GET", "/v1/experiments/shop/instances/user%203").json()
    assert {name: told[name] for name in expected} == expected
    assert ask(running, "POST", paths[0][0], json=paths[0][1]).status_code == 200
    running.close()
    assert shop.audit().differences == 0


def test_a_batch_is_served_in_order_also_right_after_a_start(server, monkeypatch):
    read, pauses = server.service.read, [0.5, 0.0, 0.0, 0.0]

    def read_slowly(question):
        answer = read(question)
        time.sleep(pauses.pop(0) if pauses else 0.0)
        return answer

    ask(server, "GET", "/v1/experiments")  # keys are known
    server.service._experiments = {}
    monkeypatch.setattr(server.service, "read", read_slowly)
    path = "/experiments/shop/decisions"
    calls = [{"path": path, "body": {"instance": f"user {n}"}} for n in range(4)]
    numbers = [answer["number"] for answer in server.batch(calls)]
    assert numbers == sorted(numbers)


def test_looks_do_not_wait_for_what_is_written(server):
    server.play("shop", ["ann"])
    go = threading.Event()
    writing = threading.Thread(target=server.writer.ask, args=("shop", lambda *_: go.wait(20.0)))
    writing.start()
    paths = ("", "/report", "/instances/ann", "/log?format=csv")
    statuses = [ask(server, "GET", f"/v1/experiments/shop{path}").status_code for path in paths]
    pages = ("/", "/experiments/shop")
    visitor = server.visit()
    statuses += [visitor.get(path).status_code for path in pages]
    assert writing.is_alive()
    go.set()
    writing.join()
    assert set(statuses) == {200}


def test_a_service_that_cannot_write_is_not_ready(server):
    assert ask(server, "GET", "/ready").status_code == 200
    store = server.writer.store
    server.writer.ask("", lambda work, at: store.run("PRAGMA max_page_count = 1"))
    store.run("PRAGMA query_only = ON")
    assert ask(server, "GET", "/ready").status_code == 503
    store.run("PRAGMA query_only = OFF")
    assert ask(server, "GET", "/ready").status_code == 200


def test_a_batch_looks_at_no_instance_that_it_does_not_name(tmp_path):
    class Members(dict):
        def __iter__(self):
            raise AssertionError("all members were looked at")

    with Driver(tmp_path / "shop.db", make_settings()) as shop:
        shop.decide("ann", decision_id="one")
        experiment = shop.writer._loaded["shop"]
        experiment.members = Members(experiment.members)
        shop.decide("bob", decision_id="two")
        shop.feed_back("one", 0.5)


def test_what_one_service_creates_another_one_serves(postgres):
    store = postgres.new_database()
    background = ib.live.serve_in_background
    with background(store) as first, background(store) as second:
        one, other = (ib.live.Client(*running, "shop") for running in (first, second))
        for name in ("shop", "second shop"):
            ib.live.Client(*first, name).create(["tea", "coffee"], policy="LCB")
        ib.live.Client(*first, "second shop").decide("bob", decision_id="same")
        one.decide("ann", decision_id="same")
        other.feed_back("same", loss=0.5)
        assert one.read_log().loss.tolist() == [0.5]
        with pytest.raises(ServiceError, match="there is no decision"):
            ib.live.Client(*second, "second shop").feed_back("other", loss=0.5)


# What is over.


def test_a_closed_experiment_takes_nothing_and_is_deleted_for_good(address):
    with Driver(address, make_settings()) as shop:
        shop.store(lambda work, at: work.create_experiment("other", make_settings(), at))
        shop.decide("ann", decision_id="one")
        shop.decide("ann", decision_id="later", activate="later")

        def delete(name):
            return shop.store(lambda work, at: work.delete_experiment(name, at))

        with pytest.raises(Refused, match="close experiment 'shop' first"):
            delete("shop")
        assert shop.change(mode="closed")["settings"]["mode"] == "closed"
        for refused in (
            lambda: shop.decide("bob"),
            lambda: shop.feed_back("one", 0.5),
            lambda: shop.show("later"),
            lambda: shop.expose("ann", "tea"),
        ):
            with pytest.raises(Refused, match="is closed"):
                refused()
        assert shop.audit().differences == 0
        shop.change(mode="live")  # it may be opened again
        shop.feed_back("one", 0.5)
        shop.change(mode="closed")
        delete("shop")
        with pytest.raises(Refused, match="there is no experiment 'shop'"):
            shop.decide("ann")
        counts = {
            table: shop.read(lambda s, t=table: s.run(f"SELECT * FROM {t} WHERE experiment = 1"))
            for table in ("instances", "decisions", "snapshots", "events")
        }
        (rest,) = counts.pop("events")
        assert not any(counts.values())
        assert rest[3] == "deleted"
        assert [row.name for row in shop.read(lambda store: store.experiments())] == ["other"]
        shop.store(lambda work, at: work.create_experiment("shop", make_settings(), at))
        assert shop.decide("ann", decision_id="one")["number"] == 2
        assert [row.id for row in shop.read(lambda store: store.experiments())] == [2, 3]
        shop.restart()
        assert shop.decide("ann", decision_id="two")["number"] == 3


def test_an_archive_is_read_like_the_store(address, tmp_path):
    folder, settings = tmp_path / "past", make_settings(control_share=0.3, explore=0.2)
    with Driver(address, settings) as shop:
        shop.store(lambda work, at: work.create_experiment("other", make_settings(), at))
        for n in range(30):
            shop.decide(f"user {n % 4}", decision_id=str(n))
            if n < 29:
                shop.feed_back(str(n), n % 5 / 10)
        shop.decide("=1+1", decision_id="ε")
        shop.feed_back("ε", -1e-300)
        shop.expose("user 1", "tea", at=1_600_000_000.0)
        report = shop.report()

        def archive():
            return CliRunner().invoke(app, ["archive", address, "shop", str(folder)])

        assert "may still move" in str(archive().exception)
        shop.change(mode="closed")
        assert "may still move" in str(archive().exception)  # one waits for its loss
        shop.clock.now += 8 * 24 * 3600.0
        shop.sweep()
        assert archive().exit_code == 0
        assert "name a new one" in str(archive().exception)
        events = shop.read(lambda store: list(store.events_after(1, 0)))
        assert shop.audit().differences == 0
        shop.store(lambda work, at: work.delete_experiment("shop", at))
    with open_to_read(folder) as past:
        assert list(past.events_after(1, 0)) == events
        ended = Report(1).make(past, shop.clock.now)
    assert ended["totals"] == report["totals"] | {"waiting": 0, "expired": 1}
    assert ended["policy"] == report["policy"]
    replayed = CliRunner().invoke(app, ["replay", str(folder)])
    assert "31 decisions of" in replayed.stdout
    assert "all as served" in replayed.stdout
    told = json.loads(CliRunner().invoke(app, ["results", str(folder)]).stdout)
    assert told["shop"]["totals"] == ended["totals"]
    log = ib.read_log(folder / "log.parquet", time="time", time_unit="s", loss="loss")
    assert (log.n_events, log.loss.min()) == (30, -1e-300)
    assert folder.stat().st_mode & 0o077 == 0


def test_another_service_notices_that_an_experiment_was_deleted_and_made_anew(postgres):
    with Driver(postgres.new_database(), make_settings()) as one, Driver(one.address) as two:
        for shop in (one, two):
            shop.decide("ann")
        one.change(mode="closed")
        one.store(lambda work, at: work.delete_experiment("shop", at))
        with pytest.raises(Refused, match="no experiment"):
            two.decide("ann")
        one.store(lambda work, at: work.create_experiment("shop", make_settings(), at))
        assert [shop.decide("ann")["number"] for shop in (one, two)] == [2, 3]


def test_a_deletion_is_confirmed_by_the_name(server):
    server.create("a past one")
    client = ib.live.Client(server.address, server.key, "a past one")
    own = server.make_key("admin", "a past one")
    client.change(mode="closed")
    for wrong in ("", "past"):
        with pytest.raises(ServiceError, match="confirm it"):
            client.delete(confirm=wrong)
    assert "closed" in server.visit().get("/").text
    client.delete(confirm="a past one")
    assert ask(server, "GET", "/v1/experiments/a%20past%20one").status_code == 404
    assert ask(server, "GET", "/v1/experiments", own).status_code == 401
    server.create("a past one")
    assert client.report()["totals"]["decisions"] == 0


def test_lists_come_in_pages(server):
    for n in range(3):
        server.create(f"shop {n}")
    server.play("shop", [f"user {n}" for n in range(5)])

    def read(path, name):
        entries, after = [], 0
        while after is not None:
            page = server.call("GET", f"{path}?after={after}&limit=2")
            assert len(page[name]) <= 2
            entries, after = entries + page[name], page["next"]
        return entries

    names = [entry["name"] for entry in read("/experiments", "experiments")]
    assert names == ["shop", "shop 0", "shop 1", "shop 2"]
    labels = [entry["instance"] for entry in read("/experiments/shop/instances", "instances")]
    assert labels == [f"user {n}" for n in range(5)]
    server.make_key(), server.make_key()
    assert len(read("/keys", "keys")) == 3
    server.play("shop", ["user 1"] * 4)
    met = server.call("GET", "/experiments/shop/instances/user%201")["met"]
    earlier = server.call("GET", f"/experiments/shop/instances/user%201?before={met[2]['number']}")
    assert (len(met), earlier["met"]) == (5, met[:2])
    assert ask(server, "GET", "/v1/keys?after=x").status_code == 422


# Keys and names.


def test_the_last_key_that_opens_everything_stays(server):
    digest = ask(server, "GET", "/v1/keys").json()["keys"][0]["digest"]
    answer = ask(server, "DELETE", f"/v1/keys/{digest}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "last_key")
    server.make_key("admin", "shop")  # which cannot make keys for other experiments
    assert ask(server, "DELETE", f"/v1/keys/{digest}").status_code == 409
    other = server.make_key("admin")
    assert ask(server, "DELETE", f"/v1/keys/{digest}", other).status_code == 200


def test_a_key_ends_by_itself(server, monkeypatch):
    made = server.call("POST", "/keys", {"label": "for a week", "days": 7.0})
    assert ask(server, "GET", "/v1/experiments", made["key"]).status_code == 200
    listed = {key["label"]: key["ends"] for key in server.call("GET", "/keys")["keys"]}
    assert listed["for a week"] == made["ends"] == pytest.approx(time.time() + 7 * 86400, abs=60)
    monkeypatch.setattr(server.service.keys, "_clock", lambda: made["ends"])
    assert ask(server, "GET", "/v1/experiments", made["key"]).status_code == 401
    assert ask(server, "POST", "/v1/keys", json={"label": "x", "days": 0}).status_code == 422


def test_keys_are_managed_without_one(tmp_path):
    def run(*arguments):
        return CliRunner().invoke(app, ["keys", *arguments])

    store, file = str(tmp_path / "shop.db"), tmp_path / "key"
    with Driver(store, make_settings()):
        assert "another service works on" in str(run("make", store, "boss").exception)
    key = run("make", store, "boss").stdout.strip()
    made = run("make", store, "till", "--role", "writer", "--experiment", "shop", "--days", "3",
               "--key-file", str(file))  # fmt: skip
    assert (made.exit_code, made.stdout) == (0, "")
    assert file.stat().st_mode & 0o077 == 0
    first, second = run("list", store).stdout.splitlines()
    assert first == f"{digest_key(key)}  admin   ends never  of all  boss"
    assert second.startswith(f"{digest_key(file.read_text().strip())}  writer  ends 2")
    assert second.endswith("of shop  till")
    assert "last admin key" in str(run("drop", store, digest_key(key)).exception)
    assert run("drop", store, second.split()[0]).exit_code == 0
    assert len(run("list", store).stdout.splitlines()) == 1
    for wrong in (["--role", "king"], ["--experiment", "none"]):
        assert isinstance(run("make", store, "x", *wrong).exception, InvalidInput)


@pytest.fixture
def serve(tmp_path, monkeypatch):
    """Start a service and stop it at once; return the digest of its only key, and what was said."""
    monkeypatch.setattr("uvicorn.run", lambda application, **_: application.close())
    told = []

    def run(**options):
        ib.live.serve(tmp_path / "shop.db", port=free_port(), tell=told.append, **options)
        with open_store(tmp_path / "shop.db") as opened:
            (row,) = opened.keys()
        return row.digest, "".join(told)

    return run


def test_a_first_key_may_be_chosen_beforehand(serve, monkeypatch):
    monkeypatch.setenv("INFLUENTIAL_BANDITS_FIRST_KEY", "short")
    with pytest.raises(InvalidInput, match="32 characters"):
        serve()
    monkeypatch.setenv("INFLUENTIAL_BANDITS_FIRST_KEY", "k" * 40)
    digest, told = serve()
    assert digest == digest_key("k" * 40)
    assert "k" * 40 not in told


def read_metrics(text):
    return dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))


def test_metrics_are_for_keys_of_everything_and_say_which_experiment(server):
    assert ask(server, "GET", "/metrics", server.make_key("reader", "shop")).status_code == 403
    server.create("silent")
    server.play("shop", ["ann"])
    for _ in range(3):
        body = {"instance": "ann"}
        assert ask(server, "POST", "/v1/experiments/silent/decisions", json=body).ok
    lines = read_metrics(ask(server, "GET", "/metrics", server.make_key("reader")).text)
    shop, silent = (f'{{experiment="{name}"}}' for name in ("shop", "silent"))
    known = {name.removeprefix("influential_bandits_"): float(n) for name, n in lines.items()}
    assert known[f"decisions_total{silent}"] == 3.0
    assert known[f"feedback_total{shop}"] == known[f"observed_seconds_count{shop}"] == 1.0
    assert abs(known[f"latest_feedback{shop}"] - time.time()) < 60.0
    assert f"feedback_total{silent}" not in known  # nothing came
    assert known["commit_seconds_count"] == known["batches"] > 3.0
    assert known['request_seconds_count{call="decide"}'] == 3.0
    assert known['request_seconds_bucket{call="decide",le="+Inf"}'] == 3.0


def test_metrics_of_all_workers_are_summed(postgres, tmp_path):
    address, port, key = postgres.new_database(), free_port(), "k" * 40
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("INFLUENTIAL_BANDITS")}
    environment = inherited | {
        "INFLUENTIAL_BANDITS_STORE": address,
        "INFLUENTIAL_BANDITS_PORT": str(port),
        "INFLUENTIAL_BANDITS_FIRST_KEY": key,
        "INFLUENTIAL_BANDITS_LOG_FORMAT": "json",
    }
    config = tmp_path / "service.toml"
    config.write_text("workers = 2\nport = 1\naccess_log = true\n")  # the environment comes first
    command = [sys.executable, "-m", "influential_bandits.cli", "serve", "--config", str(config)]
    headers = {"Authorization": f"Bearer {key}", "X-Request-ID": "mine"}
    with (
        (tmp_path / "log").open("wb") as log,
        subprocess.Popen(command, env=environment, stdout=log, stderr=log) as service,
    ):
        try:
            base, body = f"http://127.0.0.1:{port}", {"instance": "ann"}
            deadline = time.monotonic() + 60.0
            while True:
                try:
                    settings = {"arms": ["tea", "coffee"], "policy": "LCB"}
                    made = {"name": "shop", "settings": settings}
                    assert requests.post(f"{base}/v1/experiments", json=made, headers=headers).ok
                    break
                except requests.ConnectionError:
                    assert time.monotonic() < deadline
                    time.sleep(0.2)
            sent, decided = 0, []
            while len({entry["process"] for entry in decided}) < 2:  # one may start later
                assert time.monotonic() < deadline
                for _ in range(20):  # each over a connection of its own
                    path = f"{base}/v1/experiments/shop/decisions"
                    assert requests.post(path, json=body, headers=headers).ok
                sent += 20
                lines = (tmp_path / "log").read_text().splitlines()
                calls = [line for line in lines if '"path":"/v1/experiments/shop/dec' in line]
                decided = [json.loads(line) for line in calls if line.endswith("}")]
            for _ in range(8):
                lines = read_metrics(requests.get(f"{base}/metrics", headers=headers).text)
                total = lines['influential_bandits_decisions_total{experiment="shop"}']
                assert float(total) == sent
        finally:
            service.terminate()
    assert {entry["id"] for entry in decided} == {"mine"}
    assert {entry["key"]["label"] for entry in decided} == {"first key"}


def test_the_log_says_who_did_what_and_who_was_turned_away(server, caplog):
    caplog.set_level("INFO", "influential_bandits.live.audit")
    answer = ask(server, "PATCH", "/v1/experiments/shop", json={"settings": {"mode": "paused"}})
    ask(server, "POST", "/v1/experiments/shop/decisions", json={"instance": "ann"})
    ask(server, "GET", "/v1/experiments", key="ib_wrong")
    Visitor(server.address).log_in("ib_wrong")
    server.visit()
    deadline = time.monotonic() + 5.0  # what is logged comes after the answer
    while len(caplog.records) < 4:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    facts = [record.facts for record in caplog.records]
    told = [(one["method"], one["path"], one["status"]) for one in facts]
    assert told == [
        ("PATCH", "/v1/experiments/shop", 200),
        ("GET", "/v1/experiments", 401),
        ("POST", "/login", 401),
        ("POST", "/login", 303),
    ]
    labels = [one["key"] and one["key"]["label"] for one in facts]
    assert labels == ["first key", None, None, "first key"]
    assert answer.headers["x-request-id"] == facts[0]["id"]
    assert "ib_wrong" not in str(facts)
    assert server.key not in str(facts)


def test_a_config_with_a_slip_is_refused(tmp_path):
    config = tmp_path / "service.toml"
    for text, message in (("prot = 80", "unknown entry 'prot'"), ("port =", "no TOML file")):
        config.write_text(text)
        result = CliRunner().invoke(app, ["serve", "--config", str(config)])
        assert message in str(result.exception)


def test_settings_are_changed_in_the_form_in_which_they_were_given(server):
    path = "/v1/experiments/shop"
    assert ask(server, "PATCH", path, json={"settings": {"explore": 0.5}}).ok
    assert ask(server, "GET", path).json()["settings"]["explore"] == 0.5
    assert ask(server, "PATCH", path, json={"explore": 0.1}).status_code == 422


def test_the_first_key_is_written_to_a_file_once(serve, tmp_path):
    file = tmp_path / "key"
    file.write_text("something else")
    with pytest.raises(InvalidInput, match="name a new file"):
        serve(key_file=file)
    file.unlink()
    for _ in range(2):  # at the second start there is a key
        digest, told = serve(key_file=file)
    key = file.read_text().strip()
    assert key.startswith("ib_")
    assert key not in told
    assert file.stat().st_mode & 0o077 == 0
    assert digest == digest_key(key)


@pytest.mark.parametrize("name", [".", ".."])
def test_what_an_address_cannot_hold_is_no_name(server, name):
    body = {"name": name, "settings": {"arms": ["a"]}}
    assert ask(server, "POST", "/v1/experiments", json=body).status_code == 422
    for body in ({"instance": name}, {"instance": "ann", "decision_id": name}):
        answer = ask(server, "POST", "/v1/experiments/shop/decisions", json=body)
        assert answer.status_code == 422


def test_an_exported_table_holds_no_formulas(server):
    hostile = ['=HYPERLINK("http://evil")', "+1", "-1", "@x", "\tx", "plain"]
    server.play("shop", hostile)
    answer = ask(server, "GET", "/v1/experiments/shop/log?format=csv")
    lines = answer.text.splitlines()[1:]
    assert len(lines) == len(hostile)
    assert not any(line.lstrip('"').startswith(("=", "+", "-", "@", "\t")) for line in lines)
    client = ib.live.Client(server.address, server.key, "shop")
    assert sorted(client.read_log().instances) == sorted(hostile)  # Parquet has names as they are
