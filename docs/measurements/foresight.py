"""Compare Foresight with another policy on the arena's families, instance by instance.

``python docs/measurements/foresight.py [FAMILY ...] [--base InfluentialLCB] [--size 0.1]``

Instances are numbered from 2,000,000, those of easy and hard, which are found one after the other,
from 8,000; settings were chosen on others. Losses a round are compared where memory fades, and
regret elsewhere.
"""

from __future__ import annotations

import argparse

import numpy as np

import influential_bandits as ib
from influential_bandits.policies.registry import policy_from_text
from influential_bandits.studies.compare.families import FAMILIES

FIRST = 2_000_000
FIRST_FOUND = 8_000
HORIZONS = [30, 100, 1000]


def score(family: ib.Family, policy: ib.Policy, n_instances: int) -> np.ndarray:
    """Return loss a round or regret at each horizon, (instances, horizons)."""
    first = FIRST_FOUND if family.name in {"easy", "hard"} else FIRST
    worlds = [family.make(first + number) for number in range(n_instances)]
    run = ib.simulate(worlds, policy, HORIZONS[-1], family.noise, checkpoints=HORIZONS)
    if worlds[0].memory < 1.0:
        return run.loss()[:, 0] / np.array(HORIZONS)
    return run.regret()[:, 0]


def describe(ours: np.ndarray, theirs: np.ndarray) -> str:
    """Return the cells of a row: our mean, and the paired difference with its standard error."""
    cells = []
    for number in range(len(HORIZONS)):
        difference = ours[:, number] - theirs[:, number]
        error = difference.std() / np.sqrt(len(difference))
        cells.append(f"{ours[:, number].mean():.4g} ({difference.mean():+.2g} ± {error:.1g})")
    return " | ".join(cells)


def main() -> None:
    """Print a row for each family and policy."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("families", nargs="*", metavar="FAMILY")
    parser.add_argument("--base", default="InfluentialLCB", help="the policy to compare with")
    parser.add_argument("--policies", default="Foresight()", help="separated by ;")
    parser.add_argument("--size", type=float, default=1.0, help="of the number of instances")
    given = parser.parse_args()
    rival = policy_from_text(given.base)
    policies = [policy_from_text(text) for text in given.policies.split(";")]
    print("| family, instances | " + " | ".join(f"T = {t:,}" for t in HORIZONS) + " |")
    print("|---" + "|---:" * len(HORIZONS) + "|")
    for name in given.families or FAMILIES:
        family = FAMILIES[name]
        n_instances = max(4, round(given.size * 1600 / family.make(0).n_arms))
        base = score(family, rival, n_instances)
        print(f"| {name}, {n_instances}: {rival.label} | {describe(base, base)} |", flush=True)
        for policy in policies:
            row = describe(score(family, policy, n_instances), base)
            print(f"| {name}: {policy.label} | {row} |", flush=True)


if __name__ == "__main__":
    main()
