"""What is compiled and for how long, where that is the reason why nothing seems to happen."""

from __future__ import annotations

import sys
import threading
import time
from functools import cache

from numba.core import event

from influential_bandits.numerics.code_cache import CodeCache

PATIENCE = 1.0  # seconds of compiling, taken together, that pass without a word
NOTICE = "compiling, which is needed once: later runs find the code on disk …"


@cache
def announce_compiling() -> None:
    """Say on terminals and in notebooks, once in a process, that the package is compiled."""
    event.register("numba:compile", CompileNotice(PATIENCE))


class CompileNotice(event.Listener):  # type: ignore[misc]
    """Listens to Numba; says why it takes long, and then what each long compilation was.

    It speaks once ``patience`` seconds have passed in all, and of what took longer than that.
    """

    def __init__(self, patience: float) -> None:
        self.patience = patience
        self.depth = 0  # compiled functions call others, which are compiled in between
        self.spent = 0.0
        self.said = False

    def on_start(self, event: event.Event) -> None:
        """Wait for the rest of the patience, and speak if it still compiles."""
        self.depth += 1
        if self.depth > 1 or not _is_ours(event):
            return
        self.started = time.monotonic()
        if self.said:
            return
        self.timer = threading.Timer(max(self.patience - self.spent, 0.0), self.say)
        self.timer.daemon = True
        self.timer.start()

    def on_end(self, event: event.Event) -> None:
        """Stop waiting, or say what took how long."""
        self.depth -= 1
        if self.depth > 0 or not _is_ours(event):
            return
        seconds = time.monotonic() - self.started
        self.timer.cancel()
        self.spent += seconds
        if self.said and seconds >= self.patience:
            name = event.data["dispatcher"]._cache.name.removeprefix("influential_bandits.")
            _print(f"  {name}: {seconds:.1f} s")

    def say(self) -> None:
        """Say why it takes long."""
        self.said = True
        _print(NOTICE)


def _print(line: str) -> None:
    """Print a line where somebody is waiting for it."""
    if sys.stderr.isatty() or "ipykernel" in sys.modules:
        print(line, file=sys.stderr, flush=True)


def _is_ours(event: event.Event) -> bool:
    return isinstance(event.data["dispatcher"]._cache, CodeCache)
