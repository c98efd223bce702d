"""Count how often made-up click logs fool the test (docs/explanation/influence_test.md).

python docs/measurements/confounders.py [RUNS] [WORLD …] [--seed SEED] [--without-controls]
"""

import argparse
import sys
from pathlib import Path

import numpy as np
from scipy.stats import beta

import influential_bandits as ib

sys.path.insert(0, str(Path(__file__).parent))

from click_events import ClickWorld, draw_click_events

NOTHING = {
    "nothing": {},
    "calendar trend": {"trend": 2.0},
    "survivorship": {"leaving": 0.03},
    "position decay": {"position": 0.15},
    "heavy users": {"heavy_users": True},
    "steering to clicks": {"steering": 3.0},
    "retargeting": {"retargeting": 0.5},
    "duplicates": {"duplicates": 0.05},
    "bots": {"bots": 0.05},
    "drift": {"drift": 0.7},
    "personalised": {"personalised": 1.5},
    "arms with trends of their own, and the mix shifts": {"arm_trends": 1.5},
    "the hour acts on arms, and the mix follows it": {"hours": 0.7},
    "the best items of an arm come first": {"best_items_first": 0.7},
    "interest of a session moves choices and clicks": {"interest": 0.7},
}
INFLUENCE = {
    "fatigue, by events": {"fatigue": 0.25},
    "fatigue, half-life of two days": {"fatigue": 0.15, "half_life_days": 2.0},
    "fatigue of all arms alike, half-life of two days": {
        "common_fatigue": 0.08,
        "half_life_days": 2.0,
    },
}


def draw(settings: dict[str, float], seed: int) -> tuple[ib.EventLog, float]:
    """Return a log, and the true share of clicks that influence took."""
    world = ClickWorld(**settings)
    events = draw_click_events(600, 60, 6, world, seed=seed)
    lost = events["lost"].sum() / (events["lost"].sum() + events["click"].sum())
    columns = {name: events[name] for name in ("user", "time", "arm", "item", "click")}
    roles = {"instance": "user", "arm": "arm", "item": "item", "time": "time", "reward": "click"}
    return ib.read_log(columns, **roles), lost


def judge(settings: dict[str, float], controlled: bool, seed: int) -> list[float]:
    """Return whether something was seen, whether it is called real, and the true share lost.

    Placebo checks cost as much again, and change nothing where nothing was seen.
    """
    log, lost = draw(settings, seed)
    how = {"permutations": 199, "seed": seed, "execution": 1, "progress": False}
    if not controlled:
        how |= {"controls": (), "fading": 0.8}
    seen = ib.influence_test(log, placebo=False, **how).detected
    doubted = bool(seen and controlled and ib.influence_test(log, **how).doubts)
    return [seen, seen and not doubted, lost]


def find_interval(share: float, runs: int) -> str:
    """Return the 95 % binomial interval of a share, by Clopper and Pearson, in percent."""
    hits = round(share * runs)
    low = beta.ppf(0.025, hits, runs - hits + 1) if hits else 0.0
    high = beta.ppf(0.975, hits + 1, runs - hits) if hits < runs else 1.0
    return f"{100 * low:.0f} … {100 * high:.0f}"


def print_alarms(runs: int, seed: int, wanted: list[str], controlled: bool) -> None:
    """Print how often something is seen, and called real."""
    print(f"| world, {'with' if controlled else 'without'} controls | logs | lost | seen | real |")
    print("|---|---|---|---|---|")
    for row, (name, settings) in enumerate((NOTHING | INFLUENCE).items()):
        if wanted and name not in wanted:
            continue
        # Worlds of the same seed share most of what is drawn: rows would go wrong together.
        first = seed + 10_000 * row
        found = [judge(settings, controlled, n) for n in range(first, first + runs)]
        seen, real, lost = np.mean(found, axis=0)
        print(
            f"| {name} | {runs} | {100 * lost:.0f} % | {100 * seen:.1f} % "
            f"({find_interval(seen, runs)}) | {100 * real:.1f} % |",
            flush=True,
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=int, nargs="?", default=32)
    parser.add_argument("worlds", nargs="*", help="names of rows; by default all")
    parser.add_argument("--seed", type=int, default=500_000, help="of the first log")
    parser.add_argument("--without-controls", action="store_true")
    given = parser.parse_args()
    print_alarms(given.runs, given.seed, given.worlds, not given.without_controls)
