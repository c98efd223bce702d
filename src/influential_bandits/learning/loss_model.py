"""What all models of losses share: a linear model of the next loss, to fit, predict and score."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np

from influential_bandits.checks import is_real, optional_module, shown
from influential_bandits.errors import (
    InfluentialBanditsError,
    InvalidInput,
    NotApplicable,
    Unfinished,
)
from influential_bandits.execution.base import Execution
from influential_bandits.execution.local import LocalExecution, checked_threads, chosen_execution
from influential_bandits.learning.event_frames import event_frame, holds_text
from influential_bandits.learning.fit_memory import FitMemory, fit_memory, require_fit_memory
from influential_bandits.learning.solvers.gradient import descended
from influential_bandits.learning.solvers.partial import (
    Prior,
    partial_population,
    posterior_work,
)
from influential_bandits.learning.solvers.separate import (
    Fit,
    Own,
    Penalty,
    Shared,
    alone,
    averaged,
    pooled_fits,
    pooled_population,
    predictions,
    separate_fits,
    shared_by,
    together,
)
from influential_bandits.learning.statistics import pooled_sums as pooling
from influential_bandits.learning.statistics.design import DAY, KINDS, Design, interaction_size
from influential_bandits.learning.statistics.log_scan import Survey, sample, surveyed
from influential_bandits.learning.statistics.pooled_sums import RandomEffects, random_effects
from influential_bandits.learning.statistics.reduction import (
    InParts,
    on_part,
    pieces,
    single_threaded_algebra,
)
from influential_bandits.logs.log import EventLog, require_log
from influential_bandits.logs.membership import Membership
from influential_bandits.logs.streaming import LogStream
from influential_bandits.numerics.arrays import Floats, Ints

__all__ = [
    "LossModel",
    "check_at_least",
    "check_share",
    "memory_of_fit",
    "require_fitted",
    "require_memory_for",
]

_base: Any = optional_module("sklearn.base")
_validation: Any = optional_module("sklearn.utils.validation")

ONE_HISTORY = "0"  # the instance of events that were given as an array


class Elsewhere(NamedTuple):
    """What a model knows of instances whose own coefficients are kept beside it, in files."""

    instances: int
    noise: float  # standard deviation, of all instances together
    covariance: Floats  # (size, size): of the instances' coefficients


Population: TypeAlias = "tuple[Shared, RandomEffects]"
Once: TypeAlias = Callable[[Callable[[], Population]], Population]


def at_once(make: Callable[[], Population]) -> Population:
    """Make a population, as nothing is known of it from before."""
    return make()


class LossModel(_base.RegressorMixin, _base.BaseEstimator):  # type: ignore[misc]
    """What all models share: coefficients of one linear model of the next loss.

    ``X`` is an :class:`EventLog`, and then ``y`` is left out; a table of events (pandas, Polars,
    Arrow or a mapping) whose columns have usual names, such as user, item and time, with losses
    ``y`` or in a column; or an array (events, arms) of how much each event belongs to each arm,
    one history in the order of time, with losses ``y``.

    Tables go through scikit-learn's model selection: let its folds hold whole instances
    (``GroupKFold``), and pool. :func:`choose` and :func:`validate` keep the order of time.
    """

    _interaction: ClassVar[str] = "none"

    pooled: bool | str
    shrinkage: float
    threads: int | None

    def fit(self, X: Any, y: Any = None, execution: Execution | None = None) -> Any:
        """Fit to a log, to a table of events, or to an array of one history and its losses.

        Parameters
        ----------
        X : EventLog, LogStream, PartitionedLog, table, or array (events, arms)
        y : array (events,), optional
            Losses, if X is an array, or a table without a column of losses.
        execution : LocalExecution or DaskExecution, optional
            Where to compute; by default here, with ``threads``. Changes no bit.

        Returns
        -------
        The model itself.
        """
        where = chosen_execution(self.threads if execution is None else execution)
        log, _ = self._log(X, y, fitting=True)
        self._check()
        require_memory_for([self], len(log.arm_names), getattr(log, "n_instances", None) or 0, where)
        if isinstance(log, LogStream) and self.pooled is False:
            raise InvalidInput(WHOLE)
        if isinstance(log, EventLog) and (log.lengths == 0).any():
            log = log.take(np.flatnonzero(log.lengths))
        survey = surveyed(log, self._seed(), where)
        if survey.failed:
            raise Unfinished("; ".join(list(survey.failed.values())[:3]))
        try:
            work, shared = self._begin(survey, tuple(log.arm_names), where)
            labels, own = self._instances(work, survey.parts, where)
            self._take(self._ended(survey, own, shared), labels)
        except np.linalg.LinAlgError:
            raise NotApplicable(TOO_LITTLE) from None
        except MemoryError:  # somebody else took it in the meantime
            what, instead = _told(self, len(log.arm_names), survey.sums.instances)
            raise NotApplicable(f"{what} takes more memory than there is: {instead}") from None
        return self

    def _begin(
        self,
        survey: Survey,
        arms: tuple[str, ...],
        execution: Execution,
        once: Once = at_once,
    ) -> tuple[Callable[[EventLog], Own], Shared | None]:
        """Fit what instances share, if anything; return how to fit those of one part."""
        baseline = survey.sums.means
        if getattr(self, "half_life", None) is not None and survey.sums.without_clock:
            raise InvalidInput("half_life needs the time of each event, but the log has none")
        self.design_ = self._design(baseline)
        self.arms_ = arms
        self.n_features_in_ = len(arms)
        self.effects_ = random_effects([survey.sample], baseline)
        self.prior_: Prior | None = None
        gaps = _gaps(survey.sample)
        self.days_between_events_ = float(np.median(gaps)) if len(gaps) else None
        definite, ridge = self._kind() == "psd", float(getattr(self, "ridge", 0.0))
        design = self.design_
        if self.pooled is True:
            population = partial(
                pooled_population,
                survey.parts,
                design,
                definite,
                ridge,
                self.effects_,
                survey.sample,
                survey.sums.events,
                execution,
            )
            shared, self.effects_ = once(population)
            work: Any = partial(pooled_fits, design=design, effects=self.effects_, shared=shared)
            return work, shared
        if self.pooled is False:
            penalty = Penalty(ridge, float(self.shrinkage))
            if getattr(self, "solver", "convex") == "gradient":
                steps = {"steps": self.max_iter, "seed": self.seed}
                return partial(descended, design=design, penalty=penalty, **steps), None
            return partial(separate_fits, design=design, definite=definite, penalty=penalty), None
        some = sample([survey.sample], self._seed())
        shared, self.prior_ = partial_population(some, design, definite, self.effects_, execution)
        return posterior_work(design, definite, self.prior_), shared

    def _instances(
        self, work: Callable[[EventLog], Own], parts: Any, execution: Execution
    ) -> tuple[list[str], Own]:
        """Fit the instances of all parts, and keep them all."""
        with single_threaded_algebra():
            found = list(execution.map(partial(on_part, work), pieces(parts, pooling.CHUNK)))
        own = together(own for _, own in found)
        if not np.isfinite(own.coefficients).all():
            raise NotApplicable(TOO_LITTLE)
        return [label for labels, _ in found for label in labels], own

    def _ended(self, survey: Survey, own: Own, shared: Shared | None) -> Fit:
        """Return the whole fit; if nothing is shared, the population is the mean of instances."""
        if shared is not None:
            return shared_by(own, shared)
        covariance = None
        if len(own.noise) == 1 and getattr(self, "solver", "convex") == "convex":
            penalty = Penalty(float(getattr(self, "ridge", 0.0)), float(self.shrinkage))
            covariance = alone(survey.sample, self.design_, penalty, own)
        return averaged(own, np.ones(len(own.noise), bool), covariance)

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

    def _take(self, fit: Fit, labels: list[str]) -> None:
        self.instances_ = tuple(labels)
        self.elsewhere_: Elsewhere | None = None
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
        X : EventLog, table, or array (events, arms)
            Of the arms that the model was fitted to; predictions of a table are in the order of
            its rows. Instances that were not in the fit, or whose
            coefficients are in files beside the model, get the population's if the model is
            pooled; else they are an error.
        y : array (events,), optional
            Losses, if X is an array or a table and the model follows the recent level.

        Returns
        -------
        array (events,)
        """
        require_fitted(self)
        if not isinstance(X, EventLog) and isinstance(X, (LogStream, InParts)):
            raise InvalidInput("predictions are for one log at a time: predict part by part")
        log, rows = self._log(X, y, fitting=False)
        if log.arm_names != self.arms_:
            raise InvalidInput(
                f"the model was fitted to the arms {', '.join(self.arms_[:5])}, …, but this log "
                f"has {', '.join(log.arm_names[:5])}, …"
            )
        found = predictions(log, self.design_, self._coefficients_of(log.instances))
        if rows is None:
            return found
        in_order = np.empty_like(found)
        in_order[rows] = found
        return in_order

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return R² of the one-step-ahead predictions."""
        frame = None if isinstance(X, EventLog) else event_frame(X)
        losses = X.loss if isinstance(X, EventLog) else y if frame is None else frame.losses(y)
        if losses is None:
            raise InvalidInput("a score compares predictions with losses: pass them as y")
        predicted = self.predict(X, y) if self._drifts() else self.predict(X)
        metrics = optional_module("sklearn.metrics")
        return float(metrics.r2_score(losses, predicted, sample_weight=sample_weight))

    def __sklearn_is_fitted__(self) -> bool:
        """Tell whether the model was fitted."""
        return hasattr(self, "coefficients_")

    def _coefficients_of(self, labels: tuple[str, ...]) -> Floats:
        if labels == self.instances_:
            return self.coefficients_
        if self.elsewhere_ is not None and self.pooled is not False:
            return np.tile(self.population_, (len(labels), 1))
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
            if self.elsewhere_ is not None:
                raise InvalidInput(
                    f"this model holds the population alone; the coefficients of instance "
                    f"{instance!r} are in the files beside it, if it was in the fit"
                ) from None
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

    def _log(self, X: Any, y: Any, fitting: bool) -> tuple[Any, Ints | None]:
        """Return the log that was given or can be made of it, and the rows of its events, if so."""
        if isinstance(X, (EventLog, LogStream, InParts)):
            if y is not None:
                raise InvalidInput("a log has its losses already: leave y out")
            return (require_log(X) if isinstance(X, EventLog) else X), None
        frame = event_frame(X)
        if frame is None:
            return self._one_history(X, y, fitting), None
        losses = frame.losses(y)
        if losses is None and fitting:
            raise InvalidInput(
                "which are the losses? Pass them as y, or in a column named loss, cost or reward"
            )
        if losses is None:
            self._require_past_losses()
            losses = np.zeros(len(X[frame.instance]))
        elif fitting and hasattr(self, "feature_names_in_"):
            del self.feature_names_in_  # of a fit before, to something else
        return frame.log(losses, None if fitting else self.arms_)

    def _require_past_losses(self) -> None:
        if self._drifts():
            raise InvalidInput("a model with drift predicts from past losses: pass y too")

    def _one_history(self, X: Any, y: Any, fitting: bool) -> EventLog:
        """Return the log of an array of weights, (events, arms)."""
        check = _validation.validate_data
        try:
            if y is None and not fitting:
                X = check(self, X, reset=False, dtype=np.float64)
                self._require_past_losses()
                y = np.zeros(len(X))
            else:
                if y is not None and holds_text(y):
                    raise InvalidInput(f"y must be losses, numbers, got {y!r:.80}")
                X, y = check(self, X, y, reset=fitting, y_numeric=True, dtype=np.float64)
        except InfluentialBanditsError:
            raise
        except ValueError as error:  # scikit-learn's own words, as an error of this package
            raise InvalidInput(str(error)) from None
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


# Of a covariance in units of its standard deviations: solving loses half of the digits at most,
# or the fit itself says that the log does not determine it.
ROUNDING = 1e-8
MERGE = (
    "merge rare arms into one, or give items the arms that they belong to (items=, or categories= "
    "of read_log; --categories)"
)
TOO_LARGE = f"fit interaction='diagonal' (--interaction diagonal), or {MERGE}"
TOO_LITTLE = (
    "the log says too little for this model: its equations cannot be solved; set ridge > 0, fit "
    "interaction='diagonal', or gather more events"
)
UNDETERMINED = (
    "the log does not determine the interaction: a positive semi-definite minimiser may not exist "
    "(an entry could grow without end), and any other is not unique; shown is the limit of a tiny "
    "ridge. Set ridge > 0"
)


WHOLE = (
    "a stream of parts can be fitted with pooled=True or 'partial'; fitting each instance on "
    "its own keeps all of them, so read the log whole (read_log), or open_partitions"
)


def memory_of_fit(
    model: LossModel, arms: int, instances: int, execution: Execution | None
) -> FitMemory:
    """Return how much memory a fit takes on this computer; that of a cluster is not known."""
    workers = 1
    if execution is None:
        workers = checked_threads(model.threads)
    elif isinstance(execution, LocalExecution):
        workers = execution.threads
    size = arms + int(model._drifts()) + interaction_size(KINDS[model._kind()], arms)
    definite = model._kind() == "psd"
    return fit_memory(size, instances, workers, definite=definite, pooled=model.pooled)


def require_memory_for(
    models: Sequence[LossModel], arms: int, instances: int, execution: Execution | None
) -> None:
    """Raise unless there is room for models that are fitted one after the other, and all kept."""
    for model in models:
        model._check()
    needs = [memory_of_fit(model, arms, instances, execution) for model in models]
    order = sorted(range(len(models)), key=lambda number: needs[number])
    if order:
        told = _told(models[order[-1]], arms, instances)
        require_fit_memory([needs[number] for number in order], *told)


def _told(model: LossModel, arms: int, instances: int) -> tuple[str, str]:
    """Return what a fit is, and what to do if it is too large."""
    size = interaction_size(KINDS[model._kind()], arms)
    what = f"the fit of {arms:,} arms" + (f" with {size:,} interactions" if size else "")
    what += f" to {instances:,} instances" if instances > 1 else ""
    return what, TOO_LARGE if size > arms else MERGE


def _gaps(log: EventLog) -> Floats:
    """Return days between neighbouring events of the same instance; none without a clock."""
    if log.time is None or len(log) < 2:
        return np.zeros(0)
    gaps = np.diff(log.time) / DAY
    inside = np.ones(len(log) - 1, bool)
    ends = log.offsets[1:-1]
    inside[ends[(ends > 0) & (ends < len(log))] - 1] = False
    return gaps[inside]


def require_fitted(model: LossModel) -> None:
    """Raise scikit-learn's own error unless the model was fitted."""
    _validation.check_is_fitted(model, "coefficients_")


def check_at_least(name: str, value: Any, least: float) -> None:
    """Raise unless a parameter is a finite number of at least so much."""
    if not is_real(value) or not least <= value < np.inf:
        raise InvalidInput(f"{name} must be a number of at least {least:g}, got {shown(value)}")


def check_share(name: str, value: Any) -> None:
    """Raise unless a parameter lies in [0, 1)."""
    if not is_real(value) or not 0.0 <= value < 1.0:
        raise InvalidInput(f"{name} must lie in [0, 1), got {shown(value)}")


def is_covariance(matrix: Any, size: int) -> bool:
    """Tell whether a matrix (size, size) is symmetric and positive semi-definite, up to rounding.

    Measured in units of its own standard deviations, where no entry of a covariance exceeds one.
    """
    try:
        given = np.asarray(matrix, np.float64)
    except (TypeError, ValueError, OverflowError):
        return False
    if given.shape != (size, size) or not np.isfinite(given).all():
        return False
    own = np.diag(given)
    if (own < 0.0).any():
        return False
    varies = own > 0.0
    if not varies.all() and np.abs(given[~varies]).max() > ROUNDING * own.max(initial=0.0):
        return False  # what never varies varies with nothing
    unit = np.sqrt(own[varies])
    scaled = given[np.ix_(varies, varies)] / unit[:, None] / unit
    if not len(unit) or not np.isfinite(scaled).all():
        return not len(unit)
    lowest: float = np.linalg.eigvalsh(0.5 * (scaled + scaled.T))[0]
    return bool(lowest >= -size * ROUNDING and np.abs(scaled - scaled.T).max() <= ROUNDING)
