"""Results on disk: finished pieces survive anything; half-written or damaged ones never count."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from influential_bandits import __version__, files
from influential_bandits.errors import InvalidInput, MissingFile
from influential_bandits.packages import optional_module
from influential_bandits.studies.provenance import collect_provenance
from influential_bandits.studies.runner.rows import Columns, Rows

MOST_NAMED = 5  # files that were set aside


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

    A piece is a Parquet file that appears under its name when it is complete, with a checksum of
    all its bytes, its name and the settings that it belongs to. A file that is damaged, or belongs
    elsewhere, does not count: it is renamed, and the user is told. An error of the disk, or too
    many open files, ends the run and changes nothing.
    """

    def __init__(self, out: Path, name: str, settings: Mapping[str, Any]) -> None:
        self.path = out / name
        self._settings = json.loads(json.dumps(_describe_settings(name, settings)))
        self._renamed = 0
        files.make_folder(self.path / "pieces")
        files.sweep(self.path)
        files.sweep(self.path / "pieces")
        self._require_same_settings()

    def _require_same_settings(self) -> None:
        """Write the settings of a new folder; raise an error if it has others."""
        path = self.path / "settings.json"
        try:
            written = files.read_json(path)
        except MissingFile:
            files.write_json(path, self._settings, indent=2)
            return
        except InvalidInput:
            written = None
        if written != self._settings:
            raise InvalidInput(
                f"{self.path} holds results of other settings; name another folder with --out, or "
                "remove it"
            )

    def read(self, name: str) -> Rows | None:
        path = self._file(name)
        try:
            if not files.seal_holds(path):
                self._set_aside(path, "is damaged")
                return None
            about = files.read_about(path)
            if {**about, **self._settings, "piece": name} != about:
                self._set_aside(path, "belongs elsewhere: to other settings, or another name")
                return None
            table = files.read_table(path)
        except FileNotFoundError:
            return None
        except (OSError, MemoryError) as error:
            raise InvalidInput(
                f"cannot read {path}: {files.clear_reason(error)}; finished pieces are left as "
                "they are, so put that right and run the same again"
            ) from None
        return {
            column: table[column].to_numpy(zero_copy_only=False) for column in table.column_names
        }

    def write(self, name: str, rows: Columns) -> None:
        about = {"provenance": collect_provenance(), **self._settings, "piece": name}
        files.write_table(self._file(name), _make_table(rows), about)

    def _set_aside(self, path: Path, why: str) -> None:
        """Rename a file, so that it neither counts nor is lost."""
        number, aside = 1, path.with_name(f"{path.name}.damaged")
        while aside.exists():
            number += 1
            aside = path.with_name(f"{path.name}.damaged-{number}")
        path.rename(aside)
        self._renamed += 1
        if self._renamed <= MOST_NAMED:
            more = "; further ones are not named" if self._renamed == MOST_NAMED else ""
            print(
                f"note: {path} {why}: it is kept as {aside.name}, and computed again{more}",
                file=sys.stderr,
            )

    def _file(self, name: str) -> Path:
        return self.path / "pieces" / f"{name}.parquet"


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
