"""Commands for live decisions: serve, shop and replay."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer()

Store = Annotated[
    str,
    typer.Option(
        envvar="INFLUENTIAL_BANDITS_STORE",  # others can read a password on the command line
        help="Where events are kept: the path of an SQLite file, or postgresql://…",
    ),
]


@app.command(epilog="Example: influential-bandits serve --store shop.db --port 8000")
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
    from influential_bandits.live.serving import serve
    from influential_bandits.live.shop import open_shop

    Path(store).parent.mkdir(parents=True, exist_ok=True)

    def visit(key: str) -> None:
        open_shop(
            f"http://127.0.0.1:{port}",
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

    serve(store, port=port, tell=typer.echo, meanwhile=visit)


@app.command(epilog="Example: influential-bandits backup shop.db shop-monday.db")
def backup(
    store: Annotated[str, typer.Argument(help="An SQLite file.")],
    file: Annotated[Path, typer.Argument(help="The copy, a new file.")],
) -> None:
    """Copy a store, also while it is served; to restore it, serve the copy."""
    from influential_bandits.live.store.opening import back_up

    back_up(store, file)
    typer.echo(f"Copied {store} to {file}")


@app.command(epilog="Example: influential-bandits replay shop.db")
def replay(
    store: Annotated[
        str,
        typer.Argument(
            envvar="INFLUENTIAL_BANDITS_STORE", help="An SQLite file, or postgresql://…"
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
