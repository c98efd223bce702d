"""What a report is made of, as data: findings, figures, tables and sections."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy.typing as npt

from influential_bandits.display import Bars


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
    strong: bool = False  # stands out among the others


@dataclass(frozen=True, eq=False)
class Figure:
    """A picture as data, so that results know nothing of how they are drawn."""

    name: str  # file name
    title: str
    x: str
    y: str
    series: list[Series]
    log_x: bool = True
    log_y: bool = True
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


@dataclass(frozen=True, eq=False)
class Panels:
    """Small figures of one kind beside each other, to be compared; axes and legend are shared."""

    name: str  # file name
    title: str
    figures: Sequence[Figure]
    caption: str = ""


Picture: TypeAlias = Figure | Bars | HeatMap | Grid | Panels


@dataclass(frozen=True)
class Table:
    """A table for readers."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    folded: bool = False  # shown when asked for; long tables are anyway
    shown: int = 0  # rows that stand before the fold
    words: int = 1  # first columns that are words; the others are numbers, to the right
    strong: Collection[tuple[int, int]] = ()  # cells that stand out, by row and column


@dataclass(frozen=True, eq=False)
class Analysis:
    """What a study found."""

    findings: list[Finding]
    figures: Sequence[Picture]
    notes: list[str] = field(default_factory=list)  # paragraphs of the report
    tables: Sequence[Table] = ()


@dataclass(frozen=True)
class Badge:
    """The verdict in a word or two."""

    text: str
    tone: str  # "bad", "good", "unsure" or "quiet"


@dataclass(frozen=True)
class Opening:
    """What a report says first: what was found, and the one picture that shows it."""

    sentences: Sequence[str]  # three at most
    section: str = ""  # whose picture it is; none by default
    figure: str = ""
    badge: Badge | None = None
    table: Table | None = None  # what to do


@dataclass(frozen=True, eq=False)
class Section:
    """A part of a report: what was looked at, with which settings, and what was found."""

    name: str
    description: str  # what it shows, in one line
    settings: Mapping[str, Any]
    analysis: Analysis
    title: str = ""  # for readers; by default the name
    short: Table | None = None  # for a terminal
