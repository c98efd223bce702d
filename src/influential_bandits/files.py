"""How files of ours are written and read: whole or not at all, and never trusted blindly.

Written: into a temporary file beside it, which gets the name when it is safely on disk. A process
that dies leaves a temporary file at most; the next one that writes there sweeps it. Read: JSON of
any origin, refused in one sentence if it is no data of ours. Parquet files and JSON files that
nobody writes by hand carry a checksum of all that is in them.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import platform
import re
import secrets
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from influential_bandits.errors import InvalidInput, MissingFile
from influential_bandits.free_memory import require_memory
from influential_bandits.packages import optional_module

try:
    import fcntl
except ImportError:  # not a POSIX system: what is left behind is known by its age alone
    fcntl = None  # type: ignore[assignment]

DEEPEST = 32  # levels of a JSON file; ours have six
OBJECTS = 5  # bytes of memory that data take for each byte of their JSON, about
DAY = 86_400.0  # seconds after which what another computer left behind counts as left behind
HERE = hashlib.blake2b(platform.node().encode(errors="replace"), digest_size=4).hexdigest()
TEMPORARY = re.compile(r"\..*\.ib-([0-9a-f]{8})-[0-9a-f]{16}\.tmp")
KEY = b"influential_bandits"  # of the metadata of Parquet files
SEAL_KEY = b"influential_bandits_seal"
SEAL = b"influential-bandits-seal:"
HEX = 64  # digits of a checksum
BLOCK = 1 << 20

_swept: set[Path] = set()


# --- Writing ---


def write_atomically(path: str | Path, write: Callable[[Path], object]) -> None:
    """Let ``write`` fill a temporary file, and give it its name only when it is safely on disk.

    A file that was there before stays as it was until then, and its permissions are kept. A link
    is followed.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "greeting.txt"
    ...     write_atomically(path, lambda temporary: temporary.write_text("hello"))
    ...     path.read_text()
    'hello'
    """
    try:
        target = Path(os.path.realpath(path))
        mode = _mode_to_keep(target)
        _sweep_once(target.parent)
        with _temporary_beside(target, 0o666 if mode is None else mode | 0o200) as (
            temporary,
            held,
        ):
            write(temporary)
            with temporary.open("rb+") as file:
                os.fsync(file.fileno())
            if mode is not None:
                temporary.chmod(mode)
            if fcntl is None:
                os.close(held.pop())  # an open file cannot be renamed there
            temporary.replace(target)
            _sync_folder(target.parent)
    except OSError as error:
        raise _not_written(path, error) from None
    except ValueError as error:
        if isinstance(error, InvalidInput) or "\0" not in str(path):
            raise
        raise InvalidInput(f"cannot write {str(path)!r}: no file can be called that") from None


def write_text(path: str | Path, text: str) -> None:
    """Write text as UTF-8."""
    try:
        content = text.encode()
    except UnicodeEncodeError:
        raise InvalidInput(
            f"cannot write {path}: a text holds half a character (a lone surrogate)"
        ) from None
    write_atomically(path, lambda temporary: temporary.write_bytes(content))


def write_json(
    path: str | Path, data: Any, *, indent: int | None = None, sealed: bool = False
) -> None:
    """Write strict JSON; sealed with a checksum, for files that are not changed by hand."""
    if sealed:
        data = data | {"checksum": _checksum(data)}
    readable = indent is None  # by any program; with indentation by people too
    text = json.dumps(data, indent=indent, ensure_ascii=readable, allow_nan=False)
    write_text(path, text + "\n")


def _mode_to_keep(target: Path) -> int | None:
    """Return the permissions of a file that is to be replaced; what is no file is refused."""
    try:
        status = target.stat()
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(status.st_mode):
        raise OSError(errno.EISDIR, "it is a folder; name a file")
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is no regular file; name another")
    return stat.S_IMODE(status.st_mode)


@contextmanager
def _temporary_beside(target: Path, mode: int) -> Iterator[tuple[Path, list[int]]]:
    """Make a temporary file that is locked as long as its writer lives; remove what is left."""
    held: list[int] = []
    short = target.name.encode(errors="surrogateescape")[:100].decode(errors="ignore")
    while True:
        temporary = target.with_name(f".{short}.ib-{HERE}-{secrets.token_hex(8)}.tmp")
        held.append(os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode))
        _lock(held[-1], wait=True)
        if os.fstat(held[-1]).st_nlink or fcntl is None:
            break
        os.close(held.pop())  # somebody swept it before it was locked
    try:
        yield temporary, held
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        for descriptor in held:
            os.close(descriptor)


def _lock(descriptor: int, wait: bool) -> bool:
    """Lock a file; the system lets go of it when its process dies, however that happens."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:  # somebody writes it, or the file system knows no locks
        return False
    return True


def _sync_folder(folder: Path) -> None:
    """Make a new name as safe as the file; some file systems cannot."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _sweep_once(folder: Path) -> None:
    """Sweep a folder the first time that this process writes there."""
    if folder not in _swept:
        sweep(folder)
        _swept.add(folder)


def sweep(folder: Path) -> None:
    """Remove temporary files of ours whose writers are dead.

    A living writer holds a lock. Locks may not reach from one computer to another, so that files of
    others have to be a day old as well.
    """
    try:
        left = [path for path in folder.iterdir() if TEMPORARY.fullmatch(path.name)]
    except OSError:
        return
    for path in left:
        with suppress(OSError):
            _remove_if_left(path)


def _remove_if_left(path: Path) -> None:
    matched = TEMPORARY.fullmatch(path.name)
    foreign = matched is None or matched[1] != HERE or fcntl is None
    if foreign and time.time() - path.lstat().st_mtime < DAY:
        return
    descriptor = os.open(path, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
    try:
        if _lock(descriptor, wait=False):
            path.unlink()
    finally:
        os.close(descriptor)
    if fcntl is None:
        path.unlink()


def clear_reason(error: BaseException) -> str:
    """Return why the system refused something, in one line."""
    reason = getattr(error, "strerror", None) or str(error).strip().partition("\n")[0]
    return str(reason) or type(error).__name__


def _not_written(path: str | Path, error: OSError) -> InvalidInput:
    parent = Path(path).absolute().parent
    if isinstance(error, (FileNotFoundError, NotADirectoryError)) and not parent.is_dir():
        return MissingFile(f"cannot write {path}: there is no folder {parent}; make it first")
    return InvalidInput(f"cannot write {path}: {clear_reason(error)}")


# --- Reading JSON ---


def read_json(
    path: str | Path, error: type[InvalidInput] = InvalidInput, *, sealed: bool = False
) -> Any:
    """Return the data of a JSON file, of which nothing is trusted: ``error`` says what is wrong.

    A checksum is verified if there is one, and left out; of a sealed file it must be there. A file
    that is not there is a MissingFile.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "data.json"
    ...     write_json(path, {"arms": 2}, sealed=True)
    ...     read_json(path)
    {'arms': 2}
    """
    return parse_json(read_regular(path, error), path, error, sealed=sealed)


def read_sealed_json(path: str | Path) -> tuple[Any, bool]:
    """Return the data of a JSON file as :func:`read_json` does, and whether it has a checksum."""
    return _parse_sealed(read_regular(path), path, InvalidInput, must_be_sealed=False)


def read_regular(path: str | Path, error: type[InvalidInput] = InvalidInput) -> bytes:
    """Return all bytes of a regular file; pipes and devices, which may never end, are refused."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        try:
            _require_readable(path, os.fstat(descriptor), error)
            with open(descriptor, "rb", closefd=False) as file:
                return file.read()
        finally:
            os.close(descriptor)
    except FileNotFoundError as wrong:
        raise MissingFile(f"cannot read {path}: {clear_reason(wrong)}") from None
    except OSError as wrong:
        raise error(f"cannot read {path}: {clear_reason(wrong)}") from None
    except MemoryError:
        raise error(f"cannot read {path}: it is larger than the memory that is free") from None
    except ValueError as wrong:
        if isinstance(wrong, InvalidInput):
            raise
        raise error(f"cannot read {str(path)!r}: no file can be called that") from None


def _require_readable(path: str | Path, status: os.stat_result, error: type[InvalidInput]) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise error(f"cannot read {path}: it is a folder; name a file")
    if not stat.S_ISREG(status.st_mode):
        raise error(f"cannot read {path}: it is a pipe or a device; write its data to a file first")
    what = f"{path}, a file of {status.st_size:,} bytes,"
    require_memory(status.st_size * OBJECTS, what, "is it really a file of this package?", error)


def parse_json(
    raw: bytes,
    path: str | Path,
    error: type[InvalidInput] = InvalidInput,
    *,
    sealed: bool = False,
) -> Any:
    """Return the data in the bytes of a JSON file, which is named by errors.

    A checksum is verified if there is one, and left out; of a sealed file it must be there.
    """
    return _parse_sealed(raw, path, error, must_be_sealed=sealed)[0]


def _parse_sealed(
    raw: bytes, path: str | Path, error: type[InvalidInput], *, must_be_sealed: bool
) -> tuple[Any, bool]:
    """Return the data of a JSON file, and whether it had a checksum."""
    if not raw.strip():
        raise error(f"{path} is not a JSON file: it is empty")
    try:
        text = raw.decode("utf-8-sig")
        data = json.loads(
            text,
            parse_int=_whole_number,
            parse_float=_finite_number,
            parse_constant=_no_constant,
            object_pairs_hook=_without_repeats,
        )
        _require_shallow(data)
        if "\\u" in text:  # half of a pair, which cannot be written as text again
            json.dumps(data, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise error(f"{path} holds a text with half a character (a lone surrogate)") from None
    except RecursionError:
        raise error(f"{path} is nested too deeply: more than {DEEPEST} levels") from None
    except MemoryError:
        raise error(f"cannot read {path}: its data are larger than the free memory") from None
    except ValueError as wrong:
        raise error(f"{path} is not a JSON file: {wrong!s:.150}") from None
    if not isinstance(data, dict):
        return data, False
    if "checksum" not in data:
        if must_be_sealed:
            raise error(f"{path} is damaged, or no file of this kind: it has no checksum")
        return data, False
    checksum = data.pop("checksum")
    if checksum != _checksum(data):
        hint = '; if you changed it on purpose, remove the entry "checksum"'
        raise error(
            f"{path} is damaged: its checksum does not fit what it holds"
            f"{'' if must_be_sealed else hint}"
        )
    return data, True


def _whole_number(text: str) -> int:
    """Return a whole number that a double can hold: beyond, nothing of ours can use it."""
    if len(text) > 310 or abs(number := int(text)) > 10**308:
        raise ValueError(f"it holds a whole number of {len(text.lstrip('-'))} digits")
    return number


def _finite_number(text: str) -> float:
    """Return a number that a double can hold: 1e999 would be read as infinity."""
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"it holds the number {text:.20}, which is beyond all doubles")
    return number


def _no_constant(name: str) -> None:
    raise ValueError(f"it holds {name}, which JSON does not know")


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the entry {twice!r:.40} is there twice")
    return data


def _require_shallow(data: Any) -> None:
    level = [data]
    for _ in range(DEEPEST):
        level = [
            child
            for each in level
            if type(each) in {list, dict}
            for child in (each.values() if type(each) is dict else each)
            if type(child) in {list, dict}
        ]
        if not level:
            return
    raise RecursionError


def _checksum(data: Mapping[str, Any]) -> str:
    """Return a number for the data of a JSON file, however they are laid out as text."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.blake2b(text.encode(), digest_size=HEX // 2).hexdigest()


# --- Parquet with a seal ---


def write_table(path: str | Path, table: Any, about: Mapping[str, Any]) -> None:
    """Write an Arrow table as Parquet, what it is about as JSON metadata, and a seal over all."""
    parquet = optional_module("pyarrow.parquet")
    text = json.dumps(about, allow_nan=False)

    def write(temporary: Path) -> None:
        described = table.replace_schema_metadata({KEY: text})
        with parquet.ParquetWriter(temporary, described.schema) as writer:
            writer.write_table(described)
            writer.add_key_value_metadata({SEAL_KEY: SEAL + b"0" * HEX})
        with temporary.open("rb+") as file:
            place = _seal_place(file)
            digest = _digest_around(file, place)
            file.seek(place)
            file.write(digest)

    write_atomically(path, write)


def seal_holds(path: str | Path) -> bool | None:
    """Tell whether a Parquet file is, to the bit, what was written; None if it has no seal.

    Nothing is parsed to find out, so that trouble with reading is trouble with the disk, or the
    number of open files, and not with the file: it is an OSError.
    """
    with Path(path).open("rb") as file:
        try:
            place = _seal_place(file)
        except LookupError:
            return None
        file.seek(place)
        return file.read(HEX) == _digest_around(file, place)


def read_about(path: str | Path) -> dict[str, Any]:
    """Return what a table is about, of a file whose seal holds."""
    parquet = optional_module("pyarrow.parquet")
    with Path(path).open("rb") as file:
        return dict(json.loads(parquet.read_schema(file).metadata[KEY]))


def read_table(path: str | Path) -> Any:
    """Return the Arrow table of a file; names of folders are no columns of it."""
    with Path(path).open("rb") as file:
        return optional_module("pyarrow.parquet").read_table(file)


def _seal_place(file: IO[bytes]) -> int:
    """Return where the digits of a seal begin, within the footer; LookupError if there are none."""
    end = file.seek(0, os.SEEK_END) - 8
    if end < 4:
        raise LookupError
    file.seek(end)
    start = max(0, end - int.from_bytes(file.read(4), "little"))
    file.seek(start)
    offset = file.read(end - start).rfind(SEAL)
    if offset < 0 or start + offset + len(SEAL) + HEX > end:
        raise LookupError
    return start + offset + len(SEAL)


def _digest_around(file: IO[bytes], place: int) -> bytes:
    """Return a number for all bytes of a file but the digits of the seal."""
    digest = hashlib.blake2b(digest_size=HEX // 2)
    file.seek(0)
    left = place
    while left and (block := file.read(min(BLOCK, left))):
        digest.update(block)
        left -= len(block)
    file.seek(place + HEX)
    while block := file.read(BLOCK):
        digest.update(block)
    return digest.hexdigest().encode()
