"""Compare what repeated showings cost with the truth (docs/explanation/influence_test.md).

python docs/measurements/showing_curves.py [LOGS]
"""

import sys
from pathlib import Path

import numpy as np

import influential_bandits as ib
from influential_bandits.learning.controls import list_controls
from influential_bandits.learning.showing_curves import measure_showings
from influential_bandits.world.fading import Fading

sys.path.insert(0, str(Path(__file__).parent))

from click_events import ClickWorld, draw_click_events

WORLDS = {
    "nothing": {},
    "choices follow taste": {"personalised": 1.5},
    "choices follow past clicks": {"steering": 3.0},
    "drift": {"drift": 0.7},
    "places in a session": {"position": 0.15},
    "interest of a session moves both": {"interest": 0.7},
    "fatigue": {"fatigue": 0.25},
    "fatigue, choices follow taste": {"fatigue": 0.25, "personalised": 1.5},
    "fatigue, choices follow past clicks": {"fatigue": 0.25, "steering": 3.0},
}
FIRST_SEED = 9_000_000


def judge(settings: dict[str, float], seed: int) -> list[float]:
    """Return lost clicks per event: truly, adjusted, as logged; and whether all intervals hold."""
    events = draw_click_events(600, 60, 6, ClickWorld(**settings), seed=seed)
    columns = {name: events[name] for name in ("user", "time", "arm", "click")}
    log = ib.read_log(columns, instance="user", arm="arm", time="time", reward="click")
    controls = list_controls(log)
    adjusted = ib.adjust_losses(log)
    curves = measure_showings(log, adjusted, Fading(0.8), controls=controls).arms
    arm = np.asarray(events["arm"]).astype(str)
    truth = {curve.arm: events["lost"][arm == curve.arm].mean() for curve in curves}
    shares = np.array([curve.n_events for curve in curves]) / len(log)
    holds = all(curve.lost.low <= truth[curve.arm] <= curve.lost.high for curve in curves)
    raw = [curve.raw[0].value + curve.mean_loss for curve in curves]
    lost = [curve.lost.value for curve in curves]
    return [shares @ list(truth.values()), shares @ lost, shares @ raw, holds]


if __name__ == "__main__":
    logs = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    print("| world | lost truly | adjusted | as logged | logs in which all intervals hold it |")
    print("|---|---|---|---|---|")
    for row, (name, settings) in enumerate(WORLDS.items()):
        first = FIRST_SEED + 10_000 * row
        table = np.array([judge(settings, seed) for seed in range(first, first + logs)])
        true, adjusted, raw, _ = table.mean(axis=0)
        print(f"| {name} | {true:.3f} | {adjusted:.3f} | {raw:.3f} | {table[:, 3].sum():.0f} |")
