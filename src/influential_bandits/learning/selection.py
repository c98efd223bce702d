"""Honest comparisons: predict what comes next, never what was before; and choose by them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np

from influential_bandits.checks import abbreviate, is_real, whole_number
from influential_bandits.errors import InvalidInput
from influential_bandits.execution.base import Execution
from influential_bandits.execution.local import resolve_execution
from influential_bandits.execution.progress import Progress
from influential_bandits.learning.fitting import require_memory_for
from influential_bandits.learning.loss_model import LossModel
from influential_bandits.learning.models import DriftModel, InfluenceModel, StationaryModel
from influential_bandits.learning.statistics.log_scan import SEED, draw_instances, scan_log
from influential_bandits.learning.statistics.reduction import HasPartitions
from influential_bandits.logs.log import EventLog, require_log
from influential_bandits.numerics.arrays import Floats, Ints
from influential_bandits.packages import make_frame, optional_module
from influential_bandits.summaries.interval_text import tell_apart
from influential_bandits.summaries.resampling import bootstrap_interval
from influential_bandits.world.fading import Fades, Fading, require_fading

MEMORIES = (0.5, 0.8, 0.9, 0.98, 1.0)
HALF_LIVES = (1.0, 24.0, 720.0)  # hours
RIDGES = (10.0, 100.0, 1000.0, 10_000.0)
SAMPLE_EVENTS = 1_000_000  # of a log in parts, on which settings are chosen
FIRST_RIDGE = 1000.0  # with which memories are compared, if the ridge is still to be chosen


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
        percent, low, high = tell_apart(self.percent, self.low, self.high, "+.2f")
        return f"{self.model} against {self.against}: {percent} % ({low} … {high})"


@dataclass(frozen=True, eq=False, repr=False)
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
        The models by name: fitted by :func:`validate`, not fitted by :func:`choose`.

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

    def __repr__(self) -> str:
        """Say the errors."""
        errors = ", ".join(f"{name}: {self.mse(name):.4g}" for name in self.names)
        return f"Validation(mean squared error of {self.events.sum():,} events: {errors})"

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
    execution: Execution | int | None = None,
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
    execution : int, LocalExecution or DaskExecution, optional
        Where to fit, or on how many threads; by default on all cores here. Changes no bit.

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
    ...     "full": ib.InfluenceModel(fading=0.8, pooling="full"),
    ... }
    >>> found = ib.validate(log, models)
    >>> found.gain("full", "stationary").low > 0
    True
    """
    log = require_log(log)
    _require_memory(models.values(), log, execution)
    held_out = _HeldOut(log, last, execution)
    fitted: dict[str, Any] = {}
    squares = []
    bar = Progress("validation", len(models), progress)
    for name, model in models.items():
        fitted[name], errors = held_out.predict(model)
        squares.append(errors)
        bar.count_one()
    bar.close()
    return held_out.validation(squares, fitted)


def _require_memory(
    models: Iterable[Any], log: EventLog, execution: Execution | int | None
) -> None:
    """Raise before the first fit unless there is room for each, as far as it is a model of ours."""
    for model in models:
        if isinstance(model, LossModel):
            require_memory_for(model, log.n_arms, log.n_instances, execution)


class _HeldOut:
    """A log whose last part is held out, and where models are fitted to the first."""

    def __init__(self, log: EventLog, last: Any, execution: Execution | int | None) -> None:
        if not is_real(last):
            raise InvalidInput(
                f"last must be a share of each history or a number, got {abbreviate(last)}"
            )
        part: dict[str, Any] = {"share": last}
        if isinstance(last, Integral) and not isinstance(last, bool):
            part = {"events": whole_number("last", last, 1)}
        lasts, first = log.last(**part), log.without_last(**part)
        known = np.flatnonzero(first.lengths > 0)
        if not len(known):
            raise InvalidInput("no history is long enough to predict its last part from the first")
        self.log, self.first, self.lasts = log.take(known), first.take(known), lasts[known]
        self.owner = np.repeat(np.arange(self.log.n_instances), self.log.lengths)
        position = np.arange(len(self.log)) - self.log.offsets[:-1][self.owner]
        self.predicted = position >= (self.log.lengths - self.lasts)[self.owner]
        self.options = {} if execution is None else {"execution": execution}  # others know none

    def predict(self, model: Any, *, errors: bool = True) -> tuple[Any, Floats]:
        """Return the model fitted to the first part, and its squared errors, (instances,).

        Models of ours can do without standard errors, which take longest where arms are many.
        """
        copy = _clone(model)
        lean = not errors and isinstance(copy, LossModel)
        fitted = (copy.fit_to_predict if lean else copy.fit)(self.first, **self.options)
        error = (self.log.loss - fitted.predict(self.log))[self.predicted]
        owner = self.owner[self.predicted]
        squares = np.bincount(owner, error**2, minlength=self.log.n_instances)
        return fitted, squares.astype(np.float64)

    def validation(self, squares: Sequence[Any], models: dict[str, Any]) -> Validation:
        rows = np.array(squares, np.float64).reshape(len(models), self.log.n_instances)
        return Validation(tuple(models), rows, self.lasts, models, self.log.instances)


def ladder(
    fading: Fades = 0.8,
    ridge: float = 10.0,
    pooling: str = "full",
) -> dict[str, Any]:
    """Return the models to compare, each with one thing more than the one before.

    Stationary; drift, the recent level of the own history; self-fatigue, a diagonal interaction;
    and the full one: so that drift is not mistaken for influence, nor fatigue for interaction.

    Examples
    --------
    >>> list(ladder())
    ['stationary', 'drift', 'self-fatigue', 'full']
    """
    influence: dict[str, Any] = {"drift": True, "ridge": ridge, "fading": fading}
    influence["pooling"] = pooling
    return {
        "stationary": StationaryModel(pooling=pooling),
        "drift": DriftModel(pooling=pooling),
        "self-fatigue": InfluenceModel("diagonal", **influence),
        "full": InfluenceModel("symmetric", **influence),
    }


def choose(
    log: EventLog | HasPartitions,
    candidates: InfluenceModel | Iterable[Any],
    *,
    settings: Sequence[str] = ("fading", "ridge"),
    fit: bool = True,
    last: float | int = 0.2,
    progress: bool | None = None,
    execution: Execution | int | None = None,
) -> tuple[Any, Validation]:
    """Choose among models by their error on the last part of each history, and fit the best.

    Parameters
    ----------
    log : EventLog or PartitionedLog
        Of one in partitions, whole histories of at most a million events choose.
    candidates : sequence of models, or one InfluenceModel
        For example the same model with several values of ``fading`` and ``ridge``. One model alone
        stands for itself with usual values of ``settings``, first of one, then of the other.
    settings : sequence of str
        Of a model alone: "fading", by events or, if the log has a clock, by the clock; "ridge".
    fit : bool
        Whether to fit the best one to the whole log.
    last, progress, execution
        As for :func:`validate`.

    Returns
    -------
    model, Validation
        The best candidate, fitted to the whole log, and how all of them did.

    Examples
    --------
    >>> import influential_bandits as ib
    >>> truth = [[0.5, 0], [0, 0.5]]
    >>> log = ib.data.synthetic_log(200, 100, 2, interaction=truth, memory=0.8, seed=0)
    >>> candidates = [ib.InfluenceModel(fading=g, pooling="full") for g in (0.5, 0.8, 1.0)]
    >>> model, _ = ib.choose(log, candidates)
    >>> model.fading
    0.8
    >>> model, _ = ib.choose(log, ib.InfluenceModel(pooling="full"))
    >>> model.fading, model.ridge
    (Fading(memory=0.8), 10.0)
    """
    some = _draw_sample(log, execution)
    held_out = _HeldOut(some, last, execution)
    errors: dict[str, Floats] = {}
    models: dict[str, Any] = {}

    def best_of(several: list[Any]) -> Any:
        _require_memory(several, some, execution)
        named = {_name(model): model for model in several}
        if not named:
            raise InvalidInput("choose needs at least one candidate")
        bar = Progress("validation", len(named), progress)
        for name, model in named.items():
            if name not in errors:
                errors[name] = held_out.predict(model, errors=False)[1]
            bar.count_one()
        bar.close()
        models.update(named)
        return named[min(named, key=lambda name: float(np.sum(errors[name])))]

    if isinstance(candidates, InfluenceModel):
        best = _choose_settings(candidates, settings, some.time is not None, best_of)
    else:
        best = best_of(list(candidates))
    if fit:
        best = _clone(best).fit(log, **held_out.options)
    return best, held_out.validation([errors[name] for name in models], models)


def _draw_sample(log: Any, execution: Execution | int | None) -> EventLog:
    """Return the log that models are compared on: of a log in parts, some of its instances."""
    if isinstance(log, EventLog) or not isinstance(log, HasPartitions):
        return require_log(log)
    scan = scan_log(log, SEED, resolve_execution(execution))
    return draw_instances(scan.sample, SAMPLE_EVENTS, SEED)


def list_choosable(model: InfluenceModel, settings: Sequence[str]) -> list[str]:
    """Return which settings can be chosen: a half-life stays."""
    wrong = set(settings) - {"fading", "ridge"}
    if wrong:
        raise InvalidInput(f"settings to choose are 'fading' and 'ridge', got {sorted(wrong)}")
    fixed = {"fading"} if require_fading(model.fading).by_clock else set()
    return [name for name in settings if name not in fixed]


def _choose_settings(
    model: InfluenceModel, settings: Sequence[str], clock: bool, best_of: Callable[..., Any]
) -> InfluenceModel:
    wanted = list_choosable(model, settings)
    if not wanted:
        raise InvalidInput(f"none of {', '.join(settings) or 'no settings'} can be chosen")
    model = _clone(model)
    if "fading" in wanted:
        trial = _clone(model)
        if "ridge" in settings:
            trial.set_params(ridge=FIRST_RIDGE)
        fadings = [Fading(gamma) for gamma in MEMORIES]
        fadings += [Fading(half_life=hours) for hours in HALF_LIVES] if clock else []
        best = best_of([_clone(trial).set_params(fading=fading) for fading in fadings])
        model.set_params(fading=best.fading)
    if "ridge" in wanted:
        model = best_of([_clone(model).set_params(ridge=ridge) for ridge in RIDGES])
    return model


def _name(model: Any) -> str:
    """Return a candidate's settings as its name."""
    return model.settings if isinstance(model, LossModel) else " ".join(repr(model).split())


def _clone(model: Any) -> Any:
    return optional_module("sklearn.base").clone(model)
