"""What the service does for each call: one module a subject, one function a call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from influential_bandits.live.handlers import (
    decisions,
    experiments,
    health,
    instances,
    keys,
    models,
    reports,
)

__all__ = ["HANDLERS"]

HANDLERS: dict[str, Callable[..., Awaitable[Any]]] = {
    name: getattr(module, name)
    for module in (health, decisions, experiments, models, instances, reports, keys)
    for name in module.__all__
}
