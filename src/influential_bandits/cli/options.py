"""Options that several commands share."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import Field, fields
from enum import Enum
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from influential_bandits.errors import InvalidInput
from influential_bandits.logs.options import ReadingOptions

Command = TypeVar("Command", bound=Callable[..., None])

Out = Annotated[Path, typer.Option(help="Folder for the results.")]
Jobs = Annotated[
    int | None,
    typer.Option(help="Threads, or workers of a cluster started here; by default all cores."),
]

Log = Annotated[Path, typer.Argument(help="CSV (also gzip), Parquet, or a folder of Parquet.")]
MergeArms = Annotated[
    float | None,
    typer.Option(
        "--merge-arms-below", help="Arms with less than this share of the events become one."
    ),
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


def unfold(
    command: Command, name: str, parameters: Sequence[inspect.Parameter], make: Callable[..., Any]
) -> Command:
    """Return a command with several options in the place of one parameter that is made of them."""

    @wraps(command)
    def run(**values: Any) -> None:
        several = {one.name: values.pop(one.name) for one in parameters}
        command(**{name: make(several)}, **values)

    unfolded: list[inspect.Parameter] = []
    for one in inspect.signature(command, eval_str=True).parameters.values():
        keyword = one.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        unfolded += parameters if one.name == name else [keyword]
    run.__signature__ = inspect.Signature(unfolded)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in unfolded}
    del run.__wrapped__
    return run  # type: ignore[return-value]


def takes(name: str, make: Callable[..., Any]) -> Callable[[Command], Command]:
    """Give a command the options of a function: it gets what that makes of them, by a name."""
    keyword = inspect.Parameter.KEYWORD_ONLY
    options = inspect.signature(make, eval_str=True).parameters.values()
    parameters = [option.replace(kind=keyword) for option in options]
    return lambda command: unfold(command, name, parameters, lambda given: make(**given))


def reads_log(command: Command) -> Command:
    """Give a command the options by which logs are read: it gets them as one mapping, ``reading``.

    They are those of :class:`ReadingOptions`, in the place of the parameter ``reading``.
    """
    taken = {
        option.metadata.get("name", option.name): option
        for option in fields(ReadingOptions)
        if option.metadata.get("help")
    }
    parameters = [_as_parameter(name, option) for name, option in taken.items()]

    def parse(values: Mapping[str, Any]) -> dict[str, Any]:
        given = {name: x for name, x in values.items() if x is not None and x is not False}
        return {
            taken[name].name: taken[name].metadata.get("parse", lambda value: value)(x)
            for name, x in given.items()
        }

    return unfold(command, "reading", parameters, parse)


def _as_parameter(name: str, option: Field[Any]) -> inspect.Parameter:
    """Return an option of reading as a parameter that typer makes an option of."""
    kind = option.metadata.get("type", str)
    flag = f"--{name.replace('_', '-')}"
    info = typer.Option(flag, help=option.metadata["help"])
    annotation: Any = Annotated[kind if kind is bool else kind | None, info]
    default = False if kind is bool else None
    keyword = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, keyword, default=default, annotation=annotation)


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
