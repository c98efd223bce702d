"""Compile what experiments will need, before a decision has to wait for it."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from influential_bandits.live.experiment import Experiment
from influential_bandits.live.settings import Settings, make_policy
from influential_bandits.live.states import Arms, try_out
from influential_bandits.numerics.streams import SERVICE, draw_uniform


def prepare(settings: Settings) -> None:
    """Compile what a new experiment needs; raises if its policies cannot serve its arms."""
    _prepare(settings, settings.policy, Arms(settings.arms))


def prepare_model(described: dict[str, Any], policy: str | dict[str, Any]) -> None:
    """Compile what a model needs; raises if it cannot serve the arms of the experiment."""
    names = described["arms"]
    settings = msgspec.convert({**described["settings"], "arms": names}, Settings)
    retired = frozenset(map(names.index, described["retired"]))
    _prepare(settings, policy, Arms(tuple(names), retired))


def prepare_stored(experiment: Experiment) -> None:
    """Compile what an experiment of a store needs as it stands."""
    model = experiment.models.get(experiment.model, experiment.settings.policy)
    _prepare(experiment.settings, model, experiment.arms)


def _prepare(settings: Settings, policy: str | dict[str, Any], arms: Arms) -> None:
    shared, half_life = settings.state == "shared", settings.half_life_hours
    try_out(make_policy(policy, shared=shared, half_life=half_life), arms, shared=shared)
    # Also where nobody is served by it yet: the share may be raised at any time.
    try_out(make_policy(settings.control, half_life=half_life), arms)
    draw_uniform(np.uint64(0), np.uint64(0), SERVICE, 0, 0)
