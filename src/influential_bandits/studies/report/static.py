"""Figures drawn by matplotlib: as files for print, and as parts of a page."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from html import escape
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

from influential_bandits import __version__
from influential_bandits.display import DARK, Bars, draw_matrix, escape_formulas
from influential_bandits.files import write_atomically
from influential_bandits.packages import optional_module
from influential_bandits.studies.report.content import (
    Figure,
    Grid,
    HeatMap,
    Panels,
    Picture,
    Series,
)
from influential_bandits.studies.report.text import grid_text

# Colours and markers that colour-blind readers and grey printers can tell apart.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
BY_NAME = {"LCB": 1, "InfluentialLCB": 0, "Uniform": 2, "easy": 0, "hard": 1} | {
    "the same user, adjusted": 0,
    "as logged": 1,
}
FAINT = "#BBBBBB"
PANEL = (3.0, 2.3)  # inches
POINTS = 72.0  # an inch
LARGEST, SMALLEST = 1.45, 0.85  # pixels of a page for a point, where it is wide and where narrow
MANY_POINTS = 1000  # more are drawn as pixels
INK, ON_LIGHT = "#010203", "#1a1a1a"  # the first becomes the page's own colour
INKED = (
    *("text.color", "axes.edgecolor", "axes.labelcolor"),
    *("xtick.color", "ytick.color", "legend.labelcolor"),
)
NAMED = "series: "


def draw(figure: Picture, folder: Path, settings: Mapping[str, Any]) -> None:
    """Write a figure as PNG and as SVG; version and settings are in their metadata."""
    with _quietly({"svg.hashsalt": figure.name, "font.size": 10}):
        canvas = _make_canvas(figure)
        made_by = f"influential-bandits {__version__}, {settings}"
        metadata = {"png": {"Software": made_by}, "svg": {"Creator": made_by, "Date": None}}
        for suffix, about in metadata.items():
            save = partial(canvas.savefig, format=suffix, dpi=160, metadata=about)
            write_atomically(folder / f"{figure.name}.{suffix}", save)


def draw_inline(figure: Picture, name: str) -> str:
    """Return a figure as a part of a page, without its title, which the page breaks into lines.

    Texts and axes have the colour of the page's text, in the light and in the dark. Series have
    their names where a mouse is over them. ``name`` keeps the figures of a page apart.
    """
    if isinstance(figure, Panels):
        parts = [
            f"<div><h5>{escape(panel.title)}</h5>{_draw_svg(panel, f'{name}-{n}', PANEL)}</div>"
            for n, panel in enumerate(figure.figures)
        ]
        return f'<div class="panels" id="{escape(name)}">{"".join(parts)}</div>'
    return (
        f'<div class="drawing" id="{escape(name)}">{_draw_svg(figure, name, _size(figure))}</div>'
    )


def _draw_svg(figure: Picture, name: str, size: tuple[float, float]) -> str:
    """Return a figure as SVG that scales with its surroundings."""
    inked = dict.fromkeys(INKED, INK) | {"legend.facecolor": "none", "legend.edgecolor": "none"}
    alone = size != PANEL
    with _quietly({"svg.hashsalt": name, "svg.fonttype": "none", "font.size": 10, **inked}):
        canvas = optional_module("matplotlib.figure").Figure(size, layout="constrained")
        draw_on(canvas.subplots(), figure, inline=True, legend=alone)
        text = StringIO()
        metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        canvas.savefig(text, format="svg", transparent=True, metadata=metadata)
    svg = text.getvalue()
    svg = svg[svg.index("<svg") :]
    width = POINTS * size[0]
    style = f"width:{LARGEST * width:.0f}px;max-width:100%;min-width:{SMALLEST * width:.0f}px"
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', rf'\1 style="{style}" role="img"', svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(rf'<g id="{NAMED}([^"]*)">', r"<g><title>\1</title>", svg)
    svg = re.sub(r'<g id="[A-Za-z_.0-9]*">', "<g>", svg)  # the same in every figure of the page
    for colour in (INK, DARK, COLOURS[-1]):
        svg = svg.replace(colour.lower(), "currentColor")
    return svg


@contextmanager
def _quietly(settings: Mapping[str, Any]) -> Iterator[None]:
    """Set matplotlib up for a while; names in scripts that its font lacks are no trouble."""
    with optional_module("matplotlib").rc_context(settings), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")
        yield


def _make_canvas(figure: Picture) -> Any:
    """Return a drawn figure; none of pyplot's, which would belong to the user's own session."""
    canvas = optional_module("matplotlib.figure").Figure(layout="constrained")
    if isinstance(figure, Panels):
        return _draw_panels(figure.figures, figure.title, canvas)
    canvas.set_size_inches(_size(figure))
    draw_on(canvas.subplots(), figure)
    return canvas


def _draw_panels(figures: Sequence[Picture], title: str, canvas: Any) -> Any:
    """Draw several figures in panels of one, three in a row; return the matplotlib figure."""
    across = min(len(figures), 3)
    down = -(-len(figures) // across)
    canvas.set_size_inches(6.0 * across, 4.2 * down)
    axes = canvas.subplots(down, across, squeeze=False)
    for n, (ax, figure) in enumerate(zip(axes.flat, figures, strict=False)):
        draw_on(ax, figure, legend=n == 0)
    for ax in axes.flat[len(figures) :]:
        ax.remove()
    canvas.suptitle(title.replace("$", r"\$"))
    return canvas


def draw_on(ax: Any, figure: Picture, *, inline: bool = False, legend: bool = True) -> None:
    """Draw a figure on matplotlib axes; ``inline`` in a page, lines have names and it no title."""
    if not inline and isinstance(figure, Grid):
        ax.figure.suptitle(figure.title, fontsize=11)  # over the names of the rows too
    elif not inline:
        ax.set_title(figure.title.replace("$", r"\$"))
    if isinstance(figure, Figure):
        _lines(ax, figure, legend, NAMED if inline else None)
    elif isinstance(figure, Bars):
        figure.draw(ax, titled=False)
    elif isinstance(figure, Grid):
        _grid(ax, figure)
    elif isinstance(figure, HeatMap):
        draw_matrix(ax, figure.labels, figure.values)


def _size(figure: Picture) -> tuple[float, float]:
    if isinstance(figure, HeatMap):
        return 6.4, 5.6
    if isinstance(figure, Grid):
        return max(5.4, 2.2 + 0.5 * len(figure.columns)), max(3.0, 2.0 + 0.3 * len(figure.rows))
    if isinstance(figure, Bars):
        return 5.4, 1.3 + 0.28 * len(figure.labels)
    return 5.4, 3.8


def places(names: list[str]) -> list[int]:
    """Return which colour each series of a figure gets.

    Well-known policies have the same one in every figure; the others take what is left, and only
    when all colours are in use is one used again.
    """
    taken = [BY_NAME[name] for name in names if name in BY_NAME]
    free = [n for n in range(len(COLOURS)) if n not in taken]
    others = [name for name in names if name not in BY_NAME]
    queue = [*free, *range(len(COLOURS))]
    given = {name: queue[n % len(queue)] for n, name in enumerate(dict.fromkeys(others))}
    return [BY_NAME.get(name, given.get(name, 0)) for name in names]


def _lines(ax: Any, figure: Figure, legend: bool, named: str | None) -> None:
    bottom: Any = 0.0
    faint = [series for series in figure.series if series.kind == "faint"]
    shown = [series for series in figure.series if series.kind != "faint"]
    for n, series in enumerate(faint):
        name = f"{len(faint)} others" if len(faint) > 1 else series.name
        (line,) = ax.plot(series.x, series.y, color=FAINT, linewidth=0.8)
        line.set(label=name if n == 0 else None, gid=named and named + series.name)
    for series, number in zip(shown, places([series.name for series in shown]), strict=True):
        bottom = _series(ax, series, number, bottom, named)
    ax.set(
        xlabel=figure.x,
        ylabel=figure.y,
        xscale="log" if figure.log_x else "linear",
        yscale="log" if figure.log_y else "linear",
    )
    ax.grid(True, alpha=0.3)
    if legend and len(figure.series) > 1:
        ax.legend(fontsize=7 if len(figure.series) > 6 else 8)


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
        ax.text(j, i, text, ha="center", va="center", fontsize=7, color=ON_LIGHT)


def _goodness(figure: Grid) -> Any:
    """Return 1 for good values, −1 for bad ones; the colours beyond are too dark for text."""
    middle = 0.5 * (figure.good + figure.bad)
    half = 0.5 * (figure.good - figure.bad) or 1.0
    return np.clip((np.asarray(figure.values, float) - middle) / half, -1.0, 1.0)


def _series(ax: Any, series: Series, number: int, bottom: Any, named: str | None) -> Any:
    """Draw one series; bars are stacked, so return the new bottom."""
    colour, marker = COLOURS[number], MARKERS[number]
    x, y = np.asarray(series.x, float), np.asarray(series.y, float)
    if series.kind == "bars":
        width = 0.9 * float(np.diff(x).min(initial=np.inf) if len(x) > 1 else 1.0)
        ax.bar(x, y, width=width, bottom=bottom, color=colour, label=series.name)
        return bottom + y
    if series.kind == "points":
        (cloud,) = ax.plot(x, y, marker, color=colour, markersize=3, alpha=0.5, label=series.name)
        cloud.set_rasterized(len(x) > MANY_POINTS)
        return bottom
    style = "--" if series.kind == "dashed" else "-"
    few = marker if len(x) <= 40 and series.kind == "line" else None
    (line,) = ax.plot(x, y, style, color=colour, marker=few, markersize=4, label=series.name)
    line.set_linewidth(3.0 if series.strong else 1.5)
    line.set_gid(named and named + series.name)
    if series.low is not None:
        ax.fill_between(x, series.low, series.high, color=colour, alpha=0.2, linewidth=0)
    return bottom
