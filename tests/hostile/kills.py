"""SIGKILL, or a full disk, in the middle of writing: the old or the new, never half of it."""

import contextlib
import os
import resource
import shutil
import signal
import sys
import time
import traceback

import influential_bandits as ib
from hostile.agents import ARMS
from hostile.judging import HANG, LOST, OTHER, RAW, demand, prepared, shared, tell
from hostile.pieces import contents, piece_files
from influential_bandits.cli import main
from influential_bandits.errors import InfluentialBanditsError


def in_child(function, *, kill_after=None, limit=50.0, said=None):
    """Run a function in a copy of this process, which is killed then; return its status."""
    child = os.fork()
    if child == 0:
        status = 70
        with contextlib.suppress(BaseException):
            if said is not None:
                file = os.open(said, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
                os.dup2(file, 2)
            status = _status(function)
        os._exit(status)
    end = time.monotonic() + (limit if kill_after is None else kill_after)
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            demand(kill_after is not None, HANG, f"no end after {limit:.0f} s")
            return -signal.SIGKILL
        time.sleep(0.0003)


def _status(function):
    try:
        function()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001 - its traceback is what is looked for
        traceback.print_exc()
        return 71
    return 0


@prepared
def savers():
    """Return by kind two functions that save different things to a path."""
    agents = [ib.Agent(ib.SlidingWindowLCB(), ARMS, seed) for seed in (1, 2)]
    for agent in agents:
        for _ in range(20 + agent.seed):
            agent.observe(agent.pull(), 0.5)
    worlds = [ib.random_instance(60, seed) for seed in (1, 2)]
    logs = [ib.data.synthetic_log(30, 20, 2, seed=seed) for seed in (1, 2)]
    models = [ib.StationaryModel().fit(log) for log in logs]
    runs = [ib.simulate(ib.random_instance(3, s), ib.LCB(), 200, seeds=range(50)) for s in (1, 2)]
    return {
        "Agent.save": [agent.save for agent in agents],
        "Instance.save": [world.save for world in worlds],
        "LossModel.save": [model.save for model in models],
        "Trajectory.save": [run.save for run in runs],
    }


def play_save(draw, home):
    """Kill a process that saves again and again, or let its disk be full."""
    kind = draw.choice(sorted(savers()))
    first, second = savers()[kind]
    path = home / "folder" / "file"
    path.parent.mkdir()
    good = []
    for save in (second, first):
        save(home / "file")
        good.append((home / "file").read_bytes())
    shutil.copy(home / "file", path)
    size = path.stat().st_size
    if draw.random() < 0.25:
        room = draw.randrange(size)
        tell(f"{kind}: disk full after {room:,} of {size:,} bytes")
        status = in_child(lambda: _refused(lambda: second(path), room))
        demand(status == 0, RAW, f"not refused as an error of the package, exit status {status}")
    else:
        after = draw.random() * 0.02
        tell(f"{kind}: killed after {1000 * after:.1f} ms")
        in_child(lambda: _forever(second, first, path), kill_after=after)
    demand(path.exists(), LOST, "the file is gone")
    demand(path.read_bytes() in good, LOST, f"cut: {path.stat().st_size:,} of {size:,} bytes")
    in_child(lambda: first(path))  # the next process
    left = sorted(p.name for p in path.parent.iterdir() if p != path)
    demand(not left, OTHER, f"temporary files stay behind when it is saved again: {left}")


def _forever(first, second, path):
    while True:
        first(path)
        second(path)


def _refused(save, room):
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
    with contextlib.suppress(InfluentialBanditsError):
        save()


COMMANDS = {
    "reproduce": "figure-1b --tiny --seeds 15 --out {out}",
    "compare": "--policies LCB,Uniform --families random-3 --horizons 30 --instances 12 "
    "--out {out}",
    "fit": "{log} --instance user --arm item --time time --loss loss --memory 1 "
    "--ridge 1 --pooling none --out {out}/model.json",
}


def command(name, out, log):
    """Return a function that runs a command as a user does."""

    def run():
        words = [word.format(out=out, log=log) for word in COMMANDS[name].split()]
        sys.argv = ["influential-bandits", name, *words]
        main()

    return run


@prepared
def undisturbed(name):
    """Return how long a command takes, a log for it, and what it makes of it."""
    home = shared / f"{name} {os.getpid()}"
    (home / "log").mkdir(parents=True)
    log = ib.data.synthetic_log(8, 20, 2, seed=5).to_frame().rename(columns={"instance": "user"})
    log.to_parquet(home / "log" / "events.parquet")
    for _ in range(2):  # the first one may compile
        shutil.rmtree(home / "out", ignore_errors=True)
        start = time.monotonic()
        status = in_child(command(name, home / "out", home / "log"), limit=500.0)
        demand(status == 0, RAW, f"{name} ended with {status}")
    return time.monotonic() - start, home / "log", contents(home / "out")


def play_command(draw, home):
    """Kill a command at some moment, once or twice, and run it to its end."""
    name = draw.choice(sorted(COMMANDS))
    seconds, log, expected = undisturbed(name)
    out = home / "out"
    run = command(name, out, log)
    moments = [draw.random() * seconds for _ in range(draw.choice((1, 2)))]
    tell(f"{name}: killed after {', '.join(f'{s:.2f}' for s in moments)} of {seconds:.2f} s")
    for moment in moments:
        in_child(run, kill_after=moment)
        kept = {path: path.read_bytes() for path in piece_files(out)} if out.exists() else {}
    status = in_child(run, said=home / "said")
    said = (home / "said").read_text()
    demand(status == 0 and "Traceback" not in said, RAW, f"exit status {status}: {said[-200:]}")
    for path, data in kept.items():
        same = path.exists() and path.read_bytes() == data
        demand(same, LOST, f"{path.name} is gone or another one")
    demand(contents(out) == expected, OTHER, "another result than without the kill")
    left = [p.name for p in out.rglob("*") if p.name.endswith(".tmp") or p.name.startswith(".")]
    demand(not left, OTHER, f"temporary files stay behind: {left}")
