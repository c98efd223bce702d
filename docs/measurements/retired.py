"""What policies did that are no longer here, on the instances and populations of these scripts.

``retired_policies.json`` has, for ModelLCB, regrets or losses a round of each instance at each of
``HORIZONS`` ("home"), and mean losses of each foreign world ("foreign"); for FleetLCB, mean regrets
or losses of the users from one of ``USERS`` to the next, of each population ("fleets").
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

HORIZONS = (30, 100, 1000)
USERS = (0, 50, 100, 200, 300)
FILE = Path(__file__).with_name("retired_policies.json")


def scores_of_retired(part: str) -> dict[str, np.ndarray]:
    """Return the scores of "home", "foreign" or "fleets" by family, an instance a row."""
    parts = json.loads(FILE.read_text(encoding="utf-8"))
    return {name: np.array(scores) for name, scores in parts[part].items()}


def describe(ours: np.ndarray, theirs: np.ndarray) -> str:
    """Return the cells of a row: our mean, and the paired difference with its standard error."""
    cells = []
    for mine, other in zip(ours.T, theirs.T, strict=True):
        difference = mine - other
        error = difference.std(ddof=1) / np.sqrt(len(difference))
        cells.append(f"{mine.mean():.4g} ({difference.mean():+.2g} ± {error:.1g})")
    return " | ".join(cells).replace("-", "−")
