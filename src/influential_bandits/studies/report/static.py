"""Figures for print: PNG and SVG."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from influential_bandits import __version__
from influential_bandits.checks import optional_module
from influential_bandits.display import draw_bars, draw_matrix, escape_formulas, take_axes
from influential_bandits.errors import InvalidInput
from influential_bandits.files import write_atomically
from influential_bandits.studies.report.content import Bars, Figure, Grid, HeatMap, Picture, Series
from influential_bandits.studies.report.palette import COLOURS, FAINT, MARKERS, places
from influential_bandits.studies.report.text import grid_text

FORMATS = ("png", "svg")


def draw(figure: Picture, folder: Path, settings: Mapping[str, Any]) -> None:
    """Write a figure as PNG and SVG; version and settings are in their metadata."""
    matplotlib = optional_module("matplotlib")
    matplotlib.use("Agg")
    pyplot = optional_module("matplotlib.pyplot")
    with (
        matplotlib.rc_context({"svg.hashsalt": figure.name, "font.size": 10}),
        warnings.catch_warnings(),
    ):
        warnings.filterwarnings("ignore", "Glyph")  # a name in a script that the font lacks
        canvas, ax = pyplot.subplots(figsize=_size(figure), layout="constrained")
        draw_on(ax, figure)
        made_by = f"influential-bandits {__version__}, {settings}"
        for suffix in FORMATS:
            metadata = (
                {"Date": None, "Creator": made_by} if suffix == "svg" else {"Software": made_by}
            )
            save = partial(canvas.savefig, format=suffix, dpi=160, metadata=metadata)
            write_atomically(folder / f"{figure.name}.{suffix}", save)
        pyplot.close(canvas)


def draw_named(figures: Mapping[str, Picture], wanted: str | None, ax: Any = None) -> Any:
    """Draw the figure of a family on matplotlib axes; it need not be named if there is but one."""
    if wanted is None and len(figures) == 1:
        (wanted,) = figures
    if wanted is None or wanted not in figures:
        names = ", ".join(figures)
        problem = f"there is no family {wanted!r} in this comparison; there are {names}"
        if wanted is None:
            problem = f"name the family to draw, one of {names}, or draw all with plot_families()"
        raise InvalidInput(problem)
    ax = take_axes(ax)
    draw_on(ax, figures[wanted])
    return ax


def draw_panels(figures: Sequence[Picture]) -> Any:
    """Draw several figures in panels of one, three in a row; return the matplotlib figure."""
    across = min(len(figures), 3)
    down = -(-len(figures) // across)
    canvas, axes = optional_module("matplotlib.pyplot").subplots(
        down, across, figsize=(6.0 * across, 4.2 * down), layout="constrained", squeeze=False
    )
    for ax, figure in zip(axes.flat, figures, strict=False):
        draw_on(ax, figure)
    for ax in axes.flat[len(figures) :]:
        ax.remove()
    return canvas


def draw_on(ax: Any, figure: Picture) -> None:
    """Draw a figure on matplotlib axes."""
    if isinstance(figure, Grid):
        ax.figure.suptitle(figure.title, fontsize=11)  # over the names of the rows too
    else:
        ax.set_title(figure.title)
    if isinstance(figure, Figure):
        _lines(ax, figure)
    elif isinstance(figure, Bars):
        draw_bars(ax, figure.labels, figure.values, figure.low, figure.high, x=figure.x)
    elif isinstance(figure, Grid):
        _grid(ax, figure)
    else:
        draw_matrix(ax, figure.labels, figure.values)


def _size(figure: Picture) -> tuple[float, float]:
    if isinstance(figure, HeatMap):
        return 7.2, 6.4
    if isinstance(figure, Grid):
        return max(5.4, 2.2 + 0.5 * len(figure.columns)), max(3.0, 2.0 + 0.3 * len(figure.rows))
    return (6.0, 4.2) if isinstance(figure, Figure) else (6.4, 1.4 + 0.3 * len(figure.labels))


def _lines(ax: Any, figure: Figure) -> None:
    bottom: Any = 0.0
    faint = [series for series in figure.series if series.kind == "faint"]
    shown = [series for series in figure.series if series.kind != "faint"]
    for n, series in enumerate(faint):
        name = f"{len(faint)} others" if len(faint) > 1 else series.name
        ax.plot(series.x, series.y, color=FAINT, linewidth=0.8, label=name if n == 0 else None)
    for series, number in zip(shown, places([series.name for series in shown]), strict=True):
        bottom = _series(ax, series, number, bottom)
    ax.set(
        xlabel=figure.x,
        ylabel=figure.y,
        xscale="log" if figure.log_x else "linear",
        yscale="log" if figure.log_y else "linear",
    )
    ax.grid(True, alpha=0.3)
    if len(figure.series) > 6:
        ax.legend(fontsize=7)
    elif len(figure.series) > 1:
        ax.legend()


def _grid(ax: Any, figure: Grid) -> None:
    values = np.asarray(figure.values, float)
    ax.imshow(_goodness(figure), cmap="RdBu", vmin=-1.4, vmax=1.4, aspect="auto")
    ax.set_xticks(
        range(len(figure.columns)), escape_formulas(figure.columns), rotation=90, fontsize=8
    )
    ax.set_yticks(range(len(figure.rows)), escape_formulas(figure.rows), fontsize=8)
    ax.xaxis.tick_top()
    for i, j in np.argwhere(np.isfinite(values)):
        text = grid_text(values[i, j], figure.digits)
        ax.text(j, i, text, ha="center", va="center", fontsize=7)


def _goodness(figure: Grid) -> Any:
    """Return 1 for good values, −1 for bad ones; the colours beyond are too dark for text."""
    middle = 0.5 * (figure.good + figure.bad)
    half = 0.5 * (figure.good - figure.bad) or 1.0
    return np.clip((np.asarray(figure.values, float) - middle) / half, -1.0, 1.0)


def _series(ax: Any, series: Series, number: int, bottom: Any) -> Any:
    """Draw one series; bars are stacked, so return the new bottom."""
    colour, marker = COLOURS[number], MARKERS[number]
    x, y = np.asarray(series.x, float), np.asarray(series.y, float)
    if series.kind == "bars":
        width = 0.9 * float(np.diff(x).min(initial=np.inf) if len(x) > 1 else 1.0)
        ax.bar(x, y, width=width, bottom=bottom, color=colour, label=series.name)
        return bottom + y
    if series.kind == "points":
        ax.plot(x, y, marker, color=colour, markersize=3, alpha=0.5, label=series.name)
        return bottom
    style = "--" if series.kind == "dashed" else "-"
    few = marker if len(x) <= 40 and series.kind == "line" else None
    ax.plot(x, y, style, color=colour, marker=few, markersize=4, label=series.name)
    if series.low is not None:
        ax.fill_between(x, series.low, series.high, color=colour, alpha=0.2, linewidth=0)
    return bottom
