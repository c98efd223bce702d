"""The command line: parses, calls, prints."""

from __future__ import annotations

import signal
import sys
from typing import Annotated

import typer

from influential_bandits import __version__
from influential_bandits.cli import live, logs, studies
from influential_bandits.errors import InfluentialBanditsError, Unfinished

app = typer.Typer(
    name="influential-bandits",
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Influential bandits: pulling one arm changes the future losses of all arms.",
)
for commands in (studies, logs, live):
    app.add_typer(commands.app)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"influential-bandits {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Simulate influential bandits and measure regret against certified benchmarks."""


def _stop(*_: object) -> None:
    """End as after Ctrl-C, so that threads stop and temporary files go."""
    raise KeyboardInterrupt("stopped by SIGTERM")


def main() -> None:
    """Run the command line; an error gets one sentence.

    Exit status 2: what was asked for cannot be done. Exit status 1: some of it was done, and kept.
    """
    signal.signal(signal.SIGTERM, _stop)
    try:
        app()
    except InfluentialBanditsError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(1 if isinstance(error, Unfinished) else 2) from None
