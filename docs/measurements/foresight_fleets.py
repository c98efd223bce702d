"""Compare Foresight with the retired FleetLCB on the arena's populations of users.

``python docs/measurements/foresight_fleets.py [FAMILY ...] [--populations 8]``

Populations are numbered from 200, and each serves 300 users; settings were chosen on others. Mean
losses of a user are compared where memory fades, and regret elsewhere.
"""

from __future__ import annotations

import argparse
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np

import influential_bandits as ib
from influential_bandits.policies.registry import policy_from_text
from influential_bandits.studies.compare.populations import POPULATIONS

sys.path.insert(0, str(Path(__file__).parent))
from retired import USERS, describe, scores_of_retired

FIRST = 200


def serve(name: str, policy: ib.Policy, populations: int, users: int) -> np.ndarray:
    """Return losses or regret of each user, (populations, users)."""
    family, rows = POPULATIONS[name], []
    for number in range(FIRST, FIRST + populations):
        run = ib.simulate_fleet(
            family.make(number), policy, users, seed=number, noise=family.noise, progress=False
        )
        rows.append(run.losses if run.users.fades else run.regret())
    return np.array(rows)


def average(scores: np.ndarray) -> np.ndarray:
    """Return the mean over users from one of ``USERS`` to the next, (populations, ranges)."""
    ranges = pairwise(USERS)
    return np.stack([scores[:, first:last].mean(axis=1) for first, last in ranges], axis=1)


def main() -> None:
    """Print a row for each family."""
    base = scores_of_retired("fleets")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("families", nargs="*", metavar="FAMILY", choices=[[], *base])
    parser.add_argument("--policy", default="Foresight()")
    parser.add_argument("--populations", type=int, default=8)
    options = parser.parse_args()
    policy = policy_from_text(options.policy)
    ranges = [f"users {a + 1}–{b}" for a, b in pairwise(USERS)]
    print("| family | " + " | ".join(ranges) + " |")
    print("|---" + "|---:" * len(ranges) + "|")
    for name in options.families or base:
        theirs = base[name][: options.populations]
        ours = average(serve(name, policy, len(theirs), USERS[-1]))
        print(f"| {name} | {describe(ours, theirs)} |", flush=True)


if __name__ == "__main__":
    main()
