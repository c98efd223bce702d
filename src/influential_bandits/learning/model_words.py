"""What a fitted model has found, in words and in the unit of its log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from influential_bandits.summaries.interval_text import tell_apart
from influential_bandits.world.fading import require_fading

if TYPE_CHECKING:
    from influential_bandits.learning.loss_model import LossModel
    from influential_bandits.learning.models import InfluenceModel

SHOWN = 8  # influences


def describe_levels(model: LossModel) -> str:
    """Say how many instances a model knows, and between which arms its outcome lies."""
    outcome, losses = model.outcome_, model.initial_loss_
    arms = sorted(range(len(losses)), key=lambda arm: outcome.of_loss(float(losses[arm])))
    ends = " to ".join(
        f"{outcome.of_loss(float(losses[arm])):.3g} ({model.arm_names_[arm]})"
        for arm in dict.fromkeys((arms[0], arms[-1]))
    )
    summary = model.instance_summary_
    many = len(model.instances_) if summary is None else summary.instances
    return f"{many:,} instances, {len(losses)} arms of {ends} {outcome.unit}"


def describe_influence(model: InfluenceModel) -> str:
    """Say what was fitted, and the strongest influences."""
    drift = "on" if model.drift else "off"
    kind = f"{model.interaction} interaction of {len(model.arm_names_)} arms"
    fit = f"ridge {model.ridge:g}, drift {drift}, noise {model.noise().sigma:.3g}; {model.status_}"
    unit = model.outcome_.unit
    lines = [
        f"{kind}, {require_fading(model.fading)}, {fit}",
        f"{describe_levels(model)} before any influence.",
        f"Strongest influences, in {unit}: what one more showing costs the next (− gives it)",
    ]
    for names, value, interval in list_influences(model, SHOWN):
        lines.append(f"  {names:40} {value}  {interval}".rstrip())
    return "\n".join(lines)


def list_influences(model: InfluenceModel, most: int) -> list[tuple[str, str, str]]:
    """Return the strongest entries of a fitted interaction: arms, value and interval."""
    matrix, names = model.interaction_, model.arm_names_
    low, high = model.interval()["interaction"]
    rows, columns = np.tril_indices(len(matrix))
    if model.interaction == "diagonal":  # nothing is known of pairs
        rows, columns = np.diag_indices(len(matrix))
    order = np.argsort(-np.abs(matrix[rows, columns]), kind="stable")[:most]
    influences = []
    for i, j in zip(rows[order].tolist(), columns[order].tolist(), strict=True):
        arms = f"{names[i]} on itself" if i == j else f"{names[i]} and {names[j]}"
        entry = (float(matrix[i, j]), float(low[i, j]), float(high[i, j]))
        if not np.isfinite(entry).all():  # a fit for predictions alone
            influences.append((arms, f"{entry[0]:+.2g}", ""))
            continue
        value, below, above = tell_apart(*entry, "+.2g")
        note = explain_end(*entry)
        influences.append((arms, value, f"({below} … {above}{note and '; ' + note})"))
    return influences


def explain_end(value: float, low: float, high: float) -> str:
    """Say why an entry of a fitted interaction is an end of its own interval; nothing if it is not.

    Intervals of a positive semi-definite fit are those of the symmetric one, as far as the
    condition allows: the estimate may be the most that it allows.
    """
    if low == high:
        return "no interval"
    if value in (low, high):
        return "held at an end by the condition that the matrix is positive semi-definite"
    return ""
