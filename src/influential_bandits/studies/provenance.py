"""Where and when results were made: kept with every file that a study writes."""

from __future__ import annotations

import platform
import sys
from datetime import UTC, datetime

import numpy as np

from influential_bandits import __version__
from influential_bandits.packages import optional_module


def collect_provenance() -> dict[str, str]:
    """Return the versions, the platform, the date and the command of this run."""
    return {
        "version": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "numpy": np.__version__,
        "numba": optional_module("numba").__version__,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": " ".join(["influential-bandits", *sys.argv[1:]]),
    }
