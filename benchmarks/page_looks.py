"""How long a look at the page takes after many decisions: ``python -m benchmarks.page_looks``.

A store is filled with made-up events, served by the command, and looked at over HTTP: reports, of
which the first reads all events, and then looks with decisions beside.
"""

import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import requests

from influential_bandits.live.keys import make_key
from influential_bandits.live.settings import Settings
from influential_bandits.live.store.opening import open_store
from influential_bandits.live.writer import Writer

ARMS, INSTANCES, DAYS = 20, 20_000, 30.0
PORT = 8377


def fill(path, decisions):
    """Write made-up decisions with feedback, evenly over a month."""
    rng, now = random.Random(0), time.time()
    start = now - DAYS * 86400
    writer = Writer(open_store(path), clock=lambda: start)
    arms = tuple(f"arm {k}" for k in range(ARMS))
    settings = Settings(arms=arms, policy="LCB", control_share=0.5)
    writer.ask("", lambda work, at: work.create_experiment("shop", settings, at))
    writer.close()
    key, row = make_key("benchmark", "admin", None, now)
    store = open_store(path)
    store.begin()
    store.add_key(row)
    groups = [rng.choice(("policy", "control")) for _ in range(INSTANCES)]
    store.run_many(
        "INSERT INTO instances VALUES (1, ?, ?, ?, ?, 0.5)",
        [(n + 1, f"user {n}", groups[n], start) for n in range(INSTANCES)],
    )
    pulls = [0] * INSTANCES
    events, rows = [], []
    for k in range(decisions):
        at = start + (now - start) * k / decisions
        user, arm, loss = rng.randrange(INSTANCES), rng.randrange(ARMS), rng.gauss(0.0, 1.0)
        pulls[user] += 1
        number, name = 2 * k + 2, f"{k:024x}"
        data = '{"p":1.0,"expected":0.5}'
        events.append(
            (1, number, user + 1, "decided", at, name, pulls[user], arm, None, data, None)
        )
        events.append(
            (1, number + 1, user + 1, "observed", at, name, pulls[user], arm, loss, None, None)
        )
        told = (1.0, 0.5, 0, None, number, pulls[user], "observed", loss, None)
        rows.append((1, name, user + 1, "0" * 16, at, groups[user], arm, *told))
        if len(rows) == 50_000 or k == decisions - 1:
            store.run_many(f"INSERT INTO events VALUES ({', '.join('?' * 11)})", events)
            store.run_many(f"INSERT INTO decisions VALUES ({', '.join('?' * 16)})", rows)
            events, rows = [], []
    store.run("UPDATE experiments SET events = ?, instances = ?", (2 * decisions + 1, INSTANCES))
    store.commit()
    store.close()
    return key


def log_in(address, key):
    """Return a session that has logged in."""
    session = requests.Session()
    headers = {"Origin": address}
    session.post(f"{address}/login", data={"key": key}, headers=headers).raise_for_status()
    return session


def look(session, address, path):
    """Return how long a look takes, in milliseconds, and what came."""
    started = time.perf_counter()
    answer = session.get(address + path, headers={"Accept": "application/json"})
    took = 1e3 * (time.perf_counter() - started)
    answer.raise_for_status()
    return took, answer.json()


def cpu_seconds(process):
    """Return the CPU time of a process (Linux): wall clock means little on a busy machine."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(address, key, decisions, process):
    """Print the figures."""
    session = log_in(address, key)
    for span in ("all", "all", "hour"):
        cpu, path = cpu_seconds(process), f"/v1/experiments/shop/report?span={span}"
        took, report = look(session, address, path)
        assert report["totals"]["decisions"] == decisions
        print(
            f"{'report of ' + span:<34} {took:8.0f} ms, {cpu_seconds(process) - cpu:.1f} s of CPU"
        )
    for name, path in (
        ("everything", "/experiments/shop?span=all"),
        ("last hour", "/experiments/shop"),
        ("home", "/"),
        ("an instance", "/experiments/shop/instances/user%2017"),
    ):
        session.get(address + path)
        looks, cpu = [], cpu_seconds(process)
        for n in range(12):
            requests.post(
                f"{address}/v1/experiments/shop/decisions",
                json={"instance": f"user {n}"},
                headers={"Authorization": f"Bearer {key}"},
            ).raise_for_status()
            time.sleep(1.1)
            looks.append(look(session, address, path)[0])
        each = 1e3 * (cpu_seconds(process) - cpu) / len(looks)
        print(
            f"{name + ', median, largest':<34} {_both(looks)} ms, {each:.0f} ms CPU with a decision"
        )


def _both(values):
    return f"{statistics.median(values):8.0f} {max(values):8.0f}"


def main():
    """Fill a store, serve it, and look."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--decisions", type=int, default=1_000_000)
    decisions = parser.parse_args().decisions
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.db"
        started = time.monotonic()
        key = fill(path, decisions)
        size = path.stat().st_size / 1e6
        print(
            f"{decisions:,} decisions, {size:.0f} MB, written in {time.monotonic() - started:.0f} s"
        )
        command = [sys.executable, "-m", "influential_bandits", "serve", "--store", str(path)]
        with subprocess.Popen([*command, "--port", str(PORT)], stdout=subprocess.DEVNULL) as served:
            try:
                address = f"http://127.0.0.1:{PORT}"
                for _ in range(1200):
                    try:
                        requests.get(f"{address}/health")
                        break
                    except requests.ConnectionError:
                        time.sleep(0.1)
                measure(address, key, decisions, served.pid)
            finally:
                served.terminate()


if __name__ == "__main__":
    main()
