"""The service under faults, with a million instances, and what its A/B test finds.

``python -m benchmarks.live faults 200`` · ``known 1000000`` · ``worth 2000`` · ``alarms 100``
"""

import argparse
import subprocess
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.live import faults
from benchmarks.live.postgres import PostgresServer


def main():
    parser = argparse.ArgumentParser(prog="python -m benchmarks.live", description=__doc__)
    parser.add_argument("what", choices=["faults", "known", "worth", "alarms"])
    parser.add_argument(
        "times", type=int, nargs="?", default=200, help="kills, instances, users, or shops"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="a part of the name of a fault; own or shared")
    parser.add_argument("--keep", help="folder of stores that are known already, or will be")
    options = parser.parse_args()
    if options.what == "faults":
        with PostgresServer() as server:
            show_faults(server, options)
        return
    if options.what == "known":
        from benchmarks.live.knowing import measure

        lines = measure(options.times, options.only, options.keep)
    else:
        from benchmarks.live import evidence

        find = evidence.worth if options.what == "worth" else evidence.false_alarms
        lines = find(options.times, options.seed)
    for line in lines:
        print(line, flush=True)


def show_faults(server, options):
    """Play all faults and print what was lost, doubled or wrong."""
    table = Table(title="Faults under load")
    for name in (
        "fault", "store", "services", "faults", "acknowledged", "503", "no answer",
        "lost", "doubled", "wrong", "replay", "seconds",
    ):  # fmt: skip
        table.add_column(name)
    for name, store, services, times, play in cases(server, options.times):
        if options.only and options.only not in name:
            continue
        start = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            verdict, record = play(Path(folder), services, options.seed)
        row = (
            name, store, services, times, verdict.acknowledged, record.statuses[503], record.lost,
            len(verdict.lost), len(verdict.doubled), len(verdict.wrong),
            f"{len(verdict.replay)} differ" if verdict.replay else "as served",
            round(time.monotonic() - start),
        )  # fmt: skip
        table.add_row(*map(str, row))
        print(*row, sep=" | ", flush=True)
        for found in (*verdict.lost[:3], *verdict.doubled[:3], *verdict.wrong[:3], *verdict.replay):
            print("   ", found)
    Console(width=160).print(table)


def cases(server, times):
    """Yield name, store, services, faults and a function that plays them."""
    some = max(times // 10, 1)

    def on_sqlite(make):
        def play(folder, services, seed):
            return faults.hammer(folder / "s.db", folder, make(folder), seed=seed)

        return play

    def on_postgres(make):
        def play(folder, services, seed):
            store = server.new_database()
            return faults.hammer(store, folder, make(folder), services=services, seed=seed)

        return play

    half = max(times // 2, 1)
    yield "kill -9", "SQLite", 1, half, on_sqlite(lambda _: faults.kills(half))
    yield "kill -9", "PostgreSQL", 1, half // 2, on_postgres(lambda _: faults.kills(half // 2))
    rest = max(times - half - half // 2, 1)
    yield "kill -9", "PostgreSQL", 2, rest, on_postgres(lambda _: faults.kills(rest))
    yield (
        "database restarted",
        "PostgreSQL",
        2,
        some,
        on_postgres(lambda _: faults.restarts(server, some)),
    )
    yield (
        "fsync fails",
        "SQLite",
        1,
        some,
        on_sqlite(lambda _: faults.failing_disk(some, lambda services: [s.pid for s in services])),
    )
    yield (
        "fsync fails",
        "PostgreSQL",
        1,
        some,
        on_postgres(lambda _: faults.failing_disk(some, lambda _: server.processes())),
    )
    yield (
        "writes fail",
        "SQLite",
        1,
        some,
        on_sqlite(
            lambda _: faults.failing_disk(
                some, lambda services: [s.pid for s in services], "pwrite64:error=ENOSPC"
            )
        ),
    )
    yield "file too large", "SQLite", 1, some, on_sqlite(lambda _: faults.small_files(some, 4096))

    def on_a_disk(size):
        def play(folder, services, seed):
            mount = ["mount", "-t", "tmpfs", "-o", f"size={size}m", "tmpfs", folder]
            subprocess.run(mount, check=True)
            try:
                return faults.hammer(
                    folder / "s.db", folder.parent, faults.full_disk(some, folder), seed=seed
                )
            finally:
                subprocess.run(["umount", folder], check=True)

        return play

    for size in (48, 8):
        yield f"disk of {size} MB full", "SQLite", 1, some, on_a_disk(size)


if __name__ == "__main__":
    main()
