"""Count how often made-up click logs fool the test of influence: a table of docs/learning.md.

python docs/confounders.py [RUNS] [WORLD …]
"""

import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import numpy as np

import influential_bandits as ib

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
    "fatigue, half-life of two days": {"fatigue": 0.15, "half_life": 2.0},
    "fatigue of all arms alike, half-life of two days": {"common_fatigue": 0.08, "half_life": 2.0},
}


def draw(settings: dict[str, float], seed: int) -> tuple[ib.EventLog, float]:
    """Return a log, and the true share of clicks that influence took."""
    world = ib.data.ClickWorld(**settings)
    events = ib.data.draw_click_events(600, 60, 6, world, seed=seed)
    lost = events["lost"].sum() / (events["lost"].sum() + events["click"].sum())
    columns = {name: events[name] for name in ("user", "time", "arm", "item", "click")}
    roles = {"instance": "user", "arm": "arm", "item": "item", "time": "time", "reward": "click"}
    return ib.read_log(columns, **roles), lost


def judge(settings: dict[str, float], controlled: bool, seed: int) -> list[float]:
    """Return whether something was seen, whether it is called real, and the true share lost."""
    log, lost = draw(settings, seed)
    how = {} if controlled else {"controls": (), "memory": 0.8, "placebo": False}
    found = ib.influence_test(log, permutations=199, seed=seed, execution=1, progress=False, **how)
    return [found.detected, found.detected and not found.doubts, lost]


def estimate(settings: dict[str, float], seed: int) -> list[float]:
    """Return the true share lost, the estimated one, and whether its interval holds the truth."""
    log, lost = draw(settings, seed)
    fading = {"half_life": 2.0} if "half_life" in settings else {"memory": 0.8}
    model = ib.InfluenceModel("symmetric", drift=True, pooling="full", **fading)
    share = ib.measure_impact(model.fit(ib.adjust_losses(log), execution=1), log).share
    return [lost, share.value, share.low <= lost <= share.high]


def print_shares(runs: int) -> None:
    """Print how well the share of clicks that influence takes is estimated."""
    print("\n| world | share of clicks lost | estimated | intervals that hold it |")
    print("|---|---|---|---|")
    with ProcessPoolExecutor() as pool:
        for name, settings in INFLUENCE.items():
            found = list(pool.map(partial(estimate, settings), range(20_000, 20_000 + runs)))
            lost, share, held = 100.0 * np.mean(found, axis=0)
            print(f"| {name} | {lost:.1f} % | {share:.1f} % | {held:.0f} % |", flush=True)


def print_alarms(runs: int, wanted: list[str]) -> None:
    """Print how often something is seen, and called real, with and without controls."""
    seeds = range(10_000, 10_000 + runs)
    print("| world | lost | without controls | seen | called real |")
    print("|---|---|---|---|---|")
    with ProcessPoolExecutor() as pool:
        for name, settings in (NOTHING | INFLUENCE).items():
            if wanted and name not in wanted:
                continue
            rows = [
                np.array(list(pool.map(partial(judge, settings, how), seeds)))
                for how in (False, True)
            ]
            plain, controlled = (100.0 * row.mean(axis=0) for row in rows)
            print(
                f"| {name} | {controlled[2]:.0f} % | {plain[0]:.0f} % | {controlled[0]:.0f} % | "
                f"{controlled[1]:.0f} % |",
                flush=True,
            )


if __name__ == "__main__":
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 32
    print_alarms(number, sys.argv[2:])
    print_shares(number)
