"""Finished pieces of long work on disk: they survive anything; damaged ones never count."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from influential_bandits import files
from influential_bandits.errors import InvalidInput, MissingFile

MOST_NAMED = 5  # files that were set aside


class PieceStore:
    """Finished pieces in a folder: Parquet files that are whole, and say what they belong to.

    A file appears under its name when it is complete, with a checksum of all its bytes, its name
    and the settings that it belongs to. A file that is damaged, or belongs elsewhere, does not
    count: it is renamed, and the user is told. An error of the disk, or too many open files, ends
    the run and changes nothing.

    Parameters
    ----------
    path : Path
        Is made if need be.
    settings : mapping
        What all pieces belong to, as JSON data.
    """

    def __init__(self, path: Path, settings: Mapping[str, Any]) -> None:
        self.path = path
        self._settings = json.loads(json.dumps(settings))
        self._renamed = 0
        make_folder(path)
        files.sweep(path)

    def read(self, name: str) -> tuple[Any, dict[str, Any]] | None:
        """Return a finished piece as an Arrow table, and its metadata."""
        about = self._read_about(name)
        if about is None:
            return None
        try:
            return files.read_table(self._file(name)), about
        except (OSError, MemoryError) as error:
            raise _cannot_read(self._file(name), error) from None

    def write(self, name: str, table: Any, about: Mapping[str, Any]) -> None:
        """Write a finished piece; ``about`` is kept in its metadata."""
        metadata = {**about, **self._settings, "piece": name}
        files.write_table(self._file(name), table, metadata)

    def _read_about(self, name: str) -> dict[str, Any] | None:
        path = self._file(name)
        try:
            if not files.seal_holds(path):
                self._set_aside(path, "is damaged")
                return None
            about = files.read_about(path)
        except FileNotFoundError:
            return None
        except (OSError, MemoryError) as error:
            raise _cannot_read(path, error) from None
        if any(about.get(key) != value for key, value in {**self._settings, "piece": name}.items()):
            self._set_aside(path, "belongs elsewhere: to other settings, or another name")
            return None
        return about

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
        return self.path / f"{name}.parquet"


def _cannot_read(path: Path, error: BaseException) -> InvalidInput:
    return InvalidInput(
        f"cannot read {path}: {files.clear_reason(error)}; finished pieces are left as they are, "
        "so put that right and run the same again"
    )


def require_same_settings(path: Path, settings: Any, otherwise: str) -> None:
    """Write the settings of a new folder; raise an error with these words if it has others."""
    try:
        raw = files.read_regular(path)
    except MissingFile:
        files.write_json(path, settings, indent=2)
        return
    try:
        written = files.parse_json(raw, path)
    except InvalidInput:
        written = None
    if written != json.loads(json.dumps(settings)):
        raise InvalidInput(otherwise)


def require_writable(path: Path) -> None:
    """Raise an error before any work if a folder for results cannot be made or written to."""
    try:
        nearest = next(each for each in (path, *path.absolute().parents) if each.exists())
    except OSError as error:
        raise InvalidInput(f"cannot write to {path}: {files.clear_reason(error)}") from None
    if not nearest.is_dir():
        raise InvalidInput(f"cannot write to {path}: {nearest} is a file, and no folder")
    if not os.access(nearest, os.W_OK):
        raise InvalidInput(f"cannot write to {path}: no permission to write in {nearest}")


def make_folder(path: Path) -> None:
    """Make a folder for results, or say why it cannot be."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(f"cannot write to {path}: {error.strerror}") from None
