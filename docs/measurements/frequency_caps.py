"""Compare what caps promise with what they deliver (docs/explanation/plans.md).

python docs/measurements/frequency_caps.py [RUNS] [--seed SEED] [--world WORLD] [--own-only]
"""

import argparse
import sys
from pathlib import Path

import numpy as np
from scipy.stats import beta

import influential_bandits as ib

sys.path.insert(0, str(Path(__file__).parent))

from click_events import ClickWorld, draw_click_events

WORLDS = {
    "clicks, small fatigue by events": {"fatigue": 0.1},
    "clicks, fatigue by events": {"fatigue": 0.25},
    "clicks, strong fatigue by events": {"fatigue": 0.6},
    "clicks, fatigue of a half-life of two days": {"fatigue": 0.15, "half_life_days": 2.0},
    "clicks, fatigue by events, choices follow taste": {"fatigue": 0.25, "personalised": 1.0},
    "clicks, no fatigue": {},
    "clicks, fatigue by events, choices follow taste closely": {
        "fatigue": 0.25,
        "personalised": 2.0,
    },
    "clicks, fatigue of all arms alike": {"common_fatigue": 0.12, "half_life_days": 2.0},
    "clicks, boost by events": {"fatigue": -0.15},
}


def read_clicks(events: dict[str, np.ndarray]) -> ib.EventLog:
    """Return a log of these events."""
    columns = {name: events[name] for name in ("user", "time", "arm", "item", "click")}
    roles = {"instance": "user", "arm": "arm", "item": "item", "time": "time", "reward": "click"}
    return ib.read_log(columns, **roles)


def compare(settings: dict[str, float], seed: int, interaction: str) -> list[float]:
    """Return promise, delivery, whether the interval holds it, any loss, arms, doubt and ends."""
    world = ClickWorld(**settings)
    log = read_clicks(draw_click_events(600, 60, 6, world, seed=seed))
    fading = ib.Fading(half_life=48.0) if "half_life_days" in settings else ib.Fading(0.8)
    model = ib.InfluenceModel(interaction, drift=True, pooling="full", fading=fading)
    adjusted = ib.adjust_losses(log)
    impact = ib.measure_impact(model.fit(adjusted, execution=1), log)
    advice = ib.advise_caps(model, adjusted, impact, seed=seed, execution=1)
    gain, capped = advice.gain, len(advice.caps)
    if not capped:
        return [np.nan, np.nan, np.nan, np.nan, 0.0, float(advice.doubt != ""), np.nan, np.nan]
    # The same arms, ten times as many users, and chances instead of clicks.
    many = [
        draw_click_events(6000, 60, 6, world, seed=seed, caps=caps)["chance"].mean()
        for caps in ((), advice.caps)
    ]
    delivered = many[1] - many[0]
    held, safe = gain.low <= delivered <= gain.high, delivered >= 0.0
    return [gain.value, delivered, held, safe, capped, 0.0, gain.low, gain.high]


def print_row(name: str, table: np.ndarray) -> None:
    """Print how often there are caps, what they promise, and what they deliver."""
    found = table[table[:, 4] > 0]
    counts = f"{len(found)} of {len(table)} | {table[:, 5].sum():.0f} of {len(table)}"
    if not len(found):
        print(f"| {name} | {counts} | | | | | |", flush=True)
        return
    promised, delivered = found[:, :2].mean(axis=0)
    held, short = int(found[:, 2].sum()), int((found[:, 1] < found[:, 6]).sum())
    missed = len(found) - held
    # By Clopper and Pearson.
    low = beta.ppf(0.025, held, missed + 1) if held else 0.0
    high = beta.ppf(0.975, held + 1, missed) if missed else 1.0
    losses = int((found[:, 3] == 0.0).sum())
    print(
        f"| {name} | {counts} | {promised:.4f} | {delivered:.4f} | {held} of {len(found)} "
        f"({100 * low:.0f} … {100 * high:.0f} %) | {short} | {losses} |",
        flush=True,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=int, nargs="?", default=16)
    parser.add_argument("--seed", type=int, default=700_000, help="of the first world")
    parser.add_argument("--world", help="one of them alone")
    parser.add_argument("--own-only", action="store_true", help="fit no arms on each other")
    given = parser.parse_args()
    interaction = "diagonal" if given.own_only else "symmetric"
    print(
        "| world | logs with a cap | not supported for taste | promised | delivered | "
        "interval holds it | delivers less | at a loss |"
    )
    print("|---" * 8 + "|")
    tables = []
    for row, (name, settings) in enumerate(WORLDS.items()):
        if given.world not in (None, name):
            continue
        # Worlds of the same seed share most of what is drawn: rows would go wrong together.
        first = given.seed + 10_000 * row
        rows = [compare(settings, n, interaction) for n in range(first, first + given.runs)]
        tables.append(np.array(rows))
        print_row(name, tables[-1])
    print_row("all", np.concatenate(tables))
