"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from influential_bandits.errors import InvalidInput

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
    str | None, typer.Option("--time", help="Column: seconds, or dates; 'none' for file order.")
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
Separator = Annotated[
    str | None, typer.Option(help="Of the CSV, such as '::'; usual ones are found by themselves.")
]
Columns = Annotated[
    str | None,
    typer.Option(help="Of CSV without a header: all columns, as in user,film,rating,time."),
]
Key = Annotated[
    str | None,
    typer.Option(
        help="Columns that no two rows may share, as in user,time; without them, rows that repeat "
        "another are kept and counted."
    ),
]
MergeArms = Annotated[
    float | None,
    typer.Option(
        "--merge-arms-below", help="Arms with less than this share of the events become one."
    ),
]
ItemColumn = Annotated[
    str | None,
    typer.Option("--item", help="Column: which item of the arm it was; items differ in quality."),
]
Controls = Annotated[
    list[str] | None,
    typer.Option(
        "--control",
        help="Column that may move losses: numbers or categories (COLUMN:categories says so). May "
        "be given again.",
    ),
]
DropBadRows = Annotated[
    bool, typer.Option("--drop-bad-rows", help="Drop bad rows and count them, not refuse the file.")
]
HalfLifeDays = Annotated[
    float | None, typer.Option(help="Days after which half of the influence is gone, by the clock.")
]
MovieLensData = Annotated[
    Path | None,
    typer.Option(
        "--data", help="MovieLens release to learn a family from; or MOVIELENS_DATA names it."
    ),
]
Seed = Annotated[int, typer.Option(help="Of everything random.")]


class Engine(Enum):
    """Where work is done, by name."""

    local = "local"
    dask = "dask"
    gpu = "gpu"


EngineName = Annotated[
    Engine,
    typer.Option("--engine", help="This computer, a Dask cluster, or a GPU. Changes no digit."),
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


def split_list(texts: Iterable[str] | None) -> list[str]:
    """Return what stands between commas, except for commas within brackets."""
    parts = []
    for text in texts or ():
        part, depth = "", 0
        for character in text + ",":
            depth += (character in "([") - (character in ")]")
            if character == "," and depth <= 0:
                parts.append(part.strip())
                part = ""
            else:
                part += character
        parts.append(part.strip(" ,"))
    return [part for part in parts if part]


def parse_horizons(texts: Iterable[str] | None) -> list[int]:
    """Return horizons, separated by commas and written as 1000, 1_000 or 1e3."""
    horizons: list[Any] = []  # whole or not is checked with all other horizons
    for text in split_list(texts):
        try:
            horizons.append(float(text.replace("_", "")))
        except ValueError:
            raise InvalidInput(
                f"horizons must be whole numbers such as 1000 or 1e6, got {text!r}"
            ) from None
    return horizons
