"""What all models of losses share: a linear model of the next loss, to fit, predict and score."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import numpy as np

from influential_bandits.checks import abbreviate, is_real
from influential_bandits.errors import InvalidInput
from influential_bandits.execution.base import Execution
from influential_bandits.execution.local import resolve_execution
from influential_bandits.learning.fitting import design_of, fit_scan, require_memory_for
from influential_bandits.learning.model_files import read_model, write_model
from influential_bandits.learning.solvers.penalised import InstanceSummary
from influential_bandits.learning.statistics.design import Design, predict_losses
from influential_bandits.learning.statistics.log_scan import SEED, scan_log
from influential_bandits.learning.statistics.random_effects import RandomEffects
from influential_bandits.learning.statistics.reduction import HasPartitions
from influential_bandits.logs.log import EventLog, require_log
from influential_bandits.logs.outcome import Outcome, read_outcome
from influential_bandits.numerics.arrays import Floats
from influential_bandits.packages import optional_module
from influential_bandits.world.fading import Fades

_base: Any = optional_module("sklearn.base")
_validation: Any = optional_module("sklearn.utils.validation")

POOLINGS = ("none", "full")


class LossModel(_base.BaseEstimator):  # type: ignore[misc]
    """What all models share: coefficients of one linear model of the next loss.

    Models are fitted to an :class:`EventLog`, or to one in partitions; :func:`choose` and
    :func:`validate` compare them in the order of time.
    """

    # Settings. Models that do not let the user choose one have what is said here.
    interaction: str = "none"
    fading: Fades = 1.0
    drift: bool = False
    ridge: float = 0.0
    shrinkage: float = 1.0
    pooling: str = "none"

    # What a fit finds.
    arm_names_: tuple[str, ...]
    instances_: tuple[str, ...]
    coefficients_: Floats  # (instances, size): initial losses, level, interaction
    unconstrained_: Floats  # (instances, size): the same without the cone
    standard_errors_: Floats  # (instances, size)
    noise_: Floats  # (instances,): standard deviations
    population_: Floats  # (size,)
    unconstrained_population_: Floats  # (size,)
    population_covariance_: Floats  # (size, size)
    gap_: float  # the largest relative duality gap
    determined_: bool
    status_: str
    days_between_events_: float | None
    outcome_: Outcome  # what the losses of the log were made of
    about_: dict[str, Any]  # kept with the model in its file: the source of the log, its mix
    design_: Design
    effects_: RandomEffects
    instance_summary_: InstanceSummary | None  # if the coefficients of each are not kept

    def fit(
        self,
        log: EventLog | HasPartitions,
        execution: Execution | int | None = None,
        *,
        keep_instances: bool = True,
    ) -> Self:
        """Fit to a log.

        Parameters
        ----------
        log : EventLog or PartitionedLog
        execution : int, LocalExecution or DaskExecution, optional
            Where to compute, or on how many threads; by default on all cores of this computer.
            Changes no bit.
        keep_instances : bool
            Whether to keep the coefficients of each instance. Without them memory does not grow
            with the log: a pooled model holds the population, and ``instance_summary_`` says how
            many instances there are, their noise, and the covariance of their coefficients.

        Returns
        -------
        The model itself.
        """
        return self._fit(log, execution, keep_instances=keep_instances)

    def fit_to_predict(self, log: EventLog, execution: Execution | int | None = None) -> Self:
        """Fit to a log for predictions alone: a full pool has no standard errors then."""
        return self._fit(log, execution, errors=False)

    def _fit(
        self,
        log: EventLog | HasPartitions,
        execution: Execution | int | None,
        *,
        errors: bool = True,
        keep_instances: bool = True,
    ) -> Self:
        where = resolve_execution(execution)
        if not keep_instances and self.pooling != "full":
            raise InvalidInput(
                "keep_instances=False needs pooling='full': else a model is its instances"
            )
        if isinstance(log, EventLog) or not isinstance(log, HasPartitions):
            log = require_log(log)
        arm_names = tuple(log.arm_names)
        instances = getattr(log, "n_instances", None) if keep_instances else 0
        require_memory_for(self, len(arm_names), instances or 0, where)
        self.outcome_ = read_outcome(log.about)
        if isinstance(log, EventLog) and (log.lengths == 0).any():
            log = log.take(np.flatnonzero(log.lengths))
        scan = scan_log(log, SEED, where)
        fit_scan(self, scan, arm_names, where, errors=errors, keep_instances=keep_instances)
        return self

    def save(self, path: str | Path) -> None:
        """Write the fitted model to a JSON file: exact numbers, nothing that runs when it is read.

        Examples
        --------
        >>> import tempfile, influential_bandits as ib
        >>> model = ib.StationaryModel().fit(ib.data.synthetic_log(3, 10, 2, seed=0))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save(f"{folder}/model.json")
        ...     again = ib.StationaryModel.load(f"{folder}/model.json")
        >>> bool((again.coefficients_ == model.coefficients_).all())
        True
        """
        write_model(self, path)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a model of this kind that :meth:`save` wrote.

        Examples
        --------
        >>> import influential_bandits as ib
        >>> ib.InfluenceModel.load("nowhere.json")
        Traceback (most recent call last):
        influential_bandits.errors.MissingFile: cannot read nowhere.json: No such file or directory
        """
        kinds = {each.__name__: each for each in (cls, *cls.__subclasses__())}
        return read_model(path, kinds, design_of)

    def predict(self, log: EventLog) -> Floats:
        """Predict each event from the events before it in the same history.

        Parameters
        ----------
        log : EventLog
            Of the arms that the model was fitted to. Instances that were not in the fit, or whose
            coefficients were not kept, get the population's if the model is pooled; else they are
            an error.

        Returns
        -------
        array (events,)
        """
        require_fitted(self)
        if not isinstance(log, EventLog) and isinstance(log, HasPartitions):
            raise InvalidInput("predictions are for one log at a time: predict part by part")
        log = require_log(log)
        if log.arm_names != self.arm_names_:
            raise InvalidInput(
                f"the model was fitted to the arms {', '.join(self.arm_names_[:5])}, …, but this "
                f"log has {', '.join(log.arm_names[:5])}, …"
            )
        own = self._coefficients_of(log.instances)
        return predict_losses(log, self.design_, own, self.population_)

    def score(self, log: EventLog) -> float:
        """Return R² of the one-step-ahead predictions."""
        return float(optional_module("sklearn.metrics").r2_score(log.loss, self.predict(log)))

    def __sklearn_is_fitted__(self) -> bool:
        """Tell whether the model was fitted."""
        return hasattr(self, "coefficients_")

    def _coefficients_of(self, labels: tuple[str, ...]) -> Floats:
        if labels == self.instances_:
            return self.coefficients_
        if self.instance_summary_ is not None:
            return np.zeros((len(labels), 0))  # what all share is added to it
        known = {label: n for n, label in enumerate(self.instances_)}
        missing = [label for label in labels if label not in known]
        if missing and self.pooling == "none":
            raise InvalidInput(
                f"{len(missing)} instances were not in the fit, the first is {missing[0]!r}; a "
                "pooled model (pooling='full') can predict for new ones"
            )
        rows = np.array([known.get(label, -1) for label in labels])
        mean = self.population_[: self.coefficients_.shape[1]]
        return np.where(rows[:, None] >= 0, self.coefficients_[rows], mean)

    def row(self, instance: object) -> int:
        """Return the row of an instance in the fitted arrays, by its label."""
        require_fitted(self)
        try:
            return self.instances_.index(str(instance))
        except ValueError:
            if self.instance_summary_ is not None:
                raise InvalidInput(
                    f"this model holds the population alone, and not the coefficients of instance "
                    f"{instance!r}: fit with keep_instances=True"
                ) from None
            raise InvalidInput(
                f"instance {instance!r} was not in the fit of {len(self.instances_)} instances"
            ) from None

    @property
    def initial_loss_(self) -> Floats:
        """The population's initial losses, (arms,)."""
        return self.population_[: self.design_.n_arms]

    @property
    def initial_losses_(self) -> Floats:
        """The initial losses of each instance, (instances, arms)."""
        return self.coefficients_[:, : self.design_.n_arms]

    @property
    def settings(self) -> str:
        """The model as it was made, whether it is fitted or not."""
        return " ".join(str(super().__repr__()).split())

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        """Write it as it was made and, once fitted, say what it found in a line."""
        if not self.__sklearn_is_fitted__():
            return str(super().__repr__(N_CHAR_MAX))
        return f"{self.settings}: {self._say_in_a_line()}"

    def __str__(self) -> str:
        """Say what was found, in the unit of the log; the settings before that."""
        return repr(self)

    def _say_in_a_line(self) -> str:
        """Return what was found, in a line."""
        return self._describe_levels()

    def _describe_levels(self) -> str:
        """Say how many instances the model knows, and between which arms its outcome lies."""
        outcome, losses = self.outcome_, self.initial_loss_
        arms = sorted(range(len(losses)), key=lambda arm: outcome.of_loss(float(losses[arm])))
        ends = " to ".join(
            f"{outcome.of_loss(float(losses[arm])):.3g} ({self.arm_names_[arm]})"
            for arm in dict.fromkeys((arms[0], arms[-1]))
        )
        summary = self.instance_summary_
        many = len(self.instances_) if summary is None else summary.instances
        return f"{many:,} instances, {len(losses)} arms of {ends} {outcome.unit}"

    def check_settings(self) -> None:
        """Raise unless all settings are what they may be."""
        if not isinstance(self.pooling, str) or self.pooling not in POOLINGS:
            raise InvalidInput(f"pooling must be 'none' or 'full', got {abbreviate(self.pooling)}")
        check_at_least("shrinkage", self.shrinkage, 0.0)


def require_fitted(model: LossModel) -> None:
    """Raise scikit-learn's own error unless the model was fitted."""
    _validation.check_is_fitted(model, "coefficients_")


def check_at_least(name: str, value: Any, least: float) -> None:
    """Raise unless a parameter is a finite number of at least so much."""
    if not is_real(value) or not least <= value < np.inf:
        raise InvalidInput(
            f"{name} must be a number of at least {least:g}, got {abbreviate(value)}"
        )
