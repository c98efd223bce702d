"""Commands that play: simulate, and warm-up."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from influential_bandits.cli.options import DelayLaw, NoiseKind, takes
from influential_bandits.cli.running import (
    CONTINUES,
    Where,
    explain_stop,
    print_rest_first,
    works_anywhere,
)

app = typer.Typer()


def _make_noise(
    noise: Annotated[NoiseKind, typer.Option(help="Noise on the losses.")] = NoiseKind.gaussian,
    sigma: Annotated[
        float, typer.Option(help="Standard deviation of Gaussian noise, bound of uniform noise.")
    ] = 1.0,
) -> Any:
    """Return the noise that options describe."""
    from influential_bandits.world.noise import GaussianNoise, NoNoise, UniformNoise

    if noise is NoiseKind.none:
        return NoNoise()
    return GaussianNoise(sigma) if noise is NoiseKind.gaussian else UniformNoise(sigma)


def _make_scenario(
    delay: Annotated[int, typer.Option(help="Rounds until a loss is known.")] = 0,
    delay_law: Annotated[
        DelayLaw, typer.Option(help="fixed, uniform in 0 … delay, or geometric of this mean.")
    ] = DelayLaw.fixed,
    batch: Annotated[int, typer.Option(help="Losses are handed over every so many rounds.")] = 1,
    eligible: Annotated[
        float, typer.Option(help="Probability of each arm to be on offer in a round.")
    ] = 1.0,
    session: Annotated[
        int | None,
        typer.Option(help="Rounds of a session, for instances and policies with a half-life."),
    ] = None,
    gap: Annotated[int, typer.Option(help="Seconds between two rounds of a session.")] = 60,
    pause: Annotated[int, typer.Option(help="Seconds between two sessions.")] = 43_200,
) -> Any:
    """Return when losses are known, arms on offer and rounds, as options describe it."""
    from influential_bandits.simulation.scenario import Scenario

    return Scenario(
        delay=delay,
        delay_law=delay_law.value,
        batch=batch,
        eligible=eligible,
        session=session,
        gap=gap,
        pause=pause,
    )


@app.command(
    epilog="Example: influential-bandits simulate instance.json --policy LCB "
    "--policy 'InfluentialLCB(influence_bound=2.0)'"
)
@takes("noise", _make_noise)
@takes("scenario", _make_scenario)
@works_anywhere
def simulate(
    instances: Annotated[
        list[Path],
        typer.Argument(help="Instance files (JSON, from Instance.save), or folders of them."),
    ],
    noise: Any,
    scenario: Any,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            help="Policy, such as LCB or 'InfluentialLCB(influence_bound=2.0)', or one of yours, "
            "as in 'mine.py:Greedy(epsilon=0.1)' or package.module:Greedy; may be repeated."
        ),
    ] = None,
    horizon: Annotated[int, typer.Option(help="Number of rounds.")] = 10_000,
    seeds: Annotated[int, typer.Option(help="Number of seeds.")] = 10,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for runs and plot; of several instances: results/simulate."),
    ] = None,
    *,
    where: Where,
) -> None:
    """Play policies on instances of your own: regret table and plot.

    With a folder, run it again after an interruption, and it continues where it was. Files that
    cannot be played are named in the end.
    """
    names = policy or ["LCB", "InfluentialLCB"]
    if out is None and (len(instances) > 1 or instances[0].is_dir()):
        out = Path("results/simulate")
    where.require_installed(*(["matplotlib", "pyarrow"] if out is not None else []))
    with explain_stop("nothing was saved" if out is None else CONTINUES.format(out)):
        from influential_bandits.studies.instance_files import (
            PlaySettings,
            list_instance_files,
            play_files,
        )

        settings = PlaySettings(horizon, noise, seeds, scenario)
        files = list_instance_files(instances)
        with where.open() as execution, print_rest_first(typer.echo):
            typer.echo(play_files(files, names, settings, out, execution))


@app.command(name="warm-up", epilog="Example: influential-bandits warm-up --policy mine.py:Greedy")
def compile_ahead(
    policy: Annotated[
        list[str] | None,
        typer.Option(help="Policy, named as for simulate; by default those that are used most."),
    ] = None,
) -> None:
    """Compile ahead what is needed first, so that nobody waits for it later.

    Compiled code is kept on disk; what is there already is not compiled again.
    """
    with explain_stop("what was compiled is kept"):
        from influential_bandits.policies.registry import policy_from_text
        from influential_bandits.studies.warm_up import warm_up

        players = [policy_from_text(name) for name in policy or ()]
        for step in warm_up(players) if players else warm_up():
            typer.echo(step)
    typer.echo("ready")
