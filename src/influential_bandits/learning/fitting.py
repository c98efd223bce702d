"""From a scanned log to a fitted model: the population first, then instance by instance.

How much memory a fit takes is said before it begins: K arms have m = K(K+1)/2 interactions, and the
equations of a fit are an m × m matrix: K⁴/4 numbers, 2 GB for 180 arms. Several such matrices are
held at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from influential_bandits.errors import InvalidInput, NotApplicable
from influential_bandits.execution.base import Execution
from influential_bandits.execution.local import LocalExecution, resolve_execution
from influential_bandits.free_memory import require_memory
from influential_bandits.learning.solvers.penalised import (
    InstanceFits,
    InstanceSummary,
    Moments,
    Penalty,
    PopulationEstimate,
    join_fits,
    measure_moments,
    measure_spread,
)
from influential_bandits.learning.solvers.pooled import fit_pooled_instances, fit_pooled_population
from influential_bandits.learning.solvers.separate import average_fits, fit_separately
from influential_bandits.learning.statistics.design import DAY, KINDS, Design, interaction_size
from influential_bandits.learning.statistics.log_scan import SEED, LogScan, sample_instances
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
LEVEL_MEMORY = 0.9  # of the recent level, an exponential average of past surprises
FEWEST_FOR_VARIANCES = 2_000  # instances of which variance components are estimated
PAIRS_FOR_VARIANCES = 20_000_000  # of arms, in all of these instances
# Matrices held by a solution: the statistics, the same with penalty and without, the inverse and
# its factors, what is left after eliminating initial losses and the product that it comes from;
# with the cone, the same in its coordinates, two factors of it, and three of every Newton step.
PLAIN, CONE = 8, 12
MERGE = (
    "merge rare arms into one (merge_rare_arms; --merge-arms-below), or give items the arms that "
    "they belong to (items=, or categories= of read_log; --categories)"
)
TOO_LARGE = f"fit interaction='diagonal' (--interaction diagonal), or {MERGE}"


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
        sample = begin_fit(model, scan, arm_names)
        if model.pooling == "full":
            _fit_pool(model, scan, sample, execution, errors, keep_instances)
        else:
            _fit_each(model, scan, execution)
    except np.linalg.LinAlgError:
        raise NotApplicable(TOO_LITTLE) from None
    except MemoryError:  # somebody else took it in the meantime
        fit, instead = describe_fit(model, len(arm_names), scan.sums.instances)
        raise NotApplicable(f"{fit} takes more memory than there is: {instead}") from None


def begin_fit(model: LossModel, scan: LogScan, arm_names: tuple[str, ...]) -> EventLog:
    """Give a model what is known before its equations are solved; return a sample for variances."""
    if require_fading(model.fading).by_clock and scan.sums.without_clock:
        raise InvalidInput(NO_CLOCK)
    gaps = _days_between_events(scan.sample)
    model.design_, model.arm_names_ = design_of(model, scan.sums.means), arm_names
    model.days_between_events_ = float(np.median(gaps)) if len(gaps) else None
    sample = _sample_for_variances(scan.sample, len(arm_names))
    model.effects_ = estimate_random_effects(sample, model.design_.baseline)
    return sample


def _fit_pool(
    model: LossModel,
    scan: LogScan,
    sample: EventLog,
    execution: Execution,
    errors: bool,
    keep_instances: bool,
) -> None:
    """Fit what all instances share, then what is their own."""
    design, definite, ridge = model.design_, model.interaction == "psd", float(model.ridge)
    shared, model.effects_ = fit_pooled_population(
        scan, sample, design, definite, ridge, model.effects_, execution, errors
    )
    options: dict[str, Any] = {"design": design, "effects": model.effects_, "shared": shared}
    work = partial(fit_pooled_instances, **options, errors=errors)
    if keep_instances:
        store_fit(model, shared, *fit_instances(work, scan, execution))
    else:
        _store_summary(model, work, shared, scan, execution)


def _fit_each(model: LossModel, scan: LogScan, execution: Execution) -> None:
    """Fit each instance alone; the population is their mean."""
    design = model.design_
    penalty = Penalty(float(model.ridge), float(model.shrinkage))
    definite = model.interaction == "psd"
    work = partial(fit_separately, design=design, penalty=penalty, definite=definite)
    fits, labels = fit_instances(work, scan, execution)
    store_fit(model, average_fits(fits, scan.sample, design, penalty), fits, labels)


def _sample_for_variances(sample: EventLog, arms: int) -> EventLog:
    """Return fewer instances where there are many arms, by whose number squared the time grows."""
    most = max(FEWEST_FOR_VARIANCES, PAIRS_FOR_VARIANCES // arms**2)
    return sample if sample.n_instances <= most else sample_instances(sample, SEED, most)


def fit_instances(
    work: Callable[[EventLog], InstanceFits], scan: LogScan, execution: Execution
) -> tuple[InstanceFits, list[str]]:
    """Fit the instances of all parts, and keep them all; return their labels, too."""
    with single_threaded_algebra():
        tasks = split_evenly(scan.parts, scan.chunk)
        results = list(execution.map(partial(apply_to_part, work), tasks))
    fits = join_fits(fits for _, fits in results)
    if not np.isfinite(fits.coefficients).all():
        raise NotApplicable(TOO_LITTLE)
    return fits, [label for labels, _ in results for label in labels]


def _store_summary(
    model: LossModel,
    work: Callable[[EventLog], InstanceFits],
    shared: PopulationEstimate,
    scan: LogScan,
    execution: Execution,
) -> None:
    """Give a model its population; of the instances, how many there are and how they differ."""
    own = model.design_.n_arms
    measure = partial(_measure_part, work=work, centre=shared.population[:own])
    with single_threaded_algebra():
        moments: Moments = tree_sum(execution.map(measure, split_evenly(scan.parts, scan.chunk)))
    between = np.zeros_like(shared.covariance)
    between[:own, :own] = measure_spread(moments)
    if not np.isfinite(between).all():
        raise NotApplicable(TOO_LITTLE)
    none = np.zeros((0, model.design_.size))
    store_fit(model, shared, InstanceFits(none, none, none, none[:, 0], none[:, 0], True), [])
    model.instance_summary_ = InstanceSummary(moments.instances, shared.noise, between)
    model.gap_ = shared.gap


def _measure_part(
    part: Any, *, work: Callable[[EventLog], InstanceFits], centre: Floats
) -> Moments:
    """Return what the fits of a part's instances add up to."""
    with single_threaded_algebra():
        return measure_moments(work(load_part(part)), centre)


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
        LEVEL_MEMORY,
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


def measure_fit(
    model: LossModel, arms: int, instances: int, execution: Execution | int | None
) -> float:
    """Return how many bytes a fit takes on this computer; those of a cluster are not known.

    ``instances`` are those whose coefficients are kept.
    """
    where = resolve_execution(execution)
    workers = where.threads if isinstance(where, LocalExecution) else 1
    size = arms + int(model.drift) + interaction_size(KINDS[model.interaction], arms)
    matrix = 8.0 * (size + 1) ** 2
    solving = CONE if model.interaction == "psd" else PLAIN
    matrices = solving * max(min(workers, instances), 1)
    if model.pooling == "full":
        matrices = max(solving, workers + 3)
    columns = 8.0 * 3 * size * instances  # coefficients, the same without the cone, errors
    return matrices * matrix + 2.0 * columns


def require_memory_for(
    model: LossModel, arms: int, instances: int, execution: Execution | int | None
) -> None:
    """Raise unless there is room for a fit."""
    model.check_settings()
    need = measure_fit(model, arms, instances, execution)
    require_memory(need, *describe_fit(model, arms, instances), NotApplicable)


def describe_fit(model: LossModel, arms: int, instances: int) -> tuple[str, str]:
    """Return what a fit is, and what to do if it is too large."""
    size = interaction_size(KINDS[model.interaction], arms)
    words = f"the fit of {arms:,} arms" + (f" with {size:,} interactions" if size else "")
    words += f" to {instances:,} instances" if instances > 1 else ""
    return words, TOO_LARGE if size > arms else MERGE
