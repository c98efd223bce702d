"""Folder: files at a path or any fsspec address, reached in the same way from every process."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from influential_bandits.checks import optional_module
from influential_bandits.errors import InvalidInput, MissingExtra
from influential_bandits.files import parse_json

__all__ = ["FileEntry", "Folder"]

LOCAL = {"file", "local"}  # what fsspec calls the files of this computer


class FileEntry(NamedTuple):
    """A file of a folder, as a listing shows it."""

    name: str  # relative to the folder
    size: int  # bytes
    changed: str  # when, in words; "" where the file system does not say


@dataclass(frozen=True)
class Folder:
    """A folder by its address alone, so that it can be sent to other processes.

    Each process opens the file system itself; credentials and other storage options are those of
    fsspec's own configuration there. Paths of this computer need no fsspec.
    """

    address: str

    @classmethod
    def at(cls, address: object) -> Folder:
        """Return the folder of an address; paths of this computer become absolute."""
        if not isinstance(address, (str, Path)) or not str(address):
            raise InvalidInput(
                "an address is a path or a URL such as s3://bucket/folder, got "
                f"{address!r:.60}; read data frames with read_log"
            )
        text = str(address)
        if "://" not in text and "::" not in text:
            return cls(str(Path(text).expanduser().absolute()))
        fs, path = _from_url(text)
        protocols = {fs.protocol} if isinstance(fs.protocol, str) else set(fs.protocol)
        return cls(str(Path(path).absolute()) if protocols & LOCAL else text.rstrip("/"))

    @property
    def local(self) -> bool:
        """Whether the folder is one of this computer."""
        return "://" not in self.address and "::" not in self.address

    @cached_property
    def _place(self) -> tuple[Any, str]:
        systems = optional_module("pyarrow.fs")
        if self.local:
            return systems.LocalFileSystem(), Path(self.address).as_posix()
        fs, path = _from_url(self.address)
        return systems.PyFileSystem(systems.FSSpecHandler(fs)), path.rstrip("/")

    def __getstate__(self) -> dict[str, Any]:
        """Leave the opened file system at home."""
        return {"address": self.address}

    @property
    def system(self) -> Any:
        """The file system, as Arrow knows it."""
        return self._place[0]

    @property
    def name(self) -> str:
        """The last part of the address, for messages."""
        return PurePosixPath(self._place[1]).name or self.address

    def path(self, name: str = "") -> str:
        """Return the path of a file in the file system."""
        root = self._place[1]
        return f"{root}/{name}" if name else root

    def below(self, name: str) -> Folder:
        """Return a folder in this one."""
        return Folder(f"{self.address}/{name}")

    def exists(self, name: str = "") -> bool:
        """Tell whether there is such a file, or the folder itself."""
        kinds = optional_module("pyarrow.fs").FileType
        self._forget_listings()
        try:
            return bool(self.system.get_file_info(self.path(name)).type != kinds.NotFound)
        except OSError as error:
            raise _unreachable(self.address, error) from None

    def _forget_listings(self) -> None:
        """See what another process wrote a moment ago."""
        if not self.local:
            self.system.handler.fs.invalidate_cache()

    def parquet_files(self) -> list[FileEntry]:
        """Return the Parquet files at any depth, sorted by path; or the file that this is."""
        systems = optional_module("pyarrow.fs")
        self._forget_listings()
        try:
            here = self.system.get_file_info(self.path())
            if here.type == systems.FileType.NotFound:
                raise InvalidInput(f"there is no file or folder {self.address}")
            if here.type == systems.FileType.File:
                return [_entry("", here)]
            found = self.system.get_file_info(systems.FileSelector(self.path(), recursive=True))
        except OSError as error:
            raise _unreachable(self.address, error) from None
        files = [
            _entry(info.path[len(self.path()) + 1 :], info)
            for info in found
            if info.type == systems.FileType.File and info.path.endswith(".parquet")
        ]
        if not files:
            raise InvalidInput(
                f"{self.address} is a folder without Parquet files; name a folder with files that "
                "end in .parquet"
            )
        return sorted(files, key=lambda file: PurePosixPath(file.name).parts)

    def make(self) -> None:
        """Make the folder unless it is there."""
        try:
            self.system.create_dir(self.path(), recursive=True)
        except OSError as error:
            raise _unreachable(self.address, error) from None

    def remove(self) -> None:
        """Remove the folder and all that is in it, if it is there."""
        if self.exists():
            self.system.delete_dir(self.path())

    def is_empty(self) -> bool:
        """Tell whether there is nothing in the folder."""
        systems = optional_module("pyarrow.fs")
        return not self.system.get_file_info(systems.FileSelector(self.path()))

    @contextmanager
    def writing(self, name: str, meanwhile: str = "") -> Iterator[Any]:
        """Open a file for writing that gets its name when it is complete.

        Until then it is in the folder ``meanwhile`` of this one.
        """
        where = f"{meanwhile}/" if meanwhile else ""
        unfinished = self.path(f"{where}{name}.{uuid.uuid4().hex}.unfinished")
        try:
            with self.system.open_output_stream(unfinished) as file:
                yield file
            if self.local:
                with Path(unfinished).open("rb+") as written:
                    os.fsync(written.fileno())
            self.system.move(unfinished, self.path(name))
        except BaseException:
            with suppress(OSError):  # what went wrong before is what the user should hear
                self.system.delete_file(unfinished)
            raise

    def write_json(self, name: str, values: Any) -> None:
        """Write a small file of JSON."""
        with self.writing(name) as file:
            file.write(json.dumps(values, indent=1, ensure_ascii=False).encode())

    def read_json(self, name: str) -> Any:
        """Return what such a file holds, or None if there is none."""
        if not self.exists(name):
            return None
        with self.system.open_input_stream(self.path(name)) as file:
            return parse_json(file.read(), self.path(name))


def _entry(name: str, info: Any) -> FileEntry:
    return FileEntry(name, int(info.size or 0), str(info.mtime_ns or ""))


def _from_url(address: str) -> tuple[Any, str]:
    fsspec = optional_module("fsspec.core")
    try:
        fs, path = fsspec.url_to_fs(address)
    except ImportError as error:
        raise MissingExtra(f"{address} cannot be opened: {error}") from None
    except (OSError, ValueError) as error:
        raise _unreachable(address, error) from None
    return fs, path


def _unreachable(address: str, error: Exception) -> InvalidInput:
    text = str(error).strip().partition("\n")[0] or type(error).__name__
    return InvalidInput(f"{address} cannot be reached: {text:.150}")
