"""What a fit found out before it comes to the instances, kept until it is finished.

Survey, tuning and population are passes over the whole log. A fit whose cluster goes away again and
again would never come to its end if each attempt began with all of them.
"""

from __future__ import annotations

import hashlib
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from influential_bandits.checks import optional_module
from influential_bandits.errors import InvalidInput
from influential_bandits.files import parse_json, read_regular, write_json
from influential_bandits.learning.loss_model import LossModel, Once, Population
from influential_bandits.learning.solvers.separate import Shared
from influential_bandits.learning.statistics.log_scan import (
    PartSurvey,
    Survey,
    log_digest,
    ranks_of,
)
from influential_bandits.learning.statistics.pooled_sums import RandomEffects, Sums
from influential_bandits.logs.log import EventLog
from influential_bandits.numerics.fingerprints import package_digest
from influential_bandits.studies.runner.store import PieceStore

__all__ = ["UnfinishedFit"]


class UnfinishedFit:
    """A folder beside the model: surveys of single partitions, errors of models, a population.

    Each is kept with all that decides it. Surveys are those of files of the same size and time.

    Parameters
    ----------
    path : Path
    log : PartitionedLog
    seed : int
        Of the sample.
    """

    def __init__(self, path: Path, log: Any, seed: int) -> None:
        self.path = path
        self._membership = getattr(log, "membership", None)
        self._seed = seed
        self._pieces = PieceStore(path, {"what": "survey of a partition"})
        many = getattr(log, "n_instances", None)  # decides how many each part sends
        self._state = f"{package_digest()} seed {seed}, {many} instances, arms {tuple(log.arms)}"

    def find(self, number: int, part: Any) -> PartSurvey | None:
        """Return what an earlier attempt found out about a partition, if anything."""
        if not self._known(part):
            return None
        found = self._pieces.read(_name(number), f"{self._state} {part.identity}")
        return None if found is None else self._survey(*found)

    def keep(self, number: int, part: Any, found: PartSurvey) -> None:
        """Keep the survey of a partition: a row for each instance of its sample."""
        if not self._known(part):
            return
        pyarrow = optional_module("pyarrow")
        sums, ranks, log, digest = found
        columns = {
            "instance": pyarrow.array(log.instances, pyarrow.string()),
            "rank": ranks,
            "item": pyarrow.LargeListArray.from_arrays(log.offsets, log.item),
            "loss": pyarrow.LargeListArray.from_arrays(log.offsets, log.loss),
        }
        if log.time is not None:
            columns["time"] = pyarrow.LargeListArray.from_arrays(log.offsets, log.time)
        told = {"sums": [_plain(value) for value in sums], "digest": digest}
        state = f"{self._state} {part.identity}"
        self._pieces.write(_name(number), pyarrow.table(columns), told, state)

    def _known(self, part: Any) -> bool:
        """Tell whether a partition can be told from others without reading it."""
        return self._membership is not None and bool(getattr(part, "identity", ""))

    def _survey(self, table: Any, about: dict[str, Any]) -> PartSurvey:
        def column(name: str) -> Any:
            return table[name].combine_chunks().flatten().to_numpy()

        lengths = optional_module("pyarrow.compute").list_value_length(table["item"])
        instances = tuple(table["instance"].to_pylist())
        log = EventLog._of_sorted(
            instances,
            np.concatenate([[0], np.cumsum(lengths.to_numpy())]).astype(np.int64),
            column("item"),
            column("loss"),
            column("time") if "time" in table.column_names else None,
            self._membership,
            {},
        )
        loss, weight, *numbers = about["sums"]
        sums = Sums(np.array(loss, np.float64), np.array(weight, np.float64), *numbers)
        return sums, ranks_of(instances, self._seed), log, about["digest"]

    def tuning(self, log: EventLog) -> dict[str, float]:
        """Return the errors of models on a log that are known, to which others can be added."""
        return _KeptErrors(self.path / "tuning.json", f"{package_digest()} {log_digest(log)}")

    def population(self, model: LossModel, survey: Survey) -> Once:
        """Return how to make the population of a model once for all attempts."""
        path = self.path / "population.json"
        digest = hashlib.sha256(repr(sorted(survey.digests.items())).encode())
        digest.update(repr(sorted(model.get_params().items())).encode())
        digest.update(log_digest(survey.sample).encode())
        state = f"{package_digest()} {digest.hexdigest()}"

        def once(make: Callable[[], Population]) -> Population:
            data = _read(path, state)
            if data is None:
                shared, effects = ([_plain(value) for value in each] for each in make())
                data = {"state": state, "shared": shared, "effects": effects}
                write_json(path, data, sealed=True)
            # Made or read, the same: what pieces are of is decided by every bit of it.
            means, free, covariance = (np.array(each, np.float64) for each in data["shared"][:3])
            shared_ = Shared(means, free, covariance, *data["shared"][3:])
            return shared_, RandomEffects(*data["effects"])

        return once

    def remove(self) -> None:
        """Remove the folder: the fit is finished."""
        shutil.rmtree(self.path, ignore_errors=True)


class _KeptErrors(dict[str, float]):
    """Errors of models by name, on disk as soon as they are known."""

    def __init__(self, path: Path, state: str) -> None:
        data = _read(path, state)
        super().__init__({} if data is None else data["errors"])
        self._path, self._state = path, state

    def __setitem__(self, name: str, error: float) -> None:
        super().__setitem__(name, error)
        finite = {key: value for key, value in self.items() if math.isfinite(value)}
        write_json(self._path, {"state": self._state, "errors": finite}, sealed=True)


def _read(path: Path, state: str) -> dict[str, Any] | None:
    """Return what a file holds, if it is whole and of this state."""
    try:
        raw = read_regular(path)
    except FileNotFoundError:
        return None
    try:
        data = parse_json(raw, path)
    except InvalidInput:  # damaged
        return None
    return data if isinstance(data, dict) and data.get("state") == state else None


def _name(number: int) -> str:
    return f"survey-{number:06d}"


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value
