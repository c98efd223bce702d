"""A progress bar that appears when work takes long."""

from __future__ import annotations

import sys
import time

from rich.console import Console
from rich.progress import (
    BarColumn,
    SpinnerColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.progress import (
    Progress as Bar,
)

__all__ = ["Progress", "is_watched"]


class Progress:
    """A progress bar that appears when work takes long, on terminals and in notebooks.

    Parameters
    ----------
    label : str
    total : int
        All the work there is.
    wanted : bool, optional
        True: show it at once; False: never; None: if work takes long and there is somebody to see
        it: stderr is a terminal, or this is a notebook.
    long : float
        How many seconds are long.
    """

    def __init__(
        self, label: str, total: int, wanted: bool | None = None, long: float = 1.0
    ) -> None:
        self.label, self.total, self.wanted, self.long = label, total, wanted, long
        self.done = 0
        self._started = time.monotonic()
        self._bar: Bar | None = None

    def show(self) -> None:
        """Draw the bar if it is time."""
        if self._bar is None:
            late = time.monotonic() - self._started > self.long
            if self.wanted or (self.wanted is None and late and is_watched()):
                columns = (
                    SpinnerColumn(),
                    TextColumn("{task.description}"),
                    BarColumn(),
                    TextColumn("{task.percentage:>3.0f} %"),
                    TimeRemainingColumn(),
                )
                console = Console(stderr=True)
                self._bar = Bar(*columns, console=console, transient=console.is_terminal)
                self._bar.add_task(self.label, total=self.total)
                self._bar.start()
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=self.done)

    def count_one(self) -> None:
        """Count one more as done."""
        self.done += 1
        self.show()

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.stop()


def is_watched() -> bool:
    """Tell whether a progress bar would be seen, and not fill a file."""
    return sys.stderr.isatty() or Console(stderr=True).is_jupyter
