"""From a scanned log to a fitted model: the population first, then instance by instance."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from influential_bandits.errors import InvalidInput, NotApplicable, Unfinished
from influential_bandits.execution.base import Execution
from influential_bandits.learning.fit_memory import describe_fit
from influential_bandits.learning.solvers.estimates import (
    InstanceFits,
    InstanceSummary,
    PopulationEstimate,
    average_fits,
    join_fits,
)
from influential_bandits.learning.solvers.partial import estimate_population, posterior_work
from influential_bandits.learning.solvers.penalised import Penalty
from influential_bandits.learning.solvers.pooled import fit_pooled_instances, fit_pooled_population
from influential_bandits.learning.solvers.separate import estimate_lone_covariance, fit_separately
from influential_bandits.learning.statistics.design import DAY, KINDS, Design
from influential_bandits.learning.statistics.log_scan import LogScan, sample_instances
from influential_bandits.learning.statistics.random_effects import (
    RandomEffects,
    estimate_random_effects,
)
from influential_bandits.learning.statistics.reduction import (
    CHUNK,
    apply_to_part,
    single_threaded_algebra,
    split_evenly,
)
from influential_bandits.logs.log import EventLog
from influential_bandits.numerics.arrays import Floats
from influential_bandits.world.fading import NO_CLOCK, require_fading

if TYPE_CHECKING:
    from influential_bandits.learning.loss_model import LossModel

__all__ = [
    "PopulationFit",
    "design_of",
    "fit_instances",
    "fit_population",
    "fit_scan",
    "store_fit",
]

TOO_LITTLE = (
    "the log says too little for this model: its equations cannot be solved; set ridge > 0, fit "
    "interaction='diagonal', or gather more events"
)
UNDETERMINED = (
    "the log does not determine the interaction: a positive semi-definite minimiser may not exist "
    "(an entry could grow without end), and any other is not unique; shown is the limit of a tiny "
    "ridge. Set ridge > 0"
)

FEWEST_FOR_VARIANCES = 2_000  # instances of which variance components are estimated
PAIRS_FOR_VARIANCES = 20_000_000  # of arms, in all of these instances

Pooled: TypeAlias = "tuple[PopulationEstimate, RandomEffects]"
Once: TypeAlias = Callable[[Callable[[], Pooled]], Pooled]


class PopulationFit(NamedTuple):
    """What instances share, fitted, and how to fit the instances."""

    work: Callable[[EventLog], InstanceFits]  # of the instances of a part; can be sent away
    population: PopulationEstimate | None  # None: the mean of the instances
    kept: int  # coefficients that differ between instances: the first so many

    @property
    def digest(self) -> str:
        """A number for all that decides the coefficients of an instance, beside its history."""
        digest = hashlib.sha256()
        _digest_into(digest, self.work)
        return digest.hexdigest()[:16]


def fit_scan(
    model: LossModel,
    scan: LogScan,
    arm_names: tuple[str, ...],
    execution: Execution,
    errors: bool = True,
) -> None:
    """Fit a model in place, all instances in memory; pooled, it may do without standard errors."""
    if scan.failed:
        raise Unfinished("; ".join(list(scan.failed.values())[:3]))
    try:
        found = fit_population(model, scan, arm_names, execution, errors=errors)
        labels, fits = fit_instances(found.work, scan.parts, execution, scan.chunk)
        population = found.population or _mean_population(model, scan, fits)
        store_fit(model, population, fits, labels)
    except MemoryError:  # somebody else took it in the meantime
        what, instead = describe_fit(model, len(arm_names), scan.sums.instances)
        raise NotApplicable(f"{what} takes more memory than there is: {instead}") from None


def fit_population(
    model: LossModel,
    scan: LogScan,
    arm_names: tuple[str, ...],
    execution: Execution,
    once: Once | None = None,
    errors: bool = True,
) -> PopulationFit:
    """Fit what all instances share, if anything; ``once`` may know it from an earlier attempt."""
    if require_fading(model.fading).by_clock and scan.sums.without_clock:
        raise InvalidInput(NO_CLOCK)
    design = design_of(model, scan.sums.means)
    definite, ridge = model.interaction == "psd", float(model.ridge)
    gaps = _days_between_events(scan.sample)
    model.design_, model.arm_names_, model.n_features_in_ = design, arm_names, len(arm_names)
    model.days_between_events_ = float(np.median(gaps)) if len(gaps) else None
    model.prior_ = None
    work: Any
    try:
        sample = _sample_for_variances(scan.sample, len(arm_names), model.seed)
        effects = estimate_random_effects([sample], design.baseline)
        if model.pooling == "full":
            make = partial(
                fit_pooled_population,
                scan.parts,
                design,
                definite,
                ridge,
                effects,
                sample,
                scan.sums.events,
                execution,
                scan.chunk,
                errors,
            )
            shared, model.effects_ = make() if once is None else once(make)
            work = partial(
                fit_pooled_instances,
                design=design,
                effects=model.effects_,
                shared=shared,
                errors=errors,
            )
            return PopulationFit(work, shared, design.n_arms)
        model.effects_ = effects
        if model.pooling == "partial":
            some = sample_instances([scan.sample], model.seed)
            shared, prior = estimate_population(some, design, definite, effects, execution)
            model.prior_ = prior
            return PopulationFit(posterior_work(design, definite, prior), shared, design.size)
    except np.linalg.LinAlgError:
        raise NotApplicable(TOO_LITTLE) from None
    how: dict[str, Any] = {"design": design, "penalty": Penalty(ridge, float(model.shrinkage))}
    work = partial(fit_separately, **how, definite=definite)
    return PopulationFit(work, None, design.size)


def _sample_for_variances(sample: EventLog, arms: int, seed: int) -> EventLog:
    """Return fewer instances where there are many arms, by whose number squared the time grows."""
    most = max(FEWEST_FOR_VARIANCES, PAIRS_FOR_VARIANCES // arms**2)
    return sample if sample.n_instances <= most else sample_instances([sample], seed, most)


def fit_instances(
    work: Callable[[EventLog], InstanceFits],
    parts: Any,
    execution: Execution,
    chunk: int = CHUNK,
) -> tuple[list[str], InstanceFits]:
    """Fit the instances of all parts, and keep them all; return their labels, too."""
    try:
        with single_threaded_algebra():
            tasks = split_evenly(parts, chunk)
            found = list(execution.map(partial(apply_to_part, work), tasks))
    except np.linalg.LinAlgError:
        raise NotApplicable(TOO_LITTLE) from None
    fits = join_fits(fits for _, fits in found)
    if not np.isfinite(fits.coefficients).all():
        raise NotApplicable(TOO_LITTLE)
    return [label for labels, _ in found for label in labels], fits


def _mean_population(model: LossModel, scan: LogScan, fits: InstanceFits) -> PopulationEstimate:
    """Return the mean of instances that share nothing."""
    covariance = None
    if len(fits.noise) == 1:
        penalty = Penalty(float(model.ridge), float(model.shrinkage))
        covariance = estimate_lone_covariance(scan.sample, model.design_, penalty, fits)
    return average_fits(fits, covariance)


def store_fit(
    model: LossModel,
    population: PopulationEstimate,
    fits: InstanceFits,
    labels: list[str],
    summary: InstanceSummary | None = None,
) -> None:
    """Give a model what was fitted; a summary, if the instances are kept in files beside it."""
    model.instances_ = tuple(labels)
    model.instance_summary_ = summary
    model.coefficients_, model.unconstrained_, model.standard_errors_ = fits[:3]
    model.noise_ = fits.noise
    model.population_, model.unconstrained_population_ = population.population, population.free
    model.population_covariance_ = population.covariance
    model.gap_ = float(fits.gap.max(initial=0.0))
    model.determined_ = bool(population.determined and fits.determined)
    model.status_ = "solved" if model.determined_ else UNDETERMINED
    model.about_ = {}


def design_of(model: LossModel, baseline: Floats) -> Design:
    """Return which regressors a model has."""
    fading = require_fading(model.fading)
    return Design(
        len(baseline),
        KINDS[model.interaction],
        fading.memory,
        fading.seconds,
        int(model.drift),
        float(model.level_memory),
        baseline,
    )


def _days_between_events(log: EventLog) -> Floats:
    """Return days between neighbouring events of the same instance; none without a clock."""
    if log.time is None or len(log) < 2:
        return np.zeros(0)
    gaps = np.diff(log.time) / DAY
    inside = np.ones(len(log) - 1, bool)
    ends = log.offsets[1:-1]
    inside[ends[(ends > 0) & (ends < len(log))] - 1] = False
    return gaps[inside]


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
