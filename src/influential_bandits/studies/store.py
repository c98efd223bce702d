"""Results on disk: finished pieces survive anything, half-written files never count."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import sys
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from influential_bandits import __version__
from influential_bandits.checks import optional_module
from influential_bandits.errors import InvalidInput
from influential_bandits.studies.study import Columns

__all__ = [
    "StudyFolder",
    "claim",
    "make_folder",
    "provenance",
    "require_possible",
    "write_atomically",
]


class Named(Protocol):
    """What has a folder of its own: a study, or a family of the arena."""

    @property
    def name(self) -> str:
        """Its name, which is the folder's."""


class StudyFolder:
    """The folder of one study: its settings, its finished pieces, its results.

    Pieces are Parquet files that appear under their names only when complete, so that a run that
    was killed at any moment goes on where it was. A folder made with other settings is refused.
    """

    def __init__(self, out: Path, study: Named, settings: Any) -> None:
        self.path = out / study.name
        self.pieces = self.path / "pieces"
        self.settings = {
            "study": study.name,
            "version": __version__,
            "settings": dataclasses.asdict(settings),
        }
        make_folder(self.pieces)
        claim(
            self.path / "settings.json",
            self.settings,
            f"{self.path} holds results of other settings; name another folder with --out, or "
            "remove it",
        )

    def has(self, name: str) -> bool:
        """Tell whether a piece is finished."""
        return self.piece(name) is not None

    def keep(self, name: str, rows: Columns) -> None:
        """Write a finished piece."""
        self.write_table(self._piece(name), rows)

    def piece(self, name: str) -> dict[str, npt.NDArray[Any]] | None:
        """Read a piece, if it is finished; a damaged file is removed and not finished."""
        path = self._piece(name)
        if not path.exists():
            return None
        try:
            table = optional_module("pyarrow.parquet").read_table(path)
        except (OSError, ValueError):
            path.unlink()
            return None
        return {
            column: table[column].to_numpy(zero_copy_only=False) for column in table.column_names
        }

    def write_table(self, path: Path, rows: Columns) -> None:
        """Write rows as Parquet, with the settings and their provenance in the metadata."""
        pyarrow = optional_module("pyarrow")
        parquet = optional_module("pyarrow.parquet")
        table = pyarrow.table({name: np.asarray(values) for name, values in rows.items()})
        about = json.dumps(self.settings | {"provenance": provenance()})
        table = table.replace_schema_metadata({"influential_bandits": about})
        write_atomically(path, lambda temporary: parquet.write_table(table, temporary))

    def _piece(self, name: str) -> Path:
        return self.pieces / f"{name}.parquet"


def claim(path: Path, settings: Any, otherwise: str) -> None:
    """Write the settings of a folder, or raise an error if it has others."""
    if path.exists():
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except (UnicodeDecodeError, json.JSONDecodeError):
            found = None
        if found != json.loads(json.dumps(settings)):
            raise InvalidInput(otherwise)
    else:
        text = json.dumps(settings, indent=2, ensure_ascii=False) + "\n"
        write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def require_possible(path: Path) -> None:
    """Say at once, before any work, if a folder for results cannot be there."""
    there = next(each for each in (path, *path.absolute().parents) if each.exists())
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


def write_atomically(path: Path, write: Any) -> None:
    """Let ``write`` fill a temporary file, and give it its name only when it is safely on disk."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        write(temporary)
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise InvalidInput(f"cannot write {path}: {error.strerror}") from None
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


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
