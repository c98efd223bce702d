"""Compiled code on disk: found again by the next process, trusted only as far as it can be.

An entry is a file of its own, named after everything that its code depends on: the function, its
signature, the source of the whole package, the processor, and the versions of Python and Numba. It
begins with a checksum: machine code with one wrong bit would crash, or compute something else.
Entries are unpickled, so that a folder that strangers may write to is not read. A folder that
cannot be written to, a full disk or a damaged entry cost a compilation and one warning.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import shutil
import stat
import sys
import uuid
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba.core.caching import _Cache
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps
from numba.misc.appdirs import AppDirs

from influential_bandits.numerics.fingerprints import package_digest

PACKAGE = Path(__file__).resolve().parent.parent
MAGIC = b"influential-bandits code 1\n"
CHECKSUM = 32  # bytes of it
STATES_KEPT = 8  # of the package's source, of which there is compiled code; the others are removed
VERSIONS = (sys.implementation.cache_tag, numba.__version__, np.__version__)


class CodeCache(_Cache):  # type: ignore[misc]
    """Where the dispatcher of one function keeps what it has compiled."""

    def __init__(self, function: Any) -> None:
        self.name = f"{function.__module__}.{function.__qualname__}"
        self.enable()

    @property
    def cache_path(self) -> str:
        return str(folders()[0])

    def enable(self) -> None:
        self.enabled = True

    def disable(self) -> None:
        self.enabled = False

    def flush(self) -> None:
        """Forget nothing: entries are named after all that decides them."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        target_context.refresh()
        file = self._file(sig, target_context.codegen())
        if not self.enabled or file is None:
            return None
        return read_entry(file, lambda found: CompileResult._rebuild(target_context, *found))

    def is_kept(self, sig: Any, target_context: Any) -> bool:
        """Tell whether there is an entry for a signature, without reading it."""
        file = self._file(sig, target_context.codegen())
        return self.enabled and file is not None and any((f / file).exists() for f in folders())

    def save_overload(self, sig: Any, data: Any) -> None:
        environments = data._find_referenced_environments()
        for environment in environments:  # linked code has none of its own before it is linked
            data.library.codegen.set_env(environment.env_name, environment)
        file = self._file(sig, data.codegen)
        if not self.enabled or file is None or data.library.has_dynamic_globals or data.lifted:
            return
        write_entry(file, dumps(data._reduce()))

    def _file(self, sig: Any, codegen: Any) -> str | None:
        """Return the name of an entry; None for what another process could not find again."""
        key = f"{sig} {codegen.magic_tuple()}"
        return None if " at 0x" in key else self.file_name(key)

    def file_name(self, key: str) -> str:
        """Return the name of the entry for a key, with these versions."""
        return f"{self.name}-{hashlib.sha256(f'{key} {VERSIONS}'.encode()).hexdigest()[:24]}"


def read_entry(file: str, rebuild: Callable[[Any], Any]) -> Any:
    """Return what is rebuilt from an entry, or None."""
    for folder in folders():
        if is_private(folder):
            with suppress(OSError):  # not there, or not to be read: compiled again
                return _rebuilt((folder / file).read_bytes(), rebuild, folder / file)
    return None


def write_entry(file: str, payload: bytes) -> None:
    """Write an entry where it can be written, or warn."""
    entry = MAGIC + hashlib.sha256(payload).digest() + payload
    problems = []
    for folder in folders():
        problem = _write(folder, file, entry)
        if problem is None:
            return
        problems.append(problem)
    _warn_once(
        f"compiled code cannot be kept, and every process compiles again ({'; '.join(problems)}"
        "); set NUMBA_CACHE_DIR to a folder that only you can write to"
    )


@cache
def folders() -> tuple[Path, ...]:
    """Return where compiled code may lie; what is written goes to the first that takes it."""
    name = f"compiled-{package_digest()}"
    if numba.config.CACHE_DIR:
        return (Path(numba.config.CACHE_DIR) / name,)
    home = Path(AppDirs("influential-bandits", appauthor=False).user_cache_dir)
    return PACKAGE / "__pycache__" / name, home / name


def is_private(folder: Path) -> bool:
    """Tell whether nobody can write to a folder who could not write the package itself."""
    if os.name != "posix":
        return True
    try:
        about = folder.stat()
        owners = {0, os.getuid(), PACKAGE.stat().st_uid}
    except OSError:
        return False
    shared = about.st_mode & stat.S_IWGRP and about.st_gid not in (0, os.getgid())
    return about.st_uid in owners and not about.st_mode & stat.S_IWOTH and not shared


def _rebuilt(entry: bytes, rebuild: Callable[[Any], Any], path: Path) -> Any:
    """Return code that can be called, or None if the entry is damaged."""
    start = len(MAGIC) + CHECKSUM
    payload = entry[start:]
    if entry[:start] != MAGIC + hashlib.sha256(payload).digest():
        _warn_once(f"{path} is damaged; it is compiled again")
        return None
    try:
        return rebuild(pickle.loads(payload))
    except Exception as error:  # noqa: BLE001 - whatever it is, compiling anew is right
        _warn_once(f"{path} cannot be used ({error}); it is compiled again")
        return None


def _write(folder: Path, file: str, entry: bytes) -> str | None:
    """Write an entry, so that it is there as a whole or not at all, or return why it cannot be."""
    temporary = folder / f".{file}.{uuid.uuid4().hex[:16]}.tmp"
    try:
        if not folder.is_dir():
            _make(folder)
        if not is_private(folder):
            return f"others can write to {folder}"
        temporary.write_bytes(entry)
        temporary.chmod(0o644)
        temporary.replace(folder / file)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        return f"{folder}: {error.strerror}"
    return None


def _make(folder: Path) -> None:
    """Make a folder that only its owner writes to, and remove those of old states of the source.

    Others may read it: one account can fill it for all.
    """
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)
    others = sorted(folder.parent.glob("compiled-*"), key=lambda path: path.stat().st_mtime)
    for old in others[:-STATES_KEPT]:
        shutil.rmtree(old, ignore_errors=True)


_warned: set[str] = set()


def _warn_once(message: str) -> None:
    """Warn, but only once in a process: a second entry has the same trouble."""
    if not _warned:
        _warned.add(message)
        warnings.warn(message, RuntimeWarning, stacklevel=2)
