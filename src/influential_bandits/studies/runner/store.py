"""Results on disk: finished pieces survive anything; half-written or damaged ones never count."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from influential_bandits import __version__, files
from influential_bandits.checks import optional_module
from influential_bandits.errors import InvalidInput
from influential_bandits.studies.runner.study import Columns

__all__ = [
    "Pieces",
    "StudyFolder",
    "claim",
    "make_folder",
    "provenance",
    "require_possible",
]

MOST_NAMED = 5  # files that were set aside


class Named(Protocol):
    """What has a folder of its own: a study, or a family of the arena."""

    @property
    def name(self) -> str:
        """Its name, which is the folder's."""


class Pieces:
    """Finished pieces in a folder: Parquet files that are whole, and say what they are of.

    A file appears under its name when it is complete, with a checksum of all its bytes and, under
    it, the settings and the name that it belongs to. One that is damaged, or belongs elsewhere, is
    not finished: it is set aside under another name and the user is told. Trouble with the disk, or
    too many open files, says nothing about a file: it ends the run, and leaves everything alone.

    Parameters
    ----------
    path : Path
        Is made if need be.
    of : mapping
        What all pieces belong to, as JSON data.
    """

    def __init__(self, path: Path, of: Mapping[str, Any]) -> None:
        self.path = path
        self._of = json.loads(json.dumps(of))
        self._set_aside = 0
        make_folder(path)
        files.sweep(path)

    def has(self, name: str, state: str = "") -> bool:
        """Tell whether a piece is finished; of another state it is whole, but out of date."""
        return self._checked(name, state) is not None

    def read(self, name: str, state: str = "") -> tuple[Any, dict[str, Any]] | None:
        """Return a finished piece as an Arrow table, and what it says about itself."""
        about = self._checked(name, state)
        if about is None:
            return None
        try:
            return files.read_table(self._file(name)), about
        except (OSError, MemoryError) as error:
            raise _unreadable(self._file(name), error) from None

    def keep(self, name: str, table: Any, told: Mapping[str, Any], state: str = "") -> None:
        """Write a finished piece; ``told`` is kept beside what it belongs to."""
        files.write_table(
            self._file(name), table, {**told, **self._of, "piece": name, "state": state}
        )

    def _checked(self, name: str, state: str) -> dict[str, Any] | None:
        path = self._file(name)
        try:
            holds = files.seal_holds(path)
            if not holds:
                why = "is damaged" if holds is False else "is damaged, or of an earlier version"
                self._keep_aside(path, why)
                return None
            about = files.read_about(path)
        except FileNotFoundError:
            return None
        except (OSError, MemoryError) as error:
            raise _unreadable(path, error) from None
        if any(about.get(key) != value for key, value in {**self._of, "piece": name}.items()):
            self._keep_aside(path, "belongs elsewhere: to other settings, or another name")
            return None
        return about if about.get("state") == state else None

    def _keep_aside(self, path: Path, why: str) -> None:
        """Rename a file, so that it neither counts nor is lost."""
        number, aside = 1, path.with_name(f"{path.name}.damaged")
        while aside.exists():
            number += 1
            aside = path.with_name(f"{path.name}.damaged-{number}")
        path.rename(aside)
        self._set_aside += 1
        if self._set_aside <= MOST_NAMED:
            more = "; further ones are not named" if self._set_aside == MOST_NAMED else ""
            print(
                f"note: {path} {why}: it is kept as {aside.name}, and made anew{more}",
                file=sys.stderr,
            )

    def _file(self, name: str) -> Path:
        return self.path / f"{name}.parquet"


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
        self._pieces = Pieces(self.path / "pieces", self.settings)
        files.sweep(self.path)
        claim(
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
        self._pieces.keep(name, _table(rows), {"provenance": provenance()})

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


def _unreadable(path: Path, error: BaseException) -> InvalidInput:
    return InvalidInput(
        f"cannot read {path}: {files.clear_reason(error)}; finished pieces are left as they are, "
        "so put that right and run the same again"
    )


def _table(rows: Columns) -> Any:
    pyarrow = optional_module("pyarrow")
    return pyarrow.table({name: np.asarray(values) for name, values in rows.items()})


def claim(path: Path, settings: Any, otherwise: str) -> None:
    """Write the settings of a folder, or raise an error if it has others."""
    try:
        raw = files.read_regular(path)
    except FileNotFoundError:
        files.write_json(path, settings, indent=2)
        return
    try:
        found = files.parse_json(raw, path)
    except InvalidInput:
        found = None
    if found != json.loads(json.dumps(settings)):
        raise InvalidInput(otherwise)


def require_possible(path: Path) -> None:
    """Say at once, before any work, if a folder for results cannot be there."""
    try:
        there = next(each for each in (path, *path.absolute().parents) if each.exists())
    except OSError as error:
        raise InvalidInput(f"cannot write to {path}: {files.clear_reason(error)}") from None
    if not there.is_dir():
        raise InvalidInput(f"cannot write to {path}: {there} is a file, and no folder")
    if not os.access(there, os.W_OK):
        raise InvalidInput(f"cannot write to {path}: no permission to write in {there}")


def make_folder(path: Path) -> None:
    """Make a folder for results, or say why it cannot be."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(f"cannot write to {path}: {error.strerror}") from None


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
