"""What a study is: settings as data, and two functions, settings → rows and rows → findings."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from influential_bandits.errors import InvalidInput

__all__ = [
    "Analysis",
    "Bars",
    "Figure",
    "Finding",
    "Grid",
    "HeatMap",
    "Picture",
    "Piece",
    "Section",
    "Series",
    "Settings",
    "Study",
    "Table",
    "all_studies",
]

Columns: TypeAlias = Mapping[str, npt.ArrayLike]  # equally long columns: one row an observation
SIZES = ("full", "quick", "tiny")


@dataclass(frozen=True)
class Settings:
    """What every study lets the caller change; studies add fields of their own."""

    seeds: int  # number of random instances, or of seeds
    max_horizon: int


@dataclass(frozen=True)
class Piece:
    """A part of a study's rows that is computed and kept on its own, here or elsewhere."""

    name: str  # unique within the study, and a file name
    rows: Callable[[int | None], Columns]  # from the number of threads; picklable
    instances: range | None = None  # whose rows these are, if they are of some instances only
    split: Callable[[], list[Piece]] | None = None  # one piece for each instance
    labels: Mapping[str, Any] | None = None  # columns of one value that are not kept with the rows


def short_name(text: str) -> str:
    """Return a text as part of a file's name that every file system takes."""
    return "".join(c if c.isascii() and c.isalnum() else "-" for c in text).strip("-")[:60]


def piece_of_instances(
    name: str,
    label: str,
    numbers: range,
    rows: Callable[[range, int | None], Columns],
) -> Piece:
    """Return a piece that falls into pieces of single instances should one of them be bad."""
    split = partial(_single_instances, label, numbers, rows)
    return Piece(name, partial(rows, numbers), numbers, split)


def _single_instances(
    label: str, numbers: range, rows: Callable[[range, int | None], Columns]
) -> list[Piece]:
    return [
        Piece(f"{label}-instance-{n:05d}", partial(rows, range(n, n + 1)), range(n, n + 1))
        for n in numbers
    ]


@dataclass(frozen=True)
class Finding:
    """One line of the summary: a claim of the paper, and what was measured."""

    claim: str
    ours: float | str
    paper: float | str | None = None
    low: float | None = None  # 95 % interval
    high: float | None = None
    # "reproduced", "differs", "other data", or "ours" for what the paper does not claim
    verdict: str = "ours"
    reason: str = ""
    fitted: str = ""  # the range over which a slope was fitted


@dataclass(frozen=True, eq=False)
class Series:
    """One line, cloud of points or set of bars of a figure."""

    name: str
    x: npt.ArrayLike
    y: npt.ArrayLike
    low: npt.ArrayLike | None = None  # band
    high: npt.ArrayLike | None = None
    kind: str = "line"  # "line", "dashed", "faint" (in the background), "points" or "bars"


@dataclass(frozen=True, eq=False)
class Figure:
    """A picture as data, so that it can be drawn for print and for the browser alike."""

    name: str  # file name
    title: str
    x: str
    y: str
    series: list[Series]
    log_x: bool = True
    log_y: bool = True
    caption: str = ""


@dataclass(frozen=True, eq=False)
class Bars:
    """Named numbers with intervals, side by side."""

    name: str  # file name
    title: str
    labels: list[str]
    values: npt.ArrayLike  # (labels,)
    x: str  # what the numbers are
    low: npt.ArrayLike | None = None
    high: npt.ArrayLike | None = None
    caption: str = ""


@dataclass(frozen=True, eq=False)
class HeatMap:
    """A matrix as a picture: red above zero, blue below."""

    name: str  # file name
    title: str
    labels: list[str]  # of rows and columns
    values: npt.ArrayLike  # (labels, labels)
    caption: str = ""


@dataclass(frozen=True, eq=False)
class Grid:
    """A table of numbers as a picture: good ones blue, bad ones red, missing ones empty."""

    name: str  # file name
    title: str
    rows: list[str]
    columns: list[str]
    values: npt.ArrayLike  # (rows, columns); NaN is missing
    good: float  # the value that is all blue …
    bad: float  # … and the one that is all red
    digits: int = 2  # after the point
    caption: str = ""


Picture: TypeAlias = Figure | Bars | HeatMap | Grid


@dataclass(frozen=True)
class Table:
    """A table for readers."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""


@dataclass(frozen=True, eq=False)
class Analysis:
    """What a study found."""

    findings: list[Finding]
    figures: Sequence[Picture]
    notes: list[str] = field(default_factory=list)  # paragraphs of the report
    tables: Sequence[Table] = ()


@dataclass(frozen=True, eq=False)
class Section:
    """A part of a report: what was looked at, with which settings, and what was found."""

    name: str
    line: str  # what it shows, in one line
    settings: Mapping[str, Any]
    analysis: Analysis


@dataclass(frozen=True)
class Study:
    """A figure or table of the paper, or one of ours."""

    name: str
    order: int  # its place in lists and in the report
    line: str  # what it shows, in one line
    settings: Mapping[str, Settings]  # by size: full, quick, tiny
    pieces: Callable[[Any], Iterable[Piece]]  # settings → rows, piece by piece
    analyse: Callable[[Any, dict[str, npt.NDArray[Any]]], Analysis]  # settings, all rows → findings


def all_studies() -> dict[str, Study]:
    """Return every study by name, in order: the ``STUDY`` of each module of ``paper/``."""
    package = import_module("influential_bandits.studies.paper")
    studies = {}
    for module in pkgutil.iter_modules(package.__path__):
        study = getattr(import_module(f"{package.__name__}.{module.name}"), "STUDY", None)
        if study is not None:
            studies[study.name] = study
    return dict(sorted(studies.items(), key=lambda item: (item[1].order, item[0])))


def chosen_studies(names: Iterable[str]) -> list[Study]:
    """Return the studies of these names, or all; unknown names are an error."""
    known = all_studies()
    wanted = list(dict.fromkeys(names))
    for name in wanted:
        if name not in known:
            raise InvalidInput(f"unknown study {name!r}; there are {', '.join(known)}")
    return [known[name] for name in wanted or known]


def stacked(parts: Iterable[Columns]) -> dict[str, npt.NDArray[Any]]:
    """Return the columns of several pieces, one below the other."""
    tables = [{name: np.asarray(values) for name, values in part.items()} for part in parts]
    names = tables[0] if tables else ()
    return {name: np.concatenate([table[name] for table in tables]) for name in names}
