"""The command line: parses, calls, prints."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from influential_bandits import __version__
from influential_bandits.errors import InfluentialBanditsError, InvalidInput

if TYPE_CHECKING:
    from rich.console import Console

    from influential_bandits.simulation.trajectory import Trajectory
    from influential_bandits.studies.demo import Setting

__all__ = ["app", "main"]

app = typer.Typer(
    name="influential-bandits",
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Influential bandits: pulling one arm changes the future losses of all arms.",
)


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


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the picture.")] = Path("results/demo"),
) -> None:
    """Play LCB and influential LCB on the paper's instances; print regrets, save the plot.

    Example: influential-bandits demo --out results/demo
    """
    from rich.console import Console

    from influential_bandits.studies.demo import draw

    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(f"cannot write to {out}: {error.strerror}") from None
    console = Console()
    try:
        results = _played(console)
    except KeyboardInterrupt as stopped:
        raise _Stopped(str(stopped) or "stopped by Ctrl-C") from None
    picture = out / "regret.png"
    try:
        draw(results, picture)
    except OSError as error:
        raise InvalidInput(f"cannot write {picture}: {error.strerror}") from None
    console.print(f"Log-log plot saved to {picture}", soft_wrap=True, markup=False)


def _played(console: Console) -> list[tuple[Setting, list[Trajectory]]]:
    """Play every setting of the demo and print its table."""
    from rich.table import Table

    from influential_bandits.studies.demo import SETTINGS, play, power, rows

    results = []
    for setting in SETTINGS:
        runs: list[Trajectory] = []
        low, high = setting.fitted
        table = Table(
            title=f"{setting.title}: mean regret by horizon",
            caption=f"{setting.note}; slope over {power(low)} … {power(high)}",
            title_justify="left",
            caption_justify="left",
        )
        table.add_column("policy", no_wrap=True)
        console.print(f"Playing {setting.title} to T = {setting.horizon:,} …")
        for run in play(setting):
            if not runs:
                for mark in run.checkpoints:
                    table.add_column(power(mark), justify="right")
                table.add_column("slope", justify="right")
            table.add_row(*rows(setting, run))
            runs.append(run)
        console.print(table)
        results.append((setting, runs))
    return results


class _Stopped(Exception):
    """Ctrl-C, past the command-line library, which would end without a word."""


def main() -> None:
    """Run the command line; bad input gets one sentence and exit status 2."""
    try:
        app()
    except InfluentialBanditsError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    except _Stopped as stopped:
        print(f"\n{stopped}", file=sys.stderr)
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
