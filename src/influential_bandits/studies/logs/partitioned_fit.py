"""Fits of partitioned logs: the population in one file, the instances in pieces beside it.

A piece is a Parquet file of the instances of one partition. It gets its name when it is complete,
and is kept as long as settings and population stay the same: a fit that was interrupted continues.
So does what comes before the instances (``unfinished_fit.py``).
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from influential_bandits import __version__
from influential_bandits.checks import optional_module
from influential_bandits.errors import ClusterError, Unfinished
from influential_bandits.execution.base import Execution
from influential_bandits.execution.local import chosen_execution
from influential_bandits.execution.progress import Progress
from influential_bandits.learning.loss_model import LossModel
from influential_bandits.learning.model_files import save_model
from influential_bandits.learning.models import InfluenceModel
from influential_bandits.learning.partitioned_fit import (
    Begun,
    PartFit,
    begin_fit,
    end_fit,
    fit_part,
    names_of,
)
from influential_bandits.learning.statistics.log_scan import Survey, surveyed
from influential_bandits.learning.statistics.reduction import name_of
from influential_bandits.logs.log import EventLog
from influential_bandits.numerics.arrays import Floats
from influential_bandits.numerics.fingerprints import package_digest
from influential_bandits.studies.logs.sections import halves_of, some_instances, tuned
from influential_bandits.studies.logs.unfinished_fit import UnfinishedFit
from influential_bandits.studies.runner.store import (
    PieceStore,
    require_same_settings,
    require_writable,
)

__all__ = ["PartitionedFit", "fit_partitioned_log", "fit_partitions"]

FOLDER = "instances"
UNFINISHED = "unfinished"  # folder of what a fit found out before it comes to the instances
TUNING_EVENTS = 1_000_000  # of the sample that memory and ridge are chosen on
PLAIN = (str, int, float, bool, type(None))


class PartitionedFit(NamedTuple):
    """A model of the population, and what to say about how it was made."""

    model: Any
    notes: list[str]


def fit_partitions(
    model: LossModel,
    log: Any,
    out: str | Path,
    execution: Execution | None = None,
    *,
    progress: bool | None = None,
    survey: Survey | None = None,
) -> LossModel:
    """Fit a model to a partitioned log, and write it: the population, and the instances beside it.

    The file ``out`` holds the population (:func:`load_model` reads it; ``instances_`` is empty).
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
    execution : LocalExecution or DaskExecution, optional
        Where to compute; by default here. Changes no bit.
    progress : bool, optional
        Whether to show a bar; by default on terminals if it takes long.
    survey : Survey, optional
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
    ...     model = ib.fit_partitions(ib.DriftModel(pooled=True), log, out)
    ...     [file.name for file in out.parent.glob("instances/*.parquet")]
    ['partition-000000.parquet']
    """
    out = Path(out)
    require_writable(out.parent)
    where = chosen_execution(model.threads if execution is None else execution)
    folder = _InstanceFolder(out.parent / FOLDER, _settings(model, log))
    unfinished = UnfinishedFit(out.parent / UNFINISHED, log, model._seed())
    survey = surveyed(log, model._seed(), where, unfinished) if survey is None else survey
    once = unfinished.population(model, survey)
    begun = begin_fit(model, survey, tuple(log.arms), where, once)
    parts = dict(enumerate(log.partitions))
    state = {n: f"{package_digest()} {begun.digest} {survey.digests.get(n)}" for n in parts}
    failed = dict(survey.failed)
    bar = Progress("instances", len(parts), progress)
    try:
        failed |= dict(_fitted_pieces(folder, begun, parts, failed, state, model, where, bar))
    finally:
        bar.close()
    finished = [number for number in parts if number not in failed]
    if not finished:
        raise Unfinished(f"all {len(parts)} partitions failed: {_named(failed)}")
    end_fit(model, begun, (folder.read(n, state[n], begun) for n in finished))
    save_model(model, out, _about(log, model, survey, failed, execution))
    if failed:
        raise Unfinished(
            f"{len(failed)} of {len(parts)} partitions failed: {_named(failed)}. The instances of "
            f"the others are in {folder.path}; mend these and run the same again"
        )
    unfinished.remove()
    return model


def _fitted_pieces(
    folder: _InstanceFolder,
    begun: Begun,
    parts: dict[int, Any],
    failed: dict[int, str],
    state: dict[int, str],
    model: LossModel,
    execution: Execution,
    bar: Progress,
) -> Iterator[tuple[int, str]]:
    """Compute and write the pieces that are not there yet; yield the partitions that fail."""
    wanted = [n for n in parts if n not in failed and not folder.has(n, state[n])]
    bar.done = len(parts) - len(wanted)
    names = names_of(model, begun.kept)
    work = partial(fit_part, work=begun.work, kept=begun.kept)
    for outcome in execution.outcomes(work, ((n, parts[n]) for n in wanted)):
        number, part = outcome.task
        if isinstance(outcome.error, ClusterError):
            raise outcome.error
        if outcome.error is not None:
            yield number, f"{name_of(part, number)}: {outcome.error}"
        else:
            folder.keep(number, outcome.result, state[number], name_of(part, number), names)
        bar.done += 1
        bar.show()


def _named(failed: dict[int, str]) -> str:
    some = [failed[number] for number in sorted(failed)[:5]]
    more = f"; and {len(failed) - len(some)} more" if len(failed) > len(some) else ""
    return "; ".join(some) + more


def _settings(model: LossModel, log: Any) -> dict[str, Any]:
    """Return what decides the pieces, as far as the user has it in hand."""
    parameters = {name: _plain(v) for name, v in model.get_params().items() if name != "threads"}
    return {
        "version": __version__,
        "model": type(model).__name__,
        "parameters": parameters,
        "arms": list(log.arms),
        "partitions": len(log.partitions),
        "log": {key: value for key, value in log.about.items() if isinstance(value, str)},
    }


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _about(
    log: Any,
    model: LossModel,
    survey: Survey,
    failed: dict[int, str],
    execution: Execution | None,
) -> dict[str, Any]:
    """Return what a plan needs beside the model; the halves are those of the sample."""
    kept = {key: value for key, value in log.about.items() if isinstance(value, PLAIN)}
    mix = survey.sums.weight / survey.sums.weight.sum()
    influence = isinstance(model, InfluenceModel)
    halves = halves_of(survey.sample, model, execution) if influence else []
    about = {"log": kept, "logged_mix": mix.tolist(), "halves": halves, "instances": FOLDER}
    return about | ({"failed": [failed[n] for n in sorted(failed)]} if failed else {})


class _InstanceFolder:
    """The pieces of one fit: of these settings, and of the state of the population and events."""

    def __init__(self, path: Path, settings: dict[str, Any]) -> None:
        self.path = path
        self._pieces = PieceStore(path, settings)
        require_same_settings(
            path / "settings.json",
            settings,
            f"{path} holds the instances of another fit (other log, model or settings); name a "
            "file in another folder for this one, or remove it",
        )

    def has(self, number: int, state: str) -> bool:
        """Tell whether a piece is finished: of this code, this population and these events."""
        return self._pieces.has(_piece_name(number), state)

    def keep(self, number: int, fit: PartFit, state: str, name: str, names: list[str]) -> None:
        """Write a finished piece."""
        pyarrow = optional_module("pyarrow")
        columns = {
            "instance": pyarrow.array(fit.instances, pyarrow.string()),
            "coefficients": _lists(pyarrow, fit.coefficients),
            "standard_errors": _lists(pyarrow, fit.errors),
            "noise": fit.noise,
            "gap": fit.gap,
        }
        if not np.array_equal(fit.coefficients, fit.unconstrained):
            columns["unconstrained"] = _lists(pyarrow, fit.unconstrained)
        told = {"partition": name, "coefficients": names, "determined": fit.determined}
        self._pieces.write(_piece_name(number), pyarrow.table(columns), told, state)

    def read(self, number: int, state: str, begun: Begun) -> PartFit:
        """Read a finished piece."""
        found = self._pieces.read(_piece_name(number), state)
        if found is None:
            raise Unfinished(
                f"{_piece_name(number)} in {self.path} changed while the others were fitted; run "
                "the same again"
            )
        table, about = found
        rows = (table.num_rows, begun.kept)

        def lists(name: str) -> Floats:
            return table[name].combine_chunks().flatten().to_numpy().reshape(rows)

        free = "unconstrained" if "unconstrained" in table.column_names else "coefficients"
        return PartFit(
            tuple(table["instance"].to_pylist()),
            lists("coefficients"),
            lists(free),
            lists("standard_errors"),
            table["noise"].to_numpy(),
            table["gap"].to_numpy(),
            bool(about["determined"]),
        )


def _piece_name(number: int) -> str:
    return f"partition-{number:06d}"


def _lists(pyarrow: Any, rows: Floats) -> Any:
    """Return rows as a column of lists of the same length."""
    flat = pyarrow.array(np.ascontiguousarray(rows).ravel())
    return pyarrow.FixedSizeListArray.from_arrays(flat, rows.shape[1])


def fit_partitioned_log(
    log: Any,
    out: Path,
    *,
    interaction: str = "psd",
    memory: float | None = None,
    half_life: float | None = None,
    ridge: float | None = None,
    drift: bool = False,
    pooled: bool | str = True,
    seed: int = 0,
    execution: Execution | None = None,
) -> PartitionedFit:
    """Fit a model to a partitioned log and write it (:func:`fit_partitions`).

    What is left out is chosen by validation, on a sample of whole histories.
    """
    model = influence_model(interaction, memory, half_life, ridge, drift, pooled, seed)
    where = chosen_execution(execution)
    require_writable(out.parent)
    unfinished = UnfinishedFit(out.parent / UNFINISHED, log, seed)
    survey = surveyed(log, seed, where, unfinished)
    some = some_instances(survey.sample, TUNING_EVENTS, seed)
    chosen = chosen_settings(some, model, memory, ridge, where, unfinished.tuning(some))
    notes = []
    if chosen is not model:
        notes.append(
            f"What was not given was chosen on {some.n_instances:,} of "
            f"{survey.sums.instances:,} instances ({len(some):,} of {survey.sums.events:,} events)."
        )
    fit_partitions(chosen, log, out, where, survey=survey)
    notes.append(f"The {survey.sums.instances:,} instances are in {out.parent / FOLDER}.")
    return PartitionedFit(chosen, notes)


def influence_model(
    interaction: str,
    memory: float | None,
    half_life: float | None,
    ridge: float | None,
    drift: bool,
    pooled: bool | str,
    seed: int,
    threads: int | None = None,
) -> InfluenceModel:
    """Return the model that was asked for; what was left out is still to be chosen."""
    return InfluenceModel(
        interaction,
        memory=1.0 if memory is None else memory,
        half_life=half_life,
        drift=drift,
        ridge=1.0 if ridge is None else ridge,
        pooled=pooled,
        seed=seed,
        threads=threads,
    )


def chosen_settings(
    log: EventLog,
    model: InfluenceModel,
    memory: float | None,
    ridge: float | None,
    execution: Execution | None = None,
    known: MutableMapping[str, float] | None = None,
) -> InfluenceModel:
    """Return the model with what was not given chosen by validation; itself, if all was given."""
    if model.pooled == "partial":  # uses no ridge
        if memory is not None or model.half_life is not None:
            return model
        pooled = InfluenceModel(**(model.get_params() | {"pooled": True}))
        best = tuned(log, pooled, execution=execution, known=known)
        found = model.get_params() | {"memory": best.memory, "half_life": best.half_life}
        return InfluenceModel(**found)
    return model if ridge is not None else tuned(log, model, memory, execution, known)
