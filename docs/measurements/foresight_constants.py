"""Measure how much Foresight changes when one of its constants is twice as large, or half.

``python docs/measurements/foresight_constants.py [CONSTANT ...]``

Each setting runs in a process of its own, whose compiled code is kept apart. Printed is the change
of regret, as a mean over families; where memory fades, of the distance from the loss of Uniform.
Instances are numbered from 900,000, populations from 300.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import subprocess
import sys
import tempfile
from importlib import import_module

import numpy as np

import influential_bandits as ib
from influential_bandits.studies.compare.families import FAMILIES
from influential_bandits.studies.compare.populations import POPULATIONS

FIRST, FIRST_POPULATION = 900_000, 300
HORIZONS = [100, 1000]
N_POPULATIONS, USERS = 4, 200
HOME = (
    "random-3",
    "random-3-quiet",
    "random-10",
    "low-rank",
    "recovery",
    "stationary",
    "fading-0.9",
    "clicks-0.5",
)
FLEETS = ("small-10x100", "strong-5x100", "unlike-5x100")
MANY = ("random-20", "block")
SETTINGS = {  # constant: where it is measured, and its values
    "AHEAD": (HOME + FLEETS, ("0.25", "1.0")),
    "SPREAD": (HOME, ("0.25", "1.0")),
    "HYPOTHESES": (HOME, ("3", "12")),
    "GROWTH": (HOME, ("2", "8")),
    "FIRST_LEVEL_SPREAD": (HOME, ("0.05", "0.2")),
    "FIRST_SCALE": (HOME, ("0.01", "0.04")),
    "MEMORIES": (HOME, ("(1.0, 0.99, 0.9, 0.7, 0.4)",)),
    "MOST_ARMS": (MANY, ("12", "48")),
    "EXACT_ARMS": (FLEETS, ("4", "16")),
    "FIRST_DIFFERENCE": (FLEETS, ("0.015", "0.06")),
}
MODULES = ("hypotheses", "posterior", "rule", "users", "policy")


def change(constant: str, value: object) -> None:
    """Give a constant another value, wherever it is imported, before anything is compiled."""
    for name in MODULES:
        module = import_module(f"influential_bandits.policies.foresight.{name}")
        if hasattr(module, constant):
            setattr(module, constant, value)


def score(name: str, policy: ib.Policy, size: float) -> list[float]:
    """Return mean regret or loss at each horizon, or of a fleet's users."""
    if name in POPULATIONS:
        family, regrets = POPULATIONS[name], []
        for number in range(FIRST_POPULATION, FIRST_POPULATION + N_POPULATIONS):
            run = ib.simulate_fleet(
                family.make(number), policy, USERS, seed=number, noise=family.noise, progress=False
            )
            regrets.append(run.regret().mean())
        return [float(np.mean(regrets))]
    family = FAMILIES[name]
    n_instances = round(size * 1600 / family.make(0).n_arms)
    worlds = [family.make(FIRST + number) for number in range(n_instances)]
    run = ib.simulate(worlds, policy, HORIZONS[-1], family.noise, checkpoints=HORIZONS)
    scores = run.loss() / np.array(HORIZONS) if worlds[0].memory < 1.0 else run.regret()
    return [float(value) for value in scores[:, 0].mean(axis=0)]


def score_in_process(names: tuple[str, ...], setting: str, size: float) -> dict[str, list[float]]:
    """Return the scores of families under a setting, as in ``AHEAD=0.25``, or none."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, "--only", *names, "--size", str(size)]
        done = subprocess.run(
            [*command, "--set", setting],
            env=os.environ | {"NUMBA_CACHE_DIR": folder},
            capture_output=True,
            text=True,
            check=True,
        )
    scores: dict[str, list[float]] = json.loads(done.stdout)
    return scores


def describe(scores: dict, base: dict, uniform: dict) -> str:
    """Return the mean change in percent, at each horizon, of agents; and of fleets."""
    cells = []
    for title, among in (("agents", FAMILIES), ("fleets", POPULATIONS)):
        changes = [
            [
                (new - old) / (abs(old - rival) if name in uniform else old)
                for new, old, rival in zip(
                    scores[name], base[name], uniform.get(name, base[name]), strict=True
                )
            ]
            for name in scores
            if name in among
        ]
        if changes:
            cells.append(
                f"{title} {', '.join(f'{100 * x:+.1f}' for x in np.mean(changes, axis=0))}"
            )
    return "; ".join(cells)


def main() -> None:
    """Print a line for each constant and value."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("constants", nargs="*", choices=[[], *SETTINGS])
    parser.add_argument("--size", type=float, default=0.3, help="of the number of instances")
    parser.add_argument("--only", nargs="+", help="print the scores of these families")
    parser.add_argument("--set", default="", help="of a constant, as in AHEAD=0.25")
    options = parser.parse_args()
    if options.only:
        if options.set:
            constant, value = options.set.split("=")
            change(constant, ast.literal_eval(value))
        policy = ib.Foresight()
        print(json.dumps({name: score(name, policy, options.size) for name in options.only}))
        return
    names = options.constants or list(SETTINGS)
    families = tuple(dict.fromkeys(f for constant in names for f in SETTINGS[constant][0]))
    base = score_in_process(families, "", options.size)
    fading = [f for f in families if f in FAMILIES and FAMILIES[f].make(0).memory < 1.0]
    uniform = {name: score(name, ib.Uniform(), options.size) for name in fading}
    for constant in names:
        for value in SETTINGS[constant][1]:
            scores = score_in_process(SETTINGS[constant][0], f"{constant}={value}", options.size)
            print(f"{constant} = {value}: {describe(scores, base, uniform)}", flush=True)
            print("   " + json.dumps(scores), file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
