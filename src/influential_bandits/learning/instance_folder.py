"""Coefficients of instances on disk: a Parquet file for each partition of a log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from influential_bandits.checks import optional_module
from influential_bandits.errors import Unfinished
from influential_bandits.learning.solvers.estimates import InstanceFits
from influential_bandits.numerics.arrays import Floats
from influential_bandits.piece_store import PieceStore, require_same_settings

__all__ = ["InstanceFolder"]


class InstanceFolder:
    """The files of one fit: of these settings, and of the state of the population and events."""

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
        """Tell whether a partition is finished: of this code, this population, these events."""
        return self._pieces.has(_name(number), state)

    def write(
        self,
        number: int,
        labels: list[str],
        fits: InstanceFits,
        state: str,
        name: str,
        names: list[str],
    ) -> None:
        """Write a finished partition: its instances, and the coefficients that differ."""
        pyarrow = optional_module("pyarrow")
        columns = {
            "instance": pyarrow.array(labels, pyarrow.string()),
            "coefficients": _lists(pyarrow, fits.coefficients),
            "standard_errors": _lists(pyarrow, fits.errors),
            "noise": fits.noise,
            "gap": fits.gap,
        }
        if not np.array_equal(fits.coefficients, fits.free):
            columns["unconstrained"] = _lists(pyarrow, fits.free)
        about = {"partition": name, "coefficients": names, "determined": fits.determined}
        self._pieces.write(_name(number), pyarrow.table(columns), about, state)

    def read(self, number: int, state: str, kept: int) -> InstanceFits:
        """Read the fits of a finished partition, of whose coefficients so many are kept."""
        found = self._pieces.read(_name(number), state)
        if found is None:
            raise Unfinished(
                f"{_name(number)} in {self.path} changed while the others were fitted; run the "
                "same again"
            )
        table, about = found
        rows = (table.num_rows, kept)

        def lists(name: str) -> Floats:
            return table[name].combine_chunks().flatten().to_numpy().reshape(rows)

        free = "unconstrained" if "unconstrained" in table.column_names else "coefficients"
        return InstanceFits(
            lists("coefficients"),
            lists(free),
            lists("standard_errors"),
            table["noise"].to_numpy(),
            table["gap"].to_numpy(),
            bool(about["determined"]),
        )


def _name(number: int) -> str:
    return f"partition-{number:06d}"


def _lists(pyarrow: Any, rows: Floats) -> Any:
    """Return rows as a column of lists of the same length."""
    flat = pyarrow.array(np.ascontiguousarray(rows).ravel())
    return pyarrow.FixedSizeListArray.from_arrays(flat, rows.shape[1])
