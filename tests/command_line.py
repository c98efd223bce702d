"""Commands run in this process: what they print, and their exit status."""

import contextlib
import io
import os
import signal
import sys
from pathlib import Path
from typing import NamedTuple
from unittest import mock

from influential_bandits.cli import main

PLAIN = {"PYTHONIOENCODING": "utf-8", "COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}


class Done(NamedTuple):
    """What a command left."""

    returncode: int
    stdout: str
    stderr: str


def run_command(*arguments, cwd=None) -> Done:
    """Run ``influential-bandits …``; what it does to signals and the environment is undone."""
    out, err = io.StringIO(), io.StringIO()
    argv = ["influential-bandits", *map(str, arguments)]
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    with (
        contextlib.chdir(cwd or Path.cwd()),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        mock.patch.object(sys, "argv", argv),
        mock.patch.dict(os.environ, PLAIN),
    ):
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code or 0
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
    return Done(code, out.getvalue(), err.getvalue())
