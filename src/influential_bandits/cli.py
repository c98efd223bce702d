"""The command line: parses, calls, prints."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from influential_bandits import __version__
from influential_bandits.errors import InfluentialBanditsError, InvalidInput

__all__ = ["app", "main"]

app = typer.Typer(
    name="influential-bandits",
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Influential bandits: pulling one arm changes the future losses of all arms.",
)

Out = Annotated[Path, typer.Option(help="Folder for the results.")]
Jobs = Annotated[int | None, typer.Option(help="Threads; by default all cores. Changes no digit.")]


class NoiseKind(Enum):
    """Noises by name."""

    none = "none"
    gaussian = "gaussian"
    uniform = "uniform"


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


@app.command(
    epilog="Examples: influential-bandits reproduce --quick; "
    "influential-bandits reproduce figure-1a figure-4 --out results/figures"
)
def reproduce(
    studies: Annotated[
        list[str] | None,
        typer.Argument(help="Names of studies; by default all.", show_default=False),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Smaller settings: about a minute.")
    ] = False,
    tiny: Annotated[bool, typer.Option("--tiny", help="Smallest settings, to try it out.")] = False,
    seeds: Annotated[int | None, typer.Option(help="Number of random instances.")] = None,
    max_horizon: Annotated[int | None, typer.Option(help="Largest horizon.")] = None,
    out: Out = Path("results/reproduce"),
    jobs: Jobs = None,
) -> None:
    """Reproduce the paper's synthetic results: data, figures, and one HTML report.

    Run it again after an interruption, and it continues where it was.
    """
    if quick and tiny:
        raise InvalidInput("choose one of --quick and --tiny")
    size = "tiny" if tiny else "quick" if quick else "full"
    with _stoppable(f"finished pieces are kept in {out}: run the same command again to continue"):
        from influential_bandits.studies.report.text import markdown_table
        from influential_bandits.studies.running import reproduce as run
        from influential_bandits.studies.study import chosen_studies

        results = run(chosen_studies(studies or ()), out, size, seeds, max_horizon, jobs)
    typer.echo(markdown_table(results))
    typer.echo(f"\nReport: {out / 'report.html'}  (numbers for programs: {out / 'summary.json'})")


@app.command(name="studies")
def list_studies() -> None:
    """List the studies that reproduce can run, with one line each."""
    from influential_bandits.studies.study import all_studies

    for name, study in all_studies().items():
        typer.echo(f"{name:16} {study.line}")


@app.command(
    epilog="Example: influential-bandits simulate instance.json --policy LCB "
    "--policy 'InfluentialLCB(scale=2.0)'"
)
def simulate(
    instance: Annotated[Path, typer.Argument(help="Instance file (JSON, from Instance.save).")],
    policy: Annotated[
        list[str] | None,
        typer.Option(help="Policy, such as LCB or 'InfluentialLCB(scale=2.0)'; may be repeated."),
    ] = None,
    horizon: Annotated[int, typer.Option(help="Number of rounds.")] = 10_000,
    noise: Annotated[NoiseKind, typer.Option(help="Noise on the losses.")] = NoiseKind.gaussian,
    scale: Annotated[float, typer.Option(help="Standard deviation or bound of the noise.")] = 1.0,
    seeds: Annotated[int, typer.Option(help="Number of seeds.")] = 10,
    out: Annotated[Path | None, typer.Option(help="Folder for runs (Parquet) and plot.")] = None,
    jobs: Jobs = None,
) -> None:
    """Play policies on an instance of your own: regret table and plot."""
    names = policy or ["LCB", "InfluentialLCB"]
    with _stoppable("nothing was saved"):
        from influential_bandits.studies.own_instance import play_file

        typer.echo(play_file(instance, names, horizon, noise.value, scale, seeds, out, jobs))


@app.command(epilog="Example: influential-bandits inspect instance.json --horizon 1000")
def inspect(
    instance: Annotated[Path, typer.Argument(help="Instance file (JSON, from Instance.save).")],
    horizon: Annotated[int, typer.Option(help="Horizon of the optimum to show.")] = 10_000,
) -> None:
    """Show how hard an instance is, its optimum, and its spectrum."""
    from influential_bandits.studies.own_instance import describe_file

    typer.echo(describe_file(instance, horizon))


@contextmanager
def _stoppable(afterwards: str) -> Iterator[None]:
    """Let Ctrl-C end a command with one line that says what now; exit status 130."""
    try:
        yield
    except KeyboardInterrupt as stopped:
        typer.echo(f"\n{str(stopped) or 'stopped by Ctrl-C'}; {afterwards}", err=True)
        raise typer.Exit(130) from None


def main() -> None:
    """Run the command line; bad input gets one sentence and exit status 2."""
    try:
        app()
    except InfluentialBanditsError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(2) from None


if __name__ == "__main__":
    main()
