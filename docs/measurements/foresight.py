"""Compare Foresight with the retired ModelLCB on the arena's families, instance by instance.

``python docs/measurements/foresight.py [FAMILY ...] [--size 0.1]``; with ``--growth`` regret up to
a million rounds instead, and beside MOSS where nothing influences anything.

Instances are numbered from 2,000,000, those of easy and hard, which are found one after the other,
from 8,000; settings were chosen on others. Losses a round are compared where memory fades, and
regret elsewhere.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

import influential_bandits as ib
from influential_bandits.policies.registry import policy_from_text
from influential_bandits.studies.compare.families import FAMILIES

sys.path.insert(0, str(Path(__file__).parent))
from retired import HORIZONS, describe, scores_of_retired

FIRST = 2_000_000
FIRST_FOUND = 8_000
FIRST_GROWTH = 2_600_000
MARKS = (1_000, 10_000, 100_000, 1_000_000)
GROWTH = (  # family, instances, how many of these horizons, and policies
    ("random-3", 32, 4, (ib.Foresight(),)),
    ("stationary", 200, 2, (ib.Foresight(), ib.MOSS())),
)


def score(family: ib.Family, policy: ib.Policy, n_instances: int, first: int = FIRST) -> np.ndarray:
    """Return loss a round or regret at each horizon, (instances, horizons)."""
    first = FIRST_FOUND if family.name in {"easy", "hard"} else first
    worlds = [family.make(first + number) for number in range(n_instances)]
    run = ib.simulate(worlds, policy, HORIZONS[-1], family.noise, checkpoints=HORIZONS)
    if worlds[0].memory < 1.0:
        return run.loss()[:, 0] / np.array(HORIZONS)
    return run.regret()[:, 0]


def print_growth() -> None:
    """Print mean regrets with their standard errors, and the largest at the last horizon."""
    print("| family, instances: policy | " + " | ".join(f"T = {mark:,}" for mark in MARKS))
    for name, number, horizons, policies in GROWTH:
        family, marks = FAMILIES[name], list(MARKS[:horizons])
        worlds = [family.make(FIRST_GROWTH + k) for k in range(number)]
        for policy in policies:
            run = ib.simulate(worlds, policy, marks[-1], family.noise, checkpoints=marks)
            regret = run.regret()[:, 0]
            errors = regret.std(axis=0, ddof=1) / np.sqrt(number)
            means = zip(regret.mean(axis=0), errors, strict=True)
            cells = " | ".join(f"{mean:,.0f} ± {error:,.0f}" for mean, error in means)
            largest = f"at most {regret[:, -1].max():,.0f}"
            print(f"| {name}, {number}: {policy.label} | {cells} | {largest} |", flush=True)


def main() -> None:
    """Print a row for each family and policy."""
    base = scores_of_retired("home")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("families", nargs="*", metavar="FAMILY", choices=[[], *base])
    parser.add_argument("--policies", default="Foresight()", help="separated by ;")
    parser.add_argument("--size", type=float, default=1.0, help="share of the instances")
    parser.add_argument("--growth", action="store_true", help="regret up to a million rounds")
    options = parser.parse_args()
    if options.growth:
        print_growth()
        return
    policies = [policy_from_text(text) for text in options.policies.split(";")]
    print("| family, instances | " + " | ".join(f"T = {t:,}" for t in HORIZONS) + " |")
    print("|---" + "|---:" * len(HORIZONS) + "|")
    for name in options.families or base:
        theirs = base[name][: max(4, round(options.size * len(base[name])))]
        for policy in policies:
            ours = score(FAMILIES[name], policy, len(theirs))
            label = "" if len(policies) == 1 else f": {policy.label}"
            print(f"| {name}, {len(theirs)}{label} | {describe(ours, theirs)} |", flush=True)


if __name__ == "__main__":
    main()
