"""From a scanned log to a fitted model: the population first, then instance by instance."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from influential_bandits.errors import InvalidInput, NotApplicable
from influential_bandits.execution.base import Execution
from influential_bandits.learning.fit_memory import describe_fit
from influential_bandits.learning.solvers.estimates import (
    InstanceFits,
    InstanceSummary,
    Moments,
    PopulationEstimate,
    allocate_fits,
    average_fits,
    average_moments,
    join_fits,
    measure_moments,
)
from influential_bandits.learning.solvers.partial import estimate_population, posterior_work
from influential_bandits.learning.solvers.penalised import Penalty
from influential_bandits.learning.solvers.pooled import fit_pooled_instances, fit_pooled_population
from influential_bandits.learning.solvers.separate import estimate_lone_covariance, fit_separately
from influential_bandits.learning.statistics.design import DAY, KINDS, Design
from influential_bandits.learning.statistics.log_scan import LogScan, sample_instances
from influential_bandits.learning.statistics.random_effects import estimate_random_effects
from influential_bandits.learning.statistics.reduction import (
    apply_to_part,
    load_part,
    single_threaded_algebra,
    split_evenly,
    tree_sum,
)
from influential_bandits.logs.log import EventLog
from influential_bandits.numerics.arrays import Floats
from influential_bandits.world.fading import NO_CLOCK, require_fading

if TYPE_CHECKING:
    from influential_bandits.learning.loss_model import LossModel

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

CENTRES = 50  # instances from whose mean fit sums of squares are measured


class PopulationFit(NamedTuple):
    """What instances share, fitted, and how to fit the instances."""

    work: Callable[[EventLog], InstanceFits]  # of the instances of a part; can be sent away
    population: PopulationEstimate | None  # None: the mean of the instances
    own: int  # coefficients that differ between instances: the first so many


def fit_scan(
    model: LossModel,
    scan: LogScan,
    arm_names: tuple[str, ...],
    execution: Execution,
    *,
    errors: bool = True,
    keep_instances: bool = True,
) -> None:
    """Fit a model in place; pooled, it may do without standard errors."""
    try:
        fit = fit_population(model, scan, arm_names, execution, errors)
        if keep_instances:
            labels, fits = fit_instances(fit.work, scan, execution)
            store_fit(model, fit.population or _mean_population(model, scan, fits), fits, labels)
        else:
            _store_summary(model, fit, scan, execution)
    except np.linalg.LinAlgError:
        raise NotApplicable(TOO_LITTLE) from None
    except MemoryError:  # somebody else took it in the meantime
        what, instead = describe_fit(model, len(arm_names), scan.sums.instances)
        raise NotApplicable(f"{what} takes more memory than there is: {instead}") from None


def fit_population(
    model: LossModel,
    scan: LogScan,
    arm_names: tuple[str, ...],
    execution: Execution,
    errors: bool,
) -> PopulationFit:
    """Fit what all instances share, if anything."""
    if require_fading(model.fading).by_clock and scan.sums.without_clock:
        raise InvalidInput(NO_CLOCK)
    design = design_of(model, scan.sums.means)
    definite, ridge = model.interaction == "psd", float(model.ridge)
    gaps = _days_between_events(scan.sample)
    model.design_, model.arm_names_ = design, arm_names
    model.days_between_events_ = float(np.median(gaps)) if len(gaps) else None
    model.prior_ = None
    work: Any
    sample = _sample_for_variances(scan.sample, len(arm_names), model.seed)
    effects = estimate_random_effects(sample, design.baseline)
    if model.pooling == "full":
        shared, effects = fit_pooled_population(
            scan, sample, design, definite, ridge, effects, execution, errors
        )
        model.effects_ = effects
        options: dict[str, Any] = {"design": design, "effects": effects, "shared": shared}
        work = partial(fit_pooled_instances, **options, errors=errors)
        return PopulationFit(work, shared, design.n_arms)
    model.effects_ = effects
    if model.pooling == "partial":
        some = sample_instances(scan.sample, model.seed)
        shared, prior = estimate_population(some, design, definite, effects, execution)
        model.prior_ = prior
        return PopulationFit(posterior_work(design, definite, prior), shared, design.size)
    penalty = Penalty(ridge, float(model.shrinkage))
    work = partial(fit_separately, design=design, penalty=penalty, definite=definite)
    return PopulationFit(work, None, design.size)


def _sample_for_variances(sample: EventLog, arms: int, seed: int) -> EventLog:
    """Return fewer instances where there are many arms, by whose number squared the time grows."""
    most = max(FEWEST_FOR_VARIANCES, PAIRS_FOR_VARIANCES // arms**2)
    return sample if sample.n_instances <= most else sample_instances(sample, seed, most)


def fit_instances(
    work: Callable[[EventLog], InstanceFits], scan: LogScan, execution: Execution
) -> tuple[list[str], InstanceFits]:
    """Fit the instances of all parts, and keep them all; return their labels, too."""
    with single_threaded_algebra():
        tasks = split_evenly(scan.parts, scan.chunk)
        results = list(execution.map(partial(apply_to_part, work), tasks))
    fits = join_fits(fits for _, fits in results)
    if not np.isfinite(fits.coefficients).all():
        raise NotApplicable(TOO_LITTLE)
    return [label for labels, _ in results for label in labels], fits


def _mean_population(model: LossModel, scan: LogScan, fits: InstanceFits) -> PopulationEstimate:
    """Return the mean of instances that share nothing."""
    covariance = None
    if len(fits.noise) == 1:
        penalty = Penalty(float(model.ridge), float(model.shrinkage))
        covariance = estimate_lone_covariance(scan.sample, model.design_, penalty, fits)
    return average_fits(fits, covariance)


def _store_summary(
    model: LossModel, fit: PopulationFit, scan: LogScan, execution: Execution
) -> None:
    """Give a model its population; of the instances, what their fits add up to."""
    size, own = model.design_.size, fit.own
    with single_threaded_algebra():
        if fit.population is None:
            few = scan.sample.take(np.arange(min(scan.sample.n_instances, CENTRES)))
            centre = fit.work(few).coefficients.mean(axis=0)
        else:
            centre = fit.population.population[:own]
        work = partial(_measure_part, work=fit.work, centre=centre)
        gaps = []

        def in_order() -> Iterator[Moments]:
            for moments, gap in execution.map(work, split_evenly(scan.parts, scan.chunk)):
                gaps.append(gap)
                yield moments

        total: Moments = tree_sum(in_order())
    mean, covariance, noise = average_moments(total, centre)
    if not np.isfinite(covariance).all():
        raise NotApplicable(TOO_LITTLE)
    between = np.zeros((size, size))
    between[:own, :own] = covariance
    none = InstanceFits(*allocate_fits(0, size), total.undetermined == 0)
    store_fit(model, fit.population or mean, none, [])
    model.instance_summary_ = InstanceSummary(total.instances, noise, between)
    model.gap_ = max(gaps)


def _measure_part(
    part: Any, *, work: Callable[[EventLog], InstanceFits], centre: Floats
) -> tuple[Moments, float]:
    """Return what the fits of a part's instances add up to, and the largest gap."""
    with single_threaded_algebra():
        fits = work(load_part(part))
        return measure_moments(fits, centre), float(fits.gap.max(initial=0.0))


def store_fit(
    model: LossModel,
    population: PopulationEstimate,
    fits: InstanceFits,
    labels: list[str],
) -> None:
    """Give a model what was fitted."""
    model.instances_ = tuple(labels)
    model.instance_summary_ = None
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
