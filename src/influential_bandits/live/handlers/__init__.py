"""What the service does for each call: one module a subject, one function a call."""

from __future__ import annotations

from influential_bandits.live.api import DECLARED
from influential_bandits.live.handlers import (  # noqa: F401 - calls are declared when imported
    decisions,
    experiments,
    operations,
)

CALLS = tuple(DECLARED)
