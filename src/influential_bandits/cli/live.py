"""Commands for live decisions: serve, and replay."""

from __future__ import annotations

from typing import Annotated

import typer

app = typer.Typer()

Store = Annotated[
    str,
    typer.Option(help="Where events are kept: the path of an SQLite file, or postgresql://…"),
]


@app.command(epilog="Example: influential-bandits serve --store shop.db --port 8000")
def serve(
    store: Store = "influential-bandits.db",
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.")] = 8000,
    workers: Annotated[int, typer.Option(help="Processes; more than one take PostgreSQL.")] = 1,
) -> None:
    """Decide live, over HTTP: every decision is on disk before it is answered."""
    from influential_bandits.live.serving import serve

    serve(store, host=host, port=port, workers=workers, tell=typer.echo)


@app.command(epilog="Example: influential-bandits replay shop.db")
def replay(
    store: Annotated[str, typer.Argument(help="An SQLite file, or postgresql://…")],
) -> None:
    """Compute every decision of a store again from its events; the first that differs is named."""
    from influential_bandits.live.replay import replay_store

    differ = 0
    for audit in replay_store(store):
        typer.echo(audit)
        differ += audit.differences
    if differ:
        raise typer.Exit(1)
