"""Temporary folders that do not outlive their process, even if it is killed.

A process that is terminated cleans nothing up, so each folder holds a file that its process keeps
locked, and whoever makes the next folder in the same place removes those that nobody holds.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
import weakref
from contextlib import suppress
from pathlib import Path

from influential_bandits.errors import InvalidInput, MissingFile
from influential_bandits.logs.remote_folder import RemoteFolder

try:
    import fcntl
except ImportError:  # Windows, where folders of killed processes stay
    fcntl = None  # type: ignore[assignment]

PREFIX = "influential-bandits-"
LOCK = "_in_use"


class TemporaryFolder:
    """A new folder, until it is removed, nobody uses it any more, or its process is gone.

    Parameters
    ----------
    parent : RemoteFolder, optional
        Where; by default where the system puts temporary files.

    Attributes
    ----------
    folder : RemoteFolder
    remove : function
        Removes the folder and all that is in it; once is enough.
    """

    folder: RemoteFolder
    remove: weakref.finalize[..., TemporaryFolder]

    def __init__(self, parent: RemoteFolder | None = None) -> None:
        if parent is not None and not parent.exists():
            raise MissingFile(f"there is no folder {parent.address} for temporary files")
        if parent is not None and not parent.local:
            self.folder = parent.below(f"{PREFIX}{uuid.uuid4().hex}")
            self.folder.make()
            self.remove = weakref.finalize(self, _remove_elsewhere, self.folder)
        else:
            path, lock = _make(Path(tempfile.gettempdir() if parent is None else parent.address))
            self.folder = RemoteFolder(str(path))
            self.remove = weakref.finalize(self, _remove_here, path, lock)

    @property
    def removed(self) -> bool:
        """Whether the folder is gone."""
        return not self.remove.alive


def _make(home: Path) -> tuple[Path, int]:
    """Make a folder that is locked; return the lock as well."""
    _sweep(home)
    # The lock is taken before the folder has the name by which others would sweep it.
    path = Path(tempfile.mkdtemp(prefix=f".{PREFIX}", dir=home))
    lock = os.open(path / LOCK, os.O_CREAT | os.O_RDWR, 0o600)
    if fcntl is not None:
        fcntl.flock(lock, fcntl.LOCK_EX)
    return path.rename(home / path.name[1:]), lock


def _remove_here(path: Path, lock: int) -> None:
    shutil.rmtree(path, ignore_errors=True)
    os.close(lock)


def _remove_elsewhere(folder: RemoteFolder) -> None:
    with suppress(OSError, InvalidInput):  # nobody can do anything about it any more
        folder.remove()


def _sweep(home: Path) -> None:
    """Remove folders of ours whose process is gone, as far as they are ours to remove."""
    if fcntl is None:
        return
    for folder in home.glob(f"{PREFIX}*"):
        with suppress(OSError):  # held by its process, somebody else's, or gone by now
            lock = os.open(folder / LOCK, os.O_RDWR | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)
