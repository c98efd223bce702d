"""Models of losses in a log, as scikit-learn regressors: stationary, drifting, influential."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from influential_bandits.checks import is_real, optional_module, whole_number
from influential_bandits.errors import InvalidInput, NotApplicable
from influential_bandits.learning.design import DAY, KINDS, Design
from influential_bandits.learning.fitting import (
    Fit,
    Penalty,
    fit_pooled,
    fit_separately,
    interactions,
    predictions,
)
from influential_bandits.learning.gradient import descend
from influential_bandits.learning.partial_pooling import Prior, fit_partially
from influential_bandits.learning.pooling import arm_means, random_effects
from influential_bandits.logs.log import EventLog, require_log
from influential_bandits.logs.membership import Membership
from influential_bandits.logs.streaming import LogStream
from influential_bandits.world.dynamics import Floats
from influential_bandits.world.instance import Instance
from influential_bandits.world.noise import GaussianNoise

__all__ = ["DriftModel", "InfluenceModel", "LossModel", "StationaryModel"]

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
        _validation.check_is_fitted(self, "coefficients_")
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
        _validation.check_is_fitted(self, "coefficients_")
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
        _at_least("shrinkage", self.shrinkage, 0.0)

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


class StationaryModel(LossModel):
    """Losses that never change: a mean for each arm, and each instance.

    Parameters
    ----------
    shrinkage : float
        Pseudo-events that pull each arm's mean towards the instance's own. 0 gives plain means, as
        in the paper (an arm never met gets the instance's mean).
    pooled : bool
        True: arms' means of all instances are shared as far as the log calls for (random effects).
    threads : int, optional

    Examples
    --------
    >>> from influential_bandits import EventLog, StationaryModel
    >>> log = EventLog(["ann"] * 4, ["news", "sport", "news", "sport"], [1.0, 3.0, 2.0, 4.0])
    >>> StationaryModel(shrinkage=0).fit(log).initial_losses_
    array([[1.5, 3.5]])
    """

    def __init__(
        self, shrinkage: float = 1.0, pooled: bool = False, threads: int | None = None
    ) -> None:
        self.shrinkage = shrinkage
        self.pooled = pooled
        self.threads = threads


class DriftModel(LossModel):
    """Losses that follow the recent level of their own history: arm effects plus drift.

    Parameters
    ----------
    level_memory : float in [0, 1)
        Of the exponential average of past surprises.
    shrinkage, pooled, threads
        As in :class:`StationaryModel`.

    Examples
    --------
    >>> import influential_bandits as ib
    >>> log = ib.synthetic_log(1, 1000, 2, drift=1.0, seed=0)
    >>> model = ib.DriftModel().fit(log)
    >>> bool(model.level_coefficients_[0] > 0.5)
    True
    """

    def __init__(
        self,
        level_memory: float = 0.9,
        shrinkage: float = 1.0,
        pooled: bool = False,
        threads: int | None = None,
    ) -> None:
        self.level_memory = level_memory
        self.shrinkage = shrinkage
        self.pooled = pooled
        self.threads = threads

    @property
    def level_coefficients_(self) -> Floats:
        """How much of the recent level carries over, (instances,)."""
        return self.coefficients_[:, self.design_.arms]

    def _drifts(self) -> bool:
        return True

    def _check(self) -> None:
        super()._check()
        _share("level_memory", self.level_memory)


class InfluenceModel(LossModel):
    """Losses that past pulls change: l1 + A·(discounted counts), fitted to a log.

    Parameters
    ----------
    interaction : "psd", "symmetric", "diagonal" or "free"
        What A may be. "psd" is the paper's model, solved to a certified optimum (``gap_``);
        "symmetric" also admits reinforcement (Sec. 5.1); "diagonal" is self-fatigue alone; "free"
        drops symmetry, and is no influential bandit any more.
    memory : float in (0, 1]
        γ: how much of a pull's influence is left after each further event. 1 is the paper.
    half_life : float, optional
        Days after which half of a pull's influence is gone, by the clock, instead of ``memory``.
    drift : bool
        Whether losses also follow the recent level of their history.
    ridge : float
        Pseudo-events of average counts that pull every entry of A towards zero. With 0 the log has
        to determine A; if it does not, ``status_`` says so.
    pooled : False, True or "partial"
        False: each instance has its own A. True: one A for all, initial losses of each. "partial":
        the population gives a prior, each instance its own posterior (empirical Bayes), and
        ``ridge`` is not used.
    level_memory, shrinkage, threads
        As in :class:`DriftModel`.
    solver : "convex" or "gradient"
        "gradient" is the paper's descent on A = BBᵀ with momentum, for comparison: it is not
        certified and stops after ``max_iter`` steps.
    max_iter : int
        Steps of the gradient solver.
    seed : int
        Of the gradient solver's start, and of the instances that a partial pool's prior is
        estimated from.

    Examples
    --------
    >>> import influential_bandits as ib
    >>> truth = [[0.2, -0.1], [-0.1, 0.1]]
    >>> log = ib.synthetic_log(200, 100, 2, interaction=truth, memory=0.8, seed=1)
    >>> model = ib.InfluenceModel(memory=0.8, pooled=True).fit(log)
    >>> model.interaction_.round(1)
    array([[ 0.2, -0.1],
           [-0.1,  0.1]])
    >>> model.instance().memory
    0.8
    """

    def __init__(
        self,
        interaction: str = "psd",
        memory: float = 1.0,
        half_life: float | None = None,
        drift: bool = False,
        ridge: float = 1.0,
        pooled: bool | str = False,
        level_memory: float = 0.9,
        shrinkage: float = 1.0,
        threads: int | None = None,
        solver: str = "convex",
        max_iter: int = 5000,
        seed: int = 0,
    ) -> None:
        self.interaction = interaction
        self.memory = memory
        self.half_life = half_life
        self.drift = drift
        self.ridge = ridge
        self.pooled = pooled
        self.level_memory = level_memory
        self.shrinkage = shrinkage
        self.threads = threads
        self.solver = solver
        self.max_iter = max_iter
        self.seed = seed

    def _kind(self) -> str:
        return self.interaction

    def _drifts(self) -> bool:
        return bool(self.drift)

    def _check(self) -> None:
        super()._check()
        named = isinstance(self.interaction, str) and self.interaction in KINDS
        if not named or self.interaction == "none":
            raise InvalidInput(
                "interaction must be 'psd', 'symmetric', 'diagonal' or 'free', "
                f"got {self.interaction!r}"
            )
        if not is_real(self.memory) or not 0.0 < self.memory <= 1.0:
            raise InvalidInput(f"memory must lie in (0, 1], got {self.memory!r}")
        if self.half_life is not None:
            if not is_real(self.half_life) or not 0.0 < self.half_life < np.inf:
                raise InvalidInput(f"half_life must be days above 0, got {self.half_life!r}")
            if self.memory != 1.0:
                raise InvalidInput("give memory (by events) or half_life (by the clock), not both")
        _at_least("ridge", self.ridge, 0.0)
        _share("level_memory", self.level_memory)
        if not isinstance(self.drift, (bool, np.bool_)):
            raise InvalidInput(f"drift must be True or False, got {self.drift!r}")
        if self.solver not in ("convex", "gradient"):
            raise InvalidInput(f"solver must be 'convex' or 'gradient', got {self.solver!r}")
        if self.solver == "gradient" and (self.interaction != "psd" or self.pooled is not False):
            raise InvalidInput("solver='gradient' is for interaction='psd' and pooled=False")
        whole_number("max_iter", self.max_iter, 1)
        whole_number("seed", self.seed)

    @property
    def interaction_(self) -> Floats:
        """The population's interaction, (arms, arms): shared, or the mean over instances."""
        return interactions(self.design_, self.population_)

    @property
    def interactions_(self) -> Floats:
        """The interaction of each instance, (instances, arms, arms)."""
        return interactions(self.design_, self.coefficients_)

    def interval(
        self, confidence: float = 0.95, instance: object = None
    ) -> dict[str, tuple[Floats, Floats]]:
        """Return intervals for every entry of A and l1.

        Those of a positive semi-definite fit are the symmetric model's, cut at zero on the diagonal
        and widened to hold the estimate: near the edge of the cone it is not normal.

        Parameters
        ----------
        confidence : float in (0, 1)
        instance : label, optional
            Whose; by default the population's.

        Returns
        -------
        dict
            "interaction": two arrays (arms, arms); "initial_loss": two arrays (arms,).
        """
        _validation.check_is_fitted(self, "coefficients_")
        if not is_real(confidence) or not 0.0 < confidence < 1.0:
            raise InvalidInput(f"confidence must lie between 0 and 1, got {confidence!r}")
        wide = optional_module("scipy.stats", "").norm.ppf(0.5 + 0.5 * confidence)
        if instance is None:
            centre, error = self.population_, np.sqrt(np.diag(self.population_covariance_))
            free = self.unconstrained_population_
        else:
            row = self.row(instance)
            centre, error = self.coefficients_[row], self.standard_errors_[row]
            free = self.unconstrained_[row]
        low = np.minimum(free - wide * error, centre)
        high = np.maximum(free + wide * error, centre)
        arms = self.design_.arms
        lows, highs = interactions(self.design_, low), interactions(self.design_, high)
        if self.interaction == "psd":
            spots = np.arange(arms)
            lows[spots, spots] = np.maximum(lows[spots, spots], 0.0)
        return {"interaction": (lows, highs), "initial_loss": (low[:arms], high[:arms])}

    def instance(
        self,
        instance: object = None,
        days_between_rounds: float | None = None,
        without_drift: bool = False,
    ) -> Instance:
        """Return the learned world as an :class:`Instance`, to simulate policies in.

        Parameters
        ----------
        instance : label, optional
            Whose world; by default the population's.
        days_between_rounds : float, optional
            For memory by the clock: how long a round lasts, by default the median time between two
            events of the log. Over one round a pull fades by γ = 2^(−days / half-life), and the
            next loss sees γ·A.
        without_drift : bool
            Admit a model with drift: the drift then counts as noise.

        Returns
        -------
        Instance
        """
        _validation.check_is_fitted(self, "coefficients_")
        if self.interaction == "free":
            raise NotApplicable(
                "a free interaction is not symmetric, so that this model is no influential bandit; "
                "fit interaction='symmetric' or 'psd'"
            )
        if self.drift and not without_drift:
            raise NotApplicable(
                "with drift, losses follow their own past, which an influential bandit has not; "
                "fit with drift=False, or pass without_drift=True to let drift count as noise"
            )
        row = self.population_ if instance is None else self.coefficients_[self.row(instance)]
        matrix, loss = interactions(self.design_, row), row[: self.design_.arms]
        memory = float(self.memory)
        if self.half_life is not None:
            days = self.days_between_events_ if days_between_rounds is None else days_between_rounds
            if not is_real(days) or not 0.0 <= float(days) < np.inf:  # type: ignore[arg-type]
                raise InvalidInput(
                    f"days_between_rounds must be a number of days, got {days_between_rounds!r}"
                )
            memory = max(2.0 ** (-float(days) / self.half_life), 1e-12)  # type: ignore[arg-type]
            matrix = memory * matrix
        definite = self.interaction == "psd"
        if definite:  # rounding may leave a hair below zero
            values, vectors = np.linalg.eigh(matrix)
            matrix = (vectors * np.maximum(values, 0.0)) @ vectors.T
            matrix = 0.5 * (matrix + matrix.T)
        return Instance(matrix, loss, self.arms_, memory, definite=definite)

    def noise(self, instance: object = None) -> GaussianNoise:
        """Return the noise of an instance, or the population's."""
        _validation.check_is_fitted(self, "coefficients_")
        if instance is None:
            return GaussianNoise(float(np.sqrt(np.mean(self.noise_**2))))
        return GaussianNoise(float(self.noise_[self.row(instance)]))


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


def _at_least(name: str, value: Any, least: float) -> None:
    if not is_real(value) or not least <= value < np.inf:
        raise InvalidInput(f"{name} must be a number of at least {least:g}, got {value!r}")


def _share(name: str, value: Any) -> None:
    if not is_real(value) or not 0.0 <= value < 1.0:
        raise InvalidInput(f"{name} must lie in [0, 1), got {value!r}")
