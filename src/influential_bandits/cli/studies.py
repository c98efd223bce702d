"""Commands of the studies: the paper's results, comparisons of policies, and MovieLens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from influential_bandits.cli.options import (
    MovieLensData,
    Out,
    Seed,
    parse_horizons,
    split_list,
)
from influential_bandits.cli.running import (
    CONTINUES,
    REPORT,
    Where,
    explain_stop,
    print_report_place,
    print_rest_first,
    print_results,
    works_anywhere,
)
from influential_bandits.errors import InvalidInput

app = typer.Typer()


@contextmanager
def _studying(out: Path, where: Where, format_rest: Callable[[Any], str] = str) -> Iterator[Any]:
    """Give where to compute; a stop is explained, and what is left of a failure printed."""
    where.require_installed(*REPORT)
    with (
        explain_stop(CONTINUES.format(out)),
        where.open() as execution,
        print_rest_first(lambda rest: print_results(format_rest(rest), out)),
    ):
        yield execution


@app.command(
    epilog="Examples: influential-bandits reproduce --quick; "
    "influential-bandits reproduce figure-1a figure-4 --out results/figures"
)
@works_anywhere
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
    *,
    where: Where,
) -> None:
    """Reproduce the paper's synthetic results: data, figures, and one HTML report.

    Run it again after an interruption, and it continues where it was.
    """
    if quick and tiny:
        raise InvalidInput("choose one of --quick and --tiny")
    from influential_bandits.studies.report.text import format_findings

    size = "tiny" if tiny else "quick" if quick else "full"
    with _studying(out, where, format_findings) as execution:
        from influential_bandits.studies.runner.running import reproduce as run
        from influential_bandits.studies.runner.study import choose_studies

        chosen = choose_studies(studies or ())
        results = run(chosen, out, size, seeds, max_horizon, execution)
    print_results(format_findings(results), out)
    if tiny:
        typer.echo("Such short games have other slopes: leave out --tiny for longer ones.")


@app.command(name="studies")
def list_studies() -> None:
    """List the studies that reproduce can run, with one line each."""
    from influential_bandits.studies.runner.study import find_studies

    for name, study in find_studies().items():
        typer.echo(f"{name:16} {study.description}")


@app.command(
    epilog="Examples: influential-bandits compare --quick; influential-bandits compare "
    "--policies 'LCB,InfluentialLCB(influence_bound=2.0)' --families random-3,block "
    "--horizons 1000,1e5"
)
@works_anywhere
def compare(
    policies: Annotated[
        list[str] | None,
        typer.Option(
            help="Policies, separated by commas; by default all, and two oracles as references. "
            "Your own: mine.py:Greedy or package.module:Greedy.",
            show_default=False,
        ),
    ] = None,
    families: Annotated[
        list[str] | None,
        typer.Option(
            help="Families, separated by commas (the command families lists them); by default all. "
            "Your own, a Family or a function from 0, 1, 2, … to an Instance: mine.py:tiring.",
            show_default=False,
        ),
    ] = None,
    horizons: Annotated[
        list[str] | None,
        typer.Option(
            help="Horizons, separated by commas; by default 30, 100, 1000, … as far as each goes.",
            show_default=False,
        ),
    ] = None,
    instances: Annotated[
        int | None, typer.Option(help="Instances of each family; by default 10 to 100.")
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(help="Runs of each instance, with noise of their own; by default one."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="10 instances of each family, horizons to 10,000.")
    ] = False,
    data: MovieLensData = None,
    out: Out = Path("results/compare"),
    *,
    where: Where,
) -> None:
    """Compare policies on families of instances: paired regrets, ranks and one HTML report.

    Run it again after an interruption, and it continues where it was; with another policy, it plays
    that policy only.
    """
    with _studying(out, where) as execution:
        from influential_bandits.studies.compare.compare import compare as run

        comparison = run(
            split_list(policies) or None,
            split_list(families) or None,
            parse_horizons(horizons) or None,
            n_instances=instances,
            seeds=seeds,
            quick=quick,
            data=data,
            out=out,
            execution=execution,
        )
    print_results(str(comparison), out)


@app.command(name="families")
def list_families() -> None:
    """List the families of instances that compare can play, with one line each."""
    from influential_bandits.studies.compare.families import describe_families

    for name, description in describe_families().items():
        typer.echo(f"{name:18} {description}")


@app.command(
    name="compare-fleets",
    epilog="Examples: influential-bandits compare-fleets --quick; influential-bandits "
    "compare-fleets --populations small-5x100,unlike-5x100 --users 1000",
)
@works_anywhere
def compare_fleets(
    policies: Annotated[
        list[str] | None,
        typer.Option(
            help="Policies, separated by commas: 'fleet: Foresight'; 'A known'; "
            "'all users as one: LCB'; any other starts anew with each user. "
            "By default all that are of interest.",
            show_default=False,
        ),
    ] = None,
    populations: Annotated[
        list[str] | None,
        typer.Option(
            help="Families, separated by commas (the command populations lists them); by default "
            "all.",
            show_default=False,
        ),
    ] = None,
    users: Annotated[
        int | None, typer.Option(help="Users of each population; by default 1,000.")
    ] = None,
    number: Annotated[
        int | None,
        typer.Option("--number", help="Populations of each family; by default 2 to 10."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="200 users, two populations of each family.")
    ] = False,
    out: Out = Path("results/fleets"),
    *,
    where: Where,
) -> None:
    """Compare a fleet with policies that serve users one by one: paired regrets, and a report.

    Run it again after an interruption, and it continues where it was.
    """
    with _studying(out, where) as execution:
        from influential_bandits.studies.compare.compare import compare_fleets as run

        comparison = run(
            split_list(policies) or None,
            split_list(populations) or None,
            users,
            n_populations=number,
            quick=quick,
            out=out,
            execution=execution,
        )
    print_results(str(comparison), out)


@app.command(name="populations")
def list_populations() -> None:
    """List the families of populations that compare-fleets can serve, with one line each."""
    from influential_bandits.studies.compare.populations import describe_populations

    for name, description in describe_populations().items():
        typer.echo(f"{name:20} {description}")


@app.command(
    epilog="Example: influential-bandits movielens --data ml-latest-small --out results/movielens"
)
@works_anywhere
def movielens(
    data: Annotated[Path | None, typer.Option(help="Folder or zip of a MovieLens release.")] = None,
    download: Annotated[
        str | None,
        typer.Option(help="Release to fetch: ml-32m, 25m, 20m, 10m, 1m, latest, latest-small."),
    ] = None,
    min_ratings: Annotated[
        int | None,
        typer.Option(help="Of a user, to compare as in the paper: 4096, or less if few have them."),
    ] = None,
    permutations: Annotated[int, typer.Option(help="Of the test of influence.")] = 999,
    most_events: Annotated[
        int, typer.Option(help="Larger releases: users drawn at random for ladder and test.")
    ] = 2_000_000,
    seed: Seed = 0,
    out: Out = Path("results/movielens"),
    *,
    where: Where,
) -> None:
    """Reproduce the paper's MovieLens study, and test what it claims."""
    if (data is None) == (download is None):
        raise InvalidInput("name either --data PATH (folder or zip) or --download RELEASE")
    where.require_installed(*REPORT)
    with explain_stop("nothing was written"):
        from influential_bandits.datasets.download import fetch_movielens
        from influential_bandits.studies.logs.movielens import study_movielens
        from influential_bandits.studies.report.text import format_findings

        path = data if data is not None else fetch_movielens(str(download))
        with where.open() as execution:
            sections = study_movielens(
                path, out, min_ratings, seed, permutations, most_events, execution=execution
            )
        typer.echo(format_findings(sections))
    print_report_place(out)
