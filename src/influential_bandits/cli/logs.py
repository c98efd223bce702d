"""Commands for logs: diagnose, fit and plan."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeAlias

import typer

from influential_bandits.cli.options import (
    HalfLifeDays,
    Jobs,
    Log,
    MergeArms,
    Out,
    Seed,
    reads_log,
    takes,
)
from influential_bandits.cli.running import (
    REPORT,
    Where,
    explain_stop,
    print_report_place,
    require_installed,
    works_anywhere,
)
from influential_bandits.errors import InvalidInput

app = typer.Typer()
Reading: TypeAlias = dict[str, Any]  # what read_log is told
Adjust = Annotated[
    bool,
    typer.Option(
        help="Take out what the calendar, the hour, the place in a session, items and own "
        "controls explain, as far as the log has them."
    ),
]


@app.command(
    epilog="Example: influential-bandits diagnose ratings.csv --instance userId --arm genre "
    "--rating rating --best 5 --out results/diagnosis"
)
@reads_log
@works_anywhere
def diagnose(
    log: Log,
    reading: Reading,
    merge_arms_below: MergeArms = None,
    adjust: Adjust = True,
    half_life_days: HalfLifeDays = None,
    all_pairs: Annotated[
        bool | None,
        typer.Option(
            "--all-pairs/--own-only",
            help="Look at all pairs of arms, or at each arm on itself alone. Without either: all "
            "pairs of up to 40 arms; those of 100 take minutes and gigabytes.",
        ),
    ] = None,
    permutations: Annotated[int, typer.Option(help="Of the test of influence.")] = 999,
    seed: Seed = 0,
    out: Out = Path("results/diagnosis"),
    *,
    where: Where,
) -> None:
    """Say whether the past changes what comes next in a log: verdict, report and model."""
    where.require_installed(*REPORT)
    with explain_stop("nothing was written"):
        from influential_bandits import diagnose as make_diagnosis
        from influential_bandits.files import require_writable

        events = _read(
            log, reading, merge_arms_below, adjust, all_pairs=all_pairs is True, tests=True
        )
        with where.open() as execution:
            require_writable(out)
            diagnosis = make_diagnosis(
                events,
                fading=_name_fading(None, half_life_days),
                all_pairs=all_pairs,
                controls=None if adjust else (),
                permutations=permutations,
                seed=seed,
                execution=execution,
            )
            diagnosis.save(out)
        typer.echo(diagnosis.verdict)
    print_report_place(out)


class ChosenModel(NamedTuple):
    """The settings of a model, and which of them are left to validation."""

    settings: dict[str, Any]
    left_out: list[str]


def _choose_model(
    interaction: Annotated[str, typer.Option(help="psd, symmetric or diagonal.")] = "psd",
    memory: Annotated[
        float | None, typer.Option(help="Influence left after each event; chosen by validation.")
    ] = None,
    half_life_days: HalfLifeDays = None,
    ridge: Annotated[float | None, typer.Option(help="Chosen by validation.")] = None,
    drift: Annotated[bool, typer.Option(help="Losses also follow their recent level.")] = True,
    pooling: Annotated[
        str, typer.Option(help="full: one matrix for all; none: one for each instance.")
    ] = "full",
) -> ChosenModel:
    """Return what options say of the model."""
    choosable = {"fading": _name_fading(memory, half_life_days), "ridge": ridge}
    stated = {name: value for name, value in choosable.items() if value is not None}
    fixed = {"interaction": interaction, "drift": drift, "pooling": pooling}
    return ChosenModel(fixed | stated, [name for name in choosable if name not in stated])


@app.command(
    epilog="Example: influential-bandits fit log.csv --instance user --arm ad --reward click "
    "--out model.json"
)
@reads_log
@takes("model", _choose_model)
@works_anywhere
def fit(
    log: Log,
    reading: Reading,
    model: ChosenModel,
    merge_arms_below: MergeArms = None,
    adjust: Adjust = True,
    out: Annotated[Path, typer.Option(help="File for the model.")] = Path("model.json"),
    *,
    where: Where,
) -> None:
    """Fit an influence model to a log, and write it as JSON."""
    where.require_installed("pyarrow", "sklearn")
    with explain_stop("nothing was written"):
        from influential_bandits.learning.models import InfluenceModel
        from influential_bandits.studies.logs.diagnosis import fit_log

        fitted = InfluenceModel(**model.settings)
        fitted.check_settings()
        all_pairs = fitted.interaction != "diagonal"
        with where.open() as execution:
            events = _read(log, reading, merge_arms_below, adjust, all_pairs)
            controls = None if adjust else ()
            fitted = fit_log(events, out, fitted, model.left_out, execution, controls=controls)
        typer.echo(f"Adjusted for: {fitted.about_['log'].get('adjusted_for', 'nothing')}.")
        typer.echo(str(fitted))
    typer.echo(f"\nModel: {out}  (next: influential-bandits plan {out} --log {log})")


@app.command(epilog="Example: influential-bandits plan model.json --log clicks.csv --horizon 100")
def plan(
    model: Annotated[Path, typer.Argument(help="Model file, from fit or diagnose.")],
    log: Annotated[
        Path,
        typer.Option(
            help="The log that it was fitted to, read as it was then: two halves of it judge each "
            "other's plans."
        ),
    ],
    horizon: Annotated[int, typer.Option(help="Number of rounds to plan for.")] = 100,
    share: Annotated[
        list[str] | None,
        typer.Option(
            help="Least and most share of an arm, as in hat=0.1:0.3, hat=:0.3 or hat=0.1: for one "
            "end alone; again for another arm."
        ),
    ] = None,
    days_between_rounds: Annotated[
        float | None, typer.Option(help="For memory by the clock; by default as in the log.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="File for the plan, as JSON.")] = None,
    jobs: Jobs = None,
) -> None:
    """Recommend a mix of arms, or a spaced schedule, and say what it should gain."""
    require_installed("pyarrow", "sklearn")
    from influential_bandits.files import write_json
    from influential_bandits.learning.models import InfluenceModel
    from influential_bandits.learning.planning import plan as make_plan

    fitted = InfluenceModel.load(model)
    with explain_stop("nothing was written"):
        events = _read_again(log, model, fitted.about_.get("command"))
        advice = make_plan(
            fitted,
            events,
            horizon,
            shares=_parse_shares(share),
            days_between_rounds=days_between_rounds,
            execution=jobs,
        )
    if out is not None:
        write_json(out, advice.to_json(), indent=2)
    typer.echo(str(advice))


def _parse_shares(texts: list[str] | None) -> dict[str, tuple[float, float]] | None:
    """Return the least and most shares that options name."""
    if texts is None:
        return None
    shares = {}
    for text in texts:
        name, equals, ends = text.rpartition("=")
        least, colon, most = ends.partition(":")
        try:
            sides = (float(least or 0.0), float(most or 1.0)) if equals and colon else None
        except ValueError:
            sides = None
        if sides is None:
            raise InvalidInput(
                f"--share takes an arm with its least and most share, as in hat=0.1:0.3, got {text}"
            )
        shares[name] = sides
    return shares


def _read_again(path: Path, model: Path, command: Any) -> Any:
    """Read the log of a model as its file says that it was read, and adjust it as it was."""
    from influential_bandits.learning.controls import adjust_losses
    from influential_bandits.studies.logs.options import read_for_command

    if not isinstance(command, dict) or set(command) != {"reading", "merge_below", "adjust"}:
        raise InvalidInput(
            f"{model} does not say how its log was read, as it was not written by fit or "
            "diagnose: use ib.plan(model, log) in Python"
        )
    events = read_for_command(path, command["reading"], command["merge_below"])
    return adjust_losses(events, None if command["adjust"] else ())


def _name_fading(memory: float | None, half_life_days: float | None) -> Any:
    """Return how influence fades, if options say so."""
    from influential_bandits.world.fading import Fading

    if memory is not None and half_life_days is not None:
        raise InvalidInput("give --memory (by events) or --half-life-days (by the clock), not both")
    if half_life_days is not None:
        return Fading(half_life=24.0 * half_life_days)
    return None if memory is None else Fading(memory)


def _read(
    path: Path,
    reading: Reading,
    merge_below: float | None,
    adjust: bool,
    all_pairs: bool = True,
    tests: bool = False,
) -> Any:
    """Read a log for a command, and say what was taken for what."""
    from influential_bandits.studies.logs.options import describe_reading, read_for_command

    log = read_for_command(path, reading, merge_below)
    # For a plan, which reads it again.
    log.about["command"] = {"reading": reading, "merge_below": merge_below, "adjust": adjust}
    typer.echo("; ".join(describe_reading(log, all_pairs, tests=tests)), err=True)
    return log
