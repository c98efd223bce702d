"""Compare what caps promise with what they deliver in made-up worlds: a table of docs/learning.md.

python docs/frequency_caps.py [RUNS] [--seed SEED]
"""

import argparse

import numpy as np

import influential_bandits as ib

WORLDS = {
    "clicks, small fatigue by events": {"fatigue": 0.1},
    "clicks, fatigue by events": {"fatigue": 0.25},
    "clicks, strong fatigue by events": {"fatigue": 0.6},
    "clicks, fatigue of a half-life of two days": {"fatigue": 0.15, "half_life": 2.0},
    "clicks, fatigue by events, choices follow taste": {"fatigue": 0.25, "personalised": 1.0},
    "clicks, no fatigue": {},
}


def read_clicks(events: dict[str, np.ndarray]) -> ib.EventLog:
    """Return a log of these events."""
    columns = {name: events[name] for name in ("user", "time", "arm", "item", "click")}
    roles = {"instance": "user", "arm": "arm", "item": "item", "time": "time", "reward": "click"}
    return ib.read_log(columns, **roles)


def compare(settings: dict[str, float], seed: int) -> list[float]:
    """Return promise, delivery, whether the interval holds it, and how many arms are capped."""
    world = ib.data.ClickWorld(**settings)
    log = read_clicks(ib.data.draw_click_events(600, 60, 6, world, seed=seed))
    fading = {"half_life": 2.0} if "half_life" in settings else {"memory": 0.8}
    model = ib.InfluenceModel("symmetric", drift=True, pooling="full", **fading)
    adjusted = ib.adjust_losses(log)
    impact = ib.measure_impact(model.fit(adjusted, execution=1), log)
    advice = ib.advise_caps(model, adjusted, impact, seed=seed, execution=1)
    gain = advice.gain
    # The same arms, ten times as many users, and chances instead of clicks.
    many = [
        ib.data.draw_click_events(6000, 60, 6, world, seed=seed, caps=caps)["chance"].mean()
        for caps in ((), advice.caps)
    ]
    delivered = many[1] - many[0]
    capped = len(advice.caps)
    if not capped:
        return [np.nan, np.nan, np.nan, np.nan, 0.0]
    return [gain.value, delivered, gain.low <= delivered <= gain.high, delivered >= 0.0, capped]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=int, nargs="?", default=16)
    parser.add_argument("--seed", type=int, default=700_000, help="of the first world")
    given = parser.parse_args()
    print("| world | logs with a cap | promised | delivered | interval holds it | no loss |")
    print("|---|---|---|---|---|---|")
    for row, (name, settings) in enumerate(WORLDS.items()):
        first = given.seed + 10_000 * row
        found = np.array([compare(settings, n) for n in range(first, first + given.runs)])
        found = found[found[:, 4] > 0]
        if not len(found):
            print(f"| {name} | 0 of {given.runs} | | | | |", flush=True)
            continue
        promised, delivered, held, safe, _ = found.mean(axis=0)
        print(
            f"| {name} | {len(found)} of {given.runs} | {promised:.4f} | {delivered:.4f} | "
            f"{100 * held:.0f} % | {100 * safe:.0f} % |",
            flush=True,
        )
