"""Compare shares lost with the truth of made-up logs, for docs/explanation/influence_test.md.

python docs/measurements/shares_lost.py [RUNS] [--seed SEED] [--world WORLD] [--own-only]
"""

import argparse
import sys
from pathlib import Path

import numpy as np

import influential_bandits as ib

sys.path.insert(0, str(Path(__file__).parent))

from click_events import ClickWorld, draw_click_events

CLICKS = {
    "clicks, fatigue by events, small": {"fatigue": 0.1},
    "clicks, fatigue by events": {"fatigue": 0.25},
    "clicks, boost by events": {"fatigue": -0.15},
    "clicks, fatigue of a half-life of two days": {"fatigue": 0.15, "half_life_days": 2.0},
    "clicks, all arms alike": {"common_fatigue": 0.08, "half_life_days": 2.0},
}
NUMBERS = {"numbers, small": 0.02, "numbers, large": 0.3}


def draw_clicks(settings: dict[str, float], seed: int) -> tuple[ib.EventLog, float]:
    """Return a log, and the share of clicks that influence took."""
    world = ClickWorld(**settings)
    events = draw_click_events(600, 60, 6, world, seed=seed)
    truth = events["lost"].sum() / (events["lost"].sum() + events["chance"].sum())
    columns = {name: events[name] for name in ("user", "time", "arm", "item", "click")}
    roles = {"instance": "user", "arm": "arm", "item": "item", "time": "time", "reward": "click"}
    return ib.read_log(columns, **roles), truth


def draw_numbers(size: float, seed: int) -> tuple[ib.EventLog, float]:
    """Return a log of losses that may be any number, and the share that influence adds."""
    planted = size * np.eye(6)
    settings = {"initial_loss": 1.0, "memory": 0.8, "spread": 0.3, "steering": 1.0}
    log = ib.data.synthetic_log(600, 60, 6, interaction=planted, seed=seed, **settings)
    counts, lost = np.zeros((600, 6)), 0.0
    for n in range(60):
        arm = log.arm[log.offsets[:-1] + n]
        lost += size * counts[np.arange(600), arm].sum() / len(log)
        counts *= 0.8
        counts[np.arange(600), arm] += 1.0
    return log, lost / np.abs(log.loss).mean()


def estimate(log: ib.EventLog, truth: float, fading: ib.Fading, interaction: str) -> list[float]:
    """Return the truth, the estimate, and whether the interval holds the truth."""
    model = ib.InfluenceModel(interaction, drift=True, pooling="full", fading=fading)
    share = ib.measure_impact(model.fit(ib.adjust_losses(log), execution=1), log).share
    return [truth, share.value, share.low <= truth <= share.high]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=int, nargs="?", default=32)
    parser.add_argument("--world", help="one of them alone")
    parser.add_argument("--seed", type=int, default=800_000, help="of the first log")
    parser.add_argument("--own-only", action="store_true", help="fit no arms on each other")
    given = parser.parse_args()
    interaction = "diagonal" if given.own_only else "symmetric"
    print(f"| world, {given.runs} logs | truly taken | estimated | 95 % intervals that hold it |")
    print("|---|---|---|---|")
    for row, (name, world) in enumerate((CLICKS | NUMBERS).items()):
        if given.world not in (None, name):
            continue
        first = given.seed + 10_000 * row
        found = []
        for seed in range(first, first + given.runs):
            if name in CLICKS:
                fading = ib.Fading(half_life=48.0) if "half_life_days" in world else ib.Fading(0.8)
                found.append(estimate(*draw_clicks(world, seed), fading, interaction))
            else:
                found.append(estimate(*draw_numbers(world, seed), ib.Fading(0.8), interaction))
        truth, share, held = 100.0 * np.mean(found, axis=0)
        print(f"| {name} | {truth:.1f} % | {share:.1f} % | {held:.0f} % |", flush=True)
