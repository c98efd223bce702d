"""Results on disk: finished pieces survive anything; half-written or damaged ones never count."""

from __future__ import annotations

import dataclasses
import platform
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from influential_bandits import __version__, files
from influential_bandits.checks import optional_module
from influential_bandits.piece_store import PieceStore, require_same_settings
from influential_bandits.studies.runner.study import Columns

__all__ = ["StudyFolder", "provenance"]


class Named(Protocol):
    """What has a folder of its own: a study, or a family of the arena."""

    @property
    def name(self) -> str:
        """Its name, which is the folder's."""


class StudyFolder:
    """The folder of one study: its settings, its finished pieces, its results.

    A run that was killed at any moment goes on where it was. A folder made with other settings is
    refused.
    """

    def __init__(self, out: Path, study: Named, settings: Any) -> None:
        self.path = out / study.name
        self.settings = {
            "study": study.name,
            "version": __version__,
            "settings": dataclasses.asdict(settings),
        }
        self._pieces = PieceStore(self.path / "pieces", self.settings)
        files.sweep(self.path)
        require_same_settings(
            self.path / "settings.json",
            self.settings,
            f"{self.path} holds results of other settings; name another folder with --out, or "
            "remove it",
        )

    def has(self, name: str) -> bool:
        """Tell whether a piece is finished."""
        return self._pieces.has(name)

    def keep(self, name: str, rows: Columns) -> None:
        """Write a finished piece."""
        self._pieces.write(name, _table(rows), {"provenance": provenance()})

    def piece(self, name: str) -> dict[str, npt.NDArray[Any]] | None:
        """Read a piece, if it is finished."""
        found = self._pieces.read(name)
        if found is None:
            return None
        table, _ = found
        return {
            column: table[column].to_numpy(zero_copy_only=False) for column in table.column_names
        }

    def write_rows(self, rows: Columns) -> Path:
        """Write all rows, with the settings and their provenance in the metadata; return where."""
        path = self.path / "data.parquet"
        files.write_table(path, _table(rows), self.settings | {"provenance": provenance()})
        return path


def _table(rows: Columns) -> Any:
    pyarrow = optional_module("pyarrow")
    return pyarrow.table({name: np.asarray(values) for name, values in rows.items()})


def provenance() -> dict[str, str]:
    """Return where and when something was made."""
    return {
        "version": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "numpy": np.__version__,
        "numba": optional_module("numba").__version__,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": " ".join(["influential-bandits", *sys.argv[1:]]),
    }
