"""Temporary folders that do not outlive their process, even if it is killed.

A process that is terminated cleans nothing up, so each folder holds a file that its process keeps
locked, and whoever makes the next folder in the same place removes those that nobody holds.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from influential_bandits.errors import MissingFile

try:
    import fcntl
except ImportError:  # Windows, where folders of killed processes stay
    fcntl = None  # type: ignore[assignment]

__all__ = ["TemporaryFolder"]

PREFIX = "influential-bandits-"
LOCK = "_in_use"


class TemporaryFolder:
    """A new folder, until it is removed or its process is gone.

    Parameters
    ----------
    parent : path, optional
        Where; by default where the system puts temporary files.
    """

    def __init__(self, parent: str | Path | None = None) -> None:
        home = Path(tempfile.gettempdir() if parent is None else parent)
        if not home.is_dir():
            raise MissingFile(f"there is no folder {home} for temporary files")
        _sweep(home)
        # The lock is taken before the folder has the name by which others would sweep it.
        self.path = Path(tempfile.mkdtemp(prefix=f".{PREFIX}", dir=home))
        self._lock = os.open(self.path / LOCK, os.O_CREAT | os.O_RDWR, 0o600)
        if fcntl is not None:
            fcntl.flock(self._lock, fcntl.LOCK_EX)
        self.path = self.path.rename(home / self.path.name[1:])

    def remove(self) -> None:
        """Remove the folder and all that is in it; once is enough."""
        if self._lock >= 0:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._lock)
            self._lock = -1


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
