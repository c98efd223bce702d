"""RemoteFolder: files at a path or any fsspec address, reached alike from every process."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from influential_bandits.checks import make_printable
from influential_bandits.errors import InvalidInput, MissingExtra, MissingFile
from influential_bandits.packages import optional_module

ENDINGS = (".parquet", ".parq", ".pq")
TABLES = {"_delta_log": "Delta", ".hoodie": "Hudi"}  # folders that say which files are valid
LOCAL = {"file", "local"}  # what fsspec calls the files of this computer


class FileEntry(NamedTuple):
    """A file of a folder, as a listing shows it."""

    name: str  # relative to the folder
    size: int  # bytes
    changed: str  # when, in words; "" where the file system does not say


class FileListing:
    """The data of a folder, sorted by path, and what else is in it.

    What counts as data is what the engines that write such folders agree on: names that begin with
    an underscore (unless they are partitions, ``_day=1``) or a dot are theirs, not data, whole
    folders of that name included; of the rest, files whose name ends in .parquet, .parq or .pq, in
    capitals or not. So neither checksums nor unfinished uploads nor logs of a job are data.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self.taken: list[FileEntry] = []
        self.left: set[str] = set()  # names of files and, with a slash at the end, folders

    def leaves_out(self, name: str) -> bool:
        """Tell whether a name says that this is no data; refuse what is no plain folder."""
        if name in TABLES:
            raise InvalidInput(
                f"{self.address} is a {TABLES[name]} table, whose files may have been replaced by "
                f"others: read it with a library for {TABLES[name]}, and pass the table to read_log"
            )
        return name.startswith(".") or (name.startswith("_") and "=" not in name)

    def add(self, file: FileEntry, regular: bool) -> None:
        """Note a file: as data if its name says so."""
        if not file.name.lower().endswith(ENDINGS):
            self.left.add(file.name)
        elif not regular:
            raise InvalidInput(
                f"{file.name} of {self.address} is no regular file; remove it, or copy it there"
            )
        else:
            self.taken.append(file)

    def finish(self) -> FileListing:
        """Sort the files, or say that there are none."""
        if not self.taken:
            others = f" (but {join_names(sorted(self.left))})" if self.left else ""
            raise InvalidInput(
                f"{self.address} is a folder without Parquet files{others}; name the file to read, "
                "or a folder with files that end in .parquet"
            )
        self.taken.sort(key=lambda file: PurePosixPath(file.name).parts)
        return self

    def about(self) -> dict[str, Any]:
        """Return what to keep beside a log: how many files were taken, and what was left."""
        if [file.name for file in self.taken] == [""]:
            return {}
        left = [make_printable(name) for name in sorted(self.left)]
        return {"files": len(self.taken), "left": left}


def join_names(names: Sequence[str]) -> str:
    """Return names in one line, the first three of them."""
    more = f" and {len(names) - 3:,} more" if len(names) > 3 else ""
    return make_printable(", ".join(names[:3])) + more


def describe_files(about: Mapping[str, Any]) -> list[str]:
    """Return, for a log's ``about``, how many files were taken and which were left, if it says so.

    Examples
    --------
    >>> describe_files({"files": 2, "left": ["_SUCCESS", "notes.csv"]})
    ['2 files taken, 2 left: _SUCCESS, notes.csv']
    """
    if "files" not in about:
        return []
    left = about.get("left") or []
    others = f", {len(left):,} left: {join_names(left)}" if left else ""
    return [f"{about['files']:,} file{'' if about['files'] == 1 else 's'} taken{others}"]


def _walk(top: Path, listing: FileListing) -> None:
    """Go through a folder of this computer.

    Links are followed. One that leads nowhere, or to what is there anyway, is an error: events
    would be missing, or count twice.
    """
    real = {os.path.realpath(top): "the folder itself"}  # of all folders and data files

    def note(path: str, name: str) -> None:
        if path in real:
            raise InvalidInput(
                f"{name} of {listing.address} is a link to {real[path]}: events would count twice; "
                "remove it"
            )
        real[path] = name

    waiting = [(os.path.realpath(top), "")]
    while waiting:
        folder, prefix = waiting.pop()
        for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
            name = prefix + entry.name
            if listing.leaves_out(entry.name):
                listing.left.add(name + "/" * entry.is_dir(follow_symlinks=False))
                continue
            path = os.path.realpath(entry.path) if entry.is_symlink() else entry.path
            try:
                status = entry.stat()
            except FileNotFoundError:
                raise InvalidInput(
                    f"{name} of {listing.address} is a link that leads nowhere: its events would "
                    "be missing; fix it, or remove it"
                ) from None
            if stat.S_ISDIR(status.st_mode):
                note(path, name)
                waiting.append((path, f"{name}/"))
            else:
                if name.lower().endswith(ENDINGS):
                    note(path, name)
                file = FileEntry(name, status.st_size, str(status.st_mtime_ns))
                listing.add(file, stat.S_ISREG(status.st_mode))


def require_file_or_folder(path: Path) -> None:
    """Raise an error for what is not there, and for pipes and devices, which can be read once."""
    try:
        status = path.stat()
    except FileNotFoundError:
        broken = " (it is a link that leads nowhere)" if path.is_symlink() else ""
        raise MissingFile(
            f"there is no file or folder {make_printable(str(path))}{broken}"
        ) from None
    except (OSError, ValueError) as error:
        raise _unreachable(make_printable(str(path)), error) from None
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
        raise InvalidInput(
            f"{path} is a pipe or a device, but a log is read more than once: write it to a file "
            "first, as in: … > log.csv"
        )


@dataclass(frozen=True)
class RemoteFolder:
    """A folder by its address alone, so that it can be sent to other processes.

    Each process opens the file system itself; credentials and other storage options are those of
    fsspec's own configuration there. Paths of this computer need no fsspec.
    """

    address: str

    @classmethod
    def at(cls, address: object) -> RemoteFolder:
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
        """Send the address alone: every process opens the file system itself."""
        return {"address": self.address}

    @property
    def system(self) -> Any:
        """The file system, as Arrow knows it."""
        return self._place[0]

    @property
    def name(self) -> str:
        """The last part of the address, for messages."""
        return make_printable(PurePosixPath(self._place[1]).name or self.address)

    def path(self, name: str = "") -> str:
        """Return the path of a file in the file system."""
        root = self._place[1]
        return f"{root}/{name}" if name else root

    def below(self, name: str) -> RemoteFolder:
        """Return a folder in this one."""
        return RemoteFolder(f"{self.address}/{name}")

    def exists(self) -> bool:
        """Tell whether there is such a folder, or file."""
        kinds = optional_module("pyarrow.fs").FileType
        self._forget_listings()
        with _reaching(self.address):
            return bool(self.system.get_file_info(self.path()).type != kinds.NotFound)

    def _forget_listings(self) -> None:
        """See what another process wrote a moment ago."""
        if not self.local:
            self.system.handler.fs.invalidate_cache()

    def parquet_files(self) -> FileListing:
        """Return the Parquet files at any depth, sorted by path; or the file that this is."""
        kinds = optional_module("pyarrow.fs").FileType
        self._forget_listings()
        if self.local:
            require_file_or_folder(Path(self.address))
        with _reaching(self.address):
            here = self.system.get_file_info(self.path())
        if here.type == kinds.NotFound:
            raise MissingFile(f"there is no file or folder {self.address}")
        listing = FileListing(self.address)
        with _reaching(self.address):
            if here.type == kinds.File:
                listing.taken.append(_entry("", here))
            elif self.local:
                _walk(Path(self.address), listing)
            else:
                self._list(listing)
        return listing.finish()

    def _list(self, listing: FileListing) -> None:
        """Go through a folder that is elsewhere: one listing holds all depths."""
        systems = optional_module("pyarrow.fs")
        selector = systems.FileSelector(self.path(), recursive=True)
        for info in self.system.get_file_info(selector):
            name = info.path[len(self.path()) + 1 :].rstrip("/")
            parts = name.split("/")
            hidden = [n for n, part in enumerate(parts) if listing.leaves_out(part)]
            folder = info.type == systems.FileType.Directory
            if hidden:
                inside = folder or hidden[0] < len(parts) - 1
                listing.left.add("/".join(parts[: hidden[0] + 1]) + "/" * inside)
            elif not folder:
                listing.add(_entry(name, info), info.type == systems.FileType.File)

    def make(self) -> None:
        """Make the folder unless it is there."""
        with _reaching(self.address):
            self.system.create_dir(self.path(), recursive=True)

    def remove(self) -> None:
        """Remove the folder and all that is in it, if it is there."""
        if self.exists():
            self.system.delete_dir(self.path())


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


@contextmanager
def _reaching(address: str) -> Iterator[None]:
    """Say in one line why a file system cannot be reached."""
    try:
        yield
    except (OSError, UnicodeError) as error:
        raise _unreachable(address, error) from None


def _unreachable(address: str, error: Exception) -> InvalidInput:
    text = str(error).strip().partition("\n")[0] or type(error).__name__
    return InvalidInput(make_printable(f"{address:.200} cannot be reached: {text:.150}"))
