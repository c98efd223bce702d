"""Honest comparisons: predict what comes next, never what was before, and compare in pairs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np

from influential_bandits.checks import is_real, make_frame, optional_module, shown, whole_number
from influential_bandits.errors import InvalidInput
from influential_bandits.execution.base import Execution
from influential_bandits.execution.progress import Progress
from influential_bandits.learning.loss_model import LossModel, require_memory_for
from influential_bandits.learning.models import DriftModel, InfluenceModel, StationaryModel
from influential_bandits.logs.log import EventLog, require_log
from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.numerics.resampling import bootstrap_interval

__all__ = ["Gain", "Validation", "choose", "ladder", "validate"]


@dataclass(frozen=True)
class Gain:
    """How much smaller the squared error of one model is than another's, on the same events."""

    model: str
    against: str
    percent: float  # of the other's error; above zero: the model is better
    low: float  # 95 % interval, instances drawn anew
    high: float

    def __str__(self) -> str:
        """Say it in one line."""
        return (
            f"{self.model} against {self.against}: {self.percent:+.2f} % "
            f"({self.low:+.2f} … {self.high:+.2f})"
        )


@dataclass(frozen=True, eq=False)
class Validation:
    """Errors of several models on the last part of each history, predicted one step ahead.

    Attributes
    ----------
    names : tuple of str
    squares : array (models, instances)
        Sums of squared errors.
    events : array (instances,)
        Number of predicted events.
    models : dict
        The fitted models by name.

    Examples
    --------
    >>> import influential_bandits as ib
    >>> log = ib.data.synthetic_log(20, 50, 2, drift=1.0, seed=0)
    >>> models = {"stationary": ib.StationaryModel(), "drift": ib.DriftModel()}
    >>> ib.validate(log, models).to_frame().model.tolist()
    ['stationary', 'drift']
    """

    names: tuple[str, ...]
    squares: Floats
    events: Ints
    models: Mapping[str, Any]
    instances: tuple[str, ...]

    def mse(self, name: str) -> float:
        """Return the mean squared error of a model over all predicted events."""
        return float(self.squares[self._place(name)].sum() / self.events.sum())

    def mse_interval(self, name: str) -> tuple[float, float]:
        """Return the 95 % interval of the mean squared error, instances drawn anew."""
        rows = np.column_stack([self.squares[self._place(name)], self.events])
        return bootstrap_interval(rows, lambda r: float(r[:, 0].sum() / r[:, 1].sum()))

    def spread(self, name: str) -> float:
        """Return the standard deviation of the instances' own mean squared errors."""
        met = self.events > 0
        return float(np.std(self.squares[self._place(name)][met] / self.events[met]))

    def gain(self, name: str, against: str) -> Gain:
        """Compare two models in pairs."""
        rows = np.column_stack(
            [self.squares[self._place(name)], self.squares[self._place(against)]]
        )
        low, high = bootstrap_interval(rows, _percent)
        return Gain(name, against, _percent(rows), low, high)

    def gains(self) -> list[Gain]:
        """Compare each model with the one before it."""
        return [self.gain(b, a) for a, b in zip(self.names[:-1], self.names[1:], strict=True)]

    def to_frame(self, library: str = "pandas") -> Any:
        """Return a data frame of pandas, polars or pyarrow: one row for each model."""
        rows: list[dict[str, Any]] = []
        for name in self.names:
            low, high = self.mse_interval(name)
            gain = self.gain(name, self.names[0])
            rows.append(
                {
                    "model": name,
                    "mse": self.mse(name),
                    "low": low,
                    "high": high,
                    "gain_percent": gain.percent,
                    "gain_low": gain.low,
                    "gain_high": gain.high,
                }
            )
        return make_frame({key: [row[key] for row in rows] for key in rows[0]}, library)

    def _place(self, name: str) -> int:
        try:
            return self.names.index(name)
        except ValueError:
            raise InvalidInput(
                f"no model is called {name!r}; there are {', '.join(self.names)}"
            ) from None


def _percent(rows: Floats) -> float:
    mine, other = rows[:, 0].sum(), rows[:, 1].sum()
    return float(100.0 * (other - mine) / other) if other > 0.0 else 0.0


def validate(
    log: EventLog,
    models: Mapping[str, Any],
    *,
    last: float | int = 0.2,
    progress: bool | None = None,
    execution: Execution | None = None,
) -> Validation:
    """Fit models to the first part of each history, and predict the last part one step ahead.

    The order of time is never broken: fits see the first part only, and each prediction sees what
    came before its event. Every model predicts the same events.

    Parameters
    ----------
    log : EventLog
    models : mapping of str to model
        By name, in the order in which to compare; they are cloned, not changed.
    last : float or int
        The share of each history to predict, or so many of its last events; 1 is the paper's
        leave-last-out.
    progress : bool, optional
        Whether to show a bar; by default on terminals if it takes long.
    execution : LocalExecution or DaskExecution, optional
        Where to fit; by default here. Changes no bit.

    Returns
    -------
    Validation

    Examples
    --------
    >>> import influential_bandits as ib
    >>> log = ib.data.synthetic_log(
    ...     50, 100, 2, interaction=[[0.5, 0], [0, 0.5]], memory=0.8, seed=0
    ... )
    >>> models = {
    ...     "stationary": ib.StationaryModel(),
    ...     "full": ib.InfluenceModel(memory=0.8, pooled=True),
    ... }
    >>> found = ib.validate(log, models)
    >>> found.gain("full", "stationary").low > 0
    True
    """
    log = require_log(log)
    ours = [model for model in models.values() if isinstance(model, LossModel)]
    require_memory_for(ours, log.n_arms, log.n_instances, execution)
    if not is_real(last):
        raise InvalidInput(f"last must be a share of each history or a number, got {shown(last)}")
    part: dict[str, Any] = {"share": last}
    if isinstance(last, Integral) and not isinstance(last, bool):
        part = {"events": whole_number("last", last, 1)}
    lasts, first = log.last(**part), log.without_last(**part)
    known = first.lengths > 0
    if not known.any():
        raise InvalidInput("no history is long enough to predict its last part from the first")
    log, first = log.take(np.flatnonzero(known)), first.take(np.flatnonzero(known))
    lasts = lasts[known]
    where = np.repeat(np.arange(log.n_instances), log.lengths)
    position = np.arange(len(log)) - log.offsets[:-1][where]
    predicted = position >= (log.lengths - lasts)[where]
    squares, fitted = np.zeros((len(models), log.n_instances)), {}
    bar = Progress("validation", len(models), progress)
    clone = optional_module("sklearn.base").clone
    options = {} if execution is None else {"execution": execution}  # other models may know none
    for row, (name, model) in enumerate(models.items()):
        fitted[name] = clone(model).fit(first, **options)
        error = (log.loss - fitted[name].predict(log))[predicted]
        squares[row] = np.bincount(where[predicted], error**2, minlength=log.n_instances)
        bar.done += 1
        bar.show()
    bar.close()
    return Validation(tuple(models), squares, lasts, fitted, log.instances)


def ladder(
    memory: float = 0.8,
    half_life: float | None = None,
    ridge: float = 10.0,
    pooled: bool | str = True,
    level_memory: float = 0.9,
) -> dict[str, Any]:
    """Return the models to compare, each with one thing more than the one before.

    Stationary; drift, the recent level of the own history; self-fatigue, a diagonal interaction;
    and the full one: so that drift is never sold as influence, nor fatigue as interaction.

    Examples
    --------
    >>> list(ladder())
    ['stationary', 'drift', 'self-fatigue', 'full']
    """
    same: dict[str, Any] = {"pooled": pooled, "level_memory": level_memory}
    fading: dict[str, Any] = {"memory": memory} if half_life is None else {"half_life": half_life}
    shared = pooled is not False
    return {
        "stationary": StationaryModel(pooled=shared),
        "drift": DriftModel(level_memory, pooled=shared),
        "self-fatigue": InfluenceModel("diagonal", drift=True, ridge=ridge, **fading, **same),
        "full": InfluenceModel("symmetric", drift=True, ridge=ridge, **fading, **same),
    }


def choose(
    log: EventLog,
    candidates: Sequence[Any] | Iterable[Any],
    *,
    last: float | int = 0.2,
    progress: bool | None = None,
    execution: Execution | None = None,
) -> tuple[Any, Validation]:
    """Choose among models by their error on the last part of each history, and fit the best.

    Parameters
    ----------
    log : EventLog
    candidates : sequence of models
        For example the same model with several values of ``memory`` and ``ridge``.
    last, progress, execution
        As for :func:`validate`.

    Returns
    -------
    model, Validation
        The best candidate, fitted to the whole log, and how all of them did.

    Examples
    --------
    >>> import influential_bandits as ib
    >>> log = ib.data.synthetic_log(
    ...     200, 100, 2, interaction=[[0.5, 0], [0, 0.5]], memory=0.8, seed=0
    ... )
    >>> candidates = [ib.InfluenceModel(memory=m, pooled=True) for m in (0.5, 0.8, 1.0)]
    >>> model, _ = ib.choose(log, candidates)
    >>> model.memory
    0.8
    """
    models = {_name(model): model for model in candidates}
    if not models:
        raise InvalidInput("choose needs at least one candidate")
    found = validate(log, models, last=last, progress=progress, execution=execution)
    best = min(found.names, key=found.mse)
    clone = optional_module("sklearn.base").clone
    options = {} if execution is None else {"execution": execution}
    return clone(models[best]).fit(log, **options), found


def _name(model: Any) -> str:
    return " ".join(repr(model).split())
