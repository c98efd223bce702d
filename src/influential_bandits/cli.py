"""The command line: parses, calls, prints."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from influential_bandits import __version__
from influential_bandits.errors import (
    ClusterLost,
    InfluentialBanditsError,
    InvalidInput,
    Unfinished,
)

__all__ = ["app", "main"]

CONTINUES = "finished pieces are kept in {}: run the same command again to continue"

app = typer.Typer(
    name="influential-bandits",
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Influential bandits: pulling one arm changes the future losses of all arms.",
)

Out = Annotated[Path, typer.Option(help="Folder for the results.")]
Jobs = Annotated[
    int | None,
    typer.Option(help="Threads, or workers of a cluster started here; by default all cores."),
]


Log = Annotated[Path, typer.Argument(help="CSV (also gzip), Parquet, or a folder of Parquet.")]
InstanceColumn = Annotated[
    str | None,
    typer.Option("--instance", help="Column: user, session, … Usual names are found."),
]
ArmColumn = Annotated[str | None, typer.Option("--arm", help="Column: what was shown or chosen.")]
TimeColumn = Annotated[
    str | None, typer.Option("--time", help="Column: seconds, or dates; without one, file order.")
]
LossColumn = Annotated[str | None, typer.Option("--loss", help="Column: how bad it was.")]
RatingColumn = Annotated[
    str | None,
    typer.Option("--rating", help="Column: a rating; needs --best. loss = best − rating."),
]
RewardColumn = Annotated[str | None, typer.Option("--reward", help="Column: loss = −reward.")]
Best = Annotated[float | None, typer.Option(help="The best rating there is.")]
Categories = Annotated[
    str | None, typer.Option(help="What separates several arms of one event, such as '|'.")
]
Separator = Annotated[str | None, typer.Option(help="Of the CSV; found by itself.")]
DropBadRows = Annotated[
    bool, typer.Option("--drop-bad-rows", help="Drop bad rows and count them, not refuse the file.")
]
HalfLife = Annotated[
    float | None, typer.Option(help="Days after which half of the influence is gone, by the clock.")
]
Seed = Annotated[int, typer.Option(help="Of everything random.")]


class Engine(Enum):
    """Where work is done, by name."""

    local = "local"
    dask = "dask"


EngineName = Annotated[
    Engine, typer.Option("--engine", help="This computer, or a Dask cluster. Changes no digit.")
]
Scheduler = Annotated[
    str | None,
    typer.Option(
        help="Of the Dask cluster: tcp://host:8786, tls://host:8786, or a scheduler file; without "
        "one, a cluster of processes is started here."
    ),
]
Processes = Annotated[
    int, typer.Option(help="Of the local engine: pieces worked on at a time. Changes no digit.")
]


class NoiseKind(Enum):
    """Noises by name."""

    none = "none"
    gaussian = "gaussian"
    uniform = "uniform"


class DelayLaw(Enum):
    """How long losses take, by name."""

    fixed = "fixed"
    uniform = "uniform"
    geometric = "geometric"


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
    processes: Processes = 1,
    engine: EngineName = Engine.local,
    scheduler: Scheduler = None,
) -> None:
    """Reproduce the paper's synthetic results: data, figures, and one HTML report.

    Run it again after an interruption, and it continues where it was.
    """
    if quick and tiny:
        raise InvalidInput("choose one of --quick and --tiny")
    size = "tiny" if tiny else "quick" if quick else "full"
    with _stoppable(CONTINUES.format(out)):
        from influential_bandits.studies.report.text import markdown_table
        from influential_bandits.studies.running import reproduce as run
        from influential_bandits.studies.study import chosen_studies

        chosen = chosen_studies(studies or ())
        with (
            _execution(engine, scheduler, jobs, processes) as execution,
            _rest_told(lambda rest: _say_results(markdown_table(rest), out)),
        ):
            results = run(chosen, out, size, seeds, max_horizon, execution)
    _say_results(markdown_table(results), out)


@app.command(name="studies")
def list_studies() -> None:
    """List the studies that reproduce can run, with one line each."""
    from influential_bandits.studies.study import all_studies

    for name, study in all_studies().items():
        typer.echo(f"{name:16} {study.line}")


@app.command(
    epilog="Examples: influential-bandits compare --quick; influential-bandits compare "
    "--policies 'LCB,InfluentialLCB(scale=2.0)' --families random-3,block --horizons 1000,1e5"
)
def compare(
    policies: Annotated[
        list[str] | None,
        typer.Option(
            help="Policies, separated by commas; by default all, and two oracles as references.",
            show_default=False,
        ),
    ] = None,
    families: Annotated[
        list[str] | None,
        typer.Option(
            help="Families, separated by commas (the command families lists them); by default all.",
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
    seeds: Annotated[
        int | None, typer.Option(help="Instances of each family; by default 10 to 100.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="10 instances of each family, horizons to 10,000.")
    ] = False,
    data: Annotated[
        Path | None,
        typer.Option(help="MovieLens release to learn a family from; or MOVIELENS_DATA names it."),
    ] = None,
    out: Out = Path("results/compare"),
    jobs: Jobs = None,
    processes: Processes = 1,
    engine: EngineName = Engine.local,
    scheduler: Scheduler = None,
) -> None:
    """Compare policies on families of instances: paired regrets, ranks, wins and one HTML report.

    Run it again after an interruption, and it continues where it was; with another policy, it plays
    that policy only.
    """
    with _stoppable(CONTINUES.format(out)):
        from influential_bandits.studies.arena.comparing import compare as run
        from influential_bandits.studies.arena.telling import printed

        with (
            _execution(engine, scheduler, jobs, processes) as execution,
            _rest_told(lambda rest: _say_results(printed(rest.contests, rest.notes), out)),
        ):
            found = run(
                policies or (),
                families or (),
                horizons or (),
                out,
                seeds=seeds,
                quick=quick,
                data=data,
                execution=execution,
            )
    _say_results(printed(found.contests, found.notes), out)


@app.command(name="families")
def list_families() -> None:
    """List the families of instances that compare can play, with one line each."""
    from influential_bandits.studies.arena.families import all_lines

    for name, line in all_lines().items():
        typer.echo(f"{name:18} {line}")


@app.command(
    epilog="Example: influential-bandits leaderboard results/compare --out docs/leaderboard.md"
)
def leaderboard(
    results: Annotated[Path, typer.Argument(help="Folder that compare has filled.")],
    out: Annotated[Path, typer.Option(help="File for the page, in Markdown.")] = Path(
        "leaderboard.md"
    ),
) -> None:
    """Write the results of compare as a page, with its pictures in a folder beside it."""
    from influential_bandits.studies.arena.leaderboard import write_leaderboard

    pictures = write_leaderboard(results, out)
    typer.echo(f"Page: {out}  (pictures: {pictures})")


@app.command(
    epilog="Example: influential-bandits simulate instance.json --policy LCB "
    "--policy 'InfluentialLCB(scale=2.0)'"
)
def simulate(
    instances: Annotated[
        list[Path],
        typer.Argument(help="Instance files (JSON, from Instance.save), or folders of them."),
    ],
    policy: Annotated[
        list[str] | None,
        typer.Option(help="Policy, such as LCB or 'InfluentialLCB(scale=2.0)'; may be repeated."),
    ] = None,
    horizon: Annotated[int, typer.Option(help="Number of rounds.")] = 10_000,
    noise: Annotated[NoiseKind, typer.Option(help="Noise on the losses.")] = NoiseKind.gaussian,
    scale: Annotated[float, typer.Option(help="Standard deviation or bound of the noise.")] = 1.0,
    seeds: Annotated[int, typer.Option(help="Number of seeds.")] = 10,
    delay: Annotated[int, typer.Option(help="Rounds until a loss is known.")] = 0,
    delay_law: Annotated[
        DelayLaw, typer.Option(help="fixed, uniform in 0 … delay, or geometric of this mean.")
    ] = DelayLaw.fixed,
    batch: Annotated[int, typer.Option(help="Losses are handed over every so many rounds.")] = 1,
    eligible: Annotated[
        float, typer.Option(help="Probability of each arm to be on offer in a round.")
    ] = 1.0,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for runs and plot; of several instances: results/simulate."),
    ] = None,
    jobs: Jobs = None,
    processes: Processes = 1,
    engine: EngineName = Engine.local,
    scheduler: Scheduler = None,
) -> None:
    """Play policies on instances of your own: regret table and plot.

    Several instances are played in pieces: run it again after an interruption, and it continues
    where it was. Files that cannot be played are named in the end.
    """
    names = policy or ["LCB", "InfluentialLCB"]
    folder = out or Path("results/simulate")
    several = len(instances) > 1 or any(path.is_dir() for path in instances)
    with _stoppable(CONTINUES.format(folder) if several else "nothing was saved"):
        from influential_bandits.studies.own_instance import Rules, play_file
        from influential_bandits.studies.own_instances import instance_files, play_files

        practice = {
            "delay": delay,
            "delay_law": delay_law.value,
            "batch": batch,
            "eligible": eligible,
        }
        rules = Rules.of(horizon, noise.value, scale, seeds, practice)
        files = instance_files(instances)
        with _execution(engine, scheduler, jobs, processes) as execution, _rest_told(typer.echo):
            if len(files) == 1:
                typer.echo(play_file(files[0], names, rules, out, execution))
            else:
                typer.echo(play_files(files, names, rules, folder, execution))


@app.command(epilog="Example: influential-bandits inspect instance.json --horizon 1000")
def inspect(
    instance: Annotated[Path, typer.Argument(help="Instance file (JSON, from Instance.save).")],
    horizon: Annotated[int, typer.Option(help="Horizon of the optimum to show.")] = 10_000,
) -> None:
    """Show how hard an instance is, its optimum, and its spectrum."""
    from influential_bandits.studies.own_instance import describe_file

    typer.echo(describe_file(instance, horizon))


@app.command(
    epilog="Example: influential-bandits movielens --data ml-latest-small --out results/movielens"
)
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
    jobs: Jobs = None,
    engine: EngineName = Engine.local,
    scheduler: Scheduler = None,
) -> None:
    """Reproduce the paper's MovieLens study, and test what it claims."""
    if (data is None) == (download is None):
        raise InvalidInput("name either --data PATH (folder or zip) or --download RELEASE")
    with _stoppable("nothing was written; a download continues where it was"):
        from influential_bandits.datasets.download import fetch_movielens
        from influential_bandits.studies.movielens_study import study_movielens
        from influential_bandits.studies.report.text import markdown_table

        path = data if data is not None else fetch_movielens(str(download))
        with _execution(engine, scheduler, jobs) as where:
            sections = study_movielens(
                path, out, min_ratings, seed, permutations, most_events, execution=where
            )
        typer.echo(markdown_table(sections))
    _say_where(out)


@app.command(
    epilog="Example: influential-bandits diagnose ratings.csv --instance userId --arm genre "
    "--rating rating --best 5 --out results/diagnosis"
)
def diagnose(
    log: Log,
    instance: InstanceColumn = None,
    arm: ArmColumn = None,
    time: TimeColumn = None,
    loss: LossColumn = None,
    rating: RatingColumn = None,
    reward: RewardColumn = None,
    best: Best = None,
    categories: Categories = None,
    separator: Separator = None,
    drop_bad_rows: DropBadRows = False,
    half_life: HalfLife = None,
    permutations: Annotated[int, typer.Option(help="Of the test of influence.")] = 999,
    seed: Seed = 0,
    out: Out = Path("results/diagnosis"),
    jobs: Jobs = None,
    engine: EngineName = Engine.local,
    scheduler: Scheduler = None,
) -> None:
    """Say whether the past changes what comes next in a log: verdict, report and model."""
    with _stoppable("nothing was written"):
        from influential_bandits.studies.diagnosis import diagnose_log

        roles = (instance, arm, time, loss, rating, reward)
        events = _read(log, roles, best, categories, separator, drop_bad_rows, seed)
        with _execution(engine, scheduler, jobs) as where:
            found = diagnose_log(
                events,
                out,
                half_life=half_life,
                permutations=permutations,
                seed=seed,
                execution=where,
            )
        typer.echo(found.verdict)
    _say_where(out)


@app.command(
    epilog="Example: influential-bandits fit log.csv --instance user --arm ad --reward click "
    "--out model.json; influential-bandits fit s3://logs/clicks --by-partition --engine dask "
    "--scheduler tcp://host:8786 --reward click --out fits/model.json"
)
def fit(
    log: Annotated[
        str,
        typer.Argument(
            help="CSV (also gzip), Parquet, or a folder of Parquet; with --by-partition also an "
            "address such as s3://bucket/folder."
        ),
    ],
    instance: InstanceColumn = None,
    arm: ArmColumn = None,
    time: TimeColumn = None,
    loss: LossColumn = None,
    rating: RatingColumn = None,
    reward: RewardColumn = None,
    best: Best = None,
    categories: Categories = None,
    separator: Separator = None,
    drop_bad_rows: DropBadRows = False,
    interaction: Annotated[str, typer.Option(help="psd, symmetric, diagonal or free.")] = "psd",
    memory: Annotated[
        float | None, typer.Option(help="Influence left after each event; chosen by validation.")
    ] = None,
    half_life: HalfLife = None,
    ridge: Annotated[float | None, typer.Option(help="Chosen by validation.")] = None,
    drift: Annotated[bool, typer.Option(help="Losses also follow their recent level.")] = True,
    pooling: Annotated[
        str, typer.Option(help="full: one matrix; partial: own, pulled to the population; none.")
    ] = "full",
    seed: Seed = 0,
    by_partition: Annotated[
        bool,
        typer.Option(
            "--by-partition",
            help="Of a folder of Parquet: read and fit file by file where the workers are, and "
            "write the instances into the folder instances beside the model.",
        ),
    ] = False,
    temporary: Annotated[
        str | None,
        typer.Option(
            help="With --by-partition: folder, or address, for temporary files that all workers "
            "reach; needed if instances are spread over files that are not on this computer."
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="File for the model.")] = Path("model.json"),
    jobs: Jobs = None,
    engine: EngineName = Engine.local,
    scheduler: Scheduler = None,
) -> None:
    """Fit an influence model to a log, and write it as JSON.

    With --by-partition, run it again after an interruption, and it continues where it was.
    """
    ways: dict[str, bool | str] = {"full": True, "partial": "partial", "none": False}
    if pooling not in ways:
        raise InvalidInput(f"--pooling must be full, partial or none, got {pooling!r}")
    kept = "nothing was written"
    if not by_partition and "://" in log:
        raise InvalidInput(f"{log} is an address: add --by-partition, or name a file")
    if by_partition:
        kept = f"finished instances are kept beside {out}: run the same command again to continue"
    with _stoppable(kept):
        from influential_bandits.studies.diagnosis import described, fit_log

        roles = (instance, arm, time, loss, rating, reward)
        how = (best, categories, separator, drop_bad_rows, seed)
        settings: dict[str, Any] = {
            "interaction": interaction,
            "memory": memory,
            "half_life": half_life,
            "ridge": ridge,
            "drift": drift,
            "pooled": ways[pooling],
            "seed": seed,
        }
        with _execution(engine, scheduler, jobs) as where:
            if by_partition:
                from influential_bandits.studies.fitting_study import fit_partitioned_log

                parts = _read(log, roles, *how, execution=where, temporary=temporary)
                model, notes = fit_partitioned_log(parts, out, execution=where, **settings)
                typer.echo("\n".join(notes))
            else:
                events = _read(Path(log), roles, *how)
                model = fit_log(events, out, execution=where, **settings)
        typer.echo(described(model))
    typer.echo(f"\nModel: {out}  (next: influential-bandits plan {out} --horizon 100)")


@app.command(epilog="Example: influential-bandits plan model.json --horizon 100")
def plan(
    model: Annotated[Path, typer.Argument(help="Model file, from fit or diagnose.")],
    horizon: Annotated[int, typer.Option(help="Number of rounds to plan for.")] = 100,
    instance: Annotated[
        str | None, typer.Option(help="For one instance of the log; by default for all.")
    ] = None,
    days_between_rounds: Annotated[
        float | None, typer.Option(help="For memory by the clock; by default as in the log.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="File for the plan, as JSON.")] = None,
) -> None:
    """Recommend a mix of arms, or a spaced schedule, and say what it should gain."""
    from influential_bandits.studies.diagnosis import plan_file

    found = plan_file(model, horizon, instance, days_between_rounds, out)
    typer.echo(str(found))


def _read(
    path: Path | str,
    roles: tuple[str | None, ...],
    best: float | None,
    categories: str | None,
    separator: str | None,
    drop_bad_rows: bool,
    seed: int,
    execution: Any = None,
    temporary: str | None = None,
) -> Any:
    """Read a log for a command, or open its partitions, and say what was taken for what."""
    from influential_bandits.logs.addresses import describe_files
    from influential_bandits.studies.log_options import open_for_command, read_for_command

    names = ("instance", "arm", "time", "loss", "rating", "reward")
    named = dict(zip(names, roles, strict=True))
    options: dict[str, Any] = {
        "best": best,
        "categories": categories,
        "separator": separator,
        "bad_rows": "drop" if drop_bad_rows else "error",
        "seed": seed,
    }
    try:
        if isinstance(path, Path):
            log: Any = read_for_command(path, named, **options)
        else:
            log = open_for_command(path, named, execution, temporary, **options)
    except InvalidInput as error:  # speaks of arguments, which are options here
        text = re.sub(r"bad_rows=.drop.", "--drop-bad-rows", str(error))
        raise type(error)(text.replace("folder=", "--temporary")) from None
    told = [f"Read {log!r}: {log.about['columns']}"]
    if roles[3] is None and "conversion" in log.about:
        told.append(log.about["conversion"])
    told += describe_files(log.about)
    told += [f"{n:,} rows dropped: {why}" for why, n in log.about.get("dropped", {}).items()]
    typer.echo("; ".join(part for part in told if part), err=True)
    return log


def _execution(engine: Engine, scheduler: str | None, jobs: int | None, processes: int = 1) -> Any:
    """Return where a command's work is to be done."""
    from influential_bandits.checks import whole_number

    if jobs is not None:
        jobs = whole_number("jobs", jobs, 1)
    if engine is Engine.local:
        if scheduler is not None:
            raise InvalidInput("--scheduler is for --engine dask")
        from influential_bandits.simulation.execution import LocalExecution

        return LocalExecution(jobs, processes)
    if processes != 1:
        raise InvalidInput("--processes is for --engine local; a cluster has workers")
    if scheduler is not None and jobs is not None:
        raise InvalidInput("--jobs is for this computer: a running cluster has its own workers")
    from influential_bandits.simulation.cluster import DaskExecution

    found = DaskExecution(scheduler, jobs)
    for name in ("distributed", "distributed.client"):  # our own words say what went wrong
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return found


@contextmanager
def _rest_told(tell: Callable[[Any], None]) -> Iterator[None]:
    """If some pieces failed, tell what the others gave before the error is shown."""
    try:
        yield
    except Unfinished as error:
        if error.results:
            tell(error.results)
        raise


def _say_results(text: str, out: Path) -> None:
    typer.echo(text)
    _say_where(out)


def _say_where(out: Path) -> None:
    typer.echo(f"\nReport: {out / 'report.html'}  (numbers for programs: {out / 'summary.json'})")


@contextmanager
def _stoppable(afterwards: str) -> Iterator[None]:
    """Let Ctrl-C, or a lost cluster, end a command with one line that says what now."""
    try:
        yield
    except ClusterLost as lost:
        raise ClusterLost(f"{lost}; {afterwards}") from None
    except KeyboardInterrupt as stopped:
        typer.echo(f"\n{str(stopped) or 'stopped by Ctrl-C'}; {afterwards}", err=True)
        raise typer.Exit(130) from None


def main() -> None:
    """Run the command line; an error gets one sentence.

    Exit status 2: what was asked for cannot be done. Exit status 1: some of it was done, and kept.
    """
    try:
        app()
    except InfluentialBanditsError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(1 if isinstance(error, Unfinished) else 2) from None


if __name__ == "__main__":
    main()
