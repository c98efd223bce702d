"""Measure how much Foresight changes when one of its constants is twice as large, or half.

``python docs/measurements/foresight_constants.py [CONSTANT ...] [--jobs 16]``

Each setting runs in a process of its own, whose compiled code is kept apart: some two minutes each.
Printed is the change of mean regret in percent: the median over families, as means hang on a few
of them. Where memory fades, losses are compared, in percent of the distance from those of Uniform.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module

import numpy as np

import influential_bandits as ib
from influential_bandits.studies.compare.families import FAMILIES
from influential_bandits.studies.compare.populations import POPULATIONS

FIRST, FIRST_FOUND, FIRST_POPULATION = 100_000, 4_000, 100
HORIZONS, USERS = [30, 100, 1000], 200
INSTANCES = {
    "random-3": 800,
    "hard": 300,
    "easy": 300,
    "random-3-quiet": 300,
    "random-3-exact": 300,
    "random-10": 128,
    "low-rank": 128,
    "recovery": 64,
    "stationary": 500,
    "nearly-stationary": 400,
    "fading-0.5": 200,
    "fading-0.9": 300,
    "fading-0.99": 300,
    "clicks-0.5": 128,
    "clicks-0.8": 128,
    "random-20": 48,
    "block": 32,
}
POPULATIONS_PLAYED = {
    "none-5x30": 4,
    "none-10x100": 4,
    "small-5x30": 6,
    "small-5x100": 6,
    "small-10x100": 6,
    "strong-5x100": 6,
    "strong-10x100": 6,
    "spread-5x100": 4,
    "unlike-5x30": 6,
    "unlike-5x100": 4,
    "fading-5x100": 4,
    "fading-strong-5x100": 4,
    "drifting-5x100": 4,
    "late-5x30": 6,
    "late-strong-5x100": 4,
}
BOTH, AGENTS, FLEETS = ("agents", "fleets"), ("agents",), ("fleets",)
SETTINGS = {  # constant: where it is measured, and its values
    "AHEAD": (BOTH, ("0.25", "1.0")),
    "SPREAD": (BOTH, ("0.25", "1.0")),
    "HYPOTHESES": (BOTH, ("3", "12")),
    "GROWTH": (BOTH, ("2", "8")),
    "FIRST_LEVEL_SPREAD": (AGENTS, ("0.05", "0.2")),
    "FIRST_SCALE": (AGENTS, ("0.01", "0.04")),
    "MOVES": (AGENTS, ("2", "8")),
    "FIRST_DIFFERENCE": (FLEETS, ("0.015", "0.06")),
}
MODULES = ("foresight.hypotheses", "foresight.posterior", "foresight.rule", "foresight.users")


def change(constant: str, value: object) -> None:
    """Give a constant another value, wherever it is imported, before anything is compiled."""
    for name in (*MODULES, "foresight.policy", "fleet.estimate"):
        module = import_module(f"influential_bandits.policies.{name}")
        if hasattr(module, constant):
            setattr(module, constant, value)


def score(kind: str, policy: ib.Policy) -> dict[str, list[float]]:
    """Return mean regret or loss of each family at each horizon; of a fleet, of all users."""
    scores = {}
    if kind == "fleets":
        for name, number in POPULATIONS_PLAYED.items():
            family, means = POPULATIONS[name], []
            for seed in range(FIRST_POPULATION, FIRST_POPULATION + number):
                world, noise = family.make(seed), family.noise
                run = ib.simulate_fleet(
                    world, policy, USERS, seed=seed, noise=noise, progress=False
                )
                means.append((run.losses if run.users.fades else run.regret()).mean())
            scores[name] = [float(np.mean(means))]
        return scores
    for name, number in INSTANCES.items():
        family = FAMILIES[name]
        first = FIRST_FOUND if name in {"easy", "hard"} else FIRST
        worlds = [family.make(first + k) for k in range(number)]
        run = ib.simulate(worlds, policy, HORIZONS[-1], family.noise, checkpoints=HORIZONS)
        values = run.loss() / np.array(HORIZONS) if worlds[0].memory < 1.0 else run.regret()
        scores[name] = [float(value) for value in values[:, 0].mean(axis=0)]
    return scores


def score_in_process(task: tuple[str, str]) -> dict[str, list[float]]:
    """Return the scores of "agents" or "fleets" under a setting, as in ``AHEAD=0.25``, or none."""
    kind, setting = task
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, __file__, "--only", kind, "--set", setting],
            env=os.environ | {"NUMBA_CACHE_DIR": folder},
            capture_output=True,
            text=True,
            check=True,
        )
    scores: dict[str, list[float]] = json.loads(done.stdout)
    return scores


def compare(
    scores: dict[str, list[float]], base: dict[str, list[float]], rival: dict[str, list[float]]
) -> np.ndarray:
    """Return the change of each family in percent, (families, horizons)."""
    rows = []
    for name, old in base.items():
        size = np.abs(np.subtract(old, rival[name])) if name in rival else np.abs(old)
        rows.append(100.0 * np.subtract(scores[name], old) / size)
    return np.array(rows)


def main() -> None:
    """Print a row for each constant and value."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("constants", nargs="*", choices=[[], *SETTINGS])
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--only", choices=BOTH, help="print the scores of these")
    parser.add_argument("--set", default="", help="of a constant, as in AHEAD=0.25")
    options = parser.parse_args()
    if options.only:
        if options.set:
            constant, value = options.set.split("=")
            change(constant, ast.literal_eval(value))
        print(json.dumps(score(options.only, ib.Foresight())))
        return
    names = options.constants or list(SETTINGS)
    tasks = [(kind, "") for kind in BOTH] + [
        (kind, f"{name}={value}")
        for name in names
        for value in SETTINGS[name][1]
        for kind in SETTINGS[name][0]
    ]
    with ThreadPoolExecutor(options.jobs) as pool:
        scores = dict(zip(tasks, pool.map(score_in_process, tasks), strict=True))
    uniform = score("agents", ib.Uniform())
    fading = {name: uniform[name] for name in INSTANCES if FAMILIES[name].make(0).memory < 1.0}
    print("| constant | T = 30 | T = 100 | T = 1,000 | fleets |")
    print("|---|---:|---:|---:|---:|")
    for name in names:
        for value in SETTINGS[name][1]:
            cells = ["", "", "", ""]
            if "agents" in SETTINGS[name][0]:
                new = scores["agents", f"{name}={value}"]
                cells[:3] = np.median(compare(new, scores["agents", ""], fading), axis=0)
            if "fleets" in SETTINGS[name][0]:
                new = scores["fleets", f"{name}={value}"]
                cells[3] = np.median(compare(new, scores["fleets", ""], {})[:, 0])
            shown = [f"{x:+.1f} %".replace("-", "−") if x != "" else "" for x in cells]
            print(f"| `{name}` = {value} | {' | '.join(shown)} |", flush=True)


if __name__ == "__main__":
    main()
