"""Fits of more instances than memory holds: the population in one file, the instances beside it.

The instances of each partition go into a Parquet file of their own. It gets its name when it is
complete, and is kept as long as settings and population stay the same: a fit that was interrupted
continues. So does what comes before the instances (``unfinished_fit.py``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from influential_bandits.errors import ClusterError, NotApplicable, Unfinished
from influential_bandits.execution.base import Execution
from influential_bandits.execution.local import LocalExecution, resolve_execution
from influential_bandits.execution.progress import Progress
from influential_bandits.learning.fit_memory import require_memory_for
from influential_bandits.learning.fitting import (
    PopulationFit,
    fit_instances,
    fit_population,
    store_fit,
)
from influential_bandits.learning.instance_folder import InstanceFolder
from influential_bandits.learning.loss_model import LossModel
from influential_bandits.learning.model_files import plain_settings
from influential_bandits.learning.models import InfluenceModel
from influential_bandits.learning.selection import choose, list_choosable
from influential_bandits.learning.solvers.estimates import (
    InstanceFits,
    InstanceSummary,
    PopulationEstimate,
    allocate_fits,
)
from influential_bandits.learning.statistics.design import interaction_entries
from influential_bandits.learning.statistics.log_scan import LogScan, draw_instances, scan_log
from influential_bandits.learning.statistics.reduction import (
    load_part,
    name_part,
    single_threaded_algebra,
    tree_sum,
)
from influential_bandits.learning.unfinished_fit import UnfinishedFit
from influential_bandits.logs.outcome import read_outcome
from influential_bandits.numerics.arrays import Floats
from influential_bandits.numerics.fingerprints import package_digest
from influential_bandits.piece_store import require_writable

__all__ = ["choose_and_fit_partitions", "fit_partitions"]

FOLDER = "instances"
UNFINISHED = "unfinished"  # folder of what a fit found out before it comes to the instances
TUNING_EVENTS = 1_000_000  # of the sample that memory and ridge are chosen on
PLAIN = (str, int, float, bool, type(None))


def fit_partitions(
    model: LossModel,
    log: Any,
    out: str | Path,
    execution: Execution | int | None = None,
    *,
    progress: bool | None = None,
    scan: LogScan | None = None,
) -> LossModel:
    """Fit a model to a partitioned log, and write it: the population, and the instances beside it.

    The file ``out`` holds the population (``load`` of the model reads it; ``instances_`` is empty,
    and ``instance_summary_`` has the number of instances, their noise and the covariance of their
    coefficients).
    Coefficients, standard errors, noise and duality gap of the instances go into the folder
    ``instances`` beside it, one Parquet file for each partition. Finished files found there are
    kept. Memory does not grow with the number of partitions.

    Parameters
    ----------
    model : StationaryModel, DriftModel or InfluenceModel
        Is fitted in place.
    log : PartitionedLog
    out : path
        File for the model.
    execution : int, LocalExecution or DaskExecution, optional
        Where to compute, or on how many threads; by default on all cores here. Changes no bit.
    progress : bool, optional
        Whether to show a bar; by default on terminals if it takes long.
    scan : LogScan, optional
        What a first pass over the log has found, if there was one.

    Returns
    -------
    The model itself.

    Raises
    ------
    Unfinished
        If some partitions failed: names them, when all others are finished and kept.

    Examples
    --------
    >>> import tempfile, influential_bandits as ib
    >>> from pathlib import Path
    >>> events = ib.data.synthetic_log(6, 20, 2, seed=0).to_frame()
    >>> options = {"instance": "instance", "arm": "item", "time": "time", "loss": "loss"}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     events.to_parquet(f"{folder}/events.parquet")
    ...     log = ib.logs.open_partitions(folder, **options)
    ...     out = Path(folder) / "fit" / "model.json"
    ...     model = ib.fit_partitions(ib.DriftModel(pooling="full"), log, out)
    ...     [file.name for file in out.parent.glob("instances/*.parquet")]
    ['partition-000000.parquet']
    """
    out = Path(out)
    require_writable(out.parent)
    where = resolve_execution(execution)
    model.check_settings()
    folder = InstanceFolder(out.parent / FOLDER, _settings(model, log))
    unfinished = UnfinishedFit(out.parent / UNFINISHED, log, model.seed)
    scan = scan_log(log, model.seed, where, unfinished) if scan is None else scan
    arm_names = tuple(log.arm_names)
    require_memory_for([model], len(arm_names), 0, where)
    once = unfinished.population(model, scan)
    population = fit_population(model, scan, arm_names, where, once)
    parts = dict(enumerate(log.partitions))
    state = {n: f"{package_digest()} {population.digest} {scan.digests.get(n)}" for n in parts}
    failed = dict(scan.failed)
    bar = Progress("instances", len(parts), progress)
    try:
        failed |= dict(_fit_parts(folder, population, parts, failed, state, model, where, bar))
    finally:
        bar.close()
    finished = [number for number in parts if number not in failed]
    if not finished:
        raise Unfinished(f"all {len(parts)} partitions failed: {_list_failed(failed)}")
    _store_population(
        model, population, (folder.read(n, state[n], population.kept) for n in finished)
    )
    model.outcome_ = read_outcome(log.about)
    model.about_ = _about(log, scan, failed)
    model.save(out)
    if failed:
        raise Unfinished(
            f"{len(failed)} of {len(parts)} partitions failed: {_list_failed(failed)}. The "
            f"instances of the others are in {folder.path}; fix these and run the same again"
        )
    unfinished.remove()
    return model


def choose_and_fit_partitions(
    model: InfluenceModel,
    log: Any,
    out: Path,
    settings: Sequence[str] = ("fading", "ridge"),
    execution: Execution | int | None = None,
) -> tuple[InfluenceModel, list[str]]:
    """Choose settings on a sample, and fit (:func:`fit_partitions`); say how in the notes."""
    where = resolve_execution(execution)
    require_writable(out.parent)
    model.check_settings()
    unfinished = UnfinishedFit(out.parent / UNFINISHED, log, model.seed)
    scan = scan_log(log, model.seed, where, unfinished)
    notes = []
    if list_choosable(model, settings):
        some = draw_instances(scan.sample, TUNING_EVENTS, model.seed)
        how: dict[str, Any] = {"settings": settings, "known": unfinished.errors(some)}
        model, _ = choose(some, model, fit=False, progress=False, execution=where, **how)
        notes.append(
            f"What was not given was chosen on {some.n_instances:,} of "
            f"{scan.sums.instances:,} instances ({len(some):,} of {scan.sums.events:,} events)."
        )
    fit_partitions(model, log, out, where, scan=scan)
    notes.append(f"The {scan.sums.instances:,} instances are in {out.parent / FOLDER}.")
    return model, notes


def _fit_parts(
    folder: InstanceFolder,
    population: PopulationFit,
    parts: dict[int, Any],
    failed: dict[int, str],
    state: dict[int, str],
    model: LossModel,
    execution: Execution,
    bar: Progress,
) -> Iterator[tuple[int, str]]:
    """Fit and write the partitions that are not there yet; yield those that fail, and why."""
    wanted = [n for n in parts if n not in failed and not folder.has(n, state[n])]
    bar.done = len(parts) - len(wanted)
    names = _name_coefficients(model, population.kept)
    work = partial(_fit_part, work=population.work, kept=population.kept)
    for outcome in execution.outcomes(work, ((n, parts[n]) for n in wanted)):
        number, part = outcome.task
        if isinstance(outcome.error, ClusterError):
            raise outcome.error
        if outcome.error is not None:
            yield number, f"{name_part(part, number)}: {outcome.error}"
        else:
            labels, fits = outcome.result
            name = name_part(part, number)
            folder.write(number, labels, fits, state[number], name, names)
        bar.count_one()


def _fit_part(
    task: tuple[int, Any], threads: int | None, work: Any, kept: int
) -> tuple[list[str], InstanceFits]:
    """Fit the instances of a partition, task = (number, partition); can be sent away."""
    labels, fits = fit_instances(work, [load_part(task[1])], LocalExecution(threads))
    own, free, errors = (column[:, :kept].copy() for column in fits[:3])
    return labels, fits._replace(coefficients=own, free=free, errors=errors)


def _name_coefficients(model: LossModel, kept: int) -> list[str]:
    """Return what the coefficients of an instance are, in words."""
    arms, design = model.arm_names_, model.design_
    names = [f"initial loss of {arm}" for arm in arms]
    names += ["recent level"] * design.controls
    pairs = interaction_entries(design.kind, design.n_arms)
    return [*names, *(f"A[{arms[i]}, {arms[j]}]" for i, j in pairs)][:kept]


def _list_failed(failed: dict[int, str]) -> str:
    some = [failed[number] for number in sorted(failed)[:5]]
    more = f"; and {len(failed) - len(some)} more" if len(failed) > len(some) else ""
    return "; ".join(some) + more


def _settings(model: LossModel, log: Any) -> dict[str, Any]:
    """Return what the user has set and the files of instances depend on; events have digests."""
    log_settings = {
        key: value
        for key, value in log.about.items()
        if isinstance(value, str) and key != "times"  # when events were, which they say themselves
    }
    return {
        "model": type(model).__name__,
        "parameters": plain_settings(model),
        "arm_names": list(log.arm_names),
        "partitions": len(log.partitions),
        "log": log_settings,
    }


def _about(log: Any, scan: LogScan, failed: dict[int, str]) -> dict[str, Any]:
    """Return where the log comes from, how often its arms were met, and where instances are."""
    about = {
        "log": {key: value for key, value in log.about.items() if isinstance(value, PLAIN)},
        "command": log.about.get("command"),
        "logged_mix": scan.sums.shares.tolist(),
        "instances": FOLDER,
    }
    return about | ({"failed": [failed[n] for n in sorted(failed)]} if failed else {})


class _Moments(NamedTuple):
    instances: int
    coefficients: Floats  # sums, measured from a centre
    squares: Floats
    free: Floats
    free_squares: Floats
    errors: Floats  # sums of squares
    noise: float
    undetermined: int  # partitions whose statistics do not determine the interaction


def _store_population(model: LossModel, fit: PopulationFit, parts: Iterable[InstanceFits]) -> None:
    """Give the model its population; the fits are read once, in order, one at a time."""
    size, kept = model.design_.size, fit.kept
    remaining = iter(parts)
    first = next(remaining, None)
    if first is None:
        raise NotApplicable("no instance was fitted")
    centre = (
        first.coefficients.mean(axis=0)
        if fit.population is None
        else fit.population.population[:kept]
    )
    gaps = []

    def moments(part: InstanceFits) -> _Moments:
        gaps.append(float(part.gap.max(initial=0.0)))
        return _moments(part, centre)

    with single_threaded_algebra():
        total: _Moments = tree_sum(map(moments, chain([first], remaining)))
    number = total.instances
    between = np.zeros((size, size))
    between[:kept, :kept] = _covariance(number, total.coefficients, total.squares)
    if number > 1:  # estimates are pulled together, by as much as is not known of each instance
        between[:kept, :kept] += np.diag(total.errors / number)
    population = fit.population or PopulationEstimate(
        centre + total.coefficients / number,
        centre + total.free / number,
        _covariance(number, total.free, total.free_squares) / number
        if number > 1
        else np.diag(total.errors),
        0.0,
        0.0,
        True,
    )
    summary = InstanceSummary(number, float(np.sqrt(total.noise / number)), between)
    nobody = InstanceFits(*allocate_fits(0, size), total.undetermined == 0)
    store_fit(model, population, nobody, [], summary)
    model.gap_ = max(gaps)


def _moments(part: InstanceFits, centre: Floats) -> _Moments:
    own, free = part.coefficients - centre, part.free - centre
    return _Moments(
        len(part.noise),
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
