"""Results on disk: finished pieces survive anything; half-written or damaged ones never count."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from influential_bandits import __version__, files
from influential_bandits.packages import optional_module
from influential_bandits.piece_store import PieceStore, require_same_settings
from influential_bandits.studies.provenance import collect_provenance
from influential_bandits.studies.runner.rows import Columns, Rows


class RowStore:
    """Rows of finished pieces by name: in memory, for results that need no folder."""

    def __init__(self) -> None:
        self._rows: dict[str, Rows] = {}

    def read(self, name: str) -> Rows | None:
        """Return the rows of a piece, if it is finished."""
        return self._rows.get(name)

    def write(self, name: str, rows: Columns) -> None:
        """Keep the rows of a finished piece."""
        self._rows[name] = {column: np.asarray(values) for column, values in rows.items()}


class StudyFolder(RowStore):
    """Rows of finished pieces in the folder of a study, or of a family, with its settings.

    A run that was killed at any moment continues where it was. A folder made with other settings is
    refused.
    """

    def __init__(self, out: Path, name: str, settings: Mapping[str, Any]) -> None:
        self.path = out / name
        self.settings = _describe_settings(name, settings)
        self._pieces = PieceStore(self.path / "pieces", self.settings)
        files.sweep(self.path)
        require_same_settings(
            self.path / "settings.json",
            self.settings,
            f"{self.path} holds results of other settings; name another folder with --out, or "
            "remove it",
        )

    def read(self, name: str) -> Rows | None:
        piece = self._pieces.read(name)
        if piece is None:
            return None
        table, _ = piece
        return {
            column: table[column].to_numpy(zero_copy_only=False) for column in table.column_names
        }

    def write(self, name: str, rows: Columns) -> None:
        self._pieces.write(name, _make_table(rows), {"provenance": collect_provenance()})


def write_rows(out: Path, name: str, settings: Mapping[str, Any], rows: Columns) -> Path:
    """Write all rows of a study, with settings and provenance as metadata; return the file."""
    path = out / name / "data.parquet"
    about = _describe_settings(name, settings) | {"provenance": collect_provenance()}
    files.write_table(path, _make_table(rows), about)
    return path


def _describe_settings(name: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    return {"study": name, "version": __version__, "settings": dict(settings)}


def _make_table(rows: Columns) -> Any:
    pyarrow = optional_module("pyarrow")
    return pyarrow.table({name: np.asarray(values) for name, values in rows.items()})
