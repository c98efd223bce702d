"""Whether choices in a log follow taste, also where influence hides it.

Who likes an arm meets it early and often, and tires of it. So losses that hold influence may hide
taste, and a pooled fit of influence cannot take it out: it is too small where choices follow taste.
Forward deviations are not. Signs of taste are looked for twice: in the losses as they are, and in
losses freed of the influence that forward deviations see. What these do not know about influence
counts as an error of the signs, by the jackknife.
"""

from __future__ import annotations

import numpy as np

from influential_bandits.execution.base import Execution
from influential_bandits.learning.forward_deviations import ForwardEstimate, estimate_forward
from influential_bandits.learning.logging_policy import (
    TWICE,
    TasteSigns,
    describe_logged,
    measure_taste,
    see_taste,
    suspect_taste,
)
from influential_bandits.learning.models import InfluenceModel, StationaryModel
from influential_bandits.learning.statistics.design import (
    Design,
    interaction_entries,
    predict_losses,
)
from influential_bandits.learning.statistics.log_scan import thin_out
from influential_bandits.logs.log import EventLog, change_log
from influential_bandits.numerics.arrays import Floats

EVENTS = 200_000  # instances of so many are enough
FOLLOW_TASTE = "choices in it follow taste"


def describe_taste(
    model: InfluenceModel, log: EventLog, execution: Execution | int | None = None
) -> str:
    """Say what choices have to do with taste: they follow it, may follow it, or nothing."""
    signs_of_taste = find_taste(model, thin_out(log, EVENTS), execution)
    if any(see_taste([signs], TWICE) for signs in signs_of_taste):
        return FOLLOW_TASTE
    if any(suspect_taste([signs]) for signs in signs_of_taste):
        return "it is not ruled out that choices in it follow taste"
    return ""


def find_taste(
    model: InfluenceModel, log: EventLog, execution: Execution | int | None = None
) -> list[TasteSigns]:
    """Return signs of taste in losses as they are and, where it can be told, free of influence."""
    past = float(describe_logged(model.design_, model.population_, log).shuffled.sum())
    estimate = estimate_forward(log, model.design_, past)
    return look_for_taste(log, model.design_, estimate, execution)


def look_for_taste(
    log: EventLog,
    design: Design,
    estimate: ForwardEstimate | None,
    execution: Execution | int | None = None,
) -> list[TasteSigns]:
    """Return the signs in losses as they are and, with an estimate of influence, free of it."""
    signs = [_measure(log, execution)]
    if estimate is not None:
        plain = design._replace(controls=0)
        signs.append(_measure_freed(thin_out(log, EVENTS), plain, estimate, execution))
    return signs


def _measure(log: EventLog, execution: Execution | int | None) -> TasteSigns:
    """Return the signs by a model without influence."""
    alike = StationaryModel(pooling="full").fit_to_predict(log, execution=execution)
    return measure_taste(log, alike.design_, alike.population_, alike.initial_losses_)


def _measure_freed(
    log: EventLog, design: Design, estimate: ForwardEstimate, execution: Execution | int | None
) -> TasteSigns:
    """Return the signs without influence; row 0 is the estimate, the others leave out a group."""
    rows = [_measure(_free(log, design, matrix), execution) for matrix in estimate.interaction]
    whole, *without = np.array(rows)
    many = len(without)
    deviations = np.array(without) - np.mean(without, axis=0)
    slope, _, gap, _ = np.sqrt((many - 1.0) / many * (deviations**2).sum(axis=0)).tolist()
    return TasteSigns(
        float(whole[0]),
        float(np.hypot(whole[1], slope)),
        float(whole[2]),
        float(np.hypot(whole[3], gap)),
    )


def _free(log: EventLog, design: Design, matrix: Floats) -> EventLog:
    """Return a log whose losses are free of an influence."""
    coefficients = np.zeros(design.size)
    for n, (i, j) in enumerate(interaction_entries(design.kind, design.n_arms), design.start):
        coefficients[n] = matrix[i, j]
    loss = log.loss - predict_losses(log, design, coefficients)
    return change_log(log, loss=loss, about={}, controls={})
