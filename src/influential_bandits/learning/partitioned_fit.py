"""Fits of more instances than one memory holds: what they share first, then part by part.

The model keeps the population. What becomes of the instances is up to the caller, who fits them one
part at a time and tells in the end what their coefficients add up to.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from influential_bandits.errors import NotApplicable
from influential_bandits.execution.base import Execution
from influential_bandits.execution.local import LocalExecution
from influential_bandits.learning.loss_model import (
    TOO_LITTLE,
    Elsewhere,
    LossModel,
    Once,
    at_once,
    require_memory_for,
)
from influential_bandits.learning.solvers.separate import Fit, Own, Shared, empty, together
from influential_bandits.learning.statistics import pooled_sums as pooling
from influential_bandits.learning.statistics.design import labels_of
from influential_bandits.learning.statistics.log_scan import Survey
from influential_bandits.learning.statistics.reduction import (
    loaded,
    on_part,
    pieces,
    single_threaded_algebra,
    tree_sum,
)
from influential_bandits.logs.log import EventLog
from influential_bandits.numerics.arrays import Floats

__all__ = ["Begun", "PartFit", "begin_fit", "end_fit", "fit_part", "names_of"]


class Begun(NamedTuple):
    """A model whose population is fitted, and how to go on."""

    work: Callable[[EventLog], Own]
    shared: Shared | None  # None: the population is the mean of the instances
    kept: int  # coefficients that differ between instances: the first so many

    @property
    def digest(self) -> str:
        """A number for all that decides the coefficients of an instance, beside its history."""
        digest = hashlib.sha256()
        _digest_into(digest, self.work)
        return digest.hexdigest()[:16]


class PartFit(NamedTuple):
    """The coefficients of the instances of one part."""

    instances: tuple[str, ...]
    coefficients: Floats  # (instances, kept)
    unconstrained: Floats  # (instances, kept): the same without the cone
    errors: Floats  # (instances, kept)
    noise: Floats  # (instances,)
    gap: Floats  # (instances,)
    determined: bool


def begin_fit(
    model: LossModel,
    survey: Survey,
    arms: tuple[str, ...],
    execution: Execution,
    once: Once = at_once,
) -> Begun:
    """Fit what all instances share; ``once`` may know it from an earlier attempt."""
    model._check()
    require_memory_for([model], len(arms), 0, execution)
    try:
        work, shared = model._begin(survey, arms, execution, once)
    except np.linalg.LinAlgError:
        raise NotApplicable(TOO_LITTLE) from None
    design = model.design_
    return Begun(work, shared, design.arms if model.pooled is True else design.size)


def fit_part(
    task: tuple[int, Any], threads: int | None, work: Callable[[EventLog], Own], kept: int
) -> PartFit:
    """Fit the instances of a part, task = (number, part); can be sent away."""
    here, parts = LocalExecution(threads), pieces([loaded(task[1])], pooling.CHUNK)
    try:
        with single_threaded_algebra():
            found = list(here.map(partial(on_part, work), parts))
    except np.linalg.LinAlgError:
        raise NotApplicable(TOO_LITTLE) from None
    own = together(own for _, own in found)
    if not np.isfinite(own.coefficients).all():
        raise NotApplicable(TOO_LITTLE)
    labels = tuple(label for labels, _ in found for label in labels)
    first, second, third = (column[:, :kept].copy() for column in own[:3])
    return PartFit(labels, first, second, third, own.noise, own.gap, own.determined)


def names_of(model: LossModel, kept: int) -> list[str]:
    """Return what the coefficients of an instance are, in words."""
    arms, design = model.arms_, model.design_
    names = [f"initial loss of {arm}" for arm in arms]
    names += ["recent level"] * design.controls
    pairs = labels_of(design.kind, design.arms)
    return [*names, *(f"A[{arms[i]}, {arms[j]}]" for i, j in pairs)][:kept]


class _Moments(NamedTuple):
    instances: int
    coefficients: Floats  # sums, measured from a centre
    squares: Floats
    free: Floats
    free_squares: Floats
    errors: Floats  # sums of squares
    noise: float
    undetermined: int  # parts whose statistics do not determine the interaction


def end_fit(model: LossModel, begun: Begun, parts: Iterable[PartFit]) -> None:
    """Give the model its population; the parts are read once, in order, one at a time."""
    size, kept = model.design_.size, begun.kept
    remaining = iter(parts)
    first = next(remaining, None)
    if first is None:
        raise NotApplicable("no instance was fitted")
    own = first.coefficients.mean(axis=0)
    centre = own if begun.shared is None else begun.shared.population[:kept]
    gaps = []

    def moments(part: PartFit) -> _Moments:
        gaps.append(float(part.gap.max(initial=0.0)))
        return _moments(part, centre)

    with single_threaded_algebra():
        total: _Moments = tree_sum(map(moments, chain([first], remaining)))
    number = total.instances
    between = np.zeros((size, size))
    between[:kept, :kept] = _covariance(number, total.coefficients, total.squares)
    shared = begun.shared or Shared(
        centre + total.coefficients / number,
        centre + total.free / number,
        _covariance(number, total.free, total.free_squares) / number
        if number > 1
        else np.diag(total.errors),
        0.0,
        0.0,
        True,
    )
    columns = empty(0, size)
    determined = shared.determined and total.undetermined == 0
    fit = Fit(*columns, determined, shared.population, shared.free_population, shared.covariance)
    model._take(fit, [])
    model.gap_ = max(gaps)
    model.elsewhere_ = Elsewhere(number, float(np.sqrt(total.noise / number)), between)


def _moments(part: PartFit, centre: Floats) -> _Moments:
    own, free = part.coefficients - centre, part.unconstrained - centre
    return _Moments(
        len(part.instances),
        own.sum(axis=0),
        own.T @ own,
        free.sum(axis=0),
        free.T @ free,
        (part.errors**2).sum(axis=0),
        float((part.noise**2).sum()),
        int(not part.determined),
    )


def _covariance(number: int, sums: Floats, squares: Floats) -> Floats:
    if number < 2:
        return np.zeros_like(squares)
    return (squares - np.outer(sums, sums) / number) / (number - 1)


def _digest_into(digest: Any, value: Any) -> None:
    """Take a value into a digest: functions by name, arrays by their bytes, the rest as text."""
    if isinstance(value, partial):
        digest.update(value.func.__name__.encode())
        for name, each in sorted(value.keywords.items()):
            digest.update(name.encode())
            _digest_into(digest, each)
    elif isinstance(value, tuple):
        for each in value:
            _digest_into(digest, each)
    elif isinstance(value, np.ndarray):
        digest.update(value.tobytes())
    else:
        digest.update(repr(value).encode())
    digest.update(b";")
