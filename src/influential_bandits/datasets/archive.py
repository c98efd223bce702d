"""Files of a folder or of a zip, read without unpacking, with their official md5 sums."""

from __future__ import annotations

import hashlib
import io
import os
import re
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

from influential_bandits.errors import InvalidInput, InvalidLog, MissingFile

__all__ = ["Archive", "Watched", "sums_in"]

CHECKSUMS = "checksums.txt"
ENCRYPTED = 0x1  # flag of a zip's member
# "0df9…97  movies.csv", as md5sum writes it, or "MD5 (movies.csv) = 0df9…97", as BSD's md5 does.
SUMS = re.compile(
    r"^(?:([0-9a-f]{32})[ \t]+\*?(\S.*?)|MD5 \((.+?)\) = ([0-9a-f]{32}))\s*$",
    re.IGNORECASE | re.MULTILINE,
)


class Archive:
    """A folder (with its sub-folders, one level deep) or a zip, as names and streams.

    Use it in a ``with`` statement. Whatever is wrong below comes out as InvalidLog.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = (Path(folder) / "notes.txt").write_bytes(b"three")
    ...     with Archive(folder) as archive:
    ...         archive.names, archive.size("notes.txt"), archive.read("notes.txt")
    (['notes.txt'], 5, b'three')
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        try:
            self.path = Path(path)
        except TypeError:
            raise InvalidInput(
                f"expected the path of a folder or a zip, got {path!r:.80}"
            ) from None
        self._zip: zipfile.ZipFile | None = None
        with self._reading():
            there = self.path.is_dir(), self.path.is_file()
        if not any(there):
            raise MissingFile(f"there is no folder and no file {str(self.path)!r}")
        with self._reading():
            if there[0]:
                self.names = _files(self.path)
            else:
                self._zip = self._open_zip()
                self.names = [name for name in self._zip.namelist() if not name.endswith("/")]

    def _open_zip(self) -> zipfile.ZipFile:
        try:
            return zipfile.ZipFile(self.path)
        except zipfile.BadZipFile:
            if self.path.suffix.lower() in {".csv", ".dat"}:
                problem = "is a single file; pass the folder that it lies in"
            else:
                problem = "is not a zip, or was cut off while it was copied; get it again"
            raise InvalidLog(f"{str(self.path)!r} {problem}") from None

    def __enter__(self) -> Archive:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the zip."""
        if self._zip is not None:
            self._zip.close()

    def size(self, name: str) -> int:
        """Return the number of bytes of a file, unpacked."""
        with self._reading(name):
            if self._zip is not None:
                return self._zip.getinfo(name).file_size
            return (self.path / name).stat().st_size

    def read(self, name: str) -> bytes:
        """Return a whole file."""
        with self.open(name) as stream:
            return stream.read()

    @contextmanager
    def open(self, name: str) -> Iterator[IO[bytes]]:
        """Open a file to read bytes from."""
        with self._reading(name), self._stream(name) as stream:
            yield stream

    def _stream(self, name: str) -> IO[bytes]:
        if self._zip is None:
            return (self.path / name).open("rb")
        if self._zip.getinfo(name).flag_bits & ENCRYPTED:
            raise InvalidLog(
                f"{name!r} in {str(self.path)!r} is encrypted; unpack it with its password and "
                "pass the folder"
            )
        return self._zip.open(name)

    @contextmanager
    def _reading(self, name: str = "") -> Iterator[None]:
        """Say in one line what a file system or a zip complains of."""
        what = f"{name!r} in {str(self.path)!r}" if name else repr(str(self.path))
        try:
            yield
        except (zipfile.BadZipFile, zlib.error, EOFError) as error:
            raise InvalidLog(f"{what} is damaged or cut off: {error or 'it ends early'}") from None
        except NotImplementedError as error:
            raise InvalidLog(
                f"{what} is packed in a way that Python cannot unpack ({error}); unpack it and "
                "pass the folder"
            ) from None
        except OSError as error:
            raise InvalidLog(f"{what} cannot be read: {error.strerror or error}") from None

    def sums(self, folder: str) -> dict[str, str]:
        """Return the md5 sums that ``checksums.txt`` in a folder lists, by full name."""
        listed = join_path(folder, CHECKSUMS)
        if listed not in self.names:
            return {}
        sums = sums_in(self.read(listed).decode("utf-8", "replace"))
        return {join_path(folder, name): md5 for name, md5 in sums.items()}

    def digest(self, name: str, ending: bytes | None = None, at_a_time: int = 1 << 20) -> str:
        """Return the md5 sum of a file, or of what it would be with other line endings."""
        md5, held = hashlib.md5(usedforsecurity=False), b""
        with self.open(name) as stream:
            while piece := stream.read(at_a_time):
                if ending is not None:
                    piece, held = held + piece, b""
                    if piece.endswith(b"\r"):  # perhaps the first half of an ending
                        piece, held = piece[:-1], b"\r"
                    piece = piece.replace(b"\r\n", b"\n").replace(b"\n", ending)
                md5.update(piece)
        md5.update(held)
        return md5.hexdigest()

    def verify(self, name: str, md5: str, expected: str | None) -> list[str]:
        """Return what can be said of a file's md5 sum: nothing without an expected one.

        A wrong sum is an error, unless line endings account for all of the difference: version
        control and text editors change those, and no value with them.
        """
        base = PurePosixPath(name).name
        if expected is None:
            return []
        if md5 == expected:
            return [base]
        if expected in {self.digest(name, b"\n"), self.digest(name, b"\r\n")}:
            return [f"{base} (but for line endings)"]
        raise InvalidLog(
            f"{name!r} has md5 {md5}, but {CHECKSUMS} beside it says {expected}: it is damaged or "
            f"was changed; get it again, or remove {CHECKSUMS} to read it as it is"
        )


class Watched(io.RawIOBase):
    """A stream that digests and counts what is read, and remembers why reading failed.

    Readers in other languages may lose the exception of a stream on its way through them.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        super().__init__()
        self._inner = stream
        self.md5 = hashlib.md5(usedforsecurity=False)
        self.bytes = 0
        self.failure: Exception | None = None

    def readable(self) -> bool:
        """Return True."""
        return True

    def read(self, size: int = -1, /) -> bytes:
        """Read up to so many bytes."""
        try:
            part = self._inner.read(size)
        except Exception as failure:
            self.failure = failure
            raise
        self.md5.update(part)
        self.bytes += len(part)
        return part


def join_path(folder: str, name: str) -> str:
    """Return the full name of a file in a folder of an archive."""
    return str(PurePosixPath(folder) / name)


def sums_in(text: str) -> dict[str, str]:
    """Return the md5 sums of a list of checksums, by name of the file.

    Examples
    --------
    >>> sums_in("0df90835c19151f9d819d0822e190797  movies.csv")
    {'movies.csv': '0df90835c19151f9d819d0822e190797'}
    """
    found = SUMS.findall(text)
    return {name or bsd: (md5 or bsd_md5).lower() for md5, name, bsd, bsd_md5 in found}


def _files(folder: Path) -> list[str]:
    """Return the files of a folder and of its sub-folders."""
    names = []
    for entry in sorted(folder.iterdir()):
        if entry.is_file():
            names.append(entry.name)
        elif entry.is_dir() and os.access(entry, os.R_OK | os.X_OK):
            names += [f"{entry.name}/{f.name}" for f in sorted(entry.iterdir()) if f.is_file()]
    return names
