"""Whatever happens to the service, its database or its disk: what was acknowledged is there, once.

``python -m benchmarks.live faults 200`` plays more of the same.
"""

import asyncio
import json
import os
import shutil
import signal
import sqlite3
import threading
import time

import pytest

from benchmarks.live import faults
from benchmarks.live.auditing import audit
from benchmarks.live.hammering import EXPERIMENTS, Record
from benchmarks.live.processes import ServiceProcess, prepare
from benchmarks.live.wire import Client, Lost
from influential_bandits.live.requests import Refused
from influential_bandits.live.store.opening import open_store
from influential_bandits.live.store.sql import StoreError
from influential_bandits.live.writer import Job, Writer

pytestmark = pytest.mark.long


@pytest.fixture
def strace():
    """The program that makes system calls fail."""
    if shutil.which("strace") is None and "CI" not in os.environ:
        pytest.skip("strace is not installed")


def require_clean(verdict, record, least=20):
    assert verdict.lost == []
    assert verdict.doubled == []
    assert verdict.wrong == []
    assert verdict.replay == []
    assert record.acknowledged >= least  # the fault did not keep the clients from playing


def test_kills_lose_and_double_nothing_in_sqlite(tmp_path):
    verdict, record = faults.hammer(tmp_path / "s.db", tmp_path, faults.kills(10))
    require_clean(verdict, record)
    assert record.lost > 0


@pytest.mark.parametrize("services", [1, 2])
def test_kills_lose_and_double_nothing_in_postgres(postgres, tmp_path, services):
    """Of two services that share a database, one is killed at a time."""
    store = postgres.new_database()
    require_clean(*faults.hammer(store, tmp_path, faults.kills(5), services=services))


def test_the_database_restarts_underneath(postgres, tmp_path):
    fault = faults.restarts(postgres, 2)
    verdict, record = faults.hammer(postgres.new_database(), tmp_path, fault, services=2)
    require_clean(verdict, record)
    assert record.statuses[503] > 0


@pytest.mark.usefixtures("strace")
@pytest.mark.parametrize("errors", ["fsync,fdatasync:error=EIO", "pwrite64:error=ENOSPC"])
def test_a_disk_that_fails_is_told_and_recovers(errors, tmp_path):
    fault = faults.failing_disk(2, lambda services: [s.pid for s in services], errors)
    verdict, record = faults.hammer(tmp_path / "s.db", tmp_path, fault)
    require_clean(verdict, record)
    assert record.statuses[503] > 0


def test_files_that_cannot_grow_are_told_and_recover(tmp_path):
    verdict, record = faults.hammer(tmp_path / "s.db", tmp_path, faults.small_files(2, 4096))
    require_clean(verdict, record)
    assert record.statuses[503] > 0


def test_the_audit_sees_what_is_lost_doubled_or_changed(tmp_path):
    """The tests above could not fail otherwise."""

    async def wait(_, draw, record):
        await faults.progress(record, draw, 60)
        await faults.reach(lambda: record.acknowledged >= 60)

    store = tmp_path / "s.db"
    verdict, record = faults.hammer(store, tmp_path, wait)
    require_clean(verdict, record)
    experiment, name = next(key for key in record.decided if key[0] == "own")
    with sqlite3.connect(store) as file:
        file.execute("UPDATE events SET decision = 'other' WHERE decision = ?", (name,))
    assert (experiment, "decided", name) in audit(str(store), record).lost
    with sqlite3.connect(store) as file:
        file.execute("UPDATE events SET decision = ? WHERE decision = 'other'", (name,))
        file.execute("UPDATE events SET arm = (arm + 1) % 5 WHERE kind = 'decided'")
    broken = audit(str(store), record)
    assert broken.wrong
    assert broken.replay
    with sqlite3.connect(store) as file:
        file.execute("UPDATE events SET decision = ? WHERE kind = 'decided'", (name,))
    assert audit(str(store), Record()).doubled


def test_a_stop_finishes_what_was_accepted(tmp_path):
    store = tmp_path / "s.db"
    key = prepare(store)
    with ServiceProcess(store, tmp_path / "log") as service:

        async def play():
            first = Client(service.port, key)
            body = {"name": "own", "settings": EXPERIMENTS["own"]}
            assert (await first.ask("/v1/experiments", body))[0] == 201
            clients = [Client(service.port, key) for _ in range(20)]
            for number, client in enumerate(clients):  # connect, and compile what is left
                await client.ask("/v1/experiments/own/decisions", {"instance": f"{number}"})
            asked = [
                asyncio.ensure_future(
                    client.ask(
                        "/v1/experiments/own/decisions",
                        {"instance": f"{number}", "decision_id": f"last {number}"},
                    )
                )
                for number, client in enumerate(clients)
            ]
            await asyncio.sleep(0.02)  # they are on their way
            os.kill(service.pid, signal.SIGTERM)
            answers = await asyncio.gather(*asked, return_exceptions=True)
            for client in (first, *clients):
                client.close()
            return answers

        answers = asyncio.run(play())
        service.stop()
    told = [answer[2] for answer in answers if not isinstance(answer, Lost) and answer[0] == 200]
    assert len(told) == 20
    with open_store(store) as opened:
        kept = {d.id: d.number for d in opened.decisions(1, [t["decision_id"] for t in told])}
    assert kept == {t["decision_id"]: t["number"] for t in told}
    assert "Traceback" not in (tmp_path / "log").read_text()


class StuckStore:
    """A store whose transactions wait."""

    def __init__(self):
        self.go_on = threading.Event()

    def begin(self):
        self.go_on.wait()
        raise StoreError("the disk is gone")

    def roll_back(self):
        pass

    def late_decisions(self, *_):
        return []

    def close(self):
        pass


def test_more_than_can_wait_is_sent_away(refused):
    store, answers = StuckStore(), []
    writer = Writer(store, most_waiting=5)
    jobs = [Job("e", lambda work, at: None, answers.append) for _ in range(20)]
    writer.submit(jobs[0])
    while writer.waiting:  # the writer has it
        time.sleep(0.001)
    for job in jobs[1:6]:
        writer.submit(job)
    for job in jobs[6:]:
        with refused(Refused, "too many requests wait"):
            writer.submit(job)
    store.go_on.set()
    writer.close()
    assert [answer.status for answer in answers] == [503] * 6  # nobody was left without an answer
    with refused(Refused, "stopping"):
        writer.submit(jobs[0])


def test_a_service_that_is_too_busy_says_when_to_come_again(tmp_path):
    store = tmp_path / "s.db"
    key = prepare(store)
    with ServiceProcess(store, tmp_path / "log", most_waiting=4) as service:

        async def play():
            first = Client(service.port, key)
            body = {"name": "own", "settings": EXPERIMENTS["own"]}
            await first.ask("/v1/experiments", body)
            items = [
                {"path": "/experiments/own/decisions", "body": {"instance": f"{number}"}}
                for number in range(200)
            ]
            answer = await first.ask("/v1/batch", {"requests": items})
            first.close()
            return answer

        status, _, answer = asyncio.run(play())
    assert status == 200
    statuses = {entry["status"] for entry in answer["answers"]}
    assert statuses == {200, 503}
    busy = [e["error"]["code"] for e in answer["answers"] if e["status"] == 503]
    assert set(busy) == {"busy"}
    assert json.dumps(answer)
