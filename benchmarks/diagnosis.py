"""How long a diagnosis takes, by the number of arms, with compiled code on disk.

``python -m benchmarks --only diagnosis``. Beyond 40 arms each is looked at on itself alone.
"""

import tempfile
import time
from pathlib import Path

import influential_bandits as ib
from benchmarks.timing import within
from docs.measurements.click_events import ClickWorld, draw_click_events

EVENTS = 60  # of a user
ROLES = {"instance": "user", "arm": "arm", "item": "item", "time": "time", "reward": "click"}
LIMITS = {6: None, 100: 20.0}  # arms, and the seconds aimed at for a million events


def rows(quick):
    users = 16_667 // (10 if quick else 1)
    for arms, limit in LIMITS.items():
        diagnose(arms, 200)  # compiles
        seconds = diagnose(arms, users)
        what = f"diagnosis of {arms} arms and {users * EVENTS:,} events, with report and model"
        note = "" if limit else "for comparison"
        yield within(what, seconds, "s", limit or 20.0, must=False, note=note)


def diagnose(arms, users):
    """Return the seconds that it takes."""
    world = ClickWorld(fatigue=0.2)
    events = draw_click_events(users, EVENTS, arms, world, seed=5)
    log = ib.read_log({name: events[name] for name in ROLES.values()}, **ROLES)
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        ib.diagnose(log, progress=False).save(Path(folder))
        return time.perf_counter() - start
