"""What a fit found out before it comes to the instances, kept until it is finished.

Scan, choice of settings and population are passes over the whole log. A fit whose cluster goes away
again and again would never come to its end if each attempt began with all of them.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from influential_bandits.checks import optional_module
from influential_bandits.errors import InvalidInput, MissingFile
from influential_bandits.files import parse_json, read_regular, write_json
from influential_bandits.learning.fitting import Once, Pooled
from influential_bandits.learning.loss_model import LossModel
from influential_bandits.learning.model_files import plain
from influential_bandits.learning.solvers.estimates import PopulationEstimate
from influential_bandits.learning.statistics.log_scan import (
    LogScan,
    PartScan,
    digest_log,
    rank_labels,
)
from influential_bandits.learning.statistics.pooled_sums import ArmSums
from influential_bandits.learning.statistics.random_effects import RandomEffects
from influential_bandits.logs.log import EventLog, make_sorted_log
from influential_bandits.numerics.fingerprints import package_digest
from influential_bandits.piece_store import PieceStore

__all__ = ["UnfinishedFit"]


class UnfinishedFit:
    """A folder beside the model: scans of single partitions, errors of models, a population.

    Each is kept with all that decides it. Scans are those of files of the same size and time.

    Parameters
    ----------
    path : Path
    log : PartitionedLog
    seed : int
        Of the sample.
    """

    def __init__(self, path: Path, log: Any, seed: int) -> None:
        self.path = path
        self._membership: Any = getattr(log, "membership", None)
        self._seed = seed
        self._pieces = PieceStore(path, {"what": "scan of a partition"})
        many = getattr(log, "n_instances", None)  # decides how many each part sends
        self._state = (
            f"{package_digest()} seed {seed}, {many} instances, arms {tuple(log.arm_names)}"
        )

    def find(self, number: int, part: Any) -> PartScan | None:
        """Return what an earlier attempt found out about a partition, if anything."""
        if not self._known(part):
            return None
        found = self._pieces.read(_name(number), f"{self._state} {part.identity}")
        return None if found is None else self._restore(*found)

    def keep(self, number: int, part: Any, found: PartScan) -> None:
        """Keep the scan of a partition: a row for each instance of its sample."""
        if not self._known(part) or found[2].controls:
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
        about = {"sums": plain(sums), "digest": digest}
        state = f"{self._state} {part.identity}"
        self._pieces.write(_name(number), pyarrow.table(columns), about, state)

    def _known(self, part: Any) -> bool:
        """Tell whether a partition can be told from others without reading it."""
        return self._membership is not None and bool(getattr(part, "identity", ""))

    def _restore(self, table: Any, about: dict[str, Any]) -> PartScan:
        def column(name: str) -> Any:
            return table[name].combine_chunks().flatten().to_numpy()

        lengths = optional_module("pyarrow.compute").list_value_length(table["item"])
        instances = tuple(table["instance"].to_pylist())
        log = make_sorted_log(
            instances,
            np.concatenate([[0], np.cumsum(lengths.to_numpy())]).astype(np.int64),
            column("item"),
            column("loss"),
            column("time") if "time" in table.column_names else None,
            self._membership,
            {},
        )
        loss, weight, *numbers = about["sums"]
        sums = ArmSums(np.array(loss, np.float64), np.array(weight, np.float64), *numbers)
        return sums, rank_labels(instances, self._seed), log, about["digest"]

    def errors(self, log: EventLog) -> dict[str, Any]:
        """Return the errors of models on a log that are known, to which others can be added."""
        return _KnownErrors(self.path / "errors.json", f"{package_digest()} {digest_log(log)}")

    def population(self, model: LossModel, scan: LogScan) -> Once:
        """Return how to make the population of a model once for all attempts."""
        path = self.path / "population.json"
        digest = hashlib.sha256(repr(sorted(scan.digests.items())).encode())
        digest.update(repr(sorted(model.get_params().items())).encode())
        digest.update(digest_log(scan.sample).encode())
        state = f"{package_digest()} {digest.hexdigest()}"

        def once(make: Callable[[], Pooled]) -> Pooled:
            data = _read(path, state)
            if data is None:
                shared, effects = map(plain, make())
                data = {"state": state, "shared": shared, "effects": effects}
                write_json(path, data, sealed=True)
            # Made or read, the same: every bit of it decides the files of the instances.
            means, free, covariance = (np.array(each, np.float64) for each in data["shared"][:3])
            shared_ = PopulationEstimate(means, free, covariance, *data["shared"][3:])
            return shared_, RandomEffects(*data["effects"])

        return once

    def remove(self) -> None:
        """Remove the folder: the fit is finished."""
        shutil.rmtree(self.path, ignore_errors=True)


class _KnownErrors(dict[str, Any]):
    """Squared errors of models by name, (instances,), on disk as soon as they are known."""

    def __init__(self, path: Path, state: str) -> None:
        data = _read(path, state)
        super().__init__({} if data is None else data["errors"])
        self._path, self._state = path, state

    def __setitem__(self, name: str, errors: Any) -> None:
        super().__setitem__(name, errors)
        finite = {key: plain(row) for key, row in self.items() if np.isfinite(row).all()}
        write_json(self._path, {"state": self._state, "errors": finite}, sealed=True)


def _read(path: Path, state: str) -> dict[str, Any] | None:
    """Return what a file holds, if it is whole and of this state."""
    try:
        raw = read_regular(path)
    except MissingFile:
        return None
    try:
        data = parse_json(raw, path)
    except InvalidInput:  # damaged
        return None
    return data if isinstance(data, dict) and data.get("state") == state else None


def _name(number: int) -> str:
    return f"scan-{number:06d}"
