"""A progress bar that appears when work takes long."""

from __future__ import annotations

import sys
import time
from html import escape
from importlib import import_module
from typing import Any

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

BETWEEN = 0.2  # seconds between two pictures of a bar in a notebook


class Progress:
    """A progress bar that appears when work takes long, on terminals and in notebooks.

    Parameters
    ----------
    label : str
        What is being done; it may change on the way.
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
        self._bar: Bar | NotebookBar | None = None

    def show(self) -> None:
        """Draw the bar if it is time."""
        if self._bar is None:
            late = time.monotonic() - self._started > self.long
            if self.wanted or (self.wanted is None and late and is_watched()):
                self._bar = self._start()
        if isinstance(self._bar, NotebookBar):
            self._bar.show(self.label, self.done)
        elif self._bar is not None:
            task = self._bar.task_ids[0]
            self._bar.update(task, completed=self.done, description=self.label)

    def _start(self) -> Bar | NotebookBar:
        """Return a bar for wherever this is."""
        console = Console(stderr=True)
        if console.is_jupyter:
            return NotebookBar(self.total)
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f} %"),
            TimeRemainingColumn(),
        )
        bar = Bar(*columns, console=console, transient=console.is_terminal)
        bar.add_task(self.label, total=self.total)
        bar.start()
        return bar

    def count_one(self) -> None:
        """Count one more as done."""
        self.done += 1
        self.show()

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.stop()


class NotebookBar:
    """A progress bar below a cell, in HTML alone: rich's needs a package of widgets.

    It is removed in the end, so that a notebook that is kept shows results and no bars.
    """

    def __init__(self, total: int) -> None:
        self.total = max(total, 1)
        self._started = self._shown = time.monotonic()
        self._handle: Any = None

    def show(self, label: str, done: int) -> None:
        """Draw the bar, a few times a second at most."""
        notebook: Any = import_module("IPython.display")
        now = time.monotonic()
        if self._handle is None:
            page = notebook.HTML(self._draw(label, done, now))
            self._handle = notebook.display(page, display_id=True)
        elif now - self._shown >= BETWEEN:
            self._handle.update(notebook.HTML(self._draw(label, done, now)))
        else:
            return
        self._shown = now

    def stop(self) -> None:
        """Remove the bar."""
        if self._handle is not None:
            notebook: Any = import_module("IPython.display")
            self._handle.update(notebook.HTML(""))

    def _draw(self, label: str, done: int, now: float) -> str:
        left = (now - self._started) * (self.total - done) / done if done else None
        rest = "" if left is None else f", {left:,.0f} s left"
        words = f"{escape(label)}: {100 * done // self.total} %{rest}"
        return f'<progress value="{done}" max="{self.total}"></progress> {words}'


def is_watched() -> bool:
    """Tell whether a progress bar would be seen, and not fill a file."""
    return sys.stderr.isatty() or Console(stderr=True).is_jupyter
