"""What all models of losses share: a linear model of the next loss, to fit, predict and score."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from influential_bandits.checks import is_real, optional_module
from influential_bandits.errors import InvalidInput, NotApplicable
from influential_bandits.learning.design import DAY, KINDS, Design
from influential_bandits.learning.fitting import (
    Fit,
    Penalty,
    fit_pooled,
    fit_separately,
    predictions,
)
from influential_bandits.learning.gradient import descend
from influential_bandits.learning.partial_pooling import Prior, fit_partially
from influential_bandits.learning.pooling import arm_means, random_effects
from influential_bandits.logs.log import EventLog, require_log
from influential_bandits.logs.membership import Membership
from influential_bandits.logs.streaming import LogStream
from influential_bandits.world.dynamics import Floats

__all__ = ["LossModel", "check_at_least", "check_share", "require_fitted"]

_base: Any = optional_module("sklearn.base", "learn")
_validation: Any = optional_module("sklearn.utils.validation", "learn")

ONE_HISTORY = "0"  # the instance of events that were given as an array
Log = EventLog | LogStream


class LossModel(_base.RegressorMixin, _base.BaseEstimator):  # type: ignore[misc]
    """What all models share: coefficients of one linear model of the next loss.

    ``X`` is an :class:`EventLog`, and then ``y`` is left out; or an array (events, arms) of how
    much each event belongs to each arm, one history in the order of time, with losses ``y``.
    """

    _interaction: ClassVar[str] = "none"

    pooled: bool | str
    shrinkage: float
    threads: int | None

    def fit(self, X: Any, y: Any = None) -> Any:
        """Fit to a log, or to an array of one history and its losses."""
        log = self._log(X, y, fitting=True)
        self._check()
        if isinstance(log, EventLog) and (log.lengths == 0).any():
            log = log.take(np.flatnonzero(log.lengths))
        parts = [log] if isinstance(log, EventLog) else log
        arms = len(log.arms)
        baseline = arm_means(parts, arms)
        if getattr(self, "half_life", None) is not None:
            for part in parts:
                _require_clock(part)
        self.design_ = self._design(baseline)
        self.arms_ = tuple(log.arms)
        self.n_features_in_ = arms
        self.effects_ = random_effects(parts, baseline)
        self.prior_: Prior | None = None
        try:
            fit = self._fitted(log, parts)
        except np.linalg.LinAlgError:
            raise NotApplicable(TOO_LITTLE) from None
        if not np.isfinite(fit.coefficients).all():
            raise NotApplicable(TOO_LITTLE)
        self._take(fit, [label for part in parts for label in part.instances])
        gaps = _gaps(next(iter(parts)))
        self.days_between_events_ = float(np.median(gaps)) if len(gaps) else None
        return self

    def _design(self, baseline: Floats) -> Design:
        half_life = getattr(self, "half_life", None)
        return Design(
            len(baseline),
            KINDS[self._kind()],
            float(getattr(self, "memory", 1.0)),
            0.0 if half_life is None else float(half_life) * DAY,
            int(self._drifts()),
            float(getattr(self, "level_memory", 0.9)),
            baseline,
        )

    def _fitted(self, log: Log, parts: Any) -> Fit:
        definite, ridge = self._kind() == "psd", float(getattr(self, "ridge", 0.0))
        if self.pooled is False:
            if not isinstance(log, EventLog):
                log = _whole(log)
            penalty = Penalty(ridge, float(self.shrinkage))
            if getattr(self, "solver", "convex") == "gradient":
                return descend(log, self.design_, penalty, self.max_iter, self.seed, self.threads)
            return fit_separately(log, self.design_, definite, penalty, self.threads)
        if self.pooled is True:
            fit, self.effects_ = fit_pooled(
                parts, self.design_, definite, ridge, self.effects_, self.threads
            )
            return fit
        fit, self.prior_ = fit_partially(
            parts, self.design_, definite, self.effects_, self._seed(), self.threads
        )
        return fit

    def _take(self, fit: Fit, labels: list[str]) -> None:
        self.instances_ = tuple(labels)
        self.coefficients_ = fit.coefficients
        self.unconstrained_ = fit.free
        self.standard_errors_ = fit.errors
        self.noise_ = fit.noise
        self.population_ = fit.population
        self.unconstrained_population_ = fit.free_population
        self.population_covariance_ = fit.covariance
        self.gap_ = float(fit.gap.max(initial=0.0))
        self.determined_ = bool(fit.determined)
        self.status_ = "solved" if self.determined_ else UNDETERMINED

    def predict(self, X: Any, y: Any = None) -> Floats:
        """Predict each event from the events before it in the same history.

        Parameters
        ----------
        X : EventLog or array (events, arms)
            Of the arms that the model was fitted to. Instances that were not in the fit get the
            population's coefficients if the model is pooled; else they are an error.
        y : array (events,), optional
            Losses, if X is an array and the model follows the recent level.

        Returns
        -------
        array (events,)
        """
        require_fitted(self)
        if isinstance(X, LogStream):
            raise InvalidInput("predictions are for one log at a time: predict part by part")
        log = self._log(X, y, fitting=False)
        if log.arms != self.arms_:
            raise InvalidInput(
                f"the model was fitted to the arms {', '.join(self.arms_[:5])}, …, but this log "
                f"has {', '.join(log.arms[:5])}, …"
            )
        return predictions(log, self.design_, self._coefficients_of(log.instances))

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return R² of the one-step-ahead predictions."""
        losses = X.loss if isinstance(X, EventLog) else y
        predicted = self.predict(X, y) if self._drifts() else self.predict(X)
        metrics = optional_module("sklearn.metrics", "learn")
        return float(metrics.r2_score(losses, predicted, sample_weight=sample_weight))

    def __sklearn_is_fitted__(self) -> bool:
        """Tell whether the model was fitted."""
        return hasattr(self, "coefficients_")

    def _coefficients_of(self, labels: tuple[str, ...]) -> Floats:
        if labels == self.instances_:
            return self.coefficients_
        known = {label: n for n, label in enumerate(self.instances_)}
        missing = [label for label in labels if label not in known]
        if missing and self.pooled is False:
            raise InvalidInput(
                f"{len(missing)} instances were not in the fit, the first is {missing[0]!r}; a "
                "pooled model (pooled=True or 'partial') can predict for new ones"
            )
        rows = np.array([known.get(label, -1) for label in labels])
        return np.where(rows[:, None] >= 0, self.coefficients_[rows], self.population_)

    def row(self, instance: object) -> int:
        """Return the row of an instance in the fitted arrays, by its label."""
        require_fitted(self)
        try:
            return self.instances_.index(str(instance))
        except ValueError:
            raise InvalidInput(
                f"instance {instance!r} was not in the fit of {len(self.instances_)} instances"
            ) from None

    @property
    def initial_loss_(self) -> Floats:
        """The population's initial losses, (arms,)."""
        return self.population_[: self.design_.arms]

    @property
    def initial_losses_(self) -> Floats:
        """The initial losses of each instance, (instances, arms)."""
        return self.coefficients_[:, : self.design_.arms]

    def _kind(self) -> str:
        return self._interaction

    def _drifts(self) -> bool:
        return False

    def _seed(self) -> int:
        return int(getattr(self, "seed", 0))

    def _check(self) -> None:
        named = isinstance(self.pooled, str) and self.pooled == "partial"
        if not (self.pooled is False or self.pooled is True or named):
            raise InvalidInput(f"pooled must be False, True or 'partial', got {self.pooled!r}")
        check_at_least("shrinkage", self.shrinkage, 0.0)

    def _log(self, X: Any, y: Any, fitting: bool) -> Any:
        """Return the log that was given, or make one of arrays."""
        if isinstance(X, (EventLog, LogStream)):
            if y is not None:
                raise InvalidInput("a log has its losses already: leave y out")
            return require_log(X) if isinstance(X, EventLog) else X
        check = _validation.validate_data
        if y is None and not fitting:
            X = check(self, X, reset=False, dtype=np.float64)
            if self._drifts():
                raise InvalidInput("a model with drift predicts from past losses: pass y too")
            y = np.zeros(len(X))
        else:
            X, y = check(self, X, y, reset=fitting, y_numeric=True, dtype=np.float64)
        events, arms = X.shape
        table = Membership.of_weights([str(i) for i in range(arms)], X)
        return EventLog.of_codes(
            [ONE_HISTORY],
            np.zeros(events, np.int64),
            np.arange(events, dtype=np.int32),
            np.array(y, np.float64),
            None,
            table,
        )


TOO_LITTLE = (
    "the log says too little for this model: its equations cannot be solved; set ridge > 0, fit "
    "interaction='diagonal', or gather more events"
)
UNDETERMINED = (
    "the log does not determine the interaction: a positive semi-definite minimiser may not exist "
    "(an entry could grow without end), and any other is not unique; shown is the limit of a tiny "
    "ridge. Set ridge > 0"
)


def _whole(stream: LogStream) -> EventLog:
    raise InvalidInput(
        "a stream of parts can be fitted with pooled=True or 'partial'; fitting each instance on "
        "its own keeps all of them, so read the log whole (read_log)"
    )


def _gaps(log: EventLog) -> Floats:
    """Return days between neighbouring events of the same instance; none without a clock."""
    if log.time is None or len(log) < 2:
        return np.zeros(0)
    gaps = np.diff(log.time) / DAY
    inside = np.ones(len(log) - 1, bool)
    ends = log.offsets[1:-1]
    inside[ends[(ends > 0) & (ends < len(log))] - 1] = False
    return gaps[inside]


def _require_clock(log: EventLog) -> None:
    if log.time is None:
        raise InvalidInput("half_life needs the time of each event, but the log has none")


def require_fitted(model: LossModel) -> None:
    """Raise scikit-learn's own error unless the model was fitted."""
    _validation.check_is_fitted(model, "coefficients_")


def check_at_least(name: str, value: Any, least: float) -> None:
    """Raise unless a parameter is a finite number of at least so much."""
    if not is_real(value) or not least <= value < np.inf:
        raise InvalidInput(f"{name} must be a number of at least {least:g}, got {value!r}")


def check_share(name: str, value: Any) -> None:
    """Raise unless a parameter lies in [0, 1)."""
    if not is_real(value) or not 0.0 <= value < 1.0:
        raise InvalidInput(f"{name} must lie in [0, 1), got {value!r}")
