"""Commands for live decisions: serve, shop, replay and others of a store, and warm-up."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated

import typer

from influential_bandits.cli.running import explain_stop
from influential_bandits.errors import InvalidInput

app = typer.Typer()

Store = Annotated[
    str,
    typer.Option(
        envvar="INFLUENTIAL_BANDITS_STORE",  # others can read a password on the command line
        help="Where events are kept: the path of an SQLite file, or postgresql://…",
    ),
]


def _read_config(context: typer.Context, file: Path | None) -> Path | None:
    """Take defaults from a TOML file: an entry is named as its option, with underscores."""
    if file is not None:
        from influential_bandits.files import read_regular

        try:
            entries = tomllib.loads(read_regular(file).decode())
        except ValueError as error:
            raise InvalidInput(f"{file} is no TOML file: {error}") from None
        options = {str(option.name) for option in context.command.params} - {"config"}
        if unknown := sorted(set(entries) - options):
            known = ", ".join(sorted(options))
            raise InvalidInput(f"{file} has an unknown entry {unknown[0]!r}; there are {known}")
        context.default_map = entries
    return file


@app.command(
    epilog="Example: influential-bandits serve --store shop.db --port 8000",
    context_settings={"auto_envvar_prefix": "INFLUENTIAL_BANDITS"},
)
def serve(
    store: Store = "influential-bandits.db",
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.")] = 8000,
    workers: Annotated[int, typer.Option(help="Processes; more than one take PostgreSQL.")] = 1,
    keep_alive: Annotated[
        int, typer.Option(help="Seconds that a connection may be idle; longer than a proxy's.")
    ] = 75,
    root_path: Annotated[
        str, typer.Option(help="Path under which a proxy serves it and takes off, as in /bandits.")
    ] = "",
    key_file: Annotated[
        Path | None, typer.Option(help="New file for the first key; by default it is printed.")
    ] = None,
    log_format: Annotated[str, typer.Option(help="text, or json: an object a line.")] = "text",
    access_log: Annotated[bool, typer.Option(help="Log every request.")] = False,
    config: Annotated[
        Path | None,
        typer.Option(
            callback=_read_config,
            is_eager=True,
            help="TOML file of these options, as in port = 80.",
        ),
    ] = None,
) -> None:
    """Decide live, over HTTP: every decision is on disk before it is answered."""
    from influential_bandits.live.serving import serve

    serve(
        store,
        host=host,
        port=port,
        workers=workers,
        keep_alive=keep_alive,
        root_path=root_path,
        key_file=key_file,
        log_format=log_format,
        access_log=access_log,
        tell=typer.echo,
    )


@app.command(name="shop", epilog="Example: influential-bandits shop --users 2000 --speed 0")
def run_made_up_shop(
    store: Store = "results/shop.db",
    port: Annotated[int, typer.Option(help="Port to listen on.")] = 8000,
    users: Annotated[int, typer.Option(help="How many made-up users come.")] = 2000,
    arms: Annotated[int, typer.Option(help="How many goods there are.")] = 10,
    influence: Annotated[
        float, typer.Option(help="Largest entry of the interaction; noise has deviation 1.")
    ] = 0.1,
    speed: Annotated[float, typer.Option(help="Visits a second; 0: as many as it takes.")] = 50.0,
    control: Annotated[str, typer.Option(help="Policy of the control group.")] = "Uniform",
    half_life_hours: Annotated[
        float | None,
        typer.Option(help="Hours after which half of what tires users is gone; days have nights."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the users.")] = 0,
) -> None:
    """Serve a made-up shop: simulated users with a known interaction visit the running service."""
    import threading

    from influential_bandits.live.serving import serve_in_background
    from influential_bandits.live.shop import open_shop

    Path(store).parent.mkdir(parents=True, exist_ok=True)

    with serve_in_background(store, port=port) as (address, key):
        typer.echo(f"Serving on {address}; stop with Ctrl-C. The key:\n\n    {key}\n")
        open_shop(
            address,
            key,
            users,
            arms,
            influence,
            speed,
            control,
            seed,
            half_life_hours,
            typer.echo,
        )
        threading.Event().wait()


@app.command(epilog="Example: influential-bandits backup shop.db shop-monday.db")
def backup(
    store: Annotated[str, typer.Argument(help="An SQLite file.")],
    file: Annotated[Path, typer.Argument(help="The copy, a new file.")],
) -> None:
    """Copy a store, also while it is served; to restore it, serve the copy."""
    from influential_bandits.live.store.opening import back_up

    back_up(store, file)
    typer.echo(f"Copied {store} to {file}")


keys = typer.Typer(no_args_is_help=True, help="List, make and drop keys of a store, without one.")
app.add_typer(keys, name="keys")
StoreOfKeys = Annotated[
    str,
    typer.Argument(envvar="INFLUENTIAL_BANDITS_STORE", help="An SQLite file, or postgresql://…"),
]


@keys.command(name="list", epilog="Example: influential-bandits keys list shop.db")
def list_keys(store: StoreOfKeys) -> None:
    """List digests, roles, labels and ends of keys; also while the store is served."""
    from datetime import UTC, datetime

    from influential_bandits.live.store.opening import open_to_read

    with open_to_read(store) as opened:
        names = {row.id: row.name for row in opened.experiments()}
        for key in opened.keys():  # noqa: SIM118 - no dictionary
            ends = "never" if key.ends is None else f"{datetime.fromtimestamp(key.ends, UTC):%F %T}"
            where = "all" if key.experiment is None else names.get(key.experiment, "a deleted one")
            typer.echo(f"{key.digest}  {key.role:6}  ends {ends}  of {where}  {key.label}")


@keys.command(name="make", epilog="Example: influential-bandits keys make shop.db till")
def make_key(
    store: StoreOfKeys,
    label: Annotated[str, typer.Argument(help="Whose it is.")],
    role: Annotated[str, typer.Option(help="reader, writer or admin.")] = "admin",
    experiment: Annotated[str, typer.Option(help="By default, all of them.")] = "",
    days: Annotated[
        float | None, typer.Option(min=0.0, help="Until it ends; by default never.")
    ] = None,
    key_file: Annotated[
        Path | None, typer.Option(help="New file for it; by default it is printed.")
    ] = None,
) -> None:
    """Make a key without having one, as when all are lost; an SQLite file must not be served."""
    import time

    from influential_bandits.live.serving import add_key, write_key
    from influential_bandits.live.store.opening import open_store

    with open_store(store) as opened:
        key = add_key(opened, label, time.time(), role, experiment=experiment, days=days)
    if key_file is None:
        typer.echo(key)
    else:
        write_key(key_file, key)


@keys.command(name="drop", epilog="Example: influential-bandits keys drop shop.db DIGEST")
def drop_key(
    store: StoreOfKeys,
    digest: Annotated[str, typer.Argument(help="As keys list says it.")],
) -> None:
    """Drop a key, but not the last one of everything; an SQLite file must not be served."""
    from influential_bandits.live.serving import drop_key
    from influential_bandits.live.store.opening import open_store

    with open_store(store) as opened:
        drop_key(opened, digest)


@app.command(epilog="Example: influential-bandits archive shop.db spring spring-2026")
def archive(
    store: Annotated[str, typer.Argument(help="An SQLite file, or postgresql://…")],
    experiment: Annotated[str, typer.Argument(help="A closed one.")],
    folder: Annotated[Path, typer.Argument(help="A new folder, for Parquet files.")],
) -> None:
    """Write a closed experiment as Parquet, which replay, results and read_log take."""
    from influential_bandits.live.store.archive import LOG, write_archive
    from influential_bandits.live.store.opening import open_to_read

    with open_to_read(store) as opened:
        write_archive(opened, experiment, folder)
    typer.echo(f"Wrote {folder}; its losses are {folder / LOG}")


@app.command(epilog="Example: influential-bandits results spring-2026")
def results(
    store: Annotated[
        str, typer.Argument(help="An SQLite file, postgresql://…, or the folder of an archive.")
    ],
) -> None:
    """Print the report of each experiment as JSON: the A/B test, and sums by arm and group."""
    import json
    import time

    from influential_bandits.live.report import Report
    from influential_bandits.live.store.opening import open_to_read

    with open_to_read(store) as opened:
        reports = {r.name: Report(r.id).make(opened, time.time()) for r in opened.experiments()}
    typer.echo(json.dumps(reports, indent=2, ensure_ascii=False))


@app.command(epilog="Example: influential-bandits replay shop.db")
def replay(
    store: Annotated[
        str,
        typer.Argument(
            envvar="INFLUENTIAL_BANDITS_STORE",
            help="An SQLite file, postgresql://…, or the folder of an archive.",
        ),
    ],
) -> None:
    """Compute every decision of a store again from its events; the first that differs is named."""
    from influential_bandits.live.replay import replay_store

    differ = 0
    for audit in replay_store(store):
        typer.echo(audit)
        differ += audit.differences
    if differ:
        raise typer.Exit(1)


@app.command(name="warm-up", epilog="Example: influential-bandits warm-up --policy MOSS")
def compile_ahead(
    policy: Annotated[
        list[str] | None,
        typer.Option(help="Policy of an experiment; by default Foresight, in both states."),
    ] = None,
) -> None:
    """Compile ahead what the service needs first, so that nobody waits for it later.

    Compiled code is kept on disk; what is there already is not compiled again.
    """
    with explain_stop("what was compiled is kept"):
        from influential_bandits.live.preparing import prepare
        from influential_bandits.live.settings import Settings

        arms = ("a", "b", "c")
        chosen = [Settings(arms=arms, policy=name) for name in policy or ()]
        for settings in chosen or [Settings(arms=arms), Settings(arms=arms, state="shared")]:
            typer.echo(f"{settings.policy}, {settings.state} state")
            prepare(settings)
    typer.echo("ready")
